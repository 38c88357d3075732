//! Numbers and texts by chance, from a seed (clauses 2.1.6 and 4.3.2).

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::{CustomerId, ItemId, NAMES, Scale};

/// Constants C of clause 2.1.6.1. Those of last names differ by 100 between loading and running, which is one of the values that it allows.
const C_OF_LOADED_NAMES: u64 = 100;
const C_OF_NAMES: u64 = 200;
const C_OF_CUSTOMERS: u64 = 259;
const C_OF_ITEMS: u64 = 7_911;

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyzABCDEF";

/// A source of chance.
#[derive(Clone, Debug)]
pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Below that number.
    pub fn below(&mut self, most: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(most)) >> 64) as u64
    }

    /// Both ends count.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    pub fn is_percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// NURand(a, 0, count - 1) of clause 2.1.6.
    fn uneven(&mut self, a: u64, c: u64, count: u64) -> u64 {
        ((self.between(0, a) | self.below(count)) + c) % count
    }

    pub fn customer(&mut self, scale: Scale) -> CustomerId {
        self.uneven(1_023, C_OF_CUSTOMERS, u64::from(scale.customers)) as CustomerId
    }

    pub fn item(&mut self, scale: Scale) -> ItemId {
        self.uneven(8_191, C_OF_ITEMS, u64::from(scale.items)) as ItemId
    }

    /// A last name that some customer of every district has.
    pub fn name(&mut self, scale: Scale) -> u16 {
        self.uneven(255, C_OF_NAMES, u64::from(scale.names())) as u16
    }

    /// The last name of a customer who is loaded behind those that have each name once.
    pub fn loaded_name(&mut self) -> u16 {
        self.uneven(255, C_OF_LOADED_NAMES, u64::from(NAMES)) as u16
    }

    pub fn fill(&mut self, text: &mut [u8]) {
        for part in text.chunks_mut(12) {
            let mut bits = self.0.next_u64();
            for letter in part {
                *letter = LETTERS[(bits & 31) as usize];
                bits >>= 5;
            }
        }
    }

    pub fn letters<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        let mut text = [0; COUNT];
        self.fill(&mut text);
        text
    }

    /// Numbers below that one, each once.
    pub fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count).collect();
        for last in (1..numbers.len()).rev() {
            numbers.swap(last, self.below(last as u64 + 1) as usize);
        }
        numbers
    }
}
