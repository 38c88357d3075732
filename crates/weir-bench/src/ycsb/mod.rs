//! YCSB over items, as ramp.txt §5.1 uses it: read-only and write-only transactions of a few operations on
//! keys that are drawn by Zipf's law or evenly.
//!
//! Every protocol runs in the same process, on the same threads, from the same generator: only the machines
//! differ.

mod clients;
mod generator;
mod memory;
mod network;
mod protocol;
mod shape;

use std::sync::Arc;

use crate::pace::{COORDINATORS, Limit, Pace, share};
pub(crate) use clients::Tally;
use clients::{ClosedLoops, Loader};
pub(crate) use generator::{Generator, key};
pub use protocol::{Drive, ItemShard, Machines, Protocol};
pub use shape::{Shape, Shaped};
use weir_kv::ItemCoordinator;
use weir_server::embedded::Cluster;
use weir_server::progress;
use weir_server::report::Latency;

/// YCSB's exponent.
const THETA: f64 = 0.99;

/// The distribution that keys are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Zipf's law with this exponent.
    Zipf(f64),
    Uniform,
}

/// The workload; the default is the paper's, with as many clients as keep two cores busy.
#[derive(Clone, Debug)]
pub struct Ycsb {
    pub items: u64,
    pub keys: Keys,
    /// Share of the transactions that read; the others write.
    pub read_share: f64,
    /// Operations of a transaction, all on different items.
    pub length: u32,
    pub value_bytes: u32,
    /// Writers are answered once all have prepared (ramp.txt §4.7); only RAMP knows the difference.
    pub one_phase: bool,
    pub shards: u16,
    /// Transactions under way at once.
    pub clients: u32,
    pub limit: Limit,
    pub seed: u64,
}

impl Default for Ycsb {
    fn default() -> Ycsb {
        Ycsb {
            items: 1_000_000,
            keys: Keys::Zipf(THETA),
            read_share: 0.95,
            length: 4,
            value_bytes: 1,
            one_phase: false,
            shards: 5,
            clients: 256,
            limit: Limit::Seconds(10.0),
            seed: 1,
        }
    }
}

impl Ycsb {
    /// The settings that `--set` and `--sweep` may change, with their values.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let (keys, theta) = match self.keys {
            Keys::Zipf(theta) => ("zipf", theta.to_string()),
            Keys::Uniform => ("uniform", THETA.to_string()),
        };
        vec![
            ("items", self.items.to_string()),
            ("keys", keys.to_owned()),
            ("theta", theta),
            ("read_share", self.read_share.to_string()),
            ("length", self.length.to_string()),
            ("value_bytes", self.value_bytes.to_string()),
            ("one_phase", self.one_phase.to_string()),
        ]
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// The error and its remedy.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), (String, String)> {
        let settings = self.settings();
        let set = match name {
            "items" => integer(value, 100_000_000).map(|items| self.items = items),
            "length" => integer(value, 1_000).map(|length| self.length = length as u32),
            "value_bytes" => integer(value, 10_000_000).map(|bytes| self.value_bytes = bytes as u32),
            "read_share" => {
                let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                share.map(|share| self.read_share = share).ok_or("a share from 0 to 1".to_owned())
            }
            "one_phase" => value
                .parse()
                .map(|one_phase| self.one_phase = one_phase)
                .map_err(|_| "`true` or `false`".to_owned()),
            "keys" => {
                let laws = [("zipf", Keys::Zipf(THETA)), ("uniform", Keys::Uniform)];
                let law = laws.into_iter().find(|(name, _)| *name == value);
                law.map(|(_, keys)| self.keys = keys).ok_or("`zipf` or `uniform`".to_owned())
            }
            "theta" => {
                let theta = value.parse().ok().filter(|theta| *theta > 0.0 && *theta < 1.0);
                let right = "an exponent above 0 and below 1";
                theta.map(|theta| self.keys = Keys::Zipf(theta)).ok_or(right.to_owned())
            }
            _ => {
                let names: Vec<&str> = settings.iter().map(|(name, _)| *name).collect();
                let names = format!("the settings are: {}", names.join(", "));
                return Err((format!("ycsb has no setting `{name}`"), names));
            }
        };
        set.map_err(|right| (format!("`{name}={value}` is wrong"), format!("{name} is {right}")))
    }

    /// Whether the settings go together.
    ///
    /// # Errors
    /// Which do not, and what would be right.
    pub fn check(&self) -> Result<(), (String, String)> {
        let (items, length) = (self.items, self.length);
        match u64::from(length) > items {
            true => Err((
                format!("length={length} asks for more different items than there are: items={items}"),
                "choose a length of at most as many operations as there are items".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Loads the items and runs the workload.
    ///
    /// # Errors
    /// Those of [`Ycsb::check`] and [`Ycsb::check_memory`]; nothing has run then.
    pub fn run(&self, protocol: Protocol) -> Result<Outcome, (String, String)> {
        self.check()?;
        self.check_memory(false)?;
        let machines = Machines {
            shards: self.shards,
            coordinators: COORDINATORS,
            one_phase: self.one_phase,
            seed: self.seed,
        };
        Ok(protocol.drive(machines, Embedded(self)))
    }
}

/// On the threads of an embedded cluster.
struct Embedded<'a>(&'a Ycsb);

impl Drive for Embedded<'_> {
    type Output = Outcome;

    fn run<S: ItemShard, C: ItemCoordinator<S>>(self, shards: Vec<S>, coordinators: Vec<C>) -> Outcome {
        let Embedded(workload) = self;
        let generator = Arc::new(Generator::new(workload));
        let loader = |coordinator: C| {
            let items = share(workload.items, coordinator.id());
            Loader::new(coordinator, generator.clone(), items)
        };
        let loaders = coordinators.into_iter().map(loader).collect();
        let (shards, loaders) = Cluster::start(shards, loaders).join();
        let pace = Arc::new(Pace::new(workload.limit));
        let closed_loops = |loader: Loader<C>| {
            let coordinator = loader.into_coordinator();
            let id = coordinator.id();
            let clients = share(u64::from(workload.clients), id);
            let seed = workload.seed.wrapping_mul(1_000_003) ^ id;
            let clients = clients.end - clients.start;
            ClosedLoops::new(coordinator, generator.clone(), pace.clone(), seed, clients)
        };
        let cluster = Cluster::start(shards, loaders.into_iter().map(closed_loops).collect());
        pace.watch(&mut progress::silent, || cluster.is_finished());
        let seconds = pace.begun.elapsed().as_secs_f64();
        let (shards, loops) = cluster.join();
        let mut tally = Tally::default();
        loops.into_iter().for_each(|one| tally.add(one.into_tally()));
        let mut outcome = Outcome::of(&tally, seconds);
        let bytes: u64 = shards.iter().map(ItemShard::metadata_bytes).sum();
        outcome.metadata_bytes_per_read = bytes as f64 / outcome.reads.max(1) as f64;
        outcome
    }
}

/// From 1 on; or what would be right.
fn integer(text: &str, max: u64) -> Result<u64, String> {
    let number = text.replace('_', "").parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {max}"))
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub seconds: f64,
    /// Committed transactions per second.
    pub throughput: f64,
    pub reads: u64,
    pub writes: u64,
    pub aborted: u64,
    /// Average message rounds of reads and of writes.
    pub read_rounds: f64,
    pub write_rounds: f64,
    pub latency: Latency,
    /// Average bytes of metadata per read, without stamps.
    pub metadata_bytes_per_read: f64,
}

impl Outcome {
    pub(crate) fn of(tally: &Tally, seconds: f64) -> Outcome {
        let per = |sum: u64, of: u64| sum as f64 / of.max(1) as f64;
        Outcome {
            seconds,
            throughput: (tally.reads + tally.writes) as f64 / seconds.max(1e-9),
            reads: tally.reads,
            writes: tally.writes,
            aborted: tally.aborted,
            read_rounds: per(tally.read_rounds, tally.reads),
            write_rounds: per(tally.write_rounds, tally.writes),
            latency: Latency::from_nanoseconds(&tally.latency),
            metadata_bytes_per_read: 0.0,
        }
    }
}
