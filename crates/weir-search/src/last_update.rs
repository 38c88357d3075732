//! Merge of two branches by multi-master replication of PostgreSQL: whole rows are replicated, and of two changes of one row the later
//! commit's row survives (last-update-wins, the default of pgactive, BDR and Spock).
//!
//! An alternative to [`crate::merge`] without merging of amounts. Replicated rows are checked against unique keys only, so foreign keys,
//! CHECKs over combined values and assertions may be violated; cascades are deletes of rows like any others and do not run again.

use std::collections::BTreeMap;

use weir_analysis::witness::Side;
use weir_sql::bound::ExprKind;
use weir_sql::catalog::{ColumnIndex, Table, TableId};

use crate::lab::Lab;
use crate::merge::{Touched, fold_branch, values};
use crate::replica::{Branch, NamedRows, RowName};
use crate::state::{Row, State};

/// State of both nodes after replication.
#[derive(Clone, Debug)]
pub struct Replicated {
    pub rows: NamedRows,
    /// Two rows with the same key, which no node can hold both: table and name. Replication stops there.
    pub stops: Option<(TableId, String)>,
}

/// All rows of a state by their names.
pub fn named(initial: &State) -> NamedRows {
    let mut rows = NamedRows::new();
    for table in initial.filled() {
        for (at, row) in initial.table(table).iter().enumerate() {
            rows.insert((table, RowName::Initial(at as u32)), row.clone());
        }
    }
    rows
}

/// The rows as a state, those of the initial one first.
pub fn unnamed(rows: &NamedRows) -> State {
    let mut state = State::empty();
    rows.iter().for_each(|((table, _), row)| state.table_mut(*table).push(row.clone()));
    state
}

/// Rows changed by one node before replication, `None` if deleted.
pub fn local(lab: &Lab<'_>, initial: &State, branch: &Branch) -> BTreeMap<(TableId, RowName), Option<Row>> {
    let mut touched = Touched::new();
    fold_branch(lab, initial, branch, 1_000, &|_, row, _| Some(row), &mut touched);
    let row = |((table, name), packed): ((TableId, RowName), Option<_>)| {
        ((table, name), packed.map(|packed| values(lab, table, &packed)))
    };
    touched.into_iter().map(row).collect()
}

/// The state of one node alone.
pub fn alone(lab: &Lab<'_>, initial: &State, branch: &Branch) -> NamedRows {
    let mut rows = named(initial);
    put(&mut rows, local(lab, initial, branch));
    rows
}

fn put(rows: &mut NamedRows, changes: BTreeMap<(TableId, RowName), Option<Row>>) {
    for (name, row) in changes {
        match row {
            Some(row) => rows.insert(name, row),
            None => rows.remove(&name),
        };
    }
}

/// Row by row, the newest commit wins.
pub fn replicate(lab: &Lab<'_>, initial: &State, left: &Branch, right: &Branch, later: Side) -> Replicated {
    let (first, second) = match later {
        Side::Right => (left, right),
        Side::Left => (right, left),
    };
    let (first, second) = (local(lab, initial, first), local(lab, initial, second));
    let mut rows = named(initial);
    put(&mut rows, first.clone());
    put(&mut rows, second.clone());
    let mut stops = None;
    // A key is a row's name for the replication: of two rows that came under one, the later replaces the other.
    for ((table, _), row) in second.iter().filter_map(|(name, row)| Some((name, row.as_ref()?))) {
        let definition = lab.application.catalog.table(*table);
        // A row that the later commit has written too is not there in the earlier one's form.
        for (other_name, other) in first.iter().filter(|(of, _)| of.0 == *table && !second.contains_key(of)) {
            let Some(other) = other.as_ref() else { continue };
            let primary = definition.primary_key.as_ref();
            if primary.is_some_and(|key| equal(&key.columns, row, other)) {
                rows.remove(other_name);
            } else if stops.is_none() {
                stops = unique_keys(definition)
                    .find(|(_, columns)| equal(columns, row, other))
                    .map(|(key, _)| (*table, key.to_owned()));
            }
        }
    }
    Replicated { rows, stops }
}

/// Unique keys but the primary one; unique indexes of plain columns are such (others are not run).
fn unique_keys(table: &Table) -> impl Iterator<Item = (&str, Vec<ColumnIndex>)> {
    let keys = table.unique_keys.iter().map(|key| (key.name.as_str(), key.columns.clone()));
    let indexes = table.indexes.iter().filter(|index| index.unique);
    let column = |key: &weir_sql::catalog::IndexKey| match key.expr.kind {
        ExprKind::Column { column, .. } => Some(column),
        _ => None,
    };
    keys.chain(indexes.filter_map(move |index| {
        let columns: Option<Vec<ColumnIndex>> = index.keys.iter().map(column).collect();
        Some((index.name.as_str(), columns?))
    }))
}

/// Two rows have one value in these columns, which are not NULL.
pub fn equal(columns: &[ColumnIndex], row: &Row, other: &Row) -> bool {
    columns.iter().all(|&column| !row[column].is_null() && row[column] == other[column])
}
