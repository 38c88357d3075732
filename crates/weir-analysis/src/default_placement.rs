//! Placement of tables that nothing else places: no comment, no procedure, and no rows that are there already.
//!
//! Such a table lives beside its parent where one foreign key decides, else by the hash of its primary key. Pure: a function of the
//! catalog and of the placements that are known.

use weir_sql::Catalog;
use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, ForeignKey, Table};
use weir_sql::walk::uncast;
use weir_types::SqlType;

use crate::plan::Placement;

/// Fills in the placements that are not known, by table.
///
/// A table waits for the parents that it may live beside. Of tables that wait for each other, the one with the lowest number is placed by
/// its primary key.
pub fn complete(catalog: &Catalog, known: Vec<Option<Placement>>) -> Vec<Placement> {
    let mut placed = known;
    let mut open: Vec<&Table> =
        catalog.tables.iter().filter(|table| placed[table.id.0 as usize].is_none()).collect();
    while !open.is_empty() {
        let before = open.len();
        open.retain(|table| {
            let is_ready = binding(table).all(|key| placed[key.parent.0 as usize].is_some());
            if is_ready {
                placed[table.id.0 as usize] = Some(place(catalog, table, &placed));
            }
            !is_ready
        });
        if open.len() == before {
            let table = open.remove(0);
            placed[table.id.0 as usize] = Some(by_primary_key(table));
        }
    }
    placed.into_iter().flatten().collect()
}

fn place(catalog: &Catalog, table: &Table, placed: &[Option<Placement>]) -> Placement {
    let placement = |key: &ForeignKey| placed[key.parent.0 as usize].as_ref();
    let is_copied = |key: &&ForeignKey| placement(key).is_some_and(|parent| parent.columns().is_none());
    let keys = || binding(table).filter(|key| !is_copied(key));
    let identifying = || only(keys().filter(|key| is_identifying(table, key)));
    let columns = |key: &&ForeignKey| {
        let beside = placement(key).and_then(|parent| columns_beside(catalog, table, key, parent));
        beside.or_else(|| columns_beside_key(catalog, table, key).filter(|_| is_identifying(table, key)))
    };
    let decides = only(keys()).or_else(identifying).as_ref().and_then(columns);
    decides.map_or_else(|| by_primary_key(table), partitioned)
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

/// The primary key contains the foreign key: the parent is part of what the row is.
fn is_identifying(table: &Table, key: &ForeignKey) -> bool {
    let primary = table.primary_key.as_ref();
    primary.is_some_and(|primary| key.columns.iter().all(|column| primary.columns.contains(column)))
}

fn partitioned(columns: Vec<ColumnIndex>) -> Placement {
    Placement::Partitioned { columns: columns.into() }
}

/// The foreign keys to other tables by which every row of the table has a parent.
fn binding(table: &Table) -> impl Iterator<Item = &ForeignKey> {
    let is_never_null = |column: &ColumnIndex| table.columns[*column].not_null;
    table
        .foreign_keys
        .iter()
        .filter(move |key| key.parent != table.id && key.columns.iter().all(is_never_null))
}

/// The child's columns whose values place it where its parent is; none if the foreign key does not say where that is.
pub fn columns_beside(
    catalog: &Catalog,
    child: &Table,
    key: &ForeignKey,
    parent: &Placement,
) -> Option<Vec<ColumnIndex>> {
    parent.columns()?.iter().map(|column| child_column(catalog, child, key, *column)).collect()
}

/// The child's columns whose values place it at the shard that owns the parent's key, which knows whether there is such a parent.
pub fn columns_beside_key(catalog: &Catalog, child: &Table, key: &ForeignKey) -> Option<Vec<ColumnIndex>> {
    let parent = catalog.table(key.parent);
    let is_same = |columns: &[ColumnIndex]| {
        columns.len() == key.columns.len() && columns.iter().all(|column| key.parent_columns.contains(column))
    };
    let keys = parent.primary_key.iter().chain(&parent.unique_keys).map(|key| key.columns.clone());
    let indexes =
        parent.indexes.iter().filter(|index| index.unique).filter_map(|index| index.plain_columns());
    let columns = keys.chain(indexes).find(|columns| is_same(columns))?;
    columns.into_iter().map(|column| child_column(catalog, child, key, column)).collect()
}

/// The child's column that has the value of this column of the parent, and its place.
fn child_column(
    catalog: &Catalog,
    child: &Table,
    key: &ForeignKey,
    parent_column: ColumnIndex,
) -> Option<ColumnIndex> {
    let at = key.parent_columns.iter().position(|one| *one == parent_column)?;
    let (own, parent) = (key.columns[at], catalog.table(key.parent));
    hash_alike(&child.columns[own].ty, &parent.columns[parent_column].ty).then_some(own)
}

/// Whether equal values of the two types have the same placement.
fn hash_alike(one: &SqlType, other: &SqlType) -> bool {
    one.base() == other.base()
        || one.is_integer() && other.is_integer()
        || one.is_string() && other.is_string()
}

/// The hash of the whole primary key. Columns whose values a statement does not say by itself do not count beside others: those with a
/// default that is computed, as of an id, which is drawn where the row lives, and times whose text has another meaning in another zone. A
/// table without a primary key is placed by its first column.
pub fn by_primary_key(table: &Table) -> Placement {
    let is_said = |column: &ColumnIndex| {
        let column = &table.columns[*column];
        let is_constant = |default: &Expr| matches!(uncast(default).kind, ExprKind::Literal(_));
        column.ty != SqlType::Timestamptz && column.default.as_ref().is_none_or(is_constant)
    };
    let key: &[ColumnIndex] = table.primary_key.as_ref().map_or(&[0], |key| &key.columns);
    let said: Vec<ColumnIndex> = key.iter().copied().filter(is_said).collect();
    partitioned(if said.is_empty() { vec![key[0]] } else { said })
}

#[cfg(test)]
mod tests;
