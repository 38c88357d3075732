//! YCSB over items, as ramp.txt §5.1 uses it: read-only and write-only transactions of a few operations on
//! keys that are drawn by Zipf's law or evenly.
//!
//! Every protocol runs in the same process, on the same threads, from the same generator: only the machines
//! differ.

mod clients;
mod generator;
mod protocol;

use std::sync::Arc;

use weir_server::embedded::Cluster;
use weir_server::progress;
use weir_server::report::Latency;
use weir_txn::machine::Shard;

use crate::pace::{Limit, Pace, share};
use clients::{ClosedLoops, Loader, OverItems};
use generator::Generator;
pub use protocol::Protocol;

/// How keys are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    /// Zipf's law with this exponent; YCSB's is 0.99.
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
            keys: Keys::Zipf(0.99),
            read_share: 0.95,
            length: 4,
            value_bytes: 1,
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
            Keys::Uniform => ("uniform", "0.99".to_owned()),
        };
        vec![
            ("items", self.items.to_string()),
            ("keys", keys.to_owned()),
            ("theta", theta),
            ("read_share", self.read_share.to_string()),
            ("length", self.length.to_string()),
            ("value_bytes", self.value_bytes.to_string()),
        ]
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// What would be right, where the name or the value is not.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |right: &str| format!("`{name}={value}`: {right}");
        match name {
            "items" => {
                let right = "a number of items from 1 to 100000000";
                self.items = number(value, 1, 100_000_000).ok_or_else(|| wrong(right))?;
            }
            "length" => {
                let right = "a number of operations from 1 to 1000";
                self.length = number(value, 1, 1_000).ok_or_else(|| wrong(right))? as u32;
            }
            "value_bytes" => {
                let right = "a number of bytes from 1 to 10000000";
                self.value_bytes = number(value, 1, 10_000_000).ok_or_else(|| wrong(right))? as u32;
            }
            "read_share" => {
                let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                self.read_share = share.ok_or_else(|| wrong("a share from 0 to 1"))?;
            }
            "keys" => {
                self.keys = match value {
                    "zipf" => Keys::Zipf(0.99),
                    "uniform" => Keys::Uniform,
                    _ => return Err(wrong("`zipf` or `uniform`")),
                }
            }
            "theta" => {
                let theta = value.parse().ok().filter(|theta| *theta > 0.0 && *theta < 1.0);
                self.keys = Keys::Zipf(theta.ok_or_else(|| wrong("an exponent above 0 and below 1"))?);
            }
            _ => {
                let names: Vec<&str> = self.settings().iter().map(|(name, _)| *name).collect();
                return Err(format!("ycsb has no setting `{name}`; it has {}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// Whether the settings go together.
    ///
    /// # Errors
    /// Which do not, and what would be right.
    pub fn check(&self) -> Result<(), String> {
        let (items, length) = (self.items, self.length);
        match u64::from(length) > items {
            true => Err(format!(
                "length={length}: a transaction has at most {items} operations, for all are on different items and items={items}"
            )),
            false => Ok(()),
        }
    }

    /// Loads the items and runs the workload.
    ///
    /// # Errors
    /// Those of [`Ycsb::check`]; nothing has run then.
    pub fn run(&self, protocol: Protocol) -> Result<Outcome, String> {
        self.check()?;
        Ok(protocol.run(self))
    }

    fn run_on<S, C>(&self, shards: Vec<S>, coordinators: Vec<C>) -> (Outcome, Vec<S>)
    where
        S: Shard,
        C: OverItems<S>,
    {
        let generator = Arc::new(Generator::new(self));
        let loader = |coordinator: C| {
            let items = share(self.items, coordinator.id());
            Loader::new(coordinator, generator.clone(), items)
        };
        let loaders = coordinators.into_iter().map(loader).collect();
        let (shards, loaders) = Cluster::start(shards, loaders).join();
        let pace = Arc::new(Pace::new(self.limit));
        let closed_loops = |loader: Loader<C>| {
            let coordinator = loader.into_coordinator();
            let id = coordinator.id();
            let clients = share(u64::from(self.clients), id);
            let seed = self.seed.wrapping_mul(1_000_003) ^ u64::from(id);
            let clients = clients.end - clients.start;
            ClosedLoops::new(coordinator, generator.clone(), pace.clone(), seed, clients)
        };
        let cluster = Cluster::start(shards, loaders.into_iter().map(closed_loops).collect());
        pace.watch(&mut progress::silent, || cluster.is_finished());
        let seconds = pace.begun.elapsed().as_secs_f64();
        let (shards, loops) = cluster.join();
        let mut tally = clients::Tally::default();
        loops.into_iter().for_each(|one| tally.add(one.into_tally()));
        (Outcome::of(&tally, seconds), shards)
    }
}

fn number(text: &str, min: u64, max: u64) -> Option<u64> {
    text.replace('_', "").parse().ok().filter(|number| (min..=max).contains(number))
}

/// What a run gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub seconds: f64,
    /// Transactions that committed, a second.
    pub throughput: f64,
    pub reads: u64,
    pub writes: u64,
    pub aborted: u64,
    /// Of reads and of writes, rounds of messages on average.
    pub read_rounds: f64,
    pub write_rounds: f64,
    pub latency: Latency,
    /// Bytes of metadata that reads were handed, beside stamps, on average.
    pub metadata_bytes_per_read: f64,
}

impl Outcome {
    fn of(tally: &clients::Tally, seconds: f64) -> Outcome {
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
