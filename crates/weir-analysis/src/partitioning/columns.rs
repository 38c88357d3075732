//! From the array to partition columns: each table is partitioned by the column that most weight finds its rows by,
//! with a value that routes the call (operation-partitioning.txt §3.2, "Comparison with data partitioning").

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::Application;
use weir_sql::catalog::{ColumnIndex, TableId};

use super::satisfiable::routed_columns;
use super::sets::Sets;
use super::{Key, Keys, Routing, conflict};
use crate::effects::ProcedureEffects;

/// Shares are counted in these parts.
const WHOLE: u64 = 1000;

/// By table.
pub fn columns(
    app: &Application,
    effects: &[ProcedureEffects],
    sets: &Sets,
    routings: &[Routing],
    weights: &[u64],
) -> Vec<Option<ColumnIndex>> {
    let mut scores: BTreeMap<(TableId, ColumnIndex), u64> = BTreeMap::new();
    for (procedure, entries) in sets.entries.iter().enumerate() {
        let routing = &routings[procedure];
        let (home, all) = (routing.home_keys(), Keys::new(routing.parameters()));
        let mut accesses: BTreeMap<TableId, u64> = BTreeMap::new();
        let mut routed: BTreeMap<(TableId, ColumnIndex), u64> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| conflict::is_statement(entry)) {
            *accesses.entry(entry.table).or_default() += 1;
            let mut worth: BTreeMap<ColumnIndex, u64> = BTreeMap::new();
            for (column, key) in routed_columns(app, sets, procedure, &effects[procedure], entry) {
                let value = worth.entry(column).or_default();
                *value = (*value).max(share(key, home, all));
            }
            for (column, worth) in worth {
                *routed.entry((entry.table, column)).or_default() += worth;
            }
        }
        for ((table, column), worth) in routed {
            *scores.entry((table, column)).or_default() += weights[procedure] * worth / accesses[&table];
        }
    }
    app.catalog.tables.iter().map(|table| best(table, &scores)).collect()
}

/// By procedure: the parameters that find rows of a table by the column that its declared placement names.
pub fn declared(app: &Application, effects: &[ProcedureEffects], sets: &Sets) -> Vec<BTreeSet<usize>> {
    let of = |(procedure, entries): (usize, &Vec<super::sets::Entry>)| {
        let mut parameters = BTreeSet::new();
        for entry in entries.iter().filter(|entry| conflict::is_statement(entry)) {
            let Some(columns) = &app.catalog.table(entry.table).partition_by else { continue };
            let routed = routed_columns(app, sets, procedure, &effects[procedure], entry);
            parameters.extend(routed.into_iter().filter_map(|(column, key)| match key {
                Key::Parameter(parameter) if columns.contains(&column) => Some(parameter),
                _ => None,
            }));
        }
        parameters
    };
    sets.entries.iter().enumerate().map(of).collect()
}

/// A value that routes only where all parameters agree counts half.
fn share(key: Key, home: Keys, all: Keys) -> u64 {
    match (home.contains(key), all.contains(key)) {
        (true, _) => WHOLE,
        (false, true) => WHOLE / 2,
        (false, false) => 0,
    }
}

/// Best column; of equal scores the one that comes first in the primary key, then in the table.
fn best(
    table: &weir_sql::catalog::Table,
    scores: &BTreeMap<(TableId, ColumnIndex), u64>,
) -> Option<ColumnIndex> {
    let key = table.primary_key.iter().flat_map(|key| key.columns.iter().copied());
    let order = key.chain(0..table.columns.len());
    let mut best: Option<(u64, ColumnIndex)> = None;
    for column in order {
        let score = scores.get(&(table.id, column)).copied().unwrap_or(0);
        if score > best.map_or(0, |(highest, _)| highest) {
            best = Some((score, column));
        }
    }
    best.map(|(_, column)| column)
}
