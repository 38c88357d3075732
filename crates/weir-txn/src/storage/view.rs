//! Storages of several shards read as one database while no shard writes: for the check of the invariants after a load and after a run.

use std::ops::ControlFlow;

use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use super::key::KeyRange;
use super::rows::{RowRef, Rows, Visit};
use super::schema::{IndexId, Schema};
use super::{KeyBytes, Storage};

pub struct WholeView<'a> {
    shards: Vec<&'a Storage>,
    /// By table: every shard has all of it, so one copy is looked at.
    replicated: Vec<bool>,
}

impl<'a> WholeView<'a> {
    /// At least one shard; `replicated` by table.
    pub fn new(shards: Vec<&'a Storage>, replicated: Vec<bool>) -> WholeView<'a> {
        assert!(!shards.is_empty(), "a database has a shard");
        WholeView { shards, replicated }
    }

    fn shards(&self, table: TableId) -> impl Iterator<Item = (u16, &'a Storage)> + '_ {
        let count = if self.replicated[table.0 as usize] { 1 } else { self.shards.len() };
        self.shards[..count].iter().enumerate().map(|(shard, storage)| (shard as u16, *storage))
    }

    fn shard(&self, row: RowRef) -> (&'a Storage, RowRef) {
        (self.shards[row.shard as usize], RowRef { shard: 0, row: row.row })
    }
}

impl Rows for WholeView<'_> {
    fn schema(&self) -> &Schema {
        self.shards[0].schema()
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        self.shards(table).find_map(|(shard, storage)| {
            storage.get(table, index, key).map(|row| RowRef { shard, row: row.row })
        })
    }

    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let mut occupied = Vec::new();
        for (shard, storage) in self.shards(table) {
            let found = storage.range(table, index, range, reverse, &mut |_| Ok(ControlFlow::Break(())))?;
            if found.is_break() {
                occupied.push((shard, storage));
            }
        }
        if let [(shard, storage)] = occupied[..] {
            return storage
                .range(table, index, range, reverse, &mut |row| visit(RowRef { shard, row: row.row }));
        }
        // The range spans shards: their rows are put in one order first.
        let mut rows: Vec<(KeyBytes, RowRef)> = Vec::new();
        for (shard, storage) in occupied {
            let _ = storage.range(table, index, range, reverse, &mut |row| {
                rows.push((storage.index_key(table, index, row.row), RowRef { shard, row: row.row }));
                Ok(ControlFlow::Continue(()))
            })?;
        }
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
        for (shard, storage) in self.shards(table) {
            if storage.scan(table, &mut |row| visit(RowRef { shard, row: row.row }))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        let (storage, row) = self.shard(row);
        storage.value(table, row, column)
    }

    fn row_count(&self, table: TableId) -> usize {
        self.shards(table).map(|(_, storage)| storage.row_count(table)).sum()
    }
}
