//! Names of the parties and of their work: shards, coordinators, transactions, timestamps and positions.
//!
//! Names only: nothing here sends, stores or decides.

use serde::{Deserialize, Serialize};

/// Number of a shard of the cluster, from 0.
pub type ShardId = u16;

/// Identifies a coordinator. Every start has a new id (docs/internals/items.md, termination), so a cluster sees many in its life.
pub type CoordinatorId = u64;

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Coordinator(CoordinatorId),
    Shard(ShardId),
}

/// Identifies a transaction. Sequences of one coordinator ascend; ids imply no order between coordinators (S9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TxnId {
    pub coordinator: CoordinatorId,
    pub sequence: u64,
}

/// Orders operations: a hybrid logical clock (48 bits of milliseconds, 16 of counter; unsigned, so that
/// it never turns negative), then the node that stamped it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp {
    pub clock: u64,
    pub node: u16,
}

/// Number of changes since the shard began; a shard's position is the number after its last commit.
pub type Position = u64;
