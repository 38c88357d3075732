//! Changes that may still have to be undone or folded again, in commit order.

use std::collections::VecDeque;

use weir_core::ids::{Position, Timestamp};
use weir_sql::catalog::TableId;
use weir_types::SqlType;

use super::layout::{Layout, Packed, Patch};
use super::operation::{Operation, fold};

/// State of a row before a change, or after a change that was undone.
#[derive(Debug)]
pub enum RowState {
    Absent,
    Row(Packed),
    /// The current row with these bytes patched. Only for rows that no transaction has pinned.
    Patched(Patch),
}

#[derive(Debug)]
pub struct Change {
    pub table: TableId,
    pub row: u32,
    /// State of the row before the change.
    pub before: RowState,
    /// Kept if a prepared transaction may have to be folded in before this change.
    pub operation: Option<Box<Operation>>,
    pub timestamp: Timestamp,
}

/// A change as it is read.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRef<'h> {
    pub table: TableId,
    pub row: u32,
    pub before: &'h RowState,
    pub operation: Option<&'h Operation>,
    pub timestamp: Timestamp,
}

#[derive(Debug, Default)]
pub struct History {
    begin: Position,
    /// In order, without gaps, from `begin` on.
    runs: VecDeque<Run>,
}

/// Consecutive changes.
#[derive(Debug)]
struct Run {
    begin: Position,
    /// The first one.
    first: Change,
    /// More than 1: rows that were inserted one after the other, by one transaction, into consecutive slots, without operations.
    count: u32,
}

impl Run {
    fn end(&self) -> Position {
        self.begin + u64::from(self.count)
    }

    /// Its changes at or after `position`.
    fn since(&self, position: Position) -> impl Iterator<Item = ChangeRef<'_>> {
        let skipped = position.saturating_sub(self.begin) as u32;
        (skipped..self.count).map(|at| {
            let Change { table, row, before, operation, timestamp } = &self.first;
            let (table, timestamp) = (*table, *timestamp);
            let operation = operation.as_deref();
            ChangeRef { table, row: row + at, before, operation, timestamp }
        })
    }

    /// Returns whether the change is the next of the run's insertions.
    fn goes_on_with(&self, change: &Change) -> bool {
        let insertion = |of: &Change| matches!(of.before, RowState::Absent) && of.operation.is_none();
        let (first, at) = (&self.first, self.count);
        insertion(change)
            && insertion(first)
            && (first.table, first.timestamp) == (change.table, change.timestamp)
            && first.row.checked_add(at) == Some(change.row)
    }
}

impl History {
    pub fn begin(&self) -> Position {
        self.begin
    }

    pub fn end(&self) -> Position {
        self.runs.back().map_or(self.begin, Run::end)
    }

    /// Changes since `position`, in order.
    pub fn since(&self, position: Position) -> impl Iterator<Item = ChangeRef<'_>> {
        let from = self.runs.partition_point(|run| run.end() <= position);
        self.runs.range(from..).flat_map(move |run| run.since(position))
    }

    /// Approximate size of the changes since `position`.
    pub fn bytes(&self, position: Position) -> usize {
        let from = self.runs.partition_point(|run| run.end() <= position);
        let before = |run: &Run| match &run.first.before {
            RowState::Row(row) => row.len(),
            RowState::Absent | RowState::Patched(_) => 0,
        };
        self.runs.range(from..).map(|run| size_of::<Run>() + before(run)).sum()
    }

    pub fn push(&mut self, change: Change) {
        match self.runs.back_mut() {
            Some(last) if last.goes_on_with(&change) => last.count += 1,
            _ => self.runs.push_back(Run { begin: self.end(), first: change, count: 1 }),
        }
    }

    pub fn pop(&mut self) -> Option<Change> {
        let last = self.runs.back_mut()?;
        if last.count == 1 {
            return self.runs.pop_back().map(|run| run.first);
        }
        last.count -= 1;
        let Change { table, row, timestamp, .. } = last.first;
        let row = row + last.count;
        Some(Change { table, row, before: RowState::Absent, operation: None, timestamp })
    }

    pub fn forget(&mut self, position: Position) {
        if position >= self.end() {
            self.begin = self.end();
            self.runs.clear();
        }
        while self.begin < position {
            let first = self.runs.front_mut().expect("runs have no gaps");
            if first.end() <= position {
                self.begin = first.end();
                self.runs.pop_front();
                continue;
            }
            let forgotten = (position - first.begin) as u32;
            first.begin = position;
            first.first.row += forgotten;
            first.count -= forgotten;
            self.begin = position;
        }
    }

    /// The row with `operation` folded in at its place among the changes since `prepared_at`.
    ///
    /// The state of the row at `prepared_at` contains only operations below `operation`'s timestamp, since that exceeds every answer to
    /// its prepare (S9). Cost: the number of changes since then.
    pub fn refold(
        &self,
        layout: &Layout,
        types: &[SqlType],
        (table, row): (TableId, u32),
        current: Packed,
        (operation, timestamp): (&Operation, Timestamp),
        prepared_at: Position,
    ) -> Option<Packed> {
        assert!(prepared_at >= self.begin, "history is kept from the oldest undecided prepare");
        let since = self.since(prepared_at);
        let mut later: Vec<ChangeRef<'_>> =
            since.filter(|change| change.table == table && change.row == row).collect();
        let base = match later.first().map(|first| first.before) {
            None => Some(current),
            Some(RowState::Absent) => None,
            Some(RowState::Row(row)) => Some(row.clone()),
            Some(RowState::Patched(_)) => unreachable!("a pinned row is not changed in place"),
        };
        later.sort_by_key(|change| change.timestamp);
        let split = later.partition_point(|change| change.timestamp <= timestamp);
        let step = |state, change: &ChangeRef<'_>| {
            let operation = change.operation.expect("changes to a pinned row keep their operation");
            fold(layout, types, state, operation, change.timestamp)
        };
        let state = later[..split].iter().fold(base, &step);
        let state = fold(layout, types, state, operation, timestamp);
        later[split..].iter().fold(state, step)
    }
}

#[cfg(test)]
mod tests;
