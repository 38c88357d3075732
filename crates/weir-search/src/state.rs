//! A small database as a value: a bag of rows for each table, in which nothing is unique.
//!
//! The executor reads it through [`Rows`] by looking at every row, so a merge may hold two rows of one key
//! and the check of the key sees both. Never written to by the executor: a branch runs on real storage
//! ([`crate::replica`]).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use weir_analysis::witness::TableRows;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_txn::storage::key::push_key;
use weir_txn::storage::{IndexId, KeyBytes, KeyRange, RowRef, Rows, Schema, Visit};
use weir_types::text::to_text;
use weir_types::{SqlError, Value};

pub type Row = Arc<[Value]>;

/// Rows by table, in the order in which they came. States share the tables in which they do not differ.
#[derive(Clone, Debug, Default)]
pub struct State {
    tables: BTreeMap<TableId, Arc<Vec<Row>>>,
}

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.filled().eq(other.filled()) && self.filled().all(|table| self.table(table) == other.table(table))
    }
}

impl State {
    pub fn empty() -> State {
        State::default()
    }

    pub fn table(&self, table: TableId) -> &[Row] {
        self.tables.get(&table).map_or(&[], |rows| rows.as_slice())
    }

    pub fn table_mut(&mut self, table: TableId) -> &mut Vec<Row> {
        Arc::make_mut(self.tables.entry(table).or_default())
    }

    /// The tables that have rows, in their order.
    pub fn filled(&self) -> impl DoubleEndedIterator<Item = TableId> + '_ {
        self.tables.iter().filter(|(_, rows)| !rows.is_empty()).map(|(table, _)| *table)
    }

    pub fn row_count(&self) -> usize {
        self.tables.values().map(|rows| rows.len()).sum()
    }

    /// One column of one row takes another value.
    pub fn set(&mut self, table: TableId, row: usize, column: ColumnIndex, value: Value) {
        let row = &mut self.table_mut(table)[row];
        *row = row
            .iter()
            .enumerate()
            .map(|(at, old)| if at == column { &value } else { old })
            .cloned()
            .collect();
    }

    /// Its tables that have rows, as text.
    pub fn text(&self, schema: &Schema) -> Vec<TableRows> {
        let rows = |id: TableId| {
            let table = schema.table(id);
            let cells = |row: &Row| row.iter().zip(&table.types).map(|(value, ty)| cell(value, ty)).collect();
            TableRows {
                table: table.name.clone(),
                columns: table.column_names.clone(),
                rows: self.table(id).iter().map(cells).collect(),
            }
        };
        self.filled().map(rows).collect()
    }
}

/// A value as PostgreSQL reads it; `None` is NULL. Padding of `char(n)` is left away.
pub fn cell(value: &Value, ty: &weir_types::SqlType) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(value) => Some(value.to_string()),
        Value::Text(text) => Some(text.to_string()),
        value => Some(to_text(value, ty)),
    }
}

/// A state with the schema that it is read by.
pub struct View<'a> {
    pub schema: &'a Schema,
    pub state: &'a State,
}

impl View<'_> {
    fn key(&self, table: TableId, index: IndexId, row: &[Value]) -> KeyBytes {
        let mut key = KeyBytes::new();
        for column in &self.schema.table(table).indexes[index].columns {
            if let Some(at) = column.column {
                push_key(&mut key, &row[at], column);
            }
        }
        key
    }

    fn each(&self, table: TableId) -> impl Iterator<Item = (RowRef, &Row)> {
        let numbered = self.state.table(table).iter().enumerate();
        numbered.map(|(at, row)| (RowRef { shard: 0, row: at as u32 }, row))
    }
}

fn contains(range: &KeyRange, key: &[u8]) -> bool {
    let (lower, upper) = (&range.lower, &range.upper);
    let above = key >= &lower.bytes[..] && !(lower.after && key.starts_with(&lower.bytes));
    let below = key < &upper.bytes[..] || (upper.after && key.starts_with(&upper.bytes));
    above && below
}

impl Rows for View<'_> {
    fn schema(&self) -> &Schema {
        self.schema
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        self.each(table).find(|(_, row)| self.key(table, index, row) == *key).map(|(at, _)| at)
    }

    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let keyed = self.each(table).map(|(at, row)| (self.key(table, index, row), at));
        let mut rows: Vec<(KeyBytes, RowRef)> = keyed.filter(|(key, _)| contains(range, key)).collect();
        rows.sort();
        if reverse {
            rows.reverse();
        }
        for (_, row) in rows {
            if visit(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        for (row, _) in self.each(table) {
            if visit(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        self.state.table(table)[row.row as usize][column].clone()
    }

    fn row_count(&self, table: TableId) -> usize {
        self.state.table(table).len()
    }
}
