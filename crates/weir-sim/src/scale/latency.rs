//! Latencies of messages, on a local network and around the world.
//!
//! Round trips; a message takes half of one. The local table is made so that it gives the four figures that
//! coordination-avoidance.txt §6.1 (Figure 3a) has of EC2: commits a second of one contended item with
//! two-phase commit, by a coordinator and decentralized, with two and with ten servers. The world's are those between EC2's eight
//! regions, with their provenance, of `weir-cat` (`data/ec2-regions.txt`). Whoever has a world of their own gives it ([`World::parse`]).

use weir_cat::delays::EC2;
pub use weir_cat::delays::World;

use crate::chance::Chance;

/// Cumulative distribution: shares, and the round trips in microseconds below which they lie; linear in between.
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

/// Between the servers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// All in one place.
    Lan,
    /// In the regions of a world in turn: the first in its first one, and so on.
    Wan(&'static World),
}

impl Network {
    /// By default the world is EC2's.
    pub fn by_name(name: &str) -> Option<Network> {
        match name {
            "lan" => Some(Network::Lan),
            "wan" => Some(Network::Wan(&EC2)),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Network::Lan => "lan",
            Network::Wan(_) => "wan",
        }
    }

    /// A round trip between two servers, in picoseconds.
    pub fn round_trip_ps(self, one: usize, other: usize, chance: &mut Chance) -> u64 {
        let local_us = local_us(chance.below(1 << 32) as f64 / f64::from(u32::MAX));
        let far_us = match self {
            Network::Lan => 0.0,
            Network::Wan(world) => world.round_trip_us(one, other),
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
        let ten: Vec<usize> = (0..10).map(|at| at * EC2.regions.len()).collect();
        check(Network::Lan, &[0, 1], true, 1_100.0);
        check(Network::Lan, &[0, 1], false, 750.0);
        check(Network::Lan, &ten, true, 120.0);
        check(Network::Lan, &ten, false, 200.0);
        let (virginia, oregon) = (2, 1);
        check(Network::Wan(&EC2), &[virginia, oregon], true, 12.0);
        check(Network::Wan(&EC2), &[0, 1, 2, 3, 4, 5, 6, 7], true, 2.5);
    }
}
