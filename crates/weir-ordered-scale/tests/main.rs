//! The simulation as a measure of capacity: what follows from queues alone, what the protocols promise, and wrong costs that must be found.

mod calibrated;
mod capacity;
mod protocols;

use weir_baselines::eris::workload::{Kind, Workload};
use weir_ordered::cluster::Timeouts;
use weir_ordered_scale::costs::Costs;
use weir_ordered_scale::link::Network;
use weir_ordered_scale::simulation::{Settings, TICK_NS, Window};

/// A short run of SRW: every message costs a microsecond.
fn settings(shards: u16, clients: usize) -> Settings {
    Settings {
        workload: Workload { kind: Kind::Srw, keys: 10_000, shards, distributed: 0.0, zipf: 0.0 },
        replicas: 3,
        clients,
        seed: 1,
        timeouts: Timeouts::DEFAULT,
        tick_ns: TICK_NS,
        truncate_entries: 100_000,
        network: Network::LAN,
        costs: Costs::of_message(1_000.0),
        window: Window { least_ns: 5_000_000, most_ns: 200_000_000, answered: 2_000 },
        sequencer_ends_ns: None,
    }
}
