//! The rows of a shard as a transaction sees them that has not committed: the tables with its write set merged in.

use std::ops::ControlFlow;

use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

use super::{TableWrites, WriteSet};
use crate::storage::Storage;
use crate::storage::index::Cursor;
use crate::storage::key::{KeyBytes, KeyRange};
use crate::storage::rows::{RowRef, Rows, Visit};
use crate::storage::schema::{IndexId, Schema, TableSchema};
use crate::storage::table::TableStore;

/// Cost: that of the tables, and of looking up each row that is found in the write set.
#[derive(Clone, Copy, Debug)]
pub struct MergedRows<'a> {
    pub base: &'a Storage,
    pub own: &'a WriteSet,
}

/// One table of it.
#[derive(Clone, Copy)]
struct Merged<'a> {
    store: &'a TableStore,
    schema: &'a TableSchema,
    writes: &'a TableWrites,
}

impl<'a> MergedRows<'a> {
    /// None: nothing of the table has been written.
    fn merged(&self, table: TableId) -> Option<Merged<'a>> {
        let writes = self.own.table(table).filter(|writes| !writes.entries.is_empty())?;
        let store = &self.base.tables[table];
        Some(Merged { store, schema: self.base.schema.table(table), writes })
    }

    /// The row's bytes, if it is there.
    pub fn packed(&self, table: TableId, row: u32) -> Option<&'a [u8]> {
        match self.own.entry(table, row) {
            Some(entry) => entry.after.as_deref(),
            None => self.base.packed(table, row),
        }
    }
}

impl Merged<'_> {
    /// The table's own index has the row where the transaction finds it, too.
    fn is_in_place(&self, index: IndexId, row: u32) -> bool {
        match self.writes.get(row) {
            None => true,
            Some(entry) => {
                entry.after.is_some() && !self.writes.is_displaced(self.store, self.schema, index, entry)
            }
        }
    }

    fn key(&self, index: IndexId, packed: &[u8], row: u32) -> KeyBytes {
        self.store.key(self.schema, index, packed, row)
    }

    /// The displaced rows in the range with their keys, in the order of these.
    fn displaced(&self, index: IndexId, range: &KeyRange) -> Vec<(KeyBytes, u32)> {
        if self.writes.has_few() {
            let entries = self.writes.entries.iter();
            let displaced =
                entries.filter(|entry| self.writes.is_displaced(self.store, self.schema, index, entry));
            let keyed = displaced
                .filter_map(|entry| Some((self.key(index, entry.after.as_deref()?, entry.row), entry.row)));
            let mut rows: Vec<(KeyBytes, u32)> = keyed.filter(|(key, _)| range.contains(key)).collect();
            rows.sort_unstable();
            return rows;
        }
        let mut rows = Vec::new();
        let tree = self.writes.index(self.store, self.schema, index);
        let visited = tree.range(range, false, &mut |row| {
            let packed = self.writes.get(row).and_then(|entry| entry.after.as_deref());
            rows.extend(packed.map(|packed| (self.key(index, packed, row), row)));
            Ok(ControlFlow::Continue(()))
        });
        visited.map(drop).expect("looking at keys cannot fail");
        rows
    }

    fn get(&self, base: &Storage, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        let found = base.get(table, index, key).filter(|found| self.is_in_place(index, found.row));
        if found.is_some() {
            return found;
        }
        let row = match self.writes.has_few() {
            true => self.displaced(index, &KeyRange::prefix(key.clone())).first().map(|(_, row)| *row),
            false => self.writes.index(self.store, self.schema, index).get(key),
        };
        row.map(|row| RowRef { shard: 0, row })
    }
}

/// Rows that are to be visited among others, the next one last.
struct Pending {
    rows: Vec<(KeyBytes, u32)>,
    reverse: bool,
}

impl Pending {
    /// Visits those that come before `until`; none: all of them.
    fn visit(&mut self, until: Option<&KeyBytes>, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        let comes_before =
            |key: &KeyBytes| until.is_none_or(|until| if self.reverse { key > until } else { key < until });
        while let Some((_, row)) = self.rows.pop_if(|(key, _)| comes_before(key)) {
            if visit(RowRef { shard: 0, row })?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Rows for MergedRows<'_> {
    fn schema(&self) -> &Schema {
        &self.base.schema
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        match self.merged(table) {
            None => self.base.get(table, index, key),
            Some(merged) => merged.get(self.base, table, index, key),
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
        let Some(merged) = self.merged(table) else {
            return self.base.range(table, index, range, reverse, visit);
        };
        let mut rows = merged.displaced(index, range);
        if !reverse {
            rows.reverse();
        }
        let mut pending = Pending { rows, reverse };
        let flow = self.base.range(table, index, range, reverse, &mut |found| {
            if !merged.is_in_place(index, found.row) {
                return Ok(ControlFlow::Continue(()));
            }
            if !pending.rows.is_empty() {
                let packed = merged.store.row(found.row).expect("a row that was just found");
                let key = merged.key(index, packed, found.row);
                if pending.visit(Some(&key), visit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            visit(found)
        })?;
        match flow {
            ControlFlow::Break(()) => Ok(flow),
            ControlFlow::Continue(()) => pending.visit(None, visit),
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
        match self.merged(table) {
            None => self.base.range_ahead(table, index, range, cursor, visit),
            Some(_) => self.range(table, index, range, false, visit),
        }
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        let Some(merged) = self.merged(table) else { return self.base.scan(table, visit) };
        let flow = self.base.scan(table, &mut |found| match merged
            .writes
            .get(found.row)
            .is_some_and(|entry| entry.after.is_none())
        {
            true => Ok(ControlFlow::Continue(())),
            false => visit(found),
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
        for entry in merged.writes.entries.iter().filter(|entry| entry.is_new && entry.after.is_some()) {
            if visit(RowRef { shard: 0, row: entry.row })?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        let packed = self.packed(table, row.row).expect("a row that was just found");
        self.base.tables[table].layout.read(packed, column)
    }

    fn row_count(&self, table: TableId) -> usize {
        let more = self.own.table(table).map_or(0, |writes| writes.rows_more);
        self.base.row_count(table).saturating_add_signed(more as isize)
    }

    fn is_pinned_against(&self, table: TableId, row: RowRef, strength: LockStrength) -> bool {
        self.base.pin_conflicts(table, row.row, strength)
    }
}
