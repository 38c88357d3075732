//! The price list of global unique keys: docs/price-list.md. What is counted comes from a test of the state machines
//! (testdata/price-list.md), what is measured from `weir bench keys`.

use std::fmt::Write as _;

use serde_json::Value;

use super::issue_02::spread;
use super::record::{commit, machine};
use super::side_by_side::runs_of;
use super::weir::{Captured, Chosen, Weir};
use super::{Effort, Seen};

const COUNTED: Chosen = Chosen::of("bench", &["simulated::price_list::"]);

const COUNTED_FILE: &str = "testdata/price-list.md";
const DOCUMENT: &str = "docs/price-list.md";

/// Numbers of unique keys.
const KEYS: [&str; 3] = ["0", "1", "3"];

/// Connections: one for latencies, and enough of them for throughput.
const CLIENTS: [&str; 2] = ["1", "16"];

/// Operations of `weir bench keys`, in words.
const OPERATIONS: [(&str, &str); 5] = [
    ("insert", "INSERT of one row"),
    ("select", "SELECT by the primary key"),
    (BY_KEY, "SELECT by a unique column"),
    ("update", "UPDATE of another column"),
    ("update-key", "UPDATE of a unique column"),
];

/// Without a unique key it would read the whole table.
const BY_KEY: &str = "select-key";

/// Medians of one server: microseconds of a statement by a single connection, and statements a second of many.
#[derive(Clone, Copy)]
struct Price {
    latency_us: f64,
    throughput: f64,
}

/// One figure of a price.
type Figure = fn(&Price) -> f64;

/// Of both servers, and how many statements have failed.
struct Prices {
    weir: Price,
    postgres: Price,
    failed: bool,
}

/// Measures all prices and writes the document.
pub fn price_list(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let counted = weir.tests(&COUNTED, Captured::Yes, &[])?;
    let mut met = counted.failed == 0;
    let mut rows = Vec::new();
    for (operation, words) in OPERATIONS {
        let mut cells = Vec::new();
        for keys in KEYS {
            let prices = match operation == BY_KEY && keys == "0" {
                true => None,
                false => Some(measured(weir, effort, operation, keys)?),
            };
            met &= prices.as_ref().is_none_or(|prices| !prices.failed);
            cells.push(prices);
        }
        rows.push((words, cells));
    }
    write(weir, effort, &rows)?;
    let inserts = rows[0].1.iter().flatten();
    let latencies: Vec<String> = inserts.map(|prices| format!("{:.0}", prices.weir.latency_us)).collect();
    Ok(Seen {
        met,
        figure: format!("an INSERT takes {} µs with 0, 1 and 3 keys", latencies.join(", ")),
        interval: format!("all of them: {DOCUMENT}"),
    })
}

fn measured(weir: &Weir, effort: Effort, operation: &str, keys: &str) -> Result<Prices, String> {
    let (repeat, seconds) = if effort == Effort::Quick { ("1", "2") } else { ("5", "4") };
    let (keys, operation) = (format!("keys={keys}"), format!("operation={operation}"));
    let report = |clients: &str| {
        let what =
            ["bench", "keys", "--shards", "4", "--clients", clients, "--set", &keys, "--set", &operation];
        let how =
            ["--target", "weir:,postgres", "--repeat", repeat, "--seconds", seconds, "--format", "json"];
        weir.json(&[&what[..], &how].concat())
    };
    let [alone, together] = CLIENTS.map(report);
    let (alone, together) = (alone?, together?);
    let price = |label: &str| {
        Some(Price {
            latency_us: median(&alone, label, |run| run["latency_us"]["p50"].as_f64())?,
            throughput: median(&together, label, |run| run["throughput"].as_f64())?,
        })
    };
    let missing = || "`weir bench keys` has no figures".to_owned();
    let failed = [&alone, &together]
        .into_iter()
        .flat_map(|report| runs_of(report, "weir"))
        .any(|run| run["aborted_share"].as_f64() != Some(0.0));
    Ok(Prices {
        weir: price("weir").ok_or_else(missing)?,
        postgres: price("postgres").ok_or_else(missing)?,
        failed,
    })
}

fn median(report: &Value, label: &str, figure: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    spread(runs_of(report, label).filter_map(figure).collect()).map(|(median, ..)| median)
}

fn write(weir: &Weir, effort: Effort, rows: &[(&str, Vec<Option<Prices>>)]) -> Result<(), String> {
    let counted = std::fs::read_to_string(weir.root.join(COUNTED_FILE))
        .map_err(|error| format!("{COUNTED_FILE}: {error}"))?;
    let form = if effort == Effort::Quick { ", quick" } else { "" };
    let mut text = format!(
        "# What unique keys cost\n\n\
         Written by `cargo xtask bars --only price-list`; do not edit.\n\n\
         A unique key whose columns do not say where a row lives is a *global key*: an entry of it is at the shard that the key's hash says, \
         and is written in the same transaction as the row ([internals/global-keys.md](internals/global-keys.md)). This is what that costs: \
         a table `priced (id PRIMARY KEY, a, b, c, n)` that is partitioned by `id`, with no other unique key, with `UNIQUE (a)`, and with \
         `UNIQUE (a), UNIQUE (b), UNIQUE (c)`, on four shards.\n\n\
         ## Counted\n\n\
         Averages over 400 statements with different values. *Round trips*: how often the client's node waits for shards before the \
         answer. *Requests*: messages to shards, those behind the answer included: COMMIT, and the end of a read, which nobody answers. A quarter of all entries is where the \
         row is, and costs nothing. A look-up by a global key asks the owner of the key where the row is, and then the row's shard; all shards, in one round trip more, while a transaction holds the key. An UPDATE by a global key runs at the owner if the row is there, and else at the shard that the owner names. The test \
         `simulated::price_list` counts them.\n\n\
         {counted}\n\
         An INSERT of one row whose keys follow from its arguments is `Prepare` at the owners of its keys, and `Decide` at the row's shard: two round trips. \
         Another INSERT, an UPDATE or a DELETE that writes entries elsewhere is `Work` at the row's shard, `WorkAndBind` at the owners of its keys, and `Finish` at the row's shard: three round trips. \
         If an owner's key is held by another transaction, the statement begins again and waits there: two round trips more. Within BEGIN … COMMIT a \
         statement costs two round trips, and COMMIT two.\n\n\
         ## Measured\n\n\
         `weir bench keys --shards 4 --clients 1 --set keys=1 --set operation=insert --target weir:,postgres`, and so on: \
         pgbench with prepared statements, a table of 20,000 rows, both servers durable, on one machine with their client. Medians \
         (commit {}, {}{form}). Each cell: Weir / PostgreSQL 15.\n",
        commit(&weir.root),
        machine(),
    );
    let parts: [(&str, Figure); 2] = [
        ("Microseconds of a statement, one connection", |price| price.latency_us),
        ("Statements a second, 16 connections", |price| price.throughput),
    ];
    for (title, figure) in parts {
        let _ = write!(text, "\n| {title} | no unique key | 1 key | 3 keys |\n|---|---|---|---|\n");
        for (words, cells) in rows {
            let _ = write!(text, "| {words} |");
            for cell in cells {
                let _ = match cell {
                    Some(Prices { weir, postgres, .. }) => {
                        write!(text, " {:.0} / {:.0} |", figure(weir), figure(postgres))
                    }
                    None => write!(text, " – |"),
                };
            }
            text.push('\n');
        }
    }
    std::fs::write(weir.root.join(DOCUMENT), text).map_err(|error| format!("{DOCUMENT}: {error}"))
}
