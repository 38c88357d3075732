//! Changes that may still have to be undone or folded again, in commit order.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
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
    runs: VecDeque<Part>,
    /// Batches that have been forgotten: who drops them need not be the shard.
    forgotten: Vec<Batch>,
}

/// Consecutive changes.
#[derive(Debug)]
enum Part {
    Run(Run),
    /// The positions of its runs count from `begin`.
    Batch {
        begin: Position,
        batch: Batch,
    },
}

/// Changes of one commit, collected before it becomes part of the history.
#[derive(Debug, Default)]
pub struct Batch {
    /// In order, without gaps, from position 0 on.
    runs: Vec<Run>,
    /// Approximate size.
    bytes: usize,
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

    /// Removes its last change; not its only one.
    fn pop(&mut self) -> Change {
        self.count -= 1;
        let Change { table, row, timestamp, .. } = self.first;
        Change { table, row: row + self.count, before: RowState::Absent, operation: None, timestamp }
    }

    fn bytes(&self) -> usize {
        let before = match &self.first.before {
            RowState::Row(row) => row.len(),
            RowState::Absent | RowState::Patched(_) => 0,
        };
        size_of::<Run>() + before
    }
}

impl Batch {
    fn end(&self) -> Position {
        self.runs.last().map_or(0, Run::end)
    }

    pub fn push(&mut self, change: Change) {
        match self.runs.last_mut() {
            Some(last) if last.goes_on_with(&change) => last.count += 1,
            _ => {
                let run = Run { begin: self.end(), first: change, count: 1 };
                self.bytes += run.bytes();
                self.runs.push(run);
            }
        }
    }

    /// Removes the last change.
    pub fn pop(&mut self) -> Option<Change> {
        let last = self.runs.last_mut()?;
        match last.count {
            1 => self.runs.pop().map(|run| run.first),
            _ => Some(last.pop()),
        }
    }
}

impl Part {
    fn end(&self) -> Position {
        match self {
            Part::Run(run) => run.end(),
            Part::Batch { begin, batch } => begin + batch.end(),
        }
    }

    /// Its changes at or after `position`.
    fn since(&self, position: Position) -> impl Iterator<Item = ChangeRef<'_>> {
        let (base, runs) = match self {
            Part::Run(run) => (0, std::slice::from_ref(run)),
            Part::Batch { begin, batch } => (*begin, &batch.runs[..]),
        };
        let position = position.saturating_sub(base);
        let from = runs.partition_point(|run| run.end() <= position);
        runs[from..].iter().flat_map(move |run| run.since(position))
    }

    fn bytes(&self) -> usize {
        match self {
            Part::Run(run) => run.bytes(),
            Part::Batch { batch, .. } => batch.bytes,
        }
    }
}

/// Changes of each row since a position. It follows the history as that grows, so operations of many rows are folded in without a look at all
/// changes for each.
#[derive(Debug)]
pub struct RowChanges {
    of: FxHashMap<(TableId, u32), Vec<Position>>,
    since: Position,
    /// Changes up to here are known.
    known: Position,
    /// A first operation has been folded in. It looks at the changes themselves: an index of them would cost more.
    has_folded: bool,
}

impl RowChanges {
    pub fn since(position: Position) -> RowChanges {
        RowChanges { of: FxHashMap::default(), since: position, known: position, has_folded: false }
    }

    /// Changes of the row, in order.
    fn of_row<'h>(&mut self, history: &'h History, row: (TableId, u32)) -> Vec<ChangeRef<'h>> {
        if !std::mem::replace(&mut self.has_folded, true) {
            return history.since(self.since).filter(|change| (change.table, change.row) == row).collect();
        }
        self.follow(history);
        let positions = self.of.get(&row).into_iter().flatten();
        positions.filter_map(|position| history.since(*position).next()).collect()
    }

    fn follow(&mut self, history: &History) {
        for (at, change) in (self.known..).zip(history.since(self.known)) {
            self.of.entry((change.table, change.row)).or_default().push(at);
        }
        self.known = history.end().max(self.known);
    }
}

impl History {
    pub fn begin(&self) -> Position {
        self.begin
    }

    pub fn end(&self) -> Position {
        self.runs.back().map_or(self.begin, Part::end)
    }

    /// Changes since `position`, in order.
    pub fn since(&self, position: Position) -> impl Iterator<Item = ChangeRef<'_>> {
        let from = self.runs.partition_point(|run| run.end() <= position);
        self.runs.range(from..).flat_map(move |run| run.since(position))
    }

    /// Approximate size of the changes since `position`.
    pub fn bytes(&self, position: Position) -> usize {
        let from = self.runs.partition_point(|run| run.end() <= position);
        self.runs.range(from..).map(Part::bytes).sum()
    }

    pub fn push(&mut self, change: Change) {
        match self.runs.back_mut() {
            Some(Part::Run(last)) if last.goes_on_with(&change) => last.count += 1,
            _ => {
                let run = Run { begin: self.end(), first: change, count: 1 };
                self.runs.push_back(Part::Run(run));
            }
        }
    }

    /// Appends the changes of a batch at once.
    pub fn append(&mut self, batch: Batch) {
        if !batch.runs.is_empty() {
            let begin = self.end();
            self.runs.push_back(Part::Batch { begin, batch });
        }
    }

    pub fn pop(&mut self) -> Option<Change> {
        match self.runs.back_mut()? {
            Part::Run(last) if last.count > 1 => Some(last.pop()),
            Part::Run(_) => match self.runs.pop_back() {
                Some(Part::Run(run)) => Some(run.first),
                _ => unreachable!("it is a run"),
            },
            Part::Batch { batch, .. } => {
                let change = batch.pop();
                if batch.runs.is_empty() {
                    self.runs.pop_back();
                }
                change
            }
        }
    }

    /// Drops the changes before `position`. A batch goes as a whole, once it is before `position`: nobody asks for a state within a commit.
    pub fn forget(&mut self, position: Position) {
        while self.begin < position {
            match self.runs.front_mut() {
                None => return,
                Some(first) if first.end() <= position => {
                    self.begin = first.end();
                    if let Some(Part::Batch { batch, .. }) = self.runs.pop_front() {
                        self.forgotten.push(batch);
                    }
                }
                Some(Part::Batch { .. }) => return,
                Some(Part::Run(first)) => {
                    let forgotten = (position - first.begin) as u32;
                    first.begin = position;
                    first.first.row += forgotten;
                    first.count -= forgotten;
                    self.begin = position;
                }
            }
        }
    }

    /// Takes the batches that have been forgotten.
    pub fn take_forgotten(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.forgotten)
    }

    /// The row with `operation` folded in at its place among the changes since its prepare.
    ///
    /// The state of the row at its prepare contains only operations below `operation`'s timestamp, since that exceeds every answer to
    /// its prepare (S9). Cost: the number of changes since then that `changes` does not know yet, and those of the row.
    pub fn refold(
        &self,
        layout: &Layout,
        types: &[SqlType],
        (table, row): (TableId, u32),
        current: Packed,
        (operation, timestamp): (&Operation, Timestamp),
        changes: &mut RowChanges,
    ) -> Option<Packed> {
        assert!(changes.since >= self.begin, "history is kept from the oldest undecided prepare");
        let mut later = changes.of_row(self, (table, row));
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
