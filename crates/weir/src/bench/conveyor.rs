//! `weir bench tpcw`, `rubis` and `conveyor-micro` on real PostgreSQL servers that are started for it: one, several with agents of `weir conveyor`, or
//! several with one of the methods that it is compared with (the crate `weir-conveyor-bench`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use weir_cat_bench::place::without_password;
use weir_conveyor_bench::application::{Bench, NAMES};
use weir_conveyor_bench::report::Line;
use weir_conveyor_bench::run::{Figures, Settings, run as run_clients};
use weir_conveyor_bench::target::{Deployment, Target};
use weir_server::report::Latency;

use super::servers::postgres_programs;
use super::{BenchRun, Variant, failed, parameter, wrong};
use crate::cli::BenchArguments;
use crate::output::Failure;

/// A workload that has no other targets.
pub const MICRO: &str = "conveyor-micro";
const TARGETS: [&str; 3] = ["postgres", "conveyor:3", "readonly:3"];
/// How the names of targets with several servers begin.
const SEVERAL: [&str; 3] = ["conveyor:", "readonly:", "2pc:"];

const CLIENTS: u32 = 9;
/// Each may have a connection to each server, and a transaction that is prepared there.
const CLIENTS_MAX: u32 = 64;
const SECONDS: f64 = 5.0;
const WARM_UP_MAX: f64 = 2.0;

/// Repetitions, if their number is not given.
pub const REPEAT: u32 = 3;

pub fn is_meant(arguments: &BenchArguments) -> bool {
    let has_several = |target: &String| SEVERAL.iter().any(|name| target.starts_with(name));
    arguments.trace.is_none() && (arguments.workload == MICRO || arguments.target.iter().any(has_several))
}

/// Names of the targets.
pub fn targets(arguments: &BenchArguments) -> Vec<String> {
    match arguments.target.is_empty() {
        true => TARGETS.map(str::to_owned).to_vec(),
        false => arguments.target.clone(),
    }
}

/// Checks what was asked for before the first run.
pub fn check(arguments: &BenchArguments, variant: &Variant) -> Result<(), Failure> {
    if arguments.cluster.clients.is_some_and(|clients| clients > CLIENTS_MAX) {
        let what = "so many clients would need more connections than a PostgreSQL server has";
        return Err(wrong(arguments, what, &format!("--clients {CLIENTS_MAX} or fewer")));
    }
    let refused = [
        (!arguments.protocol.is_empty(), "--protocol", "the targets are what is compared"),
        (arguments.cluster.shards.is_some(), "--shards", "a target says how many servers it has: conveyor:3"),
        (arguments.cluster.transactions.is_some(), "--transactions", "say how long each run is: --seconds S"),
    ];
    if let Some((_, option, hint)) = refused.iter().find(|(is_given, ..)| *is_given) {
        return Err(wrong(arguments, &format!("{option} is not for these targets"), hint));
    }
    target(arguments, variant)?;
    bench(arguments, variant)?;
    postgres_programs(&arguments.workload, &["initdb", "postgres"]).map(drop)
}

/// Starts a target, and runs clients against it.
pub fn run(arguments: &BenchArguments, variant: &Variant, round: u32) -> Result<BenchRun, Failure> {
    let (bench, target) = (bench(arguments, variant)?, target(arguments, variant)?);
    let cluster = &arguments.cluster;
    let seconds = cluster.seconds.unwrap_or(SECONDS);
    let settings = Settings {
        clients: u64::from(cluster.clients.unwrap_or(CLIENTS)),
        warm_up: Duration::from_secs_f64((seconds / 4.0).min(WARM_UP_MAX)),
        measured: Duration::from_secs_f64(seconds),
        calls: u64::MAX,
        think: Duration::ZERO,
        seed: cluster.seed.wrapping_add(u64::from(round - 1)),
    };
    let figures = Deployment::start(&bench, target)
        .and_then(|deployment| run_clients(&bench, &deployment, settings))
        .map_err(|why| failed(arguments, &format!("{}: {why}", variant.label)))?;
    Ok(bench_run(variant, round, (&bench, target), &settings, &figures))
}

fn bench_run(
    variant: &Variant,
    round: u32,
    (bench, target): (&Bench, Target),
    settings: &Settings,
    figures: &Figures,
) -> BenchRun {
    let line = Line::new(&bench.name, &variant.protocol, settings, figures);
    let seconds = settings.measured.as_secs_f64();
    let answered: u64 = figures.calls.values().sum();
    // An operation that meets serialization failures only, or whose end is not known.
    let failed = figures.starved + figures.unknown;
    let mut parameters: BTreeMap<_, _> =
        bench.workload.settings().iter().map(|(name, value)| (name.clone(), parameter(value))).collect();
    parameters.insert("servers".to_owned(), json!(target.servers()));
    parameters.insert("clients".to_owned(), json!(settings.clients));
    parameters.insert("seconds".to_owned(), json!(seconds));
    BenchRun {
        label: variant.label.clone(),
        protocol: variant.protocol.clone(),
        parameters,
        throughput: line.throughput,
        by_transaction: figures
            .calls
            .iter()
            .map(|(name, count)| (name.clone(), *count as f64 / seconds))
            .collect(),
        aborted_share: failed as f64 / (answered + failed).max(1) as f64,
        latency_us: latency(figures),
        rounds: round,
        classes: line.classes.into_iter().filter(|(_, [share, ..])| *share > 0.0).collect(),
        ..BenchRun::default()
    }
}

fn latency(figures: &Figures) -> Latency {
    let all = figures.outcome.all();
    let at = |quantile| all.value_at_quantile(quantile) as f64;
    Latency { p50: at(0.5), p95: at(0.95), p99: at(0.99), max: all.max() as f64, histogram: Vec::new() }
}

fn target(arguments: &BenchArguments, variant: &Variant) -> Result<Target, Failure> {
    variant.protocol.parse().map_err(|why: String| {
        let what = without_password(&variant.protocol);
        let hint = why.strip_prefix(&variant.protocol).unwrap_or(&why).trim_start_matches(": ");
        wrong(arguments, &format!("`{what}` is no target beside those of several servers"), hint)
    })
}

fn bench(arguments: &BenchArguments, variant: &Variant) -> Result<Bench, Failure> {
    let workload = arguments.workload.as_str();
    if !NAMES.contains(&workload) {
        let what = format!("{workload} does not run on {}", variant.label);
        return Err(wrong(arguments, &what, &format!("the workloads for it are: {}", NAMES.join(", "))));
    }
    Bench::of(workload, &variant.settings)
        .map_err(|why| Failure::input(format!("weir bench {workload}: error: {why}")))
}
