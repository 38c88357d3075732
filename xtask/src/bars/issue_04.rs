//! The bars of issue 4: RAMP over items beside no concurrency control.

use super::weir::{Captured, Chosen, Weir};
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
    Bar {
        id: "three-processes",
        issue: 4,
        claim: "transactions of four operations a second: three shards as processes over loopback TCP, 32 clients",
        bar: "≥ 30,000",
        kind: Kind::Real,
        measure: |weir, effort| over_network(weir, effort, ("3", 30_000.0), &["--clients", "32"]),
    },
    Bar {
        id: "single-items",
        issue: 4,
        claim: "operations on single items a second: one shard as a process, 1,000 clients, batched",
        bar: "≥ 400,000",
        kind: Kind::Real,
        measure: |weir, effort| {
            over_network(weir, effort, ("1", 400_000.0), &["--clients", "1000", "--set", "length=1"])
        },
    },
    Bar {
        id: "no-fractured-read",
        issue: 4,
        claim: "a thousand seeds of each variant under faults, crashes included: read atomicity, own writes, nothing lost, \
                convergence, linearizable items",
        bar: "no violation",
        kind: Kind::Computed,
        measure: no_fractured_read,
    },
    Bar {
        id: "kills",
        issue: 4,
        claim: "no fractured read, nothing acknowledged lost, what killed clients prepared decided within two time-outs: \
                a minute of real processes, one killed and started again every five seconds",
        bar: "holds; ≤ 2,000 ms",
        kind: Kind::Real,
        measure: kills,
    },
    Bar {
        id: "tpcc-over-network",
        issue: 4,
        claim: "TPC-C over the network: the twelve conditions after a minute on three durable processes, one killed and started \
                again every five seconds",
        bar: "12 of 12",
        kind: Kind::Real,
        measure: tpcc_over_network,
    },
];

fn reads(weir: &Weir, effort: Effort, protocol: &str, least: f64) -> Result<Seen, String> {
    weir.ratio(effort, least, &["ycsb", "--protocol", &format!("none,{protocol}")])
}

fn writes(weir: &Weir, effort: Effort, phases: &str, least: f64) -> Result<Seen, String> {
    let what = ["ycsb", "--protocol", "none,ramp-fast", "--set", "read_share=0", "--set", phases];
    weir.ratio(effort, least, &what)
}

/// Processes of one shard each, and what the bench reaches on them: the median of some runs.
fn over_network(
    weir: &Weir,
    effort: Effort,
    (nodes, least): (&str, f64),
    more: &[&str],
) -> Result<Seen, String> {
    let (seconds, runs) = if effort == Effort::Quick { ("2", "1") } else { ("6", "5") };
    let mut arguments =
        vec!["bench", "ycsb", "--processes", nodes, "--protocol", "ramp-fast", "--format", "json"];
    arguments.extend(["--seconds", seconds, "--repeat", runs]);
    arguments.extend(more);
    let report = weir.json(&arguments)?;
    let throughput = |run: &serde_json::Value| run["throughput"].as_f64();
    let mut seen: Vec<f64> = report["runs"].as_array().into_iter().flatten().filter_map(throughput).collect();
    seen.sort_by(f64::total_cmp);
    let (Some(lowest), Some(highest)) = (seen.first(), seen.last()) else {
        return Err("the bench reported no run".to_owned());
    };
    let median = seen[seen.len() / 2];
    Ok(Seen {
        met: median >= least,
        figure: format!("{median:.0}"),
        interval: format!("{lowest:.0} to {highest:.0}, {runs} runs of {seconds} s"),
    })
}

fn no_fractured_read(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let seeds = if effort == Effort::Quick { "0..50" } else { "0..1000" };
    let said = weir.text(&["sim", "items", "--seeds", seeds])?;
    let held = said.lines().filter(|line| line.ends_with("all checks hold")).count();
    let transactions = said.lines().filter_map(|line| line.split(", ").nth(1)).collect::<Vec<_>>().join(", ");
    Ok(Seen {
        met: held == 3,
        figure: if held == 3 { "no violation".to_owned() } else { said.clone() },
        interval: format!("seeds {seeds} of three variants: {transactions}"),
    })
}

fn tpcc_over_network(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let test = Chosen::release("product", &["processes::calls_over_network::all_conditions"]);
    let ran = weir.tests(&test, Captured::No, &[("WEIR_KILLS", seconds_of_kills(effort))])?;
    let text = ran.text;
    let line = text.lines().find(|line| line.contains("conditions hold after")).unwrap_or_default();
    let (held, after) = line.split_once(" conditions hold after ").unwrap_or(("violated", ""));
    Ok(Seen {
        met: held == "12 of 12" && ran.failed == 0,
        figure: held.to_owned(),
        interval: after.to_owned(),
    })
}

fn seconds_of_kills(effort: Effort) -> &'static str {
    if effort == Effort::Quick { "10" } else { "60" }
}

fn kills(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let test = Chosen::release("product", &["processes::kills::nobody"]);
    let ran = weir.tests(&test, Captured::No, &[("WEIR_KILLS", seconds_of_kills(effort))])?;
    let text = ran.text;
    let line = |words: &str| text.lines().find(|line| line.contains(words)).unwrap_or_default().to_owned();
    let decided = line("was decided after");
    let after_ms = decided.split_whitespace().find_map(|word| word.parse::<u64>().ok());
    Ok(Seen {
        met: ran.failed == 0
            && text.contains("nothing acknowledged was lost")
            && after_ms.is_some_and(|after_ms| after_ms <= 2_000),
        figure: after_ms.map_or("violated".to_owned(), |after_ms| format!("holds; {after_ms} ms")),
        interval: line("killed: checking").replace(": checking", ""),
    })
}
