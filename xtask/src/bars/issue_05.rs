//! The bars of issue 5, a server people can use: PostgreSQL's protocol beside PostgreSQL, durability, the breadth of SQL.

use super::issue_02::tests;
use super::side_by_side::{self, Compared};
use super::weir::{Captured, Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

const KILLS: Chosen = Chosen::of("product", &["processes::kills_through_postgres::"]);

const POWER_LOSS: Chosen = Chosen::of(
    "bench",
    &[
        "simulated::interactive_under_faults::",
        "simulated::definitions_under_faults::",
        "simulated::deferred_under_faults::",
        "simulated::loads_under_faults::",
    ],
);

pub const BARS: &[Bar] = &[
    Bar {
        id: "pgbench",
        issue: 5,
        claim: "pgbench's own TPC-B, both fully durable, scale 16, 16 clients, simple protocol, TCP: over PostgreSQL 15",
        bar: "≥ 1.5, p99 no worse",
        kind: Kind::Real,
        measure: |weir, effort| beside_postgres(weir, effort, (1.5, true), &["pgbench"]),
    },
    Bar {
        id: "pgbench-select",
        issue: 5,
        claim: "`pgbench -S` in the same way: over PostgreSQL 15",
        bar: "≥ 1.2, p99 no worse",
        kind: Kind::Real,
        measure: |weir, effort| beside_postgres(weir, effort, (1.2, true), &["pgbench-select"]),
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
            beside_postgres(weir, effort, (10.0, false), &["examples/tpcc", "--count", "new_order"])
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

const TARGETS: &str = "weir:,postgres";

/// `least`: of Weir's throughput to PostgreSQL's. `with_p99`: that must be no worse than PostgreSQL's.
pub(super) fn beside_postgres(
    weir: &Weir,
    effort: Effort,
    (least, with_p99): (f64, bool),
    what: &[&str],
) -> Result<Seen, String> {
    Ok(seen(&side_by_side::compared(weir, effort, what, TARGETS)?, least, with_p99))
}

fn seen(compared: &Compared, least: f64, with_p99: bool) -> Seen {
    let Compared { value, min, max, p99, pairs, own, other } = *compared;
    let said = p99.map_or_else(String::new, |p99| format!(", p99 {p99:.2} of PostgreSQL's"));
    Seen {
        met: value >= least && (!with_p99 || p99.is_some_and(|p99| p99 <= 1.0)),
        figure: format!("{value:.2}{said}"),
        interval: format!("{min:.2} to {max:.2}, {pairs} pairs; {own:.0} and {other:.0} a second"),
    }
}

fn copied(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let compared = side_by_side::compared(weir, effort, &["copy"], TARGETS)?;
    let seen = seen(&compared, 1.0, false);
    Ok(Seen { met: seen.met && compared.own >= 100_000.0, ..seen })
}

fn corpus(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let which = Chosen::of("bench", &["postgres::corpus::", "postgres::expressions::"]);
    let ran = weir.tests(&which, Captured::No, &[])?;
    let text = ran.text;
    let counts =
        text.lines().filter_map(|line| line.split_once(" answered alike")?.0.trim().parse::<u64>().ok());
    let alike: u64 = counts.sum();
    Ok(Seen {
        met: alike >= 1_500 && ran.failed == 0,
        figure: format!("{alike} cases alike"),
        interval: format!("`{which}`"),
    })
}

fn kills(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let count = if effort == Effort::Quick { "20" } else { "200" };
    let seen = tests(weir, &[KILLS], &[("WEIR_KILLS", count)])?;
    Ok(Seen { figure: format!("{count} kills, {}", seen.figure), ..seen })
}

fn power_loss(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let seeds = if effort == Effort::Quick { "0..16" } else { "0..300" };
    let seen = tests(weir, &[POWER_LOSS], &[("WEIR_SEEDS", seeds)])?;
    Ok(Seen { interval: format!("seeds {seeds}, {}", seen.interval), ..seen })
}

/// Results for time, and for memory.
fn recovery(weir: &Weir, effort: Effort) -> Result<(Seen, Seen), String> {
    let mib = if effort == Effort::Quick { "128" } else { "1024" };
    let test = Chosen::release("product", &["processes::recovery::"]);
    let text = weir.tests(&test, Captured::No, &[("WEIR_LOG_MIB", mib)])?.text;
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
