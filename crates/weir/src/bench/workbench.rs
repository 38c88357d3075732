//! `weir bench` of a workload by SQL on any target (the crate `weir-cat-bench`): arguments, progress, tables, JSON and the page.

use std::io::IsTerminal as _;
use std::time::Duration;

use comfy_table::Cell;
use serde::Serialize;
use weir_cat_bench::page;
use weir_cat_bench::place::{Place, Starting, without_password};
use weir_cat_bench::trace;
use weir_cat_bench::workbench::{self, Range, Remark, Report, Wanted};
use weir_cat_bench::workload::{NAMES, Wrong};
use weir_harness::{machine::Machine, mariadb};
use weir_server::progress::Progress;

use crate::bench::advice::{self, Advice};
use crate::bench::servers::postgres_programs;
use crate::bench::{failed, ratio_line, this_program};
use crate::cli::{BenchArguments, BenchWay, Format};
use crate::input;
use crate::output::{Failure, STRONG, print, print_json, print_remark, styled, write_file};
use crate::progress::ProgressView;
use crate::report::{duration, grouped};
use crate::table::table;

/// YCSB also runs over items, without SQL.
const YCSB: &str = "ycsb";
/// TPC-C's procedures are an application's; here it is statement by statement.
const TPCC: &str = "tpcc";

/// Seconds of a run and of its warm-up, if they are not given.
const SECONDS: f64 = 5.0;
const WARM_UP: f64 = 1.0;

/// A replay ends with its trace, or after a day.
const REPLAY_SECONDS: f64 = 86_400.0;

/// Names of its workloads that no other way of measuring has.
pub fn names() -> String {
    NAMES.into_iter().filter(|name| ![YCSB, TPCC].contains(name)).collect::<Vec<_>>().join(", ")
}

/// A workload by SQL: by its name, or YCSB on servers, or TPC-C where procedures are not meant or not to be had.
pub fn is_meant(arguments: &BenchArguments) -> bool {
    let name = arguments.workload.as_str();
    let is_cluster =
        |target: &String| target.starts_with("weir:") && !target.starts_with("weir://") && target != "weir:";
    let on_servers = !arguments.start.is_empty()
        || (!arguments.target.is_empty() && !arguments.target.iter().all(is_cluster));
    let by_statements = || {
        let has_procedures = |target: &String| {
            target == "postgres" || (target.starts_with("weir:") && !target.starts_with("weir://"))
        };
        let places = arguments.target.iter().chain(&arguments.start);
        let is_asked = arguments.advise || arguments.way == Some(BenchWay::Statements);
        is_asked || !places.into_iter().all(has_procedures)
    };
    let is_by_sql = match name {
        YCSB => on_servers,
        TPCC => by_statements(),
        _ => NAMES.contains(&name),
    };
    arguments.trace.is_some() || is_by_sql
}

/// Options of this way of measuring that another one was given. `compares_here`: by the protocols or the targets, not by the workload.
pub fn refuse_elsewhere(arguments: &BenchArguments, compares_here: bool) -> Result<(), Failure> {
    let given = [
        (arguments.isolation.is_some(), "--isolation"),
        (arguments.way.is_some(), "--way"),
        (arguments.warmup.is_some(), "--warmup"),
        (arguments.rate.is_some(), "--rate"),
        (arguments.html.is_some(), "--html"),
        (arguments.record.is_some(), "--record"),
        (arguments.advise, "--advise"),
        (!arguments.start.is_empty(), "--start"),
        (arguments.no_sync, "--no-sync"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) if compares_here => {
            let hint = "it is for a workload by SQL: leave --protocol away, and targets of several servers";
            Err(input(
                arguments,
                &Wrong::new(format!("{option} is not for these protocols or targets"), hint),
            ))
        }
        Some((_, option)) => {
            let hint = format!(
                "it is for {}, for ycsb with --target of servers, and for tpcc with --way statements",
                names()
            );
            Err(input(arguments, &Wrong::new(format!("{option} is not for this workload"), hint)))
        }
    }
}

fn input(arguments: &BenchArguments, wrong: &Wrong) -> Failure {
    super::wrong(arguments, &wrong.what, &wrong.hint)
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "<[Advice]>::is_empty")]
    advice: &'a [Advice],
}

pub fn execute(arguments: &BenchArguments) -> Result<(), Failure> {
    refuse(arguments)?;
    let wanted = wanted(arguments)?;
    // Errors are reported before the first run.
    let points = workbench::points(&wanted).map_err(|wrong| input(arguments, &wrong))?;
    check_programs(arguments, &wanted.places)?;
    let machine = Machine::here();
    print_remark(&format!("weir: {machine}"));
    let report = {
        let mut view = ProgressView::new();
        let is_terminal = std::io::stderr().is_terminal();
        let steps = u64::from(wanted.repeat) * (points.len() * wanted.places.len()) as u64;
        view.show(Progress::Phase { name: "Measuring", steps });
        let mut shown = 0;
        let mut listener = |remark: Remark<'_>| {
            view.show(Progress::Steps { done: remark.done, note: remark.text });
            if !is_terminal && remark.done > shown {
                print_remark(&format!("weir: {}", remark.text));
            }
            shown = remark.done;
        };
        workbench::run(&wanted, &points, &mut listener).map_err(|why| failed(arguments, &why))?
    };
    let advice = match arguments.advise {
        true => advice::of(&report, &points)?,
        false => Vec::new(),
    };
    if let Some(path) = &arguments.record {
        write_file(path, &trace::text(&report.recorded))?;
    }
    if let Some(path) = &arguments.html {
        let lines: Vec<String> = advice.iter().map(|one| one.text.clone()).collect();
        let swept = arguments.sweep.as_ref().map(|(name, _)| name.as_str());
        let text = page::html(&report, swept, &lines, &machine, &command());
        write_file(path, &text.map_err(|why| failed(arguments, &why))?)?;
    }
    match arguments.format {
        Format::Json => print_json(&Document { report: &report, advice: &advice }),
        Format::Text => {
            print(&text(&report));
            advice.iter().for_each(|one| print(&format!("\n{}\n", one.text)));
        }
    }
    let violated: Vec<String> = report
        .runs
        .iter()
        .filter_map(|run| Some(format!("{} ({}): {}", run.label, run.rounds, run.violation.as_ref()?)))
        .collect();
    if violated.is_empty() { Ok(()) } else { Err(failed(arguments, &violated.join("\n"))) }
}

/// As it was typed, without the passwords of addresses.
fn command() -> String {
    let shown = |argument: String| -> String {
        argument.split(',').map(without_password).collect::<Vec<_>>().join(",")
    };
    let arguments: Vec<String> = std::env::args().skip(1).map(shown).collect();
    format!("weir {}", arguments.join(" "))
}

/// Options that would do nothing.
fn refuse(arguments: &BenchArguments) -> Result<(), Failure> {
    let on_servers = "it says what a cluster does; a server runs as it is started";
    let replays = arguments.trace.is_some();
    let given = [
        (!arguments.protocol.is_empty(), "--protocol", on_servers),
        (arguments.processes.is_some(), "--processes", on_servers),
        (arguments.simulate.is_some(), "--simulate", on_servers),
        (arguments.count.is_some(), "--count", "it is for procedures of an application"),
        (arguments.cluster.transactions.is_some(), "--transactions", "say how long each run is: --seconds S"),
        (
            replays && arguments.advise,
            "--advise",
            "nobody knows what a recorded load is without its hot keys",
        ),
        (replays && arguments.rate.is_some(), "--rate", "a recorded load has its own times: --speed 1"),
        (replays && arguments.way.is_some(), "--way", "a recorded load has its own statements and calls"),
        (replays && !arguments.cluster.settings.is_empty(), "--set", "a recorded load has no settings"),
    ];
    if let Some((_, option, hint)) = given.iter().find(|(is_given, ..)| *is_given) {
        let what = format!("{option} is not for {} by SQL", arguments.workload);
        return Err(input(arguments, &Wrong::new(what, *hint)));
    }
    if let (true, Some((name, _))) = (replays, &arguments.sweep)
        && name != "clients"
    {
        let hint = "a recorded load has no settings: sweep clients";
        return Err(input(arguments, &Wrong::new(format!("--sweep {name} is not for a trace"), hint)));
    }
    match replays && arguments.workload != "trace" {
        true => {
            let hint = "leave the workload away: a trace has its own statements";
            Err(input(arguments, &Wrong::new("a trace is replayed instead of a workload", hint)))
        }
        false => Ok(()),
    }
}

fn wanted(arguments: &BenchArguments) -> Result<Wanted, Failure> {
    let wrong = |wrong: Wrong| input(arguments, &wrong);
    let cluster = &arguments.cluster;
    let clients = match cluster.clients {
        Some(clients) => workbench::clients_of(&clients.to_string()).map_err(wrong)?,
        None => 0,
    };
    let (warm_up, seconds) =
        if arguments.trace.is_some() { (0.0, REPLAY_SECONDS) } else { (WARM_UP, SECONDS) };
    let trace = match &arguments.trace {
        Some(path) => Some((path.display().to_string(), input::read_text(path)?)),
        None => None,
    };
    let rate = match &arguments.rate {
        Some(rate) => Some(workbench::rate_of(&rate.to_string()).map_err(wrong)?),
        None => None,
    };
    let times = weir_cat_bench::run::Times {
        warm_up: Duration::from_secs_f64(arguments.warmup.unwrap_or(warm_up)),
        measured: Duration::from_secs_f64(cluster.seconds.unwrap_or(seconds)),
    };
    Ok(Wanted {
        workload: arguments.workload.clone(),
        settings: cluster.settings.clone(),
        places: places(arguments)?,
        clients,
        sweep: arguments.sweep.clone(),
        way: arguments.way.unwrap_or_default().into(),
        level: arguments.isolation,
        rate,
        times,
        repeat: arguments.repeat.unwrap_or(3),
        seed: cluster.seed,
        beside_spread: arguments.advise,
        trace,
        speed: arguments.speed,
        is_recorded: arguments.record.is_some(),
        starting: Starting {
            weir: this_program()?,
            shards: cluster.shards.unwrap_or(1),
            is_durable: !arguments.no_sync,
        },
    })
}

/// Those of `--target`, and those of `--start` behind them.
fn places(arguments: &BenchArguments) -> Result<Vec<Place>, Failure> {
    let default = ["weir:".to_owned(), "postgres".to_owned()];
    let named = match arguments.target.is_empty() && arguments.start.is_empty() {
        true => &default[..],
        false => &arguments.target,
    };
    let mut places: Vec<Place> = Vec::new();
    for text in named.iter().chain(&arguments.start) {
        let place = Place::parse(text).map_err(|wrong| input(arguments, &wrong))?;
        if places.contains(&place) {
            let hint = "to see what chance does, compare this program with a copy of it: baseline:PROGRAM";
            return Err(input(arguments, &Wrong::new(format!("`{}` is named twice", place.label()), hint)));
        }
        places.push(place);
    }
    Ok(places)
}

/// Programs of the servers that are to be started.
fn check_programs(arguments: &BenchArguments, places: &[Place]) -> Result<(), Failure> {
    if places.contains(&Place::Postgres) {
        postgres_programs(&arguments.workload, &["initdb", "postgres"])?;
    }
    if places.contains(&Place::MariaDb) && !mariadb::is_installed() {
        let hint = format!(
            "`{}` installs it; mysql://USER:PASSWORD@HOST:PORT/DATABASE names one that runs",
            mariadb::INSTALL
        );
        return Err(input(arguments, &Wrong::new("MariaDB is not installed", hint)));
    }
    Ok(())
}

fn text(report: &Report) -> String {
    let range = |range: &Range| {
        let (value, least, most) =
            (range.value.round() as u64, range.min.round() as u64, range.max.round() as u64);
        format!("{} ({} to {})", grouped(value), grouped(least), grouped(most))
    };
    let row = |one: &workbench::Summary| {
        vec![
            Cell::new(&one.label),
            Cell::new(range(&one.throughput)),
            Cell::new(format!("{:.2}%", 100.0 * one.aborted_share.value)),
            Cell::new(format!("{:.3}", one.contention_level.value)),
            Cell::new(duration(one.p50_us.value)),
            Cell::new(duration(one.p99_us.value)),
        ]
    };
    let header = ["Run", "Committed a second", "Aborted", "Contention", "p50", "p99"];
    let rows = report.summary.iter().map(row).collect();
    let title = styled(STRONG, &report.workload);
    let mut text = format!("\n{title}\n\n{}\n", table(&header, &[1, 2, 3, 4, 5], rows));
    for ratio in &report.ratios {
        text.push_str(&ratio_line((&ratio.of, &ratio.to), &ratio.range, ratio.pairs, ""));
    }
    let unfinished: u64 = report.runs.iter().map(|run| run.outcome.unfinished).sum();
    let is_open = report.runs.iter().any(|run| run.parameters.get("loop").is_some_and(|kind| kind == "open"));
    if is_open {
        text.push_str(&format!(
            "Open loop: a latency is from when a transaction was due; {unfinished} had not ended when their run did\n"
        ));
    }
    text
}
