//! Changes that may still have to be undone or folded again, in commit order.

use std::collections::VecDeque;

use weir_sql::catalog::TableId;
use weir_types::SqlType;

use super::layout::{Layout, Packed, Patch};
use super::operation::{Operation, fold};
use weir_core::ids::{Position, Timestamp};

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

#[derive(Debug, Default)]
pub struct History {
    begin: Position,
    changes: VecDeque<Change>,
}

impl History {
    pub fn begin(&self) -> Position {
        self.begin
    }

    pub fn end(&self) -> Position {
        self.begin + self.changes.len() as u64
    }

    /// Changes since `position`, in order.
    pub fn since(&self, position: Position) -> impl DoubleEndedIterator<Item = &Change> {
        self.changes.range((position - self.begin) as usize..)
    }

    /// Approximate size of the changes since `position`.
    pub fn bytes(&self, position: Position) -> usize {
        let before = |change: &Change| match &change.before {
            RowState::Row(row) => row.len(),
            RowState::Absent | RowState::Patched(_) => 0,
        };
        self.since(position.max(self.begin)).map(|change| size_of::<Change>() + before(change)).sum()
    }

    pub fn push(&mut self, change: Change) {
        self.changes.push_back(change);
    }

    pub fn pop(&mut self) -> Option<Change> {
        self.changes.pop_back()
    }

    pub fn forget(&mut self, position: Position) {
        if position >= self.end() {
            self.begin = self.end();
            self.changes.clear();
        }
        while self.begin < position {
            self.changes.pop_front();
            self.begin += 1;
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
        let since = self.changes.range((prepared_at - self.begin) as usize..);
        let mut later: Vec<&Change> =
            since.filter(|change| change.table == table && change.row == row).collect();
        let base = match later.first().map(|first| &first.before) {
            None => Some(current),
            Some(RowState::Absent) => None,
            Some(RowState::Row(row)) => Some(row.clone()),
            Some(RowState::Patched(_)) => unreachable!("a pinned row is not changed in place"),
        };
        later.sort_by_key(|change| change.timestamp);
        let split = later.partition_point(|change| change.timestamp <= timestamp);
        let step = |state, change: &Change| {
            let operation =
                change.operation.as_deref().expect("changes to a pinned row keep their operation");
            fold(layout, types, state, operation, change.timestamp)
        };
        let state = later[..split].iter().fold(base, |state, change| step(state, change));
        let state = fold(layout, types, state, operation, timestamp);
        later[split..].iter().fold(state, |state, change| step(state, change))
    }
}
