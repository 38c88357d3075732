//! Coordinate where it is needed: guards at speed.

use serde_json::Value;

use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

pub const BARS: &[Bar] = &[
    Bar {
        id: "hot-row-one",
        issue: 27,
        claim: "calls a second that take an escrow, an exclusive or a shared claim, or the next number of one hot row (`testdata/hot-row`), 32 clients, on one shard",
        bar: "each ≥ 20,000, none fails, every invariant",
        kind: Kind::Real,
        measure: |weir, effort| hot_row(weir, effort, "1", 20_000.0),
    },
    Bar {
        id: "hot-row-four",
        issue: 27,
        claim: "the same across four shards",
        bar: "each ≥ 5,000, none fails, every invariant",
        kind: Kind::Real,
        measure: |weir, effort| hot_row(weir, effort, "4", 5_000.0),
    },
];

/// A workload in `testdata/hot-row`: its name here, its directory, a setting.
const WORKLOADS: [(&str, &str, Option<&str>); 6] = [
    ("escrow", "escrow", None),
    ("escrow of two rows", "escrow", Some("both=100")),
    ("claim", "claim", None),
    ("shared claim", "claim", Some("shared=100")),
    ("one of many rows", "claim", Some("takes=50")),
    ("sequence", "sequence", None),
];

/// The median of each workload's runs counts.
fn hot_row(weir: &Weir, effort: Effort, shards: &str, least: f64) -> Result<Seen, String> {
    let (rounds, seconds) = if effort == Effort::Quick { (1, "1") } else { (5, "4") };
    let mut met = true;
    let (mut figures, mut intervals) = (Vec::new(), Vec::new());
    for (name, directory, setting) in WORKLOADS {
        let path = format!("testdata/hot-row/{directory}");
        let mut arguments = vec!["run", &path, "--shards", shards, "--clients", "32", "--seconds", seconds];
        arguments.extend(setting.into_iter().flat_map(|setting| ["--set", setting]));
        arguments.extend(["--format", "json"]);
        let mut speeds = Vec::new();
        for _ in 0..rounds {
            let report = weir.json(&arguments)?;
            met &= is_sound(&report);
            speeds.push(report["throughput"].as_f64().unwrap_or(0.0));
        }
        speeds.sort_by(f64::total_cmp);
        let median = speeds[speeds.len() / 2];
        met &= median >= least;
        figures.push(format!("{name} {median:.0}"));
        intervals.push(format!("{name} {:.0} to {:.0}", speeds[0], speeds[speeds.len() - 1]));
    }
    Ok(Seen {
        met,
        figure: figures.join(", "),
        interval: format!("{}; medians of {rounds} runs of {seconds} s each", intervals.join(", ")),
    })
}

/// No call has failed, and every invariant holds.
fn is_sound(report: &Value) -> bool {
    let none_failed = report["aborted"].as_object().is_some_and(serde_json::Map::is_empty);
    let holds = |invariant: &Value| invariant["holds"].as_bool() == Some(true);
    none_failed && report["invariants"].as_array().is_some_and(|all| all.iter().all(holds))
}
