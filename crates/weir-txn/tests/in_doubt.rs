//! A restarted shard lets writers wait until it knows the outcome of the transactions that its log has as prepared.

use std::sync::Arc;

use weir_core::ids::{Sender, Timestamp, TxnId};
use weir_core::machine::{Durable as _, Effects, Exposed as _, Shard as _};
use weir_core::termination::Timeouts;
use weir_txn::exec::program::Program;
use weir_txn::faults::{Faults, NoFaults, PlantedBugs};
use weir_txn::message::{Age, Begun, Progress, Reply, Request};
use weir_txn::shard::Node;

use crate::calls::{self, call};

const NOW_MS: u64 = 1_000_000_000;
const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
COMMENT ON TABLE account IS 'weir: partition by (id)';
CREATE PROCEDURE add_two(a integer, b integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO account VALUES (a, 0); INSERT INTO account VALUES (b, 0); END $$;
CREATE PROCEDURE close_from(a integer) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM account WHERE id >= a; END $$;
CREATE PROCEDURE add_one(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a, 0); END $$;
";

const TIMEOUTS: Timeouts = Timeouts { terminate_ms: 1_000, retire_ms: 60_000 };

fn txn(coordinator: u64, sequence: u64) -> TxnId {
    TxnId { coordinator, sequence }
}

fn begun(coordinator: u64, sequence: u64) -> Begun {
    Begun { age: Age { sequence, coordinator }, at_ms: NOW_MS }
}

fn step<F: Faults>(shard: &mut Node<F>, now_ms: u64, request: Request) -> Vec<Reply> {
    let mut effects = Effects::default();
    let coordinator = request.txn().coordinator;
    shard.on_progress(now_ms, coordinator, Progress { settled_below: 0, drained: 0 });
    shard.step(now_ms, Sender::Coordinator(coordinator), request, &mut effects);
    effects.replies.into_iter().map(|reply| reply.message).collect()
}

fn program() -> Arc<Program> {
    calls::program(&calls::application(ACCOUNTS), 2)
}

/// A restarted shard of two that has prepared the insertion of a row.
fn restarted<F: Faults>(bugs: F) -> Node<F> {
    let program = program();
    let pairs = (1..20).flat_map(|a| (1..20).map(move |b| (a, b)));
    let is_part = |(a, b): &(i64, i64)| program.participants(&call(0, &[*a, *b])).unwrap()[..] == [0, 1];
    let (a, b) = pairs.into_iter().find(is_part).expect("the second shard decides some");
    let mut shard: Node<F> = Node::recover(0, program.clone(), bugs, TIMEOUTS, []);
    let call = Arc::new(call(0, &[a, b]));
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
    let call = Arc::new(call(1, &[0]));
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

/// A request that is queued is woken, whoever else finds the time over before the timer does.
#[test]
fn a_call_that_waits_is_run_when_the_waiting_ends() {
    let mut shard = restarted(NoFaults);
    let here = (100..).find(|one| program().participants(&call(2, &[*one])).unwrap()[..] == [0]).unwrap();
    let call = Box::new(call(2, &[here]));
    let execute = Request::Execute { txn: txn(9, 1), begun: begun(9, 1), call, incarnation: None };
    let replies = step(&mut shard, NOW_MS, execute);
    assert!(matches!(replies[..], [Reply::Waits { .. }]), "{replies:?}");
    assert!(deletes_all(&mut shard, NOW_MS + 10_000, 1));
    let mut effects = Effects::default();
    shard.on_progress(NOW_MS + 10_000, 9, Progress { settled_below: 0, drained: 0 });
    shard.on_timer(NOW_MS + 10_000, &mut effects);
    let answered = effects.replies.iter().any(|reply| matches!(reply.message, Reply::Executed { .. }));
    assert!(answered, "{:?}", effects.replies);
}

#[test]
fn a_shard_that_does_not_wait_is_caught() {
    let mut shard = restarted(PlantedBugs { writes_in_doubt: true, ..PlantedBugs::default() });
    assert!(deletes_all(&mut shard, NOW_MS, 1));
    commit(&mut shard, txn(7, 1));
    commit(&mut shard, txn(8, 1));
    assert_eq!(rows(&shard), 1, "an acknowledged row is still there");
}
