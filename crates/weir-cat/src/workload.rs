//! The workload of cat-theorem.txt §4.1: transactions of some operations over keys picked by Zipf's law.

use crate::chance::Chance;
use crate::zipf::Zipf;

/// Shape of the transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub keys: usize,
    /// Zipf's exponent (α): 0 is uniform.
    pub exponent: f64,
    /// Operations of a transaction (η), each on another key.
    pub length: usize,
    /// Share of the transactions that only write; the others only read, as in §4.2.
    pub writers: f64,
}

impl Shape {
    /// That of §4.2: 1,000 keys, α = 0.9, η = 8, all write.
    pub const PAPER: Shape = Shape { keys: 1_000, exponent: 0.9, length: 8, writers: 1.0 };
}

/// A transaction to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Different ones, in the order of the operations.
    pub keys: Vec<u64>,
    pub is_writer: bool,
}

/// The transactions of one client.
#[derive(Clone, Debug)]
pub struct Client {
    shape: Shape,
    zipf: Zipf,
    chance: Chance,
}

impl Client {
    /// Clients of the same seed and number plan the same transactions.
    ///
    /// # Errors
    /// The shape is impossible; the text says why and what would be possible.
    pub fn new(shape: Shape, seed: u64, number: u64) -> Result<Client, String> {
        let zipf = Zipf::new(shape.keys, shape.exponent)?;
        if shape.length == 0 || shape.length > shape.keys {
            return Err(format!(
                "transactions of {} operations over {} keys: take from 1 to {}, each on another key",
                shape.length, shape.keys, shape.keys
            ));
        }
        if !(0.0..=1.0).contains(&shape.writers) {
            return Err(format!("{} is no share of writers: take 0 to 1", shape.writers));
        }
        let chance = Chance::from_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
        Ok(Client { shape, zipf, chance })
    }

    pub fn plan(&mut self) -> Planned {
        let is_writer = self.chance.share() < self.shape.writers;
        let keys = self.zipf.pick_different(self.shape.length, &mut self.chance);
        Planned { keys, is_writer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_plans_the_same() {
        let plan = |seed, number| {
            let mut client = Client::new(Shape::PAPER, seed, number).expect("it is the paper's");
            (0..20).map(|_| client.plan()).collect::<Vec<_>>()
        };
        assert_eq!(plan(1, 1), plan(1, 1));
        assert_ne!(plan(1, 1), plan(1, 2));
        assert_ne!(plan(1, 1), plan(2, 1));
        assert!(plan(1, 1).iter().all(|planned| planned.is_writer && planned.keys.len() == 8));
    }

    #[test]
    fn half_of_them_write() {
        let shape = Shape { writers: 0.5, ..Shape::PAPER };
        let mut client = Client::new(shape, 1, 0).expect("it is possible");
        let writers = (0..10_000).filter(|_| client.plan().is_writer).count();
        assert!((4_800..5_200).contains(&writers), "{writers}");
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for (shape, why) in [
            (Shape { length: 0, ..Shape::PAPER }, "from 1 to 1000"),
            (Shape { keys: 4, ..Shape::PAPER }, "from 1 to 4"),
            (Shape { writers: 1.5, ..Shape::PAPER }, "0 to 1"),
        ] {
            assert!(Client::new(shape, 1, 1).expect_err(why).contains(why));
        }
    }
}
