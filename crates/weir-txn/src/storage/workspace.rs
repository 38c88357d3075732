//! Target of one run of a call or statement: the tables themselves, if the run commits or is undone at once; or its transaction's write
//! set on top of the tables.

use std::ops::ControlFlow;

use weir_core::ids::Timestamp;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use super::index::Cursor;
use super::key::{KeyBytes, KeyRange};
use super::rows::{RowRef, Rows, Visit};
use super::schema::{IndexId, Schema};
use super::write_set::{MergedRows, WriteSet};
use super::{Operation, Storage};

/// Invariant: with a write set, a run changes no row, index or history of the tables; it only reserves slots there.
#[derive(Debug)]
pub struct Workspace<'a> {
    base: &'a mut Storage,
    own: Option<&'a mut WriteSet>,
}

impl<'a> Workspace<'a> {
    /// A workspace whose writes change the tables at once.
    pub fn in_place(base: &'a mut Storage) -> Workspace<'a> {
        Workspace { base, own: None }
    }

    /// A workspace whose writes go to the write set.
    pub fn beside(base: &'a mut Storage, own: &'a mut WriteSet) -> Workspace<'a> {
        Workspace { base, own: Some(own) }
    }

    /// The tables without the write set.
    pub fn base(&self) -> &Storage {
        self.base
    }

    /// Rows that queries read. Without a write set they are the tables, so that no row access tests for one.
    pub fn rows(&self) -> &dyn Rows {
        match self.own {
            None => &*self.base,
            Some(_) => self,
        }
    }

    /// The write set, if there is one.
    pub fn own(&self) -> Option<&WriteSet> {
        self.own.as_deref()
    }

    fn merged(&self) -> Option<MergedRows<'_>> {
        Some(MergedRows { base: self.base, own: self.own.as_deref()? })
    }

    /// Returns whether the transaction has inserted the row; always false for writes in place.
    pub fn is_new(&self, table: TableId, row: u32) -> bool {
        self.own.as_deref().is_some_and(|own| own.is_new(table, row))
    }

    /// Inserts a row. Errors: unique violation (23505), or out of memory; then nothing has changed.
    pub fn insert(
        &mut self,
        table: TableId,
        values: &[Value],
        timestamp: Timestamp,
    ) -> Result<u32, SqlError> {
        match &mut self.own {
            None => self.base.insert(table, values, timestamp),
            Some(own) => own.insert(self.base, table, values, timestamp),
        }
    }

    /// Assigns columns of a row; see [`Storage::update`].
    pub fn update(
        &mut self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
        timestamp: Timestamp,
        operation: Option<Operation>,
    ) -> Result<(), SqlError> {
        match &mut self.own {
            None => self.base.update(table, row, changes, timestamp, operation),
            Some(own) => own.update(self.base, (table, row), changes, timestamp),
        }
    }

    pub fn delete(&mut self, table: TableId, row: u32, timestamp: Timestamp) {
        match &mut self.own {
            None => self.base.delete(table, row, timestamp),
            Some(own) => own.delete(self.base, table, row),
        }
    }

    /// Checks that a write may begin.
    ///
    /// # Errors
    /// 53100.
    pub fn check_disk(&self) -> Result<(), SqlError> {
        self.base.check_disk()
    }

    /// Bytes of the row, if it exists.
    pub fn packed(&self, table: TableId, row: u32) -> Option<&[u8]> {
        match self.merged() {
            None => self.base.packed(table, row),
            Some(merged) => merged.packed(table, row),
        }
    }

    /// Returns whether an update must pass its operation: a write in place of a pinned row.
    pub fn wants_operation(&self, table: TableId, row: u32) -> bool {
        self.own.is_none() && self.base.is_pinned(table, row)
    }

    pub fn pin_conflicts(&self, table: TableId, row: u32, strength: LockStrength) -> bool {
        self.base.pin_conflicts(table, row, strength)
    }

    pub fn look_ahead(&self, keys: &[(TableId, IndexId, KeyBytes)]) {
        self.base.look_ahead(keys);
    }

    pub fn ask_existence(&self, does: bool) {
        self.base.ask_existence(does);
    }
}

impl Rows for Workspace<'_> {
    fn schema(&self) -> &Schema {
        &self.base.schema
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        match self.merged() {
            None => self.base.get(table, index, key),
            Some(merged) => merged.get(table, index, key),
        }
    }

    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        match self.merged() {
            None => self.base.range(table, index, range, reverse, visit),
            Some(merged) => merged.range(table, index, range, reverse, visit),
        }
    }

    fn range_ahead(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        cursor: &mut Cursor,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        match self.merged() {
            None => self.base.range_ahead(table, index, range, cursor, visit),
            Some(merged) => merged.range_ahead(table, index, range, cursor, visit),
        }
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        match self.merged() {
            None => self.base.scan(table, visit),
            Some(merged) => merged.scan(table, visit),
        }
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        match self.merged() {
            None => self.base.value(table, row, column),
            Some(merged) => merged.value(table, row, column),
        }
    }

    fn row_count(&self, table: TableId) -> usize {
        match self.merged() {
            None => self.base.row_count(table),
            Some(merged) => merged.row_count(table),
        }
    }

    fn is_pinned_against(&self, table: TableId, row: RowRef, strength: LockStrength) -> bool {
        self.base.pin_conflicts(table, row.row, strength)
    }
}
