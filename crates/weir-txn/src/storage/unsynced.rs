//! Rows with changes that are not durable yet, and whether the current step has read any of them (soundness S16).
//!
//! A reply that depends on durable rows alone may leave at once, whatever the log still has to write. Absence counts too: a row that a
//! non-durable record has deleted or re-keyed is tracked where a search would have found it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustc_hash::FxBuildHasher;
use weir_sql::catalog::TableId;

/// Number of changed rows of one record above which its tables are tracked as a whole.
pub const ROWS_MAX: usize = 4_096;

/// The records that have changed a row.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    last: u64,
    /// Which has inserted it; 0: it was there before.
    inserted: u64,
}

#[derive(Debug, Default)]
pub struct Unsynced {
    rows: HashMap<(TableId, u32), Changed, FxBuildHasher>,
    /// By table: the last record that every search in the table depends on.
    tables: HashMap<TableId, u64, FxBuildHasher>,
    /// The last record that every search in any table depends on.
    all: u64,
    /// Rows in the order of the records.
    in_order: VecDeque<(u64, TableId, u32)>,
    durable: u64,
    /// The newest non-durable record that the step has read from. Accessed by one thread at a time; a concurrent audit is harmless.
    met: AtomicU64,
    /// All that is asked of a row is whether it is there.
    asks_existence: AtomicBool,
}

impl Unsynced {
    pub fn note_row(&mut self, record: u64, table: TableId, row: u32, is_new: bool) {
        let changed = self.rows.entry((table, row)).or_default();
        changed.last = record;
        if is_new {
            changed.inserted = record;
        }
        self.in_order.push_back((record, table, row));
    }

    pub fn note_table(&mut self, record: u64, table: TableId) {
        self.tables.insert(table, record);
    }

    pub fn note_all(&mut self, record: u64) {
        self.all = record;
    }

    /// Records up to this one are durable.
    pub fn on_durable(&mut self, record: u64) {
        self.durable = record;
        while let Some(&(of, table, row)) = self.in_order.front()
            && of <= record
        {
            self.in_order.pop_front();
            // A later record may have changed it again.
            if self.rows.get(&(table, row)).is_some_and(|changed| changed.last == of) {
                self.rows.remove(&(table, row));
            }
        }
        self.tables.retain(|_, of| *of > record);
    }

    /// Returns whether the records up to this one are durable.
    pub fn is_durable(&self, record: u64) -> bool {
        record <= self.durable
    }

    pub fn begin_step(&mut self) {
        *self.met.get_mut() = 0;
    }

    /// The newest of the records that the step has met and that are not durable; 0: none.
    pub fn met(&self) -> u64 {
        self.met.load(Relaxed)
    }

    fn meet(&self, record: u64) {
        if record > self.durable && record > self.met.load(Relaxed) {
            self.met.store(record, Relaxed);
        }
    }

    /// Something is looked for in the table.
    pub fn look_at(&self, table: TableId) {
        self.meet(self.all);
        if !self.tables.is_empty()
            && let Some(record) = self.tables.get(&table)
        {
            self.meet(*record);
        }
    }

    /// The row has been found.
    pub fn find(&self, table: TableId, row: u32) {
        if !self.rows.is_empty()
            && let Some(changed) = self.rows.get(&(table, row))
        {
            self.meet(if self.asks_existence.load(Relaxed) { changed.inserted } else { changed.last });
        }
    }

    /// From here on, or no longer, all that is asked of a row that is found is whether it is there.
    pub fn ask_existence(&self, does: bool) {
        self.asks_existence.store(does, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(unsynced: &mut Unsynced, look: impl Fn(&Unsynced)) -> u64 {
        unsynced.begin_step();
        look(unsynced);
        unsynced.met()
    }

    #[test]
    fn what_is_met_is_what_is_not_durable() {
        let (one, two) = (TableId(0), TableId(1));
        let mut unsynced = Unsynced::default();
        unsynced.note_row(3, one, 7, true);
        unsynced.note_row(5, one, 7, false);
        unsynced.note_row(4, one, 8, false);
        unsynced.note_table(6, two);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 9)), 0);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 7)), 5);
        assert_eq!(met(&mut unsynced, |u| u.look_at(two)), 6);
        unsynced.ask_existence(true);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 7)), 3, "it is there since");
        assert_eq!(met(&mut unsynced, |u| u.find(one, 8)), 0, "it was there before");
        unsynced.ask_existence(false);
        unsynced.on_durable(4);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 8)), 0);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 7)), 5, "the later record is not durable");
        unsynced.on_durable(6);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 7)), 0);
        assert_eq!(met(&mut unsynced, |u| u.look_at(two)), 0);
        unsynced.note_all(9);
        assert_eq!(met(&mut unsynced, |u| u.look_at(one)), 9);
        assert!(unsynced.rows.is_empty() && unsynced.tables.is_empty());
    }
}
