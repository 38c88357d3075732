-- What benchmark clients, mappers and report tools send: TPC-C, TPC-W, RUBiS, pgbench, Django, Rails, SQLAlchemy, Hibernate.
CREATE TABLE warehouse (w_id integer PRIMARY KEY, w_name varchar(10), w_tax numeric(4,4), w_ytd numeric(12,2));
CREATE TABLE district (
    d_w_id integer NOT NULL, d_id integer NOT NULL, d_name varchar(10), d_tax numeric(4,4), d_ytd numeric(12,2),
    d_next_o_id integer NOT NULL, PRIMARY KEY (d_w_id, d_id)
);
CREATE TABLE customer (
    c_w_id integer NOT NULL, c_d_id integer NOT NULL, c_id integer NOT NULL, c_first varchar(16), c_middle char(2),
    c_last varchar(16), c_since timestamp, c_credit char(2), c_discount numeric(4,4), c_balance numeric(12,2),
    c_ytd_payment numeric(12,2), c_payment_cnt integer, c_data text, PRIMARY KEY (c_w_id, c_d_id, c_id)
);
CREATE INDEX customer_last ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE history (
    h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer NOT NULL, h_date timestamp,
    h_amount numeric(6,2), h_data varchar(24)
);
CREATE TABLE orders (
    o_w_id integer NOT NULL, o_d_id integer NOT NULL, o_id integer NOT NULL, o_c_id integer, o_entry_d timestamp,
    o_carrier_id integer, o_ol_cnt integer, o_all_local integer, PRIMARY KEY (o_w_id, o_d_id, o_id)
);
CREATE TABLE new_order (no_w_id integer NOT NULL, no_d_id integer NOT NULL, no_o_id integer NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (
    ol_w_id integer NOT NULL, ol_d_id integer NOT NULL, ol_o_id integer NOT NULL, ol_number integer NOT NULL, ol_i_id integer,
    ol_supply_w_id integer, ol_delivery_d timestamp, ol_quantity integer, ol_amount numeric(6,2), ol_dist_info char(24),
    PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
);
CREATE TABLE item (i_id integer PRIMARY KEY, i_im_id integer, i_name varchar(24), i_price numeric(5,2), i_data varchar(50));
CREATE TABLE stock (s_w_id integer NOT NULL, s_i_id integer NOT NULL, s_quantity integer, s_ytd numeric(8,0), s_order_cnt integer, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id));
COMMENT ON TABLE warehouse IS 'weir: partition by (w_id)';
COMMENT ON TABLE district IS 'weir: partition by (d_w_id)';
COMMENT ON TABLE customer IS 'weir: partition by (c_w_id)';
COMMENT ON TABLE history IS 'weir: partition by (h_w_id)';
COMMENT ON TABLE orders IS 'weir: partition by (o_w_id)';
COMMENT ON TABLE new_order IS 'weir: partition by (no_w_id)';
COMMENT ON TABLE order_line IS 'weir: partition by (ol_w_id)';
COMMENT ON TABLE stock IS 'weir: partition by (s_w_id)';
CREATE TABLE app_author (id bigint PRIMARY KEY, name varchar(50) NOT NULL, born date, active boolean NOT NULL DEFAULT true, settings jsonb);
CREATE TABLE app_book (
    id bigint PRIMARY KEY, author_id bigint NOT NULL, title varchar(100) NOT NULL, isbn char(13), price numeric(8,2),
    published timestamptz, rating double precision, tags text[]
);
CREATE TABLE app_review (id bigint PRIMARY KEY, book_id bigint NOT NULL, stars smallint NOT NULL, body text, created timestamp NOT NULL);
COMMENT ON TABLE app_book IS 'weir: partition by (id)';
COMMENT ON TABLE app_review IS 'weir: partition by (id)';
CREATE TABLE pgbench_accounts (aid integer PRIMARY KEY, bid integer, abalance integer, filler char(10));
COMMENT ON TABLE pgbench_accounts IS 'weir: partition by (aid)';
-- rows
INSERT INTO warehouse SELECT w, 'W' || w, 0.05 * w, 300 FROM generate_series(1, 2) w;
INSERT INTO district SELECT w, d, 'D' || d, 0.01 * d, CASE w WHEN 1 THEN 150 ELSE 140 END, 6 FROM generate_series(1, 2) w, generate_series(1, 2) d;
INSERT INTO customer SELECT w, d, c, 'First' || c, 'OE', (ARRAY['BAR', 'OUGHT', 'ABLE'])[c % 3 + 1], timestamp '2024-01-01' + c * interval '1 day',
    CASE WHEN c % 4 = 0 THEN 'BC' ELSE 'GC' END, 0.01 * c, c * 10 - 15, 10, c % 3, repeat('x', c) FROM generate_series(1, 2) w, generate_series(1, 2) d, generate_series(1, 5) c;
INSERT INTO history SELECT c, d, w, d, w, timestamp '2024-02-01' + c * interval '1 hour', 10 * c, 'h' || c FROM generate_series(1, 2) w, generate_series(1, 2) d, generate_series(1, 5) c;
INSERT INTO orders SELECT w, d, o, (o * 2) % 5 + 1, timestamp '2024-03-01' + o * interval '90 minutes', CASE WHEN o < 4 THEN o END, o % 3 + 1, 1
    FROM generate_series(1, 2) w, generate_series(1, 2) d, generate_series(1, 5) o;
INSERT INTO new_order SELECT w, d, o FROM generate_series(1, 2) w, generate_series(1, 2) d, generate_series(4, 5) o;
INSERT INTO order_line SELECT o_w_id, o_d_id, o_id, n, (o_id * 3 + n * 2 + o_w_id) % 6 + 1, o_w_id, CASE WHEN o_id < 4 THEN o_entry_d END, n + 4, n * 1.25 + o_id, 'dist'
    FROM orders, generate_series(1, 3) n WHERE n <= o_ol_cnt;
INSERT INTO item SELECT i, i * 7, 'item ' || i, i * 1.11, CASE WHEN i % 2 = 0 THEN 'ORIGINAL' || i ELSE 'plain' END FROM generate_series(1, 6) i;
INSERT INTO stock SELECT w, i, i * 5 - w, i * 2, i, CASE WHEN i = 3 THEN 'xxORIGINAL' ELSE 'data' END FROM generate_series(1, 2) w, generate_series(1, 6) i;
INSERT INTO app_author VALUES (1, 'Ursula', '1929-10-21', false, '{"lang": "en", "n": 3}'), (2, 'Stanislaw', '1921-09-12', false, '{"lang": "pl"}'),
    (3, 'Ted', '1967-01-01', true, NULL), (4, 'N. K.', NULL, true, '{}');
INSERT INTO app_book VALUES (1, 1, 'The Dispossessed', '9780061054884', 9.99, '1974-05-01 00:00+00', 4.5, '{sf,utopia}'),
    (2, 1, 'A Wizard of Earthsea', NULL, 7.50, '1968-11-01 12:00+00', 4.1, '{fantasy}'), (3, 2, 'Solaris', '9780156027601', 12.00, NULL, 4.2, '{sf}'),
    (4, 3, 'Exhalation', '9781101947883', 15.25, '2019-05-07 08:30+00', NULL, NULL), (5, 4, 'The Fifth Season', NULL, NULL, '2015-08-04 00:00+00', 4.6, '{fantasy,sf}');
INSERT INTO app_review VALUES (1, 1, 5, 'great', '2024-01-01 10:00'), (2, 1, 4, NULL, '2024-01-03 11:00'), (3, 3, 5, 'deep', '2024-01-03 09:00'),
    (4, 5, 2, 'slow', '2024-02-10 20:00'), (5, 2, 3, '', '2024-02-11 20:00'), (6, 5, 5, 'wow', '2024-03-01 00:00');
INSERT INTO pgbench_accounts SELECT a, 1, a * 10 - 55, 'f' FROM generate_series(1, 10) a;

-- cases
SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = 1 AND c_w_id = w_id AND c_d_id = 1 AND c_id = 3;
SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = 1 AND d_id = 1;
SELECT count(c_id) FROM customer WHERE c_last = 'BAR' AND c_d_id = 1 AND c_w_id = 1;
SELECT c_first, c_middle, c_id, c_balance FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_last = 'OUGHT' ORDER BY c_first;
SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_c_id = 3 ORDER BY o_id DESC LIMIT 1;
SELECT o_id, o_entry_d, COALESCE(o_carrier_id, 0) FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_c_id = 5 AND o_id = (SELECT MAX(o_id) FROM orders WHERE o_w_id = 1 AND o_d_id = 1 AND o_c_id = 5);
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 2;
SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = 1 AND no_d_id = 1;
SELECT no_o_id FROM new_order WHERE no_d_id = 1 AND no_w_id = 1 ORDER BY no_o_id ASC LIMIT 1;
SELECT SUM(ol_amount) FROM order_line WHERE ol_o_id = 3 AND ol_d_id = 1 AND ol_w_id = 1;
SELECT COUNT(DISTINCT (s_i_id)) FROM order_line, stock WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id < 6 AND ol_o_id >= 1 AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < 15;
SELECT COUNT(DISTINCT s_i_id) AS stock_count FROM order_line JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id WHERE ol_w_id = 1 AND ol_d_id = 1 AND s_quantity BETWEEN 5 AND 20;
SELECT i_price, i_name, i_data, s_quantity, CASE WHEN i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%' THEN 'B' ELSE 'G' END AS brand FROM item, stock WHERE i_id = s_i_id AND s_w_id = 1 AND i_id IN (2, 3, 4);
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 1 RETURNING d_next_o_id, d_tax;
UPDATE warehouse SET w_ytd = w_ytd + 12.50 WHERE w_id = 1 RETURNING w_name;
UPDATE customer SET c_balance = c_balance - 12.5, c_ytd_payment = c_ytd_payment + 12.5, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 4 RETURNING c_first, c_last, c_balance, substring(c_data, 1, 3);
INSERT INTO history VALUES (4, 1, 1, 1, 1, '2024-04-01', 12.5, 'W1    D1');
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (6, 1, 1, 2, '2024-04-02 10:00', 2, 1);
INSERT INTO new_order VALUES (1, 1, 6);
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES (6, 1, 1, 1, 2, 1, 5, 11.10, 'x'), (6, 1, 1, 2, 5, 1, 1, 5.55, 'y');
UPDATE stock SET s_quantity = CASE WHEN s_quantity >= 5 + 10 THEN s_quantity - 5 ELSE s_quantity - 5 + 91 END, s_ytd = s_ytd + 5, s_order_cnt = s_order_cnt + 1 WHERE s_i_id = 2 AND s_w_id = 1 RETURNING s_quantity;
DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = 4;
UPDATE orders SET o_carrier_id = 7 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 4 RETURNING o_c_id;
UPDATE order_line SET ol_delivery_d = '2024-04-03' WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 4;
SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = 2 AND c_w_id = w_id AND c_d_id = 2 AND c_id = 3;
SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = 2 AND d_id = 2;
SELECT count(c_id) FROM customer WHERE c_last = 'BAR' AND c_d_id = 2 AND c_w_id = 2;
SELECT c_first, c_middle, c_id, c_balance FROM customer WHERE c_w_id = 2 AND c_d_id = 2 AND c_last = 'OUGHT' ORDER BY c_first;
SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = 2 AND o_d_id = 2 AND o_c_id = 3 ORDER BY o_id DESC LIMIT 1;
SELECT o_id, o_entry_d, COALESCE(o_carrier_id, 0) FROM orders WHERE o_w_id = 2 AND o_d_id = 2 AND o_c_id = 5 AND o_id = (SELECT MAX(o_id) FROM orders WHERE o_w_id = 2 AND o_d_id = 2 AND o_c_id = 5);
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id = 2;
SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = 2 AND no_d_id = 2;
SELECT no_o_id FROM new_order WHERE no_d_id = 2 AND no_w_id = 2 ORDER BY no_o_id ASC LIMIT 1;
SELECT SUM(ol_amount) FROM order_line WHERE ol_o_id = 3 AND ol_d_id = 2 AND ol_w_id = 2;
SELECT COUNT(DISTINCT (s_i_id)) FROM order_line, stock WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id < 6 AND ol_o_id >= 1 AND s_w_id = 2 AND s_i_id = ol_i_id AND s_quantity < 15;
SELECT COUNT(DISTINCT s_i_id) AS stock_count FROM order_line JOIN stock ON s_i_id = ol_i_id AND s_w_id = ol_w_id WHERE ol_w_id = 2 AND ol_d_id = 2 AND s_quantity BETWEEN 5 AND 20;
SELECT i_price, i_name, i_data, s_quantity, CASE WHEN i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%' THEN 'B' ELSE 'G' END AS brand FROM item, stock WHERE i_id = s_i_id AND s_w_id = 2 AND i_id IN (2, 3, 4);
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 2 AND d_id = 2 RETURNING d_next_o_id, d_tax;
UPDATE warehouse SET w_ytd = w_ytd + 12.50 WHERE w_id = 2 RETURNING w_name;
UPDATE customer SET c_balance = c_balance - 12.5, c_ytd_payment = c_ytd_payment + 12.5, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = 2 AND c_d_id = 2 AND c_id = 4 RETURNING c_first, c_last, c_balance, substring(c_data, 1, 3);
INSERT INTO history VALUES (4, 2, 2, 2, 2, '2024-04-01', 12.5, 'W2    D2');
INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (6, 2, 2, 2, '2024-04-02 10:00', 2, 1);
INSERT INTO new_order VALUES (2, 2, 6);
INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES (6, 2, 2, 1, 2, 2, 5, 11.10, 'x'), (6, 2, 2, 2, 5, 2, 1, 5.55, 'y');
UPDATE stock SET s_quantity = CASE WHEN s_quantity >= 5 + 10 THEN s_quantity - 5 ELSE s_quantity - 5 + 91 END, s_ytd = s_ytd + 5, s_order_cnt = s_order_cnt + 1 WHERE s_i_id = 2 AND s_w_id = 2 RETURNING s_quantity;
DELETE FROM new_order WHERE no_w_id = 2 AND no_d_id = 2 AND no_o_id = 4;
UPDATE orders SET o_carrier_id = 7 WHERE o_w_id = 2 AND o_d_id = 2 AND o_id = 4 RETURNING o_c_id;
UPDATE order_line SET ol_delivery_d = '2024-04-03' WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id = 4;
SELECT w_id, w_ytd, sum(d_ytd) FROM warehouse JOIN district ON d_w_id = w_id GROUP BY w_id, w_ytd HAVING w_ytd <> sum(d_ytd);
SELECT w_id FROM warehouse w WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w.w_id);
SELECT d_w_id, d_id, d_next_o_id - 1, (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id), (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) FROM district;
SELECT d_w_id, d_id FROM district WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id);
SELECT no_w_id, no_d_id, max(no_o_id) - min(no_o_id) + 1, count(*) FROM new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*);
SELECT o_w_id, o_d_id, sum(o_ol_cnt), (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id) FROM orders GROUP BY o_w_id, o_d_id;
SELECT o.o_w_id, o.o_d_id, o.o_id FROM orders o LEFT JOIN new_order n ON n.no_w_id = o.o_w_id AND n.no_d_id = o.o_d_id AND n.no_o_id = o.o_id WHERE (o.o_carrier_id IS NULL) <> (n.no_o_id IS NOT NULL);
SELECT o_w_id, o_d_id, o_id, o_ol_cnt FROM orders WHERE o_ol_cnt <> (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id);
SELECT ol_w_id, ol_d_id, ol_o_id FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL);
SELECT w_id, w_ytd, (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id) AS paid FROM warehouse;
SELECT d_w_id, d_id FROM district WHERE d_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id);
SELECT c_w_id, c_d_id, c_id, c_balance, coalesce((SELECT sum(ol_amount) FROM orders, order_line WHERE o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id AND ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id AND ol_delivery_d IS NOT NULL), 0) - coalesce((SELECT sum(h_amount) FROM history WHERE h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id), 0) FROM customer;
SELECT o_w_id, o_d_id, count(*) - (SELECT count(*) FROM new_order WHERE no_w_id = o_w_id AND no_d_id = o_d_id) FROM orders GROUP BY o_w_id, o_d_id ORDER BY 1, 2;
SELECT d_w_id, sum(d_next_o_id), (SELECT count(*) FROM orders WHERE o_w_id = d_w_id) FROM district GROUP BY d_w_id;
SELECT * FROM (SELECT ol_w_id w, ol_d_id d, ol_o_id o, count(*) n FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) l FULL JOIN orders ON o_w_id = w AND o_d_id = d AND o_id = o WHERE n IS DISTINCT FROM o_ol_cnt;
SELECT count(*) FROM orders o WHERE NOT EXISTS (SELECT * FROM order_line l WHERE l.ol_w_id = o.o_w_id AND l.ol_d_id = o.o_d_id AND l.ol_o_id = o.o_id);
SELECT w_id, count(DISTINCT o_c_id) FROM warehouse LEFT JOIN orders ON o_w_id = w_id GROUP BY w_id;
SELECT i_id, i_name, sum(ol_quantity) AS sold FROM item JOIN order_line ON ol_i_id = i_id GROUP BY i_id ORDER BY sold DESC, i_id LIMIT 3;
SELECT i_name, sum(ol_amount), rank() OVER (ORDER BY sum(ol_amount) DESC) FROM item JOIN order_line ON ol_i_id = i_id GROUP BY i_name;
SELECT o_w_id, date_trunc('hour', o_entry_d) AS h, count(*) FROM orders GROUP BY o_w_id, h ORDER BY o_w_id, h;
SELECT o_w_id, extract(hour FROM o_entry_d) AS h, sum(o_ol_cnt) FROM orders GROUP BY 1, 2 ORDER BY 1, 2;
SELECT c_credit, count(*), avg(c_balance), min(c_since), max(c_discount) FROM customer GROUP BY c_credit;
SELECT c_last, c_credit, count(*) FROM customer GROUP BY GROUPING SETS ((c_last), (c_credit), ()) ORDER BY 1, 2;
SELECT w_id, x.c_id, x.c_balance FROM warehouse, LATERAL (SELECT c_id, c_balance FROM customer WHERE c_w_id = w_id ORDER BY c_balance DESC, c_d_id LIMIT 2) x;
SELECT s_w_id, sum(s_quantity * i_price) FROM stock, item WHERE i_id = s_i_id GROUP BY s_w_id;
SELECT s_i_id, sum(s_quantity) FROM stock GROUP BY s_i_id HAVING min(s_quantity) < 10 ORDER BY s_i_id;
SELECT s_i_id FROM stock WHERE s_w_id = 1 EXCEPT SELECT ol_i_id FROM order_line WHERE ol_w_id = 1;
SELECT ol_i_id FROM order_line WHERE ol_w_id = 1 INTERSECT SELECT ol_i_id FROM order_line WHERE ol_w_id = 2;
SELECT h_w_id, h_d_id, h_amount, sum(h_amount) OVER (PARTITION BY h_w_id, h_d_id ORDER BY h_date, h_amount) FROM history;
SELECT c_w_id, c_d_id, c_last, percentile_cont(0.5) WITHIN GROUP (ORDER BY c_balance) FROM customer GROUP BY c_w_id, c_d_id, c_last;
SELECT o_carrier_id, count(*) FILTER (WHERE o_ol_cnt > 1), string_agg(o_id::text, ',' ORDER BY o_w_id, o_d_id, o_id) FROM orders GROUP BY o_carrier_id ORDER BY o_carrier_id NULLS FIRST;
SELECT (c_w_id, c_d_id) = (1, 2), count(*) FROM customer GROUP BY 1;
SELECT c_id FROM customer WHERE (c_w_id, c_d_id, c_id) IN (SELECT o_w_id, o_d_id, o_c_id FROM orders WHERE o_carrier_id IS NULL);
SELECT c_w_id, c_id FROM customer WHERE c_balance = (SELECT max(c_balance) FROM customer x WHERE x.c_w_id = customer.c_w_id);
SELECT count(*) FROM customer a JOIN customer b ON a.c_last = b.c_last AND a.c_w_id < b.c_w_id;
SELECT a.o_id, b.o_id FROM orders a, orders b WHERE a.o_w_id = 1 AND b.o_w_id = 1 AND a.o_d_id = b.o_d_id AND b.o_id = a.o_id + 1 AND b.o_entry_d - a.o_entry_d > interval '1 hour';
WITH per AS (SELECT o_w_id, o_c_id, count(*) AS n FROM orders GROUP BY o_w_id, o_c_id) SELECT o_w_id, max(n), min(n) FROM per GROUP BY o_w_id;
WITH top AS (SELECT ol_i_id FROM order_line GROUP BY ol_i_id ORDER BY count(*) DESC, ol_i_id LIMIT 2) SELECT i_name FROM item WHERE i_id IN (SELECT ol_i_id FROM top) ORDER BY i_name;
SELECT aid, abalance FROM pgbench_accounts WHERE aid = 7;
UPDATE pgbench_accounts SET abalance = abalance + -350 WHERE aid = 7;
SELECT abalance FROM pgbench_accounts WHERE aid = 7;
SELECT abalance FROM pgbench_accounts WHERE aid BETWEEN 3 AND 6 ORDER BY abalance DESC;
SELECT sum(abalance), count(*) FROM pgbench_accounts WHERE bid = 1;
SELECT DISTINCT filler FROM pgbench_accounts;
UPDATE pgbench_accounts SET abalance = 0 WHERE abalance < 0 RETURNING aid;
DELETE FROM pgbench_accounts WHERE aid = 10;
INSERT INTO pgbench_accounts (aid, bid, abalance, filler) VALUES (11, 2, 1, 'new'), (12, 2, 2, NULL) RETURNING aid, filler;
SELECT bid, width_bucket(abalance, 0, 50, 5) AS bucket, count(*) FROM pgbench_accounts GROUP BY 1, 2;
SELECT "app_book"."id", "app_book"."author_id", "app_book"."title" FROM "app_book" WHERE "app_book"."id" = 3 LIMIT 21;
SELECT "app_book"."id", "app_book"."title" FROM "app_book" INNER JOIN "app_author" ON ("app_book"."author_id" = "app_author"."id") WHERE "app_author"."name" = 'Ursula' ORDER BY "app_book"."title" ASC;
SELECT "app_author"."id", "app_author"."name", COUNT("app_book"."id") AS "n" FROM "app_author" LEFT OUTER JOIN "app_book" ON ("app_author"."id" = "app_book"."author_id") GROUP BY "app_author"."id" ORDER BY "n" DESC, "app_author"."id" ASC;
SELECT COUNT(*) AS "__count" FROM "app_book" WHERE UPPER("app_book"."title"::text) LIKE UPPER('%the%');
SELECT (1) AS "a" FROM "app_book" WHERE "app_book"."id" = 2 LIMIT 1;
SELECT "app_book"."id" FROM "app_book" WHERE NOT ("app_book"."price" > 10 AND "app_book"."price" IS NOT NULL);
SELECT "app_book"."id" FROM "app_book" WHERE ("app_book"."price" > 10 OR "app_book"."rating" >= 4.5) ORDER BY "app_book"."id" DESC;
SELECT "app_book"."id", CASE WHEN "app_book"."price" < 8 THEN 'cheap' WHEN "app_book"."price" < 13 THEN 'fair' ELSE NULL END AS "class" FROM "app_book";
SELECT "app_author"."name" FROM "app_author" WHERE EXISTS(SELECT 1 AS "a" FROM "app_book" U0 WHERE (U0."author_id" = "app_author"."id" AND U0."rating" > 4.3) LIMIT 1);
SELECT "app_author"."id", (SELECT MAX(U0."price") FROM "app_book" U0 WHERE U0."author_id" = "app_author"."id") AS "top" FROM "app_author" ORDER BY "top" DESC NULLS LAST;
SELECT DISTINCT "app_author"."name" FROM "app_author" INNER JOIN "app_book" ON ("app_author"."id" = "app_book"."author_id") INNER JOIN "app_review" ON ("app_book"."id" = "app_review"."book_id") WHERE "app_review"."stars" = 5;
SELECT DATE_TRUNC('month', "app_review"."created") AS "m", AVG("app_review"."stars") AS "a" FROM "app_review" GROUP BY 1 ORDER BY 1;
SELECT EXTRACT('year' FROM "app_book"."published") AS "y", COUNT(*) FROM "app_book" GROUP BY EXTRACT('year' FROM "app_book"."published") ORDER BY "y";
SELECT "app_book"."title" FROM "app_book" WHERE "app_book"."published" BETWEEN '1970-01-01T00:00:00+00:00'::timestamptz AND '2020-01-01T00:00:00+00:00'::timestamptz;
SELECT "app_author"."id" FROM "app_author" WHERE ("app_author"."settings" -> 'lang') = '"en"'::jsonb;
SELECT "app_author"."id" FROM "app_author" WHERE ("app_author"."settings" ->> 'n')::integer > 2;
SELECT "app_author"."id" FROM "app_author" WHERE "app_author"."settings" @> '{"lang": "pl"}';
SELECT "app_author"."id" FROM "app_author" WHERE "app_author"."settings" ? 'lang' ORDER BY 1;
SELECT "app_book"."id" FROM "app_book" WHERE "app_book"."tags" @> ARRAY['sf']::text[] ORDER BY 1;
SELECT "app_book"."id" FROM "app_book" WHERE "app_book"."tags" && (ARRAY['fantasy', 'poetry'])::text[] ORDER BY 1;
SELECT "app_book"."id" FROM "app_book" WHERE array_length("app_book"."tags", 1) > 1;
SELECT "app_book"."id" FROM "app_book" WHERE 'sf' = ANY("app_book"."tags") ORDER BY "app_book"."id";
INSERT INTO "app_review" ("id", "book_id", "stars", "body", "created") VALUES (7, 4, 4, 'fine', '2024-03-05T12:00:00'::timestamp) RETURNING "app_review"."id";
INSERT INTO "app_review" ("id", "book_id", "stars", "body", "created") VALUES (8, 4, 1, NULL, '2024-03-06'), (9, 3, 4, '', '2024-03-07') RETURNING "app_review"."id";
UPDATE "app_book" SET "price" = ("app_book"."price" + 1), "rating" = NULL WHERE "app_book"."id" = 3;
UPDATE "app_book" SET "price" = COALESCE("app_book"."price", 5.0) * 1.1 WHERE "app_book"."id" IN (4, 5) RETURNING "id", "price";
DELETE FROM "app_review" WHERE "app_review"."id" IN (8);
DELETE FROM "app_review" WHERE "app_review"."book_id" = 4 RETURNING *;
SELECT app_book.id AS app_book_id, app_book.title AS app_book_title, app_author_1.id AS app_author_1_id, app_author_1.name AS app_author_1_name FROM app_book LEFT OUTER JOIN app_author AS app_author_1 ON app_author_1.id = app_book.author_id ORDER BY app_book.id LIMIT 2 OFFSET 1;
SELECT anon_1.id, count(app_review.id) AS count_1 FROM (SELECT app_book.id AS id FROM app_book WHERE app_book.price IS NOT NULL) AS anon_1 LEFT JOIN app_review ON app_review.book_id = anon_1.id GROUP BY anon_1.id ORDER BY anon_1.id;
SELECT app_author.name, anon_1.total FROM app_author JOIN (SELECT author_id, sum(price) AS total FROM app_book GROUP BY author_id) AS anon_1 ON app_author.id = anon_1.author_id;
SELECT count(*) AS count_1 FROM (SELECT app_book.id FROM app_book WHERE app_book.rating > 4) AS anon_1;
SELECT EXISTS (SELECT 1 FROM app_author WHERE app_author.name = 'Ted') AS anon_1;
SELECT app_book.id, row_number() OVER (PARTITION BY app_book.author_id ORDER BY app_book.price DESC NULLS LAST) AS rn FROM app_book;
SELECT * FROM (SELECT b.*, row_number() OVER (ORDER BY price NULLS FIRST, id) AS rn FROM app_book b) t WHERE rn BETWEEN 2 AND 3;
SELECT books.* FROM app_book books WHERE books.author_id IN (SELECT app_author.id FROM app_author WHERE app_author.active = TRUE);
SELECT "books".* FROM "app_book" "books" WHERE ("books"."title" ILIKE '%season%' OR "books"."isbn" IS NULL) ORDER BY "books"."title" DESC;
SELECT COUNT(*) AS count_all, "app_review"."book_id" AS app_review_book_id FROM "app_review" GROUP BY "app_review"."book_id" HAVING COUNT(*) > 1;
SELECT 1 AS one FROM "app_author" WHERE "app_author"."name" = 'Nobody' LIMIT 1;
SELECT SUM("app_book"."price") FROM "app_book" WHERE "app_book"."author_id" = 1;
SELECT MAX("app_review"."created") - MIN("app_review"."created") AS span FROM "app_review";
SELECT a1_0.id, a1_0.name, b1_0.title FROM app_author a1_0 LEFT JOIN app_book b1_0 ON a1_0.id = b1_0.author_id AND b1_0.price > 9 WHERE a1_0.active ORDER BY a1_0.id FETCH FIRST 5 ROWS ONLY;
SELECT r.stars, count(*) * 100.0 / (SELECT count(*) FROM app_review) AS share FROM app_review r GROUP BY r.stars ORDER BY r.stars;
SELECT b.id, avg(r.stars)::numeric(3,2) AS mean, count(r.id) FROM app_book b LEFT JOIN app_review r ON r.book_id = b.id GROUP BY b.id ORDER BY b.id;
SELECT b.id, lag(r.stars) OVER (PARTITION BY b.id ORDER BY r.created) IS NULL AS first, r.stars FROM app_book b JOIN app_review r ON r.book_id = b.id;
SELECT to_char(created, 'YYYY-MM') AS month, count(*), array_agg(DISTINCT stars ORDER BY stars) FROM app_review GROUP BY month ORDER BY month;
SELECT d::date AS day, count(r.id) FROM generate_series('2024-01-01'::timestamp, '2024-01-04', '1 day') d LEFT JOIN app_review r ON r.created >= d AND r.created < d + interval '1 day' GROUP BY d ORDER BY d;
SELECT t.tag, count(*) FROM app_book, unnest(tags) AS t(tag) GROUP BY t.tag ORDER BY count(*) DESC, t.tag;
SELECT title, tags[1], cardinality(tags), array_to_string(tags, '/') FROM app_book ORDER BY id;
SELECT jsonb_build_object('id', id, 'title', title, 'tags', to_jsonb(tags)) FROM app_book WHERE id = 1;
SELECT a.id, jsonb_agg(jsonb_build_object('t', b.title) ORDER BY b.id) FILTER (WHERE b.id IS NOT NULL) FROM app_author a LEFT JOIN app_book b ON b.author_id = a.id GROUP BY a.id;
SELECT a.id, coalesce(jsonb_agg(b.id ORDER BY b.id) FILTER (WHERE b.rating > 4.4), '[]') FROM app_author a LEFT JOIN app_book b ON b.author_id = a.id GROUP BY a.id;
SELECT k, v FROM app_author, jsonb_each_text(settings) AS s (k, v) ORDER BY id, k;
SELECT a.name, s.* FROM app_author a CROSS JOIN LATERAL (SELECT count(*) AS books, max(b.rating) AS best FROM app_book b WHERE b.author_id = a.id) s ORDER BY a.id;
WITH ranked AS (SELECT b.id, b.author_id, rank() OVER (PARTITION BY b.author_id ORDER BY b.rating DESC NULLS LAST) AS r FROM app_book b) SELECT a.name, ranked.id FROM ranked JOIN app_author a ON a.id = ranked.author_id WHERE ranked.r = 1 ORDER BY a.id;
WITH RECURSIVE days (d) AS (SELECT date '2024-01-01' UNION ALL SELECT d + 1 FROM days WHERE d < '2024-01-05') SELECT d, count(r.id) FROM days LEFT JOIN app_review r ON r.created::date = d GROUP BY d ORDER BY d;
SELECT name FROM app_author WHERE born < '1930-01-01'::date OR born IS NULL ORDER BY born NULLS LAST;
SELECT name, extract(year FROM age(date '2024-01-01', born)) AS years FROM app_author WHERE born IS NOT NULL ORDER BY years;
SELECT name || ' (' || coalesce(to_char(born, 'YYYY'), '?') || ')' FROM app_author ORDER BY id;
SELECT id, title FROM app_book WHERE title ~* '^(the|a) ' ORDER BY regexp_replace(title, '^(The|A) ', '');
SELECT left(title, 3) AS pre, count(*) FROM app_book GROUP BY pre HAVING count(*) >= 1 ORDER BY pre;
SELECT id FROM app_book WHERE isbn LIKE '978%' AND length(isbn) = 13;
SELECT id, isbn, price IS NULL, rating IS NOT NULL FROM app_book WHERE (isbn IS NULL) = (price IS NULL);
SELECT active, bool_or(born IS NULL), string_agg(name, '; ' ORDER BY name DESC) FROM app_author GROUP BY active;
SELECT a.name, b.name FROM app_author a JOIN app_author b ON a.id < b.id AND a.active = b.active;
SELECT coalesce(b.price, 0) + 1 AS p FROM app_book b ORDER BY coalesce(b.price, 0) + 1;
SELECT title FROM app_book ORDER BY rating DESC NULLS LAST, price ASC NULLS FIRST LIMIT 3;
SELECT id FROM app_review WHERE created >= '2024-01-03' AND created < '2024-01-04';
SELECT id FROM app_review WHERE created::date = '2024-01-03' AND body <> '';
SELECT id, created AT TIME ZONE 'UTC' FROM app_review WHERE stars = 5 ORDER BY id;
SELECT min(stars), max(stars), avg(stars), sum(stars), count(body), variance(stars) FROM app_review;
SELECT stars, count(*), sum(count(*)) OVER (ORDER BY stars) FROM app_review GROUP BY stars ORDER BY stars;
SELECT book_id, stars, first_value(stars) OVER (PARTITION BY book_id ORDER BY created DESC) FROM app_review;
SELECT nullif(body, '') IS NULL AS blank, count(*) FROM app_review GROUP BY 1;
SELECT id FROM app_review WHERE body IN ('great', 'wow', NULL);
SELECT id FROM app_review WHERE (stars, id) > (4, 2) ORDER BY stars, id LIMIT 2;
SELECT id FROM app_review WHERE stars > ALL (SELECT stars FROM app_review WHERE book_id = 1 AND stars < 5);
SELECT book_id FROM app_review GROUP BY book_id HAVING every(stars > 2) ORDER BY book_id;
(SELECT 'book' AS kind, title AS label FROM app_book WHERE id < 3) UNION ALL (SELECT 'author', name FROM app_author WHERE id < 3) ORDER BY kind, label;
SELECT author_id FROM app_book INTERSECT SELECT id FROM app_author WHERE active;
SELECT id FROM app_book EXCEPT SELECT book_id FROM app_review ORDER BY 1;
SELECT missing FROM app_book;
SELECT id FROM app_book WHERE price = 'cheap';
SELECT id FROM app_book b, app_author b;
SELECT sum(title) FROM app_book;
SELECT title, sum(price) FROM app_book;
SELECT app_author.name FROM app_book;
SELECT id FROM app_book GROUP BY author_id;
INSERT INTO app_review (id, book_id, stars, created) VALUES (1, 1, 1, '2024-01-01');
INSERT INTO app_review (id, book_id) VALUES (99, 1);
INSERT INTO app_review (id, book_id, stars, created) VALUES (99, 1, 1, 'some day');
UPDATE app_author SET nam = 'x' WHERE id = 1;
DELETE FROM app_authors WHERE id = 1;
