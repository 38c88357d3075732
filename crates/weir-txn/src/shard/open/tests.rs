//! Transactions that have derived writes for other shards, at the shard of their rows.

use weir_core::ids::Sender;
use weir_core::machine::{Effects, Shard as _};
use weir_core::termination::Timeouts;
use weir_types::Value;
use weir_types::memory::WorkingMemory;

use super::*;
use crate::faults::PlantedBugs;
use crate::message::{Call, GlobalKey, WhyParent};

const TXN: TxnId = TxnId { coordinator: 7, sequence: 1 };
const NOW_MS: u64 = 1_000_000_000;
const BEGUN: Begun = Begun { age: Age { sequence: 1, coordinator: 7 }, at_ms: NOW_MS };
const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY);
CREATE TABLE member (id integer PRIMARY KEY, email integer UNIQUE);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a); END $$;
CREATE PROCEDURE join_as(a integer, e integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO member VALUES (a, e); END $$;
";
const EMAIL: GlobalKey = GlobalKey { table: TableId(1), index: 1 };

/// The first of three shards, where the transaction has inserted an account.
struct Stage(Node<PlantedBugs>);

fn work(number: u32) -> Work {
    let call = Call {
        callee: Callee::Procedure(0),
        args: vec![Value::Int(3 * i64::from(number))],
        transaction_time: 0.into(),
        schema_version: 0,
        memory: WorkingMemory::default(),
    };
    let participants = Arc::new([0]);
    Work { number, opened: None, call: Arc::new(call), participants, answers: Vec::new() }
}

fn add(value: i64) -> Derived {
    Derived::Add { key: GlobalKey { table: TableId(0), index: 0 }, values: vec![Value::Int(value)], home: 0 }
}

fn remove(value: i64) -> Derived {
    Derived::Remove {
        key: GlobalKey { table: TableId(0), index: 0 },
        values: vec![Value::Int(value)],
        home: 0,
    }
}

impl Stage {
    fn new(bugs: PlantedBugs) -> Stage {
        let mut sources = weir_sql::Sources::default();
        sources.add("schema.sql", SCHEMA);
        let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        let plan = weir_analysis::analyze(&application).plan;
        let program = Arc::new(Program::compile(&application, &plan, 3).unwrap());
        let mut stage = Stage(Node::recover(0, program, bugs, Timeouts::default(), []));
        let replies = stage.say(Request::Work { txn: TXN, begun: BEGUN, work: Box::new(work(1)) });
        assert!(matches!(replies[..], [Reply::Worked { result: Ok(_), .. }]), "{replies:?}");
        stage
    }

    fn say(&mut self, request: Request) -> Vec<Reply> {
        let mut effects = Effects::default();
        self.0.step(NOW_MS, Sender::Coordinator(7), request, &mut effects);
        effects.replies.into_iter().map(|reply| reply.message).collect()
    }

    /// A statement with that number has run and derived these; gives its reply.
    fn derive(&mut self, number: u32, derived: Vec<Derived>) -> Reply {
        let mut open = self.0.open.remove(&TXN).expect("it is open");
        let (mark, ran) = (open.own.mark(), Ran { derived, ..Ran::default() });
        let result = self.0.has_run(TXN, &mut open, &work(number), mark, ran);
        let mut effects = Effects::default();
        self.0.worked(TXN, open, (number, Ok(result)), &mut effects);
        effects.replies.pop().expect("it is answered").message
    }

    fn finish(&mut self, participants: &[ShardId]) -> Vec<Reply> {
        let (begun, above, opened) = (BEGUN, Timestamp::default(), 1);
        self.say(Request::Finish { txn: TXN, begun, participants: participants.into(), above, opened })
    }

    fn bind(&mut self, participants: &[ShardId]) -> Vec<Reply> {
        let (begun, opened) = (BEGUN, 1);
        self.say(Request::Bind { txn: TXN, begun, participants: participants.into(), opened })
    }
}

fn is_refused(replies: &[Reply]) -> bool {
    match replies {
        [Reply::Refused { error, .. }] => error.state() == SqlState::INTERNAL_ERROR,
        [Reply::Prepared { .. } | Reply::Decided { .. }] => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_statement_derives_is_told_again_to_who_asks_again() {
    let mut stage = Stage::new(PlantedBugs::default());
    let reply = stage.derive(2, vec![add(4), add(5), remove(7), remove(5)]);
    let (derived, worked) = reply.clone().without_derived();
    assert_eq!(derived, [add(4), remove(7)]);
    assert!(matches!(worked, Reply::Worked { number: 2, result: Ok(_), .. }));
    let again = stage.say(Request::Work { txn: TXN, begun: BEGUN, work: Box::new(work(2)) });
    assert_eq!(format!("{again:?}"), format!("{:?}", [reply]));
    assert!(
        matches!(stage.derive(3, vec![add(1), remove(1)]), Reply::Worked { .. }),
        "nothing is left of it"
    );
}

#[test]
fn a_transaction_does_not_end_without_those_that_it_has_derived_writes_for() {
    let ends: [(&[ShardId], bool); 4] = [(&[1, 0], true), (&[2, 0], true), (&[], true), (&[1, 2, 0], false)];
    for (participants, is_wrong) in ends {
        let mut stage = Stage::new(PlantedBugs::default());
        stage.derive(2, vec![add(4)]);
        stage.derive(3, vec![add(5)]);
        assert_eq!(is_refused(&stage.finish(participants)), is_wrong, "{participants:?}");
    }
    for (participants, is_wrong) in [([0, 2], true), ([0, 1], false)] {
        let mut stage = Stage::new(PlantedBugs::default());
        stage.derive(2, vec![add(4)]);
        assert_eq!(is_refused(&stage.bind(&participants)), is_wrong, "{participants:?}");
    }
    let mut stage = Stage::new(PlantedBugs { ends_without_carrying: true, ..PlantedBugs::default() });
    stage.derive(2, vec![add(4)]);
    assert!(!is_refused(&stage.finish(&[])), "the bug");
}

/// A row that has not found its parent asks its own shard again.
#[test]
fn what_a_shard_has_derived_for_itself_makes_no_participant() {
    let mut stage = Stage::new(PlantedBugs::default());
    let (child, key, why) = (TableId(1), vec![Value::Int(3)], WhyParent::IsReferred);
    stage.derive(2, vec![Derived::Parent { at: 0, child, rule: 0, key, why }]);
    assert!(!is_refused(&stage.finish(&[])));
}

#[test]
fn what_is_rolled_back_need_not_be_carried() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.derive(2, vec![add(4)]);
    let opened = Some(1);
    stage.say(Request::RollBackTo { txn: TXN, age: BEGUN.age, number: 3, after: 1, opened });
    assert!(!is_refused(&stage.finish(&[])));
}

#[test]
fn a_part_that_has_failed_derives_nothing() {
    let mut stage = Stage::new(PlantedBugs::default());
    let mut open = stage.0.open.remove(&TXN).expect("it is open");
    let error = Some(SqlError::new(SqlState::UNIQUE_VIOLATION, "scripted"));
    let answers = Answers { values: Vec::new(), error };
    let (mark, ran) = (open.own.mark(), Ran { answers, derived: vec![add(4)], ..Ran::default() });
    assert_eq!(stage.0.has_run(TXN, &mut open, &work(2), mark, ran).derived, []);
}

/// The writes of another transaction, of that age, which nothing follows.
fn last_round(age: u64, values: &[i64]) -> (TxnId, Request) {
    let (txn, list) =
        (TxnId { coordinator: 8, sequence: age }, values.iter().map(|&value| add_from(value, 1)));
    let begun = Begun { age: Age { sequence: age, coordinator: 8 }, at_ms: NOW_MS };
    let call = Call { callee: Callee::Derived(list.collect()), ..(*work(1).call).clone() };
    let call = Arc::new(Call { args: Vec::new(), ..call });
    let work = Work { number: 2, opened: None, call, participants: Arc::new([0]), answers: Vec::new() };
    (txn, Request::WorkAndBind { txn, begun, work: Box::new(work), participants: Arc::new([0, 1]) })
}

fn add_from(value: i64, home: ShardId) -> Derived {
    Derived::Add { key: EMAIL, values: vec![Value::Int(value)], home }
}

#[test]
fn who_prepares_with_its_work_is_told_so_again() {
    let mut stage = Stage::new(PlantedBugs::default());
    let (txn, request) = last_round(5, &[3]);
    for _ in 0..2 {
        let replies = stage.say(request.clone());
        assert!(matches!(replies[..], [Reply::Prepared { shard: 0, .. }]), "{replies:?}");
    }
    let timestamp = Timestamp { clock: stage.0.last_clock() + 1, node: 1 };
    stage.say(Request::Commit { txn, timestamp });
    // The key has an entry now.
    let replies = stage.say(last_round(6, &[6, 3]).1);
    match &replies[..] {
        [Reply::Worked { number: 2, result: Err(error), .. }] => {
            assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
        }
        other => panic!("{other:?}"),
    }
    // Nothing of that work remains.
    let replies = stage.say(last_round(7, &[6]).1);
    assert!(matches!(replies[..], [Reply::Prepared { .. }]), "{replies:?}");
    // An ABORT that has come before it is its end.
    let (late, request) = last_round(8, &[9]);
    stage.say(Request::Abort { txn: late });
    let replies = stage.say(request);
    assert!(matches!(replies[..], [Reply::Busy { .. }]), "{replies:?}");
}

/// It may be prepared at other shards: it waits for a younger prepared transaction alone, as a part does.
#[test]
fn who_prepares_with_its_work_waits_for_no_older_transaction() {
    let mut stage = Stage::new(PlantedBugs::default());
    let (holder, request) = last_round(5, &[3]);
    assert!(matches!(stage.say(request)[..], [Reply::Prepared { .. }]));
    let replies = stage.say(last_round(6, &[3]).1);
    assert!(matches!(replies[..], [Reply::Busy { .. }]), "{replies:?}");
    assert!(stage.say(last_round(4, &[3]).1).is_empty(), "it waits");
    let replies = stage.say(Request::Abort { txn: holder });
    assert!(matches!(replies[..], [Reply::Aborted { .. }, Reply::Prepared { .. }]), "{replies:?}");
    // A younger one that is open may wait at another shard for what this one has prepared there.
    let mut stage = Stage::new(PlantedBugs::default());
    let (txn, request) = last_round(9, &[3]);
    let Request::WorkAndBind { begun, work, .. } = request else { unreachable!() };
    let replies = stage.say(Request::Work { txn, begun, work });
    assert!(matches!(replies[..], [Reply::Worked { result: Ok(_), .. }]), "{replies:?}");
    let replies = stage.say(last_round(4, &[3]).1);
    assert!(matches!(replies[..], [Reply::Busy { .. }]), "{replies:?}");
}
