//! Storage of one shard: rows, their ordered indexes, and the history needed to go back in time.
//!
//! A change is applied in place, and its inverse is kept in the *history* as long as it may be needed: by the running transaction (to
//! undo itself), by a reader that may ask for the state at its position (S5), or by a prepared transaction whose operations may have to
//! be folded in before later ones (S6, S9). Otherwise the history is empty, so memory is the data plus the work in flight.

mod building;
#[cfg(test)]
mod chance;
mod hidden;
mod history;
mod index;
pub mod key;
pub mod layout;
pub mod logged;
pub mod moment;
pub mod operation;
mod point;
mod remake;
pub mod room;
pub mod rows;
mod saved;
pub mod schema;
pub mod shared;
mod stores;
mod table;
pub mod temporary;
mod tree;
mod unsynced;
pub mod view;
pub mod workspace;
mod write;
pub mod write_set;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

pub use building::{Batch, BatchLimits, Building, DuplicateKey, KeyChange, StagedEntries};
pub(crate) use history::RowChanges;
use history::{Change, History, RowState};
pub use index::Cursor;
pub use key::{Boundary, KeyBytes, KeyRange};
use layout::{Layout, Packed};
pub use logged::{Image, LoggedOperation, LoggedRow};
pub(crate) use operation::add;
pub use operation::{
    ColumnChange, ColumnOperation, Functions, Operation, RowFunction, RowName, RowStatement, UpdateName,
};
pub use remake::{AddedIndex, Remade, Remake};
pub use room::Room;
pub use rows::{NoRows, RowRef, Rows, Visit};
pub use saved::SavedRows;
pub use schema::{EntriesSchema, IndexColumn, IndexId, IndexSchema, Schema, TableSchema};
use stores::Stores;
use table::TableStore;
use unsynced::Unsynced;
use weir_core::ids::{Position, Timestamp};
pub use workspace::Workspace;
pub use write::Write;
pub use write_set::{Ahead, Leftovers, Mark, MergedRows, WriteSet};

use weir_core::lsn::Lsn;

#[derive(Debug)]
pub struct Storage {
    schema: Arc<Schema>,
    tables: Stores,
    history: History,
    /// Rows that prepared transactions will write, with the number of these transactions. Later changes to such a row keep their
    /// operations, because a prepared transaction may have to be folded in before them.
    prepared: Pins,
    /// Changes that are not durable yet.
    unsynced: Unsynced,
    pub room: Room,
}

type Pins = HashMap<(TableId, u32), Pin, FxBuildHasher>;

/// Pin of a row that prepared transactions will write.
#[derive(Debug, Default)]
struct Pin {
    /// Number of these transactions.
    transactions: u32,
    /// Number of changes of the row since it was pinned.
    changes: u32,
    /// Set if one of the transactions deletes the row or changes one of its keys.
    takes_key: bool,
}

fn is_pinned(pins: &Pins, table: TableId, row: u32) -> bool {
    !pins.is_empty() && pins.contains_key(&(table, row))
}

/// Records a change; returns whether the row is pinned.
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

    /// Storage without the other tables, which must not be read.
    pub fn of(schema: Arc<Schema>, has: impl Fn(TableId) -> bool) -> Storage {
        let tables = schema.tables.iter().zip(0..).map(|(table, id)| match has(TableId(id)) {
            true => TableStore::new(table),
            false => TableStore::absent(),
        });
        let tables = Stores::new(tables.collect());
        let (history, prepared, unsynced) = Default::default();
        Storage { schema, tables, history, prepared, unsynced, room: Room::default() }
    }

    /// Inserts a row. Errors: unique violation (23505), or out of memory; then nothing has changed.
    pub fn insert(
        &mut self,
        table: TableId,
        values: &[Value],
        timestamp: Timestamp,
    ) -> Result<u32, SqlError> {
        self.check_disk()?;
        self.check_memory()?;
        // The caller learns that the key is absent, which may depend on an unsynced delete.
        self.unsynced.look_at(table);
        let schema = self.schema.table(table);
        let store = &mut self.tables[table];
        let packed = store.layout.pack(timestamp.clock, values);
        let row = store
            .insert(schema, packed)
            .map_err(|index| store.unique_violation(schema, index, &|column| values[column].clone()))?;
        self.history.push(Change { table, row, before: RowState::Absent, operation: None, timestamp });
        Ok(row)
    }

    /// Assigns columns of a row. `operation` describes the change as an operation; it is required if [`Storage::is_pinned`], because the
    /// change may have to be folded again.
    pub fn update(
        &mut self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
        timestamp: Timestamp,
        operation: Option<Operation>,
    ) -> Result<(), SqlError> {
        self.check_disk()?;
        let schema = self.schema.table(table);
        let store = &self.tables[table];
        let old = store.row(row).expect("a row that was just found");
        let touched = |column| changes.iter().any(|(changed, _)| *changed == column);
        let pinned = is_pinned(&self.prepared, table, row);
        if !pinned
            && !TableStore::is_indexed(schema, touched)
            && let Some(mut patch) = store.layout.patch(old, timestamp.clock, changes)
        {
            self.tables[table].exchange(row, &mut patch);
            let before = RowState::Patched(patch);
            self.history.push(Change { table, row, before, operation: None, timestamp });
            return Ok(());
        }
        let packed = store.layout.changed(old, timestamp.clock, changes);
        if packed.len() > old.len() {
            self.check_memory()?;
        }
        touch(&mut self.prepared, table, row);
        let store = &mut self.tables[table];
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
        let schema = self.schema.table(table);
        let before = self.tables[table].remove(schema, row, !pinned);
        let operation = pinned.then(|| Box::new(Operation::Delete));
        self.history.push(Change { table, row, before: RowState::Row(before), operation, timestamp });
    }

    /// Applies a prepared operation at its place in timestamp order (S9). `changes`: those since its prepare. `row` is the slot at the prepare;
    /// an insert chooses its slot.
    pub fn apply(
        &mut self,
        table: TableId,
        row: Option<u32>,
        operation: &Operation,
        timestamp: Timestamp,
        changes: &mut RowChanges,
    ) {
        let schema = self.schema.table(table);
        let store = &mut self.tables[table];
        let Some(row) = row else {
            let Operation::Insert(packed) = operation else { unreachable!("only an insert has no row yet") };
            let mut packed = packed.clone();
            Layout::set_timestamp(&mut packed, timestamp.clock);
            // The key has been claimed since the prepare, so no other row can have it. Total nevertheless (S8): an insert with an
            // existing key changes nothing.
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
                changes,
            )
        };
        let pinned = touch(&mut self.prepared, table, row);
        let before = match after {
            Some(after) => {
                // A key column changes only by an operation whose transaction claimed the key when it prepared.
                store.replace(schema, row, after, |_| true).expect("a claimed key is free")
            }
            None => store.remove(schema, row, !pinned),
        };
        // Always kept: the same transaction may have another operation on the row.
        let operation = Some(Box::new(operation.clone()));
        self.history.push(Change { table, row, before: RowState::Row(before), operation, timestamp });
    }

    /// Error of a row whose key another row has.
    pub fn unique_violation(&self, table: TableId, index: IndexId, values: &[Value]) -> SqlError {
        let (store, schema) = (&self.tables[table], self.schema.table(table));
        store.unique_violation(schema, index, &|column| values[column].clone())
    }

    /// Returns whether a prepared transaction will write this row.
    pub fn is_pinned(&self, table: TableId, row: u32) -> bool {
        is_pinned(&self.prepared, table, row)
    }

    /// Returns whether a prepared transaction will write this row in a way that conflicts with a lock of that strength.
    pub fn pin_conflicts(&self, table: TableId, row: u32, strength: LockStrength) -> bool {
        let written = |pin: &Pin| match pin.takes_key {
            true => LockStrength::Update,
            false => LockStrength::NoKeyUpdate,
        };
        !self.prepared.is_empty()
            && self.prepared.get(&(table, row)).is_some_and(|pin| written(pin).conflicts_with(strength))
    }

    /// Bytes of the row, if it exists.
    pub fn packed(&self, table: TableId, row: u32) -> Option<&[u8]> {
        self.tables[table].row(row)
    }

    /// One past the highest slot of the table in use.
    pub fn slots(&self, table: TableId) -> u32 {
        self.tables[table].slots()
    }

    /// Column of a row that is not in the table.
    pub fn read_packed(&self, table: TableId, packed: &[u8], column: ColumnIndex) -> Value {
        self.tables[table].layout.read(packed, column)
    }

    /// Key of the row in an index, in its stored form.
    pub fn index_key(&self, table: TableId, index: IndexId, row: u32) -> KeyBytes {
        let store = &self.tables[table];
        store.key(self.schema.table(table), index, store.row(row).expect("a row that was just found"), row)
    }

    /// Key in an index of a row that is not in the table yet.
    pub fn index_key_of(&self, table: TableId, index: IndexId, packed: &[u8]) -> KeyBytes {
        self.tables[table].key(self.schema.table(table), index, packed, 0)
    }

    /// Pins a row: later changes to it keep their operations. Returns the number of changes for [`Storage::is_untouched`].
    pub fn pin(&mut self, table: TableId, row: u32, takes_key: bool) -> u32 {
        let pin = self.prepared.entry((table, row)).or_default();
        pin.transactions += 1;
        pin.takes_key |= takes_key;
        pin.changes
    }

    /// Returns whether the row has no other pin, and no change since the pin returned `changes`.
    pub fn is_untouched(&self, table: TableId, row: u32, changes: u32) -> bool {
        self.prepared.get(&(table, row)).is_some_and(|pin| pin.transactions == 1 && pin.changes == changes)
    }

    pub fn unpin(&mut self, table: TableId, row: u32) {
        let pin = self.prepared.get_mut(&(table, row)).expect("a pinned row");
        pin.transactions -= 1;
        if pin.transactions == 0 {
            self.prepared.remove(&(table, row));
            self.tables[table].recycle(row);
        }
    }

    /// Prefetches the rows with these full keys into the processor's caches. The look-ups are independent, so their memory accesses
    /// overlap.
    pub fn look_ahead(&self, keys: &[(TableId, IndexId, KeyBytes)]) {
        const CACHE_LINE_BYTES: usize = 64;
        let row = |(table, index, key): &(TableId, IndexId, KeyBytes)| {
            let store = &self.tables[*table];
            store.get(*index, key).map(|row| (store, row))
        };
        let rows: SmallVec<[(&TableStore, u32); 64]> = keys.iter().filter_map(row).collect();
        let touch = |(store, row): &(&TableStore, u32)| {
            let bytes = store.row(*row).unwrap_or_default();
            bytes.iter().step_by(CACHE_LINE_BYTES).fold(0, |all, byte| all ^ byte)
        };
        std::hint::black_box(rows.iter().map(touch).fold(0, |all, byte| all ^ byte));
    }

    /// Number of changes so far; between two requests this is the shard's position.
    pub fn position(&self) -> Position {
        self.history.end()
    }

    /// Oldest position that [`Storage::rewind`] can reach.
    pub fn history_begins(&self) -> Position {
        self.history.begin()
    }

    /// Approximate size of the changes since `position`.
    pub fn history_bytes(&self, position: Position) -> usize {
        self.history.bytes(position)
    }

    /// Rows that have changed since `position`; a row as often as it has.
    pub fn changed_since(&self, position: Position) -> impl Iterator<Item = (TableId, u32)> {
        self.history.since(position).map(|change| (change.table, change.row))
    }

    /// Undoes all changes after `position`, permanently.
    pub fn rollback(&mut self, position: Position) {
        while self.history.end() > position {
            let Change { table, row, before, .. } =
                self.history.pop().expect("history reaches back to the position");
            self.put(table, row, before, true);
        }
    }

    /// Undoes all changes after `position` temporarily; [`Storage::replay`] restores them.
    pub fn rewind(&mut self, position: Position) -> Vec<Undone> {
        assert!(position >= self.history.begin(), "history no longer reaches back to the position");
        let mut undone = Vec::with_capacity((self.history.end() - position) as usize);
        while self.history.end() > position {
            let Change { table, row, before, operation, timestamp } =
                self.history.pop().expect("history reaches back to the position");
            let store = &self.tables[table];
            let is_free = matches!(before, RowState::Row(_)) && store.is_free(row);
            // The slot stays reserved: operations applied in the meantime must not use it.
            let after = self.put(table, row, before, false);
            undone.push(Undone { table, row, after, is_free, operation, timestamp });
        }
        undone
    }

    pub fn replay(&mut self, undone: Vec<Undone>) {
        for Undone { table, row, after, is_free, operation, timestamp } in undone.into_iter().rev() {
            let before = match after {
                // Its slot has stayed reserved: the list of free ones need not be searched.
                RowState::Row(other) if self.tables[table].row(row).is_none() => {
                    self.tables[table].insert_reserved(self.schema.table(table), row, other);
                    RowState::Absent
                }
                after => self.put(table, row, after, is_free),
            };
            self.history.push(Change { table, row, before, operation, timestamp });
        }
    }

    /// Sets the row to `state`; returns the inverse.
    fn put(&mut self, table: TableId, row: u32, state: RowState, recycle: bool) -> RowState {
        let schema = self.schema.table(table);
        let store = &mut self.tables[table];
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

    /// Drops the history before `position`; the caller guarantees that no earlier state is needed.
    pub fn forget(&mut self, position: Position) {
        self.history.forget(position);
    }

    /// Records that the changes since `position` are in `record`, which is not durable yet.
    pub fn note_unsynced(&mut self, position: Position, record: Lsn) {
        let Lsn(record) = record;
        let is_many = self.history.end() - position > unsynced::ROWS_MAX as Position;
        let mut noted = None;
        for change in self.history.since(position) {
            let (table, row) = (change.table, change.row);
            let store = &self.tables[table];
            if is_many || store.is_missed(self.schema.table(table), row, change.before) {
                if noted.replace(table) != Some(table) {
                    self.unsynced.note_table(record, table);
                }
            } else {
                let is_new = matches!(change.before, RowState::Absent);
                self.unsynced.note_row(record, table, row, is_new);
            }
        }
    }

    /// Records that all that is looked for in these tables depends on `record`, which is not durable yet.
    pub fn note_tables_unsynced(&mut self, tables: impl IntoIterator<Item = TableId>, record: Lsn) {
        tables.into_iter().for_each(|table| self.unsynced.note_table(record.0, table));
    }

    /// Records that `record`, not durable yet, has changed more than rows.
    pub fn note_all_unsynced(&mut self, record: Lsn) {
        self.unsynced.note_all(record.0);
    }

    /// Marks the records up to this one as durable.
    pub fn on_durable(&mut self, record: Lsn) {
        self.unsynced.on_durable(record.0);
    }

    /// Returns whether the records up to this one are durable.
    pub fn is_durable(&self, record: Lsn) -> bool {
        self.unsynced.is_durable(record.0)
    }

    /// Sets whether found rows are tested for existence only, so that updates of them are no read dependency.
    pub fn ask_existence(&self, does: bool) {
        self.unsynced.ask_existence(does);
    }

    /// Starts tracking the read dependency of a new step.
    pub fn begin_step(&mut self) {
        self.unsynced.begin_step();
    }

    /// Newest non-durable record that the step has read from; the start of the log if there is none.
    pub fn read_dependency(&self) -> Lsn {
        Lsn(self.unsynced.met())
    }

    /// Number of rows of each table.
    pub fn row_counts(&self) -> impl Iterator<Item = usize> {
        self.tables.of_tables().iter().map(TableStore::row_count)
    }

    /// Number of rows of a table, those that are hidden included.
    #[cfg(test)]
    pub fn physical_rows(&self, table: TableId) -> usize {
        (0..self.slots(table)).filter(|row| self.tables[table].physical(*row).is_some()).count()
    }

    /// Bytes of the table's rows and indexes.
    pub fn memory_bytes(&self, table: TableId) -> usize {
        self.tables[table].memory_bytes()
    }

    /// Estimate of [`Storage::memory_bytes`] from a sample of rows.
    pub fn about_bytes(&self, table: TableId) -> usize {
        self.tables[table].about_bytes()
    }

    /// Checks that each index of each table, and of entries of global keys, has every row under its key and nothing else.
    ///
    /// # Errors
    /// Names an index.
    pub fn check_indexes(&self) -> Result<(), String> {
        self.tables.all().try_for_each(|(table, store)| store.check_indexes(self.schema.table(table)))
    }

    /// Bytes of the table's values without overhead.
    pub fn raw_bytes(&self, table: TableId) -> usize {
        self.tables[table].raw_bytes()
    }

    /// Hash of the table's rows, independent of their order.
    pub fn fingerprint(&self, table: TableId) -> u64 {
        self.tables[table].fingerprint()
    }
}

/// A change that [`Storage::rewind`] has undone.
#[derive(Debug)]
pub struct Undone {
    table: TableId,
    row: u32,
    after: RowState,
    /// The row was deleted, and its slot was free.
    is_free: bool,
    operation: Option<Box<Operation>>,
    timestamp: Timestamp,
}

impl Undone {
    pub fn row(&self) -> (TableId, u32) {
        (self.table, self.row)
    }
}

impl Rows for Storage {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        self.unsynced.look_at(table);
        let row = self.tables[table].get(index, key)?;
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
        self.tables[table].range(index, range, reverse, &mut |row| {
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
        self.tables[table].range_ahead(index, range, cursor, &mut |row| {
            self.unsynced.find(table, row);
            visit(RowRef { shard: 0, row })
        })
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        self.unsynced.look_at(table);
        let store = &self.tables[table];
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
        self.tables[table].value(row.row, column)
    }

    fn is_pinned_against(&self, table: TableId, row: RowRef, strength: LockStrength) -> bool {
        self.pin_conflicts(table, row.row, strength)
    }

    fn row_count(&self, table: TableId) -> usize {
        self.tables[table].row_count()
    }
}
