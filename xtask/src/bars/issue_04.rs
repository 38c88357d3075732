//! The bars of issue 4: RAMP over items beside no concurrency control.

use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

pub const BARS: &[Bar] = &[
    Bar {
        id: "ycsb-fast",
        issue: 4,
        claim: "ramp-fast over none: YCSB, 95% reads, 4 operations, zipf, a million items",
        bar: "≥ 0.96",
        kind: Kind::Real,
        measure: |weir, effort| reads(weir, effort, "ramp-fast", 0.96),
    },
    Bar {
        id: "ycsb-hybrid",
        issue: 4,
        claim: "ramp-hybrid over none, the same",
        bar: "≥ 0.95",
        kind: Kind::Real,
        measure: |weir, effort| reads(weir, effort, "ramp-hybrid", 0.95),
    },
    Bar {
        id: "ycsb-small",
        issue: 4,
        claim: "ramp-small over none, the same",
        bar: "≥ 0.60",
        kind: Kind::Real,
        measure: |weir, effort| reads(weir, effort, "ramp-small", 0.60),
    },
    Bar {
        id: "ycsb-writes",
        issue: 4,
        claim: "ramp-fast over none, the same with writes only",
        bar: "≥ 0.65",
        kind: Kind::Real,
        measure: |weir, effort| writes(weir, effort, "one_phase=false", 0.65),
    },
    Bar {
        id: "ycsb-writes-one-phase",
        issue: 4,
        claim: "ramp-fast over none, writes only, answered when all have prepared",
        bar: "≥ 0.80",
        kind: Kind::Real,
        measure: |weir, effort| writes(weir, effort, "one_phase=true", 0.80),
    },
];

fn reads(weir: &Weir, effort: Effort, protocol: &str, least: f64) -> Result<Seen, String> {
    weir.ratio(effort, least, &["ycsb", "--protocol", &format!("none,{protocol}")])
}

fn writes(weir: &Weir, effort: Effort, phases: &str, least: f64) -> Result<Seen, String> {
    let what = ["ycsb", "--protocol", "none,ramp-fast", "--set", "read_share=0", "--set", phases];
    weir.ratio(effort, least, &what)
}
