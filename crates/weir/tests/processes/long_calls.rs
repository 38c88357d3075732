//! Calls and statements that write, or loop, for long hold up nobody, and lose nothing.

use crate::alone::Alone;
use crate::endless::{CANCEL, run, until_active};
use postgres::Client as Driver;
use postgres::error::SqlState;

/// A loop that ends when it is cancelled.
const LOOP: &str = "DO $$ DECLARE n bigint := 0; BEGIN LOOP n := n + 1; EXIT WHEN n < 0; END LOOP; END $$";
/// A loop that reads and has written a row.
const WRITING_LOOP: &str = "DO $$ DECLARE n bigint := 0; BEGIN UPDATE log SET n = log.n + 1 WHERE id = 1; \
     LOOP n := n + (SELECT count(*) FROM t WHERE a < 100); EXIT WHEN n < 0; END LOOP; END $$";
const ROWS: i64 = 40_000;

fn start() -> Alone {
    let server = Alone::start(1);
    let mut driver = server.driver();
    driver
        .batch_execute(
            "CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL DEFAULT 0, c int UNIQUE);
             CREATE TABLE log (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
             CREATE TABLE note (what text);
             INSERT INTO log SELECT g FROM generate_series(1, 10) g;",
        )
        .unwrap();
    driver.batch_execute("INSERT INTO t SELECT g, 0, g FROM generate_series(1, 40000) g").unwrap();
    server
}

fn number(driver: &mut Driver, text: &str) -> i64 {
    driver.query_one(text, &[]).unwrap().get(0)
}

/// Others read, write, commit and connect while a loop runs on their shard.
fn others_work_beside(text: &'static str) {
    let server = start();
    let mut other = server.driver();
    let endless = run(&server, text);
    until_active(&mut other, text);
    for round in 1..=20 {
        other.execute("UPDATE t SET b = b + 1 WHERE a = 4", &[]).unwrap();
        assert_eq!(number(&mut server.driver(), "SELECT sum(b) FROM t"), round);
    }
    other.batch_execute("BEGIN; INSERT INTO t VALUES (-1, 5); DELETE FROM t WHERE a = 9; COMMIT").unwrap();
    other.batch_execute("INSERT INTO note VALUES ('there')").unwrap();
    other.batch_execute(CANCEL).unwrap();
    assert_eq!(endless.join().unwrap(), Some(SqlState::QUERY_CANCELED));
    assert_eq!(number(&mut other, "SELECT sum(n)::bigint FROM log"), 0, "what is cancelled leaves nothing");
    other.batch_execute("UPDATE log SET n = 7 WHERE id = 1").unwrap();
    assert_eq!(number(&mut other, "SELECT sum(b) FROM t"), 25);
}

#[test]
fn others_work_beside_a_loop() {
    others_work_beside(LOOP);
}

#[test]
fn others_work_beside_a_loop_that_writes() {
    others_work_beside(WRITING_LOOP);
}

/// A writer of the same table waits for the statement; it does so of other rows, too, but reads do not.
#[test]
fn a_writer_of_the_table_waits_for_a_long_statement() {
    let server = start();
    let (mut own, mut other) = (server.driver(), server.driver());
    own.batch_execute("BEGIN; UPDATE t SET b = b + 1").unwrap();
    assert_eq!(number(&mut other, "SELECT sum(b) FROM t"), 0, "uncommitted");
    assert_eq!(number(&mut own, "SELECT sum(b) FROM t"), ROWS);
    other.batch_execute("SET lock_timeout = '50ms'").unwrap();
    let refused = other.batch_execute("UPDATE t SET b = 100 WHERE a = 1").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE));
    own.batch_execute("SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; COMMIT").unwrap();
    other.batch_execute("UPDATE t SET b = 100 WHERE a = 1").unwrap();
    assert_eq!(number(&mut other, "SELECT sum(b) FROM t"), ROWS + 99);
}

/// Statements on the whole table, on single rows, in transactions and in procedures, at once: every increment is there afterwards.
#[test]
fn no_increment_is_lost() {
    let server = start();
    let mut driver = server.driver();
    driver
        .batch_execute(
            "CREATE PROCEDURE more() LANGUAGE plpgsql AS $$ DECLARE r record; BEGIN \
             FOR r IN SELECT a FROM t WHERE a <= 20000 LOOP UPDATE t SET b = b + 1 WHERE a = r.a; END LOOP; \
             UPDATE log SET n = n + 20000 WHERE id = 1; END $$",
        )
        .unwrap();
    const ROUNDS: i64 = 4;
    let session = |texts: &'static [&'static str], rounds: i64| {
        let mut driver = server.driver();
        std::thread::spawn(move || {
            for _ in 0..rounds {
                texts.iter().for_each(|text| driver.batch_execute(text).unwrap());
            }
        })
    };
    let threads = [
        session(&["UPDATE t SET b = b + 1"], ROUNDS),
        session(&["BEGIN", "UPDATE t SET b = b + 1 WHERE a > 10000", "COMMIT"], ROUNDS),
        session(&["CALL more()"], ROUNDS),
        session(&["UPDATE t SET b = b + 1 WHERE a = 77"], 400),
        session(&["INSERT INTO note SELECT 'row' FROM t"], ROUNDS),
    ];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let all = ROUNDS * (ROWS + (ROWS - 10_000) + 20_000) + 400;
    assert_eq!(number(&mut driver, "SELECT sum(b) FROM t"), all);
    assert_eq!(number(&mut driver, "SELECT n FROM log WHERE id = 1"), ROUNDS * 20_000);
    assert_eq!(number(&mut driver, "SELECT count(*) FROM note"), ROUNDS * ROWS);
    assert_eq!(number(&mut driver, "SELECT count(*) FROM t x JOIN t y ON x.c = y.a"), ROWS);
}

/// Long statements keep constraints, and a violation leaves nothing.
#[test]
fn a_long_statement_keeps_constraints() {
    let server = start();
    let mut driver = server.driver();
    let clash =
        driver.batch_execute("INSERT INTO t SELECT a + 100000, 0, 200000 - a % 39999 FROM t").unwrap_err();
    assert_eq!(clash.code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert_eq!(number(&mut driver, "SELECT count(*) FROM t"), ROWS);
    driver.batch_execute("INSERT INTO t SELECT a + 100000, 0, c + 100000 FROM t").unwrap();
    driver.batch_execute("UPDATE t SET a = -a WHERE a > 0").unwrap();
    assert_eq!(number(&mut driver, "SELECT count(*) FROM t WHERE a < 0"), 2 * ROWS);
    driver
        .batch_execute(
            "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES t ON DELETE CASCADE);
             CREATE INDEX ON child (parent);
             INSERT INTO child SELECT -a, a FROM t;
             DELETE FROM t WHERE a < -100000;",
        )
        .unwrap();
    assert_eq!(number(&mut driver, "SELECT count(*) FROM child"), ROWS);
}
