//! YCSB+T as eris.txt §8.1 uses it: single-shard reads and writes, multi-shard read-modify-writes, cross-shard swaps, from a seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_core::ids::ShardId;

use super::operation::{Action, Key, Operation, Placement};

/// Kind of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Single-shard read/write: one key, read or written, half and half.
    Srw,
    /// Multi-shard read-modify-write: the distributed ones modify two keys of different shards, the others read or modify one, half and half.
    Mrmw,
    /// Cross-shard read-modify-write: the distributed ones swap two keys of different shards, the others read one key.
    Crmw,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Srw, Kind::Mrmw, Kind::Crmw];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Srw => "srw",
            Kind::Mrmw => "mrmw",
            Kind::Crmw => "crmw",
        }
    }

    pub fn by_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub kind: Kind,
    pub keys: u64,
    pub shards: ShardId,
    /// Share of the distributed transactions; `Srw` has none, and one shard has none.
    pub distributed: f64,
    /// Exponent of Zipf's law; 0: uniform.
    pub zipf: f64,
}

/// The transactions of one client: a pure function of workload and seed.
#[derive(Clone, Debug)]
pub struct Generator {
    workload: Workload,
    placement: Placement,
    /// For each rank, the share of this and all lower ranks; empty if all are alike.
    cumulated: std::sync::Arc<[f64]>,
    chance: Xoshiro256PlusPlus,
}

/// Draws by which a key of another shard is looked for, until the next key is taken: Zipf's law may have almost all its weight on one shard.
const DRAWS_MAX: usize = 100;

impl Generator {
    /// # Panics
    /// There are fewer keys than shards, or no shards.
    pub fn new(workload: Workload, seed: u64) -> Generator {
        assert!(workload.shards > 0 && workload.keys >= u64::from(workload.shards), "a shard without keys");
        Generator {
            workload,
            placement: Placement { shards: workload.shards },
            cumulated: cumulated(workload.keys, workload.zipf),
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The same workload from another seed. The table of the keys' shares is not made again.
    pub fn with_seed(&self, seed: u64) -> Generator {
        Generator { chance: Xoshiro256PlusPlus::seed_from_u64(seed), ..self.clone() }
    }

    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The next transaction.
    pub fn draw(&mut self) -> Operation {
        let is_distributed = self.workload.kind != Kind::Srw
            && self.workload.shards > 1
            && self.share() < self.workload.distributed;
        let first = self.key();
        if is_distributed {
            let second = self.key_elsewhere(first);
            return match self.workload.kind {
                Kind::Crmw => Operation::new([Action::Swap(first, second)]),
                _ => Operation::new([
                    Action::Modify(first, self.value()),
                    Action::Modify(second, self.value()),
                ]),
            };
        }
        let reads = self.chance.next_u64().is_multiple_of(2);
        let action = match self.workload.kind {
            Kind::Crmw => Action::Read(first),
            _ if reads => Action::Read(first),
            Kind::Srw => Action::Write(first, self.value()),
            Kind::Mrmw => Action::Modify(first, self.value()),
        };
        Operation::new([action])
    }

    fn value(&mut self) -> u64 {
        self.chance.next_u64() >> 16
    }

    /// From 0 to 1, without 1.
    fn share(&mut self) -> f64 {
        (self.chance.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn key(&mut self) -> Key {
        if self.cumulated.is_empty() {
            return self.chance.next_u64() % self.workload.keys;
        }
        let share = self.share();
        // Ranks are keys: neighbours are at different shards, so the frequent ones are spread.
        (self.cumulated.partition_point(|cumulated| *cumulated <= share) as u64).min(self.workload.keys - 1)
    }

    /// A key of another shard than that of the first.
    fn key_elsewhere(&mut self, first: Key) -> Key {
        let shard = self.placement.shard_of(first);
        for _ in 0..DRAWS_MAX {
            let key = self.key();
            if self.placement.shard_of(key) != shard {
                return key;
            }
        }
        if first + 1 < self.workload.keys { first + 1 } else { first - 1 }
    }
}

/// Zipf's law: the share of the keys up to each rank.
fn cumulated(keys: u64, exponent: f64) -> std::sync::Arc<[f64]> {
    if exponent == 0.0 {
        return [].into();
    }
    let mut sum = 0.0;
    let mut sums: Vec<f64> = Vec::with_capacity(keys as usize);
    for rank in 1..=keys {
        sum += (rank as f64).powf(-exponent);
        sums.push(sum);
    }
    sums.iter().map(|each| each / sum).collect()
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    const WORKLOAD: Workload =
        Workload { kind: Kind::Mrmw, keys: 1_000, shards: 4, distributed: 0.2, zipf: 0.0 };

    fn drawn(workload: Workload, count: usize) -> Vec<Operation> {
        let mut generator = Generator::new(workload, 7);
        (0..count).map(|_| generator.draw()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_transactions_again() {
        assert_eq!(drawn(WORKLOAD, 100), drawn(WORKLOAD, 100));
        let mut other = Generator::new(WORKLOAD, 7).with_seed(8);
        assert_ne!(drawn(WORKLOAD, 1)[0], other.draw());
    }

    #[test]
    fn the_share_of_distributed_transactions_is_kept() {
        let placement = Placement { shards: 4 };
        for (kind, distributed) in [(Kind::Mrmw, 0.2), (Kind::Crmw, 0.7), (Kind::Srw, 0.5), (Kind::Mrmw, 1.0)]
        {
            for zipf in [0.0, 0.5, 1.2] {
                let drawn = drawn(Workload { kind, distributed, zipf, ..WORKLOAD }, 4_000);
                let over_two = drawn.iter().filter(|each| each.participants(placement).len() == 2).count();
                let expected = if kind == Kind::Srw { 0.0 } else { distributed };
                let share = over_two as f64 / 4_000.0;
                assert!((share - expected).abs() < 0.03, "{kind:?} {distributed}: {share}");
                let independent = drawn.iter().filter(|each| each.is_independent(placement)).count();
                assert_eq!(independent == 4_000, kind != Kind::Crmw, "{kind:?}");
            }
        }
    }

    #[test]
    fn zipf_prefers_low_ranks_by_its_exponent() {
        let first = |zipf| {
            let drawn = drawn(Workload { kind: Kind::Srw, zipf, ..WORKLOAD }, 20_000);
            let is_first = |each: &&Operation| each.accesses().any(|(key, _)| key == 0);
            drawn.iter().filter(is_first).count() as f64 / 20_000.0
        };
        // One over the sum of i^-s for i up to 1,000.
        for (zipf, expected) in [(0.0, 0.001), (0.5, 0.0162), (0.99, 0.1297), (1.2, 0.2306)] {
            let share = first(zipf);
            assert!((share - expected).abs() < 0.01, "{zipf}: {share}");
        }
    }

    #[test]
    fn one_shard_or_few_keys_have_what_they_can() {
        let one = drawn(Workload { shards: 1, distributed: 1.0, ..WORKLOAD }, 100);
        assert!(one.iter().all(|each| each.participants(Placement { shards: 1 }).len() == 1));
        let few = Workload { keys: 2, shards: 2, distributed: 1.0, zipf: 30.0, ..WORKLOAD };
        assert!(drawn(few, 100).iter().all(|each| each.participants(Placement { shards: 2 }).len() == 2));
    }
}
