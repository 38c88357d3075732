//! A write set as changes of the tables: at COMMIT, and as rows of a log.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use weir_core::ids::Timestamp;
use weir_sql::catalog::TableId;

use super::{Entry, MergedRows, TableWrites, UndoStep, WriteSet};
use crate::storage::Storage;
use crate::storage::history::{Change, RowState};
use crate::storage::layout::{Layout, Packed};
use crate::storage::logged::LoggedRow;

/// As of that time.
pub(super) fn dated(mut packed: Packed, timestamp: Timestamp) -> Packed {
    Layout::set_timestamp(&mut packed, timestamp.clock);
    packed
}

impl Storage {
    /// Makes the rows what the transaction has made them, as of `timestamp`, but for those of `folded`, whose operations are folded in by
    /// the caller. Takes as long as it has rows; history gets one change a row, two where a unique key changes.
    ///
    /// All that goes or changes a unique key goes first, so that no key is there twice on the way, nor on the way back.
    pub fn apply_write_set(&mut self, own: WriteSet, folded: &[(TableId, u32)], timestamp: Timestamp) {
        let entries = |(table, writes): (_, Arc<TableWrites>)| (table, Arc::unwrap_or_clone(writes).entries);
        self.apply_entries(own.tables.into_iter().map(entries).collect(), folded, timestamp);
    }

    pub(super) fn apply_entries(
        &mut self,
        mut tables: Vec<(TableId, Vec<Entry>)>,
        folded: &[(TableId, u32)],
        timestamp: Timestamp,
    ) {
        for (table, entries) in &mut tables {
            entries.iter_mut().for_each(|entry| self.take_away(*table, entry, folded, timestamp));
        }
        for (table, entries) in tables {
            for Entry { row, after, .. } in entries {
                let Some(after) = after else { continue };
                let after = dated(after, timestamp);
                self.tables[table].fill(self.schema.table(table), row, after);
                let before = RowState::Absent;
                self.history.push(Change { table, row, before, operation: None, timestamp });
            }
        }
    }

    /// Removes the table's row, or replaces it if its unique keys stay. Leaves in the entry only a row that is to be put into an empty slot.
    fn take_away(
        &mut self,
        table: TableId,
        entry: &mut Entry,
        folded: &[(TableId, u32)],
        timestamp: Timestamp,
    ) {
        let row = entry.row;
        if folded.contains(&(table, row)) {
            entry.after = None;
            return;
        }
        let store = &mut self.tables[table];
        if entry.is_new || store.row(row).is_none() {
            if entry.after.is_none() {
                store.release(row);
            }
            return;
        }
        let Some(after) = &entry.after else {
            self.change(table, row, RowState::Absent, timestamp, true);
            return;
        };
        if !store.has_same_unique_keys(self.schema.table(table), row, after) {
            self.change(table, row, RowState::Absent, timestamp, false);
            return;
        }
        let after = entry.after.take().map(|packed| dated(packed, timestamp));
        self.change(table, row, after.map_or(RowState::Absent, RowState::Row), timestamp, false);
    }

    fn change(&mut self, table: TableId, row: u32, after: RowState, timestamp: Timestamp, recycle: bool) {
        let recycle = recycle && !self.is_pinned(table, row);
        let before = self.put(table, row, after, recycle);
        self.history.push(Change { table, row, before, operation: None, timestamp });
    }

    /// Gives back the slots that it has reserved.
    pub fn discard_write_set(&mut self, own: WriteSet) {
        for (table, writes) in own.tables {
            let store = &mut self.tables[table];
            writes.entries.iter().filter(|entry| entry.is_new).for_each(|entry| store.release(entry.row));
        }
    }
}

impl WriteSet {
    /// The rows that have been written since it began or was carried over, as they go into a log, but for those that came and went.
    pub fn logged(&self, timestamp: Timestamp) -> Vec<LoggedRow> {
        let mut seen = FxHashSet::default();
        let written = self.undo.iter().flat_map(|step| self.written(step)).filter(|row| seen.insert(*row));
        let logged = |(table, row)| {
            let entry = self.entry(table, row).expect("what was written is there");
            let after = entry.after.clone().map(|packed| dated(packed, timestamp));
            (!entry.is_new || after.is_some()).then(|| LoggedRow::whole(table, row, after))
        };
        written.filter_map(logged).collect()
    }

    /// Rows that the step has written.
    fn written(&self, step: &UndoStep) -> impl Iterator<Item = (TableId, u32)> {
        let (table, entries, replaced) = match *step {
            UndoStep::Replaced { table, row, .. } => (table, &[][..], Some(row)),
            UndoStep::Added { table, first, count } => {
                let writes = self.table(table).expect("what was written is there");
                (table, &writes.entries[first..first + count], None)
            }
        };
        entries.iter().map(|entry| entry.row).chain(replaced).map(move |row| (table, row))
    }

    /// Applies logged rows to the write set. No other transaction reserves slots until this one has ended.
    pub fn take_logged(&mut self, base: &mut Storage, rows: Vec<LoggedRow>) {
        for logged in rows {
            let (table, row) = (logged.table, logged.row);
            let after = logged.after(MergedRows { base, own: self }.packed(table, row));
            if base.packed(table, row).is_some() || self.entry(table, row).is_some() {
                self.put(base, table, row, after);
                continue;
            }
            let schema = base.schema.table(table);
            base.tables[table].make_slot(row);
            let store = &base.tables[table];
            let writes = self.table_mut(table, schema.indexes.len());
            writes.push((store, schema), Entry { row, after, is_new: true }, true);
        }
    }
}
