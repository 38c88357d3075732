//! Reads at a timestamp, with writes that a shard chosen for each transaction decides: Eiger's 2PC-PCI as
//! ramp.txt §5.1 describes it (E-PCI).
//!
//! A writer prepares at all participants. Each tells the *decider*, one of them picked at random, its clock;
//! when all have, the decider picks a commit time above all of them, tells the others and the client. A
//! reader chooses a timestamp, and every shard answers with the state at it. Where a prepared write might
//! commit at or below it, the shard first asks the decider, which answers with the commit time, or pushes its
//! own clock above the timestamp, so that the commit time will be above it too. Nobody waits for a writer,
//! but readers wait for a third shard: the partition independence that RAMP keeps is given up.

mod chain;
mod coordinator;
mod shard;

use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_kv::{ItemRead, Key, KeyRange, Stamp, Write};

pub use coordinator::Coordinator;
pub use shard::Partition;

/// A read that a commit check is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reader {
    pub coordinator: CoordinatorId,
    pub read: u64,
}

#[derive(Clone, Debug)]
pub enum Request {
    /// Prepares; a transaction with one participant is committed at once.
    Prepare { txn: TxnId, writes: Arc<[(Key, Write)]>, decider: ShardId, participants: Arc<[ShardId]> },
    /// From a participant to the decider: it has prepared at this clock.
    Vote { txn: TxnId, clock: u64 },
    /// From the decider.
    Commit { stamp: Stamp },
    /// The state at that clock.
    Get { read: u64, at: u64, keys: Arc<[Key]>, ranges: Arc<[KeyRange]> },
    /// From a shard that reads at that clock to the decider of these.
    Check { reader: Reader, at: u64, txns: Vec<TxnId> },
    /// Each with the clock at which it has committed, if it has. The others will not commit at or below
    /// `clock`.
    Checked { reader: Reader, txns: Vec<(TxnId, Option<u64>)>, clock: u64 },
}

#[derive(Clone, Debug)]
pub enum Reply {
    /// From the decider: it is committed.
    Decided { stamp: Stamp },
    /// From another participant: its writes are visible.
    Committed { txn: TxnId, shard: ShardId },
    Got {
        read: u64,
        shard: ShardId,
        /// A decider had to be asked.
        checked: bool,
        items: Vec<ItemRead>,
        ranges: Vec<Vec<(Key, ItemRead)>>,
    },
    /// The state at that clock is not kept any more: begin again, above this one.
    TooOld { read: u64, clock: u64 },
}

/// Progress of a coordinator, sent with each batch of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// All its writes below are over everywhere.
    pub below: u64,
    /// Its reads, including future ones, are at this clock or above.
    pub reads_from: u64,
}
