//! Statements in steps, memory with a bound, and the way through the wire.

use super::issue_05;
use super::side_by_side::{self, Compared};
use super::weir::{Captured, Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

macro_rules! beside_postgres {
    ($id:literal, $least:literal, $claim:literal) => {
        Bar {
            id: $id,
            issue: 26,
            claim: concat!($claim, ": over PostgreSQL 15, simple and prepared, 1, 16 and 64 connections"),
            bar: concat!("each ≥ ", $least),
            kind: Kind::Real,
            measure: |weir, effort| beside_postgres(weir, effort, $id, $least),
        }
    };
}

macro_rules! beside_long_statements {
    ($id:literal, $other:literal, $most_ms:literal, $claim:literal) => {
        Bar {
            id: $id,
            issue: 26,
            claim: concat!(
                $claim,
                " while four sessions loop, sort, join and aggregate on one shard for a minute"
            ),
            bar: concat!("p99 under ", $most_ms, " ms"),
            kind: Kind::Real,
            measure: |weir, effort| beside_long_statements(weir, effort, $other, $most_ms),
        }
    };
}

pub const BARS: &[Bar] = &[
    beside_long_statements!("beside-select", "select", 20, "SELECT 1"),
    beside_long_statements!("beside-update", "update", 20, "one-row UPDATEs"),
    beside_long_statements!("beside-connect", "connect", 20, "new connections"),
    beside_long_statements!("beside-cancel", "cancel", 100, "cancel requests"),
    Bar {
        id: "beside-memory",
        issue: 26,
        claim: "memory of a server with --memory 512MiB, nine tenths of it taken by rows, while four sessions loop, sort, join and aggregate on one shard for a minute",
        bar: "at most 1.2 times --memory",
        kind: Kind::Real,
        measure: memory_beside_long_statements,
    },
    beside_postgres!("pgbench-select-all", 1.2, "a row by its key"),
    beside_postgres!("pgbench-index", 1.0, "a row by a secondary index"),
    beside_postgres!("pgbench-join-2", 1.0, "a join of two tables by key"),
    beside_postgres!("pgbench-join-4", 1.0, "a join of four tables by key"),
    beside_postgres!("pgbench-order", 1.0, "the first ten rows in the order of an index"),
    beside_postgres!("pgbench-transaction", 1.2, "BEGIN; SELECT; END"),
    beside_postgres!("pgbench-delete", 1.0, "a DELETE of no row"),
    beside_postgres!("pgbench-update", 1.5, "simple-update"),
    beside_postgres!("pgbench-all", 1.5, "TPC-B"),
    Bar {
        id: "ycsb-jdbc",
        issue: 26,
        claim: "YCSB's reads over JDBC (workload C, Zipf's law): over PostgreSQL 15, 1, 16 and 64 connections",
        bar: "each ≥ 1.0",
        kind: Kind::Real,
        measure: ycsb_over_jdbc,
    },
    Bar {
        id: "select-rows",
        issue: 26,
        claim: "a million rows by SELECT to one connection: over PostgreSQL 15",
        bar: "≥ 1.0",
        kind: Kind::Real,
        measure: |weir, effort| issue_05::beside_postgres(weir, effort, (1.0, false), &["select-rows"]),
    },
    Bar {
        id: "copy-out",
        issue: 26,
        claim: "a million rows by COPY … TO STDOUT: over PostgreSQL 15",
        bar: "≥ 1.0",
        kind: Kind::Real,
        measure: |weir, effort| issue_05::beside_postgres(weir, effort, (1.0, false), &["copy-out"]),
    },
    Bar {
        id: "new-order-pgbench",
        issue: 26,
        claim: "New-Orders a second by CALLs of `pgbench -M prepared`, both durable, 16 connections, with every condition afterwards: over PostgreSQL 15",
        bar: "≥ 10, twelve of twelve conditions",
        kind: Kind::Real,
        measure: |weir, effort| {
            issue_05::beside_postgres(weir, effort, (10.0, false), &["tpcc", "--set", "pgbench=new_order"])
        },
    },
    Bar {
        id: "random-queries",
        issue: 26,
        claim: "random queries and transactions are answered as by PostgreSQL 15, on one shard and on three, and the same with a yield after every row and no working memory",
        bar: "100,000 queries each, no difference",
        kind: Kind::Real,
        measure: random_queries,
    },
];

/// The test says how many queries each of its two ways has compared.
fn random_queries(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let count = if effort == Effort::Quick { 2_000 } else { 100_000 };
    let test = Chosen::fast("bench", &["postgres::random_queries::"]);
    let ran = weir.tests(&test, Captured::No, &[("WEIR_RANDOM_QUERIES", &count.to_string())])?;
    let lines = ran.text.lines().filter(|line| line.contains(" queries compared"));
    let compared: Vec<u64> = lines
        .clone()
        .filter_map(|line| line.split_once(" queries compared")?.0.split(' ').next_back()?.parse().ok())
        .collect();
    let least = compared.iter().min().copied().unwrap_or(0);
    Ok(Seen {
        met: ran.failed == 0 && compared.len() == 2 && least >= count,
        figure: format!("{least} queries each, {} tests without a difference", ran.passed),
        interval: lines.collect::<Vec<_>>().join("; "),
    })
}

/// Three runs of each server; the worst counts.
fn beside_long_statements(weir: &Weir, effort: Effort, other: &str, most_ms: u32) -> Result<Seen, String> {
    let (rounds, seconds) = if effort == Effort::Quick { ("1", "5") } else { ("3", "60") };
    let setting = format!("other={other}");
    let report = weir.json(&[
        "bench",
        "beside",
        "--set",
        &setting,
        "--seconds",
        seconds,
        "--target",
        "weir:,postgres",
        "--repeat",
        rounds,
        "--format",
        "json",
    ])?;
    let of = |label: &str, field: &str| -> Vec<f64> {
        let own = side_by_side::runs_of(&report, label);
        own.filter_map(|run| Some(run["latency_us"][field].as_f64()? / 1_000.0)).collect()
    };
    let worst = |label: &str, field: &str| of(label, field).into_iter().fold(f64::NAN, f64::max);
    let own = worst("weir", "p99");
    Ok(Seen {
        met: own < f64::from(most_ms),
        figure: format!("p99 {own:.1} ms"),
        interval: format!(
            "the worst of {rounds} rounds of {seconds} s; longest {:.0} ms; PostgreSQL: p99 {:.1} ms, longest {:.0} ms",
            worst("weir", "max"),
            worst("postgres", "p99"),
            worst("postgres", "max")
        ),
    })
}

fn memory_beside_long_statements(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    const LIMIT: f64 = 512.0;
    let (rounds, seconds) = if effort == Effort::Quick { ("1", "5") } else { ("3", "60") };
    let own = ["bench", "beside", "--set", "memory=512MiB", "--set", "rows=5000000", "--target", "weir:"];
    let rest = ["--seconds", seconds, "--repeat", rounds, "--format", "json"];
    let report = weir.json(&[&own[..], &rest].concat())?;
    let peaks = side_by_side::runs_of(&report, "weir").filter_map(|run| run["peak_memory"].as_f64());
    let mebibytes = peaks.fold(f64::NAN, f64::max) / f64::from(1 << 20);
    Ok(Seen {
        met: mebibytes <= 1.2 * LIMIT,
        figure: format!("{mebibytes:.0} MiB at most"),
        interval: format!("{rounds} rounds of {seconds} s"),
    })
}

/// The tests fetch the driver (crates/weir/tests/drivers).
fn ycsb_over_jdbc(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let driver = std::env::var("WEIR_JDBC_DRIVER")
        .map_err(|_| "WEIR_JDBC_DRIVER must name the jar of PostgreSQL's JDBC driver".to_owned())?;
    let setting = format!("driver={driver}");
    let (pairs, seconds) = if effort == Effort::Quick { ("1", "1") } else { ("10", "2") };
    let mut lowest = f64::INFINITY;
    let mut all = Vec::new();
    for clients in CLIENTS {
        let own = ["bench", "ycsb-jdbc", "--set", &setting, "--target", "weir:,postgres", "--format", "json"];
        let rest = ["--clients", clients, "--seconds", seconds, "--repeat", pairs];
        let Compared { value, min, max, own, other, .. } =
            side_by_side::read(&weir.json(&[&own[..], &rest].concat())?)?;
        lowest = lowest.min(value);
        all.push(format!("{clients}: {value:.2} ({min:.2} to {max:.2}; {own:.0} and {other:.0} a second)"));
    }
    Ok(Seen {
        met: lowest >= 1.0,
        figure: format!("{lowest:.2} at least"),
        interval: format!("{pairs} pairs each; {}", all.join(", ")),
    })
}

const PROTOCOLS: [&str; 2] = ["simple", "prepared"];
const CLIENTS: [&str; 3] = ["1", "16", "64"];

/// The workload has the name of the bar; ten pairs of each protocol and number of connections.
fn beside_postgres(weir: &Weir, effort: Effort, id: &str, least: f64) -> Result<Seen, String> {
    let workload = id.strip_suffix("-all").unwrap_or(id);
    let (pairs, seconds) = if effort == Effort::Quick { ("1", "1") } else { ("10", "1") };
    let mut lowest = f64::INFINITY;
    let mut all = Vec::new();
    for protocol in PROTOCOLS {
        for clients in CLIENTS {
            let setting = format!("protocol={protocol}");
            let report = weir.json(&[
                "bench",
                workload,
                "--set",
                "scale=4",
                "--set",
                &setting,
                "--clients",
                clients,
                "--seconds",
                seconds,
                "--target",
                "weir:,postgres",
                "--repeat",
                pairs,
                "--format",
                "json",
            ])?;
            let Compared { value, min, max, own, other, .. } = side_by_side::read(&report)?;
            lowest = lowest.min(value);
            all.push(format!(
                "{protocol} {clients}: {value:.2} ({min:.2} to {max:.2}; {own:.0} and {other:.0} a second)"
            ));
        }
    }
    Ok(Seen {
        met: lowest >= least,
        figure: format!("{lowest:.2} at least"),
        interval: format!("{pairs} pairs each; {}", all.join(", ")),
    })
}
