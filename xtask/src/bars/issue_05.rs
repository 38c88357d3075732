//! The bars of issue 5, a server people can use: PostgreSQL's protocol beside PostgreSQL, durability, the breadth of SQL.

use super::issue_02::tests;
use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

pub const BARS: &[Bar] = &[
    Bar {
        id: "pgbench",
        issue: 5,
        claim: "pgbench's own TPC-B, both fully durable, scale 16, 16 clients, simple protocol, TCP: over PostgreSQL 15",
        bar: "≥ 1.5, p99 no worse",
        kind: Kind::Real,
        measure: |weir, effort| beside(weir, effort, 1.5, &["pgbench"]),
    },
    Bar {
        id: "pgbench-select",
        issue: 5,
        claim: "`pgbench -S` in the same way: over PostgreSQL 15",
        bar: "≥ 1.2, p99 no worse",
        kind: Kind::Real,
        measure: |weir, effort| beside(weir, effort, 1.2, &["pgbench-select"]),
    },
    Bar {
        id: "copy-million",
        issue: 5,
        claim: "a million rows by COPY into a table with a primary key: over PostgreSQL 15",
        bar: "≥ 100,000 rows a second, and faster than PostgreSQL",
        kind: Kind::Real,
        measure: copied,
    },
    Bar {
        id: "tpcc-calls",
        issue: 5,
        claim: "New-Orders a second by prepared CALLs of tokio-postgres, both durable, 16 connections, with every condition afterwards: over PostgreSQL 15",
        bar: "≥ 10, twelve of twelve conditions",
        kind: Kind::Real,
        measure: |weir, effort| {
            beside(weir, effort, 10.0, &["calls", "examples/tpcc", "--count", "new_order"])
        },
    },
    Bar {
        id: "kills-through-postgres",
        issue: 5,
        claim: "`kill -9` at random moments with traffic through PostgreSQL's protocol: acknowledged is there, nothing by half, order ids dense",
        bar: "200 kills",
        kind: Kind::Real,
        measure: kills,
    },
    Bar {
        id: "power-loss",
        issue: 5,
        claim: "simulated power loss that drops what was not synced, under statements, transactions, definitions, deferred constraints and loads; what was told is never taken back",
        bar: "every seed",
        kind: Kind::Simulated,
        measure: power_loss,
    },
    Bar {
        id: "corpus",
        issue: 5,
        claim: "SQL that PostgreSQL 15 and Weir answer alike, on one shard and on three (`testdata/sql/corpus`)",
        bar: "≥ 1,500 cases, no difference",
        kind: Kind::Real,
        measure: corpus,
    },
    Bar {
        id: "recovery",
        issue: 5,
        claim: "recovery of 1 GiB of log",
        bar: "< 20 s",
        kind: Kind::Real,
        measure: |weir, effort| recovery(weir, effort).map(|seen| seen.0),
    },
    Bar {
        id: "served-memory",
        issue: 5,
        claim: "memory of a server over the bytes of its rows' values, loaded and recovered",
        bar: "≤ 3",
        kind: Kind::Real,
        measure: |weir, effort| recovery(weir, effort).map(|seen| seen.1),
    },
];

/// Runs `weir beside …`: the median of the ratios, and p99 where there is one.
fn beside(weir: &Weir, effort: Effort, least: f64, what: &[&str]) -> Result<Seen, String> {
    Ok(seen(&run_beside(weir, effort, what)?, least, what[0] != "calls"))
}

/// How much a server of that name does a second: the median over the pairs.
fn median(report: &serde_json::Value, server: &str) -> f64 {
    let figures = report["pairs"].as_array().into_iter().flatten();
    let mut all: Vec<f64> = figures.filter_map(|pair| pair[server]["per_second"].as_f64()).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// `with_p99`: that must be no worse than PostgreSQL's.
fn seen(report: &serde_json::Value, least: f64, with_p99: bool) -> Seen {
    let [value, min, max] =
        ["value", "min", "max"].map(|field| report["ratio"][field].as_f64().unwrap_or(f64::NAN));
    let p99 = report["p99_ratio"]["value"].as_f64();
    let pairs = report["pairs"].as_array().map_or(0, Vec::len);
    let said = p99.map_or_else(String::new, |p99| format!(", p99 {p99:.2} of PostgreSQL's"));
    Seen {
        met: value >= least && (!with_p99 || p99.is_none_or(|p99| p99 <= 1.0)),
        figure: format!("{value:.2}{said}"),
        interval: format!(
            "{min:.2} to {max:.2}, {pairs} pairs; {:.0} and {:.0} a second",
            median(report, "weir"),
            median(report, "postgres")
        ),
    }
}

fn run_beside(weir: &Weir, effort: Effort, what: &[&str]) -> Result<serde_json::Value, String> {
    let (pairs, seconds) = if effort == Effort::Quick { ("2", "2") } else { ("10", "5") };
    let options = ["--pairs", pairs, "--seconds", seconds, "--format", "json"];
    weir.json(&[&["beside"], what, &options].concat())
}

fn copied(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let report = run_beside(weir, effort, &["copy"])?;
    let seen = seen(&report, 1.0, false);
    Ok(Seen { met: seen.met && median(&report, "weir") >= 100_000.0, ..seen })
}

fn corpus(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let which = ["--workspace", "--test", "corpus", "--test", "expressions", "--", "--nocapture"];
    let text = weir.test_output(&which, &[])?;
    let counts =
        text.lines().filter_map(|line| line.split_once(" answered alike")?.0.trim().parse::<u64>().ok());
    let alike: u64 = counts.sum();
    let failed = text.lines().filter(|line| line.starts_with("test result: FAILED")).count();
    Ok(Seen {
        met: alike >= 1_500 && failed == 0,
        figure: format!("{alike} cases alike"),
        interval: format!("`cargo test {}`", which.join(" ")),
    })
}

fn kills(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let count = if effort == Effort::Quick { "20" } else { "200" };
    let seen = tests(weir, &["--workspace", "--test", "kills_through_postgres"], &[("WEIR_KILLS", count)])?;
    Ok(Seen { figure: format!("{count} kills, {}", seen.figure), ..seen })
}

fn power_loss(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let seeds = if effort == Effort::Quick { "0..16" } else { "0..300" };
    const WHICH: [&str; 4] = ["interactive", "definitions", "deferred", "loads"];
    let names = WHICH.map(|name| format!("{name}_under_faults"));
    let which: Vec<&str> =
        ["--workspace"].into_iter().chain(names.iter().flat_map(|name| ["--test", name])).collect();
    let seen = tests(weir, &which, &[("WEIR_SEEDS", seeds)])?;
    Ok(Seen { interval: format!("seeds {seeds}, {}", seen.interval), ..seen })
}

/// Results for time, and for memory.
fn recovery(weir: &Weir, effort: Effort) -> Result<(Seen, Seen), String> {
    let mib = if effort == Effort::Quick { "128" } else { "1024" };
    let test = ["--release", "--workspace", "--test", "recovery", "--", "--nocapture"];
    let text = weir.test_output(&test, &[("WEIR_LOG_MIB", mib)])?;
    let line =
        |words: &str| text.lines().find(|line| line.contains(words)).ok_or(format!("{words:?} is not said"));
    let numbers =
        |line: &str| -> Vec<f64> { line.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let read = line("of log in")?;
    let [read_mib, seconds] = numbers(read)[..] else { return Err(format!("{read:?} has no two numbers")) };
    let memory = line("raw data")?;
    let [raw, _, _, loaded, recovered] = numbers(memory)[..] else {
        return Err(format!("{memory:?} has no five numbers"));
    };
    let time = Seen {
        // A shorter log must be read as fast.
        met: seconds < 20.0 * (read_mib / 1024.0).min(1.0),
        figure: format!("{seconds:.1} s"),
        interval: format!("{read_mib:.0} MiB, two shards"),
    };
    let memory = Seen {
        met: loaded.max(recovered) <= 3.0,
        figure: format!("{:.2}", loaded.max(recovered)),
        interval: format!(
            "{loaded:.2} loaded, {recovered:.2} recovered, of {:.0} MiB",
            raw / f64::from(1 << 20)
        ),
    };
    Ok((time, memory))
}
