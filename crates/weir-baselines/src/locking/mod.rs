//! Long write locks with no, short or long read locks (LWNR, LWSR, LWLR of ramp.txt §5.1).
//!
//! Locks are taken in key order, one after the other across shards, so there are no deadlocks.
//! Runs of consecutive keys on one shard are taken by one message. When all are held the transaction has
//! happened: its client is answered, and what it wrote is applied as its locks are given back.
//!
//! Short read locks are held for no longer than it takes to read: each of a read's items waits in its own
//! queue and holds nothing meanwhile, so they need no order and are asked for in parallel.

mod coordinator;
mod shard;

use std::sync::Arc;

use weir_core::ids::{ShardId, TxnId};
use weir_kv::{ItemRead, Key, KeyRange, Stamp, Write};

pub use coordinator::Coordinator;
pub use shard::Partition;

/// Duration of read locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLocks {
    /// Nothing.
    None,
    /// Each item is locked while it is read.
    Short,
    /// Each item is locked until the end.
    Long,
}

/// An item of a transaction that locks: exclusively if it is written.
#[derive(Clone, Debug)]
pub struct Item {
    pub key: Key,
    pub read: bool,
    pub write: Option<Write>,
}

#[derive(Clone, Debug)]
pub enum Request {
    /// Lock these one after the other, then answer.
    Lock {
        txn: TxnId,
        /// Which run of its items.
        run: u32,
        /// In order of keys.
        items: Arc<[Item]>,
        /// All others are locked, so apply and release these at once. Either all are read or all are written.
        finish: bool,
        /// The highest clock of the runs before.
        clock: u64,
    },
    /// Apply what the transaction writes, and release all that it holds.
    Release { stamp: Stamp },
    /// Read without locks that last.
    Get { txn: TxnId, keys: Arc<[Key]>, ranges: Arc<[KeyRange]>, short_locks: bool },
}

#[derive(Clone, Debug)]
pub enum Reply {
    /// All of the run are locked; what is read of them, in order.
    Granted {
        txn: TxnId,
        run: u32,
        clock: u64,
        items: Vec<ItemRead>,
    },
    Released {
        txn: TxnId,
        shard: ShardId,
    },
    Got {
        txn: TxnId,
        shard: ShardId,
        items: Vec<ItemRead>,
        ranges: Vec<Vec<(Key, ItemRead)>>,
    },
}

/// Progress of a coordinator, sent with each batch of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// All its transactions below are over: repetitions are dropped.
    pub below: u64,
}
