//! Settings of a run.

use std::time::Duration;

use weir_baselines::eris::tpcc::Scale;
use weir_baselines::eris::workload;
use weir_core::ids::ShardId;
use weir_ordered::cluster::{Cluster, Timeouts};

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After a warm-up, so much time is measured.
    Time(Duration),
    /// Each front end has begun so many transactions. Nothing depends on a clock.
    Transactions(u64),
}

/// Transactions of a run.
#[derive(Clone, Copy, Debug)]
pub enum Workload {
    Registers(workload::Workload),
    Tpcc { scale: Scale, shards: ShardId },
}

impl Workload {
    pub fn shards(self) -> ShardId {
        match self {
            Workload::Registers(workload) => workload.shards,
            Workload::Tpcc { shards, .. } => shards,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Workload::Registers(workload) => workload.kind.name(),
            Workload::Tpcc { .. } => "tpcc",
        }
    }

    pub fn warehouses(self) -> Option<u16> {
        match self {
            Workload::Registers(_) => None,
            Workload::Tpcc { scale, .. } => Some(scale.warehouses),
        }
    }
}

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub workload: Workload,
    /// Replicas of a shard, for protocols that replicate.
    pub replicas: u16,
    /// Transactions that are under way at any time.
    pub clients: usize,
    /// Parties that have these clients: each is one thread with one socket.
    pub front_ends: usize,
    /// Share of the datagrams that every party loses on receipt.
    pub loss: f64,
    /// Whether each message of a client, or to one, has a datagram of its own, as if each client had a machine.
    pub is_unpacked: bool,
    pub seed: u64,
    pub until: Until,
    pub timeouts: Timeouts,
    /// See [`Cluster::truncate_entries`].
    pub truncate_entries: u64,
    /// Ends the sequencer in the middle of the time; another one takes its place.
    pub kills_sequencer: bool,
    /// Keeps every answer, so that they can be checked.
    pub keeps_answers: bool,
}

/// Packets that a replica keeps aside, at most.
const ASIDE_MAX: u64 = 100_000;

impl Settings {
    pub fn cluster(&self) -> Cluster {
        Cluster {
            shards: self.workload.shards(),
            replicas: self.replicas,
            timeouts: self.timeouts,
            truncate_entries: self.truncate_entries,
            aside_max: ASIDE_MAX,
        }
    }
}
