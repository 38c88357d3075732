//! The bytes of log records: those that builds before the transaction core have written, and read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::machine::{Durable as _, Effects, Shard as _};
use weir_core::termination::Timeouts;
use weir_sql::catalog::TableId;
use weir_txn::exec::sequences::Sequences;
use weir_txn::message::{Age, Begun, Progress, Reply, Request};
use weir_txn::shard::log::{LoggedCommit, LoggedPrepared, Snapshot};
use weir_txn::shard::{Node, Record};
use weir_txn::storage::SavedRows;
use weir_types::Value;

use crate::calls::{self, call};

const SHARDS: ShardId = 2;
const NOW_MS: u64 = 1_000_000_000;

const ACCOUNTS: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE PROCEDURE open(a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO account VALUES (a, 0); END $$;
CREATE PROCEDURE transfer(a integer, b integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - 1 WHERE id = a;
    UPDATE account SET balance = balance + 1 WHERE id = b;
END $$;
";

/// Records as they were declared before the core was: the order of variants and fields is the format.
#[derive(Serialize, Deserialize)]
enum Before {
    Started { incarnation: u64 },
    Prepared { txn: TxnId, prepared: Box<LoggedPrepared>, sequences: Option<Box<Sequences>> },
    Committed(Box<LoggedCommit>),
    Refused { txn: TxnId, reply: Option<Box<Reply>> },
    Retired { coordinator: CoordinatorId },
    Snapshot(Box<Snapshot>),
    Rows(Box<SavedRows>),
}

impl Before {
    fn name(&self) -> &'static str {
        match self {
            Before::Started { .. } => "started",
            Before::Prepared { .. } => "prepared",
            Before::Committed(_) => "committed",
            Before::Refused { .. } => "refused",
            Before::Retired { .. } => "retired",
            Before::Snapshot(_) => "snapshot",
            Before::Rows(_) => "rows",
        }
    }
}

fn txn(sequence: u64) -> TxnId {
    TxnId { coordinator: 7, sequence }
}

fn begun(sequence: u64) -> Begun {
    Begun { age: Age { sequence, coordinator: 7 }, at_ms: NOW_MS }
}

fn say(shard: &mut Node, request: Request) {
    let mut effects = Effects::default();
    shard.on_progress(NOW_MS, 7, Progress { settled_below: 0, drained: 0 });
    shard.step(NOW_MS, Sender::Coordinator(7), request, &mut effects);
}

/// One record of each kind, at least.
fn records() -> Vec<Record> {
    let program = calls::program(&calls::application(ACCOUNTS), SHARDS);
    let home = |id: i64| program.home(TableId(0), &|_| Value::Int(id)).expect("accounts have one home");
    let of = |shard: ShardId| (1..).find(|id| home(*id) == shard).expect("both shards have accounts");
    let (own, other) = (of(0), of(1));
    let timeouts = Timeouts { terminate_ms: 100, retire_ms: 200 };
    let mut shard: Node = Node::recover(0, program.clone(), Default::default(), timeouts, []);
    say(
        &mut shard,
        Request::Execute { txn: txn(1), begun: begun(1), call: Box::new(call(0, &[own])), incarnation: None },
    );
    for sequence in [2, 3] {
        let (call, participants) = (Arc::new(call(1, &[own, other])), Arc::new([0, 1]));
        say(&mut shard, Request::Prepare { txn: txn(sequence), begun: begun(sequence), call, participants });
    }
    let timestamp = weir_core::ids::Timestamp { clock: NOW_MS << 16, node: 1 };
    say(&mut shard, Request::Commit { txn: txn(2), timestamp });
    say(&mut shard, Request::Abort { txn: txn(3) });
    say(&mut shard, Request::Abort { txn: txn(4) });
    let mut records = shard.take_records();
    records.push(shard.snapshot());
    let mut is_first = true;
    while let Some((record, goes_on)) = shard.snapshot_part(is_first, 1 << 20) {
        records.push(record);
        is_first = false;
        if !goes_on {
            break;
        }
    }
    // The coordinator has nothing left on a shard that has seen its watermark, and is then silent.
    let progress = Progress { settled_below: 5, drained: u64::MAX };
    shard.on_progress(NOW_MS, 7, progress);
    for tick in 0..10 {
        shard.on_timer(NOW_MS + tick * 100, &mut Effects::default());
    }
    records.extend(shard.take_records());
    records
}

#[test]
fn records_are_stored_as_before() {
    let mut seen = std::collections::BTreeSet::new();
    for record in records() {
        let bytes = postcard::to_allocvec(&record).unwrap();
        let (before, rest) = postcard::take_from_bytes::<Before>(&bytes).unwrap();
        assert!(rest.is_empty(), "{record:?}");
        assert_eq!(postcard::to_allocvec(&before).unwrap(), bytes, "{record:?}");
        let again: Record = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(format!("{again:?}"), format!("{record:?}"));
        seen.insert(before.name());
    }
    let all = ["committed", "prepared", "refused", "retired", "rows", "snapshot", "started"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}
