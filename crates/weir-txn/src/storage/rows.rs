//! The interface of storage to the executor: rows by index or by scan, and their columns.
//!
//! Implemented by one shard's storage, and by a set of shards that is read as a whole (the check of the invariants after a run).

use std::ops::ControlFlow;

use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use super::index::Cursor;
use super::key::{KeyBytes, KeyRange};
use super::schema::{IndexId, Schema};
use super::temporary::TemporaryFiles;

/// Reference to a row of one table; valid until that table is next written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowRef {
    /// Number among the shards that are read together; 0 for a single one.
    pub shard: u16,
    pub row: u32,
}

/// Called once per row; `Break` ends the visit early.
pub type Visit<'a> = &'a mut dyn FnMut(RowRef) -> Result<ControlFlow<()>, SqlError>;

pub trait Rows {
    fn schema(&self) -> &Schema;

    /// The row with exactly this key in a unique index.
    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef>;

    /// Visits the rows whose index key is in the range, in key order (descending if `reverse`).
    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError>;

    /// Like an ascending [`Rows::range`], faster for ranges that come in key order. `cursor` remembers the start of the previous range; it
    /// must be used for one index only.
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

    /// Visits all rows of the table. The order is unspecified but deterministic for the same history.
    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError>;

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value;

    /// Number of rows of the table, for join order and buffer sizes.
    fn row_count(&self, table: TableId) -> usize;

    /// Temporary files for what a statement over these rows does not hold in memory. None: it holds everything in memory, for it may not
    /// wait for a disk.
    fn temporary_files(&self) -> Option<&dyn TemporaryFiles> {
        None
    }

    /// Returns whether a prepared write of the row conflicts with a lock of that strength.
    fn is_pinned_against(&self, _table: TableId, _row: RowRef, _strength: LockStrength) -> bool {
        false
    }
}

/// An empty set of tables, for expressions that read only their frame.
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

    fn row_count(&self, _: TableId) -> usize {
        0
    }
}
