//! The bars of issue 27: coordination where it is needed, on any number of shards.

use serde_json::Value;

use super::issue_02::tests;
use super::price_list::price_list;
use super::side_by_side;
use super::weir::{Captured, Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

const SHOP: Chosen = Chosen::of("product", &["processes::shop::"]);

const SPECS: Chosen = Chosen::of("product", &["processes::transactions_like_postgres::isolation::on_"]);

const KILLS: Chosen = Chosen::of("product", &["processes::serializable_kills::"]);

const SNAPSHOTS: [Chosen; 1] = [Chosen::of(
    "bench",
    &[
        "simulated::snapshots_under_faults::snapshots_of_which_one_shard_is_stale_are_caught",
        "simulated::interactive_calls::snapshots_of_which_one_shard_is_stale_are_caught",
    ],
)];

/// A workload in `testdata/hot-row`: its name here, its directory, a setting.
const WORKLOADS: [(&str, &str, Option<&str>); 6] = [
    ("escrow", "escrow", None),
    ("escrow of two rows", "escrow", Some("both=100")),
    ("claim", "claim", None),
    ("shared claim", "claim", Some("shared=100")),
    ("one of many rows", "claim", Some("takes=50")),
    ("sequence", "sequence", None),
];

/// Numbers of shards that the examples run on.
const SHARDS: [&str; 4] = ["1", "2", "4", "8"];

pub const BARS: &[Bar] = &[
    Bar {
        id: "examples-on-shards",
        issue: 27,
        claim: "the eight examples on 1, 2, 4 and 8 shards: every procedure of every mix commits, all invariants hold afterwards, exit code 0",
        bar: "32 of 32 runs, of 20,000 transactions each",
        kind: Kind::Real,
        measure: examples_on_shards,
    },
    Bar {
        id: "shop",
        issue: 27,
        claim: "a shop by procedures, by statements of psycopg and by Django, 32 clients, `kill -9` at random moments, on 1 and 4 shards, and in PostgreSQL 15: every rule holds, nothing acknowledged is lost",
        bar: "three forms on three servers, 20 kills each",
        kind: Kind::Real,
        measure: |weir, effort| killed(weir, effort, &SHOP, "20"),
    },
    Bar {
        id: "isolation-specs",
        issue: 27,
        claim: "PostgreSQL's isolation specs without rules and inheritance, on 1 and 3 shards: rows, SQLSTATEs and waits of each step as PostgreSQL 15's, or a serial order at SERIALIZABLE; what differs is in testdata/isolation",
        bar: "all permutations",
        kind: Kind::Real,
        measure: isolation_specs,
    },
    Bar {
        id: "serializable-kills",
        issue: 27,
        claim: "clients at SERIALIZABLE beside statements by themselves and calls, 3 shards, `kill -9` at random moments: the history is strictly serializable",
        bar: "100 kills",
        kind: Kind::Real,
        measure: |weir, effort| killed(weir, effort, &KILLS, "100"),
    },
    Bar {
        id: "stale-snapshot",
        issue: 27,
        claim: "a planted shard that is late in a snapshot is caught, by transactions at REPEATABLE READ and by interactive calls",
        bar: "2 of 2",
        kind: Kind::Computed,
        measure: |weir, _| tests(weir, &SNAPSHOTS, &[]),
    },
    Bar {
        id: "serializable-tpcc",
        issue: 27,
        claim: "TPC-C at SERIALIZABLE, all five transactions, serialization failures repeated, prepared CALLs of one client program, both durable, 16 connections, with every condition afterwards: New-Orders a second over PostgreSQL 15",
        bar: "≥ 1.0",
        kind: Kind::Real,
        measure: serializable_tpcc,
    },
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
    Bar {
        id: "price-list",
        issue: 27,
        claim: "one row by INSERT, SELECT and UPDATE on 4 shards with 0, 1 and 3 global unique keys, counted in messages and measured beside PostgreSQL 15: docs/price-list.md",
        bar: "every price, no statement fails",
        kind: Kind::Real,
        measure: price_list,
    },
];

fn examples_on_shards(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let transactions = if effort == Effort::Quick { "1000" } else { "20000" };
    let folder = std::fs::read_dir(weir.root.join("examples")).map_err(|error| error.to_string())?;
    let mut examples: Vec<String> =
        folder.flatten().map(|entry| format!("examples/{}", entry.file_name().to_string_lossy())).collect();
    examples.sort();
    let (mut runs, mut good, mut wrong) = (0, 0, Vec::new());
    for example in &examples {
        for shards in SHARDS {
            runs += 1;
            let what =
                ["run", example, "--shards", shards, "--transactions", transactions, "--format", "json"];
            match weir.json_of_success(&what).and_then(|report| all_committed(&report)) {
                Ok(()) => good += 1,
                Err(why) => wrong.push(format!("{example} on {shards} shards: {why}")),
            }
        }
    }
    Ok(Seen {
        met: good == runs && examples.len() == 8,
        figure: format!("{good} of {runs} runs, of {transactions} transactions each"),
        interval: wrong.join("; "),
    })
}

/// Each procedure of the mix has committed; exit code 0 says so only of those that were called.
fn all_committed(report: &Value) -> Result<(), String> {
    let procedures = report["by_transaction"].as_object().ok_or("the report has no transactions")?;
    let never = procedures.iter().filter(|(_, one)| one["committed"].as_u64().unwrap_or(0) == 0);
    let never: Vec<&str> = never.map(|(name, _)| name.as_str()).collect();
    match never.is_empty() && !procedures.is_empty() {
        true => Ok(()),
        false => Err(format!("{} never committed", never.join(", "))),
    }
}

/// Three kills in the quick form.
fn killed(weir: &Weir, effort: Effort, test: &Chosen, full: &str) -> Result<Seen, String> {
    let kills = if effort == Effort::Quick { "3" } else { full };
    let ran = weir.tests(test, Captured::No, &[("WEIR_KILLS", kills)])?;
    Ok(Seen {
        met: ran.failed == 0,
        figure: format!("{kills} kills each, {} of {} tests passed", ran.passed, ran.passed + ran.failed),
        interval: String::new(),
    })
}

/// Each of the two tests says how many permutations it has compared.
fn isolation_specs(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let which = if effort == Effort::Quick { "some" } else { "all" };
    let ran = weir.tests(&SPECS, Captured::No, &[("WEIR_ISOLATION", which)])?;
    let said: Vec<&str> = ran.text.lines().filter(|line| line.contains(" shards: permutations ")).collect();
    Ok(Seen {
        met: ran.failed == 0 && said.len() == 2,
        figure: format!("{which} permutations, {} of 2 tests passed", ran.passed),
        interval: said.join("; "),
    })
}

fn serializable_tpcc(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let what = ["examples/tpcc", "--count", "new_order", "--set", "isolation=serializable"];
    let compared = side_by_side::compared(weir, effort, &what, "weir:,postgres")?;
    Ok(Seen {
        met: compared.value >= 1.0,
        figure: format!("{:.2}", compared.value),
        interval: format!(
            "{:.2} to {:.2}, {} pairs; {:.0} and {:.0} a second",
            compared.min, compared.max, compared.pairs, compared.own, compared.other
        ),
    })
}

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
