//! Which log position each message of a step waits for (soundness S16).

use std::sync::Arc;

use weir_core::ids::{Sender, ShardId, TxnId};
use weir_core::lsn::{Lsn, Outgoing};
use weir_core::machine::{Durable as _, Effects, Shard as _};
use weir_core::termination::Timeouts;
use weir_sql::catalog::TableId;
use weir_txn::exec::fetch::fetch;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Age, Begun, ReadQuery, Reply, Request, TableRead, Work};
use weir_txn::shard::Node;
use weir_txn::storage::Rows;
use weir_types::Value;

use crate::calls::{self, call};

const NOW_MS: u64 = 1_000_000_000;
const ACCOUNT: TableId = TableId(0);
const OPEN: usize = 0;
const TOUCH: usize = 1;
/// The record of the shard's start.
const STARTED: Lsn = Lsn(1);

const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a, 0); END $$;
CREATE PROCEDURE touch(a integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE account SET balance = 1 WHERE id = a; END $$;
";

fn txn(coordinator: u64, sequence: u64) -> TxnId {
    TxnId { coordinator, sequence }
}

fn begun(txn: TxnId) -> Begun {
    let TxnId { coordinator, sequence } = txn;
    Begun { age: Age { sequence, coordinator }, at_ms: NOW_MS }
}

/// A shard with a log of which nothing is durable but its start.
struct Stage {
    shard: Node<PlantedBugs>,
}

impl Stage {
    fn new(bugs: PlantedBugs) -> Stage {
        let program = calls::program(&calls::application(ACCOUNTS), 1);
        let mut shard = Node::recover(0, program, bugs, Timeouts::default(), []);
        assert_eq!(shard.take_records().len(), 1);
        shard.on_durable(STARTED);
        Stage { shard }
    }

    fn say(&mut self, request: Request) -> Vec<Outgoing<u64, Reply>> {
        let (mut effects, from) = (Effects::default(), Sender::Coordinator(request.txn().coordinator));
        self.shard.step(NOW_MS, from, request, &mut effects);
        effects.replies
    }

    /// Commits a call; gives the position of its record.
    fn execute(&mut self, txn: TxnId, procedure: usize) -> Lsn {
        let call = Box::new(call(procedure, &[1]));
        match &self.say(Request::Execute { txn, begun: begun(txn), call, incarnation: None })[..] {
            [Outgoing { message: Reply::Executed { result: Ok(_), .. }, after, .. }] => *after,
            other => panic!("{other:?}"),
        }
    }

    /// The balance of the account, as a look-up gives it, and the record that it depends on.
    fn look_up(&mut self, schema_version: u64) -> Option<(i64, Lsn)> {
        let account = TableRead { table: ACCOUNT, equals: Vec::new(), joined: None };
        let query = ReadQuery { tables: vec![account], parts: None, schema_version };
        let look = |_: &Program, rows: &dyn Rows| Ok(fetch(rows, &query)?.0.remove(0));
        let (rows, after) = self.shard.look_up(schema_version, look)?;
        let [row] = &rows[..] else { panic!("{rows:?}") };
        let Some(Value::Int(balance)) = row.last() else { panic!("{row:?}") };
        Some((*balance, after))
    }

    fn work(&mut self, txn: TxnId) -> Vec<Outgoing<u64, Reply>> {
        let (call, participants): (_, Arc<[ShardId]>) = (Arc::new(call(TOUCH, &[1])), Arc::new([0]));
        let work = Work { number: 1, opened: None, call, participants, answers: Vec::new() };
        self.say(Request::Work { txn, begun: begun(txn), work: Box::new(work) })
    }
}

/// A statement that has waited goes on in the step that ends the transaction before it. Its answer shows rows that are durable, and so
/// does not wait for the record of that end, for which the other reply of the step waits.
#[test]
fn replies_of_one_step_wait_for_positions_of_their_own() {
    let mut stage = Stage::new(PlantedBugs::default());
    let opened = stage.execute(txn(1, 1), OPEN);
    assert_eq!(opened, STARTED.plus(1));
    stage.shard.on_durable(opened);
    let [Outgoing { message: Reply::Worked { .. }, after: Lsn::START, .. }] = stage.work(txn(2, 1))[..]
    else {
        panic!("what it has read is durable");
    };
    let [Outgoing { message: Reply::Waits { .. }, .. }] = stage.work(txn(3, 1))[..] else {
        panic!("the row is held");
    };
    let replies = stage.say(Request::Abort { txn: txn(2, 1) });
    let ([Outgoing { to: 2, message: Reply::Aborted { .. }, after }, worked], ..) = replies.split_at(2)
    else {
        panic!("{replies:?}");
    };
    assert_eq!(*after, opened.plus(1));
    assert!(matches!(worked, Outgoing { to: 3, message: Reply::Worked { .. }, after: Lsn::START }));
}

/// An answer waits until the rows that its statement has read are durable; with the planted bug it does not.
#[test]
fn an_answer_waits_for_the_rows_that_it_shows() {
    for ignores_read_dependencies in [false, true] {
        let bugs = PlantedBugs { ignores_read_dependencies, ..PlantedBugs::default() };
        let mut stage = Stage::new(bugs);
        let opened = stage.execute(txn(1, 1), OPEN);
        stage.execute(txn(1, 2), TOUCH);
        stage.shard.on_durable(opened);
        let account = TableRead { table: ACCOUNT, equals: Vec::new(), joined: None };
        let query = Arc::new(ReadQuery { tables: vec![account], parts: None, schema_version: 0 });
        let read = |session| Request::Read { read: txn(2, 1), session, query: query.clone(), within: None };
        let [Outgoing { message: Reply::ReadAgain { session, .. }, after: Lsn::START, .. }] =
            stage.say(read(0))[..]
        else {
            panic!("that a reader is unknown depends on no record");
        };
        let expected = if ignores_read_dependencies { Lsn::START } else { opened.plus(1) };
        let replies = stage.say(read(session));
        assert!(
            matches!(&replies[..], [Outgoing { message: Reply::ReadRows { .. }, after, .. }] if *after == expected),
            "{replies:?}"
        );
    }
}

/// A look-up depends on the rows that it shows, as an answer does, and shows committed ones alone; with the planted bug it depends on
/// nothing.
#[test]
fn a_look_up_depends_on_the_rows_that_it_shows() {
    for ignores_read_dependencies in [false, true] {
        let bugs = PlantedBugs { ignores_read_dependencies, ..PlantedBugs::default() };
        let mut stage = Stage::new(bugs);
        let opened = stage.execute(txn(1, 1), OPEN);
        let expected = if ignores_read_dependencies { Lsn::START } else { opened };
        assert_eq!(stage.look_up(0), Some((0, expected)));
        stage.shard.on_durable(opened);
        assert_eq!(stage.look_up(0), Some((0, Lsn::START)));
        let [Outgoing { message: Reply::Worked { .. }, .. }] = stage.work(txn(2, 1))[..] else {
            panic!("nobody holds the row");
        };
        assert_eq!(stage.look_up(0), Some((0, Lsn::START)), "the write has not committed");
        assert_eq!(stage.look_up(1), None, "that schema version is not in place");
    }
}

/// Where a look-up could miss what another shard has committed, or not be told until a snapshot is taken, it is refused.
#[test]
fn a_look_up_is_of_the_only_shard() {
    let program = calls::program(&calls::application(ACCOUNTS), 2);
    let mut shard = Node::recover(0, program, PlantedBugs::default(), Timeouts::default(), []);
    assert_eq!(shard.look_up(0, |_, _| Ok(Vec::new())), None);
    let mut stage = Stage::new(PlantedBugs::default());
    assert!(stage.shard.look_up(0, |_, _| Ok(Vec::new())).is_some());
    let read = |session| Request::OpenSnapshot { read: txn(3, 1), session, schema_version: 0 };
    let [Outgoing { message: Reply::ReadAgain { session, .. }, .. }] = stage.say(read(0))[..] else {
        panic!("the reader is unknown");
    };
    stage.say(read(session));
    assert_eq!(stage.shard.look_up(0, |_, _| Ok(Vec::new())), None, "replies are held back");
}

/// Rows that are loaded before the first step are in a snapshot, which replaces the records noted so far.
#[test]
fn no_reply_waits_for_a_record_that_a_snapshot_replaces() {
    let mut stage = Stage::new(PlantedBugs::default());
    stage.shard.load(ACCOUNT, &[Value::Int(2), Value::Int(0)]).unwrap();
    let after = stage.execute(txn(1, 1), OPEN);
    assert_eq!(after, STARTED.plus(stage.shard.take_records().len()));
    let after = stage.execute(txn(1, 2), TOUCH);
    assert_eq!(after, STARTED.plus(1).plus(stage.shard.take_records().len()));
}
