//! A declared invariant as a check of a whole database at rest: after a run, and of a merged state.
//!
//! It never writes, and it knows no protocol. What cannot be broken by construction is not looked at.

use weir_analysis::{Invariant, InvariantKind};
use weir_sql::Application;
use weir_sql::catalog::TableId;
use weir_types::SqlError;

use crate::exec::assertion::{CompiledAssertion, Verdict};
use crate::exec::constraint::{self, Constraint};
use crate::exec::program::{CompileError, Program};
use crate::storage::Rows;

#[derive(Debug)]
pub enum InvariantCheck {
    Assertion(Box<CompiledAssertion>),
    Constraint(Constraint),
    /// True by construction: an index reflects its rows because it is changed with them.
    Always,
}

impl InvariantCheck {
    /// The error is an assertion that the executor cannot evaluate, with its place.
    pub fn compile(
        application: &Application,
        invariant: &Invariant,
        program: &Program,
    ) -> Result<InvariantCheck, CompileError> {
        let table = |constraint: fn(TableId, usize) -> Constraint, at: usize| {
            invariant
                .table
                .map_or(InvariantCheck::Always, |table| InvariantCheck::Constraint(constraint(table, at)))
        };
        let keyed = || {
            invariant.table.map_or((0, 0), |table| {
                let table = application.catalog.table(table);
                (usize::from(table.primary_key.is_some()), table.unique_keys.len())
            })
        };
        Ok(match invariant.kind {
            InvariantKind::Assertion(at) => {
                let assertion = &application.assertions[at];
                let compiled = CompiledAssertion::compile(assertion, &application.catalog, program);
                InvariantCheck::Assertion(Box::new(
                    compiled.map_err(|error| CompileError { span: assertion.span, error })?,
                ))
            }
            InvariantKind::NotNull => table(Constraint::NotNull, invariant.columns[0]),
            InvariantKind::Check(at) | InvariantKind::Domain(at) => table(Constraint::Check, at),
            InvariantKind::ForeignKey(at) => table(Constraint::ForeignKey, at),
            InvariantKind::PrimaryKey => table(Constraint::Unique, 0),
            InvariantKind::Unique(at) => table(Constraint::Unique, at + keyed().0),
            InvariantKind::UniqueIndex(at) => table(Constraint::Unique, at + keyed().0 + keyed().1),
            // No other value can be written; EXCLUDE is refused before anything runs.
            InvariantKind::Enumeration | InvariantKind::Exclude(_) => InvariantCheck::Always,
            InvariantKind::Index(_) | InvariantKind::Sequence(_) | InvariantKind::View(_) => {
                InvariantCheck::Always
            }
        })
    }

    /// Whether it holds of all these rows, and the first row that breaks it.
    pub fn check(&self, rows: &dyn Rows, program: &Program) -> Result<Verdict, SqlError> {
        match self {
            InvariantCheck::Assertion(assertion) => assertion.check(rows, program),
            InvariantCheck::Constraint(constraint) => constraint::check(constraint, rows, program),
            InvariantCheck::Always => Ok(Verdict { holds: true, rows_checked: 0, violation: None }),
        }
    }
}
