//! Procedures and functions that read over all shards: each construct of PL/pgSQL around such a query does what it does on PostgreSQL, on one
//! shard and on several (docs/internals/interactive-calls.md). And keys that are computed from arguments.

use crate::conversation::compare;

const CONVERSATION: &str = r#"
CREATE TABLE item (id int PRIMARY KEY, kind text NOT NULL, price int NOT NULL, tags int[])
INSERT INTO item SELECT g, CASE g % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE 'c' END, g * 10, ARRAY[g, g + 1] FROM generate_series(1, 20) g
CREATE TABLE note (id int PRIMARY KEY, words text)
CREATE FUNCTION how_many(k text) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM item WHERE kind = k; RETURN n; END $$
SELECT how_many('a')
SELECT how_many('none')
SELECT how_many(NULL)
CREATE PROCEDURE dearest(k text, OUT best int, OUT cost int) LANGUAGE plpgsql AS $$ BEGIN SELECT id, price INTO STRICT best, cost FROM item WHERE kind = k ORDER BY price DESC LIMIT 1; END $$
CALL dearest('b', NULL, NULL)
CALL dearest('none', NULL, NULL)
CREATE PROCEDURE all_of(k text, OUT one int) LANGUAGE plpgsql AS $$ BEGIN SELECT id INTO STRICT one FROM item WHERE kind = k; END $$
CALL all_of('c', NULL)
CREATE PROCEDURE walk(OUT summed int, OUT seen int, OUT rounds int) LANGUAGE plpgsql AS $$ DECLARE one record; BEGIN summed := 0; seen := 0; rounds := 0; <<outer>> FOR one IN SELECT id, price FROM item WHERE price > 30 ORDER BY id LOOP CONTINUE WHEN one.id % 2 = 0; FOR i IN 1..3 LOOP rounds := rounds + 1; CONTINUE outer WHEN one.id = 7 AND i = 2; EXIT WHEN i = 3 OR one.id = 9; EXIT outer WHEN one.id > 15; END LOOP; summed := summed + one.price; seen := seen + 1; END LOOP; IF NOT FOUND THEN seen := -seen; END IF; END $$
CALL walk(NULL, NULL, NULL)
CREATE PROCEDURE count_down(OUT path text) LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN path := ''; SELECT count(*) INTO n FROM item; WHILE n > (SELECT min(id) FROM item WHERE kind = 'c') LOOP n := n - 4; path := path || n || ' '; END LOOP; FOR i IN REVERSE 9..1 BY 3 LOOP path := path || i || ','; END LOOP; LOOP n := n + 1; EXIT WHEN n > 5; END LOOP; path := path || '!' || n; END $$
CALL count_down(NULL)
CREATE PROCEDURE arrays(OUT total int, OUT list int[]) LANGUAGE plpgsql AS $$ DECLARE ids int[]; one int; BEGIN SELECT array_agg(id ORDER BY id) INTO ids FROM item WHERE kind = 'a'; total := 0; FOREACH one IN ARRAY ids LOOP total := total + one; list[coalesce(array_length(list, 1), 0) + 1] := one * 2; END LOOP; END $$
CALL arrays(NULL, NULL)
CREATE PROCEDURE nested(OUT a bigint, OUT b bigint) LANGUAGE plpgsql AS $$ DECLARE c int; d int; BEGIN a := (SELECT count(*) FROM item); CALL walk(c, d, d); b := c; END $$
CALL nested(NULL, NULL)
CREATE PROCEDURE guarded(limit_to int) LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM item; RAISE NOTICE 'there are % items', n; IF n > limit_to THEN RAISE EXCEPTION 'more than % items', limit_to USING ERRCODE = 'X0001', DETAIL = 'a detail', HINT = 'a hint'; END IF; ASSERT n > 1, 'too few'; END $$
CALL guarded(100)
CALL guarded(3)
CREATE FUNCTION dear(low int) RETURNS SETOF int LANGUAGE plpgsql AS $$ DECLARE one record; BEGIN FOR one IN SELECT id FROM item WHERE price >= low ORDER BY id LOOP RETURN NEXT one.id; END LOOP; RETURN QUERY SELECT id FROM item WHERE price < 20 ORDER BY id; END $$
SELECT * FROM dear(180)
CREATE PROCEDURE annotate(at int) LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT sum(price) INTO n FROM item WHERE kind = 'a'; IF n IS NULL THEN RAISE EXCEPTION 'nothing'; END IF; INSERT INTO note VALUES (at, 'first'), (at * 2 + 1, 'second'); INSERT INTO note VALUES (-at, 'third') ON CONFLICT (id) DO NOTHING; END $$
CALL annotate(5)
SELECT id, words FROM note ORDER BY id
CALL annotate(5)
CALL annotate(-11)
SELECT id, words FROM note ORDER BY id
BEGIN
INSERT INTO item VALUES (30, 'a', 5, NULL)
SELECT how_many('a')
ROLLBACK
SELECT how_many('a')
PREPARE put AS INSERT INTO note VALUES ($1 * 100 + 1, 'computed')
EXECUTE put(7)
EXECUTE put(7)
EXECUTE put(100000000)
EXECUTE put(NULL)
PREPARE look AS SELECT words FROM note WHERE id = $1 - 1
EXECUTE look(702)
UPDATE note SET words = 'changed' WHERE id = 700 + 1
DELETE FROM note WHERE id = -(5)
SELECT id, words FROM note ORDER BY id
DO $$ DECLARE r record; n int := 0; BEGIN FOR r IN SELECT id, price FROM item ORDER BY id LOOP UPDATE item SET price = r.price + 1 WHERE id = r.id; n := n + 1; END LOOP; RAISE NOTICE '% rows', n; END $$
SELECT id, price FROM item ORDER BY id
CREATE PROCEDURE copy_all(low int, OUT copied int, OUT changed int, OUT gone int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO note SELECT id + 10000, kind FROM item WHERE price > low; GET DIAGNOSTICS copied = ROW_COUNT; UPDATE note SET words = i.kind || (SELECT count(*) FROM item) FROM item i WHERE i.id + 10000 = note.id AND i.kind <> 'a'; GET DIAGNOSTICS changed = ROW_COUNT; DELETE FROM note USING item i WHERE i.id + 10000 = note.id AND i.price > (SELECT avg(price) FROM item); GET DIAGNOSTICS gone = ROW_COUNT; IF NOT FOUND THEN gone := -1; END IF; END $$
CALL copy_all(60, NULL, NULL, NULL)
SELECT id, words FROM note ORDER BY id
CALL copy_all(100000, NULL, NULL, NULL)
CREATE PROCEDURE raise_all() LANGUAGE plpgsql AS $$ BEGIN UPDATE item SET price = (SELECT max(price) FROM item) + id WHERE kind IN (SELECT words FROM note); INSERT INTO note SELECT 20000 + id, kind FROM item WHERE id < 4 ON CONFLICT DO NOTHING; DELETE FROM note WHERE id IN (SELECT id + 20001 FROM item); END $$
CALL raise_all()
SELECT id, price FROM item ORDER BY id
SELECT id, words FROM note ORDER BY id
BEGIN
DO $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM note; INSERT INTO note VALUES (n + 30000, 'counted'); END $$
SELECT max(id) > 30000 FROM note
ROLLBACK
SELECT max(id) > 30000 FROM note
DO $$ BEGIN INSERT INTO note SELECT id, 'again' FROM note WHERE id = 5; END $$
DO $$ DECLARE n int; BEGIN SELECT 1 / count(*) INTO n FROM note WHERE id < -100000; END $$
CREATE PROCEDURE endless() LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN SELECT count(*) INTO n FROM item; LOOP n := n + 1; n := n - 1; END LOOP; END $$
SET statement_timeout = '200ms'
CALL endless()
SET statement_timeout = 0
SELECT how_many('b')
"#;

#[test]
fn procedures_over_all_shards_do_what_they_do_on_postgresql() {
    compare(CONVERSATION);
}
