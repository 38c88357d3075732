//! PL/pgSQL at the coordinator: procedures whose statements cannot run as one message (docs/internals/interactive-calls.md).
//!
//! Such a procedure is compiled to flat code ([`code`]). The coordinator interprets it ([`interpreter`]) and sends each SQL statement to the
//! shards as a statement of one transaction, with the variables as its parameters.

use std::collections::BTreeSet;

use weir_analysis::plan::{Guard, GuardKind, TransactionPlan};
use weir_sql::bound::{InsertSource, Procedure, Query, Statement, StepKind};
use weir_sql::catalog::{Catalog, ColumnIndex, TableId};
use weir_sql::walk;

pub mod code;
pub mod interpreter;
mod row_by_row;

/// How an interactive call is isolated from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// All reads are of one snapshot, which may be older than the writes.
    Snapshot,
    /// It is a serializable transaction, which locks what it reads.
    Serializable,
    /// Each of its statements reads the latest state, as those of any transaction at that level.
    ReadCommitted,
}

impl Isolation {
    /// Isolation that a procedure needs.
    ///
    /// A snapshot is enough for one that only reads. So it is for one whose plan holds for reads of any earlier state of the database: it is
    /// confluent, or each guard is a claim on a key, which the INSERT that takes it checks itself. But it must only add rows, for what it
    /// changes may come and go between two of its statements (soundness S20); and not read what it has written itself, which the snapshot
    /// does not have.
    pub(super) fn of(catalog: &Catalog, procedure: &Procedure, plan: &TransactionPlan) -> Isolation {
        let is_ordered = plan.mechanism.is_ordered_family();
        let checks_keys = |guard: &Guard| checks_key(catalog, procedure, guard);
        let holds_later = plan.read_only
            || only_adds_rows(procedure)
                && plan.guards.iter().all(checks_keys)
                && !reads_what_it_writes(catalog, procedure);
        match !is_ordered && holds_later {
            true => Isolation::Snapshot,
            false => Isolation::Serializable,
        }
    }
}

/// Returns whether the guard is the claim of an INSERT on a unique key of its row, or on the parent of its row.
fn checks_key(catalog: &Catalog, procedure: &Procedure, guard: &Guard) -> bool {
    let mut is_insert = false;
    walk::each_step(&procedure.body, &mut |step| {
        if let StepKind::Sql { statement, .. } = &step.kind
            && let Statement::Insert(insert) = &**statement
        {
            is_insert |= [step.span, insert.span].contains(&guard.statement);
        }
    });
    let is_key = |columns: &[ColumnIndex]| {
        columns.len() == guard.columns.len() && columns.iter().all(|column| guard.columns.contains(column))
    };
    let table = catalog.table(guard.table);
    let keys = table.primary_key.iter().chain(&table.unique_keys);
    guard.kind == GuardKind::Claim
        && is_insert
        && (guard.shared || keys.into_iter().any(|key| is_key(&key.columns)))
}

/// Returns whether each statement that writes is an INSERT of VALUES, whatever the table has.
fn only_adds_rows(procedure: &Procedure) -> bool {
    let mut only_adds = true;
    walk::each_step(&procedure.body, &mut |step| {
        if let StepKind::Sql { statement, .. } = &step.kind {
            only_adds &= match &**statement {
                Statement::Query(query) => !query.has_effects(),
                Statement::Insert(insert) => {
                    insert.on_conflict.is_none() && matches!(insert.source, InsertSource::Values(_))
                }
                Statement::Update(_) | Statement::Delete(_) => false,
            };
        }
    });
    only_adds
}

fn reads_what_it_writes(catalog: &Catalog, procedure: &Procedure) -> bool {
    let (mut read, mut written, mut calls) = (BTreeSet::new(), BTreeSet::new(), false);
    let note = |read: &mut BTreeSet<TableId>, query: &Query| {
        read.extend(walk::tables(query).into_iter().map(|(_, table)| table));
    };
    walk::each_step(&procedure.body, &mut |step| {
        match &step.kind {
            StepKind::Sql { statement, .. } => match &**statement {
                Statement::Query(query) => note(&mut read, query),
                Statement::Insert(insert) => drop(written.insert(insert.table)),
                Statement::Update(update) => drop(written.insert(update.table)),
                Statement::Delete(delete) => drop(written.insert(delete.table)),
            },
            StepKind::ForQuery { query, .. } | StepKind::ReturnQuery { query } => note(&mut read, query),
            StepKind::Call { .. } => calls = true,
            _ => {}
        }
        for expr in code::exprs(step) {
            walk::each_expr(expr, &mut |part| {
                walk::subquery(part).into_iter().for_each(|query| note(&mut read, query));
            });
        }
    });
    loop {
        // Actions of foreign keys write children.
        let is_parent = |of: &TableId| written.contains(of);
        let children = catalog
            .tables
            .iter()
            .zip(0..)
            .filter(|(table, _)| table.foreign_keys.iter().any(|key| is_parent(&key.parent)));
        let more: Vec<TableId> =
            children.map(|(_, at)| TableId(at)).filter(|child| !written.contains(child)).collect();
        if more.is_empty() {
            break;
        }
        written.extend(more);
    }
    calls || read.iter().any(|table| written.contains(table))
}
