//! What a restarted shard does until it knows the outcome of the transactions that its log has as prepared.

use std::sync::Arc;

use weir_core::ids::{Sender, Timestamp, TxnId};
use weir_core::machine::{Durable as _, Effects, Exposed as _, Shard as _};
use weir_core::termination::Timeouts;
use weir_sql::Sources;
use weir_txn::exec::program::Program;
use weir_txn::faults::{Faults, NoFaults, PlantedBugs};
use weir_txn::message::{Age, Begun, Call, Callee, Progress, Reply, Request};
use weir_txn::shard::Node;
use weir_types::Value;

const NOW_MS: u64 = 1_000_000_000;
const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
COMMENT ON TABLE account IS 'weir: partition by (id)';
CREATE PROCEDURE add_two(a integer, b integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO account VALUES (a, 0); INSERT INTO account VALUES (b, 0); END $$;
CREATE PROCEDURE close_from(a integer) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM account WHERE id >= a; END $$;
";

const TIMEOUTS: Timeouts = Timeouts { terminate_ms: 1_000, retire_ms: 60_000 };

fn txn(coordinator: u64, sequence: u64) -> TxnId {
    TxnId { coordinator, sequence }
}

fn begun(coordinator: u64, sequence: u64) -> Begun {
    Begun { age: Age { sequence, coordinator }, at_ms: NOW_MS }
}

fn call(procedure: usize, args: Vec<Value>) -> Call {
    Call { callee: Callee::Procedure(procedure), args, transaction_time: 0.into(), schema_version: 0 }
}

fn step<F: Faults>(shard: &mut Node<F>, now_ms: u64, request: Request) -> Vec<Reply> {
    let mut effects = Effects::default();
    let coordinator = request.txn().coordinator;
    shard.on_progress(now_ms, coordinator, Progress { settled_below: 0, drained: 0 });
    shard.step(now_ms, Sender::Coordinator(coordinator), request, &mut effects);
    effects.replies.into_iter().map(|reply| reply.message).collect()
}

/// A restarted shard of two that has prepared the insertion of a row.
fn restarted<F: Faults>(bugs: F) -> Node<F> {
    let mut sources = Sources::default();
    sources.add("accounts.sql", ACCOUNTS);
    let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    let plan = weir_analysis::analyze(&application).plan;
    let program = Arc::new(Program::compile(&application, &plan, 2).unwrap());
    let pairs = (1..20).flat_map(|a| (1..20).map(move |b| (a, b)));
    let is_part = |(a, b): &(i64, i64)| {
        program.participants(&call(0, vec![Value::Int(*a), Value::Int(*b)])).unwrap()[..] == [0, 1]
    };
    let (a, b) = pairs.into_iter().find(is_part).expect("the second shard decides some");
    let mut shard: Node<F> = Node::recover(0, program.clone(), bugs, TIMEOUTS, []);
    let call = Arc::new(call(0, vec![Value::Int(a), Value::Int(b)]));
    let prepare =
        Request::Prepare { txn: txn(7, 1), begun: begun(7, 1), call, participants: Arc::new([0, 1]) };
    let replies = step(&mut shard, NOW_MS, prepare);
    assert!(matches!(replies[..], [Reply::Prepared { .. }]), "{replies:?}");
    let records = shard.take_records();
    Node::recover(0, program, bugs, TIMEOUTS, records)
}

/// A coordinator that has come since deletes all rows of both shards. Returns whether this shard has prepared it; otherwise it is to try
/// again.
fn deletes_all<F: Faults>(shard: &mut Node<F>, now_ms: u64, sequence: u64) -> bool {
    let call = Arc::new(call(1, vec![Value::Int(0)]));
    let begun = Begun { at_ms: now_ms, ..begun(8, sequence) };
    let prepare = Request::Prepare { txn: txn(8, sequence), begun, call, participants: Arc::new([0, 1]) };
    match &step(shard, now_ms, prepare)[..] {
        [Reply::Prepared { .. }] => true,
        [Reply::Busy { .. }] => false,
        replies => panic!("{replies:?}"),
    }
}

fn commit<F: Faults>(shard: &mut Node<F>, txn: TxnId) {
    let timestamp = Timestamp { clock: (NOW_MS << 16) + txn.coordinator, node: 1 };
    let replies = step(shard, NOW_MS, Request::Commit { txn, timestamp });
    assert!(matches!(replies[..], [Reply::Committed { .. }]), "{replies:?}");
}

fn rows<F: Faults>(shard: &Node<F>) -> usize {
    shard.figures().tables[0].rows
}

#[test]
fn writers_wait_for_the_outcome_and_see_its_rows() {
    let mut shard = restarted(NoFaults);
    assert!(!deletes_all(&mut shard, NOW_MS, 1));
    commit(&mut shard, txn(7, 1));
    assert_eq!(rows(&shard), 1);
    assert!(deletes_all(&mut shard, NOW_MS, 2));
    commit(&mut shard, txn(8, 2));
    assert_eq!(rows(&shard), 0);
}

#[test]
fn writers_go_on_when_it_was_aborted() {
    let mut shard = restarted(NoFaults);
    assert!(!deletes_all(&mut shard, NOW_MS, 1));
    step(&mut shard, NOW_MS, Request::Abort { txn: txn(7, 1) });
    assert!(deletes_all(&mut shard, NOW_MS, 2));
}

/// The other participant cannot be reached.
#[test]
fn nobody_waits_for_ever() {
    let mut shard = restarted(NoFaults);
    assert!(!deletes_all(&mut shard, NOW_MS, 1));
    assert!(!deletes_all(&mut shard, NOW_MS + 9_000, 2));
    assert!(deletes_all(&mut shard, NOW_MS + 10_000, 3));
}

#[test]
fn a_shard_that_does_not_wait_is_caught() {
    let mut shard = restarted(PlantedBugs { writes_in_doubt: true, ..PlantedBugs::default() });
    assert!(deletes_all(&mut shard, NOW_MS, 1));
    commit(&mut shard, txn(7, 1));
    commit(&mut shard, txn(8, 1));
    assert_eq!(rows(&shard), 1, "an acknowledged row is still there");
}
