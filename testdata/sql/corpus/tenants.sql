-- A service of many tenants: rows live by tenant, joins stay within one, and reports go over all of them.
CREATE TABLE plan (code varchar(8) PRIMARY KEY, monthly numeric(8,2) NOT NULL, seats integer);
CREATE TABLE tenant (id integer PRIMARY KEY, name text NOT NULL, plan varchar(8) NOT NULL, country char(2), since date NOT NULL, active boolean NOT NULL DEFAULT true);
CREATE TABLE member (
    tenant integer NOT NULL, id integer NOT NULL, email text NOT NULL, role varchar(10) NOT NULL DEFAULT 'user', hourly numeric(8,2),
    handle text GENERATED ALWAYS AS (lower(split_part(email, '@', 1))) STORED,
    PRIMARY KEY (tenant, id)
);
CREATE TABLE task (
    tenant integer NOT NULL, id integer NOT NULL, title text NOT NULL, owner integer, parent integer, state varchar(8) NOT NULL DEFAULT 'open',
    points smallint, due date, created timestamp NOT NULL, tags text[], PRIMARY KEY (tenant, id)
);
CREATE TABLE spent (
    tenant integer NOT NULL, task integer NOT NULL, number integer NOT NULL, member integer NOT NULL, minutes integer NOT NULL,
    hours double precision GENERATED ALWAYS AS (minutes / 60.0) STORED, day date NOT NULL,
    PRIMARY KEY (tenant, task, number)
);
CREATE TABLE event (id bigint PRIMARY KEY, tenant integer, kind text NOT NULL, amount bigint, at timestamptz, ok boolean);
CREATE INDEX task_state ON task (tenant, state);
COMMENT ON TABLE tenant IS 'weir: partition by (id)';
COMMENT ON TABLE member IS 'weir: partition by (tenant)';
COMMENT ON TABLE task IS 'weir: partition by (tenant)';
COMMENT ON TABLE spent IS 'weir: partition by (tenant)';
COMMENT ON TABLE event IS 'weir: partition by (id)';
COMMENT ON TABLE plan IS 'weir: replicated';
-- rows
INSERT INTO plan VALUES ('free', 0, 2), ('team', 49.90, 10), ('big', 499, NULL);
INSERT INTO tenant VALUES (1, 'Acme', 'team', 'DE', '2020-03-01', true), (2, 'Bolt', 'free', 'FR', '2021-07-15', true), (3, 'Cogs', 'big', 'DE', '2019-01-01', true),
    (4, 'Dusk', 'free', NULL, '2022-02-02', false), (5, 'Echo', 'team', 'US', '2023-05-05', true), (6, 'Fern', 'free', 'US', '2023-05-05', true);
INSERT INTO member (tenant, id, email, role, hourly) VALUES (1, 1, 'Ann@acme.de', 'owner', 80), (1, 2, 'bob@acme.de', 'user', 60), (1, 3, 'cyd@acme.de', 'user', NULL),
    (2, 1, 'dan@bolt.fr', 'owner', 55.5), (3, 1, 'Eve@cogs.de', 'owner', 120), (3, 2, 'fay@cogs.de', 'admin', 90), (3, 3, 'gil@cogs.de', 'user', 70),
    (3, 4, 'hal@cogs.de', 'user', 70), (5, 1, 'ida@echo.us', 'owner', NULL);
INSERT INTO task VALUES (1, 1, 'Design', 1, NULL, 'done', 5, '2024-01-10', '2024-01-01 09:00', '{ui,ux}'), (1, 2, 'Build', 2, 1, 'open', 8, '2024-02-01', '2024-01-02 10:00', '{api}'),
    (1, 3, 'Test', 2, 2, 'open', NULL, NULL, '2024-01-03 11:30', NULL), (2, 1, 'Pitch', 1, NULL, 'open', 3, '2024-01-05', '2024-01-01 08:00', '{}'),
    (3, 1, 'Audit', 2, NULL, 'done', 13, '2024-03-01', '2024-01-04 16:45', '{legal,ui}'), (3, 2, 'Fix', 3, 1, 'stuck', 2, '2024-01-31', '2024-01-05 12:00', '{api,ops}'),
    (3, 3, 'Ship', 4, 1, 'open', 5, '2024-02-15', '2024-01-05 12:00', '{ops}'), (5, 1, 'Plan', NULL, NULL, 'open', 1, NULL, '2024-01-06 00:00', NULL);
INSERT INTO spent (tenant, task, number, member, minutes, day) VALUES (1, 1, 1, 1, 90, '2024-01-08'), (1, 1, 2, 2, 45, '2024-01-09'), (1, 2, 1, 2, 120, '2024-01-09'),
    (2, 1, 1, 1, 30, '2024-01-04'), (3, 1, 1, 2, 240, '2024-01-10'), (3, 1, 2, 1, 15, '2024-01-11'), (3, 2, 1, 3, 60, '2024-01-11'), (3, 3, 1, 4, 75, '2024-01-12');
INSERT INTO event VALUES (1, 1, 'login', NULL, '2024-01-01 08:00+00', true), (2, 1, 'pay', 4990, '2024-01-01 09:00+00', true), (3, 2, 'login', NULL, '2024-01-01 10:00+00', false),
    (4, 3, 'pay', 49900, '2024-01-02 09:00+00', true), (5, 3, 'pay', 49900, '2024-02-02 09:00+00', false), (6, NULL, 'probe', 0, NULL, NULL), (7, 9, 'login', NULL, '2024-01-03 00:00+00', true),
    (8, 1, 'pay', 4990, '2024-02-01 09:00+00', true), (9, 5, 'pay', -100, '2024-02-03 09:00+00', true);

-- cases
-- one table of all shards
SELECT count(*) FROM task;
SELECT count(points), count(DISTINCT points), count(*) FROM task;
SELECT sum(points), avg(points), min(points), max(points) FROM task;
SELECT sum(amount), avg(amount), min(at), max(at) FROM event;
SELECT sum(minutes), sum(hours), avg(hours) FROM spent;
SELECT sum(hourly), avg(hourly) FROM member;
SELECT avg(points) FROM task WHERE tenant = 99;
SELECT sum(points), count(*), max(title) FROM task WHERE tenant > 99;
SELECT bool_and(ok), bool_or(ok), every(ok IS NOT NULL) FROM event;
SELECT bit_and(points), bit_or(points), bit_xor(points) FROM task;
SELECT count(*) FILTER (WHERE state = 'open'), sum(points) FILTER (WHERE state <> 'open'), count(*) FROM task;
SELECT max(due) - min(due) AS days, max(created) - min(created) AS span FROM task;
SELECT count(*) + 1, sum(points) * 2 - count(points), coalesce(max(due), '2000-01-01') FROM task;
SELECT round(avg(points), 2), round(sum(minutes) / 60.0, 1) FROM task, spent WHERE task.tenant = 1 AND spent.tenant = 1;
SELECT string_agg(title, ',' ORDER BY title) FROM task;
SELECT array_agg(id ORDER BY tenant, id DESC) FROM task WHERE state = 'open';
SELECT string_agg(DISTINCT state, '/' ORDER BY state DESC) FROM task;
SELECT stddev(points), variance(minutes) FROM task JOIN spent ON spent.tenant = task.tenant AND spent.task = task.id;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY minutes), mode() WITHIN GROUP (ORDER BY day) FROM spent;
SELECT count(*) FROM event WHERE at IS NULL OR NOT ok;
SELECT kind, count(*) FROM event GROUP BY kind ORDER BY kind;
SELECT kind, sum(amount), avg(amount) FROM event GROUP BY kind HAVING sum(amount) > 0 ORDER BY 1;
SELECT kind, ok, count(*) FROM event GROUP BY kind, ok ORDER BY kind, ok NULLS FIRST;
SELECT ok, max(amount) AS most FROM event GROUP BY ok ORDER BY most DESC NULLS LAST, ok LIMIT 2;
SELECT date_trunc('month', at) AS month, count(*), sum(amount) FROM event GROUP BY 1 ORDER BY 1 NULLS LAST;
SELECT extract(dow FROM day) AS weekday, sum(minutes) FROM spent GROUP BY 1 ORDER BY 1;
SELECT upper(kind) AS k, count(*) FROM event GROUP BY upper(kind) HAVING count(*) BETWEEN 2 AND 4 ORDER BY k;
SELECT amount > 1000 AS large, count(*) FROM event GROUP BY amount > 1000 ORDER BY large NULLS FIRST;
SELECT state, count(*) AS n FROM task GROUP BY state ORDER BY n DESC, state OFFSET 1;
SELECT DISTINCT state FROM task ORDER BY state;
SELECT DISTINCT country FROM tenant ORDER BY country NULLS FIRST LIMIT 3;
SELECT DISTINCT kind, ok FROM event ORDER BY 1, 2 OFFSET 2 LIMIT 3;
SELECT count(DISTINCT kind) FROM event;
SELECT title, points FROM task ORDER BY points DESC NULLS LAST, title LIMIT 3;
SELECT title FROM task ORDER BY created DESC, title OFFSET 3 FETCH NEXT 2 ROWS ONLY;
SELECT points FROM task ORDER BY points FETCH FIRST 4 ROWS WITH TIES;
SELECT title FROM task WHERE 'ops' = ANY (tags) ORDER BY title;
SELECT title, cardinality(tags) FROM task WHERE tags @> '{ui}' ORDER BY length(title), title;
SELECT id, kind FROM event WHERE id BETWEEN 3 AND 6 ORDER BY id DESC;
SELECT id FROM event WHERE id IN (2, 4, 8, 16) ORDER BY id;
SELECT DISTINCT ON (kind) kind, id, amount FROM event ORDER BY kind, amount DESC NULLS LAST, id;
SELECT DISTINCT ON (tenant) tenant, title FROM task ORDER BY tenant, created DESC, id LIMIT 3;
SELECT kind, amount / nullif(amount, 0) FROM event WHERE amount IS NOT NULL ORDER BY id;
SELECT 100 / amount FROM event WHERE kind = 'probe';
SELECT sum(100 / amount) FROM event;
SELECT kind FROM event GROUP BY kind HAVING 1 / (count(*) - 1) = 1;
SELECT kind, amount FROM event GROUP BY kind;
SELECT sum(kind) FROM event;
SELECT tenant, count(*) FROM task WHERE count(*) > 1 GROUP BY tenant;
SELECT count(*) AS n FROM task HAVING count(*) > 100;
SELECT count(*) AS n, 'all' AS what FROM task HAVING count(*) > 2;
-- groups at home
SELECT tenant, count(*), sum(points) FROM task GROUP BY tenant ORDER BY tenant;
SELECT tenant, state, count(*) FROM task GROUP BY tenant, state HAVING count(*) > 1 ORDER BY 1, 2;
SELECT tenant, array_agg(title ORDER BY id) FROM task GROUP BY tenant ORDER BY tenant LIMIT 2;
SELECT tenant, count(DISTINCT owner) FROM task GROUP BY tenant ORDER BY 2 DESC, 1;
SELECT tenant, avg(points), count(points) FROM task GROUP BY tenant ORDER BY avg(points) DESC NULLS LAST, tenant;
SELECT t.id, t.name, count(k.id) FROM tenant t LEFT JOIN task k ON k.tenant = t.id GROUP BY t.id, t.name ORDER BY t.id;
SELECT t.id, t.name, t.country, sum(s.minutes) FROM tenant t JOIN spent s ON s.tenant = t.id GROUP BY t.id ORDER BY 4 DESC, 1;
SELECT m.tenant, m.role, sum(s.minutes * m.hourly / 60) AS cost FROM member m JOIN spent s ON s.tenant = m.tenant AND s.member = m.id GROUP BY m.tenant, m.role ORDER BY 1, 2;
-- joins within a tenant
SELECT t.name, k.title FROM tenant t JOIN task k ON k.tenant = t.id WHERE k.state = 'open' ORDER BY t.name, k.title;
SELECT t.name, k.title, m.email FROM tenant t JOIN task k ON k.tenant = t.id LEFT JOIN member m ON m.tenant = k.tenant AND m.id = k.owner ORDER BY t.id, k.id;
SELECT k.title, p.title AS parent FROM task k LEFT JOIN task p ON p.tenant = k.tenant AND p.id = k.parent ORDER BY k.tenant, k.id;
SELECT t.name FROM tenant t LEFT JOIN task k ON k.tenant = t.id WHERE k.id IS NULL ORDER BY 1;
SELECT t.name FROM tenant t WHERE NOT EXISTS (SELECT 1 FROM task k WHERE k.tenant = t.id) ORDER BY t.name;
SELECT t.name FROM tenant t WHERE EXISTS (SELECT FROM task k WHERE k.tenant = t.id AND k.points > 4) ORDER BY t.name;
SELECT t.name, (SELECT count(*) FROM member m WHERE m.tenant = t.id) AS members FROM tenant t ORDER BY members DESC, t.name;
SELECT t.name, (SELECT k.title FROM task k WHERE k.tenant = t.id ORDER BY k.created DESC, k.id DESC LIMIT 1) AS latest FROM tenant t ORDER BY t.id;
SELECT k.title, k.points FROM task k WHERE k.points = (SELECT max(x.points) FROM task x WHERE x.tenant = k.tenant) ORDER BY k.title;
SELECT k.title FROM task k WHERE (k.tenant, k.id) IN (SELECT s.tenant, s.task FROM spent s WHERE s.minutes > 60) ORDER BY 1;
SELECT t.name, x.total FROM tenant t CROSS JOIN LATERAL (SELECT sum(s.minutes) AS total FROM spent s WHERE s.tenant = t.id) x ORDER BY t.id;
SELECT t.name, x.title FROM tenant t, LATERAL (SELECT k.title FROM task k WHERE k.tenant = t.id ORDER BY k.id DESC LIMIT 1) x ORDER BY t.name;
SELECT t.name, y.title FROM tenant t LEFT JOIN LATERAL (SELECT title FROM task WHERE task.tenant = t.id AND state = 'done') y ON true ORDER BY t.name, y.title;
SELECT sum(s.minutes), count(DISTINCT s.day) FROM task k JOIN spent s ON s.tenant = k.tenant AND s.task = k.id WHERE k.state = 'done';
SELECT k.state, sum(s.minutes) FROM task k JOIN spent s USING (tenant) WHERE s.task = k.id GROUP BY k.state ORDER BY 1;
SELECT tenant, title, minutes FROM task NATURAL JOIN (SELECT tenant, task AS id, minutes FROM spent) s ORDER BY tenant, id, minutes;
SELECT count(*) FROM task a JOIN task b ON a.tenant = b.tenant AND a.id < b.id;
SELECT a.tenant, a.id, b.id FROM task a FULL JOIN spent b ON b.tenant = a.tenant AND b.task = a.id AND b.minutes > 80 ORDER BY 1, 2, 3;
SELECT k.title, d.minutes FROM task k RIGHT JOIN spent d ON k.tenant = d.tenant AND k.id = d.task AND k.points > 4 ORDER BY d.tenant, d.task, d.number;
SELECT d.tenant, d.n FROM (SELECT tenant, count(*) AS n FROM task GROUP BY tenant) d WHERE d.n > 1 ORDER BY 1;
SELECT t.name, d.n FROM tenant t JOIN (SELECT tenant, count(*) AS n FROM task GROUP BY tenant) d ON d.tenant = t.id ORDER BY d.n DESC, t.name;
SELECT max(n), min(n), avg(n) FROM (SELECT tenant, count(*) AS n FROM task GROUP BY tenant) d;
SELECT d.title FROM (SELECT title, points FROM task ORDER BY points DESC NULLS LAST, title LIMIT 4) d ORDER BY d.title;
SELECT count(*) FROM (SELECT DISTINCT state FROM task) d;
SELECT count(*) FROM (SELECT * FROM task ORDER BY tenant, id LIMIT 5) d;
SELECT sum(points) FROM (SELECT points FROM task ORDER BY points DESC NULLS LAST OFFSET 1 LIMIT 3) d;
-- over tenants
SELECT t.name, p.monthly FROM tenant t JOIN plan p ON p.code = t.plan ORDER BY p.monthly DESC, t.name;
SELECT p.code, count(t.id), sum(p.monthly) FROM plan p LEFT JOIN tenant t ON t.plan = p.code AND t.active GROUP BY p.code ORDER BY p.code;
SELECT p.code FROM plan p WHERE NOT EXISTS (SELECT FROM tenant t WHERE t.plan = p.code AND t.country = 'DE') ORDER BY 1;
SELECT p.code, p.seats - (SELECT count(*) FROM member m JOIN tenant t ON t.id = m.tenant WHERE t.plan = p.code) AS free FROM plan p ORDER BY 1;
SELECT e.kind, t.name FROM event e LEFT JOIN tenant t ON t.id = e.tenant ORDER BY e.id;
SELECT t.name, sum(e.amount) FROM tenant t JOIN event e ON e.tenant = t.id AND e.kind = 'pay' GROUP BY t.name ORDER BY 2 DESC, 1;
SELECT t.country, count(DISTINCT t.id), sum(e.amount) FROM tenant t LEFT JOIN event e ON e.tenant = t.id GROUP BY t.country ORDER BY t.country NULLS LAST;
SELECT e.id FROM event e WHERE e.tenant NOT IN (SELECT id FROM tenant) ORDER BY 1;
SELECT e.id FROM event e WHERE e.amount > (SELECT avg(amount) FROM event) ORDER BY 1;
SELECT e.id FROM event e WHERE e.amount >= ALL (SELECT amount FROM event WHERE amount IS NOT NULL) ORDER BY 1;
SELECT name FROM tenant WHERE id = (SELECT tenant FROM event WHERE id = 4);
SELECT name FROM tenant WHERE id = (SELECT tenant FROM event WHERE kind = 'pay');
SELECT name FROM tenant WHERE plan IN (SELECT code FROM plan WHERE monthly > 0) AND since < '2021-01-01' ORDER BY 1;
SELECT (SELECT count(*) FROM task), (SELECT count(*) FROM member), (SELECT max(id) FROM event);
SELECT a.name, b.name FROM tenant a JOIN tenant b ON a.country = b.country AND a.id < b.id ORDER BY 1, 2;
SELECT t.name, g.n FROM tenant t CROSS JOIN generate_series(1, 2) AS g(n) WHERE t.id < 3 ORDER BY 1, 2;
SELECT v.x, t.name FROM (VALUES (1, 'one'), (3, 'three'), (8, 'eight')) v(k, x) LEFT JOIN tenant t ON t.id = v.k ORDER BY v.k;
SELECT g, (SELECT count(*) FROM spent WHERE day = g::date) FROM generate_series(timestamp '2024-01-08', '2024-01-12', '1 day') g ORDER BY g;
WITH load AS (SELECT tenant, sum(minutes) AS m FROM spent GROUP BY tenant) SELECT t.name, l.m FROM load l JOIN tenant t ON t.id = l.tenant WHERE l.m > (SELECT avg(m) FROM load) ORDER BY 1;
WITH late AS (SELECT * FROM task WHERE due < '2024-02-01'), busy AS (SELECT DISTINCT tenant FROM late) SELECT name FROM tenant WHERE id IN (SELECT tenant FROM busy) ORDER BY name;
WITH RECURSIVE tree AS (SELECT tenant, id, title, 1 AS depth FROM task WHERE parent IS NULL UNION ALL SELECT k.tenant, k.id, k.title, r.depth + 1 FROM task k JOIN tree r ON k.tenant = r.tenant AND k.parent = r.id) SELECT tenant, title, depth FROM tree ORDER BY tenant, depth, title;
WITH RECURSIVE d(day) AS (SELECT date '2024-01-08' UNION SELECT day + 1 FROM d WHERE day < '2024-01-12') SELECT d.day, coalesce(sum(s.minutes), 0) FROM d LEFT JOIN spent s ON s.day = d.day GROUP BY d.day ORDER BY d.day;
SELECT name FROM tenant WHERE country = 'DE' UNION SELECT handle FROM member WHERE tenant = 3 ORDER BY 1;
SELECT tenant FROM task UNION ALL SELECT tenant FROM member ORDER BY 1;
SELECT tenant FROM task INTERSECT SELECT tenant FROM spent ORDER BY 1;
SELECT id FROM tenant EXCEPT SELECT tenant FROM task ORDER BY 1;
SELECT state, count(*) FROM task GROUP BY state UNION ALL SELECT 'all', count(*) FROM task ORDER BY 2 DESC, 1;
SELECT tenant, state, count(*) FROM task GROUP BY ROLLUP (tenant, state) ORDER BY tenant NULLS LAST, state NULLS LAST;
SELECT kind, ok, sum(amount), grouping(kind, ok) FROM event GROUP BY CUBE (kind, ok) ORDER BY 4, 1, 2 NULLS FIRST;
SELECT title, rank() OVER (ORDER BY points DESC NULLS LAST), row_number() OVER (PARTITION BY tenant ORDER BY id) FROM task ORDER BY tenant, id;
SELECT tenant, day, sum(minutes) OVER (PARTITION BY tenant ORDER BY day ROWS UNBOUNDED PRECEDING) FROM spent ORDER BY tenant, day, minutes;
SELECT tenant, sum(minutes) AS m, rank() OVER (ORDER BY sum(minutes) DESC) FROM spent GROUP BY tenant ORDER BY 3, 1;
SELECT kind, lag(amount) OVER (PARTITION BY kind ORDER BY id) FROM event ORDER BY id;
SELECT * FROM (SELECT tenant, title, row_number() OVER (PARTITION BY tenant ORDER BY points DESC NULLS LAST, id) AS n FROM task) x WHERE n = 1 ORDER BY tenant;
-- refused
SELECT unnest(tags) AS tag, count(*) FROM task GROUP BY 1 ORDER BY 2 DESC, 1;
SELECT k.id, u.tag FROM task k, unnest(k.tags) AS u(tag) WHERE k.tenant = 3 ORDER BY 1, 2;
SELECT tag, string_agg(title, '+' ORDER BY title) FROM task CROSS JOIN unnest(tags) tag GROUP BY tag ORDER BY tag;
SELECT CASE WHEN points IS NULL THEN 'none' WHEN points < 4 THEN 'small' ELSE 'large' END AS size, count(*) FROM task GROUP BY 1 ORDER BY 1;
SELECT width_bucket(minutes, 0, 240, 4) AS b, count(*) FROM spent GROUP BY b ORDER BY b;
SELECT to_char(since, 'YYYY-MM') AS m, count(*) FROM tenant GROUP BY m ORDER BY m DESC;
SELECT plan, count(*) FILTER (WHERE active) AS on, count(*) FILTER (WHERE NOT active) AS off FROM tenant GROUP BY plan ORDER BY plan;
SELECT plan, min(name), max(since) FROM tenant WHERE active GROUP BY plan HAVING max(since) > '2020-06-01' ORDER BY 1;
SELECT name FROM tenant WHERE name ~ '^[A-C]' AND country IS DISTINCT FROM 'FR' ORDER BY 1;
SELECT name FROM tenant t WHERE (SELECT count(*) FROM task WHERE tenant = t.id) > (SELECT count(*) FROM member WHERE tenant = t.id) ORDER BY 1;
-- what tenants write
INSERT INTO task (tenant, id, title, created) VALUES (2, 2, 'Call', '2024-01-07'), (5, 2, 'Mail', '2024-01-07') RETURNING tenant, id, state, points;
INSERT INTO member (tenant, id, email) VALUES (2, 2, 'Zoe.K@bolt.fr') RETURNING handle, role;
INSERT INTO member (tenant, id, email, handle) VALUES (2, 3, 'x@y', 'mine');
INSERT INTO member (tenant, id, email, handle) VALUES (2, 3, 'Max@y', DEFAULT) RETURNING handle;
UPDATE member SET email = 'YAN@bolt.fr' WHERE tenant = 2 AND id = 3 RETURNING handle, email;
UPDATE member SET handle = 'other' WHERE tenant = 2 AND id = 3;
UPDATE member SET handle = DEFAULT, role = 'admin' WHERE tenant = 2 AND id = 3 RETURNING *;
UPDATE spent SET minutes = minutes + 30 WHERE tenant = 1 RETURNING task, number, minutes, hours;
UPDATE spent SET minutes = 0 WHERE day = '2024-01-12' RETURNING hours;
INSERT INTO member VALUES (2, 3, 'Kim@bolt.fr', 'user', 10) ON CONFLICT (tenant, id) DO UPDATE SET email = excluded.email RETURNING id, email, handle, role;
INSERT INTO member VALUES (2, 3, 'No@bolt.fr') ON CONFLICT DO NOTHING RETURNING id;
INSERT INTO member VALUES (2, 3, 'No@bolt.fr');
INSERT INTO member VALUES (2, 4);
INSERT INTO tenant VALUES (7, 'Gray', 'none', 'GER', '2024-01-01');
INSERT INTO tenant (id, name, plan, since) VALUES (7, 'Gray', 'free', '2024-01-01') RETURNING *;
UPDATE task SET state = 'done', points = coalesce(points, 0) + 1 WHERE tenant = 2 RETURNING id, state, points;
UPDATE task SET owner = m.id FROM member m WHERE m.tenant = 5 AND task.tenant = 5 AND task.owner IS NULL AND m.role = 'owner' RETURNING task.id, task.owner, m.email;
UPDATE task k SET points = (SELECT count(*) FROM spent s WHERE s.tenant = k.tenant AND s.task = k.id) WHERE k.tenant = 3 RETURNING k.id, k.points;
UPDATE tenant SET active = NOT active WHERE plan = 'free' RETURNING id, active;
UPDATE event SET amount = amount * 2 WHERE kind = 'pay' AND ok;
UPDATE event SET amount = 1 / 0 WHERE id = 6;
DELETE FROM spent USING task WHERE spent.tenant = 3 AND task.tenant = 3 AND task.id = spent.task AND task.state = 'stuck' RETURNING spent.task, task.title;
DELETE FROM event WHERE tenant IS NULL OR tenant > 8 RETURNING id;
DELETE FROM task WHERE tenant = 2 AND id = (SELECT max(id) FROM task WHERE tenant = 2) RETURNING title;
DELETE FROM member WHERE tenant = 1 AND id NOT IN (SELECT owner FROM task WHERE tenant = 1) RETURNING handle;
SELECT sum(amount), count(*) FROM event;
SELECT tenant, count(*), min(handle) FROM member GROUP BY tenant ORDER BY tenant;
SELECT sum(hours) = sum(minutes) / 60.0 FROM spent;
-- rows that are held
SELECT id, title FROM task WHERE tenant = 1 ORDER BY id FOR UPDATE;
SELECT id FROM task WHERE state = 'open' ORDER BY tenant, id LIMIT 2 FOR UPDATE;
SELECT name FROM tenant ORDER BY since, id OFFSET 1 LIMIT 2 FOR SHARE;
SELECT k.id, m.email FROM task k JOIN member m ON m.tenant = k.tenant AND m.id = k.owner WHERE k.tenant = 3 AND m.tenant = 3 ORDER BY k.id FOR UPDATE OF k SKIP LOCKED;
SELECT k.title FROM task k LEFT JOIN member m ON m.tenant = 1 AND m.id = k.owner WHERE k.tenant = 1 ORDER BY 1 FOR NO KEY UPDATE OF k NOWAIT;
SELECT k.title FROM task k LEFT JOIN member m ON m.tenant = 1 AND m.id = k.owner WHERE k.tenant = 1 FOR UPDATE;
SELECT count(*) FROM task FOR UPDATE;
SELECT state FROM task GROUP BY state FOR UPDATE;
SELECT DISTINCT state FROM task FOR KEY SHARE;
SELECT title FROM task FOR UPDATE OF member;
SELECT id FROM task WHERE tenant = 1 UNION SELECT id FROM member WHERE tenant = 1 FOR UPDATE;
SELECT row_number() OVER () FROM task FOR UPDATE;
