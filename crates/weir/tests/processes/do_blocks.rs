//! DO blocks say and do what they do on PostgreSQL, on one shard and on three.

use crate::answers;

use crate::alone::Alone;
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = "
CREATE TABLE t (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
CREATE FUNCTION two() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RETURN 2; END $$;
CREATE PROCEDURE put(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t (id) VALUES (a); END $$;
";

/// As migration tools and people write them.
const SCRIPT: &str = "
a: DO $$ BEGIN CREATE TYPE mood AS ENUM ('sad', 'happy'); EXCEPTION WHEN duplicate_object THEN null; END $$
a: DO $$ BEGIN CREATE TYPE mood AS ENUM ('sad', 'happy'); EXCEPTION WHEN duplicate_object THEN null; END $$
a: DO $$ BEGIN CREATE TYPE mood AS ENUM ('sad'); EXCEPTION WHEN division_by_zero THEN null; END $$
a: DO 'BEGIN IF NOT EXISTS (SELECT 1 FROM pg_type WHERE typname = $q$colour$q$) THEN CREATE TYPE colour AS ENUM ($q$red$q$); END IF; END'
a: DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_type WHERE typname = 'colour') THEN CREATE TYPE colour AS ENUM ('red'); END IF; END $$
a: SELECT typname FROM pg_type WHERE typname IN ('mood', 'colour') ORDER BY 1
a: DO $$ BEGIN IF NOT EXISTS (SELECT FROM information_schema.columns WHERE table_name = 't' AND column_name = 'more') THEN ALTER TABLE t ADD COLUMN more text; ELSE RAISE NOTICE 'it is there: %', 7; END IF; END $$
a: DO $$ BEGIN IF NOT EXISTS (SELECT FROM information_schema.columns WHERE table_name = 't' AND column_name = 'more') THEN ALTER TABLE t ADD COLUMN more text; ELSE RAISE NOTICE 'it is there: % of 100%%', 7; END IF; END $$
a: DO $$ BEGIN ALTER TABLE t ADD CONSTRAINT small CHECK (n < 100); EXCEPTION WHEN duplicate_object THEN NULL; END $$
a: DO $$ BEGIN ALTER TABLE t ADD CONSTRAINT small CHECK (n < 100); EXCEPTION WHEN duplicate_object THEN NULL; END $$
a: DO $$ BEGIN ALTER TABLE t ADD COLUMN more text; EXCEPTION WHEN duplicate_column THEN RAISE NOTICE 'again'; WHEN others THEN RAISE WARNING 'other'; END $$
a: DO $$ BEGIN INSERT INTO t (id) VALUES (1); INSERT INTO t (id) VALUES (2), (3); END $$
a: DO $$ BEGIN INSERT INTO t (id) VALUES (4); INSERT INTO t (id) VALUES (1); END $$
a: DO $$ BEGIN INSERT INTO t (id) VALUES (4); INSERT INTO t (id) VALUES (1); EXCEPTION WHEN unique_violation THEN INSERT INTO t (id) VALUES (5); END $$
a: SELECT id FROM t ORDER BY id
a: DO $$ BEGIN IF EXISTS (SELECT 1 FROM t WHERE id = 5) THEN UPDATE t SET n = 5 WHERE id = 5; ELSIF true THEN DELETE FROM t; END IF; RETURN; DELETE FROM t; END $$
a: SELECT id, n FROM t WHERE n > 0
a: DO LANGUAGE plpgsql $$ DECLARE i integer; BEGIN FOR i IN 10..14 LOOP INSERT INTO t (id, n) VALUES (i, i * 2); END LOOP; END $$
a: SELECT id, n FROM t WHERE id >= 10 ORDER BY 1
a: DO $$ DECLARE many bigint; BEGIN SELECT count(*) INTO many FROM t WHERE id = 10; IF many = 1 THEN UPDATE t SET n = n + 1 WHERE id = 10; END IF; END $$
a: SELECT n FROM t WHERE id = 10
a: DO $$ DECLARE x integer := 3; BEGIN IF x > 2 THEN RAISE EXCEPTION 'x is %', x USING ERRCODE = '22023'; END IF; END $$
a: DO $$ BEGIN RAISE EXCEPTION 'no'; END $$
a: DO $$ BEGIN SELECT 1; END $$
a: DO $$ BEGIN PERFORM two(); PERFORM 1 FROM t; CALL put(20); EXECUTE 'INSERT INTO t (id) VALUES (' || 21 || ')'; EXECUTE format('CREATE TABLE %I (a integer PRIMARY KEY)', 'made'); END $$
a: SELECT id FROM t WHERE id >= 20 ORDER BY 1
a: SELECT count(*) FROM made
a: DO $$ BEGIN EXECUTE NULL; END $$
a: DO $$ BEGIN CREATE TABLE other (a integer PRIMARY KEY); PERFORM 1 / 0; END $$
a: SELECT * FROM other
a: BEGIN
a: DO $$ BEGIN CREATE TABLE other (a integer PRIMARY KEY); INSERT INTO other VALUES (1); END $$
a: SELECT * FROM other
a: SAVEPOINT s
a: DO $$ BEGIN INSERT INTO other VALUES (2); BEGIN INSERT INTO other VALUES (1); EXCEPTION WHEN integrity_constraint_violation THEN RAISE NOTICE 'caught'; END; END $$
a: SELECT * FROM other ORDER BY 1
a: ROLLBACK TO s
a: SELECT * FROM other
a: ROLLBACK
a: SELECT * FROM other
a: DO $$ BEGIN NULL; END
a: DO $$ BEGIN PERFORM nobodys(); END $$
";

#[test]
fn blocks_do_what_they_do_on_postgresql() {
    // Whose rows a loop writes only the loop knows: several shards do not run it.
    let of_several = |line: &&str| !["10..14", "id = 10", "id >= 10"].iter().any(|one| line.contains(one));
    let script: String = SCRIPT.lines().filter(of_several).flat_map(|line| [line, "\n"]).collect();
    for (shards, script) in [(1, SCRIPT), (3, &script)] {
        let (weir, postgres) = (Alone::start(shards), Postgres::start().unwrap());
        let what = format!("{shards} shards");
        answers::check_alike(&weir.url(), &postgres.connection_string(), (SCHEMA, script), &what);
    }
}

#[test]
fn what_neither_a_session_nor_a_shard_does_is_refused_by_name() {
    let weir = Alone::start(1);
    let mut driver = weir.driver();
    driver.batch_execute(SCHEMA).unwrap();
    let mut refused = |sql: &str| {
        let error = driver.batch_execute(sql).unwrap_err();
        let told = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
        format!("{} {}", told.code().code(), told.message())
    };
    let both = "DO $$ DECLARE i integer; BEGIN FOR i IN 1..2 LOOP EXECUTE 'SELECT 1'; END LOOP; END $$";
    assert!(
        refused(both).starts_with("0A000 a definition, EXECUTE, PERFORM, CALL or EXCEPTION in a DO block")
    );
    assert_eq!(refused("DO $$ BEGIN COMMIT; END $$"), "0A000 COMMIT inside a procedure is not supported");
    assert_eq!(refused("DO LANGUAGE plperl 'x'"), "0A000 LANGUAGE plperl is not supported");
}
