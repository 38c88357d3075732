-- Joins of tables whose rows come in the order of an index, or do not: gaps, duplicates, NULLs, nothing at all on a side.
CREATE TABLE parent (
    id integer PRIMARY KEY,
    other integer,
    big bigint NOT NULL,
    label text NOT NULL
);
CREATE TABLE child (
    id integer NOT NULL,
    n integer NOT NULL,
    parent integer,
    label text,
    amount numeric(8,2) NOT NULL,
    PRIMARY KEY (id, n)
);
CREATE INDEX child_parent ON child (parent);
CREATE INDEX parent_other ON parent (other);
CREATE INDEX parent_big ON parent (big DESC);
CREATE INDEX child_label ON child (label, n);
CREATE INDEX parent_label ON parent (label);
CREATE TABLE nothing (
    id integer PRIMARY KEY,
    n integer
);
CREATE TABLE few (
    id integer PRIMARY KEY,
    parent integer,
    label text
);
COMMENT ON TABLE parent IS 'weir: partition by (id)';
COMMENT ON TABLE child IS 'weir: partition by (id)';
-- rows
INSERT INTO few VALUES (1, 5, 'p5'), (2, 5, 'p7'), (3, NULL, NULL), (4, 9999, 'none'), (5, 12, 'p12');
INSERT INTO parent SELECT g * 2, CASE WHEN g % 7 = 0 THEN NULL ELSE g % 40 END, 5000000000 - g * 3, 'p' || (g % 90) FROM generate_series(1, 700) g;
INSERT INTO child SELECT g / 3, g % 3, CASE WHEN g % 11 = 0 THEN NULL ELSE (g * 37) % 1500 END, CASE WHEN g % 13 = 0 THEN NULL ELSE 'p' || (g % 100) END, g * 0.25 FROM generate_series(0, 1799) g;
-- cases
SELECT count(*), sum(p.id), sum(c.amount) FROM parent p JOIN child c ON c.id = p.id;
SELECT count(*), sum(p.id), sum(c.amount) FROM child c JOIN parent p ON c.id = p.id;
SELECT count(*), sum(p.id), sum(c.amount), count(c.n) FROM parent p LEFT JOIN child c ON c.id = p.id;
SELECT count(*), sum(p.id), sum(c.amount), count(p.label) FROM parent p RIGHT JOIN child c ON c.id = p.id;
SELECT count(*), sum(p.id), sum(c.amount), count(p.label) FROM parent p FULL JOIN child c ON c.id = p.id;
SELECT p.id, c.n, c.amount FROM parent p JOIN child c ON c.id = p.id WHERE p.id BETWEEN 100 AND 140 ORDER BY p.id, c.n;
SELECT p.id, c.n, c.amount FROM parent p LEFT JOIN child c ON c.id = p.id WHERE p.id > 590 AND p.id < 620 ORDER BY p.id, c.n;
SELECT p.id, c.n FROM parent p JOIN child c ON c.id = p.id ORDER BY p.id DESC, c.n LIMIT 7;
SELECT p.id, c.n FROM parent p LEFT JOIN child c ON c.id = p.id ORDER BY p.id DESC, c.n LIMIT 7;
SELECT count(*), sum(p.id), sum(c.n) FROM child c JOIN parent p ON p.id = c.parent;
SELECT count(*), sum(p.id), sum(c.n) FROM child c LEFT JOIN parent p ON p.id = c.parent;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p JOIN child c ON p.id = c.parent;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p LEFT JOIN child c ON p.id = c.parent;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p FULL JOIN child c ON p.id = c.parent;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p JOIN child c ON c.parent = p.other;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p LEFT JOIN child c ON c.parent = p.other;
SELECT count(*), sum(c.n), sum(p.id) FROM child c JOIN parent p ON p.other = c.parent;
SELECT count(*), sum(c.n), sum(p.id) FROM child c LEFT JOIN parent p ON p.other = c.parent;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p JOIN child c ON c.label = p.label;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p LEFT JOIN child c ON c.label = p.label;
SELECT count(*), sum(p.id), sum(c.n) FROM child c LEFT JOIN parent p ON c.label = p.label;
SELECT count(*), sum(p.id), sum(c.n) FROM child c JOIN parent p ON c.label = p.label AND c.n = 1;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p JOIN child c ON c.label = p.label AND c.n = p.id % 3;
SELECT count(*), sum(p.id), sum(c.n) FROM parent p JOIN child c ON c.label = p.label AND c.n = 2 WHERE c.amount > 100;
SELECT count(*), sum(a.id), sum(b.id) FROM parent a JOIN parent b ON a.big = b.big;
SELECT count(*), sum(a.id), sum(b.id) FROM parent a JOIN parent b ON b.big = a.big + 3;
SELECT count(*), sum(a.id), sum(b.id) FROM parent a LEFT JOIN parent b ON b.big = a.big - 2100 + 0;
SELECT count(*), sum(a.id), sum(b.id) FROM parent a JOIN parent b ON a.other = b.other;
SELECT count(*), sum(a.id), sum(b.id) FROM parent a JOIN parent b ON a.other = b.other AND a.id < b.id;
SELECT count(*), sum(a.id), sum(b.id) FROM parent a LEFT JOIN parent b ON a.other = b.other AND a.id < b.id;
SELECT count(*), sum(p.id), sum(c.n), sum(d.n) FROM parent p JOIN child c ON c.id = p.id JOIN child d ON d.id = p.id;
SELECT count(*), sum(p.id), sum(c.n), sum(d.n) FROM parent p JOIN child c ON c.id = p.id JOIN child d ON d.id = c.id AND d.n = c.n;
SELECT count(*), sum(p.id), sum(c.n), sum(d.n) FROM parent p LEFT JOIN child c ON c.id = p.id LEFT JOIN child d ON d.id = c.id AND d.n = c.n;
SELECT count(*), sum(p.id), sum(c.n), sum(q.id) FROM parent p JOIN child c ON c.id = p.id JOIN parent q ON q.id = c.parent;
SELECT count(*), sum(p.id), sum(c.n), sum(q.id) FROM parent p JOIN child c ON c.id = p.id LEFT JOIN parent q ON q.other = c.parent AND q.id > p.id;
SELECT count(*), sum(p.id), sum(n.n) FROM parent p LEFT JOIN nothing n ON n.id = p.id;
SELECT count(*), sum(p.id), sum(n.n) FROM nothing n LEFT JOIN parent p ON n.id = p.id;
SELECT count(*), sum(p.id), sum(n.n) FROM nothing n JOIN parent p ON n.id = p.id;
SELECT count(*), sum(p.id), sum(n.n) FROM nothing n FULL JOIN parent p ON n.id = p.id;
SELECT f.id, p.id, p.label FROM few f LEFT JOIN parent p ON p.id = f.parent * 2 ORDER BY f.id, p.id;
SELECT f.id, count(p.id), min(p.id) FROM few f LEFT JOIN parent p ON p.label = f.label GROUP BY f.id ORDER BY f.id;
SELECT f.id, count(c.id), min(c.amount) FROM few f LEFT JOIN child c ON c.label = f.label GROUP BY f.id ORDER BY f.id;
SELECT f.id, count(*) FROM few f JOIN child c ON c.amount * 4 = f.parent GROUP BY f.id ORDER BY f.id;
SELECT f.id, count(*) FROM child c JOIN few f ON c.amount * 4 = f.parent GROUP BY f.id ORDER BY f.id;
SELECT f.id, g.id FROM few f JOIN few g ON f.parent = g.parent ORDER BY f.id, g.id;
SELECT f.id, g.id FROM few f FULL JOIN few g ON f.parent = g.parent AND f.id <> g.id ORDER BY f.id, g.id;
SELECT p.id, (SELECT sum(c.amount) FROM child c JOIN few f ON f.parent = c.id WHERE c.n = p.id % 3) FROM parent p WHERE p.id < 12 ORDER BY p.id;
SELECT p.id, (SELECT count(*) FROM few f JOIN child c ON c.amount = f.id WHERE f.id > p.id) FROM parent p WHERE p.id < 12 ORDER BY p.id;
SELECT p.id FROM parent p WHERE EXISTS (SELECT 1 FROM child c JOIN parent q ON q.id = c.parent WHERE c.id = p.id AND q.other = 3) ORDER BY p.id;
SELECT p.id, l.n, l.id FROM parent p CROSS JOIN LATERAL (SELECT c.n, q.id FROM child c JOIN parent q ON q.id = c.parent WHERE c.id = p.id) l WHERE p.id BETWEEN 200 AND 230 ORDER BY 1, 2, 3;
SELECT p.other, count(*), sum(c.amount) FROM parent p JOIN child c ON c.id = p.id GROUP BY p.other HAVING count(*) > 20 ORDER BY p.other NULLS FIRST;
SELECT DISTINCT p.label FROM parent p JOIN child c ON c.id = p.id AND c.n = 0 WHERE p.other < 4 ORDER BY p.label;
SELECT p.id, c.n, row_number() OVER (PARTITION BY p.other ORDER BY p.id, c.n) FROM parent p JOIN child c ON c.id = p.id WHERE p.other = 5 ORDER BY p.id, c.n;
WITH pairs AS (SELECT p.id, c.n FROM parent p JOIN child c ON c.id = p.id) SELECT count(*), sum(a.id), sum(b.n) FROM pairs a JOIN pairs b ON a.id = b.id AND a.n < b.n;
WITH w AS (SELECT id, label FROM few) SELECT count(*), sum(p.id) FROM w JOIN parent p ON p.label = w.label;
SELECT count(*), sum(p.id) FROM (VALUES (2), (4), (NULL), (5), (1400)) v (id) JOIN parent p ON p.id = v.id;
SELECT v.id, p.label FROM (VALUES (2), (4), (NULL), (5), (1400)) v (id) LEFT JOIN parent p ON p.id = v.id ORDER BY v.id;
SELECT count(*), sum(g), sum(p.id) FROM generate_series(1, 1500) g JOIN parent p ON p.id = g;
SELECT count(*), sum(g), sum(p.id) FROM generate_series(1, 1500) g LEFT JOIN parent p ON p.id = g;
SELECT count(*), sum(p.id) FROM parent p JOIN child c USING (id) WHERE p.label = c.label;
SELECT count(*) FROM parent p NATURAL JOIN child c;
SELECT count(*), sum(c.n) FROM parent p JOIN child c ON c.id = p.id AND c.amount BETWEEN 50 AND p.id;
SELECT count(*), sum(c.n) FROM parent p LEFT JOIN child c ON c.id = p.id AND c.amount BETWEEN 50 AND p.id;
SELECT count(*), sum(p.id) FROM parent p JOIN child c ON c.id = p.big;
SELECT count(*), sum(p.id) FROM parent p JOIN child c ON c.id::bigint = p.id;
SELECT count(*), sum(p.id) FROM parent p, child c, few f WHERE c.id = p.id AND f.parent = c.parent;
SELECT count(*), sum(p.id) FROM few f, child c, parent p WHERE p.other = f.id AND c.id = p.id;
