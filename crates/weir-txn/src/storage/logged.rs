//! Storage in its logged form: row images after a transaction, operations that may have to be folded later, and a full image of the
//! shard.
//!
//! Rows are logged with their slots, byte by byte, so recovery executes no statement. This module contains plain data only: a function of
//! a row is named by its statement in the program.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use weir_core::ids::{Position, Timestamp};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

use super::Storage;
use super::history::{Change, ChangeRef, RowState};
use super::layout::{Layout, Packed};
use super::operation::{ColumnChange, ColumnOperation, Functions, Operation, RowName};

/// Logged form of [`Operation`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoggedOperation {
    Insert(#[serde(with = "serde_bytes")] Vec<u8>),
    Update(Vec<(ColumnIndex, LoggedChange)>),
    Statement(RowName),
    Delete,
}

/// Logged form of [`ColumnChange`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoggedChange {
    Assign(Value),
    Add(Value),
    Max(Value),
    Min(Value),
    Apply { assignment: u32, name: RowName },
}

impl LoggedOperation {
    pub fn of(operation: &Operation) -> LoggedOperation {
        let change = |change: &ColumnChange| match change {
            ColumnChange::Assign(value) => LoggedChange::Assign(value.clone()),
            ColumnChange::Add(value) => LoggedChange::Add(value.clone()),
            ColumnChange::Max(value) => LoggedChange::Max(value.clone()),
            ColumnChange::Min(value) => LoggedChange::Min(value.clone()),
            ColumnChange::Apply(function) => {
                let (assignment, name) = function.name();
                LoggedChange::Apply { assignment, name }
            }
        };
        match operation {
            Operation::Insert(packed) => LoggedOperation::Insert(packed.to_vec()),
            Operation::Update(columns) => {
                let columns = columns.iter().map(|column| (column.column, change(&column.change)));
                LoggedOperation::Update(columns.collect())
            }
            Operation::Statement(statement) => LoggedOperation::Statement(statement.name()),
            Operation::Delete => LoggedOperation::Delete,
        }
    }

    /// Inverse of [`LoggedOperation::of`]. A log must be read by the program that wrote it; the caller has checked that.
    pub fn to_operation(&self, functions: &dyn Functions) -> Operation {
        let change = |change: &LoggedChange| match change {
            LoggedChange::Assign(value) => ColumnChange::Assign(value.clone()),
            LoggedChange::Add(value) => ColumnChange::Add(value.clone()),
            LoggedChange::Max(value) => ColumnChange::Max(value.clone()),
            LoggedChange::Min(value) => ColumnChange::Min(value.clone()),
            LoggedChange::Apply { assignment, name } => {
                ColumnChange::Apply(functions.function(*assignment, name))
            }
        };
        match self {
            LoggedOperation::Insert(packed) => Operation::Insert(packed.as_slice().into()),
            LoggedOperation::Update(columns) => {
                let column = |(column, logged): &(ColumnIndex, LoggedChange)| ColumnOperation {
                    column: *column,
                    change: change(logged),
                };
                Operation::Update(columns.iter().map(column).collect())
            }
            LoggedOperation::Statement(name) => Operation::Statement(functions.statement(name)),
            LoggedOperation::Delete => Operation::Delete,
        }
    }
}

/// Image of a row after a transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoggedRow {
    pub table: TableId,
    pub row: u32,
    after: After,
    /// Operations on the row, kept if a prepared transaction may have to be folded in before them.
    operations: Vec<LoggedOperation>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum After {
    Absent,
    Whole(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The earlier row with another clock and another middle part; prefix and suffix are equal.
    Changed {
        clock: u64,
        prefix: u32,
        suffix: u32,
        #[serde(with = "serde_bytes")]
        middle: Vec<u8>,
    },
}

impl LoggedRow {
    /// Returns whether the rows are so few and short that they are written within microseconds.
    pub fn are_small(rows: &[LoggedRow]) -> bool {
        const ROWS_MAX: usize = 64;
        const BYTES_MAX: usize = 64 << 10;
        let bytes = |row: &LoggedRow| match &row.after {
            After::Absent => 0,
            After::Whole(bytes) | After::Changed { middle: bytes, .. } => bytes.len(),
        };
        rows.len() <= ROWS_MAX && rows.iter().map(bytes).sum::<usize>() <= BYTES_MAX
    }

    /// A full image, independent of the row's earlier state.
    pub(super) fn whole(table: TableId, row: u32, after: Option<Packed>) -> LoggedRow {
        let after = after.map_or(After::Absent, |packed| After::Whole(packed.into_vec()));
        LoggedRow { table, row, after, operations: Vec::new() }
    }

    /// Image of a row that was there before.
    pub(super) fn changed(table: TableId, row: u32, before: &[u8], after: &[u8]) -> LoggedRow {
        LoggedRow { table, row, after: After::of(Some(before), Some(after)), operations: Vec::new() }
    }

    /// Row after the change; `before`: the row before it.
    pub(super) fn after(self, before: Option<&[u8]>) -> Option<Packed> {
        self.after.apply(before)
    }
}

/// Number of bytes compared at once.
const CHUNK: usize = 16;

/// Length of the common prefix, in bytes.
fn common<'b>(
    chunks: impl Iterator<Item = (&'b [u8], &'b [u8])>,
    bytes: impl Iterator<Item = (&'b u8, &'b u8)>,
) -> usize {
    let is_whole = |(one, other): &(&[u8], &[u8])| one.len() == CHUNK && one == other;
    let known = CHUNK * chunks.take_while(is_whole).count();
    known + bytes.skip(known).take_while(|(one, other)| one == other).count()
}

impl After {
    fn of(before: Option<&[u8]>, after: Option<&[u8]>) -> After {
        let Some(after) = after else { return After::Absent };
        let Some(before) = before else { return After::Whole(after.to_vec()) };
        let (old, new) = (&before[8..], &after[8..]);
        let prefix = common(old.chunks(CHUNK).zip(new.chunks(CHUNK)), old.iter().zip(new));
        let (old, rest) = (&old[prefix..], &new[prefix..]);
        let suffix =
            common(old.rchunks(CHUNK).zip(rest.rchunks(CHUNK)), old.iter().rev().zip(rest.iter().rev()));
        After::Changed {
            clock: Layout::timestamp(after),
            prefix: prefix as u32,
            suffix: suffix as u32,
            middle: rest[..rest.len() - suffix].to_vec(),
        }
    }

    fn apply(self, before: Option<&[u8]>) -> Option<Packed> {
        match self {
            After::Absent => None,
            After::Whole(row) => Some(row.into()),
            After::Changed { clock, prefix, suffix, middle } => {
                let before = before.expect("a row that has changed was there");
                let kept = &before[before.len() - suffix as usize..];
                let mut row: Packed = [&before[..8 + prefix as usize], &middle, kept].concat().into();
                Layout::set_timestamp(&mut row, clock);
                Some(row)
            }
        }
    }
}

/// All rows of a shard, and the changes that a prepared transaction may have to be folded in before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Image {
    /// Of the tables in their order, then of the entries of their global keys in theirs.
    tables: Vec<Vec<Option<ByteBuf>>>,
    changes: Vec<LoggedStep>,
}

/// A change of a row that a prepared transaction will write.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LoggedStep {
    table: TableId,
    row: u32,
    before: Option<ByteBuf>,
    operation: Option<LoggedOperation>,
    timestamp: Timestamp,
}

impl Storage {
    /// Images of the rows changed since `position`, each row once, in the order of their first changes.
    pub fn logged_since(&self, position: Position) -> Vec<LoggedRow> {
        let row = |change: &ChangeRef<'_>| (change.table, change.row);
        let since = || self.history.since(position);
        if since().is_sorted_by(|one, next| row(one) < row(next)) {
            // The changes are in row order and touch each row once, as after an initial load.
            let mut rows = Vec::with_capacity((self.history.end() - position) as usize);
            rows.extend(since().filter_map(|change| self.logged(&[(0, change)])));
            return rows;
        }
        let mut changes: Vec<(usize, ChangeRef<'_>)> = since().enumerate().collect();
        changes.sort_by_key(|(_, change)| row(change));
        let by_row = changes.chunk_by(|(_, one), (_, next)| row(one) == row(next));
        let mut rows: Vec<(usize, LoggedRow)> =
            by_row.filter_map(|own| Some((own[0].0, self.logged(own)?))).collect();
        rows.sort_unstable_by_key(|(first, _)| *first);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Image of a row after `own`, which are its latest changes. None: the row was inserted and deleted again.
    fn logged(&self, own: &[(usize, ChangeRef<'_>)]) -> Option<LoggedRow> {
        let (_, ChangeRef { table, row, .. }) = own[0];
        let before = self.before(own);
        let after = After::of(before.as_deref(), self.packed(table, row));
        if before.is_none() && matches!(after, After::Absent) {
            return None;
        }
        let operations = own.iter().filter_map(|(_, change)| change.operation);
        let operations = operations.map(LoggedOperation::of).collect();
        Some(LoggedRow { table, row, after, operations })
    }

    /// State of a row before these changes, which are its latest ones.
    fn before<'c>(&self, changes: &[(usize, ChangeRef<'c>)]) -> Option<Cow<'c, [u8]>> {
        let is_patched =
            |(_, change): &&(usize, ChangeRef<'_>)| matches!(change.before, RowState::Patched(_));
        let patched = changes.iter().take_while(is_patched).count();
        let whole = match changes.get(patched).map(|(_, change)| change.before) {
            None => self.packed(changes[0].1.table, changes[0].1.row).map(|row| Cow::Owned(row.to_vec())),
            Some(RowState::Row(row)) => Some(Cow::Borrowed(&row[..])),
            Some(RowState::Absent | RowState::Patched(_)) => None,
        };
        changes[..patched].iter().rev().fold(whole, |row, (_, change)| {
            let mut row = row.expect("what is changed in place is there").into_owned();
            if let RowState::Patched(patch) = change.before {
                patch.clone().exchange(&mut row);
            }
            Some(Cow::Owned(row))
        })
    }

    /// Restores the row images of a transaction.
    pub fn replay_logged(&mut self, rows: Vec<LoggedRow>, timestamp: Timestamp, functions: &dyn Functions) {
        // Deleted rows are removed first, so that no unique key occurs twice in between.
        let mut placed = Vec::with_capacity(rows.len());
        for LoggedRow { table, row, after, operations } in rows {
            let schema = self.schema.table(table);
            let store = &mut self.tables[table];
            let before: Option<Packed> = store.row(row).map(Packed::from);
            let after = after.apply(before.as_deref());
            for (at, operation) in operations.iter().enumerate() {
                // Of several operations only the last state is known, so the whole change is attributed to the first.
                let before = if at == 0 { &before } else { &after };
                self.history.push(Change {
                    table,
                    row,
                    before: before.clone().map_or(RowState::Absent, RowState::Row),
                    operation: Some(Box::new(operation.to_operation(functions))),
                    timestamp,
                });
            }
            match after {
                Some(after) if before.is_some() && store.has_same_keys(schema, row, &after) => {
                    store.overwrite(row, after)
                }
                after => {
                    if before.is_some() {
                        store.remove(schema, row, false);
                    }
                    placed.extend(after.map(|after| (table, row, after)));
                }
            }
        }
        for (table, row, after) in placed {
            let schema = self.schema.table(table);
            self.tables[table].restore(schema, row, after);
        }
    }

    /// Image of the current state, with or without its rows. `since`: for each row that prepared transactions will write, the position of
    /// the first of these prepares. Also returns a function from a position to the number of changes in the image before it.
    pub fn image(
        &self,
        since: &BTreeMap<(TableId, u32), Position>,
        has_rows: bool,
    ) -> (Image, Vec<Position>) {
        let bytes = |row: Option<&[u8]>| row.map(ByteBuf::from);
        let rows = |store: &super::table::TableStore| {
            (0..store.slots()).map(|row| bytes(store.row(row))).collect::<Vec<_>>()
        };
        let (mut changes, mut positions) = (Vec::new(), Vec::new());
        let begin = self.history.begin();
        for (position, change) in (begin..).zip(self.history.since(begin)) {
            let at = (change.table, change.row);
            if since.get(&at).is_none_or(|first| *first > position) {
                continue;
            }
            let before = match change.before {
                RowState::Absent => None,
                RowState::Row(row) => Some(ByteBuf::from(&row[..])),
                RowState::Patched(_) => unreachable!("a pinned row is not changed in place"),
            };
            let operation = change.operation.map(LoggedOperation::of);
            let (table, row, timestamp) = (change.table, change.row, change.timestamp);
            changes.push(LoggedStep { table, row, before, operation, timestamp });
            positions.push(position);
        }
        let all = self.tables.all().map(|(_, store)| rows(store));
        let tables = if has_rows { all.collect() } else { Vec::new() };
        (Image { tables, changes }, positions)
    }

    /// Replaces the state by an image. Positions count the changes of the image from 0.
    pub fn restore(&mut self, image: Image, functions: &dyn Functions) {
        *self = Storage::new(self.schema.clone());
        let all: Vec<TableId> = self.tables.all().map(|(table, _)| table).collect();
        for (table, rows) in all.into_iter().zip(image.tables) {
            let (schema, store) = (self.schema.table(table), &mut self.tables[table]);
            for (row, packed) in rows.into_iter().enumerate() {
                if let Some(packed) = packed {
                    store.restore(schema, row as u32, packed.into_vec().into());
                }
            }
        }
        for LoggedStep { table, row, before, operation, timestamp } in image.changes {
            let before = before.map_or(RowState::Absent, |row| RowState::Row(row.into_vec().into()));
            let operation = operation.map(|operation| Box::new(operation.to_operation(functions)));
            self.history.push(Change { table, row, before, operation, timestamp });
        }
    }

    /// Ends recovery: empty slots become free, except those that prepared transactions will write. Such a slot may lie behind all rows, if
    /// its row has been deleted since: a new row must not take it.
    pub fn end_replay(&mut self) {
        for &(table, row) in self.prepared.keys() {
            self.tables[table].make_slot(row);
        }
        let pins = &self.prepared;
        self.tables.for_each(&mut |table, store| store.free_all(|row| !pins.contains_key(&(table, row))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::write_set::tests::{TABLES, at, schema_of_all};

    /// A prepared UPDATE will write its slot; the row may be gone, and no row may be behind it.
    #[test]
    fn a_recovered_shard_gives_no_new_row_the_slot_of_a_prepared_write() {
        let row = |id: i64| [Value::Int(id), Value::text(id.to_string()), Value::Int(id)];
        for pinned in [0, 1, 7] {
            let mut storage = Storage::new(schema_of_all());
            storage.pin(TABLES[0], pinned, false);
            storage.end_replay();
            let slots = [1, 2, 3].map(|id| storage.insert(TABLES[0], &row(id), at(1)).expect("keys differ"));
            assert!(!slots.contains(&pinned), "{slots:?}");
            storage.unpin(TABLES[0], pinned);
            assert_eq!(storage.insert(TABLES[0], &row(4), at(1)).expect("keys differ"), pinned);
        }
    }

    /// The outcome of a prepared write may be in the log behind a snapshot that lacks the slot: its row had been deleted by then.
    #[test]
    fn a_prepared_write_of_a_row_that_is_gone_ends_during_recovery() {
        let mut storage = Storage::new(schema_of_all());
        storage.pin(TABLES[0], 7, false);
        storage.unpin(TABLES[0], 7);
        storage.end_replay();
        let row = [Value::Int(1), Value::text("1".to_owned()), Value::Int(1)];
        assert_eq!(storage.insert(TABLES[0], &row, at(1)).expect("the table is empty"), 0);
    }
}
