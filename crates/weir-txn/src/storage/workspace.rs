//! Target of one run of a call or statement: the tables themselves, if the run commits or is undone at once; or its transaction's write
//! set on top of the tables, or of what they were when a worker began.

use std::ops::ControlFlow;

use weir_core::ids::Timestamp;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use super::index::Cursor;
use super::key::{KeyBytes, KeyRange};
use super::moment::Moment;
use super::rows::{RowRef, Rows, Visit};
use super::schema::{IndexId, Schema};
use super::temporary::TemporaryFiles;
use super::write_set::{MergedRows, WriteSet};
use super::{Operation, Storage};

/// Invariant: but for those in place, a run changes no row, index or history of the tables; it only reserves slots there.
#[derive(Debug)]
pub struct Workspace<'a> {
    target: Target<'a>,
}

enum Target<'a> {
    Tables(&'a mut Storage),
    WriteSet(&'a mut Storage, &'a mut WriteSet),
    /// A write set on top of the tables as they were.
    Moment(&'a Moment),
}

impl std::fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Target::Tables(_) => "Tables",
            Target::WriteSet(..) => "WriteSet",
            Target::Moment(_) => "Moment",
        })
    }
}

impl<'a> Workspace<'a> {
    /// A workspace whose writes change the tables at once.
    pub fn in_place(base: &'a mut Storage) -> Workspace<'a> {
        Workspace { target: Target::Tables(base) }
    }

    /// A workspace whose writes go to the write set.
    pub fn beside(base: &'a mut Storage, own: &'a mut WriteSet) -> Workspace<'a> {
        Workspace { target: Target::WriteSet(base, own) }
    }

    /// A workspace of a worker, whose writes go to the write set of its moment.
    pub fn at(moment: &'a Moment) -> Workspace<'a> {
        Workspace { target: Target::Moment(moment) }
    }

    /// Calls `f` with the tables without the write set, as they are now.
    pub fn with_committed<R>(&self, f: impl FnOnce(&Storage) -> R) -> R {
        match &self.target {
            Target::Tables(base) | Target::WriteSet(base, _) => f(base),
            Target::Moment(moment) => moment.with_committed(f),
        }
    }

    /// Rows that queries read. Without a write set they are the tables, so that no row access tests for one.
    pub fn rows(&self) -> &dyn Rows {
        match &self.target {
            Target::Tables(base) => &**base,
            Target::WriteSet(..) => self,
            Target::Moment(moment) => *moment,
        }
    }

    /// Returns whether writes change the tables at once.
    pub fn is_in_place(&self) -> bool {
        matches!(self.target, Target::Tables(_))
    }

    /// Calls `f` with the write set, if there is one.
    pub fn with_own<R>(&self, f: impl FnOnce(&WriteSet) -> R) -> Option<R> {
        match &self.target {
            Target::Tables(_) => None,
            Target::WriteSet(_, own) => Some(f(own)),
            Target::Moment(moment) => Some(moment.with_own(f)),
        }
    }

    /// Returns whether the transaction has inserted the row; always false for writes in place.
    pub fn is_new(&self, table: TableId, row: u32) -> bool {
        match &self.target {
            Target::Tables(_) => false,
            Target::WriteSet(_, own) => own.is_new(table, row),
            Target::Moment(moment) => moment.is_new(table, row),
        }
    }

    /// Inserts a row. Errors: unique violation (23505), or out of memory; then nothing has changed.
    pub fn insert(
        &mut self,
        table: TableId,
        values: &[Value],
        timestamp: Timestamp,
    ) -> Result<u32, SqlError> {
        match &mut self.target {
            Target::Tables(base) => base.insert(table, values, timestamp),
            Target::WriteSet(base, own) => own.insert(base, table, values, timestamp),
            Target::Moment(moment) => moment.insert(table, values, timestamp),
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
        match &mut self.target {
            Target::Tables(base) => base.update(table, row, changes, timestamp, operation),
            Target::WriteSet(base, own) => own.update(base, (table, row), changes, timestamp),
            Target::Moment(moment) => moment.update(table, row, changes, timestamp),
        }
    }

    /// # Errors
    /// Only of a worker that must end.
    pub fn delete(&mut self, table: TableId, row: u32, timestamp: Timestamp) -> Result<(), SqlError> {
        match &mut self.target {
            Target::Tables(base) => base.delete(table, row, timestamp),
            Target::WriteSet(base, own) => own.delete(base, table, row),
            Target::Moment(moment) => return moment.delete(table, row),
        }
        Ok(())
    }

    /// Checks that a write may begin.
    ///
    /// # Errors
    /// 53100.
    pub fn check_disk(&self) -> Result<(), SqlError> {
        self.with_committed(Storage::check_disk)
    }

    /// Bytes of the row, if it exists. Only for writes in place.
    pub fn packed_in_place(&self, table: TableId, row: u32) -> Option<&[u8]> {
        match &self.target {
            Target::Tables(base) => base.packed(table, row),
            Target::WriteSet(..) | Target::Moment(_) => unreachable!("its writes are not in place"),
        }
    }

    /// Returns whether the row exists.
    pub fn exists(&self, table: TableId, row: u32) -> bool {
        match &self.target {
            Target::Tables(base) => base.packed(table, row).is_some(),
            Target::WriteSet(base, own) => MergedRows { base, own }.packed(table, row).is_some(),
            Target::Moment(moment) => moment.exists(table, row),
        }
    }

    /// Returns whether an update must pass its operation: a write in place of a pinned row.
    pub fn wants_operation(&self, table: TableId, row: u32) -> bool {
        match &self.target {
            Target::Tables(base) => base.is_pinned(table, row),
            Target::WriteSet(..) | Target::Moment(_) => false,
        }
    }

    pub fn pin_conflicts(&self, table: TableId, row: u32, strength: LockStrength) -> bool {
        self.with_committed(|base| base.pin_conflicts(table, row, strength))
    }

    pub fn look_ahead(&self, keys: &[(TableId, IndexId, KeyBytes)]) {
        self.with_committed(|base| base.look_ahead(keys));
    }

    pub fn ask_existence(&self, does: bool) {
        match &self.target {
            Target::Tables(base) | Target::WriteSet(base, _) => base.ask_existence(does),
            // The reply of a worker waits for all that was noted at its moment.
            Target::Moment(_) => {}
        }
    }
}

impl Rows for Workspace<'_> {
    fn schema(&self) -> &Schema {
        match &self.target {
            Target::Tables(base) | Target::WriteSet(base, _) => &base.schema,
            Target::Moment(moment) => moment.schema(),
        }
    }

    fn temporary_files(&self) -> Option<&dyn TemporaryFiles> {
        match &self.target {
            Target::Tables(_) | Target::WriteSet(..) => None,
            Target::Moment(moment) => moment.temporary_files(),
        }
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        match &self.target {
            Target::Tables(base) => base.get(table, index, key),
            Target::WriteSet(base, own) => MergedRows { base, own }.get(table, index, key),
            Target::Moment(moment) => moment.get(table, index, key),
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
        match &self.target {
            Target::Tables(base) => base.range(table, index, range, reverse, visit),
            Target::WriteSet(base, own) => {
                MergedRows { base, own }.range(table, index, range, reverse, visit)
            }
            Target::Moment(moment) => moment.range(table, index, range, reverse, visit),
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
        match &self.target {
            Target::Tables(base) => base.range_ahead(table, index, range, cursor, visit),
            Target::WriteSet(base, own) => {
                MergedRows { base, own }.range_ahead(table, index, range, cursor, visit)
            }
            Target::Moment(moment) => moment.range_ahead(table, index, range, cursor, visit),
        }
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        match &self.target {
            Target::Tables(base) => base.scan(table, visit),
            Target::WriteSet(base, own) => MergedRows { base, own }.scan(table, visit),
            Target::Moment(moment) => moment.scan(table, visit),
        }
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        match &self.target {
            Target::Tables(base) => base.value(table, row, column),
            Target::WriteSet(base, own) => MergedRows { base, own }.value(table, row, column),
            Target::Moment(moment) => moment.value(table, row, column),
        }
    }

    fn row_count(&self, table: TableId) -> usize {
        match &self.target {
            Target::Tables(base) => base.row_count(table),
            Target::WriteSet(base, own) => MergedRows { base, own }.row_count(table),
            Target::Moment(moment) => moment.row_count(table),
        }
    }

    fn is_pinned_against(&self, table: TableId, row: RowRef, strength: LockStrength) -> bool {
        match &self.target {
            Target::Tables(base) => base.is_pinned_against(table, row, strength),
            Target::WriteSet(base, own) => MergedRows { base, own }.is_pinned_against(table, row, strength),
            Target::Moment(moment) => moment.is_pinned_against(table, row, strength),
        }
    }
}
