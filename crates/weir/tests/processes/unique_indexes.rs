//! Unique indexes over what is computed of a row, and over some rows: told the same as a PostgreSQL server, Weir answers the same, on one
//! shard and on several, after a kill, and with two sessions at once.

mod batches;

use crate::alone::Alone;
use crate::conversation::{answer, compare};

/// Every index has the column by which rows have their places. `?`: Weir may refuse it (0A000), for it sets a part of what an index
/// compares; then PostgreSQL is not told.
const CONVERSATION: &str = "
CREATE TABLE person (tenant int, id int, email text, deleted_at timestamptz, rank int, PRIMARY KEY (tenant, id))
INSERT INTO person VALUES (1, 1, 'Ann@x', NULL, 1), (1, 2, 'ann@x', NULL, 2), (2, 1, 'ann@x', NULL, 3), (1, 3, NULL, NULL, 4)
CREATE UNIQUE INDEX person_email ON person (tenant, lower(email))
DELETE FROM person WHERE tenant = 1 AND id = 2
CREATE UNIQUE INDEX person_email ON person (tenant, lower(email))
INSERT INTO person VALUES (1, 4, 'ANN@X', NULL, 5)
INSERT INTO person (tenant, id, email) VALUES (1, 4, 'bob@x'), (1, 5, 'BOB@x')
INSERT INTO person (tenant, id, email) VALUES (1, 4, 'bob@x'), (1, 5, NULL), (1, 6, NULL)
UPDATE person SET email = 'aNN@x' WHERE tenant = 1 AND id = 4
? UPDATE person SET email = upper(email) WHERE tenant = 1 RETURNING *
SELECT * FROM person ORDER BY tenant, id
INSERT INTO person VALUES (1, 7, 'bOb@x', NULL, 9) ON CONFLICT (tenant, lower(email)) DO UPDATE SET email = excluded.email RETURNING *
INSERT INTO person (tenant, id, email, rank) VALUES (1, 7, 'bOb@x', 9) ON CONFLICT (tenant, lower(email)) DO NOTHING
INSERT INTO person (tenant, id, email, rank) VALUES (1, 7, 'bOb@x', 9) ON CONFLICT DO NOTHING
INSERT INTO person (tenant, id, email, rank) VALUES (1, 7, 'bOb@x', 9) ON CONFLICT (tenant, upper(email)) DO NOTHING
INSERT INTO person (tenant, id, email, rank) VALUES (1, 7, 'bOb@x', 9) ON CONFLICT (tenant, id) DO NOTHING
DROP INDEX person_email
INSERT INTO person VALUES (1, 8, 'ANN@x', NULL, 5)
SELECT * FROM person ORDER BY tenant, id
CREATE UNIQUE INDEX person_rank ON person (tenant, rank) WHERE deleted_at IS NULL
INSERT INTO person VALUES (1, 9, 'z', NULL, 5)
INSERT INTO person VALUES (1, 9, 'z', '2024-01-01', 5), (1, 10, 'z', '2024-01-01', 5)
? UPDATE person SET deleted_at = NULL WHERE id = 9
UPDATE person SET deleted_at = now() WHERE id = 8
? UPDATE person SET deleted_at = NULL WHERE id = 9
? UPDATE person SET deleted_at = NULL WHERE id = 10
? UPDATE person SET rank = 5 WHERE tenant = 1 AND id = 1
INSERT INTO person (tenant, id, rank) VALUES (1, 11, 5) ON CONFLICT (tenant, rank) DO NOTHING
INSERT INTO person (tenant, id, rank) VALUES (1, 11, 5) ON CONFLICT (tenant, rank) WHERE deleted_at IS NULL DO NOTHING
INSERT INTO person VALUES (1, 11, 'y', NULL, 5) ON CONFLICT (tenant, rank) WHERE deleted_at IS NULL AND rank > 0 DO UPDATE SET email = 'met'
INSERT INTO person VALUES (1, 11, 'y', '2024-02-02', 5) ON CONFLICT (tenant, rank) WHERE deleted_at IS NULL DO NOTHING
INSERT INTO person SELECT 1, 12, 'q', NULL, 5
SELECT id, rank, email FROM person WHERE deleted_at IS NULL ORDER BY tenant, id
ALTER TABLE person ADD COLUMN more text DEFAULT 'm'
SELECT * FROM person WHERE tenant = 2
INSERT INTO person VALUES (2, 2, 'y', NULL, 8, 'n') RETURNING *
INSERT INTO person VALUES (2, 3, 'y', NULL, 8, 'n')
CREATE VIEW here AS SELECT * FROM person WHERE deleted_at IS NULL
SELECT * FROM here WHERE tenant = 2 ORDER BY id
INSERT INTO here (tenant, id, rank) VALUES (2, 4, 8)
? UPDATE here SET rank = 8 WHERE tenant = 2 AND id = 1
ALTER TABLE person RENAME COLUMN rank TO place
INSERT INTO person (tenant, id, place) VALUES (2, 3, 8)
DROP VIEW here
ALTER TABLE person DROP COLUMN deleted_at
INSERT INTO person (tenant, id, place) VALUES (2, 3, 8)
SELECT * FROM person ORDER BY tenant, id
SELECT indexdef FROM pg_indexes WHERE tablename = 'person' ORDER BY 1
CREATE UNIQUE INDEX one_default ON person (tenant) WHERE email = 'default'
INSERT INTO person (tenant, id, email) VALUES (3, 1, 'default'), (3, 2, 'other'), (3, 3, 'other')
UPDATE person SET email = 'default' WHERE tenant = 3 AND id = 3
BEGIN
UPDATE person SET email = 'no' WHERE tenant = 3 AND id = 1
UPDATE person SET email = 'default' WHERE tenant = 3 AND id = 3
COMMIT
SELECT id, email FROM person WHERE tenant = 3 ORDER BY id
CREATE UNIQUE INDEX sums ON person (tenant, abs(id + place), abs(place))
INSERT INTO person (tenant, id, place) VALUES (4, 1, 5)
INSERT INTO person (tenant, id, place) VALUES (4, 2, 4), (4, 11, -5)
INSERT INTO person (tenant, id, place) VALUES (4, 12, -6), (4, 12, 5)
SELECT attname FROM pg_attribute WHERE attrelid = 'person'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname
SELECT indexdef FROM pg_indexes WHERE tablename = 'person' ORDER BY 1
SELECT count(*) FROM information_schema.columns WHERE table_name = 'person'
DROP TABLE person
CREATE TABLE seat (list int, id int, line int, place int, PRIMARY KEY (list, id), UNIQUE (list, line, place))
INSERT INTO seat VALUES (1, 1, 1, 1), (1, 2, 1, 2), (1, 3, 2, 1), (2, 1, 1, 1)
UPDATE seat SET place = 3 WHERE list = 1 AND id = 1
UPDATE seat SET place = 2 WHERE list = 1 AND id = 1
UPDATE seat SET line = 2, place = 1 WHERE list = 1 AND id = 1
UPDATE seat SET place = place - 1 WHERE list = 1 AND id = 2 RETURNING place
UPDATE seat SET line = line + 1 WHERE id = 1
UPDATE seat SET line = 1 WHERE list = 1
UPDATE seat SET place = NULL WHERE list = 1
INSERT INTO seat VALUES (2, 1, 0, 0), (2, 2, 0, 0) ON CONFLICT (list, id) DO UPDATE SET place = 9
SELECT * FROM seat ORDER BY list, id
BEGIN
UPDATE seat SET place = 5 WHERE list = 1 AND id = 1
UPDATE seat SET line = 5 WHERE list = 1 AND id = 1
UPDATE seat SET line = 5, place = 5 WHERE list = 1 AND id = 2
ROLLBACK
CREATE TABLE home (tenant int, id int, PRIMARY KEY (tenant, id))
CREATE TABLE guest (tenant int, id int, home int, PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, home) REFERENCES home)
CREATE UNIQUE INDEX guest_home ON guest (tenant, abs(home))
INSERT INTO home VALUES (1, 1), (1, 2)
INSERT INTO guest VALUES (1, 1, 1), (1, 2, 2)
INSERT INTO guest VALUES (1, 3, 2)
DROP TABLE guest
CREATE TABLE guest (tenant int, id int, home int, PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, home) REFERENCES home ON UPDATE CASCADE)
? CREATE UNIQUE INDEX guest_home ON guest (tenant, abs(home))
INSERT INTO guest VALUES (1, 1, 1), (1, 2, 2)
UPDATE home SET id = 3 WHERE tenant = 1 AND id = 2
SELECT id, home FROM guest ORDER BY id
";

#[test]
fn they_are_kept_as_by_postgresql() {
    compare(CONVERSATION);
}

#[test]
fn they_are_there_after_a_kill_and_between_sessions() {
    for shards in [1, 3] {
        let mut weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(
            "CREATE TABLE p (t int, id int, mail text, live bool, PRIMARY KEY (t, id));
             CREATE UNIQUE INDEX p_mail ON p (t, lower(mail)) WHERE live;
             INSERT INTO p VALUES (1, 1, 'A', true);
             CREATE PROCEDURE put(n int, m text) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO p VALUES (1, n, m, true); END $$;",
        )
        .unwrap();
        weir.kill_and_start_again();
        let (mut one, mut other) = (weir.driver(), weir.driver());
        let twice = "23505 duplicate key value violates unique constraint \"p_mail\" \
                     | Key (t, lower(mail))=(1, a) already exists. | p_mail";
        assert_eq!(answer(&mut one, "INSERT INTO p VALUES (1, 2, 'a', true)"), twice);
        assert_eq!(answer(&mut one, "CALL put(2, 'a')"), twice);
        // The second session waits, and is told.
        one.batch_execute("BEGIN; INSERT INTO p VALUES (1, 3, 'B', true)").unwrap();
        other.batch_execute("SET lock_timeout = 200").unwrap();
        let waits = answer(&mut other, "INSERT INTO p VALUES (1, 4, 'b', true)");
        assert!(waits.starts_with("55P03"), "{waits}");
        one.batch_execute("COMMIT").unwrap();
        let told = answer(&mut other, "INSERT INTO p VALUES (1, 4, 'b', true)");
        assert!(told.starts_with("23505"), "{told}");
        assert_eq!(answer(&mut other, "INSERT INTO p VALUES (1, 4, 'b', false)"), "(1)");
    }
}

/// Keys by which rows have their places that a cast makes of a parameter, and equal numbers of other scales.
const PLACES: &str = r#"
CREATE TABLE tag (k varchar(8) PRIMARY KEY, n int)
PREPARE put AS INSERT INTO tag (k, n) VALUES ($1, $2)
EXECUTE put('ab', 1)
EXECUTE put('abc', 2)
EXECUTE put('abcd', 3)
EXECUTE put('ab', 4)
EXECUTE put('12345678   ', 5)
EXECUTE put('123456789', 6)
EXECUTE put(NULL, 7)
PREPARE find AS SELECT n FROM tag WHERE k = $1
EXECUTE find('ab')
EXECUTE find('12345678')
EXECUTE find('12345678   ')
EXECUTE find('nobody')
PREPARE again AS INSERT INTO tag VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET n = tag.n + excluded.n RETURNING k, n
EXECUTE again('abc', 10)
EXECUTE again('abcde', 10)
PREPARE change AS UPDATE tag SET n = n + 1 WHERE k = $1
EXECUTE change('abc')
PREPARE three AS INSERT INTO tag VALUES ($1, 1), ($2, 2), ($3, 3)
EXECUTE three('x', 'y', 'z')
EXECUTE three('u', 'v', 'ab')
SELECT * FROM tag ORDER BY k
CREATE TABLE price (p numeric(8,2) PRIMARY KEY, n int)
PREPARE priced AS INSERT INTO price VALUES ($1, $2)
EXECUTE priced(1.5, 1)
EXECUTE priced(1.50, 2)
EXECUTE priced(1.499999, 3)
EXECUTE priced(2, 4)
EXECUTE priced(2.25, 5)
EXECUTE priced(1e9, 6)
INSERT INTO price VALUES (3.1, 7), (3.10, 8)
INSERT INTO price VALUES (3.1, 7), (3.14, 8), (30, 9)
PREPARE priced_at AS SELECT n FROM price WHERE p = $1
EXECUTE priced_at(1.5)
EXECUTE priced_at(1.500)
EXECUTE priced_at(1.501)
EXECUTE priced_at(30)
EXECUTE priced_at(99999999999)
SELECT n FROM price WHERE p = 3.1
SELECT n FROM price WHERE p = 30
CREATE TABLE sale (id int PRIMARY KEY, p numeric(10,4) REFERENCES price)
INSERT INTO sale VALUES (1, 1.5), (2, 2), (3, 30)
INSERT INTO sale VALUES (4, 1.5001)
SELECT id, n FROM sale JOIN price USING (p) ORDER BY id
CREATE TABLE free (p numeric PRIMARY KEY, n int)
INSERT INTO free VALUES (1.5, 1), (10, 2), (100, 3)
INSERT INTO free VALUES (1.50, 1)
INSERT INTO free VALUES (10.0, 1)
SELECT n FROM free WHERE p = 1.500
UPDATE free SET n = 9 WHERE p = 100.00
SELECT n FROM free ORDER BY p
CREATE TABLE code (c char(4) PRIMARY KEY, n int)
PREPARE coded AS INSERT INTO code VALUES ($1, $2)
EXECUTE coded('a', 1)
EXECUTE coded('a  ', 2)
EXECUTE coded('abcd  ', 3)
EXECUTE coded('abcde', 4)
SELECT n FROM code WHERE c = 'a'
CREATE TABLE zero (f float8 PRIMARY KEY, n int)
INSERT INTO zero VALUES (0, 1), (1.5, 2)
INSERT INTO zero VALUES ('-0', 1)
SELECT n FROM zero WHERE f = '-0'
CREATE TABLE made (u uuid PRIMARY KEY, n int)
PREPARE makes(text) AS INSERT INTO made VALUES ($1::uuid, 1)
EXECUTE makes('00000000-0000-0000-0000-000000000001')
EXECUTE makes('{00000000-0000-0000-0000-000000000001}')
EXECUTE makes('nothing')
CREATE TABLE span (i interval PRIMARY KEY, n int)
INSERT INTO span VALUES ('1 day', 1), ('1 month', 2), ('-3 hours', 3), ('2 years 3 days', 4), ('0', 5)
INSERT INTO span VALUES ('24:00:00', 6)
INSERT INTO span VALUES ('30 days', 6)
INSERT INTO span VALUES ('-1 day 21:00:00', 6)
INSERT INTO span VALUES ('24:00:00', 6) ON CONFLICT (i) DO UPDATE SET n = span.n + 10 RETURNING n
PREPARE spanned AS SELECT n FROM span WHERE i = $1
EXECUTE spanned('1 day')
EXECUTE spanned('24:00:00')
EXECUTE spanned('1 mon -29 days')
EXECUTE spanned('720:00')
EXECUTE spanned('1 day 1 second')
SELECT n FROM span WHERE i = '24 hours'
SELECT n FROM span WHERE i IN ('24 hours', '60 days -30 days') ORDER BY n
SELECT n FROM span WHERE i >= '24 hours' ORDER BY i
SELECT n FROM span ORDER BY i DESC
CREATE TABLE stay (id int PRIMARY KEY, i interval REFERENCES span)
INSERT INTO stay VALUES (1, '24:00:00'), (2, '30 days'), (3, NULL), (4, '21:00:00 -1 day')
? INSERT INTO stay VALUES (9, '21:00:00'::interval - '1 day')
INSERT INTO stay VALUES (5, '25:00:00')
INSERT INTO stay VALUES (5, '1 day'), (6, '23:59:60')
? DELETE FROM span WHERE i = '1 day'
SELECT stay.id, n FROM stay JOIN span USING (i) ORDER BY 1
SELECT stay.id, n FROM stay LEFT JOIN span ON stay.i = span.i + '0' ORDER BY 1
SELECT count(*), min(id) FROM stay GROUP BY i ORDER BY 2
SELECT count(DISTINCT i) FROM stay
SELECT count(*) FROM (SELECT DISTINCT i FROM stay) s
SELECT count(*) FROM (SELECT i FROM stay UNION SELECT i FROM span) s
SELECT count(*) FROM (SELECT i FROM stay INTERSECT SELECT i FROM span) s
SELECT id FROM stay WHERE i IN (SELECT i FROM span WHERE n < 12) ORDER BY 1
SELECT id, rank() OVER (ORDER BY i), count(*) OVER (PARTITION BY i) FROM stay ORDER BY 1
UPDATE span SET n = 99 WHERE i = '24:00'
WITH gone AS (DELETE FROM stay WHERE i = '24:00' RETURNING id) SELECT id FROM gone ORDER BY 1
UPDATE span SET i = '24:00:00' WHERE i = '1 day' RETURNING i
SELECT i, n FROM span ORDER BY i
CREATE TABLE spans (i interval, j interval, UNIQUE (i, j))
INSERT INTO spans VALUES ('1 day', '1 mon'), ('24:00', '31 days')
INSERT INTO spans VALUES ('24:00', '30 days')
INSERT INTO spans VALUES ('24:00', NULL), ('1 day', NULL)
SELECT count(*) FROM spans WHERE i = '24:00' AND j = '30 days'
CREATE TABLE doc (j jsonb PRIMARY KEY, n int)
INSERT INTO doc VALUES ('{"a":1.0}', 1), ('[]', 2), ('[1, 2.50]', 3), ('"x"', 4), ('1', 5), ('{}', 6), ('{"b":{"c":[10]}}', 7), ('null', 8)
INSERT INTO doc VALUES ('{"a":1}', 9)
INSERT INTO doc VALUES ('{"a": 1.00}', 9) ON CONFLICT (j) DO NOTHING
INSERT INTO doc VALUES ('1.000', 9)
INSERT INTO doc VALUES ('{"b":{"c":[1e1]}}', 9) ON CONFLICT (j) DO UPDATE SET n = doc.n + 10 RETURNING n
PREPARE filed AS SELECT n FROM doc WHERE j = $1
EXECUTE filed('{"a":1}')
EXECUTE filed('{"a":1.0000}')
EXECUTE filed('[1.0,2.5]')
EXECUTE filed('1.0')
EXECUTE filed('[]')
EXECUTE filed('2')
SELECT n FROM doc WHERE j = '{"a":1}'
SELECT n FROM doc ORDER BY j
SELECT n FROM doc WHERE j > '1.5' ORDER BY j
SELECT n FROM doc WHERE j < '{}' ORDER BY j DESC
SELECT max(n) FROM doc WHERE j <= '[1.0, 2.5]'
CREATE TABLE filing (id int PRIMARY KEY, j jsonb REFERENCES doc)
INSERT INTO filing VALUES (1, '{"a":1}'), (2, '1.00'), (3, '{"a":1.0}'), (4, '[1, 2.5]')
INSERT INTO filing VALUES (5, '{"a":1.5}')
SELECT id, n FROM filing JOIN doc USING (j) ORDER BY 1
SELECT count(*), min(id) FROM filing GROUP BY j ORDER BY 2
SELECT count(DISTINCT j) FROM filing
SELECT count(*) FROM (SELECT j FROM filing EXCEPT SELECT j FROM doc) s
? DELETE FROM doc WHERE j = '{"a":1}'
UPDATE doc SET n = 50 WHERE j = '{"a":1}'
SELECT id, (SELECT n FROM doc WHERE doc.j = filing.j) FROM filing ORDER BY 1
CREATE TABLE list (a numeric[] PRIMARY KEY, n int)
INSERT INTO list VALUES ('{1.0,2}', 1), ('{}', 2), ('{NULL}', 3), ('{-5}', 4), ('{1,2,0.0}', 5)
INSERT INTO list VALUES ('{1,2.00}', 9)
PREPARE listed AS SELECT n FROM list WHERE a = $1
EXECUTE listed('{1,2}')
EXECUTE listed('{1.00,2.0,0}')
EXECUTE listed('{NULL}')
SELECT n FROM list ORDER BY a
SELECT n FROM list WHERE a > '{1}' ORDER BY a
CREATE TABLE words (w varchar(3)[] PRIMARY KEY, n int)
INSERT INTO words VALUES ('{a,b}', 1), ('{c,d}', 2)
? INSERT INTO words VALUES (ARRAY['a', 'b']::text[], 9)
SELECT n FROM words WHERE w = ARRAY['a'::text, 'b']
SELECT n FROM words WHERE w = '{c,d}'::varchar[]
CREATE TABLE waits (s interval[] PRIMARY KEY, n int)
INSERT INTO waits VALUES ('{1 day}', 1), ('{30 days,1 sec}', 2)
INSERT INTO waits VALUES ('{24:00}', 9)
SELECT n FROM waits WHERE s = '{1 mon,00:00:01}'
CREATE TABLE level (f float4 PRIMARY KEY, n int)
INSERT INTO level VALUES ('NaN', 1), ('-0', 2), ('Infinity', 3), (0.1, 4)
INSERT INTO level VALUES ('nan', 9)
INSERT INTO level VALUES (0, 9)
SELECT n FROM level WHERE f = 'NaN'
SELECT n FROM level WHERE f = 0.0
SELECT n FROM level WHERE f = 0.1
SELECT n FROM level WHERE f = 0.1::float4
SELECT n FROM level ORDER BY f
CREATE TABLE reading (id int PRIMARY KEY, f float4 REFERENCES level)
INSERT INTO reading VALUES (1, 0), (2, 'NaN'), (3, '-0')
SELECT count(*), min(id) FROM reading GROUP BY f ORDER BY 2
SELECT id, n FROM reading JOIN level USING (f) ORDER BY 1
CREATE TABLE big (v numeric PRIMARY KEY, n int)
INSERT INTO big VALUES (1.00000000000000000000000000000000000000000000, 1), (1e40, 2), ('NaN', 3), (12345678901234567890123.5, 4)
INSERT INTO big VALUES (1, 9)
INSERT INTO big VALUES (10000000000000000000000000000000000000000.0, 9)
SELECT n FROM big WHERE v = 1
SELECT n FROM big WHERE v = 12345678901234567890123.50000000000000000000000000000000
SELECT n FROM big WHERE v = 'NaN'
CREATE TABLE flagged (c char(4)[] PRIMARY KEY, n int)
INSERT INTO flagged VALUES ('{a,b}', 1)
INSERT INTO flagged VALUES ('{"a ",b}', 9)
SELECT n FROM flagged WHERE c = '{a,"b   "}'
"#;

/// A function in pg_temp tells of a key that is there; it is its session's.
const TEMPORARY: &str = r#"
CREATE TABLE "Users" (name text PRIMARY KEY, age int DEFAULT 3, tags text[])
CREATE OR REPLACE FUNCTION pg_temp.testfunc(OUT response "Users", OUT caught text) RETURNS RECORD AS $f_1$ BEGIN INSERT INTO "Users" ("name","age") VALUES ('a; b',1) RETURNING * INTO response; EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS caught = PG_EXCEPTION_DETAIL; END $f_1$ LANGUAGE plpgsql; SELECT (testfunc.response).*, testfunc.caught FROM pg_temp.testfunc(); DROP FUNCTION IF EXISTS pg_temp.testfunc()
BEGIN
CREATE FUNCTION pg_temp.testfunc(OUT response "Users", OUT caught text) RETURNS RECORD AS $f_1$ BEGIN INSERT INTO "Users" ("name","age") VALUES ('a; b',1) RETURNING * INTO response; EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS caught = PG_EXCEPTION_DETAIL; END $f_1$ LANGUAGE plpgsql; SELECT (testfunc.response)."age", (testfunc.response)."name", testfunc.caught FROM pg_temp.testfunc(); DROP FUNCTION IF EXISTS pg_temp.testfunc()
INSERT INTO "Users" VALUES ('c', 2)
COMMIT
SELECT name, age FROM "Users" ORDER BY name
DROP FUNCTION pg_temp.testfunc()
DROP FUNCTION IF EXISTS pg_temp.testfunc()
CREATE FUNCTION pg_temp.ages(OUT "Row" "Users", OUT state text, OUT said text, OUT of text) AS 'BEGIN UPDATE "Users" SET age = age + 1 WHERE name = ''c'' RETURNING * INTO "Row"; EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, said := MESSAGE_TEXT, of = CONSTRAINT_NAME; END;' LANGUAGE plpgsql
SELECT (ages."Row").*, ages.state FROM pg_temp.ages()
SELECT (ages."Row").age FROM pg_temp.ages()
CREATE FUNCTION pg_temp.ages(OUT "Row" "Users", OUT state text) AS 'BEGIN DELETE FROM "Users" WHERE name = ''nobody'' RETURNING * INTO "Row"; END' LANGUAGE plpgsql
CREATE OR REPLACE FUNCTION pg_temp.gone(OUT r "Users", OUT state text) AS 'BEGIN DELETE FROM "Users" WHERE name = ''nobody'' RETURNING * INTO r; END' LANGUAGE plpgsql
SELECT (gone.r).*, gone.state FROM pg_temp.gone()
SELECT (gone.r).nothing FROM pg_temp.gone()
CREATE OR REPLACE FUNCTION pg_temp.wrong(OUT r "Users", OUT state text) AS 'BEGIN INSERT INTO "Users" (name, age) VALUES (NULL, 1) RETURNING * INTO r; EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS state = MESSAGE_TEXT; END' LANGUAGE plpgsql
SELECT (wrong.r).*, wrong.state FROM pg_temp.wrong()
CREATE OR REPLACE FUNCTION pg_temp.wrong(OUT r "Users", OUT state text, OUT c text, OUT m text) AS 'BEGIN INSERT INTO "Users" (name, age) VALUES (''c'', 1) RETURNING * INTO r; EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, c = CONSTRAINT_NAME, m = MESSAGE_TEXT; END' LANGUAGE plpgsql
CREATE OR REPLACE FUNCTION pg_temp.taken(OUT r "Users", OUT state text, OUT c text, OUT m text) AS 'BEGIN INSERT INTO "Users" (name, age) VALUES (''c'', 1) RETURNING * INTO r; EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, c = CONSTRAINT_NAME, m = MESSAGE_TEXT; END' LANGUAGE plpgsql
SELECT (taken.r).name, taken.state, taken.c, taken.m FROM pg_temp.taken()
DISCARD TEMP
SELECT (gone.r).name FROM pg_temp.gone()
? CREATE FUNCTION pg_temp.two() RETURNS int LANGUAGE sql AS 'SELECT 2'
? SELECT * FROM pg_temp.two()
SELECT name, age FROM "Users" ORDER BY name
"#;

#[test]
fn functions_in_pg_temp_are_their_sessions() {
    compare(TEMPORARY);
}

#[test]
fn equal_keys_live_together_and_are_found() {
    compare(PLACES);
}
