//! What coordinators and shards of RAMP over items say to each other (ramp.txt, Algorithms 1 to 3).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use thin_vec::ThinVec;

use super::bytes::{Bytes, Key};
use super::metadata::{Metadata, Sketch};
use super::write::Write;
use crate::ramp::{ShardId, TxnId};
pub use crate::termination::Fate;

/// A transaction's place in the order of writes to an item: the clock that was bound at commit (S9), then
/// the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    pub keys: ThinVec<Key>,
    pub ranges: ThinVec<KeyRange>,
}

/// The shards that a transaction writes on, in place: several threads keep them.
pub type Shards = SmallVec<[ShardId; 8]>;

pub type Writes = Arc<[(Key, Write)]>;

/// What one part of a transaction over several shards knows of the whole, the same for all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Siblings {
    pub metadata: Metadata,
    /// Of all its keys, on all shards.
    pub written: Sketch,
    /// For termination (ramp.txt §4.6).
    pub participants: Shards,
}

/// A condition of a write, decided by the shard of the item: the item is still as the writer has seen it, everybody sees it
/// so, and nobody else is about to change it under a guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    pub key: Key,
    pub seen: Stamp,
    /// It was absent, since whichever deletion.
    pub absent: bool,
}

/// Small, with thin vectors where there is nearly never anything: a batch of requests is copied from place to place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// The only participant: prepare and commit in one message.
    Write {
        txn: TxnId,
        writes: Writes,
        /// What the coordinator's clock showed when the transaction began.
        begun_ms: u64,
        guards: ThinVec<Guard>,
    },
    Prepare {
        txn: TxnId,
        writes: Writes,
        siblings: Arc<Siblings>,
        begun_ms: u64,
        guards: ThinVec<Guard>,
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
        /// Of what it reads on other shards.
        elsewhere: Sketch,
        stamps_only: bool,
        naming: ThinVec<Stamp>,
    },
    /// Round two (S5): exactly the state at `position` plus the named transactions.
    GetAt {
        read: u64,
        session: u64,
        wanted: Wanted,
        position: Position,
        naming: ThinVec<Stamp>,
    },
    /// A transaction of several statements begins: which state of the shard is it to read? All that is not drained is
    /// told, so that the cut is the same everywhere. `naming`: as with `Get`.
    Open {
        read: u64,
        session: u64,
        naming: ThinVec<Stamp>,
    },
    /// One participant asks another what has become of a transaction whose coordinator is silent, and says what
    /// it knows itself (termination).
    Ask {
        txn: TxnId,
        fate: Fate,
    },
    /// The answer.
    Tell {
        txn: TxnId,
        fate: Fate,
    },
}

/// An item as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRead {
    pub value: Option<Bytes>,
    /// Of the newest write that the value contains.
    pub stamp: Stamp,
}

impl ItemRead {
    /// Nobody has written it.
    pub const ABSENT: ItemRead = ItemRead { value: None, stamp: Stamp::NONE };
}

/// What a reader has to know of an answer to tell which writes are in it; nearly always nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The value is made of several writes, so a newer stamp does not mean that it contains an older one.
    pub merged: bool,
    /// Writes that it contains, that may not be everywhere yet, and that may be in what is read elsewhere. An answer has the
    /// metadata of each transaction once; where else it is named, only its stamp.
    pub unsettled: SmallVec<[Unsettled; 1]>,
}

impl Note {
    pub fn is_empty(&self) -> bool {
        !self.merged && self.unsettled.is_empty()
    }
}

/// An item of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub item: ItemRead,
    pub note: Note,
}

/// A transaction, and the shards that it writes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participants {
    pub stamp: Stamp,
    pub shards: Shards,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
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

#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// A guard does not hold: the shard has promised that this transaction will never commit.
    Changed {
        txn: TxnId,
        shard: ShardId,
    },
    /// The coordinator was silent for so long that its shards have forgotten it: it must not write any more, and what
    /// it has under way may have committed or not. Whoever drives it begins a new one, under a new id.
    Retired {
        shard: ShardId,
    },
    Committed {
        txn: TxnId,
        shard: ShardId,
    },
    /// What RAMP-Small wants of round one: the transactions in it that may not be everywhere yet, each once.
    Told {
        read: u64,
        shard: ShardId,
        position: Position,
        stamps: Vec<Stamp>,
    },
    /// By key, with notes by place where there is something to note; then by range: keys in order, with items
    /// that are absent for a transaction that may not be everywhere yet.
    Got {
        read: u64,
        shard: ShardId,
        /// 1 for an answer to `Get`, 2 to `GetAt`.
        round: u32,
        position: Position,
        items: ThinVec<ItemRead>,
        notes: ThinVec<(u32, Note)>,
        ranges: ThinVec<Vec<(Key, Answer)>>,
    },
    /// The answer to `Open`: the transactions over several shards that are committed here and not drained.
    Opened {
        read: u64,
        shard: ShardId,
        position: Position,
        undrained: Vec<Participants>,
    },
    /// The shard does not know this reader, or has let it go: begin again, with this session.
    Again {
        read: u64,
        shard: ShardId,
        session: u64,
    },
    /// What was asked for is there, and is too much for one message.
    TooLarge {
        read: u64,
        shard: ShardId,
    },
}

/// What each batch of requests says of its coordinator.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
