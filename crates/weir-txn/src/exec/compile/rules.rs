//! Compiles constraints for the executor, and rejects those that cannot be enforced.

use crate::entries::GLOBAL_KEYS_MAX;
use crate::exec::compiler::Compiler;
use crate::exec::expr::CompiledExpr;
use crate::exec::program::CompileError;
use crate::exec::sequences::{generates_id, has_a_share_for_each};
use crate::exec::slots::SlotAllocator;
use crate::exec::write::{CheckRule, Children, ForeignKeyRule, Reference, TableRules};
use crate::storage::{IndexId, IndexSchema, Schema, TableSchema};
use weir_analysis::plan::Placement;
use weir_sql::bound::{ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, ForeignKey, ForeignKeyAction, Table, TableId};

use super::touched::Parts;
use super::unsupported;
use std::collections::BTreeSet;
use weir_types::Value;

/// The global keys of a table over several shards: unique indexes of its storage whose columns do not say where a row lives. A key is unique
/// without more if rows with the same key live on one shard, or if all values are generated, of which no two shards have the same
/// (coordination-avoidance.txt §5.1, "choose some value"). Rows of a key that a foreign key refers to must be found besides.
///
/// # Errors
/// There are more than [`GLOBAL_KEYS_MAX`].
pub(super) fn global_keys(
    Parts { catalog, placement, closed, .. }: Parts<'_>,
    table: &Table,
    schema: &TableSchema,
) -> Result<Vec<IndexId>, CompileError> {
    let is_generated = |column: &ColumnIndex| {
        table.columns[*column].default.as_ref().is_some_and(generates_id)
            && !closed.may_be_chosen(table, *column)
    };
    let is_referred = |columns: &[ColumnIndex]| {
        let refers = |key: &ForeignKey| {
            key.parent == table.id
                && key.parent_columns.len() == columns.len()
                && key.parent_columns.iter().all(|column| columns.contains(column))
        };
        catalog.tables.iter().flat_map(|child| &child.foreign_keys).any(refers)
    };
    let is_global = |(_, index): &(IndexId, &IndexSchema)| {
        let columns: Vec<ColumnIndex> = index.columns.iter().filter_map(|column| column.column).collect();
        index.unique
            && !says_home(placement, table.id, &columns)
            && (!columns.iter().any(is_generated) || is_referred(&columns))
    };
    let keys: Vec<IndexId> = schema.indexes.iter().enumerate().filter(is_global).map(|(at, _)| at).collect();
    match keys.len() <= GLOBAL_KEYS_MAX {
        true => Ok(keys),
        false => Err(unsupported(
            table.span,
            format!(
                "more than {GLOBAL_KEYS_MAX} unique keys without the partition column, over several shards,"
            ),
            "Partition the table by columns of its keys, make it replicated, or run on one shard (--shards 1).",
        )),
    }
}

/// Whether the values of these columns say where a row of the table lives; every shard has those of a replicated table.
fn says_home(placement: &[Placement], table: TableId, columns: &[ColumnIndex]) -> bool {
    let partition = placement[table.0 as usize].columns();
    partition.is_none_or(|partition| partition.iter().all(|own| columns.contains(own)))
}

/// Rejects a placement under which a shard generates no ids that live on it.
pub(super) fn check_homes(
    Parts { catalog, placement, shards, .. }: Parts<'_>,
    table: &Table,
) -> Result<(), CompileError> {
    let Some([column]) = placement[table.id.0 as usize].columns() else { return Ok(()) };
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
    Ok(())
}

fn has_columns_alone(index: &weir_sql::catalog::Index) -> bool {
    index.keys.iter().all(|key| matches!(key.expr.kind, ExprKind::Column { .. }))
}

/// Rejects foreign-key actions on the sources of computed columns: an action writes child columns without recomputing others.
fn check_computed(table: &weir_sql::catalog::Table) -> Result<(), CompileError> {
    let writes = |key: &&weir_sql::catalog::ForeignKey| {
        let deletes = matches!(key.on_delete, ForeignKeyAction::SetNull | ForeignKeyAction::SetDefault);
        deletes || !key.on_update.refuses()
    };
    for column in table.columns.iter().filter(|column| column.is_hidden) {
        let mut sources = BTreeSet::new();
        if let Some(generated) = &column.generated {
            weir_sql::walk::columns(generated, &mut |_, source| {
                sources.insert(source);
            });
        }
        let reads =
            |key: &&weir_sql::catalog::ForeignKey| key.columns.iter().any(|one| sources.contains(one));
        if let Some(key) = table.foreign_keys.iter().filter(writes).find(reads) {
            return Err(unsupported(
                column.span,
                format!(
                    "a unique index over what is computed of columns that foreign key \"{}\" writes",
                    key.name
                ),
                "Leave ON DELETE SET NULL, ON DELETE SET DEFAULT and ON UPDATE away, or the index.",
            ));
        }
    }
    Ok(())
}

pub(super) fn check_indexes(table: &Table) -> Result<(), CompileError> {
    for index in &table.indexes {
        // Other indexes only speed up queries: storage builds what it supports.
        let plain = index.predicate.is_none() && has_columns_alone(index);
        if index.unique && !plain {
            return Err(unsupported(
                index.span,
                "a unique index that is partial or on an expression",
                "UNIQUE over plain columns works, of a generated column, too: GENERATED ALWAYS AS (lower(email)) STORED, or AS (CASE WHEN                      is_current THEN email END).",
            ));
        }
    }
    check_computed(table)
}

fn default_of(schema: &Schema, column: &weir_sql::catalog::Column) -> Result<CompiledExpr, CompileError> {
    let Some(default) = &column.default else { return Ok(CompiledExpr::Constant(Value::Null)) };
    let mut slots = SlotAllocator::new(0);
    slots.begin_expr(default);
    let expr = CompiledExpr::compile(default, &mut Compiler::new(schema, &mut slots));
    expr.map_err(|error| CompileError { span: column.span, error })
}

/// `children`: each child with the index of its foreign key.
pub(super) fn table_rules(
    Parts { catalog, placement, closed, .. }: Parts<'_>,
    schema: &Schema,
    (table, children): (TableId, &[(TableId, usize)]),
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
        let parent_may_go = closed.may_lose_rows(catalog.table(key.parent));
        rules.foreign_keys.push(foreign_key(schema, placement, parent_may_go, table, key));
    }
    for &(child, rule) in children {
        let key = &catalog.table(child).foreign_keys[rule];
        let starts = |index: &crate::storage::IndexSchema| {
            index.columns.len() >= key.columns.len()
                && index.columns.iter().zip(&key.columns).all(|(have, want)| have.column == Some(*want))
        };
        let sets_default = [key.on_delete, key.on_update].contains(&ForeignKeyAction::SetDefault);
        let set = if sets_default { &key.columns[..] } else { &[] };
        let defaults = set.iter().map(|&column| default_of(schema, &catalog.table(child).columns[column]));
        let defaults = defaults.collect::<Result<_, _>>()?;
        rules.referenced_by.push(Reference {
            child,
            name: key.name.clone(),
            columns: key.columns.clone(),
            parent_columns: key.parent_columns.clone(),
            on_delete: key.on_delete,
            on_update: key.on_update,
            defaults,
            child_index: schema.table(child).indexes.iter().position(starts),
            together: lives_together(placement, child, key),
            children: children_of(placement, child, key),
            by_key: !says_home(placement, table, &key.parent_columns),
            deferral: key.deferral,
            rule,
        });
    }
    Ok(rules)
}

pub(super) fn foreign_key(
    schema: &Schema,
    placement: &[Placement],
    parent_may_go: bool,
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
    let key_columns: Vec<ColumnIndex> = parent.indexes[parent_index]
        .columns
        .iter()
        .filter_map(|column| column.column.and_then(child_of))
        .collect();
    let by_key = !says_home(placement, key.parent, &key.parent_columns);
    let parent_partition = match by_key {
        true => Some(key_columns.clone()),
        false => placement[key.parent.0 as usize]
            .columns()
            .map(|columns| columns.iter().filter_map(|&column| child_of(column)).collect()),
    };
    let beside_key = by_key && parent_partition.as_deref() == placement[table.0 as usize].columns();
    ForeignKeyRule {
        name: key.name.clone(),
        parent: key.parent,
        parent_index,
        declared: key
            .columns
            .iter()
            .filter_map(|own| key_columns.iter().position(|column| column == own))
            .collect(),
        key_columns,
        parent_partition,
        by_key,
        together: lives_together(placement, table, key),
        beside_key,
        parent_may_go,
        deferral: key.deferral,
    }
}

fn children_of(placement: &[Placement], child: TableId, key: &ForeignKey) -> Children {
    let Some(partition) = placement[child.0 as usize].columns() else { return Children::Copied };
    let position = |column: &ColumnIndex| key.columns.iter().position(|own| own == column);
    let positions: Option<Vec<usize>> = partition.iter().map(position).collect();
    positions.map_or(Children::OnAny, Children::OnOne)
}

/// Returns whether child and parent always live on the same shard.
pub(super) fn lives_together(placement: &[Placement], child: TableId, key: &ForeignKey) -> bool {
    let columns = |table: TableId| placement[table.0 as usize].columns();
    let (Some(parent), Some(child)) = (columns(key.parent), columns(child)) else {
        return columns(key.parent).is_none();
    };
    let mapped: Option<Vec<ColumnIndex>> = parent
        .iter()
        .map(|column| key.parent_columns.iter().position(|parent| parent == column).map(|at| key.columns[at]))
        .collect();
    mapped.as_deref() == Some(child)
}
