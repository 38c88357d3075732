//! The two metrics of contention and the abort probability over generated slots (cat-theorem.txt §3, Figures 1 and 2).

use crate::chance::Chance;
use crate::contention::{Contention, of_set};
use crate::history::Object;
use crate::interleavings::{self, Interleavings, Operation};
use crate::zipf::Zipf;

/// Transactions of one slot are all concurrent: each client begins one with a probability.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    pub keys: usize,
    pub exponent: f64,
    pub length: usize,
    pub clients: usize,
    /// Probability that a client begins a transaction in a slot.
    pub activity: f64,
}

impl Slots {
    /// Those of Figure 1: 1,000 keys, α = 0.9, η = 8, 7 clients, 0.8.
    pub const PAPER: Slots = Slots { keys: 1_000, exponent: 0.9, length: 8, clients: 7, activity: 0.8 };

    fn draw(&self, zipf: &Zipf, chance: &mut Chance) -> Vec<Vec<Object>> {
        let mut slot = Vec::new();
        for _ in 0..self.clients {
            if chance.share() < self.activity {
                slot.push(zipf.pick_different(self.length, chance));
            }
        }
        slot
    }

    /// By number of transactions in a slot, from 0 to the clients: how many slots had that, and the Contention Level over them.
    ///
    /// # Errors
    /// As [`Zipf::new`].
    pub fn levels(&self, slots: u64, seed: u64) -> Result<Vec<(u64, Contention)>, String> {
        let zipf = Zipf::new(self.keys, self.exponent)?;
        let mut chance = Chance::from_seed(seed);
        let mut levels = vec![(0, Contention::default()); self.clients + 1];
        for _ in 0..slots {
            let slot = self.draw(&zipf, &mut chance);
            let (count, level) = &mut levels[slot.len()];
            *count += 1;
            *level += of_set(&slot);
        }
        Ok(levels)
    }

    /// The mean abort probability over slots of `self.clients` writers, over all interleavings of each, and the Contention Level over them.
    ///
    /// # Errors
    /// As [`Zipf::new`] and [`interleavings::count`].
    pub fn abort_probability(&self, slots: u64, seed: u64) -> Result<(f64, Contention), String> {
        let zipf = Zipf::new(self.keys, self.exponent)?;
        let mut chance = Chance::from_seed(seed);
        let (mut sum, mut level) = (0.0, Contention::default());
        for _ in 0..slots {
            let slot = self.draw(&zipf, &mut chance);
            level += of_set(&slot);
            let writers: Vec<Vec<Operation>> =
                slot.iter().map(|keys| keys.iter().copied().map(Operation::write).collect()).collect();
            sum += interleavings::count(&writers).map(Interleavings::abort_probability)?;
        }
        Ok((sum / slots.max(1) as f64, level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gray;

    #[test]
    fn more_transactions_contend_more() {
        let levels = Slots::PAPER.levels(2_000, 1).expect("it is the paper's");
        assert_eq!(levels.iter().map(|(count, _)| count).sum::<u64>(), 2_000);
        assert_eq!(levels[1].1.common, 0);
        let level = |clients: usize| levels[clients].1.level();
        assert!(level(7) > level(5) && level(5) > level(3), "{levels:?}");
    }

    /// With uniform keys the model of Equation 1 is right: as many pairs of transactions meet as it says.
    #[test]
    fn uniform_slots_meet_as_equation_1_says() {
        let slots = Slots { exponent: 0.0, length: 4, clients: 3, activity: 1.0, ..Slots::PAPER };
        let zipf = Zipf::new(slots.keys, 0.0).expect("there are keys");
        let mut chance = Chance::from_seed(5);
        let met = (0..20_000).filter(|_| of_set(&slots.draw(&zipf, &mut chance)).common > 0).count();
        let expected = gray::contention(1_000, 3, 4);
        assert!((met as f64 / 20_000.0 - expected).abs() < 0.005, "{met} {expected}");
    }

    #[test]
    fn two_short_transactions_abort_seldom() {
        let slots = Slots { keys: 10, length: 2, clients: 2, activity: 1.0, ..Slots::PAPER };
        let (probability, level) = slots.abort_probability(2_000, 1).expect("they are short");
        assert!(probability > 0.0 && probability < level.level(), "{probability} {level:?}");
    }
}
