//! The five sweeps of Figure 3 (ramp.txt §5.2), as data.

use super::Effort;
use crate::plot::Axis;
use crate::ycsb::Ycsb;

pub struct Sweep {
    pub panel: &'static str,
    label: &'static str,
    is_log: bool,
    quick: &'static [f64],
    full: &'static [f64],
    pub set: fn(&mut Ycsb, f64),
}

impl Sweep {
    pub fn axis(&self) -> Axis {
        Axis { label: self.label.to_owned(), is_log: self.is_log }
    }

    pub fn values(&self, effort: Effort) -> impl Iterator<Item = f64> {
        let values = if effort == Effort::Quick { self.quick } else { self.full };
        values.iter().copied()
    }
}

pub const SWEEPS: [Sweep; 5] = [
    Sweep {
        panel: "number of clients",
        label: "clients",
        is_log: true,
        quick: &[8.0, 128.0, 2_048.0],
        full: &[1.0, 4.0, 16.0, 64.0, 256.0, 1_000.0, 4_000.0, 10_000.0],
        set: |workload, x| workload.clients = x as u32,
    },
    Sweep {
        panel: "read proportion",
        label: "share of transactions that read",
        is_log: false,
        quick: &[0.0, 0.5, 1.0],
        full: &[0.0, 0.25, 0.5, 0.75, 0.95, 1.0],
        set: |workload, x| workload.read_share = x,
    },
    Sweep {
        panel: "transaction length",
        label: "operations of a transaction",
        is_log: true,
        quick: &[1.0, 8.0, 64.0],
        full: &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        set: |workload, x| workload.length = x as u32,
    },
    Sweep {
        // In one process values are handed on by reference, so size costs next to nothing here.
        panel: "value size",
        label: "bytes (in one process)",
        is_log: true,
        quick: &[1.0, 1_000.0, 100_000.0],
        full: &[1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0],
        set: |workload, x| workload.value_bytes = x as u32,
    },
    Sweep {
        panel: "database size",
        label: "items",
        is_log: true,
        quick: &[100.0, 1_000.0, 20_000.0],
        full: &[100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0],
        set: |workload, x| workload.items = x as u64,
    },
];

/// What §5.2 says of a protocol's throughput over that of no concurrency control.
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

pub fn published(panel: &str, x: f64, protocol: &str) -> Option<f64> {
    let of = |(one, at, name, _): &&(&str, f64, &str, f64)| *one == panel && *at == x && *name == protocol;
    PUBLISHED.iter().find(of).map(|(.., ratio)| *ratio)
}
