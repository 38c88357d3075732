//! Merge: the union of two branches' operations, folded in timestamp order (coordination-avoidance.txt §3,
//! design.md §3) by the storage's own fold.
//!
//! It never overwrites a row by another one: two inserts of one key are two rows, and the key's check says so.

use std::collections::{BTreeMap, BTreeSet};

use weir_analysis::witness::Side;
use weir_core::ids::Timestamp;
use weir_sql::catalog::{ColumnIndex, ForeignKey, ForeignKeyAction, TableId};
use weir_txn::storage::Operation;
use weir_txn::storage::layout::Packed;
use weir_txn::storage::operation::fold;
use weir_types::Value;

use crate::lab::{Lab, Upsert};
use crate::replica::{Branch, RowName, RowOperation};
use crate::state::{Row, State};

/// Final state of the written rows.
pub(crate) type Touched = BTreeMap<(TableId, RowName), Option<Packed>>;

/// The merged state; `None` where two ON CONFLICT DO UPDATE meet, whose merge the operations do not tell.
pub fn merge(lab: &Lab<'_>, initial: &State, left: &Branch, right: &Branch, later: Side) -> Option<State> {
    let (first, second) = match later {
        Side::Right => (left, right),
        Side::Left => (right, left),
    };
    let same = meeting_upserts(lab, first, second)?;
    let mut touched = Touched::new();
    let own = |_, row: RowName, _: &Operation| Some(row);
    fold_branch(lab, initial, first, 1_000, &own, &mut touched);
    // An insert that another one has made needless leaves that one's row as it is.
    let named = |table: TableId, row: RowName, operation: &Operation| match same.get(&(table, row)) {
        Some(_) if matches!(operation, Operation::Insert(_)) => None,
        Some(other) => Some(*other),
        None => Some(row),
    };
    fold_branch(lab, initial, second, 2_000, &named, &mut touched);
    let mut merged = unpack(lab, initial, &touched);
    let mut gone = Vec::new();
    // Each round removes or repairs a child; a schema that goes round in circles is cut off.
    for _ in 0..merged.row_count() + 8 {
        if !follow_parents(lab, initial, &touched, &mut merged, &mut gone) {
            break;
        }
    }
    Some(merged)
}

/// A branch's operations, in timestamp order from `base` on. `named` says which row an operation is about; `None`
/// passes it over.
pub(crate) fn fold_branch(
    lab: &Lab<'_>,
    initial: &State,
    branch: &Branch,
    base: u64,
    named: &dyn Fn(TableId, RowName, &Operation) -> Option<RowName>,
    touched: &mut Touched,
) {
    for (at, operations) in branch.operations.iter().enumerate() {
        let timestamp = Timestamp { clock: base + at as u64, node: 0 };
        for RowOperation { table, row, operation } in operations {
            let Some(row) = named(*table, *row, operation) else { continue };
            let table = *table;
            let before = touched.remove(&(table, row)).unwrap_or_else(|| pack(lab, initial, table, row));
            let layout = &lab.layouts[table.0 as usize];
            let types = &lab.program.schema.table(table).types;
            touched.insert((table, row), fold(layout, types, before, operation, timestamp));
        }
    }
}

fn pack(lab: &Lab<'_>, initial: &State, table: TableId, row: RowName) -> Option<Packed> {
    match row {
        RowName::Initial(at) => {
            Some(lab.layouts[table.0 as usize].pack(0, &initial.table(table)[at as usize]))
        }
        RowName::New(..) => None,
    }
}

pub(crate) fn values(lab: &Lab<'_>, table: TableId, packed: &Packed) -> Row {
    let columns = lab.program.schema.table(table).types.len();
    (0..columns).map(|column| lab.layouts[table.0 as usize].read(packed, column)).collect()
}

fn unpack(lab: &Lab<'_>, initial: &State, touched: &Touched) -> State {
    let mut merged = initial.clone();
    let tables: BTreeSet<TableId> = touched.keys().map(|(table, _)| *table).collect();
    for table in tables {
        let kept = initial.table(table).iter().enumerate().filter_map(|(at, row)| {
            match touched.get(&(table, RowName::Initial(at as u32))) {
                None => Some(row.clone()),
                Some(packed) => packed.as_ref().map(|packed| values(lab, table, packed)),
            }
        });
        *merged.table_mut(table) = kept.collect();
    }
    for ((table, row), packed) in touched {
        if let (RowName::New(..), Some(packed)) = (row, packed) {
            merged.table_mut(*table).push(values(lab, *table, packed));
        }
    }
    merged
}

/// Inserts of the second branch that are, by ON CONFLICT, about a row that the first one inserts.
fn meeting_upserts(
    lab: &Lab<'_>,
    first: &Branch,
    second: &Branch,
) -> Option<BTreeMap<(TableId, RowName), RowName>> {
    let mut same = BTreeMap::new();
    for (table, name, row, upsert) in inserts(lab, second) {
        for (other_table, other_name, other, other_upsert) in inserts(lab, first) {
            if other_table != table {
                continue;
            }
            let sides = [upsert, other_upsert];
            let told = sides.iter().flatten().all(|upsert| upsert.telling);
            match sides {
                // It is unknown which of its inserts was ON CONFLICT, or what DO UPDATE would have done.
                _ if !told && meet(lab, table, &None, &row, &other) => return None,
                [Some(upsert), Some(_)] if meet(lab, table, &upsert.columns, &row, &other) => {
                    same.insert((table, name), other_name);
                }
                _ => {}
            }
        }
    }
    Some(same)
}

/// Table, name, values, and the ON CONFLICT that the insert has or may have.
fn inserts<'l>(lab: &'l Lab<'_>, branch: &Branch) -> Vec<(TableId, RowName, Row, Option<&'l Upsert>)> {
    let mut inserts = Vec::new();
    for ((call, operations), &plain) in branch.calls.iter().zip(&branch.operations).zip(&branch.plain) {
        for operation in operations {
            if let Operation::Insert(packed) = &operation.operation {
                let upsert = if plain { None } else { lab.upsert(call.procedure, operation.table) };
                let row = values(lab, operation.table, packed);
                inserts.push((operation.table, operation.row, row, upsert));
            }
        }
    }
    inserts
}

/// Do two rows have the same key, the named one or any?
fn meet(lab: &Lab<'_>, table: TableId, key: &Option<Vec<ColumnIndex>>, a: &[Value], b: &[Value]) -> bool {
    let equal = |columns: &[ColumnIndex]| {
        columns.iter().all(|&column| !a[column].is_null() && a[column] == b[column])
    };
    match key {
        Some(columns) => equal(columns),
        None => {
            let table = lab.application.catalog.table(table);
            table.primary_key.iter().chain(&table.unique_keys).any(|key| equal(&key.columns))
        }
    }
}

/// Children of ON DELETE CASCADE whose parent has gone go too, those of ON UPDATE CASCADE follow its key (soundness
/// S12). Whether something changed.
fn follow_parents(
    lab: &Lab<'_>,
    initial: &State,
    touched: &Touched,
    merged: &mut State,
    gone: &mut Vec<(TableId, Row)>,
) -> bool {
    let children: Vec<TableId> = merged.filled().collect();
    for child in children.into_iter().map(|child| lab.application.catalog.table(child)) {
        for key in &child.foreign_keys {
            if key.on_delete != ForeignKeyAction::Cascade && key.on_update != ForeignKeyAction::Cascade {
                continue;
            }
            // Elsewhere every parent is as it was.
            if !is_touched(touched, key.parent) && !gone.iter().any(|(table, _)| *table == key.parent) {
                continue;
            }
            for at in 0..merged.table(child.id).len() {
                let row = merged.table(child.id)[at].clone();
                let value: Vec<&Value> = key.columns.iter().map(|&column| &row[column]).collect();
                if value.iter().any(|value| value.is_null()) || has_parent(merged, key, &value) {
                    continue;
                }
                let went = gone.iter().any(|(table, row)| *table == key.parent && is_key(row, key, &value));
                let parent = if went { Some(None) } else { parent_was(lab, initial, touched, key, &value) };
                match parent {
                    Some(None) if key.on_delete == ForeignKeyAction::Cascade => {
                        gone.push((child.id, merged.table_mut(child.id).remove(at)));
                        return true;
                    }
                    Some(Some(parent)) if key.on_update == ForeignKeyAction::Cascade => {
                        for (&column, &of) in key.columns.iter().zip(&key.parent_columns) {
                            merged.set(child.id, at, column, parent[of].clone());
                        }
                        return true;
                    }
                    _ => {}
                }
            }
        }
    }
    false
}

fn is_touched(touched: &Touched, table: TableId) -> bool {
    let first = touched.range((table, RowName::Initial(0))..).next();
    first.is_some_and(|((of, _), _)| *of == table)
}

fn has_parent(state: &State, key: &ForeignKey, value: &[&Value]) -> bool {
    state.table(key.parent).iter().any(|row| is_key(row, key, value))
}

fn is_key(row: &[Value], key: &ForeignKey, value: &[&Value]) -> bool {
    key.parent_columns.iter().zip(value).all(|(&column, value)| row[column] == **value)
}

/// Current state of the row that once had this key (`None`: deleted).
fn parent_was(
    lab: &Lab<'_>,
    initial: &State,
    touched: &Touched,
    key: &ForeignKey,
    value: &[&Value],
) -> Option<Option<Row>> {
    let at = initial.table(key.parent).iter().position(|row| is_key(row, key, value))?;
    let now = touched.get(&(key.parent, RowName::Initial(at as u32)))?;
    Some(now.as_ref().map(|packed| values(lab, key.parent, packed)))
}
