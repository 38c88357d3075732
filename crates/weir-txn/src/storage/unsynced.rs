//! Which rows hold what is not durable yet, and whether the step under way has met any of it (soundness S16).
//!
//! An answer that rests on durable rows alone may leave at once, whatever else the log still has to write. What is not found
//! is told apart, too: a row that a record which is not durable has taken away, or given another key, is missed where it was.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustc_hash::FxBuildHasher;
use weir_sql::catalog::TableId;

/// Above so many rows of one record its tables count as a whole.
pub const ROWS_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub struct Unsynced {
    /// By row: the last record that has changed it.
    rows: HashMap<(TableId, u32), u64, FxBuildHasher>,
    /// By table: the last record that is seen by whoever looks for anything there.
    tables: HashMap<TableId, u64, FxBuildHasher>,
    /// The last record that is seen by whoever looks for anything at all.
    all: u64,
    /// Rows in the order of the records.
    in_order: VecDeque<(u64, TableId, u32)>,
    durable: u64,
    /// The newest of the records that the step has met. Only one thread looks at a time; whoever audits may, too, and harms nothing.
    met: AtomicU64,
}

impl Unsynced {
    pub fn note_row(&mut self, record: u64, table: TableId, row: u32) {
        self.rows.insert((table, row), record);
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
            if self.rows.get(&(table, row)) == Some(&of) {
                self.rows.remove(&(table, row));
            }
        }
        self.tables.retain(|_, of| *of > record);
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
            && let Some(record) = self.rows.get(&(table, row))
        {
            self.meet(*record);
        }
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
        unsynced.note_row(3, one, 7);
        unsynced.note_row(5, one, 7);
        unsynced.note_row(4, one, 8);
        unsynced.note_table(6, two);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 9)), 0);
        assert_eq!(met(&mut unsynced, |u| u.find(one, 7)), 5);
        assert_eq!(met(&mut unsynced, |u| u.look_at(two)), 6);
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
