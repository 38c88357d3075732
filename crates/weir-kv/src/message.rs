//! Messages between coordinators and shards of RAMP over items (ramp.txt, Algorithms 1 to 3).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use thin_vec::ThinVec;
use weir_core::ids::{ShardId, TxnId};

use super::bytes::{Bytes, Key};
use super::metadata::{Metadata, Sketch};
use super::write::Write;
pub use weir_core::termination::Fate;

/// Position of a transaction in the order of writes to an item: the clock assigned at commit (S9), then the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    pub clock: u64,
    pub txn: TxnId,
}

impl Stamp {
    /// Stamp of an item without writes: older than every write.
    pub const NONE: Stamp = Stamp { clock: 0, txn: TxnId { coordinator: 0, sequence: 0 } };
}

/// Number of commits of a shard.
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

/// Part of a read on one shard.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wanted {
    pub keys: ThinVec<Key>,
    pub ranges: ThinVec<KeyRange>,
}

/// Shards that a transaction writes on; stored inline, because several threads keep copies.
pub type Shards = SmallVec<[ShardId; 8]>;

pub type Writes = Arc<[(Key, Write)]>;

/// Description of a multi-shard transaction, the same for all of its parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Siblings {
    pub metadata: Metadata,
    /// Sketch of all its keys, on all shards.
    pub written: Sketch,
    /// For termination (ramp.txt §4.6).
    pub participants: Shards,
}

/// Condition of a write, checked by the shard of the item: the item has not changed since the writer read it, its last write is visible
/// everywhere, and no other transaction has prepared a guarded write of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    pub key: Key,
    pub seen: Stamp,
    /// The item was absent, whichever transaction deleted it.
    pub absent: bool,
}

/// Kept small, with thin vectors for fields that are nearly always empty: batches of requests are moved often.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// To the only participant: prepares and commits in one message.
    Write {
        txn: TxnId,
        writes: Writes,
        /// Coordinator's clock when the transaction began.
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
    /// Round one. `session`: under which the reader is registered. `naming`: own transactions that the read must see.
    Get {
        read: u64,
        session: u64,
        wanted: Wanted,
        /// Sketch of the keys that it reads on other shards.
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
    /// Opens an interactive transaction: asks for the shard's position. The answer names all undrained transactions, so that the cut is
    /// consistent. `naming`: as in `Get`.
    Open {
        read: u64,
        session: u64,
        naming: ThinVec<Stamp>,
    },
    /// A participant asks another one for the outcome of a transaction whose coordinator is silent, and reports its own state
    /// (termination).
    Ask {
        txn: TxnId,
        fate: Fate,
    },
    /// Reply to `Ask`.
    Tell {
        txn: TxnId,
        fate: Fate,
    },
}

/// Value of an item at a read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRead {
    pub value: Option<Bytes>,
    /// Stamp of the newest write in the value.
    pub stamp: Stamp,
}

impl ItemRead {
    /// An item without writes.
    pub const ABSENT: ItemRead = ItemRead { value: None, stamp: Stamp::NONE };
}

/// Metadata of a read item from which the reader determines which writes it contains; nearly always empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The value combines several writes, so a newer stamp does not imply that it contains an older write.
    pub merged: bool,
    /// Contained writes that may not be on all shards yet and may concern items read elsewhere. An answer contains the metadata of each
    /// transaction once; further occurrences have only the stamp.
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
    /// The coordinator was silent for so long that the shards have forgotten it: its writes are rejected, and the outcome of its
    /// transactions in flight is unknown. Its driver begins a new coordinator under a new id.
    Retired {
        shard: ShardId,
    },
    Committed {
        txn: TxnId,
        shard: ShardId,
    },
    /// Round one of RAMP-Small: undrained transactions of the read items, each once.
    Told {
        read: u64,
        shard: ShardId,
        position: Position,
        stamps: Vec<Stamp>,
    },
    /// By key, with notes by position where there are any; then by range: items in key order, including items that are absent because of
    /// an undrained deletion.
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
    /// Reply to `Open`: multi-shard transactions that are committed here and not drained.
    Opened {
        read: u64,
        shard: ShardId,
        position: Position,
        undrained: Vec<Participants>,
    },
    /// The shard does not know this reader, or has dropped it: it must begin again under this session.
    Again {
        read: u64,
        shard: ShardId,
        session: u64,
    },
    /// The requested items exceed a message.
    TooLarge {
        read: u64,
        shard: ShardId,
    },
}

/// Progress of a coordinator, sent with each batch of requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// All its transactions below are over everywhere: repetitions are dropped.
    pub below: u64,
    /// Its transactions that all participants have committed since the last report; only those that wrote on this shard.
    pub settled: Vec<u64>,
    /// All its reads that were active when it saw this drain epoch have ended.
    pub drained: u64,
    /// Highest clock that it knows.
    pub clock: u64,
}
