//! Write set of an uncommitted transaction: its row changes, stored separately from the tables (docs/internals/write-sets.md).
//!
//! Visible to its own transaction only, which reads through [`MergedRows`]: the tables and indexes merged with the write set. COMMIT
//! applies it once ([`Storage::apply_write_set`]). A savepoint is a mark in its undo log.
//!
//! Inserted rows reserve slots in their tables from the start until the transaction ends, so the name of a row never changes.

mod ahead;
mod apply;
mod merged;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use weir_core::ids::Timestamp;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, Value};

pub use ahead::{Ahead, Leftovers};
pub use merged::MergedRows;

use super::Storage;
use super::index::IndexTree;
use super::key::KeyBytes;
use super::layout::Packed;
use super::schema::{IndexId, TableSchema};
use super::table::TableStore;

/// Up to this number of rows of a table are searched linearly; more are found by maps.
const FEW_ROWS: usize = 16;

/// Number of writes of a write set.
pub type Mark = usize;

/// Gives the key of a row in an index.
pub type IndexKeys<'k> = &'k dyn Fn(IndexId) -> KeyBytes;

/// Keys of a row in the unique indexes of its table, by index.
type UniqueKeys = SmallVec<[Option<KeyBytes>; 2]>;

#[derive(Debug, Default)]
pub struct WriteSet {
    /// In the order of first writes. Tables are shared with write sets that lie below a definition.
    tables: Vec<(TableId, Arc<TableWrites>)>,
    /// Undoes all writes, in order.
    undo: Vec<UndoStep>,
    /// Number of writes that `undo` has.
    writes: usize,
}

/// Changes of the transaction to the rows of one table.
#[derive(Debug, Default)]
struct TableWrites {
    /// Changed rows, each once, in the order of first writes.
    entries: Vec<Entry>,
    /// Positions of the entries, once there are more than [`FEW_ROWS`].
    places: Option<Places>,
    /// By index of the table.
    indexes: Vec<OwnIndex>,
    /// Difference in the number of rows that the write set makes.
    rows_more: i64,
    /// Total bytes of the rows.
    bytes: usize,
}

/// Entries that the table's own index does not contain under their current keys.
#[derive(Debug, Default)]
struct OwnIndex {
    /// Built at the first use, and maintained from then on.
    tree: OnceLock<IndexTree>,
    /// Of a unique index that is not built: no entry has a greater key. So rows that come in the order of their keys need no index.
    greatest: Option<KeyBytes>,
}

#[derive(Clone, Debug)]
struct Entry {
    row: u32,
    /// The current row; none: deleted.
    after: Option<Packed>,
    /// Inserted by the transaction: the table has reserved an empty slot.
    is_new: bool,
}

#[derive(Debug)]
enum UndoStep {
    /// That many entries were added, from the position `first` on.
    Added { table: TableId, first: usize, count: usize },
    /// The row of an entry was replaced.
    Replaced { table: TableId, row: u32, before: Option<Packed> },
}

/// Positions of entries by row. Rows in consecutive slots that were first written consecutively form one run.
#[derive(Clone, Debug, Default)]
struct Places {
    /// By first slot: position of its entry, and length of the run.
    runs: BTreeMap<u32, (u32, u32)>,
}

impl Places {
    fn of(entries: &[Entry]) -> Places {
        let mut places = Places::default();
        entries.iter().zip(0..).for_each(|(entry, at)| places.add(entry.row, at));
        places
    }

    fn get(&self, row: u32) -> Option<usize> {
        let (&first, &(at, length)) = self.runs.range(..=row).next_back()?;
        (row - first < length).then(|| (at + row - first) as usize)
    }

    /// Adds a position, which must exceed all others.
    fn add(&mut self, row: u32, at: u32) {
        if let Some((first, (begin, length))) = self.runs.range_mut(..row).next_back()
            && first + *length == row
            && *begin + *length == at
        {
            *length += 1;
        } else {
            self.runs.insert(row, (at, 1));
        }
    }

    /// Removes the entry that was added last.
    fn remove_last(&mut self, row: u32) {
        let (&first, (_, length)) = self.runs.range_mut(..=row).next_back().expect("it was added");
        *length -= 1;
        if *length == 0 {
            self.runs.remove(&first);
        }
    }
}

impl Clone for TableWrites {
    /// Copies without the indexes, which are rebuilt at their next use.
    fn clone(&self) -> TableWrites {
        let unbuilt = |index: &OwnIndex| OwnIndex { greatest: index.greatest.clone(), ..OwnIndex::default() };
        let indexes = self.indexes.iter().map(unbuilt).collect();
        let (entries, places) = (self.entries.clone(), self.places.clone());
        TableWrites { entries, places, indexes, rows_more: self.rows_more, bytes: self.bytes }
    }
}

impl TableWrites {
    fn new(indexes: usize) -> TableWrites {
        let indexes = std::iter::repeat_with(OwnIndex::default).take(indexes).collect();
        TableWrites { indexes, ..TableWrites::default() }
    }

    fn position(&self, row: u32) -> Option<usize> {
        match &self.places {
            None => self.entries.iter().position(|entry| entry.row == row),
            Some(places) => places.get(row),
        }
    }

    fn get(&self, row: u32) -> Option<&Entry> {
        Some(&self.entries[self.position(row)?])
    }

    fn has_few(&self) -> bool {
        self.places.is_none()
    }

    /// Returns whether the table's own index does not lead to the entry's current key.
    fn is_displaced(&self, store: &TableStore, schema: &TableSchema, index: IndexId, entry: &Entry) -> bool {
        let Some(after) = &entry.after else { return false };
        if entry.is_new {
            return true;
        }
        match store.row(entry.row) {
            None => true,
            Some(before) => {
                let key = |packed| store.key(schema, index, packed, entry.row);
                key(before) != key(after)
            }
        }
    }

    /// Index of the write set. The first call takes time proportional to the number of entries.
    fn index(&self, store: &TableStore, schema: &TableSchema, index: IndexId) -> &IndexTree {
        self.indexes[index].tree.get_or_init(|| {
            let mut tree = IndexTree::new(&schema.indexes[index]);
            for entry in self.entries.iter().filter(|entry| self.is_displaced(store, schema, index, entry)) {
                let after = entry.after.as_deref().expect("what is displaced is there");
                // Uniqueness was checked when the rows were written.
                let _ = tree.insert(&store.key(schema, index, after, entry.row), entry.row);
            }
            tree
        })
    }

    /// Sets the row of the entry at `at` to `after`; returns the old row. `moves`: see [`WriteSet::put`].
    fn exchange(
        &mut self,
        of: (&TableStore, &TableSchema),
        at: usize,
        after: Option<Packed>,
        moves: bool,
    ) -> Option<Packed> {
        if moves {
            self.unindex(of, at);
        }
        let entry = &mut self.entries[at];
        let bytes = |row: &Option<Packed>| row.as_ref().map_or(0, |row| row.len());
        self.rows_more += i64::from(after.is_some()) - i64::from(entry.after.is_some());
        self.bytes = self.bytes + bytes(&after) - bytes(&entry.after);
        let before = std::mem::replace(&mut entry.after, after);
        if moves {
            self.index_again(of, at);
        }
        before
    }

    /// Adds an entry. `moves`: see [`WriteSet::put`].
    fn push(&mut self, of: (&TableStore, &TableSchema), entry: Entry, moves: bool) {
        let at = self.entries.len();
        if let Some(places) = &mut self.places {
            places.add(entry.row, at as u32);
        }
        self.rows_more += i64::from(entry.after.is_some()) - i64::from(!entry.is_new);
        self.bytes += entry.after.as_ref().map_or(0, |row| row.len());
        self.entries.push(entry);
        if self.places.is_none() && self.entries.len() > FEW_ROWS {
            self.places = Some(Places::of(&self.entries));
        }
        if moves {
            self.index_again(of, at);
        }
    }

    /// Removes the last entry.
    fn pop(&mut self, (store, schema): (&TableStore, &TableSchema)) -> Entry {
        self.unindex((store, schema), self.entries.len() - 1);
        let entry = self.entries.pop().expect("there is a last one");
        if let Some(places) = &mut self.places {
            places.remove_last(entry.row);
        }
        self.rows_more -= i64::from(entry.after.is_some()) - i64::from(!entry.is_new);
        self.bytes -= entry.after.as_ref().map_or(0, |row| row.len());
        entry
    }

    /// Removes the entry's keys from the indexes that are built. `greatest` stays: it is a bound.
    fn unindex(&mut self, of: (&TableStore, &TableSchema), at: usize) {
        for index in 0..self.indexes.len() {
            if self.indexes[index].tree.get().is_some()
                && let Some(key) = self.displaced_key(of, index, at)
                && let Some(tree) = self.indexes[index].tree.get_mut()
            {
                tree.remove(&key);
            }
        }
    }

    /// Adds the entry's keys to the indexes that are built, and to the bounds of the unique ones that are not.
    fn index_again(&mut self, of: (&TableStore, &TableSchema), at: usize) {
        for index in 0..self.indexes.len() {
            if self.indexes[index].tree.get().is_none() && !of.1.indexes[index].unique {
                continue;
            }
            if let Some(key) = self.displaced_key(of, index, at) {
                self.add_key(index, key, self.entries[at].row);
            }
        }
    }

    /// Adds the key of a row to an index that is built, or to the bound of one that is not.
    fn add_key(&mut self, index: IndexId, key: KeyBytes, row: u32) {
        let OwnIndex { tree, greatest } = &mut self.indexes[index];
        match tree.get_mut() {
            Some(tree) => {
                // Uniqueness was checked before.
                let _ = tree.insert(&key, row);
            }
            None if greatest.as_ref().is_none_or(|greatest| key > *greatest) => *greatest = Some(key),
            None => {}
        }
    }

    /// Adds a new row. `keys`: its keys in the unique indexes, by index; none for other indexes, and where a NULL exempts the row.
    fn push_new(
        &mut self,
        (store, schema): (&TableStore, &TableSchema),
        row: u32,
        after: Packed,
        keys: UniqueKeys,
    ) {
        for (index, key) in keys.into_iter().enumerate() {
            if self.indexes[index].tree.get().is_none() && !schema.indexes[index].unique {
                continue;
            }
            let is_whole = !store.indexes[index].row_in_key;
            let key = key.filter(|_| is_whole).unwrap_or_else(|| store.key(schema, index, &after, row));
            self.add_key(index, key, row);
        }
        self.push((store, schema), Entry { row, after: Some(after), is_new: true }, false);
    }

    /// Key of the entry, if the table's own index does not have it there.
    fn displaced_key(
        &self,
        (store, schema): (&TableStore, &TableSchema),
        index: IndexId,
        at: usize,
    ) -> Option<KeyBytes> {
        let entry = Some(&self.entries[at]).filter(|entry| self.is_displaced(store, schema, index, entry))?;
        Some(store.key(schema, index, entry.after.as_deref()?, entry.row))
    }

    /// Returns whether no displaced row has the unique key or a greater one, as far as is known without the index.
    fn is_above_all(&self, index: IndexId, key: &KeyBytes) -> bool {
        let own = &self.indexes[index];
        own.tree.get().is_none() && own.greatest.as_ref().is_none_or(|greatest| key[..] > greatest[..])
    }

    /// Returns whether a row other than `row` has the unique key, in the table as the transaction sees it.
    fn has_key(
        &self,
        (store, schema): (&TableStore, &TableSchema),
        index: IndexId,
        key: &KeyBytes,
        row: u32,
    ) -> bool {
        let has = |packed: &[u8]| store.unique_key(schema, index, packed).is_some_and(|own| own == *key);
        if let Some(there) = store.get(index, key).filter(|there| *there != row) {
            match self.get(there) {
                None => return true,
                Some(entry) if entry.after.as_deref().is_some_and(has) => return true,
                Some(_) => {}
            }
        }
        if self.is_above_all(index, key) {
            return false;
        }
        match self.has_few() {
            true => {
                let others = self.entries.iter().filter(|entry| entry.row != row);
                others.filter_map(|entry| entry.after.as_deref()).any(has)
            }
            false => self.index(store, schema, index).get(key).is_some_and(|there| there != row),
        }
    }
}

impl WriteSet {
    /// Returns whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Current position for a later [`WriteSet::roll_back`].
    pub fn mark(&self) -> Mark {
        self.writes
    }

    /// Bytes of the changed rows.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(|(_, writes)| writes.bytes).sum()
    }

    /// Copy whose indexes are rebuilt, for use after the tables have changed.
    pub fn reindexed(&self) -> WriteSet {
        let copy = |(table, writes): &(TableId, Arc<TableWrites>)| (*table, Arc::new((**writes).clone()));
        WriteSet { tables: self.tables.iter().map(copy).collect(), ..WriteSet::default() }
    }

    /// Copy for a reader, which shares its rows and indexes. Its transaction writes nothing while it is read.
    pub fn share(&self) -> WriteSet {
        WriteSet { tables: self.tables.clone(), ..WriteSet::default() }
    }

    /// Returns whether a row of the table has been written.
    #[cfg(test)]
    pub fn writes_to(&self, table: TableId) -> bool {
        self.table(table).is_some_and(|writes| !writes.entries.is_empty())
    }

    /// Returns whether a row of the table has been written, or had been until a roll-back.
    pub fn has_written(&self, table: TableId) -> bool {
        self.table(table).is_some()
    }

    /// Returns whether the row has been written.
    pub fn has(&self, table: TableId, row: u32) -> bool {
        self.entry(table, row).is_some()
    }

    fn table(&self, table: TableId) -> Option<&TableWrites> {
        self.tables.iter().find(|(of, _)| *of == table).map(|(_, writes)| &**writes)
    }

    fn table_mut(&mut self, table: TableId, indexes: usize) -> &mut TableWrites {
        let at = self.tables.iter().position(|(of, _)| *of == table).unwrap_or_else(|| {
            self.tables.push((table, Arc::new(TableWrites::new(indexes))));
            self.tables.len() - 1
        });
        Arc::make_mut(&mut self.tables[at].1)
    }

    fn entry(&self, table: TableId, row: u32) -> Option<&Entry> {
        self.table(table)?.get(row)
    }

    /// Returns whether the transaction has inserted the row.
    pub fn is_new(&self, table: TableId, row: u32) -> bool {
        self.entry(table, row).is_some_and(|entry| entry.is_new)
    }

    /// Returns whether an inserted or re-keyed row, or an entry of a row elsewhere, has that unique key. Called for other transactions that
    /// are about to insert the key.
    pub fn takes_key(&self, base: &Storage, table: TableId, index: IndexId, key: &KeyBytes) -> bool {
        let entries = base.schema.entries_of(table, index);
        self.has_key(base, (table, index), key)
            || entries.is_some_and(|entries| self.has_key(base, (entries, 0), key))
    }

    fn has_key(&self, base: &Storage, (table, index): (TableId, IndexId), key: &KeyBytes) -> bool {
        let Some(writes) = self.table(table) else { return false };
        let (store, schema) = (&base.tables[table], base.schema.table(table));
        if writes.is_above_all(index, key) {
            return false;
        }
        match writes.has_few() {
            false => writes.index(store, schema, index).get(key).is_some(),
            true => {
                let displaced = |entry: &&Entry| writes.is_displaced(store, schema, index, entry);
                let rows = writes.entries.iter().filter(displaced).filter_map(|entry| entry.after.as_deref());
                rows.filter_map(|row| store.unique_key(schema, index, row)).any(|own| own == *key)
            }
        }
    }

    /// Returns whether `is_meant` holds for the index keys of some changed row of the table, as it was or as it is. A key may have the
    /// row's number at its end.
    pub fn any_written(
        &self,
        base: &Storage,
        table: TableId,
        is_meant: &dyn Fn(IndexKeys<'_>) -> bool,
    ) -> bool {
        let Some(writes) = self.table(table) else { return false };
        let (store, schema) = (&base.tables[table], base.schema.table(table));
        writes.entries.iter().any(|entry| {
            let before = store.row(entry.row).filter(|_| !entry.is_new);
            let mut states = [before, entry.after.as_deref()].into_iter().flatten();
            states.any(|packed| is_meant(&|index| store.key(schema, index, packed, entry.row)))
        })
    }

    /// Existing rows that the transaction has inserted, in insertion order.
    pub fn inserted(&self) -> impl Iterator<Item = (TableId, u32, &Packed)> {
        self.tables.iter().flat_map(|(table, writes)| {
            let new = writes.entries.iter().filter(|entry| entry.is_new);
            new.filter_map(|entry| Some((*table, entry.row, entry.after.as_ref()?)))
        })
    }

    /// Unique keys of the inserted rows and entries, as they are claimed.
    pub fn inserted_keys(&self, base: &Storage) -> Vec<(TableId, IndexId, KeyBytes)> {
        let keys = self.inserted().flat_map(|(table, _, packed)| {
            let (store, schema) = (&base.tables[table], base.schema.table(table));
            (0..schema.indexes.len()).filter_map(move |index| {
                let key = store.unique_key(schema, index, packed)?;
                let (table, index) = base.schema.claimed_as(table, index);
                Some((table, index, key))
            })
        });
        keys.collect()
    }

    /// Inserts a row. Errors: unique violation (23505), or out of memory; then nothing has changed.
    pub(super) fn insert(
        &mut self,
        base: &mut Storage,
        table: TableId,
        values: &[Value],
        timestamp: Timestamp,
    ) -> Result<u32, SqlError> {
        base.check_disk()?;
        base.check_memory()?;
        // The caller learns that the key is absent, which may depend on an unsynced delete.
        base.unsynced.look_at(table);
        let schema = base.schema.table(table);
        let store = &mut base.tables[table];
        let packed = store.layout.pack(timestamp.clock, values);
        let writes = self.table_mut(table, schema.indexes.len());
        let mut keys = UniqueKeys::new();
        for index in 0..schema.indexes.len() {
            let key = store.unique_key(schema, index, &packed);
            if key.as_ref().is_some_and(|key| writes.has_key((store, schema), index, key, u32::MAX)) {
                return Err(store.unique_violation(schema, index, &|column| values[column].clone()));
            }
            keys.push(key);
        }
        let row = store.reserve();
        let first = writes.entries.len();
        writes.push_new((store, schema), row, packed, keys);
        self.note_added(table, first);
        Ok(row)
    }

    /// Assigns columns of an existing row. Errors as in [`WriteSet::insert`].
    pub(super) fn update(
        &mut self,
        base: &mut Storage,
        (table, row): (TableId, u32),
        changes: &[(ColumnIndex, Value)],
        timestamp: Timestamp,
    ) -> Result<(), SqlError> {
        base.check_disk()?;
        let schema = base.schema.table(table);
        let store = &base.tables[table];
        let writes = self.table_mut(table, schema.indexes.len());
        let at = writes.position(row);
        let old = match at {
            Some(at) => writes.entries[at].after.as_deref(),
            None => store.row(row),
        };
        let old = old.expect("a row that was just found");
        let packed = store.layout.changed(old, timestamp.clock, changes);
        if packed.len() > old.len() {
            base.check_memory()?;
        }
        let touched = |column| changes.iter().any(|(changed, _)| *changed == column);
        let moves = TableStore::is_indexed(schema, touched);
        for (index, of) in schema.indexes.iter().enumerate().filter(|(_, of)| moves && of.unique) {
            if !of.columns.iter().any(|column| column.column.is_none_or(touched)) {
                continue;
            }
            let key = store.unique_key(schema, index, &packed);
            if let Some(key) = key.filter(|key| store.unique_key(schema, index, old).as_ref() != Some(key))
                && writes.has_key((store, schema), index, &key, row)
            {
                let new = |column| store.layout.read(&packed, column);
                return Err(store.unique_violation(schema, index, &new));
            }
        }
        let of = (store, schema);
        match at {
            Some(at) => {
                let before = writes.exchange(of, at, Some(packed), moves);
                self.note_replaced(table, row, before);
            }
            None => {
                let first = writes.entries.len();
                writes.push(of, Entry { row, after: Some(packed), is_new: false }, moves);
                self.note_added(table, first);
            }
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, base: &mut Storage, table: TableId, row: u32) {
        self.put(base, table, row, None);
    }

    /// Sets the row, which may move in the indexes. A row whose keys stay as they were does not move, so the indexes of the write set stay,
    /// too: `moves` is false.
    fn put(&mut self, base: &Storage, table: TableId, row: u32, after: Option<Packed>) {
        let schema = base.schema.table(table);
        let of = (&base.tables[table], schema);
        let writes = self.table_mut(table, schema.indexes.len());
        match writes.position(row) {
            Some(at) => {
                let before = writes.exchange(of, at, after, true);
                self.note_replaced(table, row, before);
            }
            None => {
                let first = writes.entries.len();
                writes.push(of, Entry { row, after, is_new: false }, true);
                self.note_added(table, first);
            }
        }
    }

    /// Records that the row of an entry has been replaced.
    fn note_replaced(&mut self, table: TableId, row: u32, before: Option<Packed>) {
        self.undo.push(UndoStep::Replaced { table, row, before });
        self.writes += 1;
    }

    /// Records that the entry at `at`, the last one of the table, has been added.
    fn note_added(&mut self, table: TableId, at: usize) {
        self.writes += 1;
        match self.undo.last_mut() {
            Some(UndoStep::Added { table: of, count, .. }) if *of == table => *count += 1,
            _ => self.undo.push(UndoStep::Added { table, first: at, count: 1 }),
        }
    }

    /// Undoes the writes since the mark, and frees the slots of rows inserted since.
    pub fn roll_back(&mut self, base: &mut Storage, mark: Mark) {
        while self.writes > mark {
            let more = self.writes - mark;
            match self.undo.pop().expect("it has all writes") {
                UndoStep::Replaced { table, row, before } => {
                    let of = (&base.tables[table], base.schema.table(table));
                    let writes = self.table_mut(table, of.1.indexes.len());
                    let at = writes.position(row).expect("what was written again is there");
                    writes.exchange(of, at, before, true);
                    self.writes -= 1;
                }
                UndoStep::Added { table, first, count } => {
                    let undone = count.min(more);
                    (0..undone).for_each(|_| self.take_off(base, table));
                    self.writes -= undone;
                    if undone < count {
                        self.undo.push(UndoStep::Added { table, first, count: count - undone });
                    }
                }
            }
        }
    }

    /// Removes the last entry of the table.
    fn take_off(&mut self, base: &mut Storage, table: TableId) {
        let schema = base.schema.table(table);
        let writes = self.table_mut(table, schema.indexes.len());
        let entry = writes.pop((&base.tables[table], schema));
        if entry.is_new {
            base.tables[table].release(entry.row);
        }
    }

    /// Part that remains on top of a definition's schema version: changes of tables that the definition leaves unchanged, under their new
    /// numbers. Changed rows of other tables are part of the rebuilt tables.
    pub(crate) fn carried_over(&self, becomes: impl Fn(TableId) -> Option<TableId>) -> WriteSet {
        let carried =
            |(table, writes): &(TableId, Arc<TableWrites>)| Some((becomes(*table)?, writes.clone()));
        WriteSet { tables: self.tables.iter().filter_map(carried).collect(), ..WriteSet::default() }
    }
}

#[cfg(test)]
pub(super) mod tests;
