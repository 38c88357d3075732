//! How hard a world is: drawn from its seed, so that seeds differ in kind.

use weir_core::ids::ShardId;
use weir_ordered::faults::{ClientBugs, CoordinatorBugs, PlantedBugs};
use weir_ordered_raft::Settings;

use crate::chance::Chance;

/// Events of a world, and how often each happens. Shares are per mille.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub shards: ShardId,
    pub replicas: u16,
    /// Nodes of the failure coordinator: a minority of them may be down.
    pub coordinators: u8,
    /// `Settings::entries_max` of a node.
    pub entries_max: usize,
    pub clients: u64,
    pub transactions: u32,
    /// `Cluster::truncate_entries`.
    pub truncate_entries: u64,
    /// A replica notes its whole state after so many records.
    pub snapshot_after: usize,
    /// `Cluster::aside_max`.
    pub aside_max: u64,
    /// `Timeouts::client_ms`.
    pub client_ms: u64,
    /// `Timeouts::general_ms`.
    pub general_ms: u64,
    /// A transaction is general, not independent.
    pub general: u32,
    /// Longest time of a client between the two parts of a general transaction.
    pub think_ms: u64,
    /// Any message is lost, comes twice, or comes late.
    pub lost: u32,
    pub doubled: u32,
    pub late: u32,
    /// A packet is lost to a whole shard, or to everybody.
    pub lost_to_shard: u32,
    pub lost_to_all: u32,
    /// A packet comes late to everybody.
    pub late_to_all: u32,
    /// A packet is lost to about half of its receivers.
    pub patchy: u32,
    /// Milliseconds between two events of a kind, on average; 0: none.
    pub crash_ms: u64,
    pub learner_crash_ms: u64,
    /// The disk of a crashed replica is lost.
    pub wiped: u32,
    /// A node of the failure coordinator, often the one that leads.
    pub coordinator_crash_ms: u64,
    pub sequencer_ms: u64,
    pub client_crash_ms: u64,
    pub partition_ms: u64,
    /// Longest time of a crashed party until it restarts.
    pub down_ms: u64,
    /// Longest time that a disk takes.
    pub disk_ms: u64,
    pub bugs: PlantedBugs,
    pub coordinator_bugs: CoordinatorBugs,
    pub client_bugs: ClientBugs,
}

impl Profile {
    /// No faults at all.
    pub fn calm() -> Profile {
        Profile {
            shards: 2,
            replicas: 3,
            coordinators: 1,
            entries_max: 512,
            clients: 3,
            transactions: 30,
            truncate_entries: 4,
            snapshot_after: 12,
            aside_max: 100,
            client_ms: 2_000,
            general_ms: 300,
            general: 0,
            think_ms: 20,
            lost: 0,
            doubled: 0,
            late: 0,
            lost_to_shard: 0,
            lost_to_all: 0,
            late_to_all: 0,
            patchy: 0,
            crash_ms: 0,
            learner_crash_ms: 0,
            wiped: 0,
            coordinator_crash_ms: 0,
            sequencer_ms: 0,
            client_crash_ms: 0,
            partition_ms: 0,
            down_ms: 1,
            disk_ms: 2,
            bugs: PlantedBugs::default(),
            coordinator_bugs: CoordinatorBugs::default(),
            client_bugs: ClientBugs::default(),
        }
    }

    pub fn settings(&self, number: u8) -> Settings {
        Settings { entries_max: self.entries_max, ..Settings::new(number, self.coordinators) }
    }

    /// Some faults, each with some chance.
    pub fn of_seed(seed: u64) -> Profile {
        let mut chance = Chance::from_seed(seed ^ 0x5eed);
        let mut maybe = |most: u64| if chance.per_mille(600) { chance.below(most + 1) } else { 0 };
        let shares = [60, 100, 100, 60, 40, 80, 100].map(|most| maybe(most) as u32);
        let mut every = |least: u64| Some(maybe(4 * least)).filter(|ms| *ms > 0).map_or(0, |ms| ms + least);
        let [crash_ms, learner_crash_ms, coordinator_crash_ms] = [150, 300, 400].map(&mut every);
        let [sequencer_ms, partition_ms] = [400, 250].map(&mut every);
        Profile {
            shards: chance.between(1, 3) as ShardId,
            replicas: chance.pick(&[3, 3, 5]),
            clients: chance.between(1, 4),
            transactions: chance.between(10, 40) as u32,
            truncate_entries: chance.pick(&[1, 4, 4, 16, 1000]),
            aside_max: chance.pick(&[8, 16, 100]),
            client_ms: chance.pick(&[200, 600, 2_000]),
            client_crash_ms: chance.pick(&[0, 100, 400]),
            general: chance.pick(&[0, 200, 500]),
            general_ms: chance.pick(&[60, 150, 400]),
            think_ms: chance.pick(&[5, 20, 100]),
            lost: shares[0],
            doubled: shares[1],
            late: shares[2],
            lost_to_shard: shares[3],
            lost_to_all: shares[4],
            late_to_all: shares[5],
            patchy: shares[6],
            crash_ms,
            learner_crash_ms,
            wiped: chance.pick(&[0, 0, 100, 400]),
            coordinator_crash_ms,
            sequencer_ms,
            partition_ms,
            down_ms: chance.pick(&[20, 100, 400]),
            disk_ms: chance.pick(&[1, 3, 30]),
            coordinators: chance.pick(&[1, 3, 3]),
            snapshot_after: chance.pick(&[2, 12, 100]),
            entries_max: chance.pick(&[4, 16, 512]),
            ..Profile::calm()
        }
    }
}
