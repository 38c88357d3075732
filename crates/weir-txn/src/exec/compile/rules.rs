//! Constraints as the executor checks them, and which of them it refuses.

use crate::exec::compiler::Compiler;
use crate::exec::expr::CompiledExpr;
use crate::exec::program::CompileError;
use crate::exec::routing::inserted;
use crate::exec::sequences::{generates_id, has_a_share_for_each};
use crate::exec::slots::SlotAllocator;
use crate::exec::write::{CheckRule, ForeignKeyRule, Reference, TableRules};
use crate::storage::Schema;
use weir_sql::Application;
use weir_sql::bound::{Expr, ExprKind, InsertSource, RelationId, Statement};
use weir_sql::catalog::{Catalog, ColumnIndex, ForeignKey, ForeignKeyAction, TableId};
use weir_types::SqlType;

use super::{each_statement, unsupported};
use std::collections::BTreeSet;

/// A key is unique in the whole database only if rows with the same key meet on one shard, or if all values are
/// generated, of which no two shards have the same (coordination-avoidance.txt §5.1, "choose some value").
pub(super) fn check_unique_keys(
    application: &Application,
    partitions: &[Option<Vec<ColumnIndex>>],
) -> Result<(), CompileError> {
    let catalog = &application.catalog;
    let chosen = chosen_columns(application);
    for table in &catalog.tables {
        let Some(partition) = &partitions[table.id.0 as usize] else { continue };
        let keys = table
            .primary_key
            .iter()
            .chain(&table.unique_keys)
            .map(|key| (&key.name, key.columns.clone(), key.span));
        let indexes = table.indexes.iter().filter(|index| index.unique).map(|index| {
            let columns = index.keys.iter().filter_map(|key| match key.expr.kind {
                ExprKind::Column { column, .. } => Some(column),
                _ => None,
            });
            (&index.name, columns.collect(), index.span)
        });
        for (name, columns, span) in keys.chain(indexes) {
            let is_generated = |column: &ColumnIndex| {
                table.columns[*column].default.as_ref().is_some_and(generates_id)
                    && !chosen.contains(&(table.id, *column))
            };
            if !partition.iter().all(|column| columns.contains(column)) && !columns.iter().any(is_generated) {
                let names: Vec<&str> =
                    partition.iter().map(|&column| table.columns[column].name.as_str()).collect();
                return Err(unsupported(
                    span,
                    format!(
                        "key \"{name}\" over several shards, without the partition column {},",
                        names.join(", ")
                    ),
                    "Partition the table by columns of the key, make it replicated, or run on one shard (--shards 1).",
                ));
            }
        }
    }
    Ok(())
}

/// Columns that some statement sets to something else than a new id.
fn chosen_columns(application: &Application) -> BTreeSet<(TableId, ColumnIndex)> {
    let mut chosen = BTreeSet::new();
    for procedure in &application.procedures {
        each_statement(&procedure.body, &mut |statement, _| match statement {
            Statement::Insert(insert) => {
                for column in 0..application.catalog.table(insert.table).columns.len() {
                    let is_new = |row: &Vec<Expr>| inserted(insert, row, column).is_some_and(generates_id);
                    let all_new = match &insert.source {
                        InsertSource::Values(rows) => rows.iter().all(is_new),
                        InsertSource::Query(_) => !insert.columns.contains(&column),
                    };
                    if !all_new {
                        chosen.insert((insert.table, column));
                    }
                }
                let update = insert.on_conflict.iter().flat_map(|conflict| &conflict.update);
                let updated = update.flat_map(|(assignments, _)| assignments);
                chosen.extend(updated.map(|(column, _)| (insert.table, *column)));
            }
            Statement::Update(update) => {
                chosen.extend(update.assignments.iter().map(|(column, _)| (update.table, *column)));
            }
            _ => {}
        });
    }
    chosen
}

/// A parent must be found from its child's columns, and every shard must have ids that live on it.
pub(super) fn check_homes(
    catalog: &Catalog,
    partitions: &[Option<Vec<ColumnIndex>>],
    shards: u16,
) -> Result<(), CompileError> {
    for table in &catalog.tables {
        for key in &table.foreign_keys {
            let parent = partitions[key.parent.0 as usize].as_ref();
            if parent.is_some_and(|columns| !columns.iter().all(|own| key.parent_columns.contains(own))) {
                return Err(unsupported(
                    key.span,
                    format!(
                        "foreign key \"{}\" over several shards, whose columns do not tell where the parent lives,",
                        key.name
                    ),
                    "Partition the parent by columns that the key refers to, make it replicated, or run on one shard.",
                ));
            }
        }
        let Some([column]) = partitions[table.id.0 as usize].as_deref() else { continue };
        if let Some(ExprKind::NextValue(sequence)) =
            table.columns[*column].default.as_ref().map(|expr| &expr.kind)
        {
            let sequence = &catalog.sequences[sequence.0 as usize];
            if !has_a_share_for_each(sequence, shards) {
                return Err(unsupported(
                    table.columns[*column].span,
                    format!(
                        "\"{}\", which says where rows live, in steps of {} over {shards} shards",
                        sequence.name, sequence.increment
                    ),
                    "Choose an increment, or a number of shards, that have no common factor.",
                ));
            }
        }
    }
    Ok(())
}

pub(super) fn check_indexes(catalog: &Catalog) -> Result<(), CompileError> {
    for table in &catalog.tables {
        for index in &table.indexes {
            let plain = index.predicate.is_none()
                && index.keys.iter().all(|key| matches!(key.expr.kind, ExprKind::Column { .. }));
            if !plain {
                return Err(unsupported(
                    index.span,
                    "a partial index or an index on an expression",
                    "An index on plain columns works.",
                ));
            }
        }
        let keyed = table
            .primary_key
            .iter()
            .chain(&table.unique_keys)
            .flat_map(|key| key.columns.iter().map(|column| (*column, key.span)));
        let indexed = table.indexes.iter().flat_map(|index| {
            index.keys.iter().filter_map(|key| match key.expr.kind {
                ExprKind::Column { column, .. } => Some((column, index.span)),
                _ => None,
            })
        });
        for (column, span) in keyed.chain(indexed) {
            let ty = &table.columns[column].ty;
            if matches!(ty, SqlType::Jsonb | SqlType::Array(_)) {
                return Err(unsupported(
                    span,
                    format!("an index on a column of type {ty}"),
                    "Index a column of a scalar type.",
                ));
            }
        }
    }
    Ok(())
}

/// Tables that some procedure deletes from, or changes the keys of, be it by a foreign key's action.
pub(super) fn tables_deleted_from(application: &Application) -> Vec<TableId> {
    let mut tables = Vec::new();
    for procedure in &application.procedures {
        each_statement(&procedure.body, &mut |statement, _| match statement {
            Statement::Delete(delete) => tables.push(delete.table),
            Statement::Update(update) => {
                let keys = application.catalog.tables.iter().flat_map(|table| &table.foreign_keys);
                let referenced = |column: &ColumnIndex| {
                    keys.clone().any(|key| key.parent == update.table && key.parent_columns.contains(column))
                };
                if update.assignments.iter().any(|(column, _)| referenced(column)) {
                    tables.push(update.table);
                }
            }
            _ => {}
        });
    }
    let mut reached = 0;
    while let Some(&parent) = tables.get(reached) {
        reached += 1;
        for child in &application.catalog.tables {
            let acts = |key: &ForeignKey| {
                key.parent == parent
                    && [key.on_delete, key.on_update]
                        .iter()
                        .any(|action| *action != ForeignKeyAction::Restrict)
            };
            if !tables.contains(&child.id) && child.foreign_keys.iter().any(acts) {
                tables.push(child.id);
            }
        }
    }
    tables
}

pub(super) fn table_rules(
    catalog: &Catalog,
    schema: &Schema,
    partitions: &[Option<Vec<ColumnIndex>>],
    deleted: &[TableId],
    table: TableId,
) -> Result<TableRules, CompileError> {
    let mut rules = TableRules::default();
    for check in &catalog.table(table).checks {
        let mut slots = SlotAllocator::new(0);
        slots.begin_expr(&check.expr);
        let expr = CompiledExpr::compile(&check.expr, &mut Compiler::new(schema, &mut slots));
        let expr = expr.map_err(|error| CompileError { span: check.span, error })?;
        rules.checks.push(CheckRule {
            name: check.name.clone(),
            expr,
            columns: slots.columns_of(RelationId(0)),
            slots: slots.slots_max(),
            cells: slots.cells_max(),
        });
    }
    for key in &catalog.table(table).foreign_keys {
        rules.foreign_keys.push(foreign_key(schema, partitions, deleted, table, key));
    }
    for child in &catalog.tables {
        for key in child.foreign_keys.iter().filter(|key| key.parent == table) {
            let starts = |index: &crate::storage::IndexSchema| {
                index.columns.len() >= key.columns.len()
                    && index.columns.iter().zip(&key.columns).all(|(have, want)| have.column == Some(*want))
            };
            rules.referenced_by.push(Reference {
                child: child.id,
                name: key.name.clone(),
                columns: key.columns.clone(),
                parent_columns: key.parent_columns.clone(),
                on_delete: key.on_delete,
                on_update: key.on_update,
                child_index: schema.table(child.id).indexes.iter().position(starts),
                together: lives_together(partitions, child.id, key),
            });
        }
    }
    Ok(rules)
}

pub(super) fn foreign_key(
    schema: &Schema,
    partitions: &[Option<Vec<ColumnIndex>>],
    deleted: &[TableId],
    table: TableId,
    key: &ForeignKey,
) -> ForeignKeyRule {
    let child_of = |parent: ColumnIndex| {
        key.parent_columns.iter().position(|&column| column == parent).map(|at| key.columns[at])
    };
    let parent = schema.table(key.parent);
    let fits = |index: &crate::storage::IndexSchema| {
        index.unique
            && index.columns.len() == key.parent_columns.len()
            && index.columns.iter().all(|column| column.column.and_then(child_of).is_some())
    };
    let parent_index =
        parent.indexes.iter().position(fits).expect("the binder demands a unique key behind a foreign key");
    let key_columns = parent.indexes[parent_index]
        .columns
        .iter()
        .filter_map(|column| column.column.and_then(child_of))
        .collect();
    let parent_partition = partitions[key.parent.0 as usize]
        .as_ref()
        .map(|columns| columns.iter().filter_map(|&column| child_of(column)).collect());
    ForeignKeyRule {
        name: key.name.clone(),
        parent: key.parent,
        parent_index,
        key_columns,
        parent_partition,
        together: lives_together(partitions, table, key),
        parent_may_go: deleted.contains(&key.parent),
    }
}

/// A child's shard is its parent's, whatever the values.
pub(super) fn lives_together(
    partitions: &[Option<Vec<ColumnIndex>>],
    child: TableId,
    key: &ForeignKey,
) -> bool {
    let (Some(parent), Some(child)) = (&partitions[key.parent.0 as usize], &partitions[child.0 as usize])
    else {
        return partitions[key.parent.0 as usize].is_none();
    };
    let mapped: Option<Vec<ColumnIndex>> = parent
        .iter()
        .map(|column| key.parent_columns.iter().position(|parent| parent == column).map(|at| key.columns[at]))
        .collect();
    mapped.as_ref() == Some(child)
}
