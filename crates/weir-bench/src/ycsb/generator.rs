//! The transactions of YCSB, from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use weir_kv::{Bytes, Key, Transaction, Write};

use super::{Keys, Ycsb};
use crate::workload::{Zipf, permuted};

pub struct Generator {
    items: u64,
    zipf: Option<Zipf>,
    /// A transaction reads if a random word is below this.
    reads_below: u64,
    length: usize,
    value: Bytes,
}

impl Generator {
    pub fn new(workload: &Ycsb) -> Generator {
        let zipf = match workload.keys {
            Keys::Zipf(theta) => Some(Zipf::new(theta, 0, workload.items)),
            Keys::Uniform => None,
        };
        Generator {
            items: workload.items,
            zipf,
            // Saturates: a share of 1 is every word but one of 2^64.
            reads_below: (workload.read_share * 2f64.powi(64)) as u64,
            length: workload.length as usize,
            value: Bytes::new(&vec![b'v'; workload.value_bytes as usize]),
        }
    }

    /// The value of all writes.
    pub fn value(&self) -> Bytes {
        self.value.clone()
    }

    /// The transaction that loads some items.
    pub fn load(&self, items: std::ops::Range<u64>) -> Transaction {
        let writes = items.map(|item| (key(item), Write::Put(self.value.clone()))).collect();
        Transaction { writes, ..Transaction::default() }
    }

    pub fn next(&self, chance: &mut Xoshiro256PlusPlus) -> Transaction {
        let reads = chance.next_u64() < self.reads_below;
        let mut items: Vec<u64> = Vec::with_capacity(self.length);
        for _ in 0..self.length {
            let item = self.new_item(&items, chance);
            items.push(item);
        }
        let keys = items.into_iter().map(key);
        if reads {
            Transaction { reads: keys.collect(), ..Transaction::default() }
        } else {
            let writes = keys.map(|key| (key, Write::Put(self.value.clone()))).collect();
            Transaction { writes, ..Transaction::default() }
        }
    }

    /// An item that is not among these, of which there are fewer than items.
    fn new_item(&self, items: &[u64], chance: &mut Xoshiro256PlusPlus) -> u64 {
        /// Only a transaction over most of the items, or over the rare ones of a steep law, draws as often.
        const DRAWS_MAX: usize = 100;
        let new = |item: &u64| !items.contains(item);
        let mut drawn = std::iter::repeat_with(|| self.item(chance)).take(DRAWS_MAX);
        drawn.find(new).unwrap_or_else(|| (0..self.items).find(new).expect("there are more items"))
    }

    fn item(&self, chance: &mut Xoshiro256PlusPlus) -> u64 {
        match &self.zipf {
            None => chance.next_u64() % self.items,
            // As in YCSB's scrambled distribution, so that frequent items are not neighbours.
            Some(zipf) => permuted(zipf.rank(chance), self.items, 0),
        }
    }
}

/// Eleven bytes, as in the paper: `user` and seven digits, more where there are more items.
pub(crate) fn key(item: u64) -> Key {
    Key::from(format!("user{item:07}").as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn a_transaction_has_as_many_different_keys_as_it_is_long() {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
        let laws = [Keys::Uniform, Keys::Zipf(1e-9), Keys::Zipf(0.99), Keys::Zipf(1.0 - f64::EPSILON)];
        for (items, keys) in (1..=12).flat_map(|items| laws.map(|keys| (items, keys))) {
            for length in 1..=items as u32 {
                let generator =
                    Generator::new(&Ycsb { items, length, keys, read_share: 1.0, ..Ycsb::default() });
                for _ in 0..20 {
                    let transaction = generator.next(&mut chance);
                    let different: BTreeSet<&Key> = transaction.reads.iter().collect();
                    assert_eq!(different.len(), length as usize, "{keys:?}: {:?}", transaction.reads);
                    let all: Vec<Key> = (0..items).map(key).collect();
                    assert!(transaction.reads.iter().all(|key| all.contains(key)), "{:?}", transaction.reads);
                }
            }
        }
    }

    #[test]
    fn ranks_are_spread_over_all_items() {
        for items in [1, 2, 3, 4, 5, 16, 17, 1_000] {
            let spread: BTreeSet<u64> = (0..items).map(|rank| permuted(rank, items, 0)).collect();
            assert_eq!(spread, (0..items).collect(), "{items}");
        }
    }
}
