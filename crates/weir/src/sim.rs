//! `weir sim`: a cluster in virtual time, seed by seed; `weir history`: recorded histories, decided and exported.
//!
//! Runs and judges nothing itself: weir-sim does. A seed that fails is printed with the command that runs it
//! again, and its log is written down.

mod calls;

use std::path::PathBuf;

use weir_kv::Variant;
use weir_sim::history::{History, elle_edn, from_json_lines, operations_text, to_json_lines};
use weir_sim::{Faults, items, relations};

use crate::cli::{HistoryArguments, HistoryCommand, SimArguments};
use crate::input::read_text;
use crate::kept;
use crate::output::{Failure, print, write_file};

/// A built-in simulated workload.
#[derive(Clone, Copy)]
enum Workload {
    Items,
    Relations,
}

/// One seed that has been run.
struct Ran {
    has_failed: bool,
    /// In words.
    report: String,
    log: String,
    transactions: usize,
    /// Number of these that committed under guards.
    guarded: usize,
    history: String,
}

impl Workload {
    fn by_name(name: &str) -> Option<Workload> {
        match name {
            "items" => Some(Workload::Items),
            "relations" => Some(Workload::Relations),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Workload::Items => "items",
            Workload::Relations => "relations",
        }
    }

    fn run(self, variant: Variant, seed: u64, faults: Option<Faults>, logged: bool) -> Ran {
        match self {
            Workload::Items => {
                let setup: items::Setup = items::Setup { faults, logged, ..items::Setup::new(variant, seed) };
                let report = items::run(&setup);
                Ran {
                    has_failed: report.failure.is_some(),
                    report: report.to_string(),
                    transactions: report.history.records.len(),
                    guarded: report.guarded.0,
                    history: to_json_lines(&report.history),
                    log: report.log,
                }
            }
            Workload::Relations => {
                let setup: relations::Setup =
                    relations::Setup { faults, logged, ..relations::Setup::new(variant, seed) };
                let report = relations::run(&setup);
                Ran {
                    has_failed: report.failure.is_some(),
                    report: report.to_string(),
                    transactions: report.counts.committed,
                    // Values that are computed from rows are compared with the rows instead.
                    guarded: 0,
                    history: String::new(),
                    log: report.log,
                }
            }
        }
    }
}

pub fn execute(arguments: &SimArguments) -> Result<(), Failure> {
    let faults = match &arguments.faults_text {
        None => None,
        Some(text) => {
            Some(parse_faults(text).map_err(|what| {
                Failure::input(format!(
                    "weir sim: error: --faults {text}: {what}\n\
                     hint: as in --faults drop=0.05,duplicate=0.1,partition=2,clock=5000; `weir sim --help` lists them"
                ))
            })?)
        }
    };
    // A node that panics is a finding of the run, not the end of the program.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let Some(workload) = Workload::by_name(&arguments.workload) else {
        let path = PathBuf::from(&arguments.workload);
        if !path.exists() {
            let unknown = &arguments.workload;
            return Err(Failure::input(format!(
                "weir sim: error: there is no workload `{unknown}` to simulate\n\
                 hint: write `items`, `relations`, or a directory with schema.sql, procedures.sql and invariants.sql"
            )));
        }
        return calls::execute(arguments, &path, faults);
    };
    if matches!(workload, Workload::Relations) && arguments.history.is_some() {
        return Err(Failure::input(
            "weir sim: error: relations have no history of items\nhint: --history goes with `weir sim items`",
        ));
    }
    let variants = variants(&arguments.protocol)?;
    if arguments.hours.is_some() || arguments.quick {
        return kept::execute(arguments, &variants);
    }
    if arguments.plot.is_some() {
        return Err(Failure::input(
            "weir sim: error: --plot draws what is kept over time\nhint: weir sim items --hours 1 --plot FILE, or --quick",
        ));
    }
    for variant in variants {
        let (mut transactions, mut guarded) = (0, 0);
        for seed in arguments.seeds.clone() {
            let ran = workload.run(variant, seed, faults.clone(), false);
            if let Some(path) = &arguments.history {
                write_file(path, &ran.history)?;
            }
            if ran.has_failed {
                let logged = workload.run(variant, seed, faults.clone(), true);
                return Err(failed(arguments, workload, (variant, seed), &logged)?);
            }
            transactions += ran.transactions;
            guarded += ran.guarded;
        }
        let seeds = arguments.seeds.end - arguments.seeds.start;
        let name = variant.name();
        let guards = if guarded > 0 { format!("; guards hold in {guarded} of them") } else { String::new() };
        print(&format!("{name}: {seeds} seeds, {transactions} transactions{guards}: all checks hold\n"));
    }
    Ok(())
}

fn variants(names: &[String]) -> Result<Vec<Variant>, Failure> {
    let variant = |name: &String| {
        Variant::by_name(name).ok_or_else(|| {
            Failure::input(format!(
                "weir sim: error: there is no protocol `{name}` over items\n\
                 hint: the protocols are: ramp-fast, ramp-small, ramp-hybrid (or ramp-hybrid:BITS:HASHES)"
            ))
        })
    };
    names.iter().map(variant).collect()
}

/// A seed has failed, and was run again with its log.
fn failed(
    arguments: &SimArguments,
    workload: Workload,
    (variant, seed): (Variant, u64),
    logged: &Ran,
) -> Result<Failure, Failure> {
    let (name, report) = (variant.name(), &logged.report);
    let path = match &arguments.log {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("weir-sim-{name}-{seed}.log")),
    };
    write_file(&path, &format!("{}{report}\n", logged.log))?;
    let faults = arguments.faults_text.as_ref().map(|text| format!(" --faults {text}")).unwrap_or_default();
    Ok(Failure::Check(Some(format!(
        "weir: seed {seed}: {report}\nhint: weir sim {} --protocol {variant} --seeds {seed}..{}{faults}\nlog: {}",
        workload.name(),
        seed + 1,
        path.display()
    ))))
}

pub fn execute_history(arguments: &HistoryArguments) -> Result<(), Failure> {
    let read = |path: &PathBuf| {
        let wrong = |what: String| {
            Failure::input(format!(
                "{}: error: {what}\nhint: a history has one transaction a line, as `weir sim items --history {}` writes it",
                path.display(),
                path.display()
            ))
        };
        let records = from_json_lines(&read_text(path)?).map_err(wrong)?;
        // An empty history satisfies everything, but probably the file was never written.
        if records.is_empty() {
            return Err(wrong("there is no transaction in it".to_owned()));
        }
        Ok(History::new(records))
    };
    match &arguments.command {
        HistoryCommand::Check { file } => {
            let history = read(file)?;
            match history.check() {
                Ok(()) => print(&format!(
                    "{} transactions: reads are atomic, sessions hold, guards hold, single items are linearizable\n",
                    history.records.len()
                )),
                Err(violation) => {
                    let message = format!(
                        "weir: violated: {}: {}\nhint: transactions are counted as the lines of {}",
                        violation.claim,
                        violation.seen,
                        file.display()
                    );
                    return Err(Failure::Check(Some(message)));
                }
            }
        }
        HistoryCommand::Export { file, out, operations, .. } => {
            let history = read(file)?;
            let text = if *operations { operations_text(&history) } else { elle_edn(&history) };
            match out {
                Some(path) => write_file(path, &text)?,
                None => print(&text),
            }
        }
    }
    Ok(())
}

/// `drop=0.05,duplicate=0.05,reorder=1,partition=1.5,slow=50,clock=1000`: shares, seconds, a factor, milliseconds.
pub fn parse_faults(text: &str) -> Result<Faults, String> {
    let mut faults = Faults::none();
    for part in text.split(',').filter(|part| *part != "none") {
        let (name, value) =
            part.split_once('=').ok_or_else(|| format!("write NAME=VALUE instead of `{part}`"))?;
        let value: f64 = value.parse().map_err(|_| format!("{name}: {value} is no number"))?;
        let at_most = |most: f64| {
            if (0.0..=most).contains(&value) { Ok(value) } else { Err(format!("{name} is from 0 to {most}")) }
        };
        match name {
            "drop" => faults.loss_per_mille = (at_most(0.5)? * 1000.0) as u32,
            "duplicate" => faults.duplicate_per_mille = (at_most(1.0)? * 1000.0) as u32,
            "reorder" => faults.links_keep_order = at_most(1.0)? == 0.0,
            "partition" => faults.partition_us_max = (at_most(10.0)? * 1e6) as u64,
            "slow" => faults.slow_factor = at_most(1000.0)? as u64,
            "clock" => {
                faults.clock_offset_ms_max = at_most(1e12)? as u64;
                faults.clock_step_ms_max = faults.clock_offset_ms_max;
            }
            "delay" => faults.delay_us_max = 1.max((at_most(10_000.0)? * 1e3) as u64),
            "drift" => faults.clock_drift_ppm_max = at_most(500_000.0)? as u64,
            // 365.2425 days.
            "year" => {
                faults.epoch_ms = ((at_most(9_999.0)?.max(1_970.0) - 1_970.0) * 31_556_952_000.0) as u64
            }
            "crash" => faults.shard_down_us_max = (at_most(10.0)? * 1e6) as u64,
            "sync" => faults.sync_us_max = (at_most(1000.0)? * 1e3) as u64,
            "tail" => faults.tail_survives = at_most(1.0)? == 1.0,
            "snapshot" => faults.snapshot_every = at_most(1e6)? as usize,
            "die" => faults.coordinators_die = at_most(1.0)? == 1.0,
            _ => {
                return Err(format!(
                    "{name}: the faults are delay, drop, duplicate, reorder, partition, slow, clock, drift, year, crash, \
                     sync, tail, snapshot and die"
                ));
            }
        }
    }
    if faults.links_keep_order && faults.loss_per_mille + faults.duplicate_per_mille > 0 {
        return Err("links that keep order (reorder=0) neither drop nor duplicate".into());
    }
    Ok(faults)
}

pub fn parse_seeds(text: &str) -> Result<std::ops::Range<u64>, String> {
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    match ends {
        Some(seeds) if seeds.start < seeds.end => Ok(seeds),
        _ => Err("write FROM..TO, as in 0..100; the last one is not run".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_names_and_numbers() {
        for (text, expected) in [
            ("none", Ok(Faults::none())),
            ("drop=0.05", Ok(Faults { loss_per_mille: 50, ..Faults::none() })),
            ("partition=1.5,reorder=0", {
                Ok(Faults { partition_us_max: 1_500_000, links_keep_order: true, ..Faults::none() })
            }),
            ("delay=300,drift=200,year=2040", {
                let epoch_ms = 70 * 31_556_952_000;
                let slow = Faults { delay_us_max: 300_000, clock_drift_ppm_max: 200, ..Faults::none() };
                Ok(Faults { epoch_ms, ..slow })
            }),
            ("drop=2", Err("drop is from 0 to 0.5".into())),
            ("drop", Err("write NAME=VALUE instead of `drop`".into())),
            ("", Err("write NAME=VALUE instead of ``".into())),
            ("drop=x", Err("drop: x is no number".into())),
            ("crash=2,sync=10,tail=1,snapshot=50,die=1", {
                Ok(Faults {
                    shard_down_us_max: 2_000_000,
                    sync_us_max: 10_000,
                    tail_survives: true,
                    snapshot_every: 50,
                    coordinators_die: true,
                    ..Faults::none()
                })
            }),
            ("fire=1", {
                let all = "delay, drop, duplicate, reorder, partition, slow, clock, drift, year, crash, sync, tail, \
                           snapshot and die";
                Err(format!("fire: the faults are {all}"))
            }),
            (
                "drop=0.1,reorder=0",
                Err("links that keep order (reorder=0) neither drop nor duplicate".into()),
            ),
        ] {
            assert_eq!(parse_faults(text), expected, "{text}");
        }
        assert_eq!(parse_seeds("3..5"), Ok(3..5));
        for wrong in ["", "3", "5..3", "a..b"] {
            assert!(parse_seeds(wrong).is_err(), "{wrong}");
        }
    }
}
