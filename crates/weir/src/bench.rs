//! `weir bench WORKLOAD`: the same workload under several protocols, in turn, in one process; or on several servers (`side_by_side`).
//!
//! A ratio between two protocols is the median over the repetitions, and each repetition runs all of
//! them one after the other: what slows the machine down for a while slows all of them.

mod advice;
mod beside;
mod calls;
mod commitment;
mod conveyor;
mod items;
mod jdbc;
mod keys;
mod ordered;
mod pgbench;
mod rows;
mod servers;
mod side_by_side;
mod transactions;
mod workbench;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use comfy_table::Cell;
use serde::Serialize;
use serde_json::Value;
use weir_bench::scale::{Network, Prices};
use weir_bench::{Spread, Workload};
use weir_cat_bench::workbench::Range;
use weir_client::ClusterFile;
use weir_server::report::{Latency, RunReport};

use crate::application::{self, Loaded};
use crate::cli::{BenchArguments, ClusterArguments, Format};
use crate::input;
use crate::output::{FAINT, Failure, STRONG, print, print_json, print_remark, styled};
use crate::report::{duration, grouped};
use crate::run;
use crate::table::table;

#[derive(Serialize)]
struct BenchReport {
    version: u32,
    workload: String,
    runs: Vec<BenchRun>,
    ratios: Vec<Ratio>,
    /// For simulated servers: throughput relative to that of the smallest number of servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scaling: Vec<Scaling>,
}

/// Simulated servers, if their number is not given.
const SIMULATED_SERVERS: u16 = 5;

/// One run; repetitions of the same label are separate entries.
#[derive(Default, Serialize)]
struct BenchRun {
    label: String,
    protocol: String,
    parameters: BTreeMap<String, Value>,
    /// Committed calls a second.
    throughput: f64,
    /// Committed calls a second of each transaction.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_transaction: BTreeMap<String, f64>,
    aborted_share: f64,
    latency_us: Latency,
    /// Which repetition this was, from 1.
    rounds: u32,
    /// Every invariant held after the run; none if that was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<bool>,
    /// The check of answers and values, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
    /// Share, median and 99th percentile in milliseconds of each class of operations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    classes: BTreeMap<&'static str, [f64; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<weir_server::report::Memory>,
    /// Rounds of messages of a read and of a write, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_rounds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_rounds: Option<f64>,
    /// Average bytes per read in addition to values and stamps.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_bytes_per_read: Option<f64>,
    /// These servers do not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<items::Simulated>,
}

/// Distance of a protocol from linear scaling.
#[derive(Serialize)]
struct Scaling {
    of: String,
    /// Starting number of servers.
    from: u16,
    of_linear: f64,
}

/// Throughput of one label over that of another, paired by repetition.
#[derive(Serialize)]
struct Ratio {
    of: String,
    to: String,
    /// The median.
    value: f64,
    min: f64,
    max: f64,
    pairs: usize,
    /// The same of the 99th percentile of latencies, between servers; more is slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<Range>,
}

/// One protocol, or one target, with one value of the swept setting.
struct Variant {
    label: String,
    protocol: String,
    target: Option<ClusterFile>,
    settings: Vec<(String, String)>,
    /// Simulated ones, and what is between them.
    servers: Option<(u16, Network)>,
    /// Started for each run.
    processes: Option<u16>,
}

pub fn execute(arguments: &BenchArguments) -> Result<(), Failure> {
    refuse(arguments)?;
    let compares_here = ordered::is_meant(arguments) || conveyor::is_meant(arguments);
    if !compares_here && workbench::is_meant(arguments) {
        return workbench::execute(arguments);
    }
    workbench::refuse_elsewhere(arguments, compares_here)?;
    if arguments.workload == commitment::NAME {
        return commitment::execute(arguments);
    }
    if !compares_here && side_by_side::is_meant(arguments) {
        return side_by_side::execute(arguments);
    }
    if arguments.count.is_some() {
        let what = "--count is for an application on servers";
        return Err(wrong(arguments, what, "add --target weir:,postgres"));
    }
    compare(arguments)
}

/// Options of one way of measuring that another one was given.
fn refuse(arguments: &BenchArguments) -> Result<(), Failure> {
    if arguments.replicas.is_some() && !ordered::is_meant(arguments) {
        let hint = "it is for the protocols of eris.txt: ycsb-t or tpcc with --protocol ordered";
        return Err(wrong(arguments, "--replicas is not for what runs", hint));
    }
    let is_simulated = arguments.simulate.is_some() || arguments.workload == commitment::NAME;
    if !arguments.servers.is_empty() && !is_simulated {
        let hint = "add --simulate lan or --simulate wan";
        return Err(wrong(arguments, "--servers is not for what runs", hint));
    }
    Ok(())
}

/// Runs all variants in turns.
fn compare(arguments: &BenchArguments) -> Result<(), Failure> {
    let variants = variants(arguments)?;
    let mut work = Work::of(arguments)?;
    // Errors are reported before the first run.
    variants.iter().try_for_each(|variant| work.check(arguments, variant))?;
    let mut runs = Vec::new();
    let repeat = arguments.repeat.unwrap_or(work.repeat());
    for round in 1..=repeat {
        for variant in &variants {
            print_remark(&format!("weir: {} ({round} of {})", variant.label, repeat));
            runs.push(work.run(arguments, variant, round)?);
        }
    }
    let report = BenchReport {
        version: 1,
        workload: arguments.workload.clone(),
        ratios: ratios(&variants, &runs, matches!(work, Work::Conveyor)),
        scaling: scaling(&runs),
        runs,
    };
    match arguments.format {
        Format::Json => print_json(&report),
        Format::Text => print(&text(&report)),
    }
    if report.runs.iter().all(|run| run.holds != Some(false) || run.protocol == "none") {
        Ok(())
    } else {
        Err(Failure::Check(None))
    }
}

/// The way in which a workload is measured.
enum Work {
    /// YCSB, over items.
    Items,
    Application(Box<Application>),
    /// Under the protocols of eris.txt.
    Ordered,
    /// On PostgreSQL servers with and without agents.
    Conveyor,
}

impl Work {
    fn of(arguments: &BenchArguments) -> Result<Work, Failure> {
        let is_ycsb = arguments.workload == "ycsb" && !conveyor::is_meant(arguments);
        if is_ycsb {
            return Ok(Work::Items);
        }
        if arguments.simulate.is_some() || arguments.processes.is_some() {
            let (how, others) = if arguments.simulate.is_some() {
                ("--simulate", ", commitment")
            } else {
                ("--processes", "")
            };
            return Err(Failure::input(format!(
                "weir bench: error: {how} is not for `{}`\nhint: the workloads for it are: ycsb{others}",
                arguments.workload
            )));
        }
        match (ordered::is_meant(arguments), conveyor::is_meant(arguments)) {
            (true, _) => Ok(Work::Ordered),
            (_, true) => Ok(Work::Conveyor),
            _ => Application::of(arguments).map(Box::new).map(Work::Application),
        }
    }

    fn check(&mut self, arguments: &BenchArguments, variant: &Variant) -> Result<(), Failure> {
        match self {
            Work::Items => items::check(arguments, variant),
            Work::Application(application) => {
                run::protocol(&variant.protocol)?;
                application.workload(variant).map(drop)
            }
            Work::Ordered => ordered::check(arguments, variant),
            Work::Conveyor => conveyor::check(arguments, variant),
        }
    }

    fn run(
        &mut self,
        arguments: &BenchArguments,
        variant: &Variant,
        round: u32,
    ) -> Result<BenchRun, Failure> {
        match self {
            Work::Items => items::run_once(arguments, variant, round),
            Work::Application(application) => {
                Ok(bench_run(variant, round, &application.run(&arguments.cluster, variant)?))
            }
            Work::Ordered => ordered::run(arguments, variant, round),
            Work::Conveyor => conveyor::run(arguments, variant, round),
        }
    }

    /// Repetitions, if their number is not given.
    fn repeat(&self) -> u32 {
        match self {
            Work::Items | Work::Application(_) | Work::Ordered => 1,
            Work::Conveyor => conveyor::REPEAT,
        }
    }
}

/// An application that is run by this process or on a cluster.
struct Application {
    loaded: Loaded,
    /// Name and text of its workload.toml.
    workload: (String, String),
}

impl Application {
    fn check_name(arguments: &BenchArguments) -> Result<(), Failure> {
        let name = arguments.workload.as_str();
        if input::SHIPPED.contains(&name) || Path::new(name).exists() {
            return Ok(());
        }
        Err(Failure::input(format!(
            "weir bench: error: `{name}` is neither a workload that Weir ships nor a directory\n\
             hint: the workloads are: {}, ycsb, {}, {}, {}",
            input::SHIPPED.join(", "),
            workbench::names(),
            [conveyor::MICRO, commitment::NAME].join(", "),
            side_by_side::names()
        )))
    }

    fn of(arguments: &BenchArguments) -> Result<Application, Failure> {
        Application::check_name(arguments)?;
        let path = PathBuf::from(&arguments.workload);
        let (sources, workload) = match input::shipped(&arguments.workload) {
            Some((sources, workload)) => (sources, Some(workload)),
            None => (input::read_sources(std::slice::from_ref(&path))?, None),
        };
        let loaded = Loaded::from_sources(sources, weir_sql::Reading::Strict)?;
        let workload = match workload {
            Some(shipped) => shipped,
            None => application::workload_text(&loaded, &path)?,
        };
        Ok(Application { loaded, workload })
    }

    fn workload(&mut self, variant: &Variant) -> Result<Workload, Failure> {
        let (name, text) = self.workload.clone();
        self.loaded.workload(name, text, &variant.settings)
    }

    fn run(&mut self, cluster: &ClusterArguments, variant: &Variant) -> Result<RunReport, Failure> {
        let workload = self.workload(variant)?;
        run::once(&self.loaded, workload, cluster, run::protocol(&variant.protocol)?, None)
    }
}

fn variants(arguments: &BenchArguments) -> Result<Vec<Variant>, Failure> {
    let mut variants = Vec::new();
    let places = places(arguments)?;
    let values: Vec<Option<(String, String)>> = match &arguments.sweep {
        Some((name, values)) => values.iter().map(|value| Some((name.clone(), value.clone()))).collect(),
        None => vec![None],
    };
    let servers = match items::network(arguments)? {
        Some(network) => {
            let counts =
                if arguments.servers.is_empty() { &[SIMULATED_SERVERS][..] } else { &arguments.servers };
            counts.iter().map(|count| Some((*count, network))).collect()
        }
        None => vec![None],
    };
    for (value, servers) in values.iter().flat_map(|value| servers.iter().map(move |count| (value, *count))) {
        for (place, protocol, target) in &places {
            let mut settings = arguments.cluster.settings.clone();
            let mut label = place.clone();
            if let Some((name, value)) = &value {
                label = format!("{label} {name}={value}");
                settings.push((name.clone(), value.clone()));
            }
            if let Some((count, _)) = servers {
                label = format!("{label} servers={count} (simulated)");
            }
            let (protocol, target) = (protocol.clone(), target.clone());
            if let Some(processes) = arguments.processes {
                label = format!("{label} processes={processes}");
            }
            let processes = arguments.processes;
            variants.push(Variant { label, protocol, target, settings, servers, processes });
        }
    }
    let is_twice = |(at, one): (usize, &Variant)| variants[..at].iter().any(|other| other.label == one.label);
    if let Some(at) = variants.iter().enumerate().position(is_twice) {
        let what = format!("`{}` is named twice", variants[at].label);
        return Err(wrong(arguments, &what, "name each one once: --repeat N runs all of them several times"));
    }
    Ok(variants)
}

/// Where the workload runs: a name, the protocol there, and its cluster if that is not this process.
fn places(arguments: &BenchArguments) -> Result<Vec<(String, String, Option<ClusterFile>)>, Failure> {
    if conveyor::is_meant(arguments) {
        let targets = conveyor::targets(arguments).into_iter();
        return Ok(targets.map(|name| (name.clone(), name, None)).collect());
    }
    if arguments.target.is_empty() {
        let default = match arguments.processes {
            Some(_) => &["ramp-fast", "ramp-small", "ramp-hybrid"][..],
            None => &["ramp-fast", "none"],
        };
        let names = match arguments.protocol.is_empty() {
            true => default.iter().map(|name| (*name).to_owned()).collect(),
            false => arguments.protocol.clone(),
        };
        return Ok(names.into_iter().map(|name| (name.clone(), name, None)).collect());
    }
    let place = |target: &String| {
        let cluster = run::cluster_of("bench", target)?;
        Ok((target.clone(), cluster.variant.name().to_owned(), Some(cluster)))
    };
    arguments.target.iter().map(place).collect()
}

fn bench_run(variant: &Variant, round: u32, report: &RunReport) -> BenchRun {
    let calls = (report.committed + report.aborted_total()).max(1);
    BenchRun {
        label: variant.label.clone(),
        protocol: variant.protocol.clone(),
        parameters: report.setup.parameters.clone(),
        throughput: report.throughput,
        by_transaction: report
            .by_transaction
            .iter()
            .map(|(name, one)| (name.clone(), one.throughput))
            .collect(),
        aborted_share: report.aborted_total() as f64 / calls as f64,
        latency_us: report.latency_us.clone(),
        rounds: round,
        holds: Some(report.is_good()),
        memory: report.memory,
        ..BenchRun::default()
    }
}

/// A setting in the document: a number, if it is one.
fn parameter(value: &str) -> Value {
    value.parse().map_or_else(|_| Value::from(value), Value::Number)
}

/// A wrong argument: what is wrong, and what would be right.
fn wrong(arguments: &BenchArguments, what: &str, hint: &str) -> Failure {
    Failure::input(format!("weir bench {}: error: {what}\nhint: {hint}", arguments.workload))
}

/// A measurement that has gone wrong.
fn failed(arguments: &BenchArguments, why: &str) -> Failure {
    Failure::Check(Some(format!("weir bench {}: error: {why}", arguments.workload)))
}

/// This program, which is started for the nodes.
pub fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::input(format!(
            "weir: error: this program does not know where it is: {error}\nhint: start the nodes with `weir serve`"
        ))
    })
}

/// From that file, or those that the program was built with.
pub fn prices(file: Option<&Path>) -> Result<Prices, Failure> {
    match file {
        None => Prices::shipped().map_err(Failure::input),
        Some(path) => Prices::from_json(&input::read_text(path)?).map_err(|error| {
            let path = path.display();
            Failure::input(format!(
                "{path}: error: {error}\nhint: `weir calibrate --out {path}` writes such a file"
            ))
        }),
    }
}

/// Scaling of each simulated run relative to that of the same protocol and settings with the fewest servers.
fn scaling(runs: &[BenchRun]) -> Vec<Scaling> {
    let mut scaling = Vec::new();
    let key = |run: &BenchRun| (run.protocol.clone(), format!("{:?}", run.parameters), run.rounds);
    let of = |run: &BenchRun| run.simulated.as_ref().map(|simulated| simulated.servers);
    for run in runs {
        let (Some(servers), others) = (of(run), runs.iter().filter(|other| key(other) == key(run))) else {
            continue;
        };
        let Some(least) = others.min_by_key(|other| of(other)) else { continue };
        let Some(from) = of(least).filter(|from| *from < servers) else { continue };
        let linear = least.throughput * f64::from(servers) / f64::from(from);
        scaling.push(Scaling { of: run.label.clone(), from, of_linear: run.throughput / linear });
    }
    scaling
}

/// Throughput of each other variant over that of the first; of the first over that of each other one, where these are servers.
fn ratios(variants: &[Variant], runs: &[BenchRun], are_servers: bool) -> Vec<Ratio> {
    let Some((first, others)) = variants.split_first() else { return Vec::new() };
    let throughputs = |label: &str| -> Vec<f64> {
        runs.iter().filter(|run| run.label == label).map(|run| run.throughput).collect()
    };
    let ratio = |other: &Variant| {
        let (above, below) = if are_servers { (first, other) } else { (other, first) };
        let pairs = throughputs(&above.label).into_iter().zip(throughputs(&below.label));
        let ratios: Vec<f64> =
            pairs.filter(|(_, below)| *below > 0.0).map(|(above, below)| above / below).collect();
        let pairs = ratios.len();
        let Spread { median: value, least: min, most: max } = Spread::of(ratios)?;
        let (of, to) = (above.label.clone(), below.label.clone());
        Some(Ratio { of, to, value, min, max, pairs, p99: None })
    };
    others.iter().filter_map(ratio).collect()
}

fn text(report: &BenchReport) -> String {
    let rows = report
        .runs
        .iter()
        .map(|run| {
            vec![
                Cell::new(&run.label),
                Cell::new(run.rounds),
                Cell::new(grouped(run.throughput.round() as u64)),
                Cell::new(format!("{:.2}%", 100.0 * run.aborted_share)),
                Cell::new(duration(run.latency_us.p50)),
                Cell::new(duration(run.latency_us.p99)),
                Cell::new(last_cell(run)),
            ]
        })
        .collect();
    let last = report.runs.first().map_or("", last_header);
    let header = ["Run", "Round", "Committed a second", "Aborted", "p50", "p99", last];
    let mut text =
        format!("\n{}\n\n{}\n", styled(STRONG, &report.workload), table(&header, &[1, 2, 3, 4, 5], rows));
    for scaling in &report.scaling {
        text.push_str(&format!(
            "{}: {} of linear from {} servers\n",
            scaling.of,
            styled(STRONG, &format!("{:.3}", scaling.of_linear)),
            scaling.from
        ));
    }
    if let Some(simulated) = report.runs.first().and_then(|run| run.simulated.as_ref()) {
        let (network, of) = (simulated.network, &simulated.prices_of);
        text.push_str(&format!("Simulated servers on a {network}, charged with what steps take on {of}\n"));
    }
    text + &ratio_lines(&report.ratios)
}

/// Heading of a run's last column.
fn last_header(run: &BenchRun) -> &'static str {
    match run {
        BenchRun { read_rounds: Some(_), .. } => "Rounds of reads / writes",
        BenchRun { check: Some(_), .. } => "Check",
        BenchRun { classes, .. } if !classes.is_empty() => "Class: share, p50, p99",
        _ => "Invariants",
    }
}

fn last_cell(run: &BenchRun) -> String {
    if let (Some(reads), Some(writes)) = (run.read_rounds, run.write_rounds) {
        return format!("{reads:.2} / {writes:.2}");
    }
    if let Some(check) = &run.check {
        return check.clone();
    }
    if !run.classes.is_empty() {
        let class = |(name, [share, p50, p99]): (&&str, &[f64; 3])| {
            format!("{name}: {:.0}%, {}, {}", 100.0 * share, duration(1e3 * p50), duration(1e3 * p99))
        };
        return run.classes.iter().map(class).collect::<Vec<_>>().join("\n");
    }
    match run.holds {
        Some(true) => "hold".to_owned(),
        Some(false) => "violated".to_owned(),
        None => String::new(),
    }
}

fn ratio_lines(ratios: &[Ratio]) -> String {
    let mut text = String::new();
    for ratio in ratios {
        let p99 = ratio.p99.as_ref().map_or_else(String::new, |p99| {
            let (value, range) = (format!("{:.3}", p99.value), format!("({:.3} to {:.3})", p99.min, p99.max));
            format!(", p99 {} {}", styled(STRONG, &value), styled(FAINT, &range))
        });
        let range = Range { value: ratio.value, min: ratio.min, max: ratio.max };
        text.push_str(&ratio_line((&ratio.of, &ratio.to), &range, ratio.pairs, &p99));
    }
    text
}

/// A ratio of the first to the second, with its range over the pairs, and more behind it.
fn ratio_line((of, to): (&str, &str), ratio: &Range, pairs: usize, more: &str) -> String {
    let value = styled(STRONG, &format!("{:.3}", ratio.value));
    let range = styled(FAINT, &format!("({:.3} to {:.3} over {pairs} pairs)", ratio.min, ratio.max));
    format!("{of} / {to}: {value} {range}{more}\n")
}
