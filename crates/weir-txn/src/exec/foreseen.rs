//! Refusals that depend on the rows which a call meets on several shards, predicted from its text.
//!
//! With several shards, a parent with children on other shards cannot be deleted, a row cannot move to another shard, and rows of INSERT
//! … SELECT must live where the query runs. Each case is refused at run time (`exec/write`), with the errors made here.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_sql::Catalog;
use weir_sql::bound::{Expr, ExprKind, Procedure, RelationId, Statement};
use weir_sql::catalog::{ColumnIndex, ForeignKeyAction, TableId};
use weir_types::{SqlError, SqlState};

use super::compile::each_statement;
use super::routing::{Router, fixed_columns, same_expr};
use super::walk;
use super::write::{Reference, TableRules};

pub fn leaves_children(foreign_key: &str) -> SqlError {
    let message = format!(
        "removing a parent of \"{foreign_key}\", whose children live on other shards, is not supported"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Partition the child table by the column that refers to the parent.")
}

pub fn inserts_elsewhere(table: &str) -> SqlError {
    let message =
        format!("inserting rows of several shards into \"{table}\" with one statement is not supported");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint("Insert them one by one in a loop.")
}

pub fn moves(table: &str) -> SqlError {
    let message = format!("moving a row of \"{table}\" to another shard is not supported");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint("Delete the row and insert it anew.")
}

/// A change of a table's rows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Goes,
    /// Assigns these columns.
    Gets(BTreeSet<ColumnIndex>),
}

struct Foreseen<'a> {
    router: &'a Router<'a>,
    rules: &'a [Arc<TableRules>],
    seen: BTreeSet<(TableId, Change)>,
    errors: Vec<SqlError>,
}

/// Possible refusals of a procedure on several shards, each once, in statement order.
pub fn refusals(router: &Router<'_>, rules: &[Arc<TableRules>], procedure: &Procedure) -> Vec<SqlError> {
    let mut foreseen = Foreseen { router, rules, seen: BTreeSet::new(), errors: Vec::new() };
    each_statement(&procedure.body, &mut |statement, _| foreseen.statement(statement));
    foreseen.errors
}

impl Foreseen<'_> {
    fn catalog(&self) -> &Catalog {
        self.router.catalog
    }

    fn refuse(&mut self, error: SqlError) {
        if !self.errors.iter().any(|other| other.message() == error.message()) {
            self.errors.push(error);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Query(_) => {}
            Statement::Delete(delete) => self.change(delete.table, Change::Goes),
            Statement::Update(update) => {
                let fixed = fixed_columns(statement).map(|(_, fixed)| fixed).unwrap_or_default();
                let stays = |column: ColumnIndex, value: &Expr| {
                    is_own(value, &[update.relation], column)
                        || fixed
                            .iter()
                            .any(|(of, known)| *of == column && same_expr(known, walk::uncast(value)))
                };
                self.assigned(update.table, &update.assignments, &stays);
            }
            Statement::Insert(insert) => {
                if !self.router.keeps_home(insert) {
                    self.refuse(inserts_elsewhere(&self.catalog().table(insert.table).name));
                }
                let updates = insert.on_conflict.iter().filter_map(|conflict| conflict.update.as_ref());
                for (assignments, _) in updates {
                    let both = [insert.relation, insert.excluded];
                    self.assigned(insert.table, assignments, &|column, value| is_own(value, &both, column));
                }
            }
        }
    }

    fn assigned(
        &mut self,
        table: TableId,
        assignments: &[(ColumnIndex, Expr)],
        stays: &dyn Fn(ColumnIndex, &Expr) -> bool,
    ) {
        let changed = assignments.iter().filter(|(column, value)| !stays(*column, value));
        let changed: BTreeSet<ColumnIndex> = changed.map(|(column, _)| *column).collect();
        self.change(table, Change::Gets(changed));
    }

    /// Propagates a change to children through foreign keys.
    fn change(&mut self, table: TableId, change: Change) {
        if !self.seen.insert((table, change.clone())) {
            return;
        }
        if let Change::Gets(columns) = &change
            && self
                .router
                .partition(table)
                .is_some_and(|own| own.iter().any(|column| columns.contains(column)))
        {
            self.refuse(moves(&self.catalog().table(table).name));
        }
        let rules = self.rules;
        for reference in &rules[table.0 as usize].referenced_by {
            let is_concerned = match &change {
                Change::Goes => true,
                Change::Gets(columns) => {
                    reference.parent_columns.iter().any(|column| columns.contains(column))
                }
            };
            if !is_concerned {
                continue;
            }
            match reference.together {
                false => self.refuse(leaves_children(&reference.name)),
                true => self.pass_on(reference, &change),
            }
        }
    }

    fn pass_on(&mut self, reference: &Reference, change: &Change) {
        let action = match change {
            Change::Goes => reference.on_delete,
            Change::Gets(_) => reference.on_update,
        };
        match (action, change) {
            (ForeignKeyAction::Cascade, Change::Goes) => self.change(reference.child, Change::Goes),
            (ForeignKeyAction::Cascade | ForeignKeyAction::SetNull, _) => {
                self.change(reference.child, Change::Gets(reference.columns.iter().copied().collect()));
            }
            _ => {}
        }
    }
}

fn is_own(value: &Expr, relations: &[RelationId], at: ColumnIndex) -> bool {
    match walk::uncast(value).kind {
        ExprKind::Column { relation, column } => column == at && relations.contains(&relation),
        _ => false,
    }
}
