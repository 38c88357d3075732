//! The history beside a plain list of its changes.

use weir_core::ids::{Position, Timestamp};
use weir_sql::catalog::TableId;

use super::{Change, ChangeRef, History, RowState};
use crate::storage::chance::Chance;

/// Identity of a change in the comparison.
type Told = (TableId, u32, bool, u64);

#[derive(Default)]
struct Twins {
    history: History,
    plain: Vec<Told>,
    /// Number of changes that were forgotten.
    begin: usize,
}

impl Twins {
    /// Writes up to five consecutive rows; every fourth time they were there before.
    fn push(&mut self, chance: &mut Chance) {
        let table = TableId(chance.below(2) as u32);
        let first = 3 * chance.below(4) as u32;
        let timestamp = Timestamp { clock: chance.below(2) as u64, ..Timestamp::default() };
        let is_new = chance.below(4) > 0;
        for row in first..=first + chance.below(5) as u32 {
            let before = if is_new { RowState::Absent } else { RowState::Row([0].into()) };
            self.history.push(Change { table, row, before, operation: None, timestamp });
            self.plain.push((table, row, is_new, timestamp.clock));
        }
    }

    fn pop(&mut self) {
        let popped = if self.plain.len() > self.begin { self.history.pop() } else { return };
        let told = popped.map(|change| {
            let Change { table, row, before, timestamp, .. } = change;
            (table, row, matches!(before, RowState::Absent), timestamp.clock)
        });
        assert_eq!(told, self.plain.pop());
    }

    fn forget(&mut self, count: i64) {
        self.begin = self.plain.len().min(self.begin + count as usize);
        self.history.forget(self.begin as Position);
    }

    fn compare(&self) {
        let told = |change: ChangeRef<'_>| {
            let is_new = matches!(change.before, RowState::Absent);
            (change.table, change.row, is_new, change.timestamp.clock)
        };
        let bounds = (self.history.begin() as usize, self.history.end() as usize);
        assert_eq!(bounds, (self.begin, self.plain.len()));
        for position in self.begin..=self.plain.len() {
            let since: Vec<Told> = self.history.since(position as Position).map(told).collect();
            assert_eq!(since, self.plain[position..]);
        }
    }
}

#[test]
fn a_history_has_its_changes() {
    for seed in 0..400 {
        let (mut chance, mut twins) = (Chance(seed), Twins::default());
        for _ in 0..40 {
            match chance.below(8) {
                0..4 => twins.push(&mut chance),
                4..6 => (0..chance.below(8)).for_each(|_| twins.pop()),
                _ => twins.forget(chance.below(8)),
            }
            twins.compare();
        }
    }
}
