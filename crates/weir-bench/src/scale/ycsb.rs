//! YCSB over items on simulated servers.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use weir_core::ids::ShardId;
use weir_kv::{Done, ItemCoordinator, Key, Transaction, Write, shard_of};
use weir_sim::scale::{Clients, Scale};

use super::prices::ItemTariff;
use super::{Load, Prices, Servers};
use crate::ycsb::{Drive, Generator, ItemShard, Machines, Outcome, Protocol, Tally, Ycsb, key};

/// Number of items loaded in one transaction.
const LOADED_AT_ONCE: usize = 64;

/// Runs the workload on servers that do not exist; shards, clients, limit and seed of the workload do not matter.
///
/// # Errors
/// The error in the workload or the prices, and its remedy.
pub fn run(
    workload: &Ycsb,
    protocol: Protocol,
    servers: Servers,
    prices: &Prices,
) -> Result<(Outcome, Load), (String, String)> {
    workload.check()?;
    workload.check_memory(false)?;
    let recalibrate = |what| (what, "`weir calibrate` measures them anew".to_owned());
    let tariff = prices.of(protocol).map_err(recalibrate)?;
    let machines = Machines {
        shards: servers.cores_in_all(),
        coordinators: servers.cores_in_all().into(),
        one_phase: workload.one_phase,
        seed: servers.seed,
    };
    Ok(protocol.drive(machines, Simulated { workload, servers, prices, tariff }))
}

struct Simulated<'a> {
    workload: &'a Ycsb,
    servers: Servers,
    prices: &'a Prices,
    tariff: ItemTariff,
}

impl Drive for Simulated<'_> {
    type Output = (Outcome, Load);

    fn run<S: ItemShard, C: ItemCoordinator<S>>(
        self,
        shards: Vec<S>,
        coordinators: Vec<C>,
    ) -> (Outcome, Load) {
        let Simulated { workload, servers, prices, tariff } = self;
        let machines = shards.into_iter().zip(coordinators);
        let mut scale = Scale::new(servers.setup(prices), tariff, machines);
        load(&mut scale, workload, servers.cores_in_all());
        let mut loops = Loops {
            generator: Generator::new(workload),
            chance: Xoshiro256PlusPlus::seed_from_u64(servers.seed),
            tally: Tally::default(),
        };
        scale.start();
        scale.run(servers.seconds, &mut loops);
        scale.take_work();
        loops.tally = Tally::default();
        let handed =
            |scale: &Scale<S, C, ItemTariff>| scale.shards().map(ItemShard::metadata_bytes).sum::<u64>();
        let before = handed(&scale);
        scale.run(servers.seconds, &mut loops);
        let mut outcome = Outcome::of(&loops.tally, servers.seconds);
        outcome.metadata_bytes_per_read = (handed(&scale) - before) as f64 / outcome.reads.max(1) as f64;
        (outcome, Load::of(&scale.take_work(), servers.seconds))
    }
}

/// Writes all items, and lets every coordinator read something on every shard: from then on it is known there.
fn load<S: ItemShard, C: ItemCoordinator<S>>(
    scale: &mut Scale<S, C, ItemTariff>,
    workload: &Ycsb,
    shards: ShardId,
) {
    let value = Generator::new(workload).value();
    let mut by_shard: Vec<Vec<(Key, Write)>> = (0..shards).map(|_| Vec::new()).collect();
    let mut one_of_each: Vec<Option<Key>> = vec![None; usize::from(shards)];
    let write = |writes| Transaction { writes, ..Transaction::default() };
    for item in 0..workload.items {
        let key = key(item);
        let shard = usize::from(shard_of(&key, shards));
        one_of_each[shard].get_or_insert_with(|| key.clone());
        by_shard[shard].push((key, Write::Put(value.clone())));
        if by_shard[shard].len() == LOADED_AT_ONCE {
            scale.prime(shard, write(std::mem::take(&mut by_shard[shard])));
        }
    }
    for (shard, writes) in by_shard.into_iter().enumerate().filter(|(_, writes)| !writes.is_empty()) {
        scale.prime(shard, write(writes));
    }
    let reads: Vec<Key> = one_of_each.into_iter().flatten().collect();
    for coordinator in 0..usize::from(shards) {
        scale.prime(coordinator, Transaction { reads: reads.clone(), ..Transaction::default() });
    }
}

struct Loops {
    generator: Generator,
    chance: Xoshiro256PlusPlus,
    tally: Tally,
}

impl Clients<Transaction, Done> for Loops {
    fn next(&mut self, _coordinator: usize, _client: u64) -> Transaction {
        self.generator.next(&mut self.chance)
    }

    fn done(&mut self, done: Done, took_ps: u64) {
        if self.tally.note(&done) {
            self.tally.latency.saturating_record((took_ps / 1_000).max(1));
        }
    }
}
