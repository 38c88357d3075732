//! Statements that compute for long hold up nobody: neither the other sessions of their server nor its open transactions; and others see
//! them.

use crate::alone::Alone;
use crate::endless::{CANCEL, run, until_active};
use postgres::Client as Driver;
use postgres::error::SqlState;

/// Computes until it is cancelled. Its tables are on several shards, so the server of the session puts the rows together.
const ENDLESS: &str = "SELECT count(*) FROM t x, t y, t z WHERE x.a + y.a + z.a < x.b";

/// Computes on a shard.
const ENDLESS_ON_SHARD: &str = "INSERT INTO t SELECT -x.a FROM t x, t y, t z WHERE x.a + y.a + z.a < x.b";

fn start(shards: u16) -> Alone {
    let server = Alone::start(shards);
    let mut driver = server.driver();
    driver.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int DEFAULT 0)").unwrap();
    driver.batch_execute("INSERT INTO t SELECT g FROM generate_series(1, 3000) g").unwrap();
    server
}

fn is_active(watch: &mut Driver, text: &str) -> bool {
    let active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = $1::text";
    watch.query_one(active, &[&text]).unwrap().get::<_, i64>(0) == 1
}

#[test]
fn others_go_on_and_keep_their_transactions() {
    let server = start(2);
    let (mut holder, mut other) = (server.driver(), server.driver());
    holder.batch_execute("BEGIN; UPDATE t SET b = 1 WHERE a IN (1, 2, 3)").unwrap();
    let endless = run(&server, ENDLESS);
    until_active(&mut other, ENDLESS);
    // Longer than shards wait for a coordinator that they do not hear.
    holder.batch_execute("SELECT pg_sleep(2.5)").unwrap();
    assert_eq!(other.query_one("SELECT sum(b) FROM t", &[]).unwrap().get::<_, i64>(0), 0);
    assert!(is_active(&mut other, ENDLESS), "others are answered meanwhile");
    holder.batch_execute("UPDATE t SET b = b + 1 WHERE a IN (1, 2, 3); COMMIT").unwrap();
    assert!(is_active(&mut other, ENDLESS), "a transaction commits meanwhile");
    other.batch_execute(CANCEL).unwrap();
    assert_eq!(endless.join().unwrap(), Some(SqlState::QUERY_CANCELED));
    assert_eq!(other.query_one("SELECT sum(b) FROM t", &[]).unwrap().get::<_, i64>(0), 6);
}

/// The views ask no shard.
#[test]
fn who_computes_on_a_shard_is_seen_and_cancelled() {
    let server = start(1);
    let mut other = server.driver();
    let endless = run(&server, ENDLESS_ON_SHARD);
    until_active(&mut other, ENDLESS_ON_SHARD);
    assert!(other.query("SELECT * FROM pg_locks", &[]).unwrap().is_empty());
    other.batch_execute(CANCEL).unwrap();
    assert_eq!(endless.join().unwrap(), Some(SqlState::QUERY_CANCELED));
    assert_eq!(other.query_one("SELECT count(*) FROM t", &[]).unwrap().get::<_, i64>(0), 3_000);
}

/// A query that computes on a shard: others read, write, commit, define and connect meanwhile, on the same shard and the same table.
fn others_work_beside(shards: u16) {
    let server = start(shards);
    let (mut holder, mut other) = (server.driver(), server.driver());
    holder.batch_execute("BEGIN; UPDATE t SET b = 1 WHERE a IN (1, 2, 3)").unwrap();
    let endless = run(&server, ENDLESS);
    until_active(&mut other, ENDLESS);
    let sum = |driver: &mut Driver| driver.query_one("SELECT sum(b) FROM t", &[]).unwrap().get::<_, i64>(0);
    for round in 1..=20 {
        other.execute("UPDATE t SET b = b + 1 WHERE a = 4", &[]).unwrap();
        assert_eq!(sum(&mut other), round);
        assert_eq!(sum(&mut server.driver()), round);
    }
    holder.batch_execute("DELETE FROM t WHERE a = 5; INSERT INTO t VALUES (4000, 7); COMMIT").unwrap();
    assert!(is_active(&mut other, ENDLESS));
    other
        .batch_execute("CREATE TABLE u (a int); ALTER TABLE t ADD COLUMN c int; INSERT INTO u VALUES (1)")
        .unwrap();
    assert_eq!(sum(&mut other), 30);
    assert!(is_active(&mut other, ENDLESS), "it begins again with the new schema");
    other.batch_execute(CANCEL).unwrap();
    assert_eq!(endless.join().unwrap(), Some(SqlState::QUERY_CANCELED));
}

#[test]
fn others_work_beside_a_query_of_their_shard() {
    others_work_beside(1);
}

#[test]
fn others_work_beside_a_query_of_their_shards() {
    others_work_beside(3);
}

/// The query sees its own transaction, which others do not; a cancelled one leaves the transaction as an error does.
#[test]
fn a_query_of_a_transaction_computes_beside_others() {
    const OWN: &str = "SELECT count(*) FROM t x, t y WHERE x.b + y.b = 10";
    let server = start(1);
    let (mut own, mut other) = (server.driver(), server.driver());
    own.batch_execute("BEGIN; UPDATE t SET b = 5 WHERE a < 4; DELETE FROM t WHERE a = 3000").unwrap();
    own.batch_execute("INSERT INTO t VALUES (5000, 5)").unwrap();
    assert_eq!(own.query_one(OWN, &[]).unwrap().get::<_, i64>(0), 16, "nine million pairs");
    assert_eq!(other.query_one(OWN, &[]).unwrap().get::<_, i64>(0), 0);
    own.batch_execute("SAVEPOINT s").unwrap();
    own.batch_execute("SET statement_timeout = '100ms'").unwrap();
    let ended = own.batch_execute(ENDLESS).unwrap_err();
    assert_eq!(ended.code(), Some(&SqlState::QUERY_CANCELED));
    own.batch_execute("ROLLBACK TO s; SET statement_timeout = 0; COMMIT").unwrap();
    assert_eq!(other.query_one("SELECT sum(b), count(*) FROM t", &[]).unwrap().get::<_, i64>(0), 20);
}
