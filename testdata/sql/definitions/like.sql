-- CREATE TABLE (LIKE …), option by option; CREATE TABLE AS beside tables.sql.
CREATE TABLE base (id int PRIMARY KEY, v int NOT NULL DEFAULT 7 CHECK (v > 0), g int GENERATED ALWAYS AS (v * 2) STORED, i int GENERATED ALWAYS AS IDENTITY, w text, UNIQUE (id, w), CONSTRAINT both CHECK (v < id OR v > 5))
CREATE INDEX base_w ON base (w DESC) WHERE v > 3
CREATE INDEX base_lower ON base (lower(w))
COMMENT ON COLUMN base.v IS 'about v'
COMMENT ON INDEX base_w IS 'about the index'
CREATE TABLE l1 (LIKE base)
SELECT column_name, is_nullable, column_default, is_identity, is_generated FROM information_schema.columns WHERE table_name = 'l1' ORDER BY ordinal_position
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'l1'::regclass ORDER BY 1
INSERT INTO l1 (id, v, i) VALUES (1, -1, 5)
CREATE TABLE l2 (LIKE base INCLUDING CONSTRAINTS)
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'l2'::regclass ORDER BY 1
INSERT INTO l2 (id, v, i) VALUES (1, -1, 5)
INSERT INTO l2 (id, v, i) VALUES (9, 4, 5)
CREATE TABLE l3 (first int, LIKE base INCLUDING CONSTRAINTS, last int)
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'l3'::regclass ORDER BY 1
INSERT INTO l3 (first, id, v, i) VALUES (100, 1, -1, 5)
INSERT INTO l3 (first, id, v, i) VALUES (-100, 9, 4, 5)
INSERT INTO l3 (first, id, v, i) VALUES (-100, 1, 4, 5)
CREATE TABLE l4 (LIKE base INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY EXCLUDING GENERATED)
SELECT column_name, is_nullable, column_default FROM information_schema.columns WHERE table_name = 'l4' ORDER BY ordinal_position
CREATE TABLE l5 (LIKE base INCLUDING GENERATED)
INSERT INTO l5 (id, v, i) VALUES (1, 4, 1)
SELECT id, v, g FROM l5
INSERT INTO l5 (id, v, g, i) VALUES (1, 4, 1, 1)
CREATE TABLE l6 (first int, LIKE base INCLUDING GENERATED)
INSERT INTO l6 (id, v, i) VALUES (1, 4, 1)
SELECT id, v, g FROM l6
CREATE TABLE l7 (LIKE base INCLUDING IDENTITY)
INSERT INTO l7 (id, v, i) VALUES (1, 4, 1)
INSERT INTO l7 (id, v) VALUES (1, 4)
SELECT is_identity, identity_generation FROM information_schema.columns WHERE table_name = 'l7' AND column_name = 'i'
SELECT count(*) FROM pg_class WHERE relname = 'l7_i_seq'
CREATE TABLE l8 (LIKE base INCLUDING INDEXES)
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'l8'::regclass ORDER BY 1
SELECT indexname FROM pg_indexes WHERE tablename = 'l8' ORDER BY 1
INSERT INTO l8 (id, v, i) VALUES (1, 4, 1)
INSERT INTO l8 (id, v, i) VALUES (1, 4, 1)
CREATE TABLE l9 (x int, LIKE base INCLUDING INDEXES)
INSERT INTO l9 (id, v, i) VALUES (1, 4, 1)
INSERT INTO l9 (id, v, i) VALUES (1, 4, 1)
CREATE TABLE l10 (LIKE base INCLUDING ALL)
SELECT conname, contype FROM pg_constraint WHERE conrelid = 'l10'::regclass ORDER BY 1
INSERT INTO l10 (id) VALUES (1)
INSERT INTO l10 (id) VALUES (1)
SELECT id, v, g FROM l10
SELECT col_description('l10'::regclass, 2)
CREATE TABLE l11 (LIKE base INCLUDING DEFAULTS)
SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 'l11' ORDER BY ordinal_position
CREATE TABLE ser (id serial PRIMARY KEY, v int)
CREATE TABLE l12 (LIKE ser INCLUDING DEFAULTS)
SELECT column_default FROM information_schema.columns WHERE table_name = 'l12' AND column_name = 'id'
CREATE TABLE l13 (LIKE base, id int)
CREATE TABLE l14 (LIKE base, LIKE ser)
CREATE VIEW vw AS SELECT id, v FROM base
CREATE TABLE l15 (LIKE vw)
SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'l15' ORDER BY ordinal_position
CREATE TABLE l16 (LIKE nothing)
CREATE TABLE l17 (LIKE base INCLUDING CONSTRAINTS, CONSTRAINT both CHECK (v > 1))
CREATE TABLE l18 (LIKE base INCLUDING COMMENTS)
SELECT col_description('l18'::regclass, 2)
CREATE DOMAIN pos AS int CHECK (VALUE > 0)
CREATE TABLE dom (id int PRIMARY KEY, p pos)
CREATE TABLE l19 (LIKE dom)
INSERT INTO l19 VALUES (1, -1)
CREATE TABLE l20 (x int, LIKE dom)
INSERT INTO l20 VALUES (1, 1, -1)
CREATE TABLE fkd (id int PRIMARY KEY, d int REFERENCES dom)
CREATE TABLE l21 (LIKE fkd INCLUDING ALL)
INSERT INTO l21 VALUES (1, 99)
DROP TABLE base CASCADE
SELECT count(*) FROM l10
