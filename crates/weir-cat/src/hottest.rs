//! The hottest objects in bounded memory: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi, ICDT 2005).

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

/// Counters of at most a fixed number of objects. A count is never too low; it is too high by at most the accesses divided by that number,
/// and every object with more accesses than that is among them.
#[derive(Clone, Debug)]
pub struct Hottest<K> {
    kept_max: usize,
    /// Number of accesses, and by how much that may be too high.
    counts: FxHashMap<K, (u64, u64)>,
    /// The same objects by their number of accesses: where all differ each access takes the place of the least one.
    by_count: BTreeSet<(u64, K)>,
    accesses: u64,
}

impl<K: Clone + Eq + std::hash::Hash + Ord> Hottest<K> {
    /// Keeps at least one object.
    pub fn new(kept_max: usize) -> Hottest<K> {
        Hottest {
            kept_max: kept_max.max(1),
            counts: FxHashMap::default(),
            by_count: BTreeSet::new(),
            accesses: 0,
        }
    }

    pub fn add(&mut self, object: K) {
        self.add_many(object, 1);
    }

    /// Adds a number of accesses of one object. It takes time by the logarithm of the number of objects that are kept.
    pub fn add_many(&mut self, object: K, accesses: u64) {
        self.accesses += accesses;
        if let Some((count, _)) = self.counts.get_mut(&object) {
            self.by_count.remove(&(*count, object.clone()));
            *count += accesses;
            self.by_count.insert((*count, object));
            return;
        }
        let is_full = self.counts.len() >= self.kept_max;
        let least = if is_full { self.by_count.pop_first() } else { None };
        let base = least.map_or(0, |(count, key)| {
            self.counts.remove(&key);
            count
        });
        self.by_count.insert((base + accesses, object.clone()));
        self.counts.insert(object, (base + accesses, base));
    }

    /// The objects with most accesses, the hottest first: number of accesses, and by how much that may be too high.
    pub fn top(&self, number: usize) -> Vec<(K, u64, u64)> {
        let mut all: Vec<(K, u64, u64)> =
            self.counts.iter().map(|(key, (count, over))| (key.clone(), *count, *over)).collect();
        all.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        all.truncate(number);
        all
    }

    /// All accesses that were counted.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::zipf::Zipf;

    #[test]
    fn counts_are_within_their_bound() {
        let zipf = Zipf::new(1_000, 0.9).expect("there are keys");
        for seed in 0..5 {
            let (mut chance, mut exact) = (Chance::from_seed(seed), vec![0u64; 1_000]);
            let mut hottest = Hottest::new(64);
            for _ in 0..20_000 {
                let key = zipf.pick(&mut chance);
                exact[key as usize] += 1;
                hottest.add(key);
            }
            let bound = hottest.accesses() / 64;
            for (key, count, over) in hottest.top(64) {
                let real = exact[key as usize];
                assert!(
                    real <= count && count <= real + over && over <= bound,
                    "{key}: {real} {count} {over}"
                );
            }
            let kept: Vec<u64> = hottest.top(64).into_iter().map(|(key, ..)| key).collect();
            let missing = (0..1_000).find(|key| exact[*key as usize] > bound && !kept.contains(key));
            assert_eq!(missing, None);
        }
    }

    #[test]
    fn few_objects_are_counted_exactly() {
        let mut hottest = Hottest::new(3);
        [7, 8, 7, 9, 7, 8].into_iter().for_each(|key| hottest.add(key));
        assert_eq!(hottest.top(2), [(7, 3, 0), (8, 2, 0)]);
    }
}
