//! Predicts from the text of a call what depends on the rows that it meets on several shards: refusals, and writes for other shards.
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
use crate::storage::{IndexId, Schema, TableSchema};

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

pub fn global_arbiter(table: &str) -> SqlError {
    let message = format!(
        "ON CONFLICT of a unique key of \"{table}\" whose columns do not say on which shard a row lives is not supported"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Name a key that contains the partition columns: ON CONFLICT (…).")
}

/// Predictions for the calls of a procedure.
pub struct Foretold {
    /// Possible refusals, each once, in statement order.
    pub refusals: Vec<SqlError>,
    /// Its writes may change entries of global keys at other shards.
    pub carries: bool,
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
    schema: &'a Schema,
    seen: BTreeSet<(TableId, Change)>,
    foretold: Foretold,
}

/// Predicts refusals and derived writes of a procedure on several shards.
pub fn foretold(
    router: &Router<'_>,
    (schema, rules): (&Schema, &[Arc<TableRules>]),
    procedure: &Procedure,
) -> Foretold {
    let foretold = Foretold { refusals: Vec::new(), carries: false };
    let mut foreseen = Foreseen { router, rules, schema, seen: BTreeSet::new(), foretold };
    each_statement(&procedure.body, &mut |statement, _| foreseen.statement(statement));
    foreseen.foretold
}

impl Foreseen<'_> {
    fn catalog(&self) -> &Catalog {
        self.router.catalog
    }

    fn refuse(&mut self, error: SqlError) {
        let refusals = &mut self.foretold.refusals;
        if !refusals.iter().any(|other| other.message() == error.message()) {
            refusals.push(error);
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
                let schema = self.schema.table(insert.table);
                self.foretold.carries |= !schema.entries.is_empty();
                if let Some(conflict) = &insert.on_conflict
                    && schema.may_arbitrate_globally(arbiter(schema, conflict.columns.as_deref()))
                {
                    self.refuse(global_arbiter(&schema.name));
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
        let schema = self.schema.table(table);
        self.foretold.carries |= schema.entries.iter().any(|key| match &change {
            Change::Goes => true,
            Change::Gets(columns) => {
                let own = schema.indexes[key.index].columns.iter().filter_map(|column| column.column);
                own.into_iter().any(|column| columns.contains(&column))
            }
        });
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

/// The unique index of these columns, in any order.
pub fn arbiter(schema: &TableSchema, columns: Option<&[ColumnIndex]>) -> Option<IndexId> {
    let columns = columns?;
    schema.indexes.iter().position(|index| {
        index.unique
            && index.columns.len() == columns.len()
            && index.columns.iter().all(|have| have.column.is_some_and(|have| columns.contains(&have)))
    })
}

fn is_own(value: &Expr, relations: &[RelationId], at: ColumnIndex) -> bool {
    match walk::uncast(value).kind {
        ExprKind::Column { relation, column } => column == at && relations.contains(&relation),
        _ => false,
    }
}
