//! Records the reads of a statement of a serializable transaction, as intervals of keys (docs/internals/serializable.md).
//!
//! The executor finds rows through [`Rows`] alone, so whatever its plan is, the look-ups, ranges and scans that it makes are all that it
//! has learned of the tables: of rows that are there, and of those that are not.

use std::cell::RefCell;
use std::ops::ControlFlow;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use crate::claims::Interval;
use crate::storage::temporary::TemporaryFiles;
use crate::storage::{Cursor, IndexId, KeyBytes, KeyRange, RowRef, Rows, Schema, Visit};

/// Number of intervals of one table that a statement records one by one; then it is taken to have read the table.
const INTERVALS_OF_TABLE_MAX: usize = 1_024;

/// The intervals that one run has read.
#[derive(Debug, Default)]
pub struct Reads(RefCell<FxHashMap<TableId, FxHashSet<Interval>>>);

impl Reads {
    pub fn add(&self, table: TableId, interval: Interval) {
        let mut tables = self.0.borrow_mut();
        let of = tables.entry(table).or_default();
        if of.contains(&Interval::Table) {
            return;
        }
        if interval == Interval::Table || of.len() >= INTERVALS_OF_TABLE_MAX {
            of.clear();
            of.insert(Interval::Table);
        } else {
            of.insert(interval);
        }
    }

    /// All that was recorded, in the order of tables.
    pub fn take(&self) -> Vec<(TableId, Interval)> {
        let mut tables: Vec<_> = self.0.take().into_iter().collect();
        tables.sort_unstable_by_key(|(table, _)| *table);
        let all = |(table, of): (TableId, FxHashSet<Interval>)| of.into_iter().map(move |one| (table, one));
        tables.into_iter().flat_map(all).collect()
    }
}

/// Rows that record what is read of them.
pub struct RecordedRows<'a> {
    pub rows: &'a dyn Rows,
    pub reads: &'a Reads,
}

impl Rows for RecordedRows<'_> {
    fn schema(&self) -> &Schema {
        self.rows.schema()
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        self.reads.add(table, Interval::Key(index, key.clone()));
        self.rows.get(table, index, key)
    }

    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        self.reads.add(table, Interval::Range(index, range.clone()));
        self.rows.range(table, index, range, reverse, visit)
    }

    fn range_ahead(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        cursor: &mut Cursor,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        self.reads.add(table, Interval::Range(index, range.clone()));
        self.rows.range_ahead(table, index, range, cursor, visit)
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        self.reads.add(table, Interval::Table);
        self.rows.scan(table, visit)
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        self.rows.value(table, row, column)
    }

    fn row_count(&self, table: TableId) -> usize {
        self.rows.row_count(table)
    }

    fn temporary_files(&self) -> Option<&dyn TemporaryFiles> {
        self.rows.temporary_files()
    }

    fn is_pinned_against(&self, table: TableId, row: RowRef, strength: LockStrength) -> bool {
        self.rows.is_pinned_against(table, row, strength)
    }
}
