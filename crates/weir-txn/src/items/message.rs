//! What coordinators and shards of RAMP over items say to each other (ramp.txt, Algorithms 1 to 3).

use std::sync::Arc;

use super::bytes::{Bytes, Key};
use super::metadata::Metadata;
use super::write::Write;
use crate::ramp::{ShardId, TxnId};

/// A transaction's place in the order of writes to an item: the clock that was bound at commit (S9), then
/// the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    pub clock: u64,
    pub txn: TxnId,
}

impl Stamp {
    /// Of an item that nobody has written: older than every write.
    pub const NONE: Stamp = Stamp { clock: 0, txn: TxnId { coordinator: 0, sequence: 0 } };
}

/// A shard's count of its commits.
pub type Position = u64;

/// Keys from `from` on and before `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub from: Key,
    pub to: Key,
}

impl KeyRange {
    pub fn contains(&self, key: &Key) -> bool {
        self.from <= *key && *key < self.to
    }
}

/// What a read wants of one shard.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub keys: Vec<Key>,
    pub ranges: Vec<KeyRange>,
}

pub type Writes = Arc<[(Key, Write)]>;

#[derive(Clone, Debug)]
pub enum Request {
    /// The only participant: prepare and commit in one message.
    Write {
        txn: TxnId,
        writes: Writes,
    },
    Prepare {
        txn: TxnId,
        writes: Writes,
        /// For termination (ramp.txt §4.6).
        participants: Arc<[ShardId]>,
        metadata: Metadata,
    },
    Commit {
        stamp: Stamp,
    },
    Abort {
        txn: TxnId,
    },
    /// Round one. `session`: what the reader knew when it began. `naming`: transactions of its own that it must see.
    Get {
        read: u64,
        session: u64,
        wanted: Wanted,
        stamps_only: bool,
        naming: Vec<Stamp>,
    },
    /// Round two (S5): exactly the state at `position` plus the named transactions.
    GetAt {
        read: u64,
        session: u64,
        wanted: Wanted,
        position: Position,
        naming: Vec<Stamp>,
    },
}

/// What is read of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// None for an absent item, and where only stamps were asked for.
    pub value: Option<Bytes>,
    /// Of the newest write that the value contains.
    pub stamp: Stamp,
    /// The value is made of several writes, so a newer stamp does not mean that it contains an older one.
    pub merged: bool,
    /// Writes that it contains and that may not be everywhere yet.
    pub unsettled: Vec<Unsettled>,
}

#[derive(Clone, Debug)]
pub struct Unsettled {
    pub stamp: Stamp,
    pub metadata: Metadata,
}

impl PartialEq for Unsettled {
    fn eq(&self, other: &Unsettled) -> bool {
        self.stamp == other.stamp
    }
}

impl Eq for Unsettled {}

#[derive(Clone, Debug)]
pub enum Reply {
    Written {
        stamp: Stamp,
    },
    Prepared {
        txn: TxnId,
        shard: ShardId,
        clock: u64,
    },
    /// The shard has promised that this transaction will never commit.
    Refused {
        txn: TxnId,
        shard: ShardId,
    },
    Committed {
        txn: TxnId,
        shard: ShardId,
    },
    /// By key, then by range: keys in order, with items that are absent for a transaction that may not be
    /// everywhere yet.
    Got {
        read: u64,
        shard: ShardId,
        /// 1 for an answer to `Get`, 2 to `GetAt`.
        round: u32,
        position: Position,
        answers: Vec<Answer>,
        ranges: Vec<Vec<(Key, Answer)>>,
    },
    /// The shard does not know this reader, or has let it go: begin again, with this session.
    Again {
        read: u64,
        shard: ShardId,
        session: u64,
    },
}

/// What each batch of requests says of its coordinator.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// All its transactions below are over everywhere: what comes again is dropped.
    pub below: u64,
    /// Its transactions that all participants have committed since it last said so; only those that wrote here.
    pub settled: Vec<u64>,
    /// All its reads that were active when it saw this drain epoch have ended.
    pub drained: u64,
    /// The highest clock that it knows.
    pub clock: u64,
}
