//! The network between machines: a delay of each pair of parties, which keeps messages in order, and a share of messages that are lost.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use weir_ordered::message::Party;

/// A network.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Delay of each message, at least.
    pub one_way_ns: u64,
    /// Delays of different pairs differ by up to so much.
    pub spread_ns: u64,
    /// Share of the messages that are lost.
    pub loss: f64,
    /// Whether sequencers lie on the way of every packet, and so add no way of their own: to and from them it is half as far.
    pub has_sequencer_on_path: bool,
}

impl Network {
    /// A network without loss within a data centre, kernels included.
    pub const LAN: Network =
        Network { one_way_ns: 10_000, spread_ns: 1_000, loss: 0.0, has_sequencer_on_path: false };

    /// Delay from one party to another. It is constant, so no message overtakes another one of the same pair.
    pub fn delay_ns(&self, from: Party, to: Party) -> u64 {
        let mut hasher = FxHasher::default();
        (from, to).hash(&mut hasher);
        let delay_ns = self.one_way_ns + (hasher.finish() >> 32) % (self.spread_ns + 1);
        let is_half =
            self.has_sequencer_on_path && [from, to].iter().any(|each| matches!(each, Party::Sequencer(_)));
        if is_half { delay_ns / 2 } else { delay_ns }
    }
}

/// Chance from a seed: SplitMix64.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn from_seed(seed: u64) -> Chance {
        Chance(seed)
    }

    /// Whether something of that probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && (self.next() >> 11) as f64 / (1u64 << 53) as f64 <= probability
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn a_pair_has_one_delay_and_the_seed_decides_what_is_lost() {
        let delay = |from, to| Network::LAN.delay_ns(Party::Client(from), Party::Client(to));
        assert_eq!(delay(1, 2), delay(1, 2));
        assert!((1..100).all(|to| (10_000..=11_000).contains(&delay(0, to))));
        let lost = |seed| {
            let mut chance = Chance::from_seed(seed);
            (0..100_000).filter(|_| chance.happens(0.01)).count()
        };
        assert!((800..1_200).contains(&lost(1)), "{}", lost(1));
        assert_eq!(lost(1), lost(1));
        assert!(!Chance::from_seed(1).happens(0.0));
    }
}
