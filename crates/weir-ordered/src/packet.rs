//! Transactions, and the places in the orders of their shards that the sequencer stamps on them (eris.txt §5.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{ShardId, TxnId};

use crate::few::{self, Few};
use crate::message::Registration;

/// Number of a sequencer's reign. Epochs never come again; replicas take packets of one epoch only.
pub type Epoch = u64;
/// Number whose remainder by the size of a replica group is the number of the designated learner.
pub type View = u64;
/// Number of a packet among those of one epoch for one shard, from 1.
pub type Sequence = u64;
/// Number of an entry in the log of a shard, over all epochs, from 1. The end of an empty log is 0.
pub type Index = u64;

/// A place in the order of a shard. The sequencer gives it to at most one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot {
    pub epoch: Epoch,
    pub shard: ShardId,
    pub sequence: Sequence,
}

/// The slots of one packet: one of each participant, all of one epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    pub epoch: Epoch,
    /// Ascending by shard.
    pub sequences: Few<(ShardId, Sequence), 2>,
}

impl Stamp {
    pub fn sequence_at(&self, shard: ShardId) -> Option<Sequence> {
        self.sequences.iter().find(|(at, _)| *at == shard).map(|(_, sequence)| *sequence)
    }

    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.sequences.iter().map(|&(shard, sequence)| Slot { epoch: self.epoch, shard, sequence })
    }

    pub fn has(&self, slot: Slot) -> bool {
        self.epoch == slot.epoch && self.sequence_at(slot.shard) == Some(slot.sequence)
    }
}

/// Sequences of one epoch, one of each shard, such that a packet has all its slots up to them or all behind them. The counters of the
/// sequencer are one at any time, since it stamps all slots of a packet at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut(BTreeMap<ShardId, Sequence>);

impl Cut {
    /// The sequence of a shard; 0 before the first packet.
    pub fn at(&self, shard: ShardId) -> Sequence {
        self.0.get(&shard).copied().unwrap_or(0)
    }

    /// Returns whether the packet of a slot of its epoch has all its slots up to the cut.
    pub fn covers(&self, slot: Slot) -> bool {
        slot.sequence <= self.at(slot.shard)
    }

    /// The shards that have packets, and their sequences.
    pub fn sequences(&self) -> impl Iterator<Item = (ShardId, Sequence)> + '_ {
        self.0.iter().map(|(shard, sequence)| (*shard, *sequence))
    }

    /// The next sequence of a shard.
    pub(crate) fn next(&mut self, shard: ShardId) -> Sequence {
        let sequence = self.0.entry(shard).or_default();
        *sequence += 1;
        *sequence
    }
}

/// The part that a packet plays: that of a whole transaction, or one of a general transaction (eris.txt §7.1). All parts of a general
/// transaction have the same destinations, and its id is that of its preliminary part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// An independent transaction.
    #[default]
    Independent,
    /// It is executed, and holds locks on its footprint until the transaction is concluded.
    Preliminary,
    /// It ends the general transaction of the same client whose preliminary part has that sequence. It is executed if it commits, and if the
    /// transaction is not aborted.
    Conclusory { preliminary: u64, commits: bool },
    /// A replica aborts the general transaction with the id of this packet, unless it is concluded (eris.txt §7.2). It is never executed, and
    /// its operation is that of the preliminary part.
    ReplicaAbort,
}

/// Shards, ascending, each once.
pub type Shards = Few<ShardId, 6>;

/// A transaction, whole: every participant has the operation of all of them (soundness S18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction<O> {
    pub id: TxnId,
    /// The client has the answers of all its transactions with a lower sequence, and sends them no more.
    pub floor: u64,
    /// Registration of the client.
    pub registration: Registration,
    /// The shards that execute it: ascending, each once, at least one.
    pub destinations: Shards,
    pub part: Part,
    pub operation: O,
}

impl<O> Transaction<O> {
    /// The general transaction of which this is a part.
    pub fn general(&self) -> Option<TxnId> {
        match self.part {
            Part::Independent => None,
            Part::Preliminary | Part::ReplicaAbort => Some(self.id),
            Part::Conclusory { preliminary, .. } => Some(TxnId { sequence: preliminary, ..self.id }),
        }
    }
}

/// What a participant has done with a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome<R> {
    Executed(R),
    /// The conclusory part of a general transaction that does not commit, or comes after an abort; the preliminary part that was aborted while
    /// it waited.
    Aborted,
}

impl<R> Outcome<R> {
    pub fn into_answer(self) -> Option<R> {
        match self {
            Outcome::Executed(answer) => Some(answer),
            Outcome::Aborted => None,
        }
    }

    pub fn is_aborted(&self) -> bool {
        matches!(self, Outcome::Aborted)
    }
}

/// A transaction with its stamp. A client that repeats a transaction causes several packets of it, each with a stamp of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound(deserialize = "O: Deserialize<'de>"))]
pub struct Packet<O> {
    pub stamp: Stamp,
    /// No packet of a client with a lower registration comes behind this one, in the order of any shard.
    pub client_floor: Registration,
    #[serde(deserialize_with = "few::shared")]
    pub transaction: Arc<Transaction<O>>,
}
