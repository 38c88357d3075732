//! Soundness S19, measured on PostgreSQL: what goes wrong without each condition, and that it does not with it.

use std::sync::Arc;

use postgres::Client;
use weir_conveyor::schema::ENTER;
use weir_conveyor::token::Visit;
use weir_conveyor::work::{License, Work};
use weir_conveyor_net::operation::{SqlDone, StateUpdate};

use crate::transactions::{Pair, global};

const TABLES: &str = "CREATE TABLE t (id text PRIMARY KEY, v int NOT NULL); \
                      INSERT INTO t VALUES ('x', 0), ('y', 0); CREATE TABLE c (id text PRIMARY KEY, v int NOT NULL); \
                      INSERT INTO c VALUES ('c', 0)";
const VISIT: License = License { epoch: 1, visit: 1 };

fn value(client: &mut Client, id: &str) -> i32 {
    client.query_one("SELECT v FROM t WHERE id = $1", &[&id]).unwrap().get(0)
}

/// A session that has begun a serializable transaction.
fn session(pair: &Pair, server: usize) -> Client {
    let mut client = pair.client(server);
    client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
    client
}

/// One visit at server 0: `x := y + 1`, which has read y before another operation sets that to 5, commits after that one.
fn visit_of_two(pair: &mut Pair) -> Arc<Visit<StateUpdate>> {
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let mut first = session(pair, 0);
    first.query(ENTER, &[&1_i64, &1_i64, &0_i64]).unwrap();
    first.batch_execute("UPDATE t SET v = (SELECT v FROM t WHERE id = 'y') + 1 WHERE id = 'x'").unwrap();
    let second = pair.connections[0].run(&global(&["UPDATE t SET v = 5 WHERE id = 'y'"], VISIT));
    assert!(matches!(second, SqlDone::Executed(Ok(_))), "{second:?}");
    first.batch_execute("COMMIT").unwrap();
    assert!(matches!(
        pair.connections[0].run(&Work::End { license: VISIT, after: 0 }),
        SqlDone::State(state) if state.row.closed == 1
    ));
    pair.outbox(1)
}

/// Statements in the order of their commits give x = 6; the columns give what the origin has.
#[test]
fn statements_are_no_state_updates() {
    let mut pair = Pair::new(TABLES);
    let visit = visit_of_two(&mut pair);
    let mut origin = pair.client(0);
    assert_eq!((value(&mut origin, "x"), value(&mut origin, "y")), (1, 5));
    let mut other = session(&pair, 1);
    other.batch_execute("UPDATE t SET v = 5 WHERE id = 'y'").unwrap();
    other.batch_execute("UPDATE t SET v = (SELECT v FROM t WHERE id = 'y') + 1 WHERE id = 'x'").unwrap();
    assert_eq!(value(&mut other, "x"), 6);
    other.batch_execute("ROLLBACK").unwrap();
    pair.connections[1].run(&Work::Apply { after: 0, visit });
    assert_eq!((value(&mut other, "x"), value(&mut other, "y")), (1, 5));
}

/// At the origin `x := y + 1` comes before `y := 5`. Between two applies, in the order of their commits, a reader elsewhere sees the opposite.
#[test]
fn updates_of_a_visit_are_not_applied_one_by_one() {
    let mut pair = Pair::new(TABLES);
    let visit = visit_of_two(&mut pair);
    let of_y = |update: &&StateUpdate| update.rows.iter().any(|(_, row)| row.key == [Some("y".to_owned())]);
    let (y, x): (Vec<&StateUpdate>, Vec<&StateUpdate>) = visit.updates.iter().partition(of_y);
    let apply = |after, number, updates: Vec<&StateUpdate>| {
        let updates = updates.into_iter().cloned().collect();
        Work::Apply { after, visit: Arc::new(Visit { number, updates }) }
    };
    pair.connections[1].run(&apply(0, 1, y));
    let mut reader = session(&pair, 1);
    assert_eq!((value(&mut reader, "x"), value(&mut reader, "y")), (0, 5));
    reader.batch_execute("COMMIT").unwrap();
    let done = pair.connections[1].run(&apply(1, 2, x));
    assert!(matches!(done, SqlDone::State(state) if state.applied == 2), "{done:?}");
}

/// A local operation reads x before the visit is applied, and writes c after another has read x from the visit, and the old c.
/// Returns whether both commit: then each comes before the other.
fn both_commit(apply: impl FnOnce(&mut Pair)) -> bool {
    let mut pair = Pair::new(TABLES);
    let mut writer = session(&pair, 1);
    value(&mut writer, "x");
    apply(&mut pair);
    let mut reader = session(&pair, 1);
    assert_eq!(value(&mut reader, "x"), 7);
    let read = reader.batch_execute("SELECT v FROM c").and_then(|()| reader.batch_execute("COMMIT"));
    let written = writer.batch_execute("UPDATE c SET v = 1").and_then(|()| writer.batch_execute("COMMIT"));
    read.is_ok() && written.is_ok()
}

#[test]
fn applies_at_read_committed_let_an_inversion_commit() {
    assert!(both_commit(|pair| {
        pair.client(1).batch_execute("BEGIN; UPDATE t SET v = 7 WHERE id = 'x'; COMMIT").unwrap();
    }));
    assert!(!both_commit(|pair| {
        pair.connections[0].run(&Work::Adopt { epoch: 1 });
        pair.connections[0].run(&global(&["UPDATE t SET v = 7 WHERE id = 'x'"], VISIT));
        let visit = pair.outbox(1);
        pair.connections[1].run(&Work::Apply { after: 0, visit });
    }));
}

const COUNT: &str = "SELECT count(*) FROM weir_conveyor.outbox";

/// Returns whether a holder commits that has read the epoch row and not locked it: the fence does not wait for it, and the outbox is read to its
/// end behind the fence.
fn fenced_holder_commits(reads_serializable: bool) -> bool {
    let mut pair = Pair::new(TABLES);
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let mut holder = session(&pair, 0);
    holder.batch_execute("SELECT 1 FROM weir_conveyor.epoch WHERE epoch = 1 AND closed < 1").unwrap();
    holder.batch_execute("SET LOCAL weir_conveyor.visit = '1'").unwrap();
    holder.batch_execute("UPDATE t SET v = 7 WHERE id = 'x'").unwrap();
    let fenced = pair.connections[0].run(&Work::Fence { server: 0, epoch: 2, visit: 1 });
    assert!(matches!(fenced, SqlDone::Row(row) if row.is_closed_in(2, 1)), "{fenced:?}");
    let seen = match reads_serializable {
        true => pair.outbox(1).updates.len() as i64,
        false => pair.client(0).query_one(COUNT, &[]).unwrap().get(0),
    };
    assert_eq!(seen, 0);
    holder.batch_execute("COMMIT").is_ok()
}

/// Where the outbox is read at SERIALIZABLE, SSI itself finds the late holder: reader, holder and fence are a dangerous structure. That is luck, and
/// no fence: nobody promises that the predicate lock of the reader is as old as the holder.
#[test]
fn a_holder_that_has_only_read_the_epoch_row_commits_behind_the_fence() {
    assert!(fenced_holder_commits(false));
    assert!(!fenced_holder_commits(true));
}

/// A fence that waits for a holder, and then reads the outbox in its own transaction: what it sees, or that it fails.
fn seen_by_fence(level: &str) -> Result<i64, String> {
    let mut pair = Pair::new(TABLES);
    pair.connections[0].run(&Work::Adopt { epoch: 1 });
    let mut holder = session(&pair, 0);
    holder.query(ENTER, &[&1_i64, &1_i64, &0_i64]).unwrap();
    holder.batch_execute("UPDATE t SET v = 7 WHERE id = 'x'").unwrap();
    let mut fence = pair.client(0);
    fence.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
    let raising = std::thread::spawn(move || {
        fence.execute(weir_conveyor::schema::FENCE, &[&2_i64, &1_i64])?;
        let seen = fence.query_one(COUNT, &[])?.get(0);
        fence.batch_execute("COMMIT").map(|()| seen)
    });
    let mut watcher = pair.client(0);
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while watcher.query_one(waits, &[]).unwrap().get::<_, i64>(0) == 0 {
        std::thread::yield_now();
    }
    holder.batch_execute("COMMIT").unwrap();
    assert_eq!(pair.outbox(1).updates.len(), 1);
    let seen: Result<i64, postgres::Error> = raising.join().unwrap();
    seen.map_err(|error| error.code().map_or_else(String::new, |code| code.code().to_owned()))
}

/// Its snapshot is from before it waited. At SERIALIZABLE it fails, each time; below that it sees an outbox without the holder's update.
#[test]
fn a_fence_does_not_see_what_it_has_waited_for() {
    assert_eq!(seen_by_fence("REPEATABLE READ"), Ok(0));
    assert_eq!(seen_by_fence("SERIALIZABLE"), Err("40001".to_owned()));
}
