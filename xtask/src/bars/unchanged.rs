//! Bars of speed that compare this build with an earlier one, in turns: `cargo xtask bars --baseline PROGRAM`.

use serde_json::Value;

use super::issue_02::spread;
use super::side_by_side::{self, Compared};
use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

/// A change that is meant to cost nothing may cost this much.
const LEAST: f64 = 0.97;

macro_rules! unchanged {
    ($id:literal, $claim:literal, $measure:expr) => {
        Bar {
            id: $id,
            issue: 24,
            claim: $claim,
            bar: "≥ 0.97 of the baseline's",
            kind: Kind::Real,
            measure: $measure,
        }
    };
}

pub const BARS: &[Bar] = &[
    unchanged!("speed-pgbench", "pgbench's TPC-B, simple protocol, over the baseline", |weir, effort| {
        against(weir, effort, &["pgbench"])
    }),
    unchanged!("speed-select", "pgbench -S, simple protocol, over the baseline", |weir, effort| {
        against(weir, effort, &["pgbench-select"])
    }),
    unchanged!("speed-copy", "a million rows by COPY, over the baseline", |weir, effort| {
        against(weir, effort, &["copy"])
    }),
    unchanged!("speed-calls", "New-Orders by prepared CALLs, over the baseline", |weir, effort| {
        against(weir, effort, &["examples/tpcc", "--count", "new_order"])
    }),
    unchanged!("speed-tpcc", "TPC-C embedded, 4 shards, 4 warehouses, over the baseline", |weir, effort| {
        let seconds = if effort == Effort::Quick { "2" } else { "3" };
        let run = ["run", "examples/tpcc", "--shards", "4", "--set", "warehouses=4", "--seconds", seconds];
        in_turns(weir, effort, &run, |report| report["throughput"].as_f64())
    }),
    // What the ratios `remote-lines`, `ycsb-fast`, `ycsb-hybrid` and `ycsb-writes-one-phase` divide.
    unchanged!(
        "speed-remote-lines",
        "the same, all order lines remote, over the baseline",
        |weir, effort| {
            let tpcc = ["tpcc", "--shards", "4", "--set", "warehouses=4", "--set", "remote_lines=1"];
            benched(weir, effort, &[&tpcc[..], &["--protocol", "ramp-fast"]].concat())
        }
    ),
    unchanged!("speed-ycsb-fast", "YCSB of `ycsb-fast`, ramp-fast over the baseline's", |weir, effort| {
        benched(weir, effort, &["ycsb", "--protocol", "ramp-fast"])
    }),
    unchanged!("speed-ycsb-hybrid", "the same, ramp-hybrid over the baseline's", |weir, effort| {
        benched(weir, effort, &["ycsb", "--protocol", "ramp-hybrid"])
    }),
    unchanged!(
        "speed-ycsb-writes-one-phase",
        "writes only, answered when all have prepared, ramp-fast over the baseline's",
        |weir, effort| {
            let ycsb = ["ycsb", "--protocol", "ramp-fast", "--set", "read_share=0"];
            benched(weir, effort, &[&ycsb[..], &["--set", "one_phase=true"]].concat())
        }
    ),
];

/// `weir bench` with one run of one protocol.
fn benched(weir: &Weir, effort: Effort, what: &[&str]) -> Result<Seen, String> {
    let run = [&["bench"], what, &["--seconds", "2", "--repeat", "1"]].concat();
    in_turns(weir, effort, &run, |report| report["runs"][0]["throughput"].as_f64())
}

/// A server of this build and one of the baseline, in turns.
fn against(weir: &Weir, effort: Effort, what: &[&str]) -> Result<Seen, String> {
    let targets = format!("weir:,baseline:{}", weir.baseline()?.display());
    let Compared { value, min, max, pairs, own, other, .. } =
        side_by_side::compared(weir, effort, what, &targets)?;
    Ok(Seen {
        met: value >= LEAST,
        figure: format!("{value:.3}"),
        interval: format!("{min:.3} to {max:.3}, {pairs} pairs; {own:.0} and {other:.0} a second"),
    })
}

/// The two programs in turns, each with a cluster of its own. The throughput of one program swings by a third on a shared machine, so pairs
/// are many.
fn in_turns(
    weir: &Weir,
    effort: Effort,
    arguments: &[&str],
    throughput: impl Fn(&Value) -> Option<f64>,
) -> Result<Seen, String> {
    let pairs = if effort == Effort::Quick { 3 } else { 30 };
    let arguments = [arguments, &["--format", "json"]].concat();
    let earlier = weir.earlier()?;
    let throughput = |of: &Weir| of.json(&arguments).map(|report| throughput(&report).unwrap_or(f64::NAN));
    let mut seen_pairs = Vec::new();
    for number in 0..pairs {
        let first = throughput(if number % 2 == 0 { weir } else { &earlier })?;
        let second = throughput(if number % 2 == 0 { &earlier } else { weir })?;
        seen_pairs.push(if number % 2 == 0 { (first, second) } else { (second, first) });
    }
    seen(seen_pairs)
}

/// Result from pairs of throughputs of this build and of the baseline.
fn seen(pairs: Vec<(f64, f64)>) -> Result<Seen, String> {
    let middle =
        |values: Vec<f64>| spread(values).map(|(median, ..)| median).ok_or("nothing was measured".to_owned());
    let own = middle(pairs.iter().map(|pair| pair.0).collect())?;
    let other = middle(pairs.iter().map(|pair| pair.1).collect())?;
    let ratios = pairs.iter().map(|(own, other)| own / other).collect();
    let (median, least, most) = spread(ratios).ok_or("nothing was measured")?;
    Ok(Seen {
        met: median >= LEAST,
        figure: format!("{median:.3}"),
        interval: format!("{least:.3} to {most:.3}, {} pairs; {own:.0} and {other:.0} a second", pairs.len()),
    })
}
