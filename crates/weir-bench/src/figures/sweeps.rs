//! The five sweeps of Figure 3 (ramp.txt §5.2), as data, and what runs them: threads of this machine, or simulated servers.

use super::{Effort, Point, Setting, compare_with_none, keep_better, point};
use crate::pace::Limit;
use crate::plot::Axis;
use crate::scale::{self, Network, Servers};
use crate::ycsb::{Protocol, Ycsb};

pub struct Sweep {
    pub panel: &'static str,
    label: &'static str,
    is_log: bool,
    quick: &'static [f64],
    full: &'static [f64],
    set: fn(&mut Ycsb, f64),
}

impl Sweep {
    pub fn axis(&self) -> Axis {
        Axis { label: self.label.to_owned(), is_log: self.is_log }
    }

    fn values(&self, effort: Effort) -> impl Iterator<Item = f64> {
        let values = if effort == Effort::Quick { self.quick } else { self.full };
        values.iter().copied()
    }

    const fn log(
        (panel, label): (&'static str, &'static str),
        quick: &'static [f64],
        full: &'static [f64],
        set: fn(&mut Ycsb, f64),
    ) -> Sweep {
        Sweep { panel, label, is_log: true, quick, full, set }
    }
}

pub const SWEEPS: [Sweep; 5] = [
    Sweep::log(
        ("number of clients", "clients"),
        &[8.0, 128.0, 2_048.0],
        &[1.0, 16.0, 64.0, 256.0, 1_000.0, 4_000.0, 10_000.0],
        |workload, x| workload.clients = x as u32,
    ),
    Sweep {
        panel: "read proportion",
        label: "share of transactions that read",
        is_log: false,
        quick: &[0.0, 0.5, 1.0],
        full: &[0.0, 0.25, 0.5, 0.75, 0.95, 1.0],
        set: |workload, x| workload.read_share = x,
    },
    Sweep::log(
        ("transaction length", "operations of a transaction"),
        &[1.0, 8.0, 64.0],
        &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        |workload, x| workload.length = x as u32,
    ),
    // In one process values are handed on by reference, so size costs next to nothing there.
    Sweep::log(
        ("value size", "bytes"),
        &[1.0, 1_000.0, 100_000.0],
        &[1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0],
        |workload, x| workload.value_bytes = x as u32,
    ),
    Sweep::log(
        ("database size", "items"),
        &[100.0, 1_000.0, 20_000.0],
        &[100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0],
        |workload, x| workload.items = x as u64,
    ),
];

/// Ratios of a protocol's throughput to that without concurrency control, from §5.2.
const PUBLISHED: [(&str, f64, &str, f64); 13] = [
    ("number of clients", 10_000.0, "ramp-fast", 0.958),
    ("number of clients", 10_000.0, "ramp-hybrid", 0.958),
    ("number of clients", 10_000.0, "ramp-small", 0.6),
    ("number of clients", 10_000.0, "lwnr", 0.286),
    ("number of clients", 10_000.0, "lwlr", 0.016),
    ("read proportion", 0.0, "ramp-fast", 0.65),
    ("read proportion", 0.0, "ramp-small", 0.65),
    ("read proportion", 0.0, "ramp-hybrid", 0.65),
    ("read proportion", 1.0, "ramp-fast", 1.0),
    ("read proportion", 1.0, "e-pci", 1.0),
    ("value size", 1.0, "ramp-fast", 0.977),
    ("value size", 100_000.0, "ramp-fast", 1.0),
    ("database size", 1_000.0, "ramp-fast", 0.969),
];

fn published(panel: &str, x: f64, protocol: &str) -> Option<f64> {
    let of = |(one, at, name, _): &&(&str, f64, &str, f64)| *one == panel && *at == x && *name == protocol;
    PUBLISHED.iter().find(of).map(|(.., ratio)| *ratio)
}

/// Each protocol at each place: the paper's default workload but for what is swept.
fn each(
    sweeps: &[Sweep],
    workload: &Ycsb,
    effort: Effort,
    mut measure: impl FnMut(&Sweep, f64, &Ycsb) -> Result<Vec<Point>, (String, String)>,
) -> Result<Vec<Point>, (String, String)> {
    let mut all = Vec::new();
    for sweep in sweeps {
        for x in sweep.values(effort) {
            let mut workload = workload.clone();
            (sweep.set)(&mut workload, x);
            let mut at_x = measure(sweep, x, &workload)?;
            compare_with_none(&mut at_x);
            at_x.iter_mut().for_each(|point| point.published = published(sweep.panel, x, &point.series));
            all.extend(at_x);
        }
    }
    Ok(all)
}

/// On threads of this machine.
pub fn real(setting: &mut Setting<'_>) -> Result<Vec<Point>, (String, String)> {
    on_threads(&SWEEPS, setting)
}

/// The number of clients alone (Figure 2).
pub fn clients(setting: &mut Setting<'_>) -> Result<Vec<Point>, (String, String)> {
    on_threads(&SWEEPS[..1], setting)
}

fn on_threads(sweeps: &[Sweep], setting: &mut Setting<'_>) -> Result<Vec<Point>, (String, String)> {
    let (rounds, seconds, items) = match setting.effort {
        Effort::Quick => (1, 0.2, 20_000),
        Effort::Full => (2, 1.0, 1_000_000),
    };
    let workload = Ycsb { items, limit: Limit::Seconds(seconds), seed: setting.seed, ..Ycsb::default() };
    each(sweeps, &workload, setting.effort, |sweep, x, workload| {
        let mut at_x: Vec<Point> = Vec::new();
        for (round, protocol) in (1..=rounds).flat_map(|round| Protocol::ALL.map(|one| (round, one))) {
            setting.tell(&format!("{} = {x}: {} ({round} of {rounds})", sweep.panel, protocol.name()));
            keep_better(&mut at_x, point(sweep.panel, x, protocol, &workload.run(protocol)?, false));
        }
        Ok(at_x)
    })
}

/// The paper's five servers (§5.1).
const SERVERS: u16 = 5;
/// Its number of clients at peak throughput (§5.2), in all.
const CLIENTS: u32 = 10_000;

/// On servers that do not exist: as many as the paper has, with the network and the bytes of values in between.
pub fn simulated(setting: &mut Setting<'_>) -> Result<Vec<Point>, (String, String)> {
    let (seconds, items) = match setting.effort {
        Effort::Quick => (0.02, 20_000),
        Effort::Full => (0.1, 1_000_000),
    };
    let (prices, seed) = (setting.prices, setting.seed);
    let workload = Ycsb { items, clients: CLIENTS, seed, ..Ycsb::default() };
    each(&SWEEPS, &workload, setting.effort, |sweep, x, workload| {
        let clients = workload.clients.div_ceil(SERVERS.into());
        // A longer or heavier run takes longer: each client should have been answered a few times.
        let weight = (f64::from(workload.length) / 4.0).max(f64::from(workload.value_bytes) / 1e3);
        let seconds = seconds * weight.max(1.0);
        let servers = Servers { servers: SERVERS, cores: 1, clients, network: Network::Lan, seconds, seed };
        let of = |protocol: Protocol| {
            setting.tell(&format!("{} = {x}: {} (simulated)", sweep.panel, protocol.name()));
            let (outcome, _) = scale::ycsb(workload, protocol, servers, prices)?;
            Ok(point(sweep.panel, x, protocol, &outcome, true))
        };
        Protocol::ALL.into_iter().map(of).collect()
    })
}
