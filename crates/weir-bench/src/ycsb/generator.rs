//! The transactions of YCSB, from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use weir_txn::items::{Bytes, Key, Transaction, Write};

use super::{Keys, Ycsb};
use crate::workload::Zipf;

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

    /// The transaction that loads some items.
    pub fn load(&self, items: std::ops::Range<u64>) -> Transaction {
        let writes = items.map(|item| (key(item), Write::Put(self.value.clone()))).collect();
        Transaction { writes, ..Transaction::default() }
    }

    pub fn next(&self, chance: &mut Xoshiro256PlusPlus) -> Transaction {
        let reads = chance.next_u64() < self.reads_below;
        let mut items: Vec<u64> = Vec::with_capacity(self.length);
        while items.len() < self.length {
            let item = self.item(chance);
            if !items.contains(&item) {
                items.push(item);
            }
        }
        let keys = items.into_iter().map(key);
        if reads {
            Transaction { reads: keys.collect(), ..Transaction::default() }
        } else {
            let writes = keys.map(|key| (key, Write::Put(self.value.clone()))).collect();
            Transaction { writes, ..Transaction::default() }
        }
    }

    fn item(&self, chance: &mut Xoshiro256PlusPlus) -> u64 {
        match &self.zipf {
            None => chance.next_u64() % self.items,
            // As in YCSB's scrambled distribution, so that frequent items are not neighbours.
            Some(zipf) => scramble(zipf.rank(chance)) % self.items,
        }
    }
}

fn scramble(rank: u64) -> u64 {
    let mut mixed = rank.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Eleven bytes, as in the paper: `user` and seven digits, more where there are more items.
fn key(item: u64) -> Key {
    Key::from(format!("user{item:07}").as_str())
}
