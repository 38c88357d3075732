//! A hot run: few rows, many clients, several shards, for a second or two; and the comparison with the analysis.
//!
//! For tests: what [`weir_txn::exec::admission`] says runs must run, commit and keep every invariant, and what it says is refused must be
//! refused with that reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_analysis::{Alone, Analysis, Refused, Runs};
use weir_server::report::RunReport;
use weir_sql::{Application, Diagnostic};
use weir_txn::exec::admission;
use weir_txn::exec::program::Program;

use crate::Workload;
use crate::pace::Limit;
use crate::run::{RunError, RunOptions, load};
use crate::tally::reason;

#[derive(Clone, Debug)]
pub struct Hot {
    pub shards: u16,
    pub clients: u32,
    pub calls: u64,
    pub seed: u64,
    /// More rows are not loaded, where the workload's settings can make them fewer.
    pub rows_max: u64,
    /// Every procedure must commit at least once: true for a hand-written workload.
    pub commits: bool,
}

impl Default for Hot {
    fn default() -> Hot {
        Hot { shards: 4, clients: 64, calls: 3_000, seed: 1, rows_max: 200, commits: true }
    }
}

#[derive(Debug)]
enum Unrun {
    NoWorkload(#[allow(dead_code, reason = "shown by a test that fails")] Vec<Diagnostic>),
    Failed(#[allow(dead_code, reason = "shown by a test that fails")] RunError),
}

/// Settings are not made smaller than this.
const SETTING_MIN: u64 = 2;

impl Hot {
    /// Everything in which the run and what was said of it differ, in words. `workload`: name and text; without one rows and arguments
    /// come from the columns' domains.
    pub fn disagreements(
        &self,
        application: &Application,
        analysis: &Analysis,
        workload: Option<(&str, &str)>,
    ) -> Vec<String> {
        let said = admission::runs(application, &analysis.plan);
        if let Err(wrong) = Program::compile(application, &analysis.plan, self.shards) {
            let is_said = |runs: &Runs| {
                let refused = runs.refused.as_ref();
                !self.is_said_to_run(runs)
                    && !runs.single_shard_calls
                    // A text that one shard refuses is reported already, and several may refuse it for something else.
                    && refused.is_some_and(|refused| !runs.on_one_shard || refused.reason.contains(wrong.error.message()))
            };
            let unsaid = application.procedures.iter().zip(&said).filter(|(_, runs)| !is_said(runs));
            return unsaid
                .map(|(procedure, _)| format!("{}: refused: {}", procedure.name, wrong.error))
                .collect();
        }
        match self.run(application, analysis, workload) {
            Ok(report) => self.compare(application, analysis, &said, &report),
            // Rows of some types cannot be invented.
            Err(Unrun::NoWorkload(_)) if workload.is_none() => Vec::new(),
            Err(why) => vec![format!("no run: {why:?}")],
        }
    }

    fn run(
        &self,
        application: &Application,
        analysis: &Analysis,
        workload: Option<(&str, &str)>,
    ) -> Result<RunReport, Unrun> {
        let mut application = application.clone();
        let made = [Workload::default_text(&application), Workload::default_text_without_rows(&application)];
        let mut run = |(name, text): (&str, &str)| {
            let file = application.sources.add(name, text);
            let small = Workload::parse_small(&application, file, &[], (self.rows_max, SETTING_MIN));
            let (workload, _) = small.map_err(Unrun::NoWorkload)?;
            let options = RunOptions {
                clients: self.clients,
                limit: Limit::Transactions(self.calls),
                seed: self.seed,
                audit_every: Some(100),
                ..RunOptions::new(self.shards)
            };
            let ready = load(&application, analysis, &workload, &options, true, &mut |_| ());
            ready.and_then(|ready| ready.run(&Arc::new(workload), &mut |_| ())).map_err(Unrun::Failed)
        };
        let Some(workload) = workload else {
            return match run(("workload.toml", &made[0])) {
                // Rows by chance are seldom valid, and of some types there are none; no rows are.
                Err(Unrun::NoWorkload(_) | Unrun::Failed(RunError::InitialViolation(_))) => {
                    run(("workload.toml", &made[1]))
                }
                outcome => outcome,
            };
        };
        run(workload)
    }

    fn is_said_to_run(&self, runs: &Runs) -> bool {
        if self.shards == 1 { runs.on_one_shard } else { runs.on_several }
    }

    fn compare(
        &self,
        application: &Application,
        analysis: &Analysis,
        said: &[Runs],
        report: &RunReport,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let none = BTreeMap::new();
        for (procedure, runs) in application.procedures.iter().zip(said) {
            let name = &procedure.name;
            let one = report.by_transaction.get(name);
            let reasons = one.map_or(&none, |one| &one.abort_reasons);
            let committed = one.map_or(0, |one| one.committed);
            let of_engine =
                reasons.keys().filter(|reason| reason.starts_with("0A") || reason.starts_with("XX"));
            if self.is_said_to_run(runs) {
                wrong.extend(of_engine.map(|reason| format!("{name} is said to run: {reason}")));
                if self.commits && one.is_some() && committed == 0 {
                    wrong.push(format!("{name} is said to run and never commits: {reasons:?}"));
                }
                continue;
            }
            let said = runs.refused.as_ref().map(|Refused { state, reason: said, .. }| reason(state, said));
            if committed > 0 && !runs.single_shard_calls {
                wrong.push(format!("{name} is said to be refused and has committed {committed} times"));
            }
            let met = runs.when_met.iter().map(|Refused { state, reason: said, .. }| reason(state, said));
            let all: Vec<String> = said.clone().into_iter().chain(met).collect();
            let unsaid = of_engine.filter(|reason| !all.contains(reason));
            wrong
                .extend(unsaid.map(|reason| {
                    format!("{name} is refused otherwise than said: {reason}; said: {said:?}")
                }));
        }
        for broken in report.invariants.iter().filter(|invariant| !invariant.holds) {
            let is_excused = analysis.verdicts.iter().any(|verdict| {
                let name = &application.procedures[verdict.transaction].name;
                let has_run = report.by_transaction.get(name).is_some_and(|one| one.committed > 0);
                let invariant = &analysis.invariants[verdict.invariant.0 as usize].name;
                // No promise exists for a call that violates the invariant alone.
                verdict.alone == Alone::No && has_run && *invariant == broken.id
            });
            if !is_excused {
                wrong.push(format!("{} does not hold: {:?}", broken.id, broken.violation));
            }
        }
        if !report.converged {
            wrong.push("copies differ, or something is half done".to_owned());
        }
        wrong
    }
}
