//! Latencies of messages, on a local network and around the world.
//!
//! Round trips; a message takes half of one. The local table is made so that it gives the four figures that
//! coordination-avoidance.txt §6.1 (Figure 3a) has of EC2: commits a second of one contended item with
//! two-phase commit, by a coordinator and decentralized, with two and with ten servers. The world's are believed to be the
//! mean round trips between EC2's eight regions of its reference [10] (Highly Available Transactions, VLDB 2014, Table 1c):
//! that table is not among the papers that come with Weir, so they are an assumption, but for Virginia to Oregon, 83 ms,
//! which the paper repeats. Whoever has a world of their own gives it ([`World::parse`]).

use std::sync::LazyLock;

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

/// Regions, and the mean round trips between them.
#[derive(Debug, PartialEq, Eq)]
pub struct World {
    pub regions: Vec<String>,
    /// In microseconds, each region to those after it.
    round_trips_us: Vec<Vec<u32>>,
}

/// EC2's regions in 2013; milliseconds, each region to those on the lines below it.
const EC2: &str = "
    california  22.5 84.5 143.7 169.8 179.1 185.9 186.9
    oregon      82.9 135.1 170.6 200.6 207.8 234.4
    virginia    202.4 107.9 265.6 163.4 253.5
    tokyo       278.3 144.2 301.4 90.6
    ireland     346.2 239.8 234.1
    sydney      333.6 243.1
    sao-paulo   362.8
    singapore
";

static WORLD: LazyLock<World> = LazyLock::new(|| World::parse(EC2).expect("the table is whole"));

impl World {
    /// A line for each region: its name, then the milliseconds of a round trip to each region below it. Empty lines and
    /// those that begin with `#` say nothing.
    ///
    /// # Errors
    /// Error in the text, with its line.
    pub fn parse(text: &str) -> Result<World, String> {
        let said = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let lines: Vec<&str> = text.lines().map(str::trim).filter(said).collect();
        let mut world = World { regions: Vec::new(), round_trips_us: Vec::new() };
        for (at, line) in lines.iter().enumerate() {
            let mut words = line.split_whitespace();
            let region = words.next().unwrap_or_default();
            let in_us = |word: &str| {
                let ms = word.parse::<f64>().ok().filter(|ms| (0.0..=100_000.0).contains(ms));
                ms.map(|ms| (ms * 1e3).round() as u32)
                    .ok_or_else(|| format!("`{region}`: `{word}` is no round trip in milliseconds"))
            };
            let round_trips_us: Vec<u32> = words.map(in_us).collect::<Result<_, _>>()?;
            let below = lines.len() - at - 1;
            if round_trips_us.len() != below {
                return Err(format!(
                    "`{region}` has {} round trips, and {below} regions below it",
                    round_trips_us.len()
                ));
            }
            world.regions.push(region.to_owned());
            world.round_trips_us.push(round_trips_us);
        }
        if world.regions.is_empty() { Err("there are no regions".to_owned()) } else { Ok(world) }
    }

    /// Between two servers, which are put into the regions in turn.
    fn round_trip_us(&self, one: usize, other: usize) -> f64 {
        let (one, other) = (one % self.regions.len(), other % self.regions.len());
        let (low, high) = (one.min(other), one.max(other));
        if low == high { 0.0 } else { f64::from(self.round_trips_us[low][high - low - 1]) }
    }
}

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
            "wan" => Some(Network::Wan(&WORLD)),
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
        let ten: Vec<usize> = (0..10).map(|at| at * WORLD.regions.len()).collect();
        check(Network::Lan, &[0, 1], true, 1_100.0);
        check(Network::Lan, &[0, 1], false, 750.0);
        check(Network::Lan, &ten, true, 120.0);
        check(Network::Lan, &ten, false, 200.0);
        let (virginia, oregon) = (2, 1);
        check(Network::Wan(&WORLD), &[virginia, oregon], true, 12.0);
        check(Network::Wan(&WORLD), &[0, 1, 2, 3, 4, 5, 6, 7], true, 2.5);
    }

    #[test]
    fn a_table_says_each_round_trip_once() {
        let world = World::parse("# two\n a 10 20.5\n\n b 30\n c\n").expect("it is whole");
        for (one, other, us) in [(0, 1, 10_000.0), (2, 0, 20_500.0), (4, 5, 30_000.0), (1, 4, 0.0)] {
            assert_eq!((world.round_trip_us(one, other), world.round_trip_us(other, one)), (us, us));
        }
        for (text, expect) in [
            ("", "there are no regions"),
            ("a 1\nb 2", "`b` has 1 round trips, and 0 regions below it"),
            ("a\nb", "`a` has 0 round trips, and 1 regions below it"),
            ("a x\nb", "`a`: `x` is no round trip in milliseconds"),
            ("a -1\nb", "`a`: `-1` is no round trip in milliseconds"),
        ] {
            assert_eq!(World::parse(text).expect_err(text), expect);
        }
    }
}
