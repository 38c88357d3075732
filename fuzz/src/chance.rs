//! Numbers that follow from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub struct Chance(Xoshiro256PlusPlus);

impl Chance {
    pub fn of(seed: u64, number: u64) -> Chance {
        let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number);
        Chance(Xoshiro256PlusPlus::seed_from_u64(mixed))
    }

    /// From zero up to, and without, `n`, which is at least one.
    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }

    pub fn byte(&mut self) -> u8 {
        self.0.next_u64() as u8
    }

    pub fn pick<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len())]
    }
}
