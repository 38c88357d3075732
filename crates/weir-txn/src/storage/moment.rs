//! The rows of a shard as they were at one position, with the writes of the worker's own transaction: for a worker that runs beside the
//! shard's steps (docs/internals/steps.md).
//!
//! The worker holds the storage's lock while it reads and gives it up at its pauses. No method returns anything that refers to the
//! storage, so a pause invalidates nothing. What others have changed since the position is remembered as it was before ([`Changed`]).

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, RawRwLock, RwLock};
use rustc_hash::FxHashMap;
use weir_core::ids::{Position, Timestamp};
use weir_core::machine::{Pace, TemporaryFile};
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::memory::WorkingMemory;
use weir_types::{SqlError, Value};

use super::Storage;
use super::history::RowState;
use super::key::{Boundary, KeyBytes, KeyRange};
use super::layout::Packed;
use super::rows::{RowRef, Rows, Visit};
use super::schema::{IndexId, Schema};
use super::temporary::TemporaryFiles;
use super::write_set::{MergedRows, WriteSet};

/// Number of rows that a scan or range collects before it visits them: the first time, and at most.
const CHUNK_ROWS: (usize, usize) = (16, 256);

/// Rows that have changed since a position, each as it was then; none: it did not exist.
#[derive(Debug, Default)]
pub struct Changed {
    tables: FxHashMap<TableId, ChangedRows>,
}

#[derive(Debug, Default)]
struct ChangedRows {
    rows: FxHashMap<u32, Option<Packed>>,
    /// By index that has been used: the rows by their keys at the position.
    by_key: FxHashMap<IndexId, BTreeMap<KeyBytes, u32>>,
}

impl Changed {
    fn get(&self, table: TableId, row: u32) -> Option<&Option<Packed>> {
        self.tables.get(&table)?.rows.get(&row)
    }

    fn has(&self, table: TableId, row: u32) -> bool {
        self.get(table, row).is_some()
    }

    fn is_empty(&self) -> bool {
        self.tables.values().all(|changed| changed.rows.is_empty())
    }

    /// Returns whether any row of the table has changed.
    fn has_any(&self, table: TableId) -> bool {
        self.tables.get(&table).is_some_and(|changed| !changed.rows.is_empty())
    }

    /// Remembers a row as it was, unless it is remembered already.
    pub fn remember(&mut self, storage: &Storage, table: TableId, row: u32, was: Option<Packed>) {
        let changed = self.tables.entry(table).or_default();
        let Entry::Vacant(entry) = changed.rows.entry(row) else { return };
        if let Some(packed) = &was {
            let (store, schema) = (&storage.tables[table], storage.schema.table(table));
            for (index, keys) in &mut changed.by_key {
                keys.insert(store.key(schema, *index, packed, row), row);
            }
        }
        entry.insert(was);
    }

    /// Remembers what has changed since `position`, as it was then. Cost: the number of changes.
    fn add_since(&mut self, storage: &Storage, position: Position) {
        let mut was: FxHashMap<(TableId, u32), Option<Packed>> = FxHashMap::default();
        let changes: Vec<_> = storage.history.since(position).collect();
        for change in changes.into_iter().rev() {
            let (table, row) = (change.table, change.row);
            if self.has(table, row) {
                continue;
            }
            let state =
                was.entry((table, row)).or_insert_with(|| storage.packed(table, row).map(Packed::from));
            match change.before {
                RowState::Absent => *state = None,
                RowState::Row(packed) => *state = Some(packed.clone()),
                RowState::Patched(patch) => {
                    let patched = state.as_mut().expect("a row that was patched");
                    patch.clone().exchange(patched);
                }
            }
        }
        for ((table, row), state) in was {
            self.remember(storage, table, row, state);
        }
    }

    /// Builds the keys of the table's changed rows in the index, unless that has been done.
    fn index(&mut self, storage: &Storage, table: TableId, index: IndexId) {
        let Some(ChangedRows { rows, by_key }) = self.tables.get_mut(&table) else { return };
        let Entry::Vacant(entry) = by_key.entry(index) else { return };
        let (store, schema) = (&storage.tables[table], storage.schema.table(table));
        let existed = rows.iter().filter_map(|(row, was)| Some((*row, was.as_deref()?)));
        entry.insert(existed.map(|(row, packed)| (store.key(schema, index, packed, row), row)).collect());
    }

    fn by_key(&self, table: TableId, index: IndexId) -> Option<&BTreeMap<KeyBytes, u32>> {
        self.tables.get(&table)?.by_key.get(&index)
    }
}

/// How far a worker is, as its shard sees it.
#[derive(Debug, Default)]
pub struct Progress {
    /// It needs the history from this position on.
    needs: AtomicU64,
    /// It must end: why. It reads nothing more.
    void: OnceLock<SqlError>,
    /// It waits until its reader takes rows.
    rests_for_reader: AtomicBool,
}

impl Progress {
    pub fn new(position: Position) -> Progress {
        Progress { needs: AtomicU64::new(position), ..Progress::default() }
    }

    pub fn needs(&self) -> Position {
        self.needs.load(Ordering::Acquire)
    }

    /// The rows that it reads are gone. Only during a turn of the shard.
    pub fn end(&self, why: SqlError) {
        self.void.get_or_init(|| why);
    }

    pub fn void(&self) -> Option<&SqlError> {
        self.void.get()
    }

    pub fn rests_for_reader(&self) -> bool {
        self.rests_for_reader.load(Ordering::Relaxed)
    }
}

/// Everything that a worker needs to read at its moment; it may go to another thread.
#[derive(Debug)]
pub struct MomentParts {
    pub storage: Arc<RwLock<Storage>>,
    pub schema: Arc<Schema>,
    pub progress: Arc<Progress>,
    pub changed: Changed,
    /// Writes of the worker's own transaction. No other transaction changes their rows.
    pub own: WriteSet,
    /// Of the statement.
    pub memory: WorkingMemory,
    /// Deliberate bug: what has changed since is read as it is now.
    pub advances: bool,
}

type Guard = ArcRwLockReadGuard<RawRwLock, Storage>;

/// Rows at the moment of one worker. It stays on the worker's thread.
pub struct Moment {
    lock: Arc<RwLock<Storage>>,
    /// None: during a pause only.
    guard: RefCell<Option<Guard>>,
    schema: Arc<Schema>,
    progress: Arc<Progress>,
    /// Position up to which `changed` has the changes.
    seen: Cell<Position>,
    changed: RefCell<Changed>,
    own: RefCell<WriteSet>,
    pace: Arc<dyn Pace>,
    memory: WorkingMemory,
    /// Bytes of the statement's temporary files.
    temporary_bytes: Arc<AtomicU64>,
    advances: bool,
}

/// The parts of a moment, borrowed at once.
struct View<'m> {
    storage: Ref<'m, Storage>,
    changed: Ref<'m, Changed>,
    own: Ref<'m, WriteSet>,
}

impl View<'_> {
    /// The row's bytes at the moment: as they were before a change, as the transaction has written them, or as they are.
    fn packed(&self, table: TableId, row: u32) -> Option<&[u8]> {
        match self.changed.get(table, row) {
            Some(was) => was.as_deref(),
            None if self.own.is_empty() => self.storage.packed(table, row),
            None => MergedRows { base: &self.storage, own: &self.own }.packed(table, row),
        }
    }
}

impl Moment {
    /// Waits for the lock.
    pub fn new(parts: MomentParts, pace: Arc<dyn Pace>) -> Moment {
        let MomentParts { storage: lock, schema, progress, changed, own, memory, advances } = parts;
        let moment = Moment {
            guard: RefCell::new(None),
            seen: Cell::new(progress.needs()),
            changed: RefCell::new(changed),
            lock,
            schema,
            progress,
            own: RefCell::new(own),
            pace,
            memory,
            temporary_bytes: Arc::default(),
            advances,
        };
        moment.take_lock();
        moment
    }

    fn take_lock(&self) {
        *self.guard.borrow_mut() = Some(RwLock::read_arc(&self.lock));
        self.refresh();
    }

    /// Remembers what steps have changed since the lock was held last.
    fn refresh(&self) {
        if self.is_void() {
            return;
        }
        let storage = self.storage();
        let (seen, now) = (self.seen.get(), storage.position());
        if seen != now {
            if !self.advances {
                self.changed.borrow_mut().add_since(&storage, seen);
            }
            self.seen.set(now);
            self.progress.needs.store(now, Ordering::Release);
        }
    }

    /// Lets the shard take a turn if it wants one. No borrow of the storage is alive.
    pub fn pause(&self) {
        if self.pace.wants_pause() {
            *self.guard.borrow_mut() = None;
            self.pace.pause();
            self.take_lock();
        } else {
            let mut guard = self.guard.borrow_mut();
            Guard::bump(guard.as_mut().expect("the lock is held outside of pauses"));
            drop(guard);
            self.refresh();
        }
    }

    /// Waits for something outside of the storage. No borrow of the storage is alive.
    pub fn rest(&self, wait: &mut dyn FnMut()) {
        *self.guard.borrow_mut() = None;
        self.pace.rest(wait);
        self.take_lock();
    }

    /// Waits until the reader takes rows. No borrow of the storage is alive.
    pub fn rest_for_reader(&self, wait: &mut dyn FnMut()) {
        self.progress.rests_for_reader.store(true, Ordering::Relaxed);
        self.rest(wait);
        self.progress.rests_for_reader.store(false, Ordering::Relaxed);
    }

    fn storage(&self) -> Ref<'_, Storage> {
        Ref::map(self.guard.borrow(), |guard| &**guard.as_ref().expect("the lock is held outside of pauses"))
    }

    fn view(&self) -> View<'_> {
        View { storage: self.storage(), changed: self.changed.borrow(), own: self.own.borrow() }
    }

    fn is_void(&self) -> bool {
        self.progress.void().is_some()
    }

    /// Fails once the rows are gone.
    ///
    /// # Errors
    /// Why the worker must end.
    pub fn check_void(&self) -> Result<(), SqlError> {
        self.progress.void().map_or(Ok(()), |why| Err(why.clone()))
    }

    /// Calls `f` with the row's bytes at the moment.
    fn with_row<R>(&self, table: TableId, row: u32, f: impl FnOnce(&Storage, Option<&[u8]>) -> R) -> R {
        let view = self.view();
        let packed = if self.is_void() { None } else { view.packed(table, row) };
        f(&view.storage, packed)
    }

    /// Calls `f` with the tables as they are now, with the transaction's own writes.
    fn with_base<R>(&self, f: impl FnOnce(&Storage, &dyn Rows) -> R) -> R {
        let (storage, own) = (self.storage(), self.own.borrow());
        match own.is_empty() {
            false => f(&storage, &MergedRows { base: &storage, own: &own }),
            true => f(&storage, &*storage),
        }
    }

    /// The next rows of the range at the moment, at most `most` of them.
    fn rows_in(
        &self,
        (table, index): (TableId, IndexId),
        range: &KeyRange,
        reverse: bool,
        most: usize,
    ) -> Result<Vec<u32>, SqlError> {
        self.changed.borrow_mut().index(&self.storage(), table, index);
        let changed = self.changed.borrow();
        let mut rows = Vec::with_capacity(most);
        let _ = self.with_base(|_, base| {
            base.range(table, index, range, reverse, &mut |found| {
                if !changed.has(table, found.row) {
                    rows.push(found.row);
                }
                Ok(if rows.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
            })
        })?;
        let in_range = |keys: &BTreeMap<KeyBytes, u32>| {
            let upper = &range.upper.bytes[..];
            let keys = keys.range(range.lower.bytes.clone()..);
            let keys = keys.take_while(|(key, _)| key[..] < *upper || key.starts_with(upper));
            let keyed = keys.filter(|(key, _)| range.contains(key)).map(|(key, row)| (key.clone(), *row));
            match reverse {
                false => keyed.take(most).collect(),
                true => {
                    let keyed: Vec<_> = keyed.collect();
                    keyed.into_iter().rev().take(most).collect::<Vec<_>>()
                }
            }
        };
        let others = changed.by_key(table, index).map(in_range).unwrap_or_default();
        if others.is_empty() {
            return Ok(rows);
        }
        let keyed = rows.into_iter().map(|row| (self.key(table, index, row), row));
        let mut all: Vec<(KeyBytes, u32)> = keyed.chain(others).collect();
        all.sort_unstable();
        if reverse {
            all.reverse();
        }
        all.truncate(most);
        Ok(all.into_iter().map(|(_, row)| row).collect())
    }

    fn key(&self, table: TableId, index: IndexId, row: u32) -> KeyBytes {
        self.with_row(table, row, |storage, packed| {
            let packed = packed.expect("a row that was just found");
            storage.tables[table].key(storage.schema.table(table), index, packed, row)
        })
    }

    /// Numbers of rows from the slot on, at most `most` of them, and the slot behind them; none: these are the last.
    fn rows_from(&self, table: TableId, slot: u32, most: usize) -> (Vec<u32>, Option<u32>) {
        let view = self.view();
        let mut rows = Vec::with_capacity(most);
        for row in slot..view.storage.tables[table].slots() {
            if view.packed(table, row).is_some() {
                rows.push(row);
            }
            if rows.len() == most {
                return (rows, Some(row + 1));
            }
        }
        (rows, None)
    }

    /// Returns whether others have changed rows of the table since the moment.
    pub fn has_changed(&self, table: TableId) -> bool {
        self.changed.borrow().has_any(table)
    }

    /// Returns whether others have changed the row since the moment.
    pub fn has_changed_row(&self, table: TableId, row: u32) -> bool {
        self.changed.borrow().has(table, row)
    }

    /// Position up to which others have changed nothing since the moment; none: they have.
    pub fn unchanged_until(&self) -> Option<Position> {
        self.changed.borrow().is_empty().then(|| self.seen.get())
    }

    /// Calls `f` with the tables as all see them now.
    pub fn with_committed<R>(&self, f: impl FnOnce(&Storage) -> R) -> R {
        f(&self.storage())
    }

    /// Ends the worker's statement at its next check.
    pub fn end(&self, why: SqlError) {
        self.progress.end(why);
    }

    /// The writes of the worker's transaction, at its end.
    pub fn take_own(&self) -> WriteSet {
        self.own.take()
    }

    /// Calls `f` with the writes of the worker's transaction.
    pub(super) fn with_own<R>(&self, f: impl FnOnce(&WriteSet) -> R) -> R {
        f(&self.own.borrow())
    }

    /// Returns whether the row exists at the moment.
    pub(super) fn exists(&self, table: TableId, row: u32) -> bool {
        self.with_row(table, row, |_, packed| packed.is_some())
    }

    pub(super) fn is_new(&self, table: TableId, row: u32) -> bool {
        self.own.borrow().is_new(table, row)
    }

    /// Inserts a row; see [`WriteSet::insert`].
    pub(super) fn insert(
        &self,
        table: TableId,
        values: &[Value],
        timestamp: Timestamp,
    ) -> Result<u32, SqlError> {
        self.write(|storage, own| own.insert(storage, table, values, timestamp))
    }

    /// Assigns columns of a row; see [`WriteSet::update`].
    pub(super) fn update(
        &self,
        table: TableId,
        row: u32,
        changes: &[(ColumnIndex, Value)],
        timestamp: Timestamp,
    ) -> Result<(), SqlError> {
        self.write(|storage, own| own.update(storage, (table, row), changes, timestamp))
    }

    pub(super) fn delete(&self, table: TableId, row: u32) -> Result<(), SqlError> {
        self.write(|storage, own| {
            own.delete(storage, table, row);
            Ok(())
        })
    }

    /// Writes to the write set. Slots are reserved in the tables, so the lock is taken for writing.
    fn write<R>(
        &self,
        f: impl FnOnce(&mut Storage, &mut WriteSet) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        *self.guard.borrow_mut() = None;
        let mut storage = RwLock::write_arc(&self.lock);
        // The schema may have changed while the lock was free.
        let written = self.check_void().and_then(|()| f(&mut storage, &mut self.own.borrow_mut()));
        *self.guard.borrow_mut() = Some(ArcRwLockWriteGuard::downgrade(storage));
        self.refresh();
        written
    }

    /// Visits the rows; a pause may follow each.
    fn visit(&self, rows: Vec<u32>, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        for row in rows {
            self.check_void()?;
            if visit(RowRef { shard: 0, row })?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.pause();
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl TemporaryFiles for Moment {
    fn memory(&self) -> WorkingMemory {
        self.memory
    }

    fn create(&self) -> io::Result<Box<dyn TemporaryFile>> {
        self.pace.temporary_file()
    }

    fn bytes(&self) -> &Arc<AtomicU64> {
        &self.temporary_bytes
    }

    fn transfer(&self, transfer: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let mut result = Ok(());
        self.rest(&mut || result = transfer());
        result
    }
}

impl Rows for Moment {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn temporary_files(&self) -> Option<&dyn TemporaryFiles> {
        Some(self)
    }

    fn get(&self, table: TableId, index: IndexId, key: &KeyBytes) -> Option<RowRef> {
        if self.is_void() {
            return None;
        }
        self.changed.borrow_mut().index(&self.storage(), table, index);
        let changed = self.changed.borrow();
        // A key may end with the number of its row.
        let first = |keys: &BTreeMap<KeyBytes, u32>| {
            keys.range(key.clone()..).next().filter(|(found, _)| found.starts_with(key)).map(|(_, row)| *row)
        };
        if let Some(row) = changed.by_key(table, index).and_then(first) {
            return Some(RowRef { shard: 0, row });
        }
        let found = self.with_base(|_, base| base.get(table, index, key));
        found.filter(|found| !changed.has(table, found.row))
    }

    fn range(
        &self,
        table: TableId,
        index: IndexId,
        range: &KeyRange,
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>, SqlError> {
        let (mut range, mut most) = (range.clone(), CHUNK_ROWS.0);
        loop {
            self.check_void()?;
            let rows = self.rows_in((table, index), &range, reverse, most)?;
            let Some(last) = rows.last().filter(|_| rows.len() == most) else {
                return self.visit(rows, visit);
            };
            let bytes = self.key(table, index, *last);
            match reverse {
                true => range.upper = Boundary { bytes, after: false },
                false => range.lower = Boundary { bytes, after: true },
            }
            if self.visit(rows, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            most = (2 * most).min(CHUNK_ROWS.1);
        }
    }

    fn scan(&self, table: TableId, visit: Visit<'_>) -> Result<ControlFlow<()>, SqlError> {
        let mut slot = 0;
        loop {
            self.check_void()?;
            let (rows, next) = self.rows_from(table, slot, CHUNK_ROWS.1);
            if self.visit(rows, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            match next {
                Some(next) => slot = next,
                None => return Ok(ControlFlow::Continue(())),
            }
        }
    }

    fn value(&self, table: TableId, row: RowRef, column: ColumnIndex) -> Value {
        self.with_row(table, row.row, |storage, packed| match packed {
            Some(packed) => storage.tables[table].layout.read(packed, column),
            // The rows are gone, and the statement ends at its next check.
            None => Value::Null,
        })
    }

    fn is_pinned_against(&self, table: TableId, row: RowRef, strength: LockStrength) -> bool {
        !self.is_void() && self.storage().pin_conflicts(table, row.row, strength)
    }

    fn row_count(&self, table: TableId) -> usize {
        if self.is_void() {
            return 0;
        }
        self.with_base(|_, base| base.row_count(table))
    }
}

#[cfg(test)]
mod tests;
