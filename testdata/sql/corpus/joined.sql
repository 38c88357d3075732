-- UPDATE … FROM and DELETE … USING: of rows that live together (orders and their lines, by warehouse), and of rows that do not.
CREATE TABLE orders (
    w integer NOT NULL, id integer NOT NULL, customer text NOT NULL, total numeric(10,2) NOT NULL DEFAULT 0, lines bigint NOT NULL DEFAULT 0,
    state varchar(8) NOT NULL DEFAULT 'new', made date, PRIMARY KEY (w, id)
);
CREATE TABLE line (
    w integer NOT NULL, o integer NOT NULL, n integer NOT NULL, item integer NOT NULL, qty integer NOT NULL CHECK (qty >= 0), amount numeric(10,2),
    note text, PRIMARY KEY (w, o, n)
);
CREATE TABLE item (
    id integer PRIMARY KEY, name varchar(20) NOT NULL, price numeric(8,2) NOT NULL, stock integer NOT NULL DEFAULT 0, tags text[], doc jsonb,
    code char(4), parent integer, label text GENERATED ALWAYS AS (upper(name)) STORED
);
CREATE TABLE customer (name text PRIMARY KEY, level integer NOT NULL, credit numeric(10,2), seen timestamp, vip boolean NOT NULL DEFAULT false);
CREATE TABLE rebate (level integer PRIMARY KEY, percent numeric(5,2) NOT NULL);
COMMENT ON TABLE orders IS 'weir: partition by (w)';
COMMENT ON TABLE line IS 'weir: partition by (w)';
COMMENT ON TABLE item IS 'weir: partition by (id)';
COMMENT ON TABLE customer IS 'weir: partition by (name)';
COMMENT ON TABLE rebate IS 'weir: replicated';
-- rows
INSERT INTO rebate VALUES (1, 0), (2, 5), (3, 12.5);
INSERT INTO customer VALUES ('ann', 1, 100, '2024-01-01 10:00', false), ('bob', 2, NULL, NULL, false), ('cid', 3, 5000.5, '2024-02-02 12:30', true), ('dan', 2, 0, NULL, false);
INSERT INTO item (id, name, price, stock, tags, doc, code, parent) VALUES (1, 'pen', 1.50, 100, '{blue,thin}', '{"w": 1}', 'P1', NULL), (2, 'ink', 7.25, 10, '{}', NULL, 'I2', 1),
    (3, 'pad', 4.00, 50, NULL, '[1]', 'PAD3', 1), (4, 'box', 20, 0, '{big}', '{}', NULL, 3), (5, 'map', 12.99, 3, '{old,big}', '{"w": 5}', 'M', 9);
INSERT INTO orders (w, id, customer, state, made) VALUES (1, 1, 'ann', 'new', '2024-01-01'), (1, 2, 'bob', 'paid', '2024-01-02'), (2, 1, 'bob', 'new', '2024-01-03'),
    (2, 2, 'eve', 'new', NULL), (3, 1, 'cid', 'paid', '2024-01-05'), (4, 1, 'cid', 'void', '2024-01-06'), (5, 7, 'dan', 'new', '2024-01-07');
INSERT INTO line (w, o, n, item, qty) VALUES (1, 1, 1, 1, 10), (1, 1, 2, 2, 1), (1, 2, 1, 3, 5), (2, 1, 1, 1, 7), (2, 1, 2, 4, 1), (3, 1, 1, 5, 2), (3, 1, 2, 2, 2),
    (4, 1, 1, 9, 1), (5, 7, 1, 3, 4), (5, 8, 1, 3, 1);

-- cases
-- rows that live together
UPDATE line SET note = orders.customer FROM orders WHERE orders.w = line.w AND orders.id = line.o;
SELECT w, o, n, note FROM line ORDER BY w, o, n;
UPDATE line AS l SET note = o.state || '!' FROM orders AS o WHERE o.w = l.w AND o.id = l.o AND o.state <> 'new' RETURNING l.w, l.o, l.n, l.note, o.customer;
UPDATE line l SET qty = l.qty + 1 FROM orders o WHERE (o.w, o.id) = (l.w, l.o) AND o.customer = 'bob' RETURNING *;
UPDATE line l SET note = NULL FROM orders o WHERE o.w = l.w AND o.id = l.o AND o.customer = 'nobody' RETURNING l.w;
UPDATE orders o SET lines = x.many FROM (SELECT w, o, count(*) AS many FROM line GROUP BY w, o) AS x WHERE x.w = o.w AND x.o = o.id RETURNING o.w, o.id, o.lines;
UPDATE orders o SET lines = (SELECT count(*) FROM line l WHERE l.w = o.w AND l.o = o.id) * 10 WHERE state = 'new' RETURNING w, id, lines;
UPDATE orders SET state = 'empty' WHERE NOT EXISTS (SELECT 1 FROM line WHERE line.w = orders.w AND line.o = orders.id) RETURNING w, id;
UPDATE orders o SET state = 'many' WHERE (o.w, o.id) IN (SELECT l.w, l.o FROM line l WHERE l.n = 2) RETURNING w, id, state;
UPDATE orders o SET lines = o.lines - l.n FROM line l WHERE l.w = o.w AND l.o = o.id AND l.n = 1 RETURNING o.w, o.id, o.lines, l.item;
UPDATE orders o SET total = r.percent FROM line l JOIN rebate r ON r.level = l.n WHERE l.w = o.w AND l.o = o.id AND l.n = 2 RETURNING o.w, o.id, o.total, r.level;
UPDATE line l SET note = coalesce(e.note, 'first') FROM line e WHERE e.w = l.w AND e.o = l.o AND e.n = l.n - 1 RETURNING l.w, l.n, l.note;
UPDATE line l SET note = o.id || '/' || coalesce(p.id::text, '-') FROM orders o LEFT JOIN orders p ON p.w = o.w AND p.id = o.id + 1 WHERE o.w = l.w AND o.id = l.o RETURNING l.w, l.o, l.n, l.note;
UPDATE line l SET qty = -5 FROM orders o WHERE o.w = l.w AND o.id = l.o AND o.customer = 'ann';
WITH p AS (SELECT w, id FROM orders WHERE state = 'many') UPDATE line SET note = 'p' FROM p WHERE p.w = line.w AND p.id = line.o RETURNING line.w, line.o, line.n;
DELETE FROM line l USING orders o WHERE o.w = l.w AND o.id = l.o AND o.state = 'void' RETURNING l.w, l.item, o.customer;
DELETE FROM line WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.w = line.w AND o.id = line.o) RETURNING w, o, n;
SELECT * FROM line ORDER BY w, o, n;
SELECT * FROM orders ORDER BY w, id;
-- small tables that are everywhere, and lists
UPDATE customer c SET credit = coalesce(c.credit, 0) + r.percent FROM rebate r WHERE r.level = c.level RETURNING c.name, c.credit, r.percent;
UPDATE customer SET vip = v.is FROM (VALUES ('ann', true), ('dan', true), ('zoe', true)) AS v (who, is) WHERE v.who = customer.name RETURNING name, vip;
UPDATE item SET stock = stock + g FROM generate_series(2, 3) AS g WHERE g = item.id RETURNING id, stock, g;
-- rows that live elsewhere
UPDATE line l SET amount = l.qty * i.price FROM item i WHERE i.id = l.item;
SELECT w, o, n, amount FROM line ORDER BY w, o, n;
UPDATE line SET note = item.name FROM item WHERE item.id = line.item AND line.qty > 2 RETURNING line.*, item.*;
UPDATE line l SET note = i.label || coalesce(i.tags[1], '') || coalesce(i.doc ->> 'w', '') FROM item AS i WHERE i.id = l.item RETURNING l.w, l.n, l.note, i.tags, i.doc, i.code, i.price;
UPDATE line l SET note = i.name, qty = l.qty + 1 FROM item i (key, name) WHERE i.key = l.item AND i.price > 5 RETURNING l.w, l.o, l.n, qty, i.key;
UPDATE line SET note = 'none' FROM item WHERE item.id = line.item AND item.name = 'nothing' RETURNING line.w;
UPDATE orders o SET total = c.credit FROM customer c WHERE c.name = o.customer AND c.credit IS NOT NULL RETURNING o.w, o.id, o.total, c.level;
UPDATE orders SET state = 'vip' FROM customer c WHERE c.name = orders.customer AND c.vip AND orders.w > 2 RETURNING orders.w, orders.id, orders.state;
UPDATE orders o SET total = round(c.credit * (100 - r.percent) / 100, 2), state = 'net' FROM customer c JOIN rebate r USING (level) WHERE c.name = o.customer AND r.percent > 0 AND c.credit > 1 RETURNING o.w, o.id, o.total, level;
UPDATE orders o SET total = o.total + i.price * l.qty FROM line l, item i WHERE l.w = o.w AND l.o = o.id AND l.n = 1 AND i.id = l.item RETURNING o.w, o.id, o.total, i.name, l.qty;
UPDATE orders o SET total = x.total, lines = x.n FROM (SELECT l.w, l.o, sum(l.qty * i.price) AS total, count(*) AS n FROM line l JOIN item i ON i.id = l.item GROUP BY l.w, l.o) x WHERE x.w = o.w AND x.o = o.id RETURNING o.w, o.id, o.total, o.lines;
UPDATE item i SET stock = i.stock - x.sold FROM (SELECT item, sum(qty) AS sold FROM line GROUP BY item) AS x WHERE x.item = i.id RETURNING i.id, i.stock, x.sold;
UPDATE item i SET stock = i.stock + 1 FROM line l WHERE l.item = i.id RETURNING i.id, i.stock;
UPDATE item i SET code = p.name FROM item p WHERE p.id = i.parent AND length(p.name) < 5 RETURNING i.id, i.code, p.name;
UPDATE item i SET name = 'top ' || i.name FROM item c LEFT JOIN item g ON g.parent = c.id WHERE c.parent = i.id AND g.id IS NULL RETURNING i.id, i.name, i.label;
UPDATE item SET stock = 0 WHERE id IN (SELECT item FROM line WHERE qty > 4) RETURNING id, stock;
UPDATE item SET stock = 7 WHERE id NOT IN (SELECT item FROM line) RETURNING id, name;
UPDATE item i SET stock = (SELECT count(*) FROM line l WHERE l.item = i.id) WHERE i.price < 10 RETURNING id, stock;
UPDATE item i SET price = i.price + (SELECT max(level) FROM customer) WHERE EXISTS (SELECT 1 FROM line l WHERE l.item = i.id AND l.n = 2) RETURNING i.id, i.price, (SELECT count(*) FROM customer) AS customers;
UPDATE customer c SET seen = '2024-05-05', level = 1 FROM orders o WHERE o.customer = c.name AND o.w = 1 AND o.id = 2 RETURNING c.name, c.level, o.state;
UPDATE customer SET credit = 1 FROM orders o WHERE o.w = 3 AND o.id = 1 AND customer.name = o.customer AND customer.name = 'cid' RETURNING name, credit, o.made;
UPDATE line l SET qty = 0 - i.id FROM item i WHERE i.id = l.item;
UPDATE line l SET qty = 1 / (i.id - 2) FROM item i WHERE i.id = l.item AND i.id = 2;
UPDATE orders o SET customer = NULL FROM customer c WHERE c.name = o.customer;
UPDATE line SET nothing = 1 FROM item WHERE item.id = line.item;
UPDATE line l SET note = z.name FROM item i WHERE i.id = l.item;
UPDATE line l SET note = name FROM item i, customer c WHERE i.id = l.item;
WITH dear AS (SELECT id, name FROM item WHERE price > 6) UPDATE line SET note = 'dear ' || dear.name FROM dear WHERE dear.id = line.item RETURNING line.w, line.n, line.note;
WITH c AS (SELECT name FROM customer WHERE vip), o AS (SELECT w, id FROM orders, c WHERE c.name = customer) UPDATE line l SET note = 'vip' FROM o WHERE o.w = l.w AND o.id = l.o RETURNING l.w, l.o, l.n;
DELETE FROM line l USING item i WHERE i.id = l.item AND i.name = 'box' RETURNING l.w, l.o, l.n, i.price;
DELETE FROM orders o USING customer c, rebate r WHERE c.name = o.customer AND r.level = c.level AND c.name = 'dan' RETURNING o.*, r.percent;
DELETE FROM orders USING customer WHERE customer.name = orders.customer AND false;
DELETE FROM orders WHERE customer NOT IN (SELECT name FROM customer) RETURNING w, id, customer;
DELETE FROM customer c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.name) RETURNING name;
DELETE FROM item USING item AS p WHERE p.id = item.parent AND p.price < 2 RETURNING item.id, p.id AS parent;
DELETE FROM item i USING (SELECT DISTINCT item FROM line WHERE w IN (1, 2) ORDER BY item LIMIT 1) AS x WHERE x.item = i.id RETURNING i.id;
SELECT * FROM orders ORDER BY w, id;
SELECT * FROM line ORDER BY w, o, n;
SELECT * FROM item ORDER BY id;
SELECT * FROM customer ORDER BY name;
