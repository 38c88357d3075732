//! How long a message is on its way, on a local network and around the world.
//!
//! Round trips; a message takes half of one. The local table is made so that it gives the four figures that
//! coordination-avoidance.txt §6.1 (Figure 3a) has of EC2: commits a second of one contended item with
//! two-phase commit, by a coordinator and decentralized, with two and with ten servers. The world's are the mean
//! round trips between EC2's eight regions of its reference [10] (Highly Available Transactions, VLDB 2014, Table 1c); of
//! them the paper repeats Virginia to Oregon, 83 ms.

use crate::chance::Chance;

/// Shares, and the round trips in microseconds that so many stay below; between two of them they are spread evenly.
const LAN_US: [(f64, f64); 9] = [
    (0.0, 120.0),
    (0.25, 140.0),
    (0.5, 160.0),
    (0.75, 200.0),
    (0.9, 400.0),
    (0.97, 1_500.0),
    (0.99, 8_000.0),
    (0.999, 10_000.0),
    (1.0, 12_000.0),
];

/// Names of the regions, in the order of the table below.
pub const REGIONS: [&str; 8] =
    ["california", "oregon", "virginia", "tokyo", "ireland", "sydney", "sao-paulo", "singapore"];

/// Mean round trips in tenths of a millisecond, each region to those after it.
const WAN_TENTHS_MS: [&[u32]; 7] = [
    &[225, 845, 1437, 1698, 1791, 1859, 1869],
    &[829, 1351, 1706, 2006, 2078, 2344],
    &[2024, 1079, 2656, 1634, 2535],
    &[2783, 1442, 3014, 906],
    &[3462, 2398, 2341],
    &[3336, 2431],
    &[3628],
];

/// Between the servers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// All in one place.
    Lan,
    /// In the eight regions in turn: the first in California, the second in Oregon, and so on.
    Wan,
}

impl Network {
    pub fn by_name(name: &str) -> Option<Network> {
        match name {
            "lan" => Some(Network::Lan),
            "wan" => Some(Network::Wan),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Network::Lan => "lan",
            Network::Wan => "wan",
        }
    }

    /// A round trip between two servers, in picoseconds.
    pub fn round_trip_ps(self, one: usize, other: usize, chance: &mut Chance) -> u64 {
        let local_us = local_us(chance.below(1 << 32) as f64 / f64::from(u32::MAX));
        let far_us = match self {
            Network::Lan => 0.0,
            Network::Wan => region_us(one % REGIONS.len(), other % REGIONS.len()),
        };
        ((local_us + far_us) * 1e6) as u64
    }
}

/// The round trip that this share of messages stays below.
fn local_us(share: f64) -> f64 {
    let above = LAN_US.iter().position(|(upto, _)| share <= *upto).unwrap_or(LAN_US.len() - 1).max(1);
    let ((from, low), (to, high)) = (LAN_US[above - 1], LAN_US[above]);
    low + (high - low) * ((share - from) / (to - from)).clamp(0.0, 1.0)
}

fn region_us(one: usize, other: usize) -> f64 {
    let (low, high) = (one.min(other), one.max(other));
    if low == high { 0.0 } else { f64::from(WAN_TENTHS_MS[low][high - low - 1]) * 100.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits a second of one item, each after the other: coordination-avoidance.txt takes the published round trips for
    /// the delays of messages.
    fn commits_per_second(network: Network, servers: &[usize], decentralized: bool) -> f64 {
        const RUNS: usize = 4_000;
        let mut chance = Chance::from_seed(7);
        let mut total_ps = 0;
        for _ in 0..RUNS {
            let mut slowest = |messages: &mut dyn Iterator<Item = (usize, usize)>| -> u64 {
                messages.map(|(from, to)| network.round_trip_ps(from, to, &mut chance)).max().unwrap_or(0)
            };
            let pairs = || servers.iter().flat_map(|from| servers.iter().map(|to| (*from, *to)));
            total_ps += if decentralized {
                slowest(&mut pairs())
            } else {
                let mut delay = || slowest(&mut servers.iter().map(|to| (servers[0], *to)));
                delay() + delay()
            };
        }
        RUNS as f64 * 1e12 / total_ps as f64
    }

    #[track_caller]
    fn check(network: Network, servers: &[usize], decentralized: bool, published: f64) {
        let commits = commits_per_second(network, servers, decentralized);
        assert!(
            (commits / published).ln().abs() < 0.25,
            "{commits:.1} commits a second, published {published}"
        );
    }

    #[test]
    fn commitment_takes_what_the_paper_says() {
        let ten: Vec<usize> = (0..10).map(|at| at * REGIONS.len()).collect();
        check(Network::Lan, &[0, 1], true, 1_100.0);
        check(Network::Lan, &[0, 1], false, 750.0);
        check(Network::Lan, &ten, true, 120.0);
        check(Network::Lan, &ten, false, 200.0);
        let (virginia, oregon) = (2, 1);
        check(Network::Wan, &[virginia, oregon], true, 12.0);
        check(Network::Wan, &[0, 1, 2, 3, 4, 5, 6, 7], true, 2.5);
    }

    #[test]
    fn the_table_is_complete() {
        for one in 0..REGIONS.len() {
            for other in 0..REGIONS.len() {
                assert_eq!(region_us(one, other), region_us(other, one));
                assert_eq!(region_us(one, other) == 0.0, one == other);
            }
        }
    }
}
