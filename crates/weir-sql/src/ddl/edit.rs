//! Taking tables, columns and sequences out of a catalog: what refers to them goes with them, and what
//! stands behind them gets another number.
//!
//! PostgreSQL refuses to drop what something else depends on, unless CASCADE is written; migrations that
//! have run once are known to be right, so dependents always go here, with a note for each view.

use std::collections::BTreeSet;

use weir_types::SqlState;

use super::Schema;
use crate::bound::{Expr, ExprKind, FromItem, Query, RelationId};
use crate::catalog::{ColumnIndex, IndexKey, SequenceId, Table, TableId, View};
use crate::source::Diagnostic;
use crate::walk::{self, Change};

/// The new number of everything, `None` for what is gone.
struct Numbers<'n> {
    table: &'n dyn Fn(TableId) -> Option<TableId>,
    /// Of one table.
    column: &'n dyn Fn(TableId, ColumnIndex) -> Option<ColumnIndex>,
    sequence: &'n dyn Fn(SequenceId) -> Option<SequenceId>,
}

/// Applies numbers to a query or to an expression over one table, and says whether anything is missing.
struct Renumbering<'n> {
    numbers: &'n Numbers<'n>,
    /// Which table a relation is, as it was numbered before.
    relations: Vec<(RelationId, TableId)>,
    missing: bool,
}

impl Change for Renumbering<'_> {
    fn expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Column { relation, column } => {
                let Some((_, table)) = self.relations.iter().find(|(known, _)| known == relation) else {
                    return;
                };
                match (self.numbers.column)(*table, *column) {
                    Some(moved) => *column = moved,
                    None => self.missing = true,
                }
            }
            ExprKind::NextValue(sequence) | ExprKind::CurrentValue(sequence) => {
                match (self.numbers.sequence)(*sequence) {
                    Some(moved) => *sequence = moved,
                    None => self.missing = true,
                }
            }
            _ => {}
        }
    }

    fn relation(&mut self, item: &mut FromItem) {
        if let FromItem::Table { table, .. } = item {
            match (self.numbers.table)(*table) {
                Some(moved) => *table = moved,
                None => self.missing = true,
            }
        }
    }
}

impl<'n> Numbers<'n> {
    /// `false` where the query refers to what is gone.
    fn query(&'n self, query: &mut Query) -> bool {
        let mut change = Renumbering { numbers: self, relations: walk::tables(query), missing: false };
        walk::change_query(query, &mut change);
        !change.missing
    }

    /// An expression over one row of the table.
    fn expr(&'n self, table: TableId, expr: &mut Expr) -> bool {
        let relations = vec![(RelationId(0), table)];
        let mut change = Renumbering { numbers: self, relations, missing: false };
        walk::each_expr_mut(expr, &mut change);
        !change.missing
    }

    fn columns(&self, table: TableId, columns: &mut [ColumnIndex]) -> bool {
        columns.iter_mut().all(|column| match (self.column)(table, *column) {
            Some(moved) => {
                *column = moved;
                true
            }
            None => false,
        })
    }

    /// All that a table holds; `table.id` is still the old one.
    fn table(&self, table: &mut Table) {
        let id = table.id;
        for column in &mut table.columns {
            let stays = |expr: &mut Expr| self.expr(id, expr);
            column.default = column.default.take().and_then(|mut expr| stays(&mut expr).then_some(expr));
            column.generated = column.generated.take().and_then(|mut expr| stays(&mut expr).then_some(expr));
        }
        table.primary_key =
            table.primary_key.take().and_then(|mut key| self.columns(id, &mut key.columns).then_some(key));
        table.unique_keys.retain_mut(|key| self.columns(id, &mut key.columns));
        table.checks.retain_mut(|check| {
            if let Some((_, column)) = &mut check.domain {
                *column = (self.column)(id, *column).unwrap_or(*column);
            }
            self.expr(id, &mut check.expr)
        });
        table.foreign_keys.retain_mut(|key| {
            let parent = key.parent;
            let Some(moved) = (self.table)(parent) else { return false };
            key.parent = moved;
            self.columns(id, &mut key.columns) && self.columns(parent, &mut key.parent_columns)
        });
        table.exclusions.retain_mut(|exclusion| {
            exclusion.elements.iter_mut().all(|(expr, _)| self.expr(id, expr))
                && exclusion.predicate.iter_mut().all(|predicate| self.expr(id, predicate))
        });
        table.indexes.retain_mut(|index| {
            let stays = |keys: &mut [IndexKey], predicate: &mut Option<Expr>| {
                keys.iter_mut().all(|key| self.expr(id, &mut key.expr))
                    && predicate.iter_mut().all(|predicate| self.expr(id, predicate))
            };
            stays(&mut index.keys, &mut index.predicate)
                && index.written.iter_mut().all(|written| stays(&mut written.keys, &mut written.predicate))
        });
        if let Some(mut columns) = table.partition_by.take() {
            table.partition_by = self.columns(id, &mut columns).then_some(columns);
        }
        table.id = (self.table)(id).unwrap_or(id);
    }
}

impl Schema {
    fn renumber(&mut self, numbers: &Numbers<'_>) {
        for table in &mut self.catalog.tables {
            numbers.table(table);
        }
        for sequence in &mut self.catalog.sequences {
            sequence.id = (numbers.sequence)(sequence.id).unwrap_or(sequence.id);
            sequence.owner = sequence.owner.and_then(|(table, column)| {
                Some(((numbers.table)(table)?, (numbers.column)(table, column)?))
            });
        }
        let mut gone = Vec::new();
        self.catalog.views.retain_mut(|view| {
            let stays = numbers.query(&mut view.query);
            if !stays {
                gone.push((view.name.clone(), view.span));
            }
            stays
        });
        for (name, span) in gone {
            let message = format!("the view {name} is gone: it read what a later statement drops");
            if let Some(notes) = &self.notes {
                notes.ignore(Diagnostic::new(SqlState::UNDEFINED_TABLE, span, message), true);
            }
        }
    }

    /// The table, its own sequences, and the foreign keys and views that refer to it.
    pub(super) fn remove_table(&mut self, at: usize) {
        let id = self.catalog.tables.remove(at).id;
        self.remove_sequences(|owner| owner.is_some_and(|(table, _)| table == id));
        let moved = |table: TableId| match table.0.cmp(&id.0) {
            std::cmp::Ordering::Less => Some(table),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(TableId(table.0 - 1)),
        };
        self.renumber(&Numbers { table: &moved, column: &|_, column| Some(column), sequence: &Some });
        self.triggers.retain(|trigger| trigger.table != id);
        for trigger in &mut self.triggers {
            trigger.table = moved(trigger.table).unwrap_or(trigger.table);
        }
    }

    pub(super) fn remove_column(&mut self, table: TableId, gone: ColumnIndex) {
        self.remove_sequences(|owner| owner == Some((table, gone)));
        let column = |of: TableId, column: ColumnIndex| match column.cmp(&gone) {
            _ if of != table => Some(column),
            std::cmp::Ordering::Less => Some(column),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(column - 1),
        };
        self.catalog.tables[table.0 as usize].columns.remove(gone);
        self.renumber(&Numbers { table: &Some, column: &column, sequence: &Some });
        self.remove_unused();
    }

    /// A view that reads the column.
    pub(super) fn view_reading(&self, table: TableId, column: ColumnIndex) -> Option<&str> {
        let without = |of, other| (of != table || other != column).then_some(other);
        let numbers = Numbers { table: &Some, column: &without, sequence: &Some };
        let reads = |view: &&View| !numbers.query(&mut view.query.clone());
        self.catalog.views.iter().find(reads).map(|view| view.name.as_str())
    }

    /// Hidden columns whose index is gone.
    pub(super) fn remove_unused(&mut self) {
        let unused = |table: &Table| {
            let holds = |column: ColumnIndex| {
                let mut keys = table.indexes.iter().flat_map(|index| &index.keys);
                keys.any(|key| matches!(key.expr.kind, ExprKind::Column { column: of, .. } if of == column))
            };
            let column = (0..table.columns.len()).find(|&at| table.columns[at].is_hidden && !holds(at))?;
            Some((table.id, column))
        };
        if let Some((table, column)) = self.catalog.tables.iter().find_map(unused) {
            self.remove_column(table, column);
        }
    }

    /// Those whose owner is such, out of the defaults that use them too.
    pub(super) fn remove_sequences(&mut self, which: impl Fn(Option<(TableId, ColumnIndex)>) -> bool) {
        let gone: BTreeSet<SequenceId> = self
            .catalog
            .sequences
            .iter()
            .filter(|sequence| which(sequence.owner))
            .map(|sequence| sequence.id)
            .collect();
        self.remove_sequences_by_id(&gone);
    }

    pub(super) fn remove_sequences_by_id(&mut self, gone: &BTreeSet<SequenceId>) {
        if gone.is_empty() {
            return;
        }
        self.catalog.sequences.retain(|sequence| !gone.contains(&sequence.id));
        let moved = |sequence: SequenceId| {
            let before = gone.range(..sequence).count() as u32;
            (!gone.contains(&sequence)).then(|| SequenceId(sequence.0 - before))
        };
        self.renumber(&Numbers { table: &Some, column: &|_, column| Some(column), sequence: &moved });
    }
}
