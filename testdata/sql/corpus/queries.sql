-- What clients ask of an order book: joins, subqueries, groups, windows, sets.
CREATE TABLE customer (
    id integer PRIMARY KEY,
    name text NOT NULL,
    city varchar(20),
    credit numeric(12,2) NOT NULL DEFAULT 0,
    since date,
    boss integer
);
CREATE TABLE product (
    id integer PRIMARY KEY,
    label text NOT NULL,
    price numeric(10,2) NOT NULL,
    weight double precision,
    tags text[],
    attributes jsonb
);
CREATE TABLE orders (
    id integer PRIMARY KEY,
    customer integer NOT NULL REFERENCES customer (id),
    placed timestamp NOT NULL,
    shipped timestamp,
    state char(8) NOT NULL,
    total numeric(12,2)
);
CREATE TABLE line (
    order_id integer NOT NULL REFERENCES orders (id),
    number integer NOT NULL,
    product integer NOT NULL,
    quantity smallint NOT NULL,
    amount numeric(12,2) NOT NULL,
    note text,
    PRIMARY KEY (order_id, number)
);
CREATE INDEX line_product ON line (product);
CREATE TABLE stock (
    warehouse integer NOT NULL,
    product integer NOT NULL,
    quantity integer NOT NULL,
    low boolean NOT NULL DEFAULT false,
    PRIMARY KEY (warehouse, product)
);
CREATE TABLE sale (
    day date NOT NULL,
    region text NOT NULL,
    product integer NOT NULL,
    amount integer,
    PRIMARY KEY (day, region, product)
);
COMMENT ON TABLE line IS 'weir: partition by (order_id)';
COMMENT ON TABLE orders IS 'weir: partition by (id)';
COMMENT ON TABLE stock IS 'weir: partition by (warehouse)';
COMMENT ON TABLE sale IS 'weir: partition by (product)';
-- rows
INSERT INTO customer VALUES
    (1, 'Ann', 'Oslo', 100.00, '2020-01-15', NULL), (2, 'Bob', 'Paris', 250.50, '2020-03-01', 1),
    (3, 'Cid', 'Oslo', 0, '2021-07-09', 1), (4, 'Dora', NULL, 75.25, NULL, 2),
    (5, 'Eve', 'Rome', -20, '2022-12-31', 2), (6, 'Fay', 'Paris', 250.50, '2020-03-01', 3),
    (7, 'Gus', 'Lyon', 10, '2023-05-05', NULL), (8, 'Hal', 'oslo', 5, '2019-11-11', 7);
INSERT INTO product VALUES
    (1, 'anvil', 49.90, 25.5, ARRAY['heavy', 'iron'], '{"colour": "black", "sizes": [1, 2, 3], "maker": {"name": "Acme", "city": "Oslo"}}'),
    (2, 'bolt', 0.15, 0.01, ARRAY['iron'], '{"colour": "grey", "sizes": [], "loose": true}'),
    (3, 'crate', 12.00, 4.2, ARRAY['wood', 'large'], '{"sizes": [4]}'),
    (4, 'drum', 89.99, NULL, NULL, NULL),
    (5, 'easel', 35.00, 3.75, ARRAY[]::text[], '{}'),
    (6, 'flask', 7.25, 0.4, ARRAY['glass', 'small', NULL], '{"colour": null, "volume": 1.5}');
INSERT INTO orders VALUES
    (1, 1, '2023-01-05 10:00', '2023-01-07 09:30', 'done', 149.70), (2, 1, '2023-02-10 12:15', NULL, 'open', 12.00),
    (3, 2, '2023-01-20 08:00', '2023-01-21 08:00', 'done', 101.99), (4, 3, '2023-03-03 16:45', NULL, 'open', 0.90),
    (5, 3, '2023-03-04 09:00', '2023-03-09 17:20', 'done', 260.00), (6, 5, '2023-03-04 09:00', NULL, 'void', NULL),
    (7, 2, '2023-04-01 00:00', '2023-04-02 11:11', 'done', 35.00), (8, 6, '2023-04-15 23:59:59', NULL, 'open', 7.25);
INSERT INTO line VALUES
    (1, 1, 1, 3, 149.70, 'fragile'), (2, 1, 3, 1, 12.00, NULL), (3, 1, 4, 1, 89.99, 'gift'), (3, 2, 3, 1, 12.00, ''),
    (4, 1, 2, 6, 0.90, NULL), (5, 1, 1, 5, 249.50, 'fragile'), (5, 2, 2, 70, 10.50, NULL), (7, 1, 5, 1, 35.00, 'Gift'),
    (8, 1, 6, 1, 7.25, 'fragile glass');
INSERT INTO stock VALUES
    (1, 1, 10, false), (1, 2, 5000, false), (1, 3, 2, true), (1, 4, 0, true), (2, 1, 4, true), (2, 5, 8, false),
    (2, 6, 30, false), (3, 2, 100, false), (3, 3, 55, false);
INSERT INTO sale VALUES
    ('2024-01-01', 'north', 1, 10), ('2024-01-01', 'south', 1, 7), ('2024-01-02', 'north', 1, 12), ('2024-01-02', 'south', 2, 3),
    ('2024-01-03', 'north', 2, NULL), ('2024-01-03', 'south', 1, 7), ('2024-01-04', 'north', 3, 20), ('2024-01-05', 'east', 1, 1),
    ('2024-01-05', 'north', 1, 15), ('2024-01-07', 'south', 3, 9), ('2024-01-08', 'east', 2, 4), ('2024-01-09', 'north', 2, 6);

-- cases
-- plain
SELECT * FROM customer;
SELECT id, name FROM customer WHERE id = 3;
SELECT name AS who, credit * 2 AS twice FROM customer WHERE credit > 50 ORDER BY twice DESC, who;
SELECT c.name, c.* FROM customer c WHERE c.id < 3;
SELECT DISTINCT city FROM customer ORDER BY city;
SELECT DISTINCT city FROM customer ORDER BY city NULLS FIRST;
SELECT DISTINCT city FROM customer ORDER BY city DESC NULLS LAST;
SELECT DISTINCT credit, since FROM customer ORDER BY 1, 2;
SELECT DISTINCT ON (city) city, name FROM customer ORDER BY city, name DESC;
SELECT DISTINCT ON (lower(city)) lower(city), name FROM customer ORDER BY lower(city), id;
SELECT DISTINCT ON (1) city, id FROM customer ORDER BY 1, 2;
SELECT DISTINCT ON (city, credit) city, credit, id FROM customer ORDER BY credit, city, id;
SELECT DISTINCT ON (city) name FROM customer ORDER BY name;
-- ORDER BY may have fewer columns than DISTINCT ON: equal rows need not follow each other in its order.
SELECT count(*) FROM (SELECT DISTINCT ON (b, a) a, b FROM (VALUES (1, 1), (2, 1), (1, 1), (2, 1), (1, 2), (1, 1)) v (a, b) ORDER BY b) x;
SELECT count(*) FROM (SELECT DISTINCT ON (a, b) a, b FROM (VALUES (1, 1), (2, 1), (1, 1), (2, 1), (1, 2), (1, 1)) v (a, b)) x;
SELECT DISTINCT ON (b, a) a, b, c FROM (VALUES (2, 1, 'x'), (1, 1, 'y'), (2, 1, 'z'), (1, 2, 'v'), (1, 1, 'w')) v (a, b, c) ORDER BY b DESC, a DESC, c;
SELECT name FROM customer ORDER BY credit, name LIMIT 3;
SELECT name FROM customer ORDER BY credit DESC, name OFFSET 2 LIMIT 3;
SELECT name FROM customer ORDER BY 1 OFFSET 6;
SELECT name FROM customer ORDER BY name LIMIT 0;
SELECT name FROM customer ORDER BY name LIMIT ALL;
SELECT name FROM customer ORDER BY name LIMIT NULL OFFSET NULL;
SELECT name FROM customer ORDER BY name LIMIT 1 + 1 OFFSET length('ab');
SELECT name FROM customer ORDER BY name LIMIT (SELECT count(*) FROM orders WHERE state = 'open');
SELECT name FROM customer LIMIT -1;
SELECT name FROM customer OFFSET -1;
SELECT name FROM customer ORDER BY id FETCH FIRST ROW ONLY;
SELECT name FROM customer ORDER BY id FETCH FIRST 2 ROWS ONLY;
SELECT name FROM customer ORDER BY id OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY;
SELECT credit FROM customer ORDER BY credit DESC FETCH FIRST 1 ROW WITH TIES;
SELECT credit FROM customer ORDER BY credit DESC FETCH FIRST 2 ROWS WITH TIES;
SELECT since FROM customer ORDER BY since DESC NULLS LAST OFFSET 3 FETCH FIRST 2 ROWS WITH TIES;
SELECT city FROM customer ORDER BY city FETCH FIRST 20 ROWS WITH TIES;
SELECT credit FROM customer FETCH FIRST 2 ROWS WITH TIES;
SELECT length(name) AS n, count(*) FROM customer GROUP BY 1 ORDER BY 1 FETCH FIRST 1 ROWS WITH TIES;
SELECT name, city FROM customer ORDER BY city DESC, name;
SELECT name, city FROM customer ORDER BY city ASC NULLS FIRST, name DESC;
SELECT name n FROM customer ORDER BY n;
SELECT name n FROM customer ORDER BY upper(name);
SELECT credit AS name, name AS credit FROM customer ORDER BY name, credit;
SELECT id FROM customer ORDER BY credit + id, id;
SELECT id FROM customer ORDER BY (credit > 10) DESC, id;
SELECT id FROM customer ORDER BY city IS NULL DESC, city, id;
SELECT id FROM customer ORDER BY CASE WHEN city = 'Oslo' THEN 0 ELSE 1 END, id;
SELECT id, id FROM customer ORDER BY 3;
SELECT id FROM customer ORDER BY 0;
SELECT id FROM customer ORDER BY nowhere;
SELECT id FROM customer ORDER BY 'x';
SELECT DISTINCT id FROM customer ORDER BY name;
SELECT nothing FROM customer;
SELECT customer.nothing FROM customer;
SELECT other.id FROM customer;
SELECT id FROM nowhere;
SELECT id FROM customer, orders;
SELECT 1 AS one, 'two' AS two, NULL AS three, true AS four, 1.5 AS five;
SELECT;
SELECT 1 FROM customer WHERE id <= 2;
SELECT count(*), 5 FROM customer;
SELECT 'a' 'b';
SELECT "id", "name" FROM "customer" WHERE "id" = 1;
SELECT ID, Name FROM Customer WHERE iD = 1;
SELECT id AS "Id", name AS "the name" FROM customer WHERE id = 1;
SELECT public.customer.id FROM public.customer WHERE public.customer.id = 2;
TABLE stock;
SELECT /* all of them */ count(*) -- and no more
FROM customer;
SELECT id FROM customer WHERE city = 'Oslo' AND credit >= 0 OR id = 7;
SELECT id FROM customer WHERE NOT (city = 'Oslo');
SELECT id FROM customer WHERE city IS NULL;
SELECT id FROM customer WHERE city IS NOT NULL AND since IS NULL;
SELECT id FROM customer WHERE city <> 'Oslo';
SELECT id FROM customer WHERE city IS DISTINCT FROM 'Oslo';
SELECT id FROM customer WHERE city IS NOT DISTINCT FROM NULL;
SELECT id FROM customer WHERE id IN (1, 3, 5, 99);
SELECT id FROM customer WHERE id NOT IN (1, 3, 5, NULL);
SELECT id FROM customer WHERE city IN ('Oslo', NULL);
SELECT id FROM customer WHERE (id, name) IN ((1, 'Ann'), (2, 'Ann'), (3, 'Cid'));
SELECT id FROM customer WHERE (city, credit) NOT IN (('Oslo', 0), ('Paris', 250.5));
SELECT id FROM customer WHERE id BETWEEN 2 AND 4;
SELECT id FROM customer WHERE id NOT BETWEEN 2 AND 7;
SELECT id FROM customer WHERE id BETWEEN SYMMETRIC 4 AND 2;
SELECT id FROM customer WHERE since BETWEEN '2020-01-01' AND '2020-12-31';
SELECT id FROM customer WHERE (credit, id) > (75, 2);
SELECT id FROM customer WHERE (credit, id) <= (10, 7);
SELECT id FROM customer WHERE (city, id) = ('Oslo', 1);
SELECT id FROM customer WHERE ROW(id, credit) <> ROW(1, 100);
SELECT id FROM customer WHERE id = ANY (ARRAY[1, 2, 42]);
SELECT id FROM customer WHERE id = ANY ('{1,2,42}');
SELECT id FROM customer WHERE id <> ALL (ARRAY[1, 2, 3]);
SELECT id FROM customer WHERE name LIKE '%a%';
SELECT id FROM customer WHERE name ILIKE 'a%';
SELECT id FROM customer WHERE name LIKE ANY (ARRAY['A%', '%e']);
SELECT id FROM customer WHERE name NOT LIKE ALL (ARRAY['A%', '%e']);
SELECT id FROM customer WHERE name ILIKE ANY ('{a%,%E}');
SELECT id FROM customer WHERE name SIMILAR TO '(A|B)%';
SELECT id FROM customer WHERE name NOT SIMILAR TO '[A-D]_*%';
SELECT id FROM customer WHERE name ~ '^[A-C]';
SELECT id FROM customer WHERE name !~ 'a';
SELECT id FROM customer WHERE name ~* '^e|^F';
SELECT id FROM customer WHERE name !~* '[aeiou]$';
SELECT id FROM customer WHERE name OPERATOR(pg_catalog.~) '^(Ann|Bob)$';
SELECT id FROM customer WHERE name OPERATOR(pg_catalog.=) 'Ann' COLLATE pg_catalog.default;
SELECT id FROM customer WHERE name COLLATE "C" < 'C';
SELECT name FROM customer ORDER BY name COLLATE "C" DESC;
SELECT pg_catalog.lower(name), pg_catalog.length(name) FROM customer WHERE id = 1;
SELECT name::pg_catalog.text, id::pg_catalog.int8 FROM customer WHERE id = 1;
SELECT id FROM customer WHERE credit::integer % 2 = 0;
SELECT id FROM customer WHERE state = 'open';
SELECT id FROM customer WHERE name = 5;
SELECT id FROM customer WHERE credit;
SELECT id FROM customer WHERE true;
SELECT id FROM customer WHERE NULL;
SELECT id FROM orders WHERE state = 'open    ';
SELECT id FROM orders WHERE state = 'done' AND shipped - placed > interval '1 day';
SELECT id FROM orders WHERE state IN ('open', 'void');
SELECT id, state, length(state), state || '|' FROM orders WHERE id = 2;
-- joins
SELECT c.name, o.id FROM customer c JOIN orders o ON o.customer = c.id;
SELECT c.name, o.id FROM customer c, orders o WHERE o.customer = c.id AND o.state = 'open';
SELECT c.name, o.id FROM customer c INNER JOIN orders o ON c.id = o.customer WHERE c.city = 'Oslo' ORDER BY o.id;
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.customer = c.id;
SELECT c.name, o.id FROM customer c LEFT OUTER JOIN orders o ON o.customer = c.id AND o.state = 'open';
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.customer = c.id AND c.city = 'Oslo';
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.customer = c.id AND c.id = 1;
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.customer = c.id WHERE o.id IS NULL;
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.customer = c.id WHERE o.state = 'done';
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.id = 5;
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.id = c.id AND o.id = 2;
SELECT o.id, c.name FROM orders o RIGHT JOIN customer c ON c.id = o.customer;
SELECT o.id, c.name FROM orders o RIGHT JOIN customer c ON c.id = o.customer AND o.id = 3;
SELECT o.id, l.number FROM orders o RIGHT JOIN line l ON o.id = l.order_id AND o.state = 'done';
SELECT s.product, p.label FROM stock s FULL JOIN product p ON p.id = s.product;
SELECT s.warehouse, p.label FROM stock s FULL JOIN product p ON p.id = s.product AND s.warehouse = 1;
SELECT s.warehouse, o.id FROM stock s FULL OUTER JOIN orders o ON o.id = s.warehouse AND o.id = 1;
SELECT s.warehouse, o.id FROM stock s FULL JOIN orders o ON o.id = s.warehouse WHERE o.id = 2 OR s.warehouse = 3;
SELECT count(*) FROM customer CROSS JOIN product;
SELECT a.id, b.id FROM customer a, customer b WHERE a.boss = b.id;
SELECT a.id, b.id, c.id FROM customer a LEFT JOIN customer b ON a.boss = b.id LEFT JOIN customer c ON b.boss = c.id;
SELECT o.id, l.number, p.label FROM orders o JOIN line l ON l.order_id = o.id JOIN product p ON p.id = l.product WHERE o.customer = 3;
SELECT o.id, l.number, p.label FROM orders o JOIN (line l JOIN product p ON p.id = l.product) ON l.order_id = o.id;
SELECT o.id, l.number FROM orders o LEFT JOIN (line l JOIN product p ON p.id = l.product AND p.price > 10) ON l.order_id = o.id;
SELECT * FROM stock NATURAL JOIN (SELECT 1 AS warehouse, 3 AS product) x;
SELECT * FROM stock s JOIN line l USING (product);
SELECT product, s.quantity, l.quantity FROM stock s LEFT JOIN line l USING (product);
SELECT product, s.quantity FROM line l RIGHT JOIN stock s USING (product);
SELECT product FROM line l FULL JOIN stock s USING (product, quantity);
SELECT product, x.label FROM stock JOIN (SELECT id AS product, label FROM product) AS x USING (product) WHERE product < 3;
SELECT j.product, j.quantity FROM (stock s JOIN (SELECT 1 AS warehouse) w USING (warehouse)) AS j;
SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id;
SELECT a.id, b.id FROM orders a JOIN orders b ON a.total < b.total AND b.state = 'done';
SELECT o.id, c.id FROM orders o JOIN customer c ON c.id = o.customer AND c.credit > o.total;
SELECT o.id FROM orders o JOIN customer c ON true WHERE c.id = 8;
SELECT count(*) FROM orders o JOIN customer c ON false;
SELECT o.id, x.n FROM orders o JOIN (SELECT order_id, count(*) AS n FROM line GROUP BY order_id) x ON x.order_id = o.id;
SELECT o.id, x.n FROM orders o LEFT JOIN (SELECT order_id, count(*) AS n FROM line GROUP BY order_id) x ON x.order_id = o.id;
SELECT c.name, x.id FROM customer c, LATERAL (SELECT o.id FROM orders o WHERE o.customer = c.id ORDER BY o.id DESC LIMIT 1) x;
SELECT c.name, x.id FROM customer c LEFT JOIN LATERAL (SELECT o.id FROM orders o WHERE o.customer = c.id ORDER BY o.id DESC LIMIT 1) x ON true;
SELECT c.name, x.n, x.t FROM customer c CROSS JOIN LATERAL (SELECT count(*) AS n, sum(total) AS t FROM orders o WHERE o.customer = c.id) x;
SELECT c.name, x.n FROM customer c CROSS JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer = c.id AND o.customer = 1) x;
SELECT o.id, l.number FROM orders o JOIN LATERAL (SELECT * FROM line WHERE order_id = o.id) l ON l.amount > 20;
SELECT c.name, y.v FROM customer c, LATERAL (SELECT c.credit * 2 AS v) y WHERE y.v > 100;
SELECT c.id, x.id FROM customer c, (SELECT id FROM orders WHERE customer = c.id) x;
SELECT p.label, t FROM product p, unnest(p.tags) AS t;
SELECT p.label, t.tag, t.at FROM product p CROSS JOIN LATERAL unnest(p.tags) WITH ORDINALITY AS t (tag, at);
SELECT p.label, t FROM product p LEFT JOIN LATERAL unnest(p.tags) AS t ON true;
SELECT p.label, t FROM product p LEFT JOIN unnest(p.tags) AS t ON t LIKE 'i%';
SELECT c.id FROM customer c JOIN customer c ON true;
SELECT name FROM customer a JOIN customer b ON a.id = b.id;
SELECT a.id FROM customer a JOIN orders b USING (nothing);
SELECT o.id FROM orders o NATURAL JOIN line l;
SELECT c.name, count(o.id) FROM customer c LEFT JOIN orders o ON o.customer = c.id GROUP BY c.name ORDER BY 2 DESC, 1;
SELECT c.name, sum(l.amount) FROM customer c JOIN orders o ON o.customer = c.id JOIN line l ON l.order_id = o.id GROUP BY c.id ORDER BY c.id;
SELECT s.warehouse, o.id FROM stock s LEFT JOIN orders o ON o.id = s.warehouse AND s.warehouse = 2 ORDER BY s.warehouse, s.product, o.id;
SELECT o.id, s.low FROM orders o LEFT JOIN stock s ON s.warehouse = o.id AND s.product = 1 AND o.id = 1;
SELECT o.id, l.number, s.warehouse FROM orders o LEFT JOIN line l ON l.order_id = o.id LEFT JOIN stock s ON s.product = l.product AND s.warehouse = 1;
SELECT o.id, l.number, s.warehouse FROM orders o LEFT JOIN line l ON l.order_id = o.id RIGHT JOIN stock s ON s.product = l.product;
SELECT l.order_id FROM line l LEFT JOIN orders o ON l.order_id = o.id AND o.id = 3 WHERE l.order_id = 3;
-- subqueries
SELECT name, (SELECT count(*) FROM orders o WHERE o.customer = c.id) FROM customer c;
SELECT name, (SELECT max(placed) FROM orders o WHERE o.customer = c.id) AS last FROM customer c ORDER BY last DESC NULLS LAST, name;
SELECT (SELECT name FROM customer WHERE id = 4);
SELECT (SELECT name FROM customer WHERE id = 400);
SELECT (SELECT name FROM customer);
SELECT (SELECT id, name FROM customer WHERE id = 1);
SELECT (SELECT 1), (SELECT NULL), (SELECT 'x');
SELECT name FROM customer WHERE credit = (SELECT max(credit) FROM customer);
SELECT name FROM customer WHERE credit > (SELECT avg(credit) FROM customer);
SELECT name FROM customer c WHERE credit > (SELECT avg(credit) FROM customer d WHERE d.city = c.city);
SELECT name FROM customer WHERE id IN (SELECT customer FROM orders);
SELECT name FROM customer WHERE id NOT IN (SELECT customer FROM orders);
SELECT name FROM customer WHERE id NOT IN (SELECT boss FROM customer);
SELECT name FROM customer WHERE id NOT IN (SELECT boss FROM customer WHERE boss IS NOT NULL);
SELECT name FROM customer WHERE id IN (SELECT customer FROM orders WHERE state = 'open' ORDER BY id LIMIT 1);
SELECT name FROM customer WHERE 3 IN (SELECT customer FROM orders ORDER BY id DESC LIMIT 2);
SELECT id FROM orders WHERE 7 IN (SELECT id FROM orders ORDER BY id DESC LIMIT 1);
SELECT id FROM orders WHERE 8 IN (SELECT id FROM orders ORDER BY id DESC LIMIT 1);
SELECT id FROM orders WHERE id IN (SELECT max(order_id) FROM line);
SELECT name FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.total > 100);
SELECT name FROM customer c WHERE NOT EXISTS (SELECT * FROM orders o WHERE o.customer = c.id);
SELECT name FROM customer c WHERE EXISTS (SELECT count(*) FROM orders o WHERE o.customer = c.id AND o.customer = 1);
SELECT name FROM customer c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id UNION SELECT 1 FROM customer d WHERE d.boss = c.id);
SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM line l WHERE l.order_id = o.id AND l.product = 1 UNION ALL SELECT 1 FROM line l WHERE l.order_id = o.id AND o.id = 7);
SELECT id FROM orders o WHERE EXISTS (SELECT sum(amount) FROM line l WHERE l.order_id = o.id AND o.id = 7);
SELECT EXISTS (SELECT 1 FROM customer WHERE id = 1), EXISTS (SELECT 1 FROM customer WHERE id = 100);
SELECT name FROM customer WHERE credit >= ALL (SELECT credit FROM customer);
SELECT name FROM customer WHERE credit > ANY (SELECT credit FROM customer WHERE city = 'Oslo');
SELECT name FROM customer WHERE credit < SOME (SELECT total FROM orders);
SELECT name FROM customer WHERE credit > ALL (SELECT total FROM orders);
SELECT name FROM customer WHERE credit > ALL (SELECT total FROM orders WHERE false);
SELECT name FROM customer WHERE (id, city) IN (SELECT id, city FROM customer WHERE credit > 0);
SELECT name FROM customer WHERE (id, city) NOT IN (SELECT id, city FROM customer WHERE credit > 50);
SELECT name FROM customer WHERE (id, city) = (SELECT id, city FROM customer WHERE id = 2);
SELECT name FROM customer WHERE (credit, id) > (SELECT credit, id FROM customer WHERE id = 4);
SELECT id, (SELECT l.note FROM line l WHERE l.order_id = o.id AND l.number = 1) FROM orders o;
SELECT id, ARRAY(SELECT number FROM line l WHERE l.order_id = o.id ORDER BY number DESC) FROM orders o;
SELECT ARRAY(SELECT name FROM customer ORDER BY name LIMIT 3);
SELECT x.n FROM (SELECT count(*) AS n FROM orders) x;
SELECT x.city, x.n FROM (SELECT city, count(*) AS n FROM customer GROUP BY city) AS x WHERE x.n > 1;
SELECT a, b FROM (SELECT id, name FROM customer) AS t (a, b) WHERE a < 3;
SELECT * FROM (SELECT id FROM orders ORDER BY total DESC NULLS LAST LIMIT 3) x WHERE id = 1;
SELECT * FROM (SELECT id FROM orders ORDER BY total DESC NULLS LAST LIMIT 3) x WHERE id = 2;
SELECT * FROM (SELECT DISTINCT ON (customer) customer, id FROM orders ORDER BY customer, id DESC) x WHERE id = 1;
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders) x WHERE id = 5;
SELECT * FROM (SELECT order_id, sum(amount) OVER () AS s FROM line) x WHERE order_id = 1;
SELECT * FROM (SELECT max(id) AS id FROM orders) x WHERE id = 3;
SELECT (SELECT (SELECT c.name) FROM orders o WHERE o.customer = c.id LIMIT 1) FROM customer c WHERE c.id < 5;
SELECT name FROM customer c WHERE (SELECT count(*) FROM orders o WHERE o.customer = c.id) = (SELECT count(*) FROM customer d WHERE d.boss = c.id);
SELECT sum(n) FROM (SELECT (SELECT count(*) FROM line l WHERE l.order_id = o.id) AS n FROM orders o) x;
SELECT name FROM customer WHERE id = (SELECT boss FROM customer WHERE name = 'Dora');
SELECT CASE WHEN EXISTS (SELECT 1 FROM orders WHERE customer = 7) THEN 'yes' ELSE 'no' END;
SELECT id FROM orders WHERE total = (SELECT sum(amount) FROM line WHERE order_id = orders.id);
SELECT id FROM orders o WHERE total <> (SELECT sum(amount) FROM line l WHERE l.order_id = o.id) OR NOT EXISTS (SELECT 1 FROM line l WHERE l.order_id = o.id);
-- refused
SELECT (SELECT max(c.credit)) FROM customer c;
SELECT id FROM orders ORDER BY (SELECT name FROM customer c WHERE c.id = orders.customer), id;
SELECT count(*) FROM orders WHERE customer IN (SELECT id FROM customer WHERE city IN (SELECT city FROM customer WHERE credit > 200));
SELECT id FROM orders WHERE customer = ANY (SELECT id FROM customer WHERE city = 'Oslo') ORDER BY id;
-- groups
SELECT count(*), count(city), count(DISTINCT city) FROM customer;
SELECT city, count(*) FROM customer GROUP BY city;
SELECT city, count(*) AS n FROM customer GROUP BY city HAVING count(*) > 1 ORDER BY n, city;
SELECT lower(city) AS c, sum(credit) FROM customer GROUP BY lower(city);
SELECT lower(city) AS c, sum(credit) FROM customer GROUP BY c;
SELECT lower(city) AS c, sum(credit) FROM customer GROUP BY 1 ORDER BY 1;
SELECT city, credit > 50 AS rich, count(*) FROM customer GROUP BY city, credit > 50;
SELECT city, count(*) FROM customer GROUP BY city ORDER BY count(*) DESC, city NULLS FIRST;
SELECT count(*) FROM customer HAVING count(*) > 100;
SELECT count(*) FROM customer HAVING true;
SELECT sum(total) FROM orders WHERE false;
SELECT city FROM customer GROUP BY city HAVING bool_and(credit > 0);
SELECT c.id, c.name, count(*) FROM customer c JOIN orders o ON o.customer = c.id GROUP BY c.id;
SELECT name, count(*) FROM customer GROUP BY city;
SELECT city, name FROM customer GROUP BY city;
SELECT city, upper(city) || '!' FROM customer GROUP BY city;
SELECT count(*) FROM customer WHERE count(*) > 1;
SELECT sum(count(*)) FROM customer;
SELECT count(*) FROM customer GROUP BY count(*);
SELECT max(name) FROM customer ORDER BY max(credit);
SELECT city FROM customer GROUP BY city ORDER BY max(credit), city;
SELECT sum(credit), avg(credit), min(credit), max(credit) FROM customer;
SELECT sum(quantity), avg(quantity), min(quantity), max(quantity) FROM stock;
SELECT sum(quantity), avg(quantity) FROM line;
SELECT sum(weight), avg(weight), min(weight), max(weight) FROM product;
SELECT min(placed), max(placed), max(shipped - placed), sum(shipped - placed), avg(shipped - placed) FROM orders;
SELECT min(since), max(since) FROM customer;
SELECT min(state), max(state) FROM orders;
SELECT bool_and(low), bool_or(low), every(quantity >= 0) FROM stock;
SELECT count(*) FILTER (WHERE low), count(*) FILTER (WHERE NOT low) FROM stock;
SELECT city, sum(credit) FILTER (WHERE credit > 50) FROM customer GROUP BY city;
SELECT string_agg(name, ', ' ORDER BY name) FROM customer;
SELECT string_agg(name, ', ' ORDER BY credit DESC, name) FROM customer;
SELECT city, string_agg(name, '' ORDER BY id) FROM customer GROUP BY city;
SELECT string_agg(DISTINCT city, ',') FROM customer;
SELECT string_agg(DISTINCT city, ',' ORDER BY city) FROM customer;
SELECT string_agg(note, '/' ORDER BY order_id, number) FROM line;
SELECT array_agg(id ORDER BY id DESC) FROM customer;
SELECT array_agg(city ORDER BY id) FROM customer;
SELECT array_agg(DISTINCT city) FROM customer;
SELECT array_agg(id) FROM customer WHERE false;
SELECT sum(DISTINCT credit), count(DISTINCT credit), avg(DISTINCT credit) FROM customer;
SELECT count(DISTINCT (city, credit)) FROM customer WHERE city IS NOT NULL;
SELECT jsonb_agg(name ORDER BY id) FROM customer;
SELECT jsonb_agg(credit ORDER BY id) FILTER (WHERE id < 4) FROM customer;
SELECT jsonb_object_agg(name, credit) FROM customer WHERE id < 4;
SELECT jsonb_object_agg(id, name) FROM customer WHERE id > 6;
SELECT jsonb_object_agg(city, id) FROM customer WHERE city IS NULL;
SELECT bit_and(quantity), bit_or(quantity), bit_xor(quantity) FROM stock;
SELECT stddev(credit), stddev_pop(credit), stddev_samp(credit) FROM customer;
SELECT variance(credit), var_pop(credit), var_samp(credit) FROM customer;
SELECT stddev(quantity), var_pop(quantity), variance(quantity) FROM stock;
SELECT stddev(weight), var_pop(weight), variance(weight), stddev_pop(weight) FROM product;
SELECT stddev(credit), var_pop(credit) FROM customer WHERE id = 1;
SELECT variance(credit) FROM customer WHERE false;
SELECT var_pop(1) FROM customer;
SELECT corr(price, weight), covar_pop(price, weight), covar_samp(price, weight) FROM product;
SELECT regr_count(price, weight), regr_avgx(price, weight), regr_avgy(price, weight) FROM product;
SELECT regr_slope(price, weight), regr_intercept(price, weight), regr_r2(price, weight) FROM product;
SELECT regr_sxx(price, weight), regr_syy(price, weight), regr_sxy(price, weight) FROM product;
SELECT mode() WITHIN GROUP (ORDER BY city) FROM customer;
SELECT mode() WITHIN GROUP (ORDER BY credit DESC) FROM customer;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY credit) FROM customer;
SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY weight DESC) FROM product;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY credit), percentile_disc(0) WITHIN GROUP (ORDER BY name) FROM customer;
SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY since) FROM customer;
SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY shipped - placed) FROM orders;
SELECT city, percentile_disc(1) WITHIN GROUP (ORDER BY id) FROM customer GROUP BY city;
SELECT percentile_cont(1.5) WITHIN GROUP (ORDER BY credit) FROM customer;
SELECT region, sum(amount), count(*) FROM sale GROUP BY ROLLUP (region);
SELECT region, product, sum(amount) FROM sale GROUP BY ROLLUP (region, product);
SELECT region, product, sum(amount) FROM sale GROUP BY CUBE (region, product);
SELECT region, product, sum(amount) FROM sale GROUP BY GROUPING SETS ((region), (product), ());
SELECT region, product, sum(amount), grouping(region, product) FROM sale GROUP BY GROUPING SETS ((region, product), (region), ());
SELECT region, product, count(*), grouping(region), grouping(product) FROM sale GROUP BY ROLLUP (region, product) ORDER BY 4, 5, 1, 2;
SELECT region, count(*) FROM sale GROUP BY ROLLUP (region) HAVING count(*) > 3 ORDER BY region NULLS FIRST;
SELECT region, day, sum(amount) FROM sale GROUP BY region, ROLLUP (day);
SELECT region, product, day, count(*) FROM sale GROUP BY GROUPING SETS (CUBE (region), (product, day));
-- Equal keys of which only some have their constants as parameters.
SELECT grouping((amount % 3)), 2.50, count(*) FROM sale GROUP BY GROUPING SETS (((amount % 3)), ((amount % 3)), ());
-- Sets over what a WITH gives.
WITH s AS (SELECT region, amount FROM sale), t AS (SELECT 'x' AS region, 1 AS amount) SELECT s.region, sum(s.amount), (SELECT count(*) FROM t) FROM s, t GROUP BY ROLLUP (s.region);
WITH s AS MATERIALIZED (SELECT region, amount FROM sale) SELECT * FROM (WITH t AS MATERIALIZED (SELECT 1 AS region, 2 AS amount) SELECT s.region, count(*), (SELECT sum(amount) FROM t) FROM s, t GROUP BY GROUPING SETS ((s.region, t.amount), (s.region), ())) q;
WITH RECURSIVE w (n) AS (SELECT 0 UNION SELECT n + 1 FROM w WHERE n < 3) SELECT n, count(*) FROM w GROUP BY GROUPING SETS ((n), ());
-- An OFFSET counts the rows that are distinct.
SELECT EXISTS (SELECT DISTINCT 1 FROM sale OFFSET 1), EXISTS (SELECT DISTINCT region FROM sale OFFSET 1), EXISTS (SELECT DISTINCT ON (region) amount FROM sale WHERE region = 'north' OFFSET 1);
-- Fractions of months and days as PostgreSQL rounds them.
SELECT avg(x), sum(x) FROM (VALUES ('1 mon'::interval), ('1 year 00:00:01.5'), ('30 days'), ('-3 days 04:00'), ('1 day'), ('02:30'), ('1 mon'), ('1 day'), ('1 mon'), ('2 days'), ('5 days')) v (x);
SELECT avg(x) FROM (VALUES ('1 day'::interval), ('1 day'), ('-3 days 04:00'), ('-3 days 04:00'), ('1 day'), ('1 day'), ('1 day'), ('1 day'), ('1 day'), ('-3 days 04:00'), ('1 day')) v (x);
-- Names of columns that a cast of a subquery has from it.
SELECT (SELECT '{}'::integer[])::text, (SELECT 1 + 1)::text, (VALUES (2))::text, (SELECT amount + 1 FROM sale WHERE false UNION SELECT 2)::text;
SELECT region, product, count(*) FROM sale GROUP BY ROLLUP ((region, product));
SELECT coalesce(region, 'all'), sum(amount) FROM sale GROUP BY ROLLUP (region) ORDER BY 1;
SELECT upper(region), sum(amount) FROM sale GROUP BY ROLLUP (upper(region));
SELECT CASE WHEN grouping(region) = 1 THEN 'total' ELSE region END AS r, sum(amount) FROM sale GROUP BY ROLLUP (region) ORDER BY r;
SELECT grouping(day) FROM sale GROUP BY region;
SELECT region, grouping(region) FROM sale GROUP BY region;
SELECT count(*) FROM sale GROUP BY ();
SELECT count(*) FROM sale WHERE false GROUP BY ();
SELECT count(*), region FROM sale WHERE false GROUP BY ROLLUP (region);
-- refused
SELECT region, sum(sum(amount)) OVER () FROM sale GROUP BY ROLLUP (region);
-- refused
SELECT json_agg(name) FROM customer;
-- refused
SELECT array_agg(tags) FROM product WHERE id = 1;
-- windows
SELECT id, row_number() OVER (ORDER BY id) FROM customer;
SELECT id, row_number() OVER (ORDER BY credit DESC, id) FROM customer ORDER BY 2;
SELECT id, rank() OVER (ORDER BY credit), dense_rank() OVER (ORDER BY credit) FROM customer;
SELECT id, rank() OVER (PARTITION BY city ORDER BY credit DESC) FROM customer;
SELECT id, percent_rank() OVER (ORDER BY credit), cume_dist() OVER (ORDER BY credit) FROM customer;
SELECT id, ntile(3) OVER (ORDER BY id) FROM customer;
SELECT id, ntile(20) OVER (ORDER BY id) FROM customer;
SELECT id, ntile(0) OVER (ORDER BY id) FROM customer;
SELECT id, lag(name) OVER (ORDER BY id), lead(name) OVER (ORDER BY id) FROM customer;
SELECT id, lag(name, 2) OVER (ORDER BY id), lead(name, 3, 'none') OVER (ORDER BY id) FROM customer;
SELECT id, lag(credit, 1, 0) OVER (PARTITION BY city ORDER BY id) FROM customer;
SELECT id, lead(id, -1) OVER (ORDER BY id), lag(id, 0) OVER (ORDER BY id) FROM customer;
SELECT id, first_value(name) OVER w, last_value(name) OVER w, nth_value(name, 2) OVER w FROM customer WINDOW w AS (PARTITION BY city ORDER BY id);
SELECT id, last_value(name) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM customer;
SELECT id, nth_value(name, 0) OVER (ORDER BY id) FROM customer;
SELECT id, sum(credit) OVER () FROM customer;
SELECT id, sum(credit) OVER (ORDER BY id) FROM customer;
SELECT id, sum(credit) OVER (ORDER BY credit) FROM customer;
SELECT id, sum(credit) OVER (PARTITION BY city), avg(credit) OVER (PARTITION BY city), count(*) OVER (PARTITION BY city) FROM customer;
SELECT id, count(*) OVER (ORDER BY credit RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM customer;
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM customer;
SELECT id, sum(id) OVER (ORDER BY id ROWS 2 PRECEDING) FROM customer;
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) FROM customer;
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) FROM customer;
SELECT id, sum(id) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND CURRENT ROW) FROM customer;
SELECT id, array_agg(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM customer;
SELECT id, array_agg(id) OVER (ORDER BY credit, id RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP) FROM customer;
SELECT credit, count(*) OVER (ORDER BY credit RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM customer;
SELECT id, sum(credit) OVER (ORDER BY credit RANGE BETWEEN 50 PRECEDING AND 50 FOLLOWING) FROM customer;
SELECT id, count(*) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) FROM customer;
SELECT id, count(*) OVER (ORDER BY id DESC RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) FROM customer;
SELECT id, count(*) OVER (ORDER BY weight RANGE BETWEEN 1.5 PRECEDING AND 1.5 FOLLOWING) FROM product;
SELECT id, count(*) OVER (ORDER BY weight NULLS FIRST RANGE BETWEEN 4 PRECEDING AND CURRENT ROW) FROM product;
SELECT id, count(*) OVER (ORDER BY placed RANGE BETWEEN '30 days' PRECEDING AND CURRENT ROW) FROM orders;
SELECT id, count(*) OVER (ORDER BY placed RANGE BETWEEN interval '1 month' PRECEDING AND interval '1 month' FOLLOWING) FROM orders;
SELECT day, region, sum(amount) OVER (ORDER BY day RANGE BETWEEN interval '1 day' PRECEDING AND CURRENT ROW) FROM sale;
SELECT day, count(*) OVER (ORDER BY day DESC RANGE BETWEEN '2 days' PRECEDING AND '1 day' FOLLOWING) FROM sale;
SELECT credit, count(*) OVER (ORDER BY credit GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM customer;
SELECT credit, count(*) OVER (ORDER BY credit GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM customer;
SELECT credit, sum(credit) OVER (ORDER BY credit GROUPS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) FROM customer;
SELECT count(*) OVER (GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM customer;
SELECT count(*) OVER (RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM customer;
SELECT count(*) OVER (ORDER BY name RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM customer;
SELECT count(*) OVER (ORDER BY id ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) FROM customer;
SELECT count(*) OVER (ORDER BY id ROWS BETWEEN NULL PRECEDING AND CURRENT ROW) FROM customer;
SELECT id, sum(credit) FILTER (WHERE id > 2) OVER (ORDER BY id) FROM customer;
SELECT id, string_agg(name, '') OVER (ORDER BY id), max(name) OVER (ORDER BY id DESC) FROM customer;
SELECT id, bool_and(low) OVER (PARTITION BY warehouse ORDER BY product) FROM stock, (SELECT 1 AS id) x;
SELECT city, sum(credit), rank() OVER (ORDER BY sum(credit) DESC) FROM customer GROUP BY city;
SELECT city, sum(sum(credit)) OVER (ORDER BY city) FROM customer GROUP BY city;
SELECT city, count(*), 100 * count(*) / sum(count(*)) OVER () AS share FROM customer GROUP BY city ORDER BY share DESC, city;
SELECT x.id FROM (SELECT id, row_number() OVER (PARTITION BY city ORDER BY credit DESC, id) AS n FROM customer) x WHERE x.n = 1;
SELECT id FROM customer ORDER BY row_number() OVER (ORDER BY name DESC);
SELECT DISTINCT count(*) OVER (PARTITION BY city) FROM customer;
SELECT id, row_number() OVER w, sum(credit) OVER (w ROWS 1 PRECEDING) FROM customer WINDOW w AS (ORDER BY id);
SELECT id, sum(credit) OVER (w ORDER BY id) FROM customer WINDOW w AS (PARTITION BY city);
SELECT id, sum(credit) OVER (v ORDER BY id) FROM customer WINDOW w AS (PARTITION BY city), v AS (w);
SELECT id, sum(credit) OVER (w PARTITION BY id) FROM customer WINDOW w AS (PARTITION BY city);
SELECT id, sum(credit) OVER w FROM customer;
SELECT id FROM customer WHERE row_number() OVER () = 1;
SELECT count(*) FROM customer GROUP BY row_number() OVER ();
SELECT count(*) FROM customer HAVING row_number() OVER () = 1;
SELECT sum(row_number() OVER ()) FROM customer;
SELECT row_number() OVER (ORDER BY row_number() OVER ()) FROM customer;
SELECT row_number() FROM customer;
SELECT lower(name) OVER () FROM customer;
SELECT id, rank() OVER (ORDER BY CASE WHEN city = 'Oslo' THEN 1 ELSE 2 END) FROM customer;
SELECT o.id, l.number, sum(l.amount) OVER (PARTITION BY o.customer ORDER BY o.id, l.number) FROM orders o JOIN line l ON l.order_id = o.id;
SELECT id, avg(total) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM orders;
SELECT id, stddev(credit) OVER (ORDER BY id), corr(credit, id) OVER () FROM customer;
SELECT id, mode() WITHIN GROUP (ORDER BY id) OVER () FROM customer;
SELECT id, (SELECT count(*) FROM orders o WHERE o.customer = c.id), row_number() OVER (ORDER BY c.id) FROM customer c;
SELECT id, first_value(total) OVER (PARTITION BY customer ORDER BY placed) - total FROM orders;
SELECT id, coalesce(lag(total) OVER (ORDER BY id), 0) + total FROM orders LIMIT 0;
-- sets
SELECT id FROM customer UNION SELECT customer FROM orders;
SELECT id FROM customer UNION ALL SELECT customer FROM orders;
SELECT id FROM customer INTERSECT SELECT customer FROM orders;
SELECT id FROM customer EXCEPT SELECT customer FROM orders;
SELECT customer FROM orders INTERSECT ALL SELECT boss FROM customer;
SELECT customer FROM orders EXCEPT ALL SELECT boss FROM customer;
SELECT city FROM customer UNION SELECT NULL ORDER BY 1 NULLS FIRST;
SELECT 1 UNION SELECT 2.5 UNION SELECT NULL ORDER BY 1;
SELECT 1 AS n UNION ALL (SELECT 2 ORDER BY 1) ORDER BY n DESC;
(SELECT id FROM customer ORDER BY id LIMIT 2) UNION ALL (SELECT id FROM orders ORDER BY id DESC LIMIT 2);
SELECT id FROM customer UNION SELECT id FROM product ORDER BY id DESC LIMIT 3;
SELECT id FROM customer WHERE id < 3 UNION SELECT id FROM product WHERE id > 5 EXCEPT SELECT 1;
(SELECT 1 UNION SELECT 2) INTERSECT SELECT 2;
SELECT 1 UNION SELECT 2 INTERSECT SELECT 2;
SELECT id, name FROM customer UNION SELECT id FROM product;
SELECT id FROM customer UNION SELECT label FROM product;
SELECT id AS a FROM customer UNION SELECT id AS b FROM product ORDER BY b;
SELECT id FROM customer UNION SELECT id FROM product ORDER BY id + 1;
SELECT name FROM customer WHERE city = 'Oslo' UNION SELECT label FROM product WHERE price < 1 ORDER BY name;
SELECT * FROM (SELECT id FROM orders WHERE state = 'open' UNION SELECT order_id FROM line WHERE product = 1) x WHERE id = 5;
SELECT count(*) FROM (SELECT city FROM customer UNION ALL SELECT region FROM sale) x;
SELECT 'a' UNION SELECT 'b' ORDER BY 1;
SELECT NULL UNION SELECT 1;
SELECT NULL UNION ALL SELECT NULL;
SELECT order_id, product FROM line WHERE order_id = 3 UNION SELECT order_id, product FROM line WHERE order_id = 5;
VALUES (1, 'a'), (2, 'b');
VALUES (1, 'a'), (2, 'b') ORDER BY column1 DESC;
VALUES (3), (1), (2) ORDER BY 1 LIMIT 2;
SELECT * FROM (VALUES (1, 'one'), (2, 'two')) AS t (n, word) WHERE n = 2;
SELECT v.column1 FROM (VALUES (1), (2.5)) v;
SELECT c.name, v.x FROM customer c JOIN (VALUES (1, 'p'), (3, 'q')) v (id, x) USING (id);
SELECT id FROM customer WHERE id IN (VALUES (1), (2));
VALUES (1), (2, 3);
-- with
WITH rich AS (SELECT * FROM customer WHERE credit > 50) SELECT name FROM rich ORDER BY name;
WITH a AS (SELECT id FROM customer), b AS (SELECT id FROM a WHERE id > 4) SELECT * FROM b;
WITH a (x, y) AS (SELECT id, name FROM customer) SELECT y FROM a WHERE x = 2;
WITH a AS (SELECT 1 AS n) SELECT * FROM a x, a y;
WITH a AS (SELECT id FROM orders WHERE id < 4) SELECT (SELECT count(*) FROM a), id FROM a;
WITH a AS (SELECT count(*) AS n FROM customer) SELECT name FROM customer, a WHERE id = a.n;
WITH a AS MATERIALIZED (SELECT id FROM customer) SELECT count(*) FROM a;
WITH a AS NOT MATERIALIZED (SELECT id FROM customer) SELECT count(*) FROM a;
WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT 2) SELECT * FROM a, b) x;
WITH customer AS (SELECT 99 AS id) SELECT id FROM customer;
WITH a AS (SELECT 1), a AS (SELECT 2) SELECT 1;
WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a;
SELECT id, (WITH w AS (SELECT o.id AS n) SELECT (SELECT count(*) FROM w WHERE w.n > 4) FROM w) FROM orders o;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT sum(i), count(*) FROM n;
WITH RECURSIVE n AS (VALUES (1) UNION ALL SELECT column1 * 2 FROM n WHERE column1 < 100) SELECT * FROM n;
WITH RECURSIVE under (id, name, depth) AS (SELECT id, name, 0 FROM customer WHERE id = 1 UNION ALL SELECT c.id, c.name, u.depth + 1 FROM customer c JOIN under u ON c.boss = u.id) SELECT * FROM under ORDER BY depth, id;
WITH RECURSIVE up AS (SELECT id, boss FROM customer WHERE id = 6 UNION SELECT c.id, c.boss FROM up, customer c WHERE c.id = up.boss) SELECT id FROM up;
WITH RECURSIVE path (id, way) AS (SELECT id, ARRAY[name] FROM customer WHERE boss IS NULL UNION ALL SELECT c.id, p.way || c.name FROM path p JOIN customer c ON c.boss = p.id) SELECT id, array_to_string(way, '>') FROM path ORDER BY id;
WITH RECURSIVE r AS (SELECT 1 AS i UNION SELECT (i + 1) % 5 FROM r) SELECT i FROM r ORDER BY i;
WITH RECURSIVE fib (a, b) AS (SELECT 0, 1 UNION ALL SELECT b, a + b FROM fib WHERE b < 100) SELECT a FROM fib;
WITH RECURSIVE a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a) SELECT * FROM b;
WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3), s AS (SELECT n FROM t UNION ALL SELECT n * 10 FROM t) SELECT * FROM s ORDER BY n;
WITH RECURSIVE t AS (SELECT 1 AS n EXCEPT SELECT n FROM t) SELECT * FROM t;
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT count(*)::integer FROM t) SELECT * FROM t;
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT a.n FROM t a, t b) SELECT * FROM t;
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1.5 FROM t WHERE n < 3) SELECT * FROM t;
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5 LIMIT 2) SELECT * FROM t;
WITH x AS (SELECT order_id, sum(amount) AS s FROM line GROUP BY order_id) SELECT o.id, x.s FROM orders o LEFT JOIN x ON x.order_id = o.id ORDER BY o.id;
WITH x AS (SELECT id FROM orders WHERE id = 2) SELECT c.name FROM customer c WHERE EXISTS (SELECT 1 FROM x WHERE x.id = c.id);
-- functions that give rows
SELECT * FROM generate_series(1, 5);
SELECT * FROM generate_series(5, 1);
SELECT * FROM generate_series(5, 1, -2);
SELECT * FROM generate_series(1, 2, 0);
SELECT g FROM generate_series(1, 3) g;
SELECT g.n FROM generate_series(1, 3) AS g (n) WHERE n <> 2;
SELECT g, g * g FROM generate_series(1, 3) g ORDER BY g DESC;
SELECT * FROM generate_series(1.0, 2.0, 0.25);
SELECT * FROM generate_series('2024-01-30'::timestamp, '2024-03-01', '1 month');
SELECT d::date FROM generate_series('2024-02-27'::date, '2024-03-02'::date, interval '1 day') d;
SELECT * FROM generate_series(1, NULL);
SELECT * FROM generate_series(1, 3) WITH ORDINALITY;
SELECT * FROM unnest(ARRAY[1, 2, NULL]);
SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS t (v, n) ORDER BY n DESC;
SELECT * FROM unnest(ARRAY[1, 2], ARRAY['a', 'b', 'c']) AS t (n, w);
SELECT * FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['x', 'y'])) AS t (a, b);
SELECT * FROM ROWS FROM (generate_series(1, 2), jsonb_each('{"a": 1}')) WITH ORDINALITY;
SELECT generate_series(1, 3);
SELECT generate_series(1, 3) AS n, 'x' AS x;
SELECT generate_series(1, 3), generate_series(10, 11);
SELECT generate_series(1, 2) + 10;
SELECT id, generate_series(1, id) FROM customer WHERE id < 4;
SELECT id, unnest(tags) FROM product;
SELECT id, unnest(tags) AS tag FROM product ORDER BY tag NULLS LAST, id;
SELECT DISTINCT unnest(tags) FROM product;
SELECT unnest('{1,2}'::integer[]) ORDER BY 1 DESC;
SELECT id FROM customer WHERE generate_series(1, 2) = 1;
SELECT CASE WHEN true THEN generate_series(1, 2) END;
SELECT count(generate_series(1, 2));
-- refused
SELECT unnest(array_agg(id ORDER BY id)) FROM customer;
-- refused
SELECT generate_series(1, generate_series(1, 3));
SELECT * FROM generate_subscripts(ARRAY['a', 'b', 'c'], 1);
SELECT tags[i] FROM product, generate_subscripts(tags, 1) AS i;
SELECT * FROM jsonb_array_elements('[1, "a", null, {"b": 2}]');
SELECT * FROM jsonb_array_elements_text('[1, "a", null]');
SELECT p.id, e FROM product p, jsonb_array_elements(p.attributes -> 'sizes') e;
SELECT key, value FROM jsonb_each('{"a": 1, "b": "x"}');
SELECT * FROM jsonb_each_text('{"a": 1, "b": "x", "c": null}');
SELECT p.id, k FROM product p CROSS JOIN LATERAL jsonb_object_keys(p.attributes) k;
SELECT p.id, e.key, e.value FROM product p, jsonb_each(p.attributes) AS e WHERE e.key <> 'sizes';
SELECT jsonb_object_keys('{"b": 1, "a": 2}');
SELECT jsonb_array_elements_text('["x", "y"]');
SELECT jsonb_array_elements('{"a": 1}');
SELECT * FROM jsonb_array_elements('5');
SELECT * FROM regexp_split_to_table('a,b;c', '[,;]');
SELECT regexp_split_to_table('one  two', '\s+');
SELECT * FROM regexp_matches('foobarbequebaz', 'ba.', 'g');
SELECT regexp_matches('foobarbequebaz', '(b..)(b..)');
SELECT regexp_matches('abc', 'x');
SELECT * FROM string_to_table('a-b-c', '-');
SELECT * FROM string_to_table('a-b-c', '-', 'b') AS s;
SELECT * FROM lower('ABC');
SELECT * FROM abs(-3) AS a;
SELECT x FROM upper('y') x;
SELECT c.id, l FROM customer c, length(c.name) l WHERE l > 3;
SELECT sum(g) FROM generate_series(1, 1000) g;
SELECT g % 3 AS m, count(*), sum(g) FROM generate_series(1, 20) g GROUP BY m ORDER BY m;
SELECT a.n, b.n FROM generate_series(1, 3) a (n) LEFT JOIN generate_series(2, 4) b (n) ON a.n = b.n;
SELECT c.city, s.n FROM customer c JOIN generate_series(1, 3) s (n) ON s.n = c.id;
SELECT d::date, count(o.id) FROM generate_series('2023-03-01'::timestamp, '2023-03-05', '1 day') d LEFT JOIN orders o ON o.placed::date = d::date GROUP BY d ORDER BY d;
-- results that differed
WITH RECURSIVE t(j) AS (WITH RECURSIVE s(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM s WHERE i < 10) SELECT i FROM s UNION ALL SELECT j + 1 FROM t WHERE j < 10) SELECT count(*), sum(j) FROM t;
SELECT product, order_id, count(*) FROM line GROUP BY DISTINCT ROLLUP (product, order_id), ROLLUP (product, order_id);
SELECT product, count(*) FROM line GROUP BY DISTINCT GROUPING SETS ((product), (product), ());
SELECT FROM customer;
SELECT max(place) FROM (SELECT row_number() OVER () AS place FROM (SELECT id FROM customer ORDER BY id DESC) s LIMIT 3) t;
SELECT min(id) FROM (SELECT * FROM (SELECT id FROM product ORDER BY id DESC) s LIMIT 2) t;
