//! Large commits at one shard, step by step: how much a step does, what others see and do in between, and what a log has of it.

use weir_core::ids::Sender;
use weir_core::machine::{Durable as _, Pace, Shard as _};
use weir_core::termination::Timeouts;
use weir_types::Value;
use weir_types::memory::WorkingMemory;

use super::*;
use crate::exec::program::Program;
use crate::faults::PlantedBugs;
use crate::message::{Age, Begun, Call, Callee, Work};
use crate::shard::log;

const LOADER: TxnId = TxnId { coordinator: 7, sequence: 1 };
const SECOND: TxnId = TxnId { coordinator: 7, sequence: 2 };
const NOW_MS: u64 = 1_000_000_000;
const SCHEMA: &str = "
CREATE TABLE item (id integer PRIMARY KEY, n integer NOT NULL, more integer NOT NULL);
CREATE INDEX ON item (n);
CREATE TABLE other (id integer PRIMARY KEY, n integer NOT NULL);
CREATE PROCEDURE fill(a integer) LANGUAGE plpgsql AS $$
BEGIN FOR i IN a .. a + 999 LOOP INSERT INTO item VALUES (i, i % 100, 0); END LOOP; END $$;
CREATE PROCEDURE one(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO item VALUES (a, 0, 0); END $$;
CREATE PROCEDURE another(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO other VALUES (a, 0); END $$;
CREATE PROCEDURE raise(a integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE item SET more = more + 1 WHERE id >= a; END $$;
CREATE PROCEDURE raise_one(a integer) LANGUAGE plpgsql AS $$ BEGIN UPDATE item SET more = more + 1 WHERE id = a; END $$;
";
const ITEM: TableId = TableId(0);

struct Unpaced;

impl Pace for Unpaced {
    fn wants_pause(&self) -> bool {
        false
    }

    fn pause(&self) {}
}

/// A shard with a log.
struct Stage {
    node: Node<PlantedBugs>,
    program: Arc<Program>,
    log: Vec<log::Record>,
    /// The disk writes nothing for now.
    is_stuck: bool,
    sequence: u64,
    /// The most rows that one step has put into the table.
    step_rows_max: usize,
}

fn program(shards: ShardId) -> Arc<Program> {
    let mut sources = weir_sql::Sources::default();
    sources.add("schema.sql", SCHEMA);
    let application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    let plan = weir_analysis::analyze(&application).plan;
    Arc::new(Program::compile(&application, &plan, shards).unwrap())
}

impl Stage {
    fn new(bugs: PlantedBugs) -> Stage {
        Stage::from(bugs, Vec::new())
    }

    fn from(bugs: PlantedBugs, log: Vec<log::Record>) -> Stage {
        let program = program(1);
        let mut node = Node::recover(0, program.clone(), bugs, Timeouts::default(), log.iter().cloned());
        node.set_step_budget(Budget(u32::MAX));
        let mut stage = Stage { node, program, log, is_stuck: false, sequence: 0, step_rows_max: 0 };
        stage.sync();
        stage
    }

    fn sync(&mut self) {
        self.log.extend(self.node.take_records());
        if !self.is_stuck {
            let noted = self.node.noted();
            self.node.on_durable(noted);
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Node<PlantedBugs>, &mut Effects)) -> Vec<Reply> {
        let (mut effects, before) = (Effects::default(), self.node.storage.physical_rows(ITEM));
        step(&mut self.node, &mut effects);
        let rows = self.node.storage.physical_rows(ITEM).abs_diff(before);
        self.step_rows_max = self.step_rows_max.max(rows);
        self.sync();
        effects.replies.into_iter().map(|reply| reply.message).collect()
    }

    fn say(&mut self, request: Request) -> Vec<Reply> {
        let from = Sender::Coordinator(request.txn().coordinator);
        self.step(|node, out| node.step(NOW_MS, from, request, out))
    }

    /// Does the work that the steps have left, and what follows.
    fn work(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        for work in self.node.take_work() {
            self.node.end_turn();
            work(Arc::new(Unpaced));
            self.node.begin_turn();
            replies.extend(self.step(|node, out| node.on_work_done(NOW_MS, out)));
        }
        replies
    }

    fn call(&self, procedure: &str, argument: i64) -> Call {
        let callee = Callee::Procedure(self.program.procedure_by_name(procedure).expect("it is there"));
        let (args, memory) = (vec![Value::Int(argument)], WorkingMemory::default());
        Call { callee, args, transaction_time: 0.into(), schema_version: 0, memory }
    }

    /// A statement of a transaction.
    fn within(&mut self, txn: TxnId, number: u32, procedure: &str, argument: i64) -> Vec<Reply> {
        let (call, participants) = (Arc::new(self.call(procedure, argument)), Arc::new([0]));
        let work = Work { number, opened: None, call, participants, answers: Vec::new() };
        self.say(Request::Work { txn, begun: begun(txn), work: Box::new(work) })
    }

    /// A call by itself.
    fn alone(&mut self, procedure: &str, argument: i64) -> Vec<Reply> {
        self.sequence += 1;
        let txn = TxnId { coordinator: 9, sequence: self.sequence };
        let call = Box::new(self.call(procedure, argument));
        self.say(Request::Execute { txn, begun: begun(txn), call, incarnation: None })
    }

    /// A transaction inserts the rows from `first` on, and is to commit.
    fn load(&mut self, txn: TxnId, first: i64, thousands: u32) {
        for number in 1..=thousands {
            let replies = self.within(txn, number, "fill", first + 1_000 * i64::from(number - 1));
            assert!(matches!(replies[..], [Reply::Worked { result: Ok(_), .. }]), "{replies:?}");
        }
    }

    fn finish(&mut self, txn: TxnId) -> Vec<Reply> {
        let (above, opened) = (Timestamp::default(), self.node.participant.incarnation);
        self.say(Request::Finish { txn, begun: begun(txn), participants: [].into(), above, opened })
    }

    fn rows(&self) -> usize {
        self.node.storage.row_counts().next().expect("there is a table")
    }

    /// Works until the transaction is answered; says how many steps it took.
    fn work_until_done(&mut self, txn: TxnId) -> usize {
        for steps in 1..10_000 {
            let replies = self.work();
            if replies.iter().any(|reply| matches!(reply, Reply::Decided { txn: of, .. } if *of == txn)) {
                return steps;
            }
        }
        panic!("its commit does not end")
    }
}

fn begun(txn: TxnId) -> Begun {
    Begun { age: Age { sequence: txn.sequence, coordinator: txn.coordinator }, at_ms: NOW_MS }
}

fn is_done(replies: &[Reply]) -> bool {
    matches!(replies, [Reply::Executed { result: Ok(_), .. }])
}

#[test]
fn a_step_of_a_commit_is_bounded() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.load(LOADER, 0, 8);
    assert!(stage.finish(LOADER).is_empty(), "it is not answered yet");
    assert!(stage.work_until_done(LOADER) >= 8);
    assert_eq!((stage.rows(), stage.step_rows_max), (8_000, SIZES.slice_rows));
    // The control: a driver that runs no work.
    let mut whole = Stage::new(PlantedBugs::default());
    whole.node = Node::recover(0, whole.program.clone(), PlantedBugs::default(), Timeouts::default(), []);
    whole.load(LOADER, 0, 8);
    assert!(matches!(whole.finish(LOADER)[..], [Reply::Decided { .. }]));
    assert_eq!((whole.rows(), whole.step_rows_max), (8_000, 8_000));
}

/// What of a commit in progress is seen: nothing, until all of it is.
#[test]
fn others_go_on_beside_a_commit() {
    let mut stage = Stage::new(PlantedBugs::default());
    assert!(is_done(&stage.alone("one", -1)));
    stage.load(LOADER, 0, 5);
    stage.finish(LOADER);
    stage.work();
    stage.work();
    assert!(stage.node.storage.physical_rows(ITEM) > 1_000, "it is under way");
    assert_eq!(stage.rows(), 1);
    assert!(is_done(&stage.alone("another", 1)), "another table");
    assert!(is_done(&stage.alone("one", -2)), "another row of the table");
    assert!(is_done(&stage.alone("raise_one", -1)));
    assert!(is_done(&stage.alone("raise_one", 17)), "it is not there for others");
    let waits = stage.alone("one", 17);
    assert!(!waits.iter().any(|reply| matches!(reply, Reply::Executed { .. })), "its key is held: {waits:?}");
    let waits = stage.alone("one", 4_999);
    assert!(!waits.iter().any(|reply| matches!(reply, Reply::Executed { .. })), "{waits:?}");
    stage.work_until_done(LOADER);
    assert_eq!(stage.rows(), 5_002);
    // Recovered, it is the same.
    let again = Stage::from(PlantedBugs::default(), stage.log.clone());
    assert_eq!(again.rows(), 5_002);
    assert_eq!(again.node.storage.fingerprint(ITEM), stage.node.storage.fingerprint(ITEM));
}

/// Updates of rows that keep their keys go ahead, too.
#[test]
fn changed_rows_are_seen_as_they_were() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.load(LOADER, 0, 3);
    stage.finish(LOADER);
    stage.work_until_done(LOADER);
    let before = stage.node.storage.fingerprint(ITEM);
    let replies = stage.within(SECOND, 1, "raise", 0);
    assert!(matches!(replies[..], [Reply::Worked { result: Ok(_), .. }]), "{replies:?}");
    stage.finish(SECOND);
    stage.work();
    stage.work();
    assert_eq!(stage.node.storage.fingerprint(ITEM), before);
    stage.work_until_done(SECOND);
    assert_ne!(stage.node.storage.fingerprint(ITEM), before);
    let again = Stage::from(PlantedBugs::default(), stage.log.clone());
    assert_eq!(again.node.storage.fingerprint(ITEM), stage.node.storage.fingerprint(ITEM));
}

/// Records of a commit that has not come to its end.
fn crashed(bugs: PlantedBugs) -> (Stage, usize) {
    let mut stage = Stage::new(PlantedBugs::default());
    assert!(is_done(&stage.alone("one", -1)));
    stage.load(LOADER, 0, 5);
    stage.finish(LOADER);
    (0..3).for_each(|_| drop(stage.work()));
    let rows = stage.log.iter().filter(|record| matches!(record, log::Record::Rows { .. })).count();
    assert!((2..5).contains(&rows), "{rows}");
    let again = Stage::from(bugs, stage.log);
    let rows = again.rows();
    (again, rows)
}

#[test]
fn a_crash_within_a_commit_leaves_nothing_of_it() {
    let (mut stage, rows) = crashed(PlantedBugs::default());
    assert_eq!(rows, 1);
    // The same keys are free, and so are the slots.
    stage.load(SECOND, 0, 5);
    stage.finish(SECOND);
    stage.work_until_done(SECOND);
    assert_eq!(Stage::from(PlantedBugs::default(), stage.log).rows(), 5_001);
    let (_, rows) = crashed(PlantedBugs { recovery_counts_unfinished: true, ..PlantedBugs::default() });
    assert!(rows > 1_000, "the planted bug");
}

#[test]
fn one_commit_follows_another() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.load(LOADER, 0, 3);
    stage.load(SECOND, 10_000, 3);
    stage.finish(LOADER);
    assert!(stage.finish(SECOND).is_empty());
    stage.work_until_done(LOADER);
    assert_eq!(stage.rows(), 3_000);
    stage.work_until_done(SECOND);
    assert_eq!((stage.rows(), stage.step_rows_max), (6_000, SIZES.slice_rows));
    assert!(stage.node.is_idle());
}

/// A request that comes again waits for the end, and is answered.
#[test]
fn a_repeated_request_is_answered_at_the_end() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.load(LOADER, 0, 3);
    stage.finish(LOADER);
    stage.work();
    assert!(stage.finish(LOADER).is_empty());
    let mut replies = Vec::new();
    (0..10).for_each(|_| replies.extend(stage.work()));
    assert!(matches!(replies[..], [Reply::Decided { .. }, Reply::Decided { .. }]), "{replies:?}");
}

/// A transaction that is prepared, of several shards.
#[test]
fn a_prepared_transaction_commits_in_slices() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.load(LOADER, 0, 4);
    let (participants, opened): (Arc<[ShardId]>, _) = ([0, 1].into(), stage.node.participant.incarnation);
    stage.say(Request::Bind { txn: LOADER, begun: begun(LOADER), participants, opened });
    let timestamp = Timestamp { clock: stage.node.last_clock() + 1, node: 1 };
    stage.step_rows_max = 0;
    assert!(stage.say(Request::Commit { txn: LOADER, timestamp }).is_empty());
    stage.work();
    stage.work();
    assert_eq!(stage.rows(), 0);
    let crashed = Stage::from(PlantedBugs::default(), stage.log.clone());
    let mut replies = Vec::new();
    (0..10).for_each(|_| replies.extend(stage.work()));
    assert!(matches!(replies[..], [Reply::Committed { .. }]), "{replies:?}");
    assert_eq!((stage.rows(), stage.step_rows_max), (4_000, SIZES.slice_rows));
    // After a crash it is prepared, and commits as a whole.
    for mut stage in [crashed, Stage::from(PlantedBugs::default(), stage.log)] {
        let replies = stage.say(Request::Commit { txn: LOADER, timestamp });
        assert!(matches!(replies[..], [Reply::Committed { .. }]), "{replies:?}");
        assert_eq!(Stage::from(PlantedBugs::default(), stage.log).rows(), 4_000);
    }
}

/// Slices wait for the disk, and a snapshot of the log for the commit.
#[test]
fn a_commit_does_not_run_ahead_of_the_disk() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.load(LOADER, 0, 20);
    stage.is_stuck = true;
    stage.finish(LOADER);
    (0..40).for_each(|_| assert!(stage.work().is_empty()));
    assert_eq!(stage.node.storage.physical_rows(ITEM), UNSYNCED_MAX * SIZES.slice_rows);
    assert!(!stage.node.may_snapshot());
    stage.is_stuck = false;
    stage.sync();
    stage.work_until_done(LOADER);
    assert!(stage.node.may_snapshot());
    assert_eq!(stage.rows(), 20_000);
}

/// A transaction whose participants ask for it, or that is dropped.
#[test]
fn a_commit_ends_at_once_for_who_asks() {
    for asks in [true, false] {
        let mut stage = Stage::new(PlantedBugs::default());
        assert!(is_done(&stage.alone("one", -1)));
        stage.load(LOADER, 0, 4);
        stage.finish(LOADER);
        stage.work();
        if asks {
            let fate = weir_core::termination::Fate::Prepared { clock: 1 };
            let asked = Request::saying(Word::Ask { txn: LOADER, fate });
            stage.step(|node, out| node.step(NOW_MS, Sender::Shard(1), asked, out));
            assert_eq!(stage.rows(), 4_001);
        } else {
            stage.node.drop_open(LOADER);
            assert_eq!((stage.rows(), stage.node.storage.physical_rows(ITEM)), (1, 1));
        }
        (0..10).for_each(|_| drop(stage.work()));
        stage.node.storage.check_indexes().unwrap();
        assert!(stage.node.is_idle());
    }
}
