//! Statements within others: what PREPARE, DECLARE, COPY, EXPLAIN, CREATE TABLE AS and DO are about. However they are written, with words,
//! strings and comments that look like the ends of what is around them, they do what they do on PostgreSQL.

use std::io::Read;

use crate::alone::Alone;
use crate::answers;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = r#"
DROP TABLE IF EXISTS t, "as", "for", "with", "into", "(", made, "Made AS";
CREATE TABLE t (a integer PRIMARY KEY, "as" text, "for" integer);
CREATE TABLE "as" ("as" integer PRIMARY KEY, data text);
INSERT INTO t SELECT i, 'as ' || i, i % 3 FROM generate_series(1, 9) i;
INSERT INTO "as" VALUES (1, 'with data'), (2, '); SELECT');
"#;

const SCRIPT: &str = r#"
a: PREPARE "as" (int, text) /* AS SELECT 0 */ AS SELECT a AS "AS", ' as ' || $2 AS "as", $$ AS $1; $$ FROM t AS "as" WHERE "as".a = $1 ORDER BY 1; SELECT 'behind'
a: EXECUTE "as" /* ( */ (2, ')')
a: execute "as" ((length('as')), $x$,$$,$x$); EXECUTE "as" (3, E'\')' || ',' /* , */)
a: EXECUTE "as" (1)
a: EXECUTE "as" (1, nothing)
a: Prepare P aS(SELECT 1 "for") UNION ALL VALUES (2)
a: EXECUTE p
a: EXECUTE p ()
a: PREPARE i (int) AS INSERT INTO "as" AS "values" VALUES ($1, 'AS (' || $$'$$) RETURNING "values".*, 'AS'
a: EXECUTE i (10); EXECUTE i (20)
a: PREPARE u AS UPDATE t SET "as" = CASE WHEN "as" LIKE 'as%' THEN $1 END WHERE a = $2
a: EXECUTE u ('; --', 4)
a: PREPARE d AS WITH "as" AS (SELECT 5 AS "as") DELETE FROM t USING "as" WHERE t.a = "as"."as" RETURNING t.*
a: EXECUTE d
a: PREPARE s AS SELECT count(*) FROM pg_class WHERE relname = 'as' AND relkind = 'r'
a: EXECUTE s
a: PREPARE w AS SELECT nothing AS "as" FROM t
a: SELECT 1; PREPARE w AS SELECT a FROM nowhere
a: PREPARE w AS SELECT 1 WHERE a = 'é' AND nothing
a: BEGIN
a: DECLARE "for" /* FOR SELECT 0 */ SCROLL CURSOR FOR SELECT "for", ' FOR ' || "as" FROM t AS "for" WHERE a < 4 ORDER BY a /* ; FOR UPDATE */
a: FETCH ALL FROM "for"; FETCH PRIOR FROM "for"
a: declare C no scroll cursor without hold for select 'for update', a FROM t WHERE a = 1
a: FETCH C; CLOSE c
a: DECLARE e CURSOR FOR VALUES ($$;$$), (';')
a: FETCH 3 FROM e
a: COMMIT
a: DECLARE h CURSOR WITH HOLD FOR (SELECT "as" AS "with hold for" FROM "as" ORDER BY 1 LIMIT 1)
a: FETCH h; CLOSE ALL
a: CREATE TABLE "Made AS" ("AS", b) WITH (fillfactor = 70) AS SELECT a, 'AS SELECT; ' || "as" FROM t WHERE a < 3 -- WITH NO DATA
a: SELECT * FROM "Made AS" ORDER BY 1; DROP TABLE "Made AS"
a: create table made as (select 'with no data' "with", 1 as "no", 2 data) WITH DATA; SELECT * FROM made; DROP TABLE made
a: CREATE TABLE IF NOT EXISTS made AS WITH "with" AS (SELECT 1 AS data) SELECT * FROM "with" WITH NO DATA
a: SELECT * FROM made; CREATE TABLE IF NOT EXISTS made AS SELECT 2; DROP TABLE made
a: CREATE TABLE made AS TABLE "as" /* WITH NO DATA */; SELECT * FROM made ORDER BY 1; DROP TABLE made
a: CREATE TABLE made AS SELECT nothing FROM t
a: SELECT ' INTO ' AS "into", a /* INTO x */ INTO TABLE "into" FROM t WHERE "as" <> $$INTO y$$ AND a < 3
a: SELECT * FROM "into" ORDER BY 2; SELECT 1 AS a INTO public."(" ; SELECT * FROM "("; DROP TABLE "into", "("
a: DO $$ BEGIN EXECUTE 'CREATE TABLE made (a text)'; INSERT INTO made VALUES ('; END'), ($x$ -- $x$); END $$; SELECT * FROM made ORDER BY 1
a: DO LANGUAGE plpgsql 'BEGIN /* ; */ DROP TABLE made; END'
a: do $body$ begin if exists (select 1 from t where "as" = 'BEGIN; THEN') then raise notice 'no'; else raise notice '% %%', 'then;' || $q$;$q$; end if; end $body$
a: SELECT pg_try_advisory_lock(/* ) */ 7), pg_advisory_unlock((7)) AS "AS"; SELECT set_config('application_name', ')' || ',', false) AS "FROM x"
a: SELECT a, set_config('application_name', "as" || ',(', false) FROM t WHERE a < 3 AND 'FROM' <> '(' ORDER BY a DESC
a: DEALLOCATE ALL
"#;

#[test]
fn inner_statements_do_what_they_do_on_postgresql() {
    let postgres = Postgres::start().unwrap();
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let what = format!("{shards} shards");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (SCHEMA, SCRIPT), &what);
    }
}

#[test]
fn copied_queries_are_those_of_postgresql() {
    let (weir, postgres) = (Alone::start(3), Postgres::start().unwrap());
    let [own, expected] = [weir.url(), postgres.connection_string()].map(|url| {
        let mut driver = Driver::connect(&url, NoTls).unwrap();
        driver.batch_execute(SCHEMA).unwrap();
        let texts = [
            r#"COPY (SELECT a, ') TO STDOUT' || "as" FROM t WHERE a < 3 ORDER BY (a)) TO STDOUT"#,
            r#"COPY /* (SELECT 0) */ ((SELECT $$($$ AS "(") UNION ALL (VALUES (E'\')'))) TO STDOUT (FORMAT csv, NULL ')', HEADER)"#,
            r#"copy (INSERT INTO "as" VALUES (7, '('), (8, ')') RETURNING data) TO stdout"#,
            r#"COPY (WITH x AS (SELECT 1 AS "TO") SELECT "TO", nullif(1, 1) FROM x -- ) TO STDOUT
            ) TO STDOUT WITH (NULL 'TO STDOUT')"#,
        ];
        texts.map(|text| {
            let mut copied = String::new();
            driver.copy_out(text).unwrap().read_to_string(&mut copied).unwrap();
            format!("{text}: {copied}")
        })
    });
    assert_eq!(own, expected, "PostgreSQL on the right");
}

/// An error is told where it stands in the text that the client has sent.
#[test]
fn errors_stand_where_they_stand_on_postgresql() {
    let (weir, postgres) = (Alone::start(3), Postgres::start().unwrap());
    let schema = format!("{SCHEMA}PREPARE p (int) AS SELECT $1");
    let errors = [
        "PREPARE q AS SELECT 'é' AS \"as\", nothing FROM t",
        "/* é */ PREPARE q AS SELECT 1 FROM nowhere",
        "SELECT 1; PREPARE q (int) AS SELECT $1 || nothing()",
        "PREPARE q AS SELECT count(*) FROM pg_class WHERE nothing = 1",
        "DECLARE c CURSOR WITH HOLD FOR SELECT a FROM t WHERE nothing",
        "COPY (SELECT a, nothing FROM t) TO STDOUT",
        "EXPLAIN SELECT nothing FROM t",
        "EXPLAIN (COSTS off) INSERT INTO t (nothing) VALUES (1)",
        "CREATE TABLE made (x) AS SELECT 'AS', nothing FROM t",
        "SELECT nothing INTO made FROM t",
        "EXECUTE p ( /* é */ nothing)",
        "EXPLAIN (nothing) SELECT 1",
    ];
    answers::check_errors_alike(&weir.url(), &postgres.connection_string(), &schema, &errors);
}

/// A sum of many terms is a tree of many levels: it is written as a text, or refused.
#[test]
fn deep_statements_are_prepared_or_refused() {
    let weir = Alone::start(1);
    let mut driver = weir.driver();
    let sum = |terms: usize| format!("PREPARE p AS SELECT 0{}", " + 1".repeat(terms));
    driver.batch_execute(&sum(300)).unwrap();
    assert_eq!(answers::answer(&mut driver, "EXECUTE p"), "300 (1)");
    let refused = driver.batch_execute(&sum(600).replace(" p ", " q ")).unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("54001"));
}
