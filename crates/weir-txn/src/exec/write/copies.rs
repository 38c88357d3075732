//! Tables that every shard has a copy of (`COMMENT ON TABLE … IS 'weir: replicated'`). A write of one runs at one shard, which the router chooses,
//! the same for all; that shard derives from each row what the others do with their copies (docs/internals/global-keys.md, 3.12).
//!
//! Invariants. All copies have the same rows when no transaction is under way. Writers of a row meet where it is written first, and are in that
//! order everywhere: who writes a copy waits for those before it that are still prepared there. Values are computed once, and checks of rows are
//! made once; each shard takes care of the children that it has itself.

use std::ops::ControlFlow;

use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, SqlState, Value};

use super::key_of;
use crate::claims::Holders;
use crate::exec::call::{Run, Stop};
use crate::faults::Faults;
use crate::message::Derived;
use crate::storage::{ColumnChange, ColumnOperation, Operation, RowRef, Rows as _};

/// One write of a copied row: as it was, and as it is.
pub(super) type CopiedWrite<'w> = (Option<&'w [Value]>, Option<&'w [Value]>);

impl<F: Faults> Run<'_, F> {
    /// Returns whether other shards have copies of the table's rows, and are to write them.
    pub(super) fn is_copied(&self, table: TableId) -> bool {
        let program = self.fragment.program;
        program.shards > 1 && program.partition(table).is_none() && !self.is_copying
    }

    /// The row as it is now, if it is copied.
    pub(super) fn copied_row(&self, table: TableId, row: u32) -> Option<Vec<Value>> {
        self.is_copied(table).then(|| self.row_values(table, row))
    }

    pub(super) fn row_values(&self, table: TableId, row: u32) -> Vec<Value> {
        let columns = 0..self.fragment.program.schema.table(table).types.len();
        let storage = &self.fragment.storage;
        columns.map(|column| storage.value(table, RowRef { shard: 0, row }, column)).collect()
    }

    /// Lets the other shards write their copies of a row.
    pub(super) fn derive_copy(&mut self, table: TableId, old: Option<Vec<Value>>, new: Option<Vec<Value>>) {
        let (number, from) = (self.ran.derived.len() as u32, self.fragment.here);
        self.ran.derived.push(Derived::Copy { number, from, table, old, new });
    }

    /// Writes this shard's copy of a row.
    pub(super) fn write_copy(&mut self, table: TableId, (old, new): CopiedWrite<'_>) -> Result<(), Stop> {
        self.wait_for_prepared_writers(table)?;
        self.is_copying = true;
        let written = match (old, new) {
            (None, Some(new)) => self.insert_copy(table, new),
            (Some(old), new) => self.change_copy(table, old, new),
            (None, None) => Ok(()),
        };
        self.is_copying = false;
        written
    }

    /// Those may have committed where the row was written first.
    fn wait_for_prepared_writers(&self, table: TableId) -> Result<(), Stop> {
        if self.fragment.bugs.misses_prepared_copies() {
            return Ok(());
        }
        let mut holders = Holders::new();
        (self.fragment.prepared)(&mut |txn, writes| {
            if writes.iter().any(|write| write.table == table) {
                holders.push(txn);
            }
        });
        self.wait_for_prepared(holders)
    }

    fn insert_copy(&mut self, table: TableId, new: &[Value]) -> Result<(), Stop> {
        self.claim_table(table)?;
        self.claim_keys(table, new)?;
        self.check_readers(table, None, Some(&|column| new[column].clone()))?;
        self.put_row(table, new).map(drop)
    }

    fn change_copy(&mut self, table: TableId, old: &[Value], new: Option<&[Value]>) -> Result<(), Stop> {
        let row = self.copy_of(table, old)?.ok_or_else(no_copy)?;
        let Some(new) = new else {
            self.claim_row(table, row, LockStrength::Update)?;
            return self.delete_row(table, row);
        };
        self.claim_row(table, row, LockStrength::NoKeyUpdate)?;
        self.on_parent_change(table, row, Some(new))?;
        let changes: Vec<(ColumnIndex, Value)> =
            new.iter().cloned().enumerate().filter(|(column, value)| old[*column] != *value).collect();
        let columns = changes.iter().map(|(column, value)| ColumnOperation {
            column: *column,
            change: ColumnChange::Assign(value.clone()),
        });
        let operation = Operation::Update(columns.collect());
        self.write_update(table, row, &changes, Some(operation), false)
    }

    /// This shard's copy of a row. Of rows that are alike in all columns any will do.
    fn copy_of(&self, table: TableId, values: &[Value]) -> Result<Option<u32>, SqlError> {
        let storage = &self.fragment.storage;
        let schema = self.fragment.program.schema.table(table);
        for (at, index) in schema.indexes.iter().enumerate().filter(|(_, index)| index.unique) {
            if let Some(key) = key_of(index, &|column| values[column].clone()) {
                return Ok(storage.get(table, at, &key).map(|found| found.row));
            }
        }
        let mut found = None;
        let _ = storage.scan(table, &mut |row| {
            let is_same =
                values.iter().enumerate().all(|(at, value)| storage.value(table, row, at) == *value);
            if is_same {
                found = Some(row.row);
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Puts a row into the table, whose keys are claimed.
    pub(super) fn put_row(&mut self, table: TableId, values: &[Value]) -> Result<u32, Stop> {
        match self.fragment.storage.insert(table, values, self.fragment.timestamp) {
            Ok(row) => Ok(row),
            Err(error) => {
                if error.state() == SqlState::UNIQUE_VIOLATION {
                    self.wait_for_keys(table, &|column| values[column].clone())?;
                }
                Err(error.into())
            }
        }
    }
}

fn no_copy() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a row that every shard has a copy of is not here")
}
