//! The members of a cluster, and what all parties agree on: quorums, learners, timeouts.

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;

use crate::packet::View;

/// A replica of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaId {
    pub shard: ShardId,
    /// From 0, below the size of a replica group.
    pub number: u16,
}

/// Members and timeouts of a cluster.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cluster {
    pub shards: ShardId,
    /// Replicas of each shard: 2f + 1, of which f may be down.
    pub replicas: u16,
    pub timeouts: Timeouts,
    /// A log is truncated once it has so many entries that no shard needs any more; at least 1.
    pub truncate_entries: u64,
    /// Packets that a replica keeps aside, at most; at least 2. A packet that a whole shard does not keep may be lost to it.
    pub aside_max: u64,
}

/// How long a party waits before it does something, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Timeouts {
    /// From the detection of a missing packet, for which its replica asks its peers, until it asks them again.
    pub gap_ms: u64,
    /// From the detection of a missing packet until its replica asks the failure coordinator.
    pub find_ms: u64,
    /// Between two sendings of a message that is not answered.
    pub resend_ms: u64,
    /// Between two synchronizations, which are also the heartbeats of a learner and of a sequencer.
    pub synchronize_ms: u64,
    /// A learner that is silent for so long is suspected.
    pub learner_ms: u64,
    /// A view that has not started after so long is given up for the next one.
    pub view_ms: u64,
    /// A sequencer that is silent for so long is suspected.
    pub sequencer_ms: u64,
    /// A node that leads the failure coordinator and is silent for so long is suspected by the other nodes.
    pub leader_ms: u64,
    /// A client that is silent for so long is gone.
    pub client_ms: u64,
    /// A general transaction that holds locks for so long is aborted: its client is thought gone.
    pub general_ms: u64,
}

impl Timeouts {
    pub const DEFAULT: Timeouts = Timeouts {
        gap_ms: 10,
        find_ms: 20,
        resend_ms: 50,
        synchronize_ms: 20,
        learner_ms: 150,
        view_ms: 100,
        sequencer_ms: 150,
        leader_ms: 150,
        client_ms: 10_000,
        general_ms: 2_000,
    };
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts::DEFAULT
    }
}

impl Cluster {
    /// Size of a majority of a replica group: f + 1.
    pub fn majority(&self) -> usize {
        usize::from(self.replicas / 2 + 1)
    }

    pub fn learner(&self, shard: ShardId, view: View) -> ReplicaId {
        ReplicaId { shard, number: (view % View::from(self.replicas)) as u16 }
    }

    pub fn group(&self, shard: ShardId) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.replicas).map(move |number| ReplicaId { shard, number })
    }

    pub fn all_replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let cluster = *self;
        (0..self.shards).flat_map(move |shard| cluster.group(shard))
    }

    /// Returns whether these replicas of a shard, which agree on that view, are a majority with the learner among them (eris.txt §6.2).
    pub fn is_quorum(&self, view: View, mut numbers: impl ExactSizeIterator<Item = u16>) -> bool {
        numbers.len() >= self.majority() && numbers.any(|number| self.learner(0, view).number == number)
    }
}
