//! Zipf's distribution over a finite number of keys.

use crate::chance::Chance;

/// Keys from 0, the most popular first: key i has a weight of 1/(i+1)^exponent.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Cumulative shares; the last is 1.
    up_to: Vec<f64>,
}

impl Zipf {
    /// # Errors
    /// There is no key, or the exponent is not a number of at least 0.
    pub fn new(keys: usize, exponent: f64) -> Result<Zipf, String> {
        if keys == 0 {
            return Err("there are 0 keys: take at least 1".to_owned());
        }
        if !(exponent.is_finite() && exponent >= 0.0) {
            return Err(format!("{exponent} is no exponent of a zipf distribution: take 0 or more"));
        }
        let mut total = 0.0;
        let sums = (1..=keys).map(|rank| {
            total += (rank as f64).powf(-exponent);
            total
        });
        let mut up_to: Vec<f64> = sums.collect();
        up_to.iter_mut().for_each(|sum| *sum /= total);
        Ok(Zipf { up_to })
    }

    pub fn keys(&self) -> usize {
        self.up_to.len()
    }

    /// Probability of a key; 0 of one that does not exist.
    pub fn probability(&self, key: usize) -> f64 {
        let before = key.checked_sub(1).map_or(0.0, |before| self.up_to.get(before).copied().unwrap_or(1.0));
        self.up_to.get(key).map_or(0.0, |up_to| up_to - before)
    }

    pub fn pick(&self, chance: &mut Chance) -> u64 {
        let share = chance.share();
        self.up_to.partition_point(|up_to| *up_to <= share).min(self.up_to.len() - 1) as u64
    }

    /// Different keys in the order in which they were picked. At most as many as there are.
    pub fn pick_different(&self, count: usize, chance: &mut Chance) -> Vec<u64> {
        let count = count.min(self.keys());
        let mut keys = Vec::with_capacity(count);
        while keys.len() < count {
            let key = self.pick(chance);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_as_often_as_the_law_says() {
        for exponent in [0.0, 0.9, 1.2] {
            let zipf = Zipf::new(10, exponent).expect("there are keys");
            let (mut chance, mut counts) = (Chance::from_seed(1), [0u32; 10]);
            for _ in 0..100_000 {
                counts[zipf.pick(&mut chance) as usize] += 1;
            }
            let weights: f64 = (1..=10).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for (key, count) in counts.iter().enumerate() {
                let expected = (key as f64 + 1.0).powf(-exponent) / weights;
                assert!((zipf.probability(key) - expected).abs() < 1e-12);
                assert!((f64::from(*count) / 1e5 - expected).abs() < 0.01, "{exponent} {key}");
            }
            assert_eq!(zipf.probability(10), 0.0);
        }
    }

    #[test]
    fn a_transaction_has_different_keys() {
        let zipf = Zipf::new(5, 1.2).expect("there are keys");
        let mut keys = zipf.pick_different(9, &mut Chance::from_seed(2));
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Zipf::new(0, 1.0).expect_err("none").contains("at least 1"));
        for exponent in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Zipf::new(9, exponent).expect_err("no exponent").contains("0 or more"));
        }
    }
}
