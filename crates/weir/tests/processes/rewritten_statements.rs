//! Statements that are run as others than they were written: WITH that writes, UPDATE … FROM rows that live elsewhere, INSERT of many rows,
//! currval. However they are written, with names, strings and comments that look like what they are not, they say and do what they do on
//! PostgreSQL.

use crate::answers;

use crate::alone::Alone;
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = r#"
CREATE TABLE task (id integer PRIMARY KEY, owner text, hours numeric(6,2), tags text[]);
CREATE TABLE "select" ("from" integer PRIMARY KEY, "where (" text, n integer);
CREATE TABLE values (values integer PRIMARY KEY, b text);
CREATE TABLE "ON CONFLICT" (a integer PRIMARY KEY, "RETURNING $1" text);
CREATE TABLE item (id serial PRIMARY KEY, name text);
CREATE SEQUENCE "Own ('";
INSERT INTO task SELECT i, CASE i % 3 WHEN 0 THEN 'ann' WHEN 1 THEN 'bob' END, i * 1.5, ARRAY['a', i::text] FROM generate_series(1, 20) i;
INSERT INTO "select" SELECT i, 'w' || i, i % 4 FROM generate_series(1, 9) i;
INSERT INTO "ON CONFLICT" SELECT i, 'r' || i FROM generate_series(1, 9) i;
"#;

/// WITH that writes.
const WITH: &str = r#"
a: WITH "select" /* AS ( */ AS (DELETE FROM task WHERE id = 1 OR owner = '$7) FROM "select"' RETURNING id, $$($8 it's$$ AS said) SELECT 'FROM x' AS "FROM", * FROM "select"
a: WITH n AS (DELETE FROM task WHERE id = 2) SELECT x.n, 'FROM n' FROM "select" x, "ON CONFLICT" AS n WHERE n.a = 3 AND x."from" = 1 -- FROM n
a: WITH "A, (" AS (DELETE FROM task WHERE id = 4 RETURNING id) SELECT ((((SELECT count(*) FROM "A, (")))) AS "count(*)"
a: WITH as_ AS MATERIALIZED (SELECT 5 AS id), gone AS NOT MATERIALIZED (DELETE FROM task USING as_ WHERE task.id = as_.id RETURNING task.id) TABLE gone
a: WITH insert AS (INSERT INTO values VALUES (1, E'it\'s $1'), (2, U&'\0041'), (3, $_$VALUES ($2), ($3)$_$) RETURNING values, b) SELECT * FROM insert ORDER BY values
a: WITH d AS (DELETE FROM values RETURNING b), i AS (WITH x AS (SELECT b FROM d WHERE b LIKE 'it%') INSERT INTO item (name) SELECT b FROM x RETURNING name) SELECT * FROM i
a: WITH d AS (DELETE FROM task WHERE id = 6 RETURNING owner), i AS (INSERT INTO item (name) WITH d2 AS (SELECT owner FROM d) SELECT owner || ' /* */ --' FROM d2 RETURNING name) SELECT * FROM i
a: WITH d AS (DELETE FROM task WHERE id = 7 RETURNING hours), i AS (INSERT INTO item (name) VALUES ('seven') RETURNING name, (SELECT max(hours) FROM d)) SELECT * FROM i
a: WITH d AS (UPDATE task SET owner = 'x' WHERE id = 8 RETURNING id) SELECT (WITH d AS (SELECT 'inner' AS id) SELECT id FROM d), (SELECT id FROM d)
a: WITH d AS (DELETE FROM task WHERE id = 9 RETURNING id), d AS (SELECT 1) SELECT * FROM d
a: WITH d (a, "b c") AS (DELETE FROM task WHERE id = 10 RETURNING id, tags) SELECT d."b c", d.a FROM d
a: WITH u AS (UPDATE "select" AS "values" SET "where (" = '(' || "values"."where (" || ')' WHERE "from" = 2 RETURNING *) SELECT * FROM u
a: WITH g AS (INSERT INTO values VALUES (9, 'nine') RETURNING b) (SELECT b FROM g) UNION ALL (SELECT owner FROM task WHERE id = 11 ORDER BY id LIMIT 1)
a: PREPARE p (text, int) AS WITH d AS (DELETE FROM task WHERE id = $2 AND '$1' <> $1 RETURNING id, '$2' AS "$3") SELECT d.*, $1 || '$1', $$ $1 $$ FROM d
a: EXECUTE p ('one', 12)
a: EXECUTE p ('$1', 13)
a: WITH d AS (DELETE FROM task WHERE id = 14 RETURNING nothing) SELECT * FROM d
a: WITH d AS (DELETE FROM task WHERE id = 14 RETURNING id) SELECT nothing FROM d
a: SELECT id, owner FROM task ORDER BY 1
a: SELECT name FROM item ORDER BY name
"#;

/// UPDATE … FROM and DELETE … USING.
const JOINED: &str = r#"
a: UPDATE task AS "from (" SET owner = 'FROM s WHERE $1' /* FROM nothing */ || "where"."where (" FROM "select" AS "where" WHERE "where"."from" = 1 -- RETURNING *
a: UPDATE task AS "from (" SET owner = 'FROM s WHERE $1' /* FROM nothing */ || "where"."where (" FROM "select" AS "where" WHERE (("where"."from" = "from (".id)) AND "from (".id > 17
a: UPDATE task SET owner = (CASE WHEN task.owner IS DISTINCT FROM $$ WHERE $$ THEN s."where (" END) FROM "select" s WHERE s."from" = task.id % 7 AND task.id BETWEEN 12 AND 16
a: UPDATE task SET (owner, hours) = (SELECT "where (", n FROM "select" WHERE "from" = 3) WHERE id = 3
a: UPDATE task SET owner = s."where (" FROM ("select" s JOIN "ON CONFLICT" o ON o.a = s."from" AND o."RETURNING $1" <> ') WHERE') WHERE s.n = 1 AND task.id = s."from"
a: WITH "select" AS (SELECT 9 AS id) DELETE FROM task USING "ON CONFLICT" o, "select" WHERE o.a = task.id AND task.id = "select".id
a: DELETE FROM task * USING LATERAL (SELECT "from" FROM "select" WHERE n = 0) x ("using") WHERE x."using" = task.id
a: UPDATE task SET hours = extract(year FROM DATE '2026-01-01') FROM "select" WHERE "select"."from" = task.id AND trim(both ' ' FROM ' x ') = 'x' AND task.id = 2
a: PREPARE u (text, int) AS UPDATE task k SET owner = $1 || '$2' || p."where (" FROM "select" p WHERE p."from" = k.id AND k.id = $2
a: EXECUTE u ('$1', 1)
a: EXECUTE u ('''', 2)
a: SELECT id, owner, hours FROM task ORDER BY 1
"#;

/// Rows of INSERT.
const ROWS: &str = r#"
a: INSERT INTO values (values, b) VALUES (11, 'VALUES ('), (12, ')'), (13, $$), ($$), (14, E'\''), (15, '$1'), /* (0, 'x'), */ (16, ('(')), (17, 'ON CONFLICT'), (18, 'a' 'b'), (19, CASE WHEN true THEN 'RETURNING' END), (20, NULL), (21, U&'\0041') RETURNING values, b AS "RETURNING b", '$1'
a: INSERT INTO values (values, b) VALUES (11, 'VALUES ('), (12, ')'), (13, $$), ($$), (14, E'\''), (15, '$1'), (16, ('(')), (17, 'ON CONFLICT'), (18, 'ab'), (19, ''), (20, NULL) ON CONFLICT (values) DO UPDATE SET b = 'VALUES (' || excluded.b || '$2' RETURNING values, b
a: INSERT INTO "ON CONFLICT" AS "VALUES" ("a", "RETURNING $1") VALUES (21, 'a'), (22, 'b'), (23, 'c'), (24, 'd'), (25, 'e'), (26, 'f'), (27, 'g'), (28, 'h'), (29, 'i') RETURNING "VALUES".*
a: INSERT INTO values VALUES (31, 'a'), (32, 'b'), (33, 'c'), (34, 'd'), (35, 'e'), (36, 'f'), (37, 'g'), (38, 'h'), (39, 'i'), (40, 'j') LIMIT 3
a: INSERT INTO values (SELECT 100 + "from", '(' || "where (" FROM "select" WHERE 'ON CONFLICT' <> 'RETURNING' AND "from" = 4) RETURNING (values)
a: INSERT INTO values WITH "returning" AS (SELECT 200 + a AS a, "RETURNING $1" FROM "ON CONFLICT") TABLE "returning" ON CONFLICT DO NOTHING
a: WITH "on" AS (SELECT 300 + a AS a, "RETURNING $1" AS r FROM "ON CONFLICT") INSERT INTO values AS "select" SELECT * FROM "on" WHERE a = 305 RETURNING "select".b
a: PREPARE i (int, text) AS INSERT INTO values SELECT $1 + "from", $2 || '$1' FROM "select" WHERE "from" < 3
a: EXECUTE i (500, '$2')
a: SELECT * FROM values ORDER BY 1
"#;

/// currval.
const CURRENT: &str = r#"
a: INSERT INTO item (name) VALUES ('of currval(''s'')')
a: SELECT name, 'currval(' AS "currval('item_id_seq')" FROM item WHERE id = currval( /* ) */ 'item_id_seq' )
a: SELECT name FROM item WHERE id = currval($$item_id_seq$$)
a: SELECT name FROM item WHERE id = currval($x$public.item_id_seq$x$::regclass)
a: SELECT name FROM item WHERE id = currval(E'item\x5fid_seq')
a: SELECT name FROM item WHERE id = currval((('item_id_seq')))
a: SELECT name FROM item WHERE id = currval(CAST('item_id_seq' AS regclass))
a: SELECT name FROM item WHERE id = "currval"('item_id_seq'::text::pg_catalog.regclass) AND $$currval('x')$$ <> ''
a: SELECT name FROM item WHERE id = "pg_catalog" . currval ('item_id_seq') -- currval('y')
a: SELECT nextval('"Own (''"') IS NOT NULL
a: SELECT count(*) FROM item WHERE 0 < currval('"Own (''"') AND lastval() /* lastval() */ = currval($$"Own ('"$$)
a: UPDATE item SET name = 'currval(''item_id_seq'') $1' WHERE id = currval('item_id_seq')
a: SELECT name FROM item WHERE id = currval('item_id_seq')
a: PREPARE c (text) AS SELECT name = $1 AS "$1", '$2' FROM item WHERE id = currval('item_id_seq') AND $1 <> '$1'
a: EXECUTE c ('x')
a: SELECT currval('item_id_seq', 1) + 1
a: SELECT 1 + currval('nobodys')
"#;

#[test]
fn rewritten_statements_do_what_they_do_on_postgresql() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let postgres = Postgres::start().unwrap();
        let again = "DROP TABLE IF EXISTS task, \"select\", values, \"ON CONFLICT\", item; DROP SEQUENCE IF EXISTS \"Own ('\"; ";
        let schema = format!("{again}{SCHEMA}");
        for (what, script) in [("WITH", WITH), ("FROM", JOINED), ("rows", ROWS), ("currval", CURRENT)] {
            let what = format!("{what}, {shards} shards");
            answers::check_alike(&weir.url(), &postgres.connection_string(), (&schema, script), &what);
        }
    }
}

/// An error is told where it stands in the text that the client has sent.
#[test]
fn errors_stand_where_they_stand_on_postgresql() {
    let (weir, postgres) = (Alone::start(3), Postgres::start().unwrap());
    let schema = format!("{SCHEMA}INSERT INTO item (name) VALUES ('a')");
    let errors = [
        "WITH d AS (DELETE FROM task RETURNING id) SELECT nothing FROM d",
        "WITH d AS (DELETE FROM task WHERE nothing = 1 RETURNING id) SELECT 1 FROM d",
        "SELECT name FROM item WHERE id = currval('item_id_seq') AND nothing",
    ];
    answers::check_errors_alike(&weir.url(), &postgres.connection_string(), &schema, &errors);
}

/// The library writes an alias `set` without quotes, which the grammar then takes for SET.
#[test]
fn what_cannot_be_written_is_refused() {
    let weir = Alone::start(1);
    let mut driver = weir.driver();
    driver.batch_execute(SCHEMA).unwrap();
    let sql = "WITH u AS (UPDATE task AS \"set\" SET owner = 'x' WHERE id = 1 RETURNING id) SELECT * FROM u";
    let error = driver.batch_execute(sql).unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("0A000"), "{error}");
    driver.batch_execute("UPDATE task AS \"set\" SET owner = 'x' WHERE id = 1").unwrap();
}
