//! Which UPDATEs need not claim their row, since their amounts are added up with those of others (docs/internals/escrow.md).

use std::collections::BTreeSet;

use weir_analysis::plan::{GuardKind, Plan};
use weir_sql::bound::{Expr, ExprKind, Procedure, RelationId, Statement, StepKind, Update};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self as sql_walk, has_subquery};
use weir_types::operator::Comparison;

use super::ProcedureCompiler;
use super::modify::uncast;
use crate::exec::walk;
use crate::exec::write::{Assignment, AssignmentKind, Escrow, Matches};

/// Each column doubles the number of combinations that are checked.
const COLUMNS_MAX: usize = 3;

impl ProcedureCompiler<'_> {
    /// The escrow of an update whose guards ask for it; `None`: it needs more of its row than that a bound holds, so it claims the row. Columns
    /// under escrow may only be added to, and compared; nothing else that the statement says may depend on them.
    pub(super) fn escrow(
        &self,
        update: &Update,
        rows: &Matches,
        assignments: &[Assignment],
    ) -> Option<Box<Escrow>> {
        // A statement by itself sees the row as it will be, as in PostgreSQL. What a procedure reads FOR UPDATE is held by the guards of its
        // writes.
        if self.text.is_some() || !update.from.is_empty() || locks_rows(self.procedure) {
            return None;
        }
        let columns = columns_under_escrow(self.router.plan, update.table);
        let reads = |expr: &Expr| reads_any(expr, update.relation, &columns);
        let mut adds = Vec::new();
        for (at, (assignment, (_, expr))) in assignments.iter().zip(&update.assignments).enumerate() {
            let is_under = columns.contains(&assignment.column);
            match &assignment.kind {
                _ if has_subquery(expr) => return None,
                AssignmentKind::Add(_) if is_under => adds.push(at),
                _ if is_under || reads(expr) => return None,
                _ => {}
            }
        }
        let tells = update.returning.iter().any(|(_, expr)| has_subquery(expr) || reads(expr));
        let filter = update.filter.as_ref();
        let is_compared = filter.is_some_and(reads);
        let is_filtered = match filter {
            Some(filter) if has_subquery(filter) => return None,
            Some(filter) if is_compared => self.compares(update, filter, rows, &columns),
            _ => true,
        };
        let is_meant = !adds.is_empty() && columns.len() <= COLUMNS_MAX && !tells && is_filtered;
        is_meant.then(|| Box::new(Escrow { adds, is_compared }))
    }

    /// Whether each condition on a column under escrow is a bound, of a row that is found without it.
    fn compares(
        &self,
        update: &Update,
        filter: &Expr,
        rows: &Matches,
        columns: &BTreeSet<ColumnIndex>,
    ) -> bool {
        let Matches::Access(access) = rows else { return false };
        let Some(index) = access.index_of_single() else { return false };
        let key = &self.schema.table(update.table).indexes[index].columns;
        let in_key = key.iter().any(|column| column.column.is_none_or(|column| columns.contains(&column)));
        let is_bound = |condition: &Expr| {
            !reads_any(condition, update.relation, columns) || is_bound(condition, update.relation, columns)
        };
        !in_key && walk::conjuncts(filter).into_iter().all(is_bound)
    }
}

fn locks_rows(procedure: &Procedure) -> bool {
    let mut locks = false;
    sql_walk::each_step(&procedure.body, &mut |step| {
        let query = match &step.kind {
            StepKind::Sql { statement, .. } => match &**statement {
                Statement::Query(query) => Some(query),
                _ => None,
            },
            StepKind::ForQuery { query, .. } | StepKind::ReturnQuery { query } => Some(&**query),
            _ => None,
        };
        locks |= query.is_some_and(|query| !query.locks.is_empty());
    });
    locks
}

/// Columns of the table of which some guard of the plan is an escrow.
fn columns_under_escrow(plan: &Plan, table: TableId) -> BTreeSet<ColumnIndex> {
    let guards = plan.transactions.iter().flat_map(|transaction| &transaction.guards);
    let escrows = guards.filter(|guard| guard.kind == GuardKind::Escrow && guard.table == table);
    escrows.flat_map(|guard| guard.columns.iter().copied()).collect()
}

fn reads_any(expr: &Expr, relation: RelationId, columns: &BTreeSet<ColumnIndex>) -> bool {
    let mut found = false;
    walk::each_expr(expr, &mut |part| {
        if let ExprKind::Column { relation: of, column } = part.kind {
            found |= of == relation && columns.contains(&column);
        }
    });
    found
}

/// `column < value`, and the like: if it holds for two values of the column, it holds for all between these.
fn is_bound(expr: &Expr, relation: RelationId, columns: &BTreeSet<ColumnIndex>) -> bool {
    let ExprKind::Binary { op, left, right } = &expr.kind else { return false };
    let is_order = Comparison::of(*op)
        .is_some_and(|comparison| !matches!(comparison, Comparison::Equal | Comparison::NotEqual));
    let is_column =
        |expr: &Expr| matches!(uncast(expr).kind, ExprKind::Column { relation: of, .. } if of == relation);
    let other = match (is_column(left), is_column(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return false,
    };
    is_order && !reads_any(other, relation, columns)
}
