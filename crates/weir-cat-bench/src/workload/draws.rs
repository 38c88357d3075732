//! Draws of numbers and texts that several workloads have.

use weir_cat::chance::Chance;

/// From `least` to `most`, both included.
pub fn between(chance: &mut Chance, least: u64, most: u64) -> u64 {
    least + chance.below(most - least + 1)
}

/// NURand of TPC-C's clause 2.1.6, which TPC-W has, too.
pub fn skewed(chance: &mut Chance, spread: u64, least: u64, most: u64) -> u64 {
    const CONSTANT: u64 = 7;
    let either = between(chance, 0, spread) | between(chance, least, most);
    (either + CONSTANT) % (most - least + 1) + least
}

/// Letters of that length.
pub fn text(chance: &mut Chance, length: usize) -> String {
    (0..length).map(|_| char::from(b'a' + chance.below(26) as u8)).collect()
}

/// Letters, so many at least and so many at most.
pub fn letters(chance: &mut Chance, least: u64, most: u64) -> String {
    let length = between(chance, least, most);
    text(chance, length as usize)
}

/// Digits of that length.
pub fn digits(chance: &mut Chance, length: usize) -> String {
    (0..length).map(|_| char::from(b'0' + chance.below(10) as u8)).collect()
}
