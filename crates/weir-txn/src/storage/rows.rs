//! What the executor may ask of storage: rows by index or by scan, and their columns.
//!
//! One shard's storage implements it, and so does a set of shards that is looked at as a whole (the
//! check of the invariants after a run).

use std::ops::ControlFlow;

use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use super::index::Cursor;
use super::key::{KeyBytes, KeyRange};
use super::schema::{IndexId, Schema};

/// A row of one table: valid until that table is next written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowRef {
    /// Which of the shards that are looked at together; 0 where there is one.
    pub shard: u16,
    pub row: u32,
}

/// Called once per row; `Break` ends the visit early.
pub type Visit<'a> = &'a mut dyn FnMut(RowRef) -> Result<ControlFlow<()>, SqlError>;

pub trait Rows: Sync {
    fn schema(&self) -> &Schema;

    /// The row that has exactly this key in a unique index.
    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef>;

    /// The rows whose index key lies in the range, in key order (descending if `reverse`).
    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError>;

    /// The same forwards for ranges that come in the order of their keys, if they do: `cursor` is where the last one ended, and nothing
    /// else is asked with it.
    fn range_ahead(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        _cursor: &mut Cursor,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        self.range(table, index, range, false, visit)
    }

    /// All rows of the table, in no promised order (but the same order for the same history).
    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError>;

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value;

    /// The bytes of a text column without a copy; `None` is NULL. Only for text, varchar and char(n).
    fn text(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Option<&str>;

    /// How many rows the table has, for join order and buffer sizes.
    fn row_count(&self, table: TableId) -> usize;

    /// Somebody has prepared a write of the row that whoever wants to hold it so has to wait for.
    fn is_pinned_against(&self, _table: TableId, _row: RowRef, _strength: LockStrength) -> bool {
        false
    }
}

/// No rows at all: for expressions that read nothing but their frame.
pub struct NoRows;

impl Rows for NoRows {
    fn schema(&self) -> &Schema {
        static NOTHING: Schema = Schema { tables: Vec::new() };
        &NOTHING
    }

    fn get(&self, _: TableId, _: IndexId, _: &KeyBytes) -> Option<RowRef> {
        None
    }

    fn range(
        &self,
        _: TableId,
        _: IndexId,
        _: &KeyRange,
        _: bool,
        _: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        Ok(ControlFlow::Continue(()))
    }

    fn scan(&self, _: TableId, _: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        Ok(ControlFlow::Continue(()))
    }

    fn value(&self, _: TableId, _: RowRef, _: ColumnIndex) -> Value {
        Value::Null
    }

    fn text(&self, _: TableId, _: RowRef, _: ColumnIndex) -> Option<&str> {
        None
    }

    fn row_count(&self, _: TableId) -> usize {
        0
    }
}
