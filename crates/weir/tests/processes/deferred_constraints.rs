//! Foreign keys that wait for the end of their transaction: the same statements in the same sessions say the same on Weir, on one shard
//! and on three, and on PostgreSQL.

use std::collections::BTreeMap;

use crate::alone::Alone;
use crate::answers::answer;
use crate::eventually::until_locked;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;

const SCHEMA: &str = "
CREATE TABLE parent (id integer PRIMARY KEY, n integer);
CREATE TABLE child (parent integer NOT NULL CONSTRAINT of_parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED, id integer NOT NULL,
    PRIMARY KEY (parent, id));
CREATE TABLE guest (parent integer NOT NULL, id integer NOT NULL, PRIMARY KEY (parent, id));
ALTER TABLE guest ADD CONSTRAINT guest_of FOREIGN KEY (parent) REFERENCES parent ON DELETE RESTRICT DEFERRABLE;
CREATE TABLE own (parent integer NOT NULL REFERENCES parent ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, id integer NOT NULL,
    PRIMARY KEY (parent, id));
CREATE TABLE strict (parent integer NOT NULL CONSTRAINT strict_of REFERENCES parent, id integer NOT NULL, PRIMARY KEY (parent, id));
INSERT INTO parent VALUES (1, 0), (2, 0), (3, 0);
";

/// Where rows live on several shards: a child with its parent.
const PLACES: &str = "
COMMENT ON TABLE parent IS 'weir: partition by (id)'; COMMENT ON TABLE child IS 'weir: partition by (parent)';
COMMENT ON TABLE guest IS 'weir: partition by (parent)'; COMMENT ON TABLE own IS 'weir: partition by (parent)';
COMMENT ON TABLE strict IS 'weir: partition by (parent)';
";

/// Lines `session: SQL`. On several shards a row cannot change its key, for that says where it lives.
const SCRIPT: &str = "
a: INSERT INTO child VALUES (9, 1)
a: BEGIN
a: INSERT INTO child VALUES (9, 1), (8, 1)
a: SELECT count(*) FROM child
a: INSERT INTO parent VALUES (9, 0)
a: COMMIT
a: SELECT count(*) FROM child
a: BEGIN
a: INSERT INTO child VALUES (9, 1)
a: INSERT INTO parent VALUES (9, 0)
a: COMMIT
a: SELECT * FROM child
a: BEGIN
a: DELETE FROM parent WHERE id = 9
a: COMMIT
a: SELECT count(*) FROM parent WHERE id = 9
a: BEGIN
a: DELETE FROM parent WHERE id = 9
a: INSERT INTO parent VALUES (9, 1)
a: COMMIT
a: SELECT * FROM parent WHERE id = 9
a: BEGIN
a: DELETE FROM parent WHERE id = 9
a: DELETE FROM child WHERE parent = 9
a: COMMIT
a: BEGIN
a: INSERT INTO child VALUES (7, 1)
a: DELETE FROM child WHERE parent = 7
a: COMMIT
a: BEGIN
a: INSERT INTO child VALUES (7, 1)
a: SAVEPOINT s
a: SET CONSTRAINTS ALL IMMEDIATE
a: ROLLBACK TO s
a: INSERT INTO parent VALUES (7, 0)
a: SET CONSTRAINTS ALL IMMEDIATE
a: INSERT INTO child VALUES (6, 1)
a: ROLLBACK
a: BEGIN
a: SET CONSTRAINTS of_parent IMMEDIATE
a: INSERT INTO child VALUES (6, 1)
a: ROLLBACK
a: BEGIN
a: INSERT INTO guest VALUES (6, 1)
a: ROLLBACK
a: BEGIN
a: SET CONSTRAINTS guest_of DEFERRED
a: INSERT INTO guest VALUES (6, 1)
a: SAVEPOINT s
a: SET CONSTRAINTS guest_of IMMEDIATE
a: ROLLBACK TO s
a: INSERT INTO parent VALUES (6, 0)
a: DELETE FROM parent WHERE id = 6
a: ROLLBACK
a: BEGIN
a: SET CONSTRAINTS ALL DEFERRED
a: INSERT INTO strict VALUES (6, 1)
a: ROLLBACK
a: SET CONSTRAINTS strict_of DEFERRED
a: SET CONSTRAINTS nobodys DEFERRED
a: SET CONSTRAINTS ALL DEFERRED
a: BEGIN
a: INSERT INTO own VALUES (5, 1)
a: INSERT INTO parent VALUES (5, 0)
a: COMMIT
a: DELETE FROM parent WHERE id = 5
a: SELECT count(*) FROM own
a: BEGIN
a: INSERT INTO child VALUES (2, 1)
b: DELETE FROM parent WHERE id = 2
a: COMMIT
a: SELECT count(*) FROM child WHERE parent = 2
b: BEGIN
b: INSERT INTO child VALUES (3, 1)
a: INSERT INTO child VALUES (3, 2)
a: DELETE FROM parent WHERE id = 3
b: ROLLBACK
a: DELETE FROM child WHERE parent = 3
a: DELETE FROM parent WHERE id = 3
a: BEGIN
a: SAVEPOINT s
a: INSERT INTO child VALUES (4, 1)
a: ROLLBACK TO s
a: COMMIT
a: BEGIN
a: SAVEPOINT s
a: INSERT INTO child VALUES (4, 1)
a: COMMIT
a: SELECT count(*) FROM child
a: BEGIN
a: UPDATE child SET id = 5 WHERE parent = 1
a: INSERT INTO child VALUES (1, 1)
a: UPDATE parent SET id = 11 WHERE id = 1
a: COMMIT
a: INSERT INTO child VALUES (12, 1); INSERT INTO parent VALUES (12, 0)
a: INSERT INTO child VALUES (13, 1); INSERT INTO parent VALUES (14, 0)
a: SELECT parent, id FROM child ORDER BY 1, 2
a: SELECT conname, condeferrable, condeferred, confdeltype, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY 1
a: SELECT constraint_name, is_deferrable, initially_deferred FROM information_schema.table_constraints WHERE constraint_type = 'FOREIGN KEY' ORDER BY 1
";

fn run(url: &str, without: &[&str]) -> Vec<String> {
    let mut sessions: BTreeMap<&str, Driver> = BTreeMap::new();
    let is_left_out = |line: &&str| without.iter().any(|one| line.contains(one));
    let lines = SCRIPT.lines().filter(|line| !line.is_empty() && !is_left_out(line));
    let one = |line: &'static str| {
        let (name, sql) = line.split_once(": ").unwrap();
        let session = sessions.entry(name).or_insert_with(|| Driver::connect(url, NoTls).unwrap());
        format!("{line} → {}", answer(session, sql))
    };
    lines.map(one).collect()
}

#[test]
fn what_is_deferred_is_checked_when_postgresql_checks_it() {
    for (shards, without) in [(1, &[][..]), (3, &["UPDATE parent SET id = 11"])] {
        let postgres = Postgres::start().unwrap();
        Driver::connect(&postgres.connection_string(), NoTls).unwrap().batch_execute(SCHEMA).unwrap();
        let expected = run(&postgres.connection_string(), without);
        let weir = Alone::start(shards);
        let mut driver = weir.driver();
        let (tables, rows) = SCHEMA.split_at(SCHEMA.find("INSERT").unwrap());
        // A key that says where rows live does so before others refer to it.
        let (parent, others) = tables.split_at(tables.find("CREATE TABLE child").unwrap());
        for text in [parent].into_iter().chain(others.split_inclusive(';')).chain([PLACES, rows]) {
            driver.batch_execute(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        let found = run(&weir.url(), without);
        assert_eq!(found.join("\n"), expected.join("\n"), "{shards} shards, PostgreSQL on the right");
    }
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let refused = |weir: &Alone, sql: &str| {
        let error = weir.driver().batch_execute(sql).unwrap_err();
        error.code().map(|code| code.code().to_owned()).unwrap_or_else(|| error.to_string())
    };
    let one = Alone::start(1);
    assert_eq!(refused(&one, "CREATE TABLE t (id integer PRIMARY KEY DEFERRABLE)"), "0A000");
    assert_eq!(
        refused(&one, "CREATE TABLE t (id integer, UNIQUE (id) DEFERRABLE INITIALLY DEFERRED)"),
        "0A000"
    );
    // The outstanding checks are of the schema that there was.
    let mut driver = one.driver();
    driver.batch_execute("CREATE TABLE p (id integer PRIMARY KEY); CREATE TABLE c (p integer REFERENCES p DEFERRABLE INITIALLY DEFERRED)").unwrap();
    driver.batch_execute("BEGIN; INSERT INTO c VALUES (1)").unwrap();
    let error = driver.batch_execute("ALTER TABLE c ADD COLUMN x integer").unwrap_err();
    assert_eq!(error.code().unwrap().code(), "55006");
    driver.batch_execute("ROLLBACK; BEGIN; INSERT INTO c VALUES (1); INSERT INTO p VALUES (1); SET CONSTRAINTS ALL IMMEDIATE; ALTER TABLE c ADD COLUMN x integer; COMMIT").unwrap();
    // The COMMIT waits for the session that deletes the parent.
    let mut other = one.driver();
    other.batch_execute("BEGIN; DELETE FROM c; DELETE FROM p WHERE id = 1").unwrap();
    driver.batch_execute("BEGIN; INSERT INTO c VALUES (1)").unwrap();
    let waits = std::thread::spawn(move || driver.batch_execute("COMMIT").unwrap_err().code().cloned());
    until_locked(&mut one.driver(), 1);
    other.batch_execute("COMMIT").unwrap();
    assert_eq!(waits.join().unwrap(), Some(postgres::error::SqlState::FOREIGN_KEY_VIOLATION));
}

/// COMMIT waits for the transaction that deletes the parent. Its client and its time-out cancel it; nothing of the
/// transaction has happened, and the session goes on.
#[test]
fn a_commit_that_waits_is_cancelled() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        weir.driver().batch_execute(&format!("{SCHEMA}{PLACES}")).unwrap();
        let mut other = weir.driver();
        other.batch_execute("BEGIN; DELETE FROM parent WHERE id = 1").unwrap();
        let insert = "INSERT INTO child VALUES (1, 1)";
        let begun = format!("BEGIN; {insert}");
        let timed = format!("SET statement_timeout = '1s'; {insert}, (2, 2)");
        // A text of several statements commits at its end.
        for (before, ends, is_timed) in [
            (begun.as_str(), "COMMIT", false),
            ("SELECT 1", &format!("{insert}; SELECT 2"), false),
            (&format!("SET statement_timeout = '1s'; {begun}"), "COMMIT", true),
            ("SELECT 1", &timed, true),
        ] {
            let mut driver = weir.driver();
            driver.batch_execute(before).unwrap();
            let cancel = driver.cancel_token();
            let ends = ends.to_owned();
            let ended = std::thread::spawn(move || {
                let failed = driver.batch_execute(&ends).unwrap_err();
                let said =
                    failed.as_db_error().map(|error| format!("{} {}", error.code().code(), error.message()));
                driver.batch_execute("SET statement_timeout = 0; SELECT 1").unwrap();
                said.unwrap_or_else(|| failed.to_string())
            });
            let expected = match is_timed {
                true => "57014 canceling statement due to statement timeout",
                false => {
                    until_locked(&mut weir.driver(), 1);
                    cancel.cancel_query(NoTls).unwrap();
                    "57014 canceling statement due to user request"
                }
            };
            assert_eq!(ended.join().unwrap(), expected, "{shards} shards: {before}");
        }
        other.batch_execute("ROLLBACK").unwrap();
        let count = weir.driver().query_one("SELECT count(*) FROM child", &[]).unwrap().get::<_, i64>(0);
        assert_eq!(count, 0, "{shards} shards");
    }
}
