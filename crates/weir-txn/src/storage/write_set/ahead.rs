//! A large write set on its way into the tables, slice by slice, where nobody sees it (docs/internals/write-sets.md, "COMMIT of a large write
//! set").

use weir_core::ids::{Position, Timestamp};
use weir_sql::catalog::TableId;

use super::apply::dated;
use super::{Entry, WriteSet};
use crate::storage::Storage;
use crate::storage::hidden::Hidden;
use crate::storage::history::{Batch, Change, RowState};
use crate::storage::layout::Packed;
use crate::storage::logged::LoggedRow;

/// How far a write set has been put into the tables.
#[derive(Debug, Default)]
pub struct Ahead {
    /// The next entry: its table among those of the write set, and its place there.
    next: (usize, usize),
    /// Entries that are left for the last step.
    left: Vec<(TableId, Vec<Entry>)>,
    /// The changes so far.
    batch: Batch,
    /// Tables with hidden rows.
    tables: Vec<TableId>,
    /// Images of the rows of the last slice.
    logged: Vec<LoggedRow>,
    /// The transaction is prepared: rows that were there before may have to be folded, so they are left.
    new_rows_only: bool,
}

/// What is not needed any more. To drop it takes time in proportion to its rows.
#[derive(Debug, Default)]
pub struct Leftovers {
    _own: WriteSet,
    _hidden: Vec<Hidden>,
    _history: Vec<Batch>,
}

impl Ahead {
    pub fn of_prepared() -> Ahead {
        Ahead { new_rows_only: true, ..Ahead::default() }
    }

    /// Takes the images of the rows of the last slice.
    pub fn take_logged(&mut self) -> Vec<LoggedRow> {
        std::mem::take(&mut self.logged)
    }

    /// Tables that have hidden rows.
    pub fn tables(&self) -> &[TableId] {
        &self.tables
    }

    fn leave(&mut self, table: TableId, entry: &Entry) {
        match self.left.last_mut() {
            Some((of, entries)) if *of == table => entries.push(entry.clone()),
            _ => self.left.push((table, vec![entry.clone()])),
        }
    }

    fn hide(&mut self, change: Change, logged: LoggedRow) {
        if self.tables.last() != Some(&change.table) && !self.tables.contains(&change.table) {
            self.tables.push(change.table);
        }
        self.batch.push(change);
        self.logged.push(logged);
    }
}

/// Entries of one table that follow each other in a write set.
type Slice<'a> = (TableId, &'a [Entry]);

/// A table of a write set, by position, and one of its entries.
type Place = (usize, usize);

impl WriteSet {
    /// The entries from a place on, at most so many, and the next place; none: there are no more.
    fn entries_from(&self, (table, at): Place, most: usize) -> (Option<Slice<'_>>, Option<Place>) {
        let Some((id, writes)) = self.tables.get(table) else { return (None, None) };
        let end = writes.entries.len().min(at.saturating_add(most));
        let next = if end < writes.entries.len() { (table, end) } else { (table + 1, 0) };
        (Some((*id, &writes.entries[at..end])), (next.0 < self.tables.len()).then_some(next))
    }
}

impl Storage {
    /// Puts the next entries of the write set into the tables, hidden, as of `timestamp`; at most `most` of them. Returns whether there are
    /// more.
    pub fn apply_ahead(
        &mut self,
        own: &WriteSet,
        ahead: &mut Ahead,
        timestamp: Timestamp,
        most: usize,
    ) -> bool {
        let (slice, next) = own.entries_from(ahead.next, most);
        for (table, entry) in
            slice.into_iter().flat_map(|(table, entries)| entries.iter().map(move |one| (table, one)))
        {
            if !self.put_ahead(table, entry, ahead, timestamp) {
                ahead.leave(table, entry);
            }
        }
        ahead.next = next.unwrap_or((own.tables.len(), 0));
        next.is_some()
    }

    /// Puts the entry's row into the table, hidden; returns false, and changes nothing, if it is to be left.
    fn put_ahead(&mut self, table: TableId, entry: &Entry, ahead: &mut Ahead, timestamp: Timestamp) -> bool {
        let Some(after) = &entry.after else { return false };
        let row = entry.row;
        let after = dated(after.clone(), timestamp);
        match entry.is_new {
            true => self.insert_ahead((table, row), after, ahead, timestamp),
            false if ahead.new_rows_only || self.is_pinned(table, row) => false,
            false => self.replace_ahead((table, row), after, ahead, timestamp),
        }
    }

    fn insert_ahead(
        &mut self,
        (table, row): (TableId, u32),
        after: Packed,
        ahead: &mut Ahead,
        timestamp: Timestamp,
    ) -> bool {
        let logged = LoggedRow::whole(table, row, Some(after.clone()));
        let is_there = self.tables[table].fill_hidden(self.schema.table(table), row, after);
        if is_there {
            ahead.hide(Change { table, row, before: RowState::Absent, operation: None, timestamp }, logged);
        }
        is_there
    }

    fn replace_ahead(
        &mut self,
        (table, row): (TableId, u32),
        after: Packed,
        ahead: &mut Ahead,
        timestamp: Timestamp,
    ) -> bool {
        let (store, schema) = (&mut self.tables[table], self.schema.table(table));
        let Some(before) = store.physical(row) else { return false };
        if !store.has_same_keys(schema, row, &after) {
            return false;
        }
        let logged = LoggedRow::changed(table, row, before, &after);
        let before = RowState::Row(store.overwrite_hidden(row, after).clone());
        ahead.hide(Change { table, row, before, operation: None, timestamp }, logged);
        true
    }

    /// Ends the commit of a write set that is in the tables: shows its rows, at once, and applies what was left, as
    /// [`Storage::apply_write_set`] does. Returns the position between the two, and what is to be dropped.
    pub fn show_ahead(
        &mut self,
        own: WriteSet,
        ahead: Ahead,
        folded: &[(TableId, u32)],
        timestamp: Timestamp,
    ) -> (Position, Leftovers) {
        let Ahead { left, batch, tables, .. } = ahead;
        let hidden =
            tables.iter().filter_map(|table| self.tables[*table].hidden.take().map(|one| *one)).collect();
        self.history.append(batch);
        let shown = self.history.end();
        self.apply_entries(left, folded, timestamp);
        (shown, Leftovers { _own: own, _hidden: hidden, ..Leftovers::default() })
    }

    /// Deliberate bug: the rows are seen before the commit.
    pub fn reveal_ahead(&mut self, ahead: &Ahead) {
        ahead.tables.iter().for_each(|table| self.tables[*table].hidden = None);
    }

    /// Takes the hidden rows of a write set out of the tables again. Its slots stay reserved.
    pub fn undo_ahead(&mut self, ahead: Ahead) {
        let Ahead { mut batch, tables, .. } = ahead;
        for table in tables {
            self.tables[table].hidden = None;
        }
        while let Some(Change { table, row, before, .. }) = batch.pop() {
            self.put(table, row, before, false);
        }
    }

    /// Returns whether going back to `position` would meet a hidden row: its slot, or its key.
    pub fn meets_hidden(&self, position: Position) -> bool {
        self.history.since(position).any(|change| {
            let packed = match change.before {
                RowState::Row(packed) => Some(&packed[..]),
                RowState::Absent | RowState::Patched(_) => None,
            };
            let store = &self.tables[change.table];
            store.hidden.is_some() && store.meets_hidden(self.schema.table(change.table), change.row, packed)
        })
    }

    /// Takes what the history has forgotten of large commits.
    pub fn take_forgotten(&mut self) -> Option<Leftovers> {
        let forgotten = self.history.take_forgotten();
        (!forgotten.is_empty()).then(|| Leftovers { _history: forgotten, ..Leftovers::default() })
    }
}
