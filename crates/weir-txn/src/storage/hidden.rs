//! Rows that a commit in progress has put into a table, and that nobody sees yet (docs/internals/write-sets.md, "COMMIT of a large write
//! set").
//!
//! The table and its indexes have such rows as they will be: that is the physical state. Readers see the table without them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use weir_types::SqlError;

use super::index::Cursor;
use super::key::{KeyBytes, KeyRange};
use super::layout::Packed;
use super::schema::{IndexId, TableSchema};
use super::table::TableStore;

#[derive(Debug, Default)]
pub struct Hidden {
    /// Slots of new rows, as runs of consecutive ones: their number by the first.
    new: BTreeMap<u32, u32>,
    /// Number of new rows.
    count: usize,
    /// Changed rows as they were. Each has the keys that it had.
    was: BTreeMap<u32, Packed>,
}

impl Hidden {
    /// Returns whether the row is new.
    pub fn is_new(&self, row: u32) -> bool {
        self.new.range(..=row).next_back().is_some_and(|(first, count)| row - first < *count)
    }

    /// Returns whether the row is new, or changed.
    pub fn has(&self, row: u32) -> bool {
        self.was.contains_key(&row) || self.is_new(row)
    }

    fn add_new(&mut self, row: u32) {
        self.count += 1;
        match self.new.range_mut(..row).next_back() {
            Some((first, count)) if first + *count == row => *count += 1,
            _ => drop(self.new.insert(row, 1)),
        }
    }
}

impl TableStore {
    /// The row as it is seen, where rows are hidden.
    #[cold]
    pub(super) fn seen<'s>(&'s self, hidden: &'s Hidden, row: u32) -> Option<&'s [u8]> {
        match hidden.was.get(&row) {
            Some(was) => Some(was),
            None if hidden.is_new(row) => None,
            None => self.physical(row),
        }
    }

    /// Returns whether the table has no row in the slot, for all that is seen, although an index leads to it.
    #[inline]
    fn hides(&self, row: u32) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| hidden.is_new(row))
    }

    /// Number of new rows that are hidden.
    pub(super) fn hidden_rows(&self) -> usize {
        self.hidden.as_ref().map_or(0, |hidden| hidden.count)
    }

    /// The row with that key in the index.
    #[inline]
    pub fn get(&self, index: IndexId, key: &KeyBytes) -> Option<u32> {
        let found = self.indexes[index].get(key)?;
        match self.hidden {
            None => Some(found),
            Some(_) => self.seen_with(index, key, found),
        }
    }

    #[cold]
    fn seen_with(&self, index: IndexId, key: &KeyBytes, found: u32) -> Option<u32> {
        if !self.hides(found) {
            return Some(found);
        }
        if !self.indexes[index].row_in_key {
            return None;
        }
        let mut seen = None;
        let _ = self.range(index, &KeyRange::prefix(key.clone()), false, &mut |row| {
            seen = Some(row);
            Ok(ControlFlow::Break(()))
        });
        seen
    }

    /// Visits the rows of a range of the index.
    pub fn range(
        &self,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
    ) -> Result<ControlFlow<()>, SqlError> {
        match self.hidden {
            None => self.indexes[index].range(range, reverse, visit),
            Some(_) => self.indexes[index].range(range, reverse, &mut |row| match self.hides(row) {
                true => Ok(ControlFlow::Continue(())),
                false => visit(row),
            }),
        }
    }

    /// See [`super::index::IndexTree::range_ahead`].
    pub fn range_ahead(
        &self,
        index: IndexId,
        range: &KeyRange,
        cursor: &mut Cursor,
        visit: &mut dyn FnMut(u32) -> Result<ControlFlow<()>, SqlError>,
    ) -> Result<ControlFlow<()>, SqlError> {
        match self.hidden {
            None => self.indexes[index].range_ahead(range, cursor, visit),
            Some(_) => self.indexes[index].range_ahead(range, cursor, &mut |row| match self.hides(row) {
                true => Ok(ControlFlow::Continue(())),
                false => visit(row),
            }),
        }
    }

    fn hidden_mut(&mut self) -> &mut Hidden {
        self.hidden.get_or_insert_default()
    }

    /// Puts a new row into its reserved slot, hidden. False: another row has one of its keys, and nothing has changed.
    pub(super) fn fill_hidden(&mut self, schema: &TableSchema, row: u32, packed: Packed) -> bool {
        if self.place(schema, row, packed).is_err() {
            return false;
        }
        self.hidden_mut().add_new(row);
        true
    }

    /// Replaces a row, which stays seen as it was. No index key changes. Returns the row as it was.
    pub(super) fn overwrite_hidden(&mut self, row: u32, packed: Packed) -> &Packed {
        let was = self.put(row, packed);
        self.hidden_mut().was.entry(row).or_insert(was)
    }

    /// Returns whether the slot has a hidden row, or a hidden row has one of the unique keys.
    pub(super) fn meets_hidden(&self, schema: &TableSchema, row: u32, packed: Option<&[u8]>) -> bool {
        let Some(hidden) = &self.hidden else { return false };
        let owner = |index: IndexId, packed: &[u8]| {
            let key = self.unique_key(schema, index, packed)?;
            self.indexes[index].get(&key)
        };
        let has_key = |packed: &[u8]| {
            (0..self.indexes.len()).any(|index| owner(index, packed).is_some_and(|row| hidden.has(row)))
        };
        hidden.has(row) || packed.is_some_and(has_key)
    }
}
