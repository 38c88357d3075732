//! Figures of runs as text and JSON, and the classes beside Table 1.

use std::collections::BTreeMap;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde::Serialize;
use weir_conveyor::matching::Class;
use weir_conveyor_scale::load::RunClass;

use crate::application::Bench;
use crate::run::Figures;

const CLASSES: [(RunClass, &str); 3] =
    [(RunClass::Commutative, "commutative"), (RunClass::Local, "local"), (RunClass::Global, "global")];

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub workload: String,
    pub target: String,
    pub clients: u64,
    pub think_ms: u64,
    pub seed: u64,
    pub throughput: f64,
    pub mean_ms: f64,
    /// By class: share, median and 99th percentile in milliseconds.
    pub classes: BTreeMap<&'static str, [f64; 3]>,
    pub refused: BTreeMap<String, u64>,
    pub starved: u64,
    pub unknown: u64,
}

impl Line {
    pub fn new(workload: &str, target: &str, settings: &crate::run::Settings, figures: &Figures) -> Line {
        let outcome = &figures.outcome;
        let class = |(class, name): (RunClass, &'static str)| {
            let at = |quantile| outcome.of(class).value_at_quantile(quantile) as f64 / 1e3;
            (name, [outcome.share(class), at(0.5), at(0.99)])
        };
        Line {
            workload: workload.into(),
            target: target.into(),
            clients: settings.clients,
            think_ms: settings.think.as_millis() as u64,
            seed: settings.seed,
            throughput: outcome.throughput(),
            mean_ms: outcome.mean_ms(),
            classes: CLASSES.into_iter().map(class).collect(),
            refused: figures.refused.clone(),
            starved: figures.starved,
            unknown: figures.unknown,
        }
    }
}

/// Runs as a table.
pub fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    let header = [
        "workload",
        "target",
        "operations/s",
        "mean ms",
        "class: share, median ms, 99% ms",
        "refused",
        "starved",
        "unknown",
    ];
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for line in lines {
        let class = |(name, [share, median, last]): (&&str, &[f64; 3])| {
            format!("{name}: {:.0}%, {median:.1}, {last:.1}", 100.0 * share)
        };
        let classes: Vec<String> =
            line.classes.iter().filter(|(_, [share, ..])| *share > 0.0).map(class).collect();
        table.add_row([
            line.workload.clone(),
            line.target.clone(),
            format!("{:.0}", line.throughput),
            format!("{:.1}", line.mean_ms),
            classes.join("\n"),
            format!("{}", line.refused.values().sum::<u64>()),
            format!("{}", line.starved),
            format!("{}", line.unknown),
        ]);
    }
    format!("{table}\n")
}

/// Transactions of each class, shares of operations by the workload's mix, and what only reads; with Table 1 where it has them.
pub fn classes(bench: &Bench) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header([
        "",
        "local",
        "global",
        "commutative",
        "local/global",
        "read-only",
    ]);
    let total: u64 = bench.workload.weights().iter().sum();
    let operations = || bench.plan.operations.iter().zip(bench.workload.weights());
    let count = |class| operations().filter(|(operation, _)| operation.class == class).count();
    let share = |is: &dyn Fn(&weir_conveyor_plan::Operation) -> bool| {
        let weight: u64 = operations().filter(|(operation, _)| is(operation)).map(|(_, weight)| weight).sum();
        format!("{:.1}%", 100.0 * weight as f64 / total.max(1) as f64)
    };
    let classes = [Class::Local, Class::Global, Class::Commutative, Class::LocalGlobal];
    let readers = operations().filter(|(operation, _)| operation.is_read_only).count();
    let counts = classes.map(|class| count(class).to_string());
    table.add_row(["transactions".into()].into_iter().chain(counts).chain([readers.to_string()]));
    let shares = classes.map(|class| share(&|operation| operation.class == class));
    let reads = share(&|operation| operation.is_read_only);
    table.add_row(["operations".into()].into_iter().chain(shares).chain([reads]));
    for row in table_1(&bench.name) {
        table.add_row(row);
    }
    format!("{}\n{table}\n", bench.name)
}

fn table_1(name: &str) -> Vec<[&'static str; 6]> {
    match name {
        "tpcw" => vec![
            ["Table 1, transactions", "10", "5", "5", "-", "13"],
            ["Table 1, operations", "47%", "39%", "14%", "", "73%"],
        ],
        "rubis" => vec![
            ["Table 1, transactions", "11", "4", "3", "8", "17"],
            ["Table 1, operations", "64%", "8%", "28%", "", "85%"],
        ],
        _ => Vec::new(),
    }
}
