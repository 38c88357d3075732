//! Row numbers by whole key: an open-addressing hash table beside an ordered index whose keys are looked
//! up one at a time.
//!
//! A look-up touches one cache line where a tree touches one per level and a few in its leaf. Key and row
//! stand together, probing is linear, and a removal closes the gap, so there are no tombstones.

/// A key that can be spread over a table.
pub trait Spread: Copy + Eq + Default {
    fn spread(&self) -> u64;
}

/// 2^64 divided by the golden ratio: consecutive keys land far apart (Knuth, vol. 3, §6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

impl Spread for u64 {
    #[inline]
    fn spread(&self) -> u64 {
        self.wrapping_mul(GOLDEN)
    }
}

impl Spread for u128 {
    #[inline]
    fn spread(&self) -> u64 {
        let (high, low) = ((self >> 64) as u64, *self as u64);
        (high.wrapping_mul(GOLDEN).rotate_left(29) ^ low).wrapping_mul(GOLDEN)
    }
}

const EMPTY: u32 = u32::MAX;

#[derive(Debug)]
pub struct PointIndex<K> {
    /// A power of two of them, at most two thirds in use.
    slots: Vec<(K, u32)>,
    used: usize,
}

impl<K: Spread> PointIndex<K> {
    pub fn new() -> PointIndex<K> {
        PointIndex { slots: vec![(K::default(), EMPTY); 16], used: 0 }
    }

    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<(K, u32)>()
    }

    #[inline]
    fn home(&self, key: &K) -> usize {
        (key.spread() >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// Where the key is, or the empty slot that ends the search for it.
    #[inline]
    fn find(&self, key: &K) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        while self.slots[at].1 != EMPTY && self.slots[at].0 != *key {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    pub fn get(&self, key: &K) -> Option<u32> {
        let row = self.slots[self.find(key)].1;
        (row != EMPTY).then_some(row)
    }

    /// The key must not be there yet.
    pub fn insert(&mut self, key: K, row: u32) {
        if (self.used + 1) * 3 > self.slots.len() * 2 {
            let doubled = vec![(K::default(), EMPTY); self.slots.len() * 2];
            for (key, row) in std::mem::replace(&mut self.slots, doubled) {
                if row != EMPTY {
                    let at = self.find(&key);
                    self.slots[at] = (key, row);
                }
            }
        }
        let at = self.find(&key);
        self.slots[at] = (key, row);
        self.used += 1;
    }

    pub fn remove(&mut self, key: &K) {
        let mask = self.slots.len() - 1;
        let mut gap = self.find(key);
        if self.slots[gap].1 == EMPTY {
            return;
        }
        self.used -= 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            if self.slots[at].1 == EMPTY {
                break;
            }
            // An entry moves back into the gap unless its home lies behind the gap.
            let home = self.home(&self.slots[at].0);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.slots[gap] = self.slots[at];
                gap = at;
            }
        }
        self.slots[gap] = (K::default(), EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn agrees_with_the_standard_map() {
        let mut random = 7_u64;
        let (mut index, mut map) = (PointIndex::<u128>::new(), BTreeMap::new());
        for step in 0..200_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = u128::from((random >> 40) % 3_000) << 32;
            if (random >> 33) % 5 < 3 && step < 150_000 {
                if let std::collections::btree_map::Entry::Vacant(entry) = map.entry(key) {
                    entry.insert(step);
                    index.insert(key, step);
                }
            } else {
                map.remove(&key);
                index.remove(&key);
            }
            assert_eq!(index.get(&key), map.get(&key).copied());
        }
        for key in (0..3_000).map(|key| key << 32) {
            assert_eq!(index.get(&key), map.get(&key).copied());
        }
        assert_eq!(index.used, map.len());
    }
}
