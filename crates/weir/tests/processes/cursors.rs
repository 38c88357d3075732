//! Cursors, and portals that are run for a number of rows, of results that are larger than memory is meant for them: their query waits
//! between two FETCHes, and gives the rows of the moment at which it began.

use crate::alone::Alone;
use crate::endless::until_active;
use crate::eventually::until;
use crate::processes::streams::{ALL, ROWS, begin, rest, start};
use crate::wire::{Wire, bind, execute, flush, parse, sync};
use postgres::error::SqlState;
use postgres::{Client as Driver, Row, SimpleQueryMessage};
use std::net::SocketAddr;

/// Number of statements that run beside the steps of their shards.
fn workers(server: &Alone) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap().flatten();
    let is_worker = |name: String| name.trim() == "worker";
    tasks.filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(is_worker)).count()
}

fn until_none_runs(server: &Alone, why: &str) {
    until(why, || workers(server) == 0);
}

/// The first column of the rows.
fn numbers(driver: &mut Driver, text: &str) -> Vec<i64> {
    let said = driver.simple_query(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let number = |one: &SimpleQueryMessage| match one {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().parse().unwrap()),
        _ => None,
    };
    said.iter().filter_map(number).collect()
}

fn state(driver: &mut Driver, text: &str) -> SqlState {
    driver.batch_execute(text).unwrap_err().code().unwrap().clone()
}

/// Number of rows, and the sums of their first two columns.
#[derive(Debug, Default, PartialEq)]
struct Sums(i64, i64, i64);

impl Sums {
    fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let (a, b) = (row.get::<_, i32>(0), row.get::<_, i32>(1));
            (self.0, self.1, self.2) = (self.0 + 1, self.1 + i64::from(a), self.2 + i64::from(b));
        }
    }
}

/// As a driver does it whose fetch size is set. Neither the changes of others nor those of its own transaction since are seen.
#[test]
fn a_portal_gives_some_rows_at_a_time() {
    [1, 3].into_iter().for_each(one_gives_some_rows_at_a_time);
}

fn one_gives_some_rows_at_a_time(shards: u16) {
    let server = start(shards);
    let (mut reader, mut other) = (server.driver(), server.driver());
    // What the query itself needs is taken.
    rest(begin(&mut server.driver(), ALL)).unwrap();
    let before = server.resident_bytes();
    let mut transaction = reader.transaction().unwrap();
    transaction.execute("UPDATE t SET b = 5 WHERE a <= 10", &[]).unwrap();
    let portal = transaction.bind(ALL, &[]).unwrap();
    let mut sums = Sums::default();
    sums.add(&transaction.query_portal(&portal, 100).unwrap());
    assert_eq!(sums.0, 100);
    assert!(workers(&server) > 0, "the query waits");
    other.batch_execute("UPDATE t SET b = b + 1 WHERE a % 50000 = 70").unwrap();
    other.batch_execute("DELETE FROM t WHERE a > 299000").unwrap();
    transaction.execute("UPDATE t SET b = 1000 WHERE a <= 5", &[]).unwrap();
    transaction.execute("DELETE FROM t WHERE a BETWEEN 6 AND 8", &[]).unwrap();
    transaction.execute("INSERT INTO t SELECT -g, g FROM generate_series(1, 100) g", &[]).unwrap();
    let mut rounds = 0;
    loop {
        let rows = transaction.query_portal(&portal, 5_000).unwrap();
        sums.add(&rows);
        rounds += 1;
        if rounds == 30 {
            let grown = server.resident_bytes().saturating_sub(before) >> 20;
            assert!(grown < 64, "the server has grown by {grown} MiB");
        }
        if rows.len() < 5_000 {
            break;
        }
    }
    assert_eq!(
        sums,
        Sums(ROWS, ROWS * (ROWS + 1) / 2, 50),
        "all rows of the moment, each once, as they were"
    );
    assert!(transaction.query_portal(&portal, 5).unwrap().is_empty());
    let now: i64 = transaction.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
    assert_eq!(now, ROWS - 1_000 - 3 + 100);
    let next = transaction.bind(ALL, &[]).unwrap();
    assert_eq!(transaction.query_portal(&next, 7).unwrap().len(), 7);
    assert_eq!(transaction.query_portal(&next, 0).unwrap().len() as i64, now - 7, "the rest at once");
    let left = transaction.bind(ALL, &[]).unwrap();
    assert_eq!(transaction.query_portal(&left, 7).unwrap().len(), 7);
    transaction.commit().unwrap();
    until_none_runs(&server, "a portal ends with its transaction");
    let committed = other.query_one("SELECT sum(b) FROM t WHERE a <= 5 AND a > 0", &[]).unwrap();
    assert_eq!(committed.get::<_, i64>(0), 5_000);
}

#[test]
fn a_cursor_goes_forward_through_the_rows_of_its_moment() {
    [1, 3].into_iter().for_each(one_goes_forward_through_the_rows_of_its_moment);
}

fn one_goes_forward_through_the_rows_of_its_moment(shards: u16) {
    let server = start(shards);
    let mut driver = server.driver();
    driver.batch_execute("BEGIN; INSERT INTO t VALUES (-1)").unwrap();
    driver.batch_execute("DECLARE c CURSOR FOR SELECT a, b, c FROM t ORDER BY a").unwrap();
    assert_eq!(numbers(&mut driver, "FETCH 3 FROM c"), [-1, 1, 2]);
    driver.batch_execute("SAVEPOINT s; DELETE FROM t WHERE a IN (3, -1); INSERT INTO t VALUES (0)").unwrap();
    driver.batch_execute("DECLARE d CURSOR FOR SELECT a, b, c FROM t ORDER BY a").unwrap();
    assert_eq!(numbers(&mut driver, "FETCH 3 FROM d"), [0, 1, 2]);
    driver.batch_execute("ROLLBACK TO s").unwrap();
    assert_eq!(numbers(&mut driver, "FETCH 2 FROM c"), [3, 4]);
    assert_eq!(
        state(&mut driver, "FETCH d"),
        SqlState::INVALID_CURSOR_NAME,
        "it was made behind the savepoint"
    );
    assert_eq!(state(&mut driver, "FETCH c"), SqlState::IN_FAILED_SQL_TRANSACTION);
    driver.batch_execute("ROLLBACK TO s; SAVEPOINT r").unwrap();
    assert_eq!(numbers(&mut driver, "FETCH c"), [5], "the error was behind the savepoint");
    driver.batch_execute("RELEASE r; MOVE 10 IN c").unwrap();
    assert_eq!(numbers(&mut driver, "FETCH NEXT FROM c"), [16]);
    assert_eq!(numbers(&mut driver, "FETCH ABSOLUTE 1000 FROM c"), [999]);
    assert_eq!(numbers(&mut driver, "FETCH RELATIVE 5 FROM c"), [1_004]);
    driver.batch_execute("DELETE FROM t WHERE a BETWEEN 1010 AND 3000").unwrap();
    let all = numbers(&mut driver, "FETCH ALL FROM c");
    assert_eq!((all.first(), all.last(), all.len() as i64), (Some(&1_005), Some(&ROWS), ROWS - 1_004));
    assert_eq!(numbers(&mut driver, "FETCH c"), [0_i64; 0]);
    assert_eq!(state(&mut driver, "FETCH PRIOR FROM c"), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    driver.batch_execute("ROLLBACK").unwrap();
    driver
        .batch_execute("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT a FROM t WHERE a <= 50000 ORDER BY a")
        .unwrap();
    assert_eq!(
        numbers(&mut driver, "FETCH LAST FROM c; FETCH PRIOR FROM c; FETCH FIRST FROM c"),
        [50_000, 49_999, 1]
    );
    driver.batch_execute("COMMIT").unwrap();
    until_none_runs(&server, "cursors end with their transaction");
}

#[test]
fn a_cursor_with_hold_keeps_its_rows_behind_its_transaction() {
    let server = start(3);
    let mut driver = server.driver();
    driver.batch_execute("BEGIN; DELETE FROM t WHERE a = 7").unwrap();
    driver.batch_execute("DECLARE h CURSOR WITH HOLD FOR SELECT a, b, c FROM t WHERE a <= 60000").unwrap();
    driver.batch_execute("DECLARE c CURSOR FOR SELECT a, b, c FROM t").unwrap();
    let mut seen = numbers(&mut driver, "FETCH 10 FROM h");
    driver.batch_execute("INSERT INTO t VALUES (7); COMMIT").unwrap();
    until_none_runs(&server, "the rows of one are kept, and the other one is gone");
    assert_eq!(state(&mut driver, "FETCH c"), SqlState::INVALID_CURSOR_NAME);
    driver.batch_execute("DELETE FROM t WHERE a > 5000; ALTER TABLE t DROP COLUMN c").unwrap();
    seen.extend(numbers(&mut driver, "FETCH 1 FROM h"));
    seen.extend(numbers(&mut driver, "FETCH ALL FROM h"));
    seen.sort_unstable();
    assert_eq!(seen, (1..=60_000).filter(|a| *a != 7).collect::<Vec<_>>());
    driver.batch_execute("CLOSE h").unwrap();
}

#[test]
fn what_ends_a_cursor_ends_its_query() {
    let server = start(3);
    let (mut driver, mut other) = (server.driver(), server.driver());
    let opened = |driver: &mut Driver| {
        driver.batch_execute("BEGIN").unwrap();
        driver.batch_execute("DECLARE c CURSOR FOR SELECT a, b, c FROM t").unwrap();
        assert_eq!(numbers(driver, "FETCH 10 FROM c").len(), 10);
        assert!(workers(&server) > 0);
    };
    for (end, why) in [("CLOSE c", "CLOSE"), ("ROLLBACK", "ROLLBACK"), ("COMMIT", "COMMIT")] {
        opened(&mut driver);
        driver.batch_execute(end).unwrap();
        until_none_runs(&server, why);
        driver.batch_execute("ROLLBACK").unwrap();
    }
    opened(&mut driver);
    assert_eq!(state(&mut driver, "SELECT 1/0"), SqlState::DIVISION_BY_ZERO);
    until_none_runs(&server, "an error of its transaction");
    driver.batch_execute("ROLLBACK").unwrap();
    let mut leaver = server.driver();
    opened(&mut leaver);
    drop(leaver);
    until_none_runs(&server, "its client is gone");
    let mut sleeper = server.driver();
    sleeper.batch_execute("SET idle_in_transaction_session_timeout = '300ms'").unwrap();
    opened(&mut sleeper);
    until_none_runs(&server, "its session is idle for too long");
    drop(sleeper);
    let mut ended = server.driver();
    opened(&mut ended);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    other.batch_execute(end).unwrap();
    until_none_runs(&server, "its session is ended");
    opened(&mut driver);
    other.batch_execute("ALTER TABLE one ADD COLUMN d int").unwrap();
    assert_eq!(state(&mut driver, "FETCH ALL FROM c"), SqlState::T_R_SERIALIZATION_FAILURE);
    driver.batch_execute("ROLLBACK").unwrap();
    until_none_runs(&server, "the schema has changed");
    assert_eq!(rest(begin(&mut driver, ALL)).unwrap().0, ROWS, "the session goes on");
}

/// As node-postgres' pg-cursor does it, without a transaction: the portal is there until Sync.
#[test]
fn a_portal_outside_of_a_transaction_waits_until_sync() {
    let server = start(3);
    let mut wire = Wire::tcp(SocketAddr::from(([127, 0, 0, 1], server.port())), "postgres", "weir");
    let mut suspended = |messages: &[Vec<u8>]| {
        wire.send(messages);
        let mut rows = 0;
        loop {
            let heard = wire.hear_one();
            match heard.as_bytes()[0] {
                b'D' => rows += 1,
                b's' => return rows,
                b'1' | b'2' => {}
                _ => panic!("{heard}"),
            }
        }
    };
    let begun = [parse("", ALL, &[]), bind("", "", &[]), execute("", 10), flush()];
    assert_eq!(suspended(&begun), 10);
    assert_eq!(suspended(&[execute("", 20_000), flush()]), 20_000);
    assert!(workers(&server) > 0, "the query waits");
    wire.send(&[sync()]);
    assert!(wire.hear_one().starts_with("Z "));
    until_none_runs(&server, "its portal is gone");
}

/// The time-out of a statement is that of each FETCH, and a cancel request meets the FETCH that waits.
#[test]
fn a_fetch_that_waits_can_be_ended() {
    let server = start(1);
    let (mut driver, mut other) = (server.driver(), server.driver());
    const SLOW: &str = "DECLARE c CURSOR FOR SELECT count(*)::int, 1 FROM t x, t y WHERE x.a + y.a = -1";
    driver.batch_execute("SET statement_timeout = '400ms'; BEGIN").unwrap();
    driver.batch_execute("DECLARE c CURSOR FOR SELECT a, b, c FROM t").unwrap();
    for _ in 0..3 {
        // Time passes that is none of the FETCH's.
        other.batch_execute("SELECT pg_sleep(0.3)").unwrap();
        assert_eq!(numbers(&mut driver, "FETCH 10 FROM c").len(), 10);
    }
    driver.batch_execute("CLOSE c").unwrap();
    driver.batch_execute(SLOW).unwrap();
    assert_eq!(state(&mut driver, "FETCH c"), SqlState::QUERY_CANCELED, "its time is over");
    driver.batch_execute("ROLLBACK; SET statement_timeout = 0; BEGIN").unwrap();
    until_none_runs(&server, "a FETCH that has failed ends its query");
    driver.batch_execute(SLOW).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| state(&mut driver, "FETCH c"));
        until_active(&mut other, "FETCH c");
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'FETCH c' AND state = 'active'";
        other.batch_execute(cancel).unwrap();
        assert_eq!(waits.join().unwrap(), SqlState::QUERY_CANCELED);
    });
    driver.batch_execute("ROLLBACK").unwrap();
    until_none_runs(&server, "a FETCH that was cancelled ends its query");
}

/// Queries that wait for a FETCH do not count among the statements that a shard runs beside its steps at once.
#[test]
fn cursors_that_wait_keep_nobody_waiting() {
    let server = start(1);
    let mut driver = server.driver();
    driver.batch_execute("BEGIN").unwrap();
    for number in 0..70 {
        driver.batch_execute(&format!("DECLARE c{number} CURSOR FOR SELECT a, b, c FROM t")).unwrap();
        assert_eq!(numbers(&mut driver, &format!("FETCH 1 FROM c{number}")), [1]);
    }
    assert_eq!(workers(&server), 70);
    assert_eq!(rest(begin(&mut server.driver(), ALL)).unwrap().0, ROWS);
    driver.batch_execute("COMMIT").unwrap();
    until_none_runs(&server, "all of them end");
}
