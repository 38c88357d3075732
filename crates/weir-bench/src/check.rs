//! Every declared invariant as a check of the whole database at rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_analysis::Analysis;
use weir_server::progress::{Listener, Progress};
use weir_server::report::InvariantReport;
use weir_sql::Application;
use weir_sql::catalog::TableId;
use weir_txn::exec::assertion::Verdict;
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::{CompileError, Program};
use weir_txn::invariant::InvariantCheck;
use weir_txn::storage::Rows;

use crate::run::RunError;

pub struct Invariants {
    checks: Vec<(String, InvariantCheck)>,
}

impl Invariants {
    pub fn compile(
        application: &Application,
        analysis: &Analysis,
        program: &Program,
    ) -> Result<Invariants, CompileError> {
        let mut checks = Vec::new();
        for invariant in &analysis.invariants {
            let check = InvariantCheck::compile(application, invariant, program)?;
            checks.push((invariant.name.clone(), check));
        }
        Ok(Invariants { checks })
    }

    /// Tables that an assertion ranges over, with the columns of their keys.
    pub fn audited(&self) -> BTreeMap<TableId, Vec<usize>> {
        let audits = self.checks.iter().filter_map(|(_, check)| match check {
            InvariantCheck::Assertion(assertion) => assertion.audit.as_ref(),
            _ => None,
        });
        audits.map(|audit| (audit.table, audit.key.clone())).collect()
    }

    /// The assertions that can be asked of one row.
    pub fn take_audits(&mut self) -> Vec<(String, TableId, Arc<Gather>)> {
        let mut audits = Vec::new();
        for (name, check) in &mut self.checks {
            if let InvariantCheck::Assertion(assertion) = check
                && let Some(audit) = assertion.audit.take()
            {
                audits.push((name.clone(), audit.table, Arc::new(audit.gather)));
            }
        }
        audits
    }

    pub fn check(
        &self,
        rows: &(dyn Rows + Sync),
        program: &Program,
        listener: &mut Listener<'_>,
    ) -> Result<Vec<InvariantReport>, RunError> {
        listener(Progress::Phase { name: "checking", steps: self.checks.len() as u64 });
        // Two threads: large assertions are few, so each thread takes the next free one.
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((name, check)) = self.checks.get(at) else { return done };
                let verdict = check.check(rows, program);
                done.push((at, verdict.map_err(|error| RunError::Sql(format!("checking {name}"), error))));
            }
        };
        let mut results = std::thread::scope(|scope| {
            let other = scope.spawn(work);
            let mut results = work();
            results.extend(other.join().expect("a check's assertion failed; see above"));
            results
        });
        results.sort_by_key(|(at, _)| *at);
        let mut reports = Vec::with_capacity(results.len());
        for (at, verdict) in results {
            reports.push(report(&self.checks[at].0, verdict?));
        }
        listener(Progress::Steps { done: self.checks.len() as u64, note: "" });
        Ok(reports)
    }

    /// The check at rest, with what concurrent readers saw.
    pub fn with_audits(
        &self,
        mut reports: Vec<InvariantReport>,
        seen: Vec<InvariantReport>,
    ) -> Vec<InvariantReport> {
        for violated in seen {
            if let Some(report) = reports.iter_mut().find(|report| report.id == violated.id) {
                report.holds = false;
                report.violation = report.violation.take().or(violated.violation);
            }
        }
        reports
    }
}

fn report(name: &str, verdict: Verdict) -> InvariantReport {
    let row = |columns: Vec<(String, String)>| {
        serde_json::Value::Object(
            columns.into_iter().map(|(name, value)| (name, serde_json::Value::String(value))).collect(),
        )
    };
    InvariantReport {
        id: name.to_string(),
        holds: verdict.holds,
        rows_checked: verdict.rows_checked,
        violation: verdict.violation.map(row),
    }
}
