//! Interval locks at one shard: for how long they are held, and whom they wait for.

use weir_core::ids::{Sender, ShardId, Timestamp};
use weir_core::machine::{Effects, Shard as _};
use weir_core::termination::Timeouts;
use weir_types::Value;
use weir_types::memory::WorkingMemory;

use super::*;
use crate::exec::program::Program;
use crate::faults::PlantedBugs;
use crate::message::{Age, Call, Callee, Reply};

const READER: TxnId = TxnId { coordinator: 7, sequence: 1 };
const WRITER: TxnId = TxnId { coordinator: 8, sequence: 1 };
const NOW_MS: u64 = 1_000_000_000;
const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a); END $$;
CREATE FUNCTION is_open(a integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN RETURN EXISTS (SELECT 1 FROM account WHERE id = a); END $$;
";
const OPEN: usize = 0;
const IS_OPEN: usize = 1;

struct Stage(Node<PlantedBugs>);

fn begun(txn: TxnId) -> Begun {
    Begun { age: Age { sequence: txn.sequence, coordinator: txn.coordinator }, at_ms: NOW_MS }
}

fn call(callee: Callee, account: i64) -> Call {
    let (args, memory) = (vec![Value::Int(account)], WorkingMemory::default());
    Call { callee, args, transaction_time: 0.into(), schema_version: 0, memory }
}

impl Stage {
    fn new(bugs: PlantedBugs) -> Stage {
        let mut sources = weir_sql::Sources::default();
        sources.add("schema.sql", SCHEMA);
        let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
        let plan = weir_analysis::analyze(&application).plan;
        let program = Arc::new(Program::compile(&application, &plan, 1).unwrap());
        assert_eq!(program.procedure_by_name("is_open"), Some(IS_OPEN));
        Stage(Node::recover(0, program, bugs, Timeouts::default(), []))
    }

    fn say(&mut self, request: Request) -> Vec<Reply> {
        let (from, mut effects) = (Sender::Coordinator(request.txn().coordinator), Effects::default());
        self.0.step(NOW_MS, from, request, &mut effects);
        effects.replies.into_iter().map(|reply| reply.message).collect()
    }

    fn work(&mut self, txn: TxnId, number: u32, call: Call) -> Vec<Reply> {
        let (call, participants) = (Arc::new(call), Arc::new([0]));
        let work = Work { number, opened: None, call, participants, answers: Vec::new() };
        self.say(Request::Work { txn, begun: begun(txn), work: Box::new(work) })
    }

    /// Returns whether the serializable reader has its answer.
    fn reads(&mut self, number: u32, account: i64) -> bool {
        let callee = Callee::Serializable(Arc::new(Callee::Procedure(IS_OPEN)));
        let replies = self.work(READER, number, call(callee, account));
        replies.iter().any(|reply| matches!(reply, Reply::Worked { result: Ok(_), .. }))
    }

    /// Returns whether a call by itself has inserted the account.
    fn writes(&mut self, sequence: u64, account: i64) -> bool {
        let txn = TxnId { sequence, ..WRITER };
        let call = Box::new(call(Callee::Procedure(OPEN), account));
        let replies = self.say(Request::Execute { txn, begun: begun(txn), call, incarnation: None });
        replies.iter().any(|reply| matches!(reply, Reply::Executed { result: Ok(_), .. }))
    }

    /// Returns whether a call that has waited until then goes on.
    fn bind(&mut self, txn: TxnId) -> bool {
        let participants: Arc<[ShardId]> = [0, 1].into();
        let replies = self.say(Request::Bind { txn, begun: begun(txn), participants, opened: 1 });
        assert!(matches!(replies[..], [Reply::Prepared { .. }, ..]), "{replies:?}");
        replies.len() > 1
    }

    fn commit(&mut self, txn: TxnId) -> Vec<Reply> {
        let timestamp = Timestamp { clock: self.0.last_clock() + 1, node: 1 };
        self.say(Request::Commit { txn, timestamp })
    }
}

/// Whether writers of what was read go on at once: after the statement, after a roll-back to the savepoint before it, and when it is prepared.
fn held(bugs: PlantedBugs) -> [bool; 3] {
    let mut stage = Stage::new(bugs);
    assert!(stage.reads(1, 7) && stage.writes(1, 6), "another key");
    let after_statement = stage.writes(2, 7);
    let age = begun(READER).age;
    stage.say(Request::RollBackTo { txn: READER, age, number: 2, after: 0, opened: Some(1) });
    let after_roll_back = stage.writes(3, 7);
    let when_prepared = stage.bind(READER) || stage.writes(4, 7);
    stage.commit(READER);
    assert!(!stage.0.claims.has_intervals());
    [after_statement, after_roll_back, when_prepared]
}

#[test]
fn what_was_read_is_held_until_the_outcome() {
    assert_eq!(held(PlantedBugs::default()), [false; 3]);
    let bugs = PlantedBugs { calls_pass_intervals: true, ..PlantedBugs::default() };
    assert!(held(bugs)[0], "the bug");
    let bugs = PlantedBugs { releases_at_prepare: true, ..PlantedBugs::default() };
    assert_eq!(held(bugs), [false, false, true], "the bug");
}

#[test]
fn who_waits_for_a_reader_goes_on_with_its_end() {
    let mut stage = Stage::new(PlantedBugs::default());
    assert!(stage.reads(1, 7) && !stage.writes(1, 7));
    let replies = stage.say(Request::Abort { txn: READER });
    assert!(
        replies.iter().any(|reply| matches!(reply, Reply::Executed { result: Ok(_), .. })),
        "{replies:?}"
    );
}

#[test]
fn a_reader_waits_for_writers_until_their_outcome() {
    let prepared = |bugs| {
        let mut stage = Stage::new(bugs);
        stage.work(WRITER, 1, call(Callee::Procedure(OPEN), 7));
        assert!(stage.reads(1, 6), "another key");
        assert!(!stage.reads(2, 7), "an open transaction has written there");
        stage.say(Request::RollBackTo {
            txn: READER,
            age: begun(READER).age,
            number: 3,
            after: 1,
            opened: Some(1),
        });
        stage.bind(WRITER);
        (stage.reads(4, 7), stage)
    };
    let (reads, mut stage) = prepared(PlantedBugs::default());
    assert!(!reads);
    let replies = stage.commit(WRITER);
    assert!(
        replies.iter().any(|reply| matches!(reply, Reply::Worked { number: 4, result: Ok(_), .. })),
        "{replies:?}"
    );
    let bugs = PlantedBugs { intervals_pass_prepared: true, ..PlantedBugs::default() };
    assert!(prepared(bugs).0, "the bug");
}
