//! `weir sim PATH`: an application's calls in virtual time, with a population that is small enough for many seeds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_bench::Workload;
use weir_bench::simulate::Simulated;
use weir_sim::Faults;
use weir_sim::calls::{Report, Setup};

use crate::application::{self, Loaded};
use crate::cli::SimArguments;
use crate::output::{Failure, print, print_remark, write_file};
use crate::run;

/// A population that is loaded and recovered again and again.
const ROWS_MAX: u64 = 20_000;

/// No setting is made smaller than this.
const SETTING_MIN: u64 = 10;

pub fn execute(arguments: &SimArguments, path: &Path, faults: Option<Faults>) -> Result<(), Failure> {
    let mut loaded = Loaded::from_paths(&[path.to_owned()], weir_sql::Reading::Strict)?;
    let (workload, made_smaller) = small_workload(&mut loaded, path, &arguments.settings)?;
    let workload = Arc::new(workload);
    if !made_smaller.is_empty() {
        print_remark(&format!("weir: simulated with {}", made_smaller.join(" ")));
    }
    let mut simulated = Simulated::new(&loaded.application, &loaded.analysis, &workload);
    let (mut committed, mut audits, mut restarts, mut dead) = (0, 0, 0, 0);
    for seed in arguments.seeds.clone() {
        let (shards, calls) = (arguments.shards, arguments.calls);
        let setup: Setup = Setup { shards, faults: faults.clone(), calls, ..Setup::new(seed) };
        let mut once = |setup: &Setup| simulated.run(setup).map_err(|error| run::failure(&loaded, error));
        let report = once(&setup)?;
        if report.failure.is_some() {
            let logged = once(&Setup { logged: true, ..setup })?;
            return Err(failed(arguments, seed, &report, &logged.log)?);
        }
        committed += report.committed;
        audits += report.audits;
        restarts += report.restarts;
        dead += report.dead;
    }
    let seeds = arguments.seeds.end - arguments.seeds.start;
    print(&format!(
        "{}: {seeds} seeds, {committed} calls committed, {audits} audits, {restarts} restarts, {dead} coordinators dead: \
         every invariant holds, what was acknowledged is done once\n",
        path.display()
    ));
    Ok(())
}

/// The workload with what the user has set; of the other settings the largest whole number is halved until there are few
/// enough rows. Also says which.
fn small_workload(
    loaded: &mut Loaded,
    path: &Path,
    given: &[(String, String)],
) -> Result<(Workload, Vec<String>), Failure> {
    let (name, text) = application::workload_text(loaded, path)?;
    let file = loaded.application.sources.add(name, text);
    let application = &loaded.application;
    let small = Workload::parse_small(application, file, given, (ROWS_MAX, SETTING_MIN));
    let (workload, smaller) = small.map_err(|wrong| application::refused(&application.sources, &wrong))?;
    if rows(loaded, &workload)? > ROWS_MAX {
        return Err(Failure::input(format!(
            "{}: error: there are more than {ROWS_MAX} rows, too many to simulate\n\
             hint: make the population smaller with --set NAME=VALUE",
            path.display()
        )));
    }
    let said = smaller.iter().map(|(name, value)| format!("--set {name}={value}")).collect();
    Ok((workload, said))
}

fn rows(loaded: &Loaded, workload: &Workload) -> Result<u64, Failure> {
    workload.rows(1).map_err(|error| {
        run::failure(loaded, weir_bench::run::RunError::Sql("counting the rows to load".to_string(), error))
    })
}

fn failed(arguments: &SimArguments, seed: u64, report: &Report, log: &str) -> Result<Failure, Failure> {
    let name = arguments.workload.trim_end_matches('/').rsplit('/').next().unwrap_or("calls");
    let path = match &arguments.log {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("weir-sim-{name}-{seed}.log")),
    };
    write_file(&path, &format!("{log}{report}\n"))?;
    let faults = arguments.faults_text.as_ref().map(|text| format!(" --faults {text}")).unwrap_or_default();
    let shards = arguments.shards.map(|shards| format!(" --shards {shards}")).unwrap_or_default();
    let set: String =
        arguments.settings.iter().map(|(name, value)| format!(" --set {name}={value}")).collect();
    Ok(Failure::Check(Some(format!(
        "weir: seed {seed}: {report}\nhint: weir sim {} --calls {} --seeds {seed}..{}{shards}{set}{faults}\nlog: {}",
        arguments.workload,
        arguments.calls,
        seed + 1,
        path.display()
    ))))
}
