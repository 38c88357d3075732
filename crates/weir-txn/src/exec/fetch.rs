//! The rows that a read over several shards wants of one of them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weir_sql::catalog::ColumnIndex;
use weir_types::compare::equal;
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use crate::message::{ReadQuery, TableRead};
use crate::storage::{IndexId, IndexSchema, KeyBytes, KeyRange, RowRef, Rows, TableSchema, key::push_key};

/// By table of a query: its rows, each with its number in front (so that one that is wanted twice can
/// be told). Also how many rows had to be looked at.
pub type Found = (Vec<Vec<Vec<Value>>>, usize);

/// Finds the rows of each table of the query.
///
/// # Errors
/// The interruption's.
pub fn fetch(storage: &dyn Rows, query: &ReadQuery) -> Result<Found, SqlError> {
    let mut examined = 0;
    let mut fetched: Vec<Vec<Vec<Value>>> = Vec::with_capacity(query.tables.len());
    for read in &query.tables {
        let mut rows = BTreeSet::new();
        match &read.joined {
            None => examined += matching(storage, read, &read.equals, &mut rows)?,
            Some((earlier, pairs)) => {
                for row in &fetched[*earlier] {
                    let joined = pairs.iter().map(|&(own, theirs)| (own, row[1 + theirs].clone()));
                    let equals: Vec<(ColumnIndex, Value)> =
                        read.equals.iter().cloned().chain(joined).collect();
                    examined += matching(storage, read, &equals, &mut rows)?;
                }
            }
        }
        let columns = storage.schema().table(read.table).types.len();
        let values = |row: &RowRef| {
            let columns = (0..columns).map(|column| storage.value(read.table, *row, column));
            [Value::Int(i64::from(row.row))].into_iter().chain(columns).collect()
        };
        let values = |row: &RowRef| check().map(|()| values(row));
        fetched.push(rows.iter().map(values).collect::<Result<_, _>>()?);
    }
    Ok((fetched, examined))
}

/// The index that fits best where the values of some columns are known, and of how many of its columns they are.
pub(super) fn best_index(
    schema: &TableSchema,
    is_known: impl Fn(ColumnIndex) -> bool,
) -> Option<(IndexId, usize)> {
    let covered = |index: &IndexSchema| {
        index.columns.iter().take_while(|column| column.column.is_some_and(&is_known)).count()
    };
    let all = schema.indexes.iter().map(covered).enumerate();
    all.max_by_key(|&(index, covered)| (covered, usize::MAX - index)).filter(|(_, covered)| *covered > 0)
}

/// Adds the rows whose columns have these values, found by the index that fits best; how many it looked at.
fn matching(
    storage: &dyn Rows,
    read: &TableRead,
    equals: &[(ColumnIndex, Value)],
    rows: &mut BTreeSet<RowRef>,
) -> Result<usize, SqlError> {
    let schema = storage.schema().table(read.table);
    let wanted =
        |column: Option<usize>| column.and_then(|column| equals.iter().find(|(of, _)| *of == column));
    let best = best_index(schema, |column| wanted(Some(column)).is_some());
    if equals.iter().any(|(_, value)| value.is_null()) {
        return Ok(0);
    }
    // A condition that the index ensures is not checked again.
    let ensured = |column: ColumnIndex| {
        best.is_some_and(|(index, covered)| {
            schema.indexes[index].columns[..covered].iter().any(|of| of.column == Some(column))
        })
    };
    let asked: Vec<&(ColumnIndex, Value)> = equals.iter().filter(|(column, _)| !ensured(*column)).collect();
    let mut examined = 0;
    let mut visit = |row: RowRef| {
        check()?;
        examined += 1;
        let matches = asked.iter().all(|(column, value)| {
            let own = storage.value(read.table, row, *column);
            !own.is_null() && equal(&own, value)
        });
        if matches {
            rows.insert(row);
        }
        Ok(ControlFlow::Continue(()))
    };
    let _ = match best {
        Some((index, _)) => {
            let mut key = KeyBytes::new();
            for column in &schema.indexes[index].columns {
                let Some((_, value)) = wanted(column.column) else { break };
                push_key(&mut key, value, column);
            }
            storage.range(read.table, index, &KeyRange::prefix(key), false, &mut visit)?
        }
        None => storage.scan(read.table, &mut visit)?,
    };
    Ok(examined)
}
