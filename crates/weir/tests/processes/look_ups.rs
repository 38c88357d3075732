//! Look-ups by a key on one shard, which need no message: they see what any other query would, in every kind of transaction.

use postgres::{Client, IsolationLevel, Statement};

use crate::alone::Alone;

fn value(own: &mut impl postgres::GenericClient, look_up: &Statement, id: i32) -> Option<i32> {
    own.query_opt(look_up, &[&id]).unwrap().map(|row| row.get(0))
}

fn prepared(own: &mut Client) -> Statement {
    own.prepare("SELECT v FROM t WHERE id = $1").unwrap()
}

fn two_rows(weir: &Alone) -> Client {
    let mut own = weir.driver();
    own.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 10), (2, 20)")
        .unwrap();
    own
}

/// A look-up sees no uncommitted writes of others, and sees those of its own transaction.
#[test]
fn a_look_up_sees_committed_rows_and_those_of_its_transaction() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let (mut own, mut other) = (two_rows(&weir), weir.driver());
        let (look_up, of_other) = (prepared(&mut own), prepared(&mut other));
        let mut writes = other.transaction().unwrap();
        assert_eq!(value(&mut writes, &of_other, 1), Some(10));
        writes.execute("UPDATE t SET v = 11 WHERE id = 1", &[]).unwrap();
        writes.execute("INSERT INTO t VALUES (3, 30)", &[]).unwrap();
        assert_eq!(
            (value(&mut writes, &of_other, 1), value(&mut writes, &of_other, 3)),
            (Some(11), Some(30))
        );
        assert_eq!((value(&mut own, &look_up, 1), value(&mut own, &look_up, 3)), (Some(10), None));
        let mut reads = own.transaction().unwrap();
        assert_eq!(value(&mut reads, &look_up, 1), Some(10));
        writes.commit().unwrap();
        assert_eq!((value(&mut reads, &look_up, 1), value(&mut reads, &look_up, 3)), (Some(11), Some(30)));
        reads.commit().unwrap();
        assert_eq!(value(&mut own, &look_up, 2), Some(20));
    }
}

/// A savepoint, a lock or a write before it: the look-up is one of the transaction, which ends at the cluster.
#[test]
fn a_transaction_that_has_asked_for_more_ends_at_the_cluster() {
    let weir = Alone::start(1);
    let (mut own, mut other) = (two_rows(&weir), weir.driver());
    let look_up = prepared(&mut own);
    let mut block = own.transaction().unwrap();
    assert_eq!(value(&mut block, &look_up, 1), Some(10));
    let mut within = block.savepoint("s").unwrap();
    within.execute("UPDATE t SET v = 12 WHERE id = 1", &[]).unwrap();
    assert_eq!(value(&mut within, &look_up, 1), Some(12));
    within.rollback().unwrap();
    assert_eq!(value(&mut block, &look_up, 1), Some(10));
    block.query_one("SELECT v FROM t WHERE id = 1 FOR UPDATE", &[]).unwrap();
    other.batch_execute("SET lock_timeout = '50ms'").unwrap();
    let refused = other.execute("UPDATE t SET v = 13 WHERE id = 1", &[]).unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "55P03");
    block.commit().unwrap();
    other.execute("UPDATE t SET v = 13 WHERE id = 1", &[]).unwrap();
    assert_eq!(value(&mut own, &look_up, 1), Some(13));
}

/// REPEATABLE READ and SERIALIZABLE keep to their state, whatever look-ups came first.
#[test]
fn repeatable_transactions_keep_their_state() {
    let weir = Alone::start(1);
    let (mut own, mut other) = (two_rows(&weir), weir.driver());
    let look_up = prepared(&mut own);
    let mut reads = own
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .unwrap();
    assert_eq!(value(&mut reads, &look_up, 1), Some(10));
    other.execute("UPDATE t SET v = v + 1", &[]).unwrap();
    assert_eq!((value(&mut reads, &look_up, 1), value(&mut reads, &look_up, 2)), (Some(10), Some(20)));
    reads.commit().unwrap();
    let mut locks = own.build_transaction().isolation_level(IsolationLevel::Serializable).start().unwrap();
    assert_eq!(value(&mut locks, &look_up, 1), Some(11));
    other.batch_execute("SET lock_timeout = '50ms'").unwrap();
    let refused = other.execute("UPDATE t SET v = 0 WHERE id = 1", &[]).unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "55P03", "the row that was read is locked");
    locks.commit().unwrap();
}

/// Failures, definitions and the time of the transaction.
#[test]
fn a_look_up_fails_and_is_bound_again_as_any_statement() {
    let weir = Alone::start(1);
    let mut own = two_rows(&weir);
    let divides = own.prepare("SELECT v / (id - $2) FROM t WHERE id = $1").unwrap();
    let failed = own.query(&divides, &[&1, &1]).unwrap_err();
    assert_eq!(failed.code().unwrap().code(), "22012");
    let mut block = own.transaction().unwrap();
    assert_eq!(block.query_one(&divides, &[&2, &1]).unwrap().get::<_, i32>(0), 20);
    assert_eq!(block.query(&divides, &[&1, &1]).unwrap_err().code().unwrap().code(), "22012");
    assert_eq!(block.query(&divides, &[&2, &1]).unwrap_err().code().unwrap().code(), "25P02");
    block.rollback().unwrap();
    let times = own.prepare("SELECT now(), v FROM t WHERE id = $1").unwrap();
    let mut block = own.transaction().unwrap();
    let mut now = || block.query_one(&times, &[&1]).unwrap().get::<_, std::time::SystemTime>(0);
    assert_eq!(now(), now());
    block.commit().unwrap();
    let look_up = prepared(&mut own);
    assert_eq!(value(&mut own, &look_up, 1), Some(10));
    weir.driver()
        .batch_execute("ALTER TABLE t ADD COLUMN w int DEFAULT 5; UPDATE t SET v = 17 WHERE id = 1")
        .unwrap();
    assert_eq!(value(&mut own, &look_up, 1), Some(17));
    let mut block = own.transaction().unwrap();
    block.batch_execute("ALTER TABLE t ALTER v TYPE int USING v + 1").unwrap();
    assert_eq!(value(&mut block, &look_up, 1), Some(18));
    block.rollback().unwrap();
    assert_eq!(value(&mut own, &look_up, 1), Some(17));
}

/// Nothing is shown that a crash could take back: counters are read while others count and the server is killed again and again.
#[test]
fn a_look_up_shows_what_a_crash_keeps() {
    let mut weir = Alone::start(1);
    let mut seen = 0;
    two_rows(&weir).batch_execute("UPDATE t SET v = 0").unwrap();
    for _ in 0..5 {
        let (mut counts, mut reads) = (weir.driver(), weir.driver());
        let writer =
            std::thread::spawn(
                move || {
                    while counts.execute("UPDATE t SET v = v + 1 WHERE id = 1", &[]).is_ok() {}
                },
            );
        let look_up = prepared(&mut reads);
        let until = seen + 50;
        while seen < until {
            let now = value(&mut reads, &look_up, 1).unwrap();
            assert!(now >= seen, "{now} after {seen}");
            seen = now;
        }
        weir.kill_and_start_again();
        writer.join().unwrap();
        let mut again = weir.driver();
        let look_up = prepared(&mut again);
        let kept = value(&mut again, &look_up, 1).unwrap();
        assert!(kept >= seen, "{kept} after {seen}");
    }
}
