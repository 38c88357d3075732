//! Incremental copy of the rows of one moment while writes continue: the first change of a row that has not been copied yet saves its old
//! state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use weir_sql::catalog::TableId;

use super::Storage;
use super::layout::Packed;
use super::table::TableStore;

/// Copy in progress of one table.
#[derive(Debug)]
pub(super) struct Saved {
    /// Slots below this one have been copied.
    from: u32,
    /// Number of slots at the moment of the copy.
    until: u32,
    /// Old contents of slots that have changed since that moment.
    before: BTreeMap<u32, Option<Packed>>,
}

/// Rows of a table in consecutive slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedRows {
    table: TableId,
    first: u32,
    rows: Vec<Option<ByteBuf>>,
}

impl Saved {
    pub fn is_wanted(&self, row: u32) -> bool {
        (self.from..self.until).contains(&row) && !self.before.contains_key(&row)
    }

    pub fn keep(&mut self, row: u32, packed: Option<Packed>) {
        self.before.insert(row, packed);
    }
}

impl TableStore {
    /// Copies the next rows, about `bytes_max` bytes and at least one row; none: all are copied.
    fn saved_rows(&mut self, table: TableId, bytes_max: usize) -> Option<SavedRows> {
        let mut saved = self.saved.take()?;
        let first = saved.from;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while saved.from < saved.until && bytes < bytes_max {
            let row = match saved.before.remove(&saved.from) {
                Some(before) => before.map(|row| ByteBuf::from(row.into_vec())),
                None => self.row(saved.from).map(ByteBuf::from),
            };
            bytes += 1 + row.as_ref().map_or(0, |row| row.len());
            rows.push(row);
            saved.from += 1;
        }
        self.saved = (saved.from < saved.until).then_some(saved);
        (!rows.is_empty()).then_some(SavedRows { table, first, rows })
    }
}

impl Storage {
    /// Begins a copy of all rows as they are now.
    pub fn begin_saving(&mut self) {
        self.tables.for_each(&mut |_, store| {
            let until = store.slots();
            store.saved = (until > 0).then(|| Box::new(Saved { from: 0, until, before: BTreeMap::new() }));
        });
    }

    /// Returns whether rows remain to be copied.
    pub fn is_saving(&self) -> bool {
        self.tables.all().any(|(_, store)| store.saved.is_some())
    }

    /// Copies the next rows, about `bytes_max` bytes.
    pub fn saved_rows(&mut self, bytes_max: usize) -> Option<SavedRows> {
        let (table, _) = self.tables.all().find(|(_, store)| store.saved.is_some())?;
        self.tables[table].saved_rows(table, bytes_max)
    }

    /// Abandons the copy.
    pub fn end_saving(&mut self) {
        self.tables.for_each(&mut |_, store| store.saved = None);
    }

    /// Restores copied rows into their slots.
    pub fn restore_saved(&mut self, saved: SavedRows) {
        let SavedRows { table, first, rows } = saved;
        let (schema, store) = (self.schema.table(table), &mut self.tables[table]);
        for (row, packed) in (first..).zip(rows) {
            if let Some(packed) = packed {
                store.restore(schema, row, packed.into_vec().into());
            }
        }
    }
}
