//! One point of a figure: a protocol under a load, with as many clients as give the most.

use serde::Serialize;
use weir_baselines::eris::workload::{Kind, Workload};
use weir_ordered::cluster::Timeouts;

use crate::calibration::Calibration;
use crate::costs::SequencerKind;
use crate::link::Network;
use crate::run::run;
use crate::simulation::{Outcome, Settings, Window};

/// A protocol, with the sequencer that it has.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    pub name: &'static str,
    pub protocol: &'static str,
    pub sequencer: SequencerKind,
}

impl Contender {
    /// Clients of all shards that are more than enough. A globally ordered cluster is as busy with few as with many, since every replica
    /// has every packet.
    fn clients_max(self) -> usize {
        if self.protocol == "ordered-global" { 256 } else { usize::MAX }
    }

    /// Fewer answers are enough of a globally ordered cluster, whose replicas all have every packet, with a stamp of all shards, in memory.
    fn window(self, window: Window) -> Window {
        let answered =
            if self.protocol == "ordered-global" { window.answered.min(1_500) } else { window.answered };
        Window { answered, ..window }
    }
}

const fn contender(name: &'static str, protocol: &'static str, sequencer: SequencerKind) -> Contender {
    Contender { name, protocol, sequencer }
}

pub const NT_UR: Contender = contender("nt-ur", "nt-ur", SequencerKind::Switch);
/// With a sequencer in the network, as in eris.txt.
pub const ORDERED: Contender = contender("ordered", "ordered", SequencerKind::Switch);
/// With the sequencer that Weir has.
pub const ORDERED_SOFTWARE: Contender =
    contender("ordered, software sequencer", "ordered", SequencerKind::Software);
pub const ORDERED_MIDDLEBOX: Contender =
    contender("ordered, the paper's sequencer", "ordered", SequencerKind::Middlebox);
pub const ORDERED_GLOBAL: Contender = contender("ordered-global", "ordered-global", SequencerKind::Switch);
pub const GRANOLA: Contender = contender("granola", "granola", SequencerKind::Switch);
pub const TAPIR: Contender = contender("tapir", "tapir", SequencerKind::Switch);
pub const LOCK_STORE: Contender = contender("lock-store", "lock-store", SequencerKind::Switch);

/// All of them.
pub const ALL: [Contender; 8] =
    [NT_UR, ORDERED, ORDERED_SOFTWARE, ORDERED_MIDDLEBOX, ORDERED_GLOBAL, GRANOLA, TAPIR, LOCK_STORE];

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Shards where a figure does not vary them; 15 in eris.txt §8.
    pub shards: u16,
    /// Clients of a shard: the most of these is taken.
    pub clients: &'static [usize],
    /// The same where messages are lost, since whoever waits for a repetition does nothing.
    pub clients_with_loss: &'static [usize],
    pub window: Window,
    pub is_quick: bool,
}

impl Effort {
    pub const FULL: Effort = Effort {
        shards: 15,
        clients: &[32, 96],
        clients_with_loss: &[256, 2_048],
        window: Window { least_ns: 2_000_000, most_ns: 300_000_000, answered: 20_000 },
        is_quick: false,
    };
    pub const QUICK: Effort = Effort {
        shards: 5,
        clients: &[64],
        clients_with_loss: &[1_024],
        window: Window { least_ns: 2_000_000, most_ns: 100_000_000, answered: 6_000 },
        is_quick: true,
    };
}

/// The load of a point.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub kind: Kind,
    pub shards: u16,
    /// Share of the distributed transactions.
    pub distributed: f64,
    pub zipf: f64,
    pub loss: f64,
}

/// Replicas of a shard, as in eris.txt §8.
const REPLICAS: u16 = 3;
/// Keys of all shards.
const KEYS: u64 = 100_000;
/// Entries after which logs are truncated.
const TRUNCATE_ENTRIES: u64 = 100_000;

/// A point of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    pub x: f64,
    pub transactions_per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub aborts_per_transaction: f64,
    /// Clients of a shard.
    pub clients: usize,
    /// Share of the time in which the busiest replica was busy.
    pub busiest_replica: f64,
}

/// Simulates with costs that were measured.
pub struct Laboratory<'a> {
    pub calibration: &'a Calibration,
    pub effort: Effort,
    pub seed: u64,
    pub timeouts: Timeouts,
    /// See [`Settings::tick_ns`].
    pub tick_ns: u64,
}

impl Laboratory<'_> {
    /// Settings of a run with so many clients a shard.
    ///
    /// # Errors
    /// A cost is not known.
    pub fn settings(&self, contender: Contender, load: Load, clients: usize) -> Result<Settings, String> {
        let Load { kind, shards, distributed, zipf, loss } = load;
        Ok(Settings {
            workload: Workload { kind, keys: KEYS, shards, distributed, zipf },
            replicas: REPLICAS,
            clients: (clients * usize::from(shards)).min(contender.clients_max()),
            seed: self.seed,
            timeouts: self.timeouts,
            tick_ns: self.tick_ns,
            truncate_entries: TRUNCATE_ENTRIES,
            network: Network {
                loss,
                has_sequencer_on_path: contender.sequencer.is_on_path(),
                ..Network::LAN
            },
            costs: contender.sequencer.applied(self.calibration.costs(contender.protocol, kind)?),
            window: contender.window(self.effort.window),
            sequencer_ends_ns: None,
        })
    }

    /// A point with so many clients a shard.
    ///
    /// # Errors
    /// A cost is not known.
    pub fn point(&self, contender: Contender, load: Load, x: f64, clients: usize) -> Result<Point, String> {
        let outcome = run(contender.protocol, &self.settings(contender, load, clients)?);
        Ok(point(&outcome, x, clients))
    }

    /// The point with the most throughput.
    ///
    /// # Errors
    /// A cost is not known.
    pub fn best(&self, contender: Contender, load: Load, x: f64) -> Result<Point, String> {
        let clients = if load.loss > 0.0 { self.effort.clients_with_loss } else { self.effort.clients };
        let mut best: Option<Point> = None;
        for clients in clients {
            let point = self.point(contender, load, x, *clients)?;
            if best.as_ref().is_none_or(|best| point.transactions_per_second > best.transactions_per_second) {
                best = Some(point);
            }
        }
        best.ok_or_else(|| "no number of clients is given".to_owned())
    }
}

fn point(outcome: &Outcome, x: f64, clients: usize) -> Point {
    let latency_us = |quantile| outcome.latency.value_at_quantile(quantile) as f64 / 1e3;
    Point {
        x,
        transactions_per_second: outcome.throughput(),
        p50_us: latency_us(0.5),
        p99_us: latency_us(0.99),
        aborts_per_transaction: outcome.aborts as f64 / outcome.answered.max(1) as f64,
        clients,
        busiest_replica: outcome.busiest_replica,
    }
}
