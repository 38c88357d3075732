//! The cost of coordination (coordination-avoidance.txt §6.1): Monte-Carlo of two-phase commit over one contended item.
//!
//! As in the paper only messages take time, commits are perfectly pipelined and nothing aborts; so commits a second of one item are the inverse
//! of the mean delay. The paper takes published round trips for the delays of messages.

use std::sync::LazyLock;

use crate::chance::Chance;
use crate::delays::{Family, Tail, World};

/// Protocol of atomic commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commitment {
    /// By a coordinator: two delays of N messages each.
    Centralized,
    /// Decentralized: one delay of N² messages.
    Decentralized,
}

impl Commitment {
    pub const ALL: [Commitment; 2] = [Commitment::Centralized, Commitment::Decentralized];

    pub fn name(self) -> &'static str {
        match self {
            Commitment::Centralized => "c-2pc",
            Commitment::Decentralized => "d-2pc",
        }
    }

    /// Delays that follow each other, and messages of each.
    fn delays(self, servers: u64) -> (u64, u64) {
        match self {
            Commitment::Centralized => (2, servers),
            Commitment::Decentralized => (1, servers * servers),
        }
    }
}

/// Where the servers are. The first one coordinates.
#[derive(Clone, Debug)]
pub enum Network<'a> {
    /// Number of servers in one place, and the tail of their delays.
    Lan { tail: Tail, servers: usize },
    /// The region of each server.
    Wan { world: &'a World, regions: Vec<usize> },
}

impl Network<'_> {
    /// One commit.
    fn commit_us(&self, protocol: Commitment, chance: &mut Chance) -> f64 {
        match self {
            Network::Lan { tail, servers } => {
                let (delays, messages) = protocol.delays(*servers as u64);
                (0..delays).map(|_| tail.pick_slowest_us(messages, chance)).sum()
            }
            Network::Wan { world, regions } => {
                let from =
                    |one: usize| regions.iter().map(|to| world.round_trip_us(one, *to)).fold(0.0, f64::max);
                match protocol {
                    Commitment::Centralized => 2.0 * regions.first().map_or(0.0, |first| from(*first)),
                    Commitment::Decentralized => regions.iter().map(|one| from(*one)).fold(0.0, f64::max),
                }
            }
        }
    }

    /// Whether commits differ: on a wide area the mean of a round trip is the delay of each.
    fn is_random(&self) -> bool {
        matches!(self, Network::Lan { .. })
    }
}

/// Outcome of a Monte-Carlo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    pub commits_per_second: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// Runs so many commits, at least one; one alone, where all take the same time. It takes as long for many servers as for few on a local network, and the
/// square of their number on a wide area.
pub fn simulate(network: &Network<'_>, protocol: Commitment, commits: usize, seed: u64) -> Cost {
    let mut chance = Chance::from_seed(seed);
    let commits = if network.is_random() { commits.max(1) } else { 1 };
    let mut taken: Vec<f64> = (0..commits).map(|_| network.commit_us(protocol, &mut chance)).collect();
    taken.sort_by(f64::total_cmp);
    let mean_us = taken.iter().sum::<f64>() / taken.len() as f64;
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize];
    Cost { commits_per_second: 1e6 / mean_us, mean_us, p50_us: at(0.5), p99_us: at(0.99) }
}

/// A published number of commits a second on a local network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    pub protocol: Commitment,
    pub servers: u64,
    pub commits_per_second: f64,
    /// The tail is fitted to it; otherwise it is predicted.
    pub is_fitted: bool,
}

impl Published {
    /// Messages of a delay, and the mean time that the slowest takes.
    fn slowest(&self) -> (u64, f64) {
        let (delays, messages) = self.protocol.delays(self.servers);
        (messages, 1e6 / self.commits_per_second / delays as f64)
    }

    /// Commits a second with this tail, by integration.
    pub fn with(&self, tail: &Tail) -> f64 {
        let (delays, messages) = self.protocol.delays(self.servers);
        1e6 / (delays as f64 * tail.slowest_us(messages))
    }
}

/// The four points of §6.1 on a local network.
pub static LAN_PUBLISHED: LazyLock<Vec<Published>> =
    LazyLock::new(|| published(include_str!("../data/lan-commits.txt")).expect("the table is whole"));

/// Reads lines `fit|predict PROTOCOL SERVERS COMMITS`; `#` begins a comment.
///
/// # Errors
/// A line that is none of these.
pub fn published(text: &str) -> Result<Vec<Published>, String> {
    let line = |line: &str| -> Option<Published> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [use_, protocol, servers, commits] = words[..] else { return None };
        Some(Published {
            protocol: Commitment::ALL.into_iter().find(|one| one.name() == protocol)?,
            servers: servers.parse().ok().filter(|servers| (1..=10_000).contains(servers))?,
            commits_per_second: commits.parse().ok().filter(|commits| *commits > 0.0)?,
            is_fitted: match use_ {
                "fit" => true,
                "predict" => false,
                _ => return None,
            },
        })
    };
    let said = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    said.map(|(number, text)| {
        line(text).ok_or_else(|| {
            format!("line {}: `{text}` is not `fit|predict c-2pc|d-2pc SERVERS COMMITS`", number + 1)
        })
    })
    .collect()
}

/// A calibration: the tail of this family through the two published points that are marked for it.
///
/// # Errors
/// Two points are not marked, or no tail of the family passes through them.
pub fn calibrated(family: Family, points: &[Published]) -> Result<Tail, String> {
    let fitted: Vec<&Published> = points.iter().filter(|point| point.is_fitted).collect();
    let [one, other] = fitted[..] else {
        return Err(format!("{} points are marked `fit`: a tail has two parameters, mark two", fitted.len()));
    };
    Tail::fitted(family, one.slowest(), other.slowest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delays::EC2;

    #[test]
    fn simulation_and_integration_agree() {
        for family in Family::ALL {
            let tail = calibrated(family, &LAN_PUBLISHED).expect("there is one");
            for point in LAN_PUBLISHED.iter() {
                let network = Network::Lan { tail, servers: point.servers as usize };
                let cost = simulate(&network, point.protocol, 40_000, 1);
                let expected = point.with(&tail);
                assert!(
                    (cost.commits_per_second / expected - 1.0).abs() < 0.1,
                    "{point:?}: {cost:?} {expected}"
                );
                if point.is_fitted {
                    assert!((expected / point.commits_per_second - 1.0).abs() < 0.01, "{point:?} {expected}");
                }
            }
        }
    }

    #[test]
    fn round_trips_bound_commits_over_the_world() {
        let region = |name| EC2.region(name).expect("it is there");
        let near = Network::Wan { world: &EC2, regions: vec![region("virginia"), region("oregon")] };
        let cost = simulate(&near, Commitment::Decentralized, 10, 1);
        assert!((cost.mean_us - 82_900.0).abs() < 1.0 && (cost.commits_per_second - 12.06).abs() < 0.01);
        // From Virginia to all eight: the farthest is Sydney by a coordinator, and São Paulo to Singapore without one.
        let mut all = vec![region("virginia")];
        all.extend((0..8).filter(|at| *at != region("virginia")));
        let all = Network::Wan { world: &EC2, regions: all };
        let mean = |protocol| simulate(&all, protocol, 10, 1).mean_us;
        assert!((mean(Commitment::Centralized) - 2.0 * 265_600.0).abs() < 1.0);
        assert!((mean(Commitment::Decentralized) - 362_800.0).abs() < 1.0);
    }

    #[test]
    fn lines_that_say_nothing_sensible_are_refused() {
        let check = |text: &str, why: &str| {
            let found = published(text).and_then(|points| calibrated(Family::Pareto, &points));
            assert!(found.as_ref().is_err_and(|said| said.contains(why)), "{found:?}");
        };
        check("fit d-2pc two 3", "line 1");
        check("# well\nguess d-2pc 2 3", "line 2");
        check("fit d-2pc 2 0", "line 1");
        check("fit d-2pc 2 1100", "mark two");
    }
}
