//! Repetitions that arrive too late: an interactive transaction that is prepared or has committed is not undone, and no client is told
//! that it had no effect.

use std::sync::Arc;

use weir_core::ids::{Sender, ShardId, Timestamp, TxnId};
use weir_core::machine::{Effects, Shard};
use weir_core::termination::Timeouts;
use weir_sql::catalog::TableId;
use weir_txn::faults::NoFaults;
use weir_txn::message::{Age, Begun, Call, ReadQuery, Reply, Request, TableRead, Work};
use weir_txn::shard::Node;

use crate::calls::{self, call};

const COORDINATOR: u64 = 7;
const NOW_MS: u64 = 1_000_000_000;
const TXN: TxnId = TxnId { coordinator: COORDINATOR, sequence: 1 };
const AGE: Age = Age { sequence: 1, coordinator: COORDINATOR };
const BEGUN: Begun = Begun { age: AGE, at_ms: NOW_MS };
const ACCOUNT: TableId = TableId(0);

const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a); END $$;
";

/// One of two shards, and an account that lives there.
struct Stage {
    shard: Node,
    account: i64,
}

impl Stage {
    fn new() -> Stage {
        let program = calls::program(&calls::application(ACCOUNTS), 2);
        let is_here = |account: &i64| program.participants(&open(*account)).unwrap()[..] == [0];
        let account = (0..).find(is_here).unwrap();
        let shard = Node::recover(0, program.clone(), NoFaults, Timeouts::default(), []);
        Stage { shard, account }
    }

    fn say(&mut self, request: Request) -> Vec<Reply> {
        let mut effects = Effects::default();
        self.shard.step(NOW_MS, Sender::Coordinator(COORDINATOR), request, &mut effects);
        let refusal = effects.replies.iter().find(|reply| matches!(reply.message, Reply::Refused { .. }));
        assert!(refusal.is_none(), "{refusal:?}");
        effects.replies.into_iter().map(|reply| reply.message).collect()
    }

    /// One statement; gives how often the shard has started.
    fn work(&mut self) -> u64 {
        let call = Arc::new(open(self.account));
        let participants: Arc<[ShardId]> = Arc::new([0]);
        let work = Work { number: 1, opened: None, call, participants, answers: Vec::new() };
        match &self.say(Request::Work { txn: TXN, begun: BEGUN, work: Box::new(work) })[..] {
            [Reply::Worked { incarnation, result: Ok(_), .. }] => *incarnation,
            other => panic!("{other:?}"),
        }
    }
}

fn open(account: i64) -> Call {
    call(0, &[account])
}

#[test]
fn a_roll_back_to_a_savepoint_takes_nothing_of_what_is_bound() {
    let mut stage = Stage::new();
    let opened = stage.work();
    let back = Request::RollBackTo { txn: TXN, age: AGE, number: 2, after: 1, opened: Some(opened) };
    stage.say(back.clone());
    stage.say(Request::Bind { txn: TXN, begun: BEGUN, participants: Arc::new([0, 1]), opened });
    stage.say(back);
    stage.say(Request::Commit { txn: TXN, timestamp: Timestamp { clock: u64::MAX >> 8, node: 1 } });
    assert_eq!(stage.shard.storage.row_counts().next(), Some(1));
}

#[test]
fn a_read_within_what_has_committed_or_is_bound_is_not_answered() {
    for is_bound in [false, true] {
        let mut stage = Stage::new();
        let opened = stage.work();
        let account = TableRead { table: ACCOUNT, equals: Vec::new(), joined: None };
        let query = Arc::new(ReadQuery { tables: vec![account], parts: None, schema_version: 0 });
        let read = |session| Request::Read {
            read: TxnId { sequence: 2, ..TXN },
            session,
            query: query.clone(),
            within: Some((TXN, opened)),
        };
        let [Reply::ReadAgain { session, .. }] = stage.say(read(0))[..] else { panic!("it is known") };
        assert!(matches!(&stage.say(read(session))[..], [Reply::ReadRows { .. }]));
        let (participants, above): (Arc<[ShardId]>, _) = (Arc::new([]), Timestamp::default());
        stage.say(match is_bound {
            true => Request::Bind { txn: TXN, begun: BEGUN, participants: Arc::new([0, 1]), opened },
            false => Request::Finish { txn: TXN, begun: BEGUN, participants, above, opened },
        });
        assert!(stage.say(read(session)).is_empty());
    }
}
