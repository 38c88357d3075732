//! Storage of one shard: rows, their ordered indexes, and what is needed to go back in time.
//!
//! A change is applied in place and its inverse is kept in the *history* for as long as somebody may
//! still need it: the transaction that is running (to undo itself), a reader that may ask for the state
//! at its position (S5), or a prepared transaction whose operations may have to be folded in below later
//! ones (S6, S9). With neither, the history is empty. So memory is the data plus what is in flight.

mod history;
mod index;
pub mod key;
pub mod layout;
pub mod logged;
pub mod operation;
mod point;
mod remake;
pub mod room;
pub mod rows;
mod saved;
pub mod schema;
mod table;
mod tree;
mod unsynced;
pub mod view;
pub mod workspace;
pub mod write_set;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

pub use history::Position;
use history::{Change, History, RowState};
pub use index::Cursor;
pub use key::{Boundary, KeyBytes, KeyRange};
use layout::{Layout, Packed};
pub use logged::{Image, LoggedOperation, LoggedRow};
pub use operation::{
    ColumnChange, ColumnOperation, Functions, Operation, RowFunction, RowName, RowStatement, Timestamp,
    UpdateName,
};
pub use remake::{Remade, Remake};
pub use room::Room;
pub use rows::{NoRows, RowRef, Rows, Visit};
pub use saved::SavedRows;
pub use schema::{IndexColumn, IndexId, IndexSchema, Schema, TableSchema};
use table::TableStore;
use unsynced::Unsynced;
pub use workspace::Workspace;
pub use write_set::{Mark, MergedRows, WriteSet};

#[derive(Debug)]
pub struct Storage {
    schema: Arc<Schema>,
    tables: Vec<TableStore>,
    history: History,
    /// Rows that prepared transactions will write, with how many of them: later changes to such a row
    /// keep their operations, because one of those transactions may have to be folded in below them.
    prepared: Pins,
    /// What the log has not made durable yet.
    unsynced: Unsynced,
    pub room: Room,
}

type Pins = HashMap<(TableId, u32), Pin, FxBuildHasher>;

/// A row that prepared transactions will write.
#[derive(Debug, Default)]
struct Pin {
    /// How many of them.
    transactions: u32,
    /// How often the row has been changed since it was pinned.
    changes: u32,
    /// Some of them deletes it or changes a key of it.
    takes_key: bool,
}

fn is_pinned(pins: &Pins, table: TableId, row: u32) -> bool {
    !pins.is_empty() && pins.contains_key(&(table, row))
}

/// Notes a change; whether the row is pinned.
fn touch(pins: &mut Pins, table: TableId, row: u32) -> bool {
    if pins.is_empty() {
        return false;
    }
    match pins.get_mut(&(table, row)) {
        Some(pin) => {
            pin.changes += 1;
            true
        }
        None => false,
    }
}

impl Storage {
    pub fn new(schema: Arc<Schema>) -> Storage {
        Storage::of(schema, |_| true)
    }

    /// Nobody may look at the other tables.
    pub fn of(schema: Arc<Schema>, has: impl Fn(TableId) -> bool) -> Storage {
        let tables = schema.tables.iter().zip(0..).map(|(table, id)| match has(TableId(id)) {
            true => TableStore::new(table),
            false => TableStore::absent(),
        });
        let tables = tables.collect();
        let (history, prepared, unsynced) = Default::default();
        Storage { schema, tables, history, prepared, unsynced, room: Room::default() }
    }

    /// Adds a row. The error is a violated key (23505), or that there is no room; nothing has changed then.
    pub fn insert(
        &mut self,
        table: TableId,
        values: &[Value],
        timestamp: Timestamp,
    ) -> Result<u32, SqlError> {
        self.check_disk()?;
        self.check_memory()?;
        // That nobody has the key may be news.
        self.unsynced.look_at(table);
        let schema = &self.schema.tables[table.0 as usize];
        let store = &mut self.tables[table.0 as usize];
        let packed = store.layout.pack(timestamp.clock, values);
        let row = store
            .insert(schema, packed)
            .map_err(|index| store.unique_violation(schema, index, &|column| values[column].clone()))?;
        self.history.push(Change { table, row, before: RowState::Absent, operation: None, timestamp });
        Ok(row)
    }

    /// Writes the new values of some columns. `operation` says what the change is as an operation; it must
    /// be there where [`Storage::is_pinned`] says that somebody may need to fold it again.
    pub fn update(
        &mut self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
        timestamp: Timestamp,
        operation: Option<Operation>,
    ) -> Result<(), SqlError> {
        self.check_disk()?;
        let schema = &self.schema.tables[table.0 as usize];
        let store = &self.tables[table.0 as usize];
        let old = store.row(row).expect("a row that was just found");
        let touched = |column| changes.iter().any(|(changed, _)| *changed == column);
        let pinned = is_pinned(&self.prepared, table, row);
        if !pinned
            && !TableStore::is_indexed(schema, touched)
            && let Some(mut patch) = store.layout.patch(old, timestamp.clock, changes)
        {
            self.tables[table.0 as usize].exchange(row, &mut patch);
            let before = RowState::Patched(patch);
            self.history.push(Change { table, row, before, operation: None, timestamp });
            return Ok(());
        }
        let packed = store.layout.changed(old, timestamp.clock, changes);
        if packed.len() > old.len() {
            self.check_memory()?;
        }
        touch(&mut self.prepared, table, row);
        let store = &mut self.tables[table.0 as usize];
        let before = store.replace(schema, row, packed, touched).map_err(|index| {
            let new = |column| match changes.iter().find(|(changed, _)| *changed == column) {
                Some((_, value)) => value.clone(),
                None => store.value(row, column),
            };
            store.unique_violation(schema, index, &new)
        })?;
        let operation = operation.filter(|_| pinned).map(Box::new);
        assert!(!pinned || operation.is_some(), "a change to a pinned row says its operation");
        self.history.push(Change { table, row, before: RowState::Row(before), operation, timestamp });
        Ok(())
    }

    pub fn delete(&mut self, table: TableId, row: u32, timestamp: Timestamp) {
        let pinned = touch(&mut self.prepared, table, row);
        let schema = &self.schema.tables[table.0 as usize];
        let before = self.tables[table.0 as usize].remove(schema, row, !pinned);
        let operation = pinned.then(|| Box::new(Operation::Delete));
        self.history.push(Change { table, row, before: RowState::Row(before), operation, timestamp });
    }

    /// Applies an operation that was prepared at `prepared_at`, in its place in timestamp order (S9).
    /// `row` is where the row was then; an insert finds its own place.
    pub fn apply(
        &mut self,
        table: TableId,
        row: Option<u32>,
        operation: &Operation,
        timestamp: Timestamp,
        prepared_at: Position,
    ) {
        let schema = &self.schema.tables[table.0 as usize];
        let store = &mut self.tables[table.0 as usize];
        let Some(row) = row else {
            let Operation::Insert(packed) = operation else { unreachable!("only an insert has no row yet") };
            let mut packed = packed.clone();
            Layout::set_timestamp(&mut packed, timestamp.clock);
            // The key was claimed when the transaction prepared, so nobody else can have taken it; total all
            // the same (S8): on a key that is there, an insert changes nothing.
            if let Ok(row) = store.insert(schema, packed) {
                self.history.push(Change {
                    table,
                    row,
                    before: RowState::Absent,
                    operation: None,
                    timestamp,
                });
            }
            return;
        };
        let Some(current) = store.row(row) else { return };
        let current: Packed = current.into();
        let after = if timestamp.clock > Layout::timestamp(&current) {
            operation::fold(&store.layout, &schema.types, Some(current), operation, timestamp)
        } else {
            self.history.refold(
                &store.layout,
                &schema.types,
                (table, row),
                current,
                (operation, timestamp),
                prepared_at,
            )
        };
        let pinned = touch(&mut self.prepared, table, row);
        let before = match after {
            Some(after) => {
                // A key column may change only by an operation that took the key's claim when it prepared.
                store.replace(schema, row, after, |_| true).expect("a claimed key is free")
            }
            None => store.remove(schema, row, !pinned),
        };
        // Kept in any case: the same transaction may have another operation on the row.
        let operation = Some(Box::new(operation.clone()));
        self.history.push(Change { table, row, before: RowState::Row(before), operation, timestamp });
    }

    /// What is said of a row that has the key of another.
    pub fn unique_violation(&self, table: TableId, index: IndexId, values: &[Value]) -> SqlError {
        let (store, schema) = (&self.tables[table.0 as usize], self.schema.table(table));
        store.unique_violation(schema, index, &|column| values[column].clone())
    }

    /// A prepared transaction will write this row.
    pub fn is_pinned(&self, table: TableId, row: u32) -> bool {
        is_pinned(&self.prepared, table, row)
    }

    /// A prepared transaction will write this row in a way that whoever wants to hold it so has to wait for.
    pub fn pin_conflicts(&self, table: TableId, row: u32, strength: LockStrength) -> bool {
        let written = |pin: &Pin| match pin.takes_key {
            true => LockStrength::Update,
            false => LockStrength::NoKeyUpdate,
        };
        !self.prepared.is_empty()
            && self.prepared.get(&(table, row)).is_some_and(|pin| written(pin).conflicts_with(strength))
    }

    /// The row's bytes, if it is there.
    pub fn packed(&self, table: TableId, row: u32) -> Option<&[u8]> {
        self.tables[table.0 as usize].row(row)
    }

    /// The row's key in an index, as it is stored there.
    pub fn index_key(&self, table: TableId, index: IndexId, row: u32) -> KeyBytes {
        let store = &self.tables[table.0 as usize];
        store.key(self.schema.table(table), index, store.row(row).expect("a row that was just found"), row)
    }

    /// From now on later changes to this row keep their operations. Returns what [`Storage::is_untouched`]
    /// asks for.
    pub fn pin(&mut self, table: TableId, row: u32, takes_key: bool) -> u32 {
        let pin = self.prepared.entry((table, row)).or_default();
        pin.transactions += 1;
        pin.takes_key |= takes_key;
        pin.changes
    }

    /// Nobody else has pinned the row, and nothing has changed it since.
    pub fn is_untouched(&self, table: TableId, row: u32, changes: u32) -> bool {
        self.prepared.get(&(table, row)).is_some_and(|pin| pin.transactions == 1 && pin.changes == changes)
    }

    pub fn unpin(&mut self, table: TableId, row: u32) {
        let pin = self.prepared.get_mut(&(table, row)).expect("a pinned row");
        pin.transactions -= 1;
        if pin.transactions == 0 {
            self.prepared.remove(&(table, row));
            self.tables[table.0 as usize].recycle(row);
        }
    }

    /// Finds the rows with these whole keys and touches their bytes, so that they are in the processor's
    /// caches when they are asked for. No look-up depends on another: memory answers several at a time.
    pub fn look_ahead(&self, keys: &[(TableId, IndexId, KeyBytes)]) {
        const CACHE_LINE_BYTES: usize = 64;
        let row = |(table, index, key): &(TableId, IndexId, KeyBytes)| {
            let store = &self.tables[table.0 as usize];
            store.indexes[*index].get(key).map(|row| (store, row))
        };
        let rows: SmallVec<[(&TableStore, u32); 64]> = keys.iter().filter_map(row).collect();
        let touch = |(store, row): &(&TableStore, u32)| {
            let bytes = store.row(*row).unwrap_or_default();
            bytes.iter().step_by(CACHE_LINE_BYTES).fold(0, |all, byte| all ^ byte)
        };
        std::hint::black_box(rows.iter().map(touch).fold(0, |all, byte| all ^ byte));
    }

    /// How many changes there have been: the shard's position when nothing is half done.
    pub fn position(&self) -> Position {
        self.history.end()
    }

    /// The oldest position that [`Storage::rewind`] can still reach.
    pub fn history_begins(&self) -> Position {
        self.history.begin()
    }

    /// Bytes of the changes since `position`, about.
    pub fn history_bytes(&self, position: Position) -> usize {
        self.history.bytes(position)
    }

    /// Undoes everything after `position`, for good.
    pub fn rollback(&mut self, position: Position) {
        while self.history.end() > position {
            let Change { table, row, before, .. } =
                self.history.pop().expect("history reaches back to the position");
            self.put(table, row, before, true);
        }
    }

    /// Undoes everything after `position` for a moment; [`Storage::replay`] brings it back.
    pub fn rewind(&mut self, position: Position) -> Vec<Undone> {
        assert!(position >= self.history.begin(), "history no longer reaches back to the position");
        let mut undone = Vec::with_capacity((self.history.end() - position) as usize);
        while self.history.end() > position {
            let Change { table, row, before, operation, timestamp } =
                self.history.pop().expect("history reaches back to the position");
            let store = &self.tables[table.0 as usize];
            let is_free = matches!(before, RowState::Row(_)) && store.is_free(row);
            // The slot stays reserved: what is applied in the meantime must not take it.
            let after = self.put(table, row, before, false);
            undone.push(Undone { table, row, after, is_free, operation, timestamp });
        }
        undone
    }

    pub fn replay(&mut self, undone: Vec<Undone>) {
        for Undone { table, row, after, is_free, operation, timestamp } in undone.into_iter().rev() {
            let before = self.put(table, row, after, is_free);
            self.history.push(Change { table, row, before, operation, timestamp });
        }
    }

    /// Makes the row what `state` says; returns what undoes that.
    fn put(&mut self, table: TableId, row: u32, state: RowState, recycle: bool) -> RowState {
        let schema = &self.schema.tables[table.0 as usize];
        let store = &mut self.tables[table.0 as usize];
        match state {
            RowState::Absent => RowState::Row(store.remove(schema, row, recycle)),
            RowState::Row(other) if store.row(row).is_some() => RowState::Row(
                store.replace(schema, row, other, |_| true).expect("a state that was there has unique keys"),
            ),
            RowState::Row(other) => {
                store.insert_at(schema, row, other);
                RowState::Absent
            }
            RowState::Patched(mut patch) => {
                store.exchange(row, &mut patch);
                RowState::Patched(patch)
            }
        }
    }

    /// Nobody will ask for a state before `position` any more.
    pub fn forget(&mut self, position: Position) {
        self.history.forget(position);
    }

    /// What has changed since `position` is in this record, which is not durable yet.
    pub fn note_unsynced(&mut self, position: Position, record: u64) {
        let changes = (self.history.end() - position) as usize;
        for change in self.history.since(position) {
            let (table, row) = (change.table, change.row);
            let store = &self.tables[table.0 as usize];
            if changes > unsynced::ROWS_MAX || store.is_missed(self.schema.table(table), row, &change.before)
            {
                self.unsynced.note_table(record, table);
            } else {
                let is_new = matches!(change.before, RowState::Absent);
                self.unsynced.note_row(record, table, row, is_new);
            }
        }
    }

    /// The record has changed more than rows.
    pub fn note_all_unsynced(&mut self, record: u64) {
        self.unsynced.note_all(record);
    }

    /// Records up to this one are durable.
    pub fn on_durable(&mut self, record: u64) {
        self.unsynced.on_durable(record);
    }

    /// From here on, or no longer, no more is asked of rows that are found than whether they are there.
    pub fn ask_existence(&self, does: bool) {
        self.unsynced.ask_existence(does);
    }

    /// Whatever is met from here on is met by a new step.
    pub fn begin_step(&mut self) {
        self.unsynced.begin_step();
    }

    /// The newest record that the step has met in what it has looked at, of those that are not durable; 0: none.
    pub fn read_dependency(&self) -> u64 {
        self.unsynced.met()
    }

    /// How many rows the tables have, by table.
    pub fn row_counts(&self) -> impl Iterator<Item = usize> {
        self.tables.iter().map(TableStore::row_count)
    }

    /// Bytes that the table's rows and indexes take.
    pub fn memory_bytes(&self, table: TableId) -> usize {
        self.tables[table.0 as usize].memory_bytes()
    }

    /// The same, from some of the rows.
    pub fn about_bytes(&self, table: TableId) -> usize {
        self.tables[table.0 as usize].about_bytes()
    }

    /// Bytes of the table's values alone.
    pub fn raw_bytes(&self, table: TableId) -> usize {
        self.tables[table.0 as usize].raw_bytes()
    }

    /// The same for the same rows, whatever order they came in.
    pub fn fingerprint(&self, table: TableId) -> u64 {
        self.tables[table.0 as usize].fingerprint()
    }
}

/// A change that [`Storage::rewind`] took back.
#[derive(Debug)]
pub struct Undone {
    table: TableId,
    row: u32,
    after: RowState,
    /// The row was gone, and its slot free.
    is_free: bool,
    operation: Option<Box<Operation>>,
    timestamp: Timestamp,
}

impl Rows for Storage {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        self.unsynced.look_at(table);
        let row = self.tables[table.0 as usize].indexes[index].get(key)?;
        self.unsynced.find(table, row);
        Some(RowRef { shard: 0, row })
    }

    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        self.unsynced.look_at(table);
        self.tables[table.0 as usize].indexes[index].range(range, reverse, &mut |row| {
            self.unsynced.find(table, row);
            visit(RowRef { shard: 0, row })
        })
    }

    fn range_ahead(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        cursor: &mut Cursor,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        self.unsynced.look_at(table);
        self.tables[table.0 as usize].indexes[index].range_ahead(range, cursor, &mut |row| {
            self.unsynced.find(table, row);
            visit(RowRef { shard: 0, row })
        })
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        self.unsynced.look_at(table);
        let store = &self.tables[table.0 as usize];
        for row in 0..store.slots() {
            if store.row(row).is_none() {
                continue;
            }
            self.unsynced.find(table, row);
            if visit(RowRef { shard: 0, row })?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        self.tables[table.0 as usize].value(row.row, column)
    }

    fn text(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Option<&str> {
        let store = &self.tables[table.0 as usize];
        store.layout.read_text(store.row(row.row)?, column)
    }

    fn is_pinned_against(&self, table: TableId, row: RowRef, strength: LockStrength) -> bool {
        self.pin_conflicts(table, row.row, strength)
    }

    fn row_count(&self, table: TableId) -> usize {
        self.tables[table.0 as usize].row_count()
    }
}
