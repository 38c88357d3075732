//! The history beside a plain list of its changes.

use weir_core::ids::{Position, Timestamp};
use weir_sql::catalog::TableId;

use super::{Batch, Change, ChangeRef, History, RowChanges, RowState};
use crate::storage::chance::Chance;

/// Identity of a change in the comparison.
type Told = (TableId, u32, bool, u64);

#[derive(Default)]
struct Twins {
    history: History,
    plain: Vec<Told>,
    /// Number of changes that were forgotten.
    begin: usize,
    /// Positions of batches: each as its first change and the end.
    batches: Vec<(usize, usize)>,
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

    /// The same changes as those of a few writes, as one batch.
    fn append(&mut self, chance: &mut Chance) {
        let begin = self.plain.len();
        let (mut other, mut batch) = (Twins::default(), Batch::default());
        (0..chance.below(4)).for_each(|_| other.push(chance));
        let undone = chance.below(3).min(other.plain.len() as i64) as usize;
        for (table, row, is_new, clock) in other.plain {
            let before = if is_new { RowState::Absent } else { RowState::Row([0].into()) };
            let timestamp = Timestamp { clock, ..Timestamp::default() };
            batch.push(Change { table, row, before, operation: None, timestamp });
            self.plain.push((table, row, is_new, clock));
        }
        (0..undone)
            .for_each(|_| assert_eq!(batch.pop().map(|one| one.row), self.plain.pop().map(|one| one.1)));
        self.history.append(batch);
        if self.plain.len() > begin {
            self.batches.push((begin, self.plain.len()));
        }
    }

    fn pop(&mut self) {
        let popped = if self.plain.len() > self.begin { self.history.pop() } else { return };
        let told = popped.map(|change| {
            let Change { table, row, before, timestamp, .. } = change;
            (table, row, matches!(before, RowState::Absent), timestamp.clock)
        });
        assert_eq!(told, self.plain.pop());
        let end = self.plain.len();
        self.batches.retain_mut(|(begin, until)| {
            *until = end.min(*until);
            *begin < *until
        });
    }

    fn forget(&mut self, count: i64) {
        let position = self.plain.len().min(self.begin + count as usize);
        self.history.forget(position as Position);
        // A batch goes as a whole.
        let within = self.batches.iter().find(|(begin, end)| (begin + 1..*end).contains(&position));
        self.begin = within.map_or(position, |(begin, _)| *begin);
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
            match chance.below(9) {
                0..3 => twins.push(&mut chance),
                3 | 8 => twins.append(&mut chance),
                4..6 => (0..chance.below(8)).for_each(|_| twins.pop()),
                _ => twins.forget(chance.below(8)),
            }
            twins.compare();
        }
    }
}

/// Changes of a row are found as the history grows, in its order.
#[test]
fn row_changes_follow_a_history() {
    for seed in 0..100 {
        let (mut chance, mut twins) = (Chance(seed), Twins::default());
        (0..5).for_each(|_| twins.push(&mut chance));
        let since = chance.below(twins.plain.len() as i64) as usize;
        let mut changes = RowChanges::since(since as Position);
        for _ in 0..10 {
            twins.push(&mut chance);
            for row in (0..2).flat_map(|table| (0..16).map(move |row| (TableId(table), row))) {
                let told = |change: ChangeRef<'_>| {
                    (
                        change.table,
                        change.row,
                        matches!(change.before, RowState::Absent),
                        change.timestamp.clock,
                    )
                };
                let found: Vec<Told> = changes.of_row(&twins.history, row).into_iter().map(told).collect();
                let all = twins.plain[since..].iter().filter(|told| (told.0, told.1) == row);
                assert_eq!(found, all.copied().collect::<Vec<_>>());
                assert!(changes.known == twins.history.end() || changes.of.is_empty());
            }
        }
    }
}
