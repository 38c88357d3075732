-- ALTER COLUMN … TYPE: rows, keys, foreign keys, checks, indexes, defaults.
CREATE TABLE kt (id int PRIMARY KEY, v int)
INSERT INTO kt SELECT g, g * 10 FROM generate_series(1, 9) g
ALTER TABLE kt ALTER id TYPE bigint
SELECT v FROM kt WHERE id = 5
INSERT INTO kt VALUES (5, 0)
[refused on 3] ALTER TABLE kt ALTER id TYPE text
SELECT v FROM kt WHERE id::text = '5'
INSERT INTO kt VALUES (5, 0)
SELECT count(*) FROM kt
CREATE TABLE empty (id int PRIMARY KEY, v int)
ALTER TABLE empty ALTER id TYPE text
INSERT INTO empty VALUES ('a', 1), ('b', 2), ('c', 3)
SELECT v FROM empty WHERE id = 'b'
INSERT INTO empty VALUES ('b', 2)
-- USING
CREATE TABLE u (id int PRIMARY KEY, a int, b int, t text)
INSERT INTO u VALUES (1, 10, 100, '7'), (2, 20, 200, '8'), (3, NULL, 300, ' 9 ')
ALTER TABLE u ALTER a TYPE bigint USING a + b
SELECT id, a, b FROM u ORDER BY id
ALTER TABLE u ALTER a TYPE int USING b, ALTER b TYPE int USING id
SELECT id, a, b FROM u ORDER BY id
ALTER TABLE u ALTER t TYPE int
ALTER TABLE u ALTER t TYPE int USING t::int
SELECT id, t + 1 FROM u ORDER BY id
ALTER TABLE u ALTER t TYPE boolean USING t > 7
SELECT id, t FROM u ORDER BY id
ALTER TABLE u ALTER t TYPE text USING CASE WHEN t THEN 'many' ELSE 'few' END
SELECT id, t FROM u ORDER BY id
ALTER TABLE u ALTER t TYPE date USING nothing
ALTER TABLE u ALTER t TYPE int USING 'x'::text
ALTER TABLE u ALTER t TYPE int USING (SELECT 1)
ALTER TABLE u ALTER t TYPE int USING t::int
SELECT id, t FROM u ORDER BY id
ALTER TABLE u ALTER nothing TYPE int
ALTER TABLE u ALTER t TYPE nothing
ALTER TABLE u ALTER a TYPE int USING id * 2
SELECT id, a FROM u ORDER BY id
[refused on 3] ALTER TABLE u ALTER id TYPE int USING id + 100
INSERT INTO u (id) VALUES (101)
SELECT count(*) FROM u WHERE id > 0
-- Lengths and scales
CREATE TABLE w (id int PRIMARY KEY, v varchar(10), c char(5), n numeric(10,4), s smallint, f float8)
INSERT INTO w VALUES (1, 'abcdefgh', 'ab', 1.2345, 7, 1.5), (2, 'ab', 'c', 99999.5, 300, 2.5)
ALTER TABLE w ALTER v TYPE varchar(4)
ALTER TABLE w ALTER v TYPE varchar(4) USING v::varchar(4)
SELECT id, v FROM w ORDER BY id
ALTER TABLE w ALTER v TYPE text
INSERT INTO w (id, v) VALUES (3, 'abcdefghijklmnop')
ALTER TABLE w ALTER c TYPE text
SELECT id, '[' || c || ']' FROM w ORDER BY id
ALTER TABLE w ALTER c TYPE char(8)
SELECT id, length(c), c = 'ab' FROM w ORDER BY id
ALTER TABLE w ALTER n TYPE numeric(10,2)
SELECT id, n FROM w ORDER BY id
ALTER TABLE w ALTER n TYPE numeric(4,2)
ALTER TABLE w ALTER n TYPE int
SELECT id, n FROM w ORDER BY id
ALTER TABLE w ALTER s TYPE int
ALTER TABLE w ALTER s TYPE text
SELECT id, s FROM w ORDER BY id
ALTER TABLE w ALTER s TYPE int
ALTER TABLE w ALTER f TYPE int
SELECT id, f FROM w ORDER BY id
ALTER TABLE w ALTER f TYPE date
ALTER TABLE w ALTER v SET DATA TYPE varchar(20)
-- Checks, indexes and defaults follow
CREATE TABLE k (id int PRIMARY KEY, a int DEFAULT 5, b int CHECK (b * 2 < 100), CONSTRAINT both CHECK (a < b))
CREATE INDEX k_sum ON k ((a + b))
CREATE INDEX k_part ON k (a) WHERE b > 3
INSERT INTO k VALUES (1, 1, 2), (2, 2, 30)
ALTER TABLE k ALTER b TYPE bigint
INSERT INTO k VALUES (3, 4, 3)
INSERT INTO k VALUES (3, 1, 60)
INSERT INTO k VALUES (3, 1, 4000000000)
SELECT id FROM k WHERE a + b = 32
ALTER TABLE k ALTER b TYPE text
ALTER TABLE k DROP CONSTRAINT k_b_check, DROP CONSTRAINT both
DROP INDEX k_sum
DROP INDEX k_part
ALTER TABLE k ALTER b TYPE text
INSERT INTO k VALUES (4, 9, 'text')
ALTER TABLE k ALTER a TYPE text
INSERT INTO k (id, b) VALUES (5, 'x')
SELECT id, a FROM k ORDER BY id
ALTER TABLE k ALTER b SET DEFAULT 'none'
ALTER TABLE k ALTER b TYPE int USING 1
ALTER TABLE k ALTER b DROP DEFAULT, ALTER b TYPE int USING 1
SELECT id, b FROM k ORDER BY id
CREATE UNIQUE INDEX k_id_b ON k (id, b)
ALTER TABLE k ALTER b TYPE bigint
INSERT INTO k (id, b) VALUES (5, 1)
-- A key that would be one no more
CREATE TABLE uq (id int PRIMARY KEY, t text, UNIQUE (id, t))
INSERT INTO uq VALUES (1, 'a'), (2, 'b')
ALTER TABLE uq ALTER t TYPE int USING 7
INSERT INTO uq VALUES (1, 7)
[refused on 3] ALTER TABLE uq ALTER id TYPE int USING 1
SELECT count(*) FROM uq
-- What reads the column
CREATE TABLE g (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a + 1) STORED)
INSERT INTO g VALUES (1, 5)
ALTER TABLE g ALTER a TYPE bigint
ALTER TABLE g ALTER b TYPE bigint
SELECT id, a, b FROM g
UPDATE g SET a = 8
SELECT id, a, b FROM g
CREATE VIEW gv AS SELECT id, b FROM g
ALTER TABLE g ALTER b TYPE text
ALTER TABLE g ALTER b TYPE bigint
DROP VIEW gv
ALTER TABLE g ALTER b TYPE text
SELECT id, b || 'x' FROM g
CREATE VIEW sub AS SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM kt WHERE v > 3)
ALTER TABLE kt ALTER v TYPE bigint
DROP VIEW sub
ALTER TABLE kt ALTER v TYPE bigint
-- Foreign keys
CREATE TABLE parent (id int PRIMARY KEY, v int)
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)
INSERT INTO parent VALUES (1, 1), (2, 2), (3, 3)
INSERT INTO child VALUES (1, 1), (2, 2)
ALTER TABLE parent ALTER id TYPE text
ALTER TABLE child ALTER parent TYPE text
ALTER TABLE parent ALTER id TYPE bigint
ALTER TABLE child ALTER parent TYPE bigint
INSERT INTO child VALUES (3, 3)
INSERT INTO child VALUES (4, 4)
DELETE FROM parent WHERE id = 1
ALTER TABLE child ALTER parent TYPE int USING parent + 100
SELECT id, parent FROM child ORDER BY id
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree)
INSERT INTO tree VALUES (1, NULL)
[refused on 3] ALTER TABLE tree ALTER id TYPE text, ALTER up TYPE text
ALTER TABLE tree ALTER up TYPE date USING NULL
-- Enumerations
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')
CREATE TABLE m (id int PRIMARY KEY, m mood DEFAULT 'ok', t text)
CREATE INDEX m_m ON m (m)
INSERT INTO m VALUES (1, 'sad', 'happy'), (2, 'happy', 'ok')
ALTER TABLE m ALTER t TYPE mood
ALTER TABLE m ALTER t TYPE mood USING t::mood
SELECT id, m, t, m < t FROM m ORDER BY id
ALTER TABLE m ALTER t TYPE int USING 1
ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok'
INSERT INTO m (id, m) VALUES (3, 'meh')
SELECT id, m FROM m ORDER BY m
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'
SELECT id, m FROM m ORDER BY m
SELECT id FROM m WHERE m = 'sad'
ALTER TYPE mood RENAME VALUE 'nothing' TO 'x'
ALTER TYPE mood RENAME VALUE 'blue' TO 'ok'
ALTER TYPE mood ADD VALUE 'ok'
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'ok'
ALTER TYPE mood ADD VALUE 'x' AFTER 'nothing'
ALTER TABLE m ALTER m TYPE text
ALTER TABLE m ALTER m DROP DEFAULT
ALTER TABLE m ALTER m TYPE text
SELECT id, m FROM m ORDER BY id
INSERT INTO m (id, m) VALUES (4, 'anything')
ALTER TYPE mood RENAME TO feeling
ALTER TYPE feeling ADD VALUE 'new'
CREATE TABLE mm (id int PRIMARY KEY, f feeling)
INSERT INTO mm VALUES (1, 'blue'), (2, 'gone')
INSERT INTO mm VALUES (1, 'blue')
SELECT 'blue'::mood
SELECT pg_typeof(f) FROM mm
[refused] ALTER TYPE feeling RENAME TO mood
DROP TYPE feeling
DROP TYPE feeling CASCADE
SELECT * FROM mm
-- Serial and identity
CREATE TABLE s (id int PRIMARY KEY, n serial, i int GENERATED ALWAYS AS IDENTITY)
ALTER TABLE s ALTER i TYPE bigint
ALTER TABLE s ALTER i TYPE text
ALTER TABLE s ALTER n TYPE bigint
INSERT INTO s (id) VALUES (1), (2), (3)
SELECT count(DISTINCT n), count(DISTINCT i) FROM s
-- NOT NULL
ALTER TABLE s ALTER id DROP NOT NULL
ALTER TABLE s ALTER i DROP NOT NULL
ALTER TABLE s ALTER n DROP NOT NULL
INSERT INTO s (id, n) VALUES (9, NULL)
INSERT INTO s (id, n) VALUES (NULL, NULL)
ALTER TABLE s DROP CONSTRAINT s_pkey
ALTER TABLE s ALTER id DROP NOT NULL
SELECT is_nullable FROM information_schema.columns WHERE table_name = 's' ORDER BY column_name
-- Twice in one statement
ALTER TABLE s ALTER n TYPE int, ALTER n TYPE bigint
