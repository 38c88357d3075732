//! How hard a world is: drawn from its seed, so that seeds differ in kind.

use crate::chance::Chance;
use weir_core::ids::ShardId;

/// Events of a world, and how often each happens. Shares are per mille.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub shards: ShardId,
    pub replicas: u16,
    pub clients: u64,
    pub transactions: u32,
    /// Keys of all shards; at least 4.
    pub keys: u64,
    /// Operations that swap two keys.
    pub general: u32,
    /// Any message is lost, comes twice, or comes late.
    pub lost: u32,
    pub doubled: u32,
    pub late: u32,
    /// Milliseconds between two events of a kind, on average; 0: none.
    pub crash_ms: u64,
    pub leader_crash_ms: u64,
    pub client_crash_ms: u64,
    pub partition_ms: u64,
    /// Longest time of a crashed replica until it restarts.
    pub down_ms: u64,
    /// Longest time that a disk takes.
    pub disk_ms: u64,
    /// Largest difference between clocks.
    pub skew_ms: u64,
}

impl Profile {
    /// No faults at all.
    pub fn calm() -> Profile {
        Profile {
            shards: 2,
            replicas: 3,
            clients: 3,
            transactions: 30,
            keys: 6,
            general: 200,
            lost: 0,
            doubled: 0,
            late: 0,
            crash_ms: 0,
            leader_crash_ms: 0,
            client_crash_ms: 0,
            partition_ms: 0,
            down_ms: 1,
            disk_ms: 2,
            skew_ms: 0,
        }
    }

    /// Messages are lost, late and doubled, replicas and clients crash.
    pub fn hard() -> Profile {
        Profile {
            clients: 4,
            transactions: 40,
            lost: 40,
            doubled: 80,
            late: 80,
            crash_ms: 200,
            leader_crash_ms: 200,
            client_crash_ms: 300,
            partition_ms: 300,
            down_ms: 100,
            disk_ms: 20,
            ..Profile::calm()
        }
    }

    /// Some faults, each with some chance.
    pub fn of_seed(seed: u64) -> Profile {
        let mut chance = Chance::from_seed(seed ^ 0x5eed);
        let mut maybe = |most: u64| if chance.per_mille(600) { chance.below(most + 1) } else { 0 };
        let [lost, doubled, late] = [100, 150, 150].map(|most| maybe(most) as u32);
        let mut every = |least: u64| Some(maybe(4 * least)).filter(|ms| *ms > 0).map_or(0, |ms| ms + least);
        let [crash_ms, leader_crash_ms, client_crash_ms, partition_ms] = [100, 200, 200, 250].map(&mut every);
        Profile {
            shards: chance.between(1, 3) as ShardId,
            replicas: chance.pick(&[1, 3, 3, 5]),
            clients: chance.between(1, 5),
            transactions: chance.between(10, 60) as u32,
            keys: chance.between(4, 10),
            general: chance.pick(&[0, 100, 400]),
            lost,
            doubled,
            late,
            crash_ms,
            leader_crash_ms,
            client_crash_ms,
            partition_ms,
            down_ms: chance.pick(&[20, 100, 400]),
            disk_ms: chance.pick(&[1, 3, 30]),
            skew_ms: 0,
        }
    }
}
