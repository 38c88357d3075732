//! The rows that a read over several shards wants of one of them.

use std::ops::ControlFlow;

use weir_types::Value;
use weir_types::compare::equal;

use crate::ramp::message::{ReadQuery, TableRead};
use crate::storage::{KeyBytes, KeyRange, RowRef, Rows, Storage, key::push_key};

/// By table of the query: its rows, each with its number in front (so that one that is wanted twice can
/// be told).
pub fn fetch(storage: &Storage, query: &ReadQuery) -> Vec<Vec<Vec<Value>>> {
    query.tables.iter().map(|read| table_rows(storage, read)).collect()
}

fn table_rows(storage: &Storage, read: &TableRead) -> Vec<Vec<Value>> {
    let schema = storage.schema().table(read.table);
    let wanted = |column: Option<usize>| column.and_then(|column| read.equals.iter().find(|(of, _)| *of == column));
    let covered = |index: &crate::storage::IndexSchema| index.columns.iter().take_while(|column| wanted(column.column).is_some()).count();
    let best = (0..schema.indexes.len()).max_by_key(|&index| (covered(&schema.indexes[index]), usize::MAX - index));
    let mut rows = Vec::new();
    let mut visit = |row: RowRef| {
        let matches = read.equals.iter().all(|(column, value)| {
            let own = storage.value(read.table, row, *column);
            !own.is_null() && !value.is_null() && equal(&own, value)
        });
        if matches {
            let columns = (0..schema.types.len()).map(|column| storage.value(read.table, row, column));
            rows.push([Value::Int(i64::from(row.row))].into_iter().chain(columns).collect());
        }
        Ok(ControlFlow::Continue(()))
    };
    let visited = match best.filter(|&index| covered(&schema.indexes[index]) > 0) {
        Some(index) => {
            let mut key = KeyBytes::new();
            for column in &schema.indexes[index].columns {
                let Some((_, value)) = wanted(column.column) else { break };
                push_key(&mut key, value, column);
            }
            storage.range(read.table, index, &KeyRange::prefix(key), false, &mut visit)
        }
        None => storage.scan(read.table, &mut visit),
    };
    visited.map(drop).expect("comparing values cannot fail");
    rows
}
