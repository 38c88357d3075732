//! Every declared invariant as a check of the whole database at rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_analysis::{Analysis, InvariantKind};
use weir_server::progress::{Listener, Progress};
use weir_server::report::InvariantReport;
use weir_sql::Application;
use weir_sql::catalog::TableId;
use weir_txn::exec::assertion::{CompiledAssertion, Verdict};
use weir_txn::exec::constraint::{self, Constraint};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::{CompileError, Program};
use weir_txn::storage::Rows;

use crate::run::RunError;

pub struct Invariants {
    checks: Vec<(String, Check)>,
}

enum Check {
    Assertion(Box<CompiledAssertion>),
    Constraint(Constraint),
    /// True by construction: an index reflects its rows because it is changed with them.
    Always,
}

impl Invariants {
    pub fn compile(
        application: &Application,
        analysis: &Analysis,
        program: &Program,
    ) -> Result<Invariants, CompileError> {
        let mut checks = Vec::new();
        for invariant in &analysis.invariants {
            let table = |constraint: fn(TableId, usize) -> Constraint, at: usize| {
                invariant.table.map_or(Check::Always, |table| Check::Constraint(constraint(table, at)))
            };
            let check = match invariant.kind {
                InvariantKind::Assertion(at) => {
                    let assertion = &application.assertions[at];
                    let compiled = CompiledAssertion::compile(assertion, &application.catalog, program);
                    Check::Assertion(Box::new(
                        compiled.map_err(|error| CompileError { span: assertion.span, error })?,
                    ))
                }
                InvariantKind::NotNull => table(Constraint::NotNull, invariant.columns[0]),
                InvariantKind::Check(at) | InvariantKind::Domain(at) => table(Constraint::Check, at),
                InvariantKind::ForeignKey(at) => table(Constraint::ForeignKey, at),
                InvariantKind::PrimaryKey => table(Constraint::Unique, 0),
                InvariantKind::Unique(at) => {
                    let keyed = invariant
                        .table
                        .is_some_and(|table| application.catalog.table(table).primary_key.is_some());
                    table(Constraint::Unique, at + usize::from(keyed))
                }
                InvariantKind::UniqueIndex(at) => {
                    let before = invariant.table.map_or(0, |table| {
                        let table = application.catalog.table(table);
                        usize::from(table.primary_key.is_some()) + table.unique_keys.len()
                    });
                    table(Constraint::Unique, at + before)
                }
                // No other value can be written; EXCLUDE is refused before anything runs.
                InvariantKind::Enumeration | InvariantKind::Exclude(_) => Check::Always,
                InvariantKind::Index(_) | InvariantKind::Sequence(_) | InvariantKind::View(_) => {
                    Check::Always
                }
            };
            checks.push((invariant.name.clone(), check));
        }
        Ok(Invariants { checks })
    }

    /// Tables that an assertion ranges over, with the columns of their keys.
    pub fn audited(&self) -> BTreeMap<TableId, Vec<usize>> {
        let audits = self.checks.iter().filter_map(|(_, check)| match check {
            Check::Assertion(assertion) => assertion.audit.as_ref(),
            _ => None,
        });
        audits.map(|audit| (audit.table, audit.key.clone())).collect()
    }

    /// The assertions that can be asked of one row.
    pub fn take_audits(&mut self) -> Vec<(String, TableId, Arc<Gather>)> {
        let mut audits = Vec::new();
        for (name, check) in &mut self.checks {
            if let Check::Assertion(assertion) = check
                && let Some(audit) = assertion.audit.take()
            {
                audits.push((name.clone(), audit.table, Arc::new(audit.gather)));
            }
        }
        audits
    }

    pub fn check(
        &self,
        rows: &dyn Rows,
        program: &Program,
        listener: &mut Listener<'_>,
    ) -> Result<Vec<InvariantReport>, RunError> {
        listener(Progress::Phase { name: "checking", steps: self.checks.len() as u64 });
        // Two threads: what is large is few, so each takes the next one that nobody has taken.
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((name, check)) = self.checks.get(at) else { return done };
                let verdict = match check {
                    Check::Assertion(assertion) => assertion.check(rows, program),
                    Check::Constraint(constraint) => constraint::check(constraint, rows, program),
                    Check::Always => Ok(Verdict { holds: true, rows_checked: 0, violation: None }),
                };
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
