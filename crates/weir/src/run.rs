//! `weir run PATH`: analyse, start an embedded cluster, load, run the workload, check every invariant,
//! report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_bench::Workload;
use weir_bench::pace::Limit;
use weir_bench::run::{RunError, RunOptions, load};
use weir_client::ClusterFile;
use weir_server::report::{InvariantReport, RunReport};
use weir_sql::Diagnostic;
use weir_txn::ramp::Protocol;
use weir_types::{SqlError, SqlState};

use crate::application::{self, Carried, Loaded};
use crate::cli::{ClusterArguments, Format, RunArguments};
use crate::output::{self, Failure};
use crate::progress::ProgressView;
use crate::{diagnostic, replay, report, table};

/// Duration of a run unless the user gives one.
const SECONDS_DEFAULT: f64 = 10.0;

/// Calls in flight unless the user says so: enough that shards and clients find batches to work on.
const CLIENTS_DEFAULT: u32 = 64;

/// One call in so many is followed by a read-atomic look at an assertion while the run goes on.
const AUDIT_EVERY: u64 = 1_000;

pub fn execute(arguments: &RunArguments) -> Result<(), Failure> {
    if let Some(witness) = &arguments.replay {
        return replay::execute(&arguments.path, witness, arguments.format);
    }
    if let Some(target) = &arguments.target {
        return execute_at(arguments, target);
    }
    let paths = std::slice::from_ref(&arguments.path);
    let mut loaded = Loaded::from_paths(paths, weir_sql::Reading::Strict)?.with_witnesses();
    let (name, text) = application::workload_text(&loaded, &arguments.path)?;
    let workload = loaded.workload(name, text, &arguments.cluster.settings)?;
    let protocol = protocol(&arguments.protocol)?;
    if let Some(path) = &arguments.report {
        // An unwritable path is reported before the run.
        output::write_file(path, "")?;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let options = options(&arguments.cluster, protocol, Some(AUDIT_EVERY));
    let options = RunOptions { interrupted: Some(interrupted.clone()), ..options };
    // Errors are reported first, without other output.
    let run = once_after(&loaded, workload, options, || {
        if arguments.format == Format::Text {
            output::print(&loaded.plan_text());
        }
        report_when_interrupted(interrupted)
    })?;
    show(arguments, &loaded, &run)
}

/// Runs on a cluster that carries the application.
fn execute_at(arguments: &RunArguments, target: &str) -> Result<(), Failure> {
    let cluster = cluster_of("run", target)?;
    let Some(named) = &cluster.application else {
        return Err(Failure::input(format!(
            "weir run: error: {target} carries items, not an application\nhint: name it in [application] of the cluster file"
        )));
    };
    let Carried { loaded, workload, options, terms, .. } = Carried::of(&arguments.path, &cluster, named)?;
    let protocol = protocol(&arguments.protocol)?;
    if protocol == Protocol::None {
        return Err(Failure::input(
            "weir run: error: nodes of a cluster take no calls of the comparator `none`, which keeps nothing atomic\n\
             hint: leave out --protocol, or leave out --target: within one process `none` runs too"
                .to_owned(),
        ));
    }
    let clients = arguments.cluster.clients.unwrap_or(CLIENTS_DEFAULT);
    let limit = limit(&arguments.cluster);
    let audit_every = Some(AUDIT_EVERY);
    let interrupted = Arc::new(AtomicBool::new(false));
    let options = RunOptions { protocol, clients, limit, audit_every, refuses: true, ..options };
    let options = RunOptions { interrupted: Some(interrupted.clone()), ..options };
    let mut view = ProgressView::new();
    let mut listener = |remark: weir_server::progress::Progress<'_>| view.show(remark);
    let failed = |error| failure(&loaded, error);
    let ready = load(&loaded.application, &loaded.analysis, &workload, &options, false, &mut listener);
    let workload = Arc::new(workload);
    report_when_interrupted(interrupted)?;
    let run = ready.and_then(|ready| ready.run_at(&cluster, &terms, &workload, &mut listener));
    let mut run = run.map_err(failed)?;
    run.plan = loaded.plan();
    show(arguments, &loaded, &run)
}

/// The cluster that a URL names.
pub fn cluster_of(command: &str, target: &str) -> Result<ClusterFile, Failure> {
    let wrong = |what: &str| {
        Failure::input(format!(
            "weir {command}: error: `{target}` {what}\nhint: weir: and a cluster file, as in weir:cluster.toml"
        ))
    };
    let Some(file) = target.strip_prefix("weir:") else { return Err(wrong("is no target")) };
    if file.is_empty() {
        return Err(wrong("names no cluster file"));
    }
    if file.starts_with("//") && !std::path::Path::new(file).exists() {
        return Err(wrong("is an address: a cluster is named by its file"));
    }
    if std::path::Path::new(file).is_dir() {
        return Err(wrong("is a directory"));
    }
    ClusterFile::read(file.as_ref()).map_err(|wrong| Failure::input(wrong.to_string()))
}

fn show(arguments: &RunArguments, loaded: &Loaded, run: &RunReport) -> Result<(), Failure> {
    if let Some(path) = &arguments.report {
        let title = arguments.path.display().to_string();
        output::write_file(path, &report::page(&title, &run.plan, &loaded.application.sources, Some(run)))?;
    }
    match arguments.format {
        Format::Json => output::print_json(run),
        Format::Text => output::print(&table::run_report(run)),
    }
    if let Some(path) = &arguments.report {
        output::print_remark(&format!("weir: wrote {}", path.display()));
    }
    if run.is_good() { Ok(()) } else { Err(Failure::Check(None)) }
}

/// The protocol of this name.
pub fn protocol(name: &str) -> Result<Protocol, Failure> {
    Protocol::by_name(name).ok_or_else(|| {
        Failure::input(format!(
            "weir: error: there is no protocol `{name}`\nhint: the protocols are: ramp-fast, none"
        ))
    })
}

/// Duration of the run.
pub fn limit(cluster: &ClusterArguments) -> Limit {
    match cluster.transactions {
        Some(calls) => Limit::Transactions(calls),
        None => Limit::Seconds(cluster.seconds.unwrap_or(SECONDS_DEFAULT)),
    }
}

/// Loads, runs and checks an application once.
pub fn once(
    loaded: &Loaded,
    workload: Workload,
    cluster: &ClusterArguments,
    protocol: Protocol,
    audit_every: Option<u64>,
) -> Result<RunReport, Failure> {
    once_after(loaded, workload, options(cluster, protocol, audit_every), || Ok(()))
}

fn options(cluster: &ClusterArguments, protocol: Protocol, audit_every: Option<u64>) -> RunOptions {
    RunOptions {
        clients: cluster.clients.unwrap_or(CLIENTS_DEFAULT),
        limit: limit(cluster),
        seed: cluster.seed,
        protocol,
        audit_every,
        refuses: true,
        ..RunOptions::new(cluster.shards())
    }
}

/// From here on ^C ends the run and not the process, which reports what there is; a second one ends that, too.
fn report_when_interrupted(interrupted: Arc<AtomicBool>) -> Result<(), Failure> {
    const ENDED_BY_SIGNAL: i32 = 130;
    let end = move || {
        if interrupted.swap(true, Ordering::Relaxed) {
            std::process::exit(ENDED_BY_SIGNAL);
        }
    };
    ctrlc::set_handler(end).map_err(|error| Failure::Check(Some(format!("weir run: error: {error}"))))
}

/// `ready`: it is loaded and valid, and will run.
fn once_after(
    loaded: &Loaded,
    workload: Workload,
    options: RunOptions,
    ready: impl FnOnce() -> Result<(), Failure>,
) -> Result<RunReport, Failure> {
    let mut view = ProgressView::new();
    let mut listener = |remark: weir_server::progress::Progress<'_>| view.show(remark);
    let failed = |error| failure(loaded, error);
    let loaded_rows = load(&loaded.application, &loaded.analysis, &workload, &options, true, &mut listener)
        .map_err(failed)?;
    ready()?;
    let mut run = loaded_rows.run(&Arc::new(workload), &mut listener).map_err(failed)?;
    run.plan = loaded.plan();
    Ok(run)
}

/// Converts an error into a message with a remedy.
pub fn failure(loaded: &Loaded, error: RunError) -> Failure {
    let sources = &loaded.application.sources;
    match error {
        RunError::Compile(error) => {
            let fields = error.error.fields();
            let mut wrong = Diagnostic::new(fields.state, error.span, fields.message.clone());
            wrong.hint = fields.hint.clone().or_else(|| fields.detail.clone());
            application::refused(sources, &[wrong])
        }
        RunError::Refused(refused) => {
            let wrong = |(procedure, error): &(usize, SqlError)| {
                let span = loaded.application.procedures[*procedure].span;
                let fields = error.fields();
                let mut wrong = Diagnostic::new(fields.state, span, fields.message.clone());
                wrong.hint = fields.hint.clone();
                wrong
            };
            application::refused(sources, &refused.iter().map(wrong).collect::<Vec<_>>())
        }
        RunError::Sql(what, error) => {
            let fields = error.fields();
            let mut message = format!("{what}: error: {error}");
            if let Some(hint) = fields.hint.as_ref().or(fields.detail.as_ref()) {
                message.push_str(&format!("\nhint: {hint}"));
            }
            Failure::Input(message)
        }
        RunError::Network(why) => Failure::Check(Some(format!(
            "weir run: error: {why}\nhint: start its nodes: weir serve --cluster FILE --node NAME, one for each in the file"
        ))),
        RunError::InitialViolation(reports) => initial_violation(loaded, &reports),
    }
}

/// Exit code 1: the first invariant that the initial data violates, at the place of its declaration.
fn initial_violation(loaded: &Loaded, reports: &[InvariantReport]) -> Failure {
    let broken: Vec<&InvariantReport> = reports.iter().filter(|report| !report.holds).collect();
    let Some(first) = broken.first() else { return Failure::Check(None) };
    let named = loaded.analysis.invariants.iter().find(|invariant| invariant.name == first.id);
    let span = named.map(|invariant| invariant.span).unwrap_or_default();
    let mut message = format!("the initial data violates {}", first.id);
    if let Some(violation) = &first.violation {
        message.push_str(&format!(": {}", report::plain(violation)));
    }
    if broken.len() > 1 {
        message.push_str(&format!(" (and {} more)", broken.len() - 1));
    }
    let wrong = Diagnostic::new(SqlState::CHECK_VIOLATION, span, message)
        .with_hint("nothing was run; mend the [load] sections of workload.toml, or what is declared");
    Failure::Check(Some(diagnostic::render(&loaded.application.sources, &wrong)))
}
