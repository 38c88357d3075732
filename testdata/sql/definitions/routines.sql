-- A body is read when it is called: what it names may come later, and may go.
CREATE TABLE t (id int PRIMARY KEY, v int)
CREATE PROCEDURE put(i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (i, i); END $$
CREATE FUNCTION total() RETURNS bigint LANGUAGE sql AS 'SELECT sum(v) FROM t'
CALL put(1)
SELECT count(*) FROM t
DROP TABLE t
CALL put(2)
SELECT total()
CREATE TABLE t (id int PRIMARY KEY, v int, w int)
INSERT INTO t VALUES (7, 7, 7)
ALTER TABLE t DROP COLUMN v
SELECT total()
ALTER TABLE t RENAME w TO v
SELECT total()
CREATE PROCEDURE later(i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO comes_later VALUES (i, '100%'); END $$
CALL later(1)
CREATE TABLE comes_later (id int PRIMARY KEY, t text)
CALL later(2)
SELECT * FROM comes_later
CREATE FUNCTION never() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM nothing'
SELECT never()
CREATE FUNCTION broken() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN SELECT; END $$
DROP FUNCTION total()
DROP FUNCTION total()
DROP PROCEDURE put(int)
DROP TABLE t
[refused] CREATE TABLE bare ()
CREATE TABLE last (id int)
[refused] ALTER TABLE last DROP COLUMN id
