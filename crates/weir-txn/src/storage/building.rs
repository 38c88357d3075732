//! An index that is built while its table is written (docs/internals/global-keys.md, 3.17). It stands beside the indexes of the schema, and
//! nobody reads it before a definition makes it one of the table's.
//!
//! Invariant: it has the rows of all slots below `next`, as they are, and no others. So once `next` is behind all slots it is the index of
//! the table's rows, whoever writes them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{ShardId, TxnId};
use weir_sql::catalog::TableId;
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, Value};

use super::Storage;
use super::index::IndexTree;
use super::key::KeyBytes;
use super::layout::Layout;
use super::schema::{IndexId, IndexSchema, TableSchema};
use super::table::{TableStore, key_of_row};

#[derive(Debug)]
pub struct Building {
    /// The transaction that builds it; none: it is complete.
    txn: Option<TxnId>,
    /// The table as it will be, with the index.
    schema: Arc<TableSchema>,
    index: IndexId,
    tree: IndexTree,
    /// Of a unique index, by key: rows beyond the one that `tree` has. There are none when it becomes an index of the table.
    duplicates: BTreeMap<Box<[u8]>, BTreeSet<u32>>,
    next: u32,
    /// Rows whose key has changed since it was last taken ([`Storage::take_key_changes`]), each with the key then. None: nobody takes them.
    changed: Option<BTreeMap<u32, Option<Vec<Value>>>>,
}

/// A row has got a key (`is_there`), or has it no longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyChange {
    pub values: Vec<Value>,
    pub is_there: bool,
}

impl KeyChange {
    /// Approximate size in a message, in bytes.
    pub fn bytes(&self) -> usize {
        16 + self.values.iter().map(|value| 16 + value.content_bytes()).sum::<usize>()
    }
}

/// Rows that have come into an index.
#[derive(Debug, Default)]
pub struct Batch {
    /// First slot whose row is not in it; none: all rows are.
    pub next: Option<u32>,
    /// Their keys, if their changes are taken.
    pub keys: Vec<KeyChange>,
}

/// Limits of one batch: rows that it looks at, and bytes of their keys.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    pub rows: u32,
    pub bytes: usize,
}

impl Building {
    /// Begins without rows. `takes_changes`: [`Storage::take_key_changes`] is asked for it.
    pub fn new(txn: TxnId, schema: Arc<TableSchema>, index: IndexId, takes_changes: bool) -> Building {
        let tree = IndexTree::new(&schema.indexes[index]);
        let changed = takes_changes.then(BTreeMap::new);
        Building { txn: Some(txn), schema, index, tree, duplicates: BTreeMap::new(), next: 0, changed }
    }

    /// The index over all rows of a table that nobody writes.
    ///
    /// # Errors
    /// The statement is interrupted.
    pub(super) fn complete(
        store: &TableStore,
        schema: Arc<TableSchema>,
        index: IndexId,
    ) -> Result<Building, SqlError> {
        let tree = IndexTree::new(&schema.indexes[index]);
        let (duplicates, next) = (BTreeMap::new(), u32::MAX);
        let mut building = Building { txn: None, schema, index, tree, duplicates, next, changed: None };
        for row in 0..store.slots() {
            check()?;
            if let Some(packed) = store.row(row) {
                building.add(&store.layout, row, packed);
            }
        }
        Ok(building)
    }

    /// Returns whether it is that index of that table.
    pub fn is_of(&self, schema: &Arc<TableSchema>, index: IndexId) -> bool {
        Arc::ptr_eq(&self.schema, schema) && self.index == index
    }

    pub(super) fn memory_bytes(&self, looked_at: usize) -> usize {
        self.tree.memory_bytes(looked_at)
    }

    fn index(&self) -> &IndexSchema {
        &self.schema.indexes[self.index]
    }

    fn key(&self, layout: &Layout, packed: &[u8], row: u32) -> KeyBytes {
        key_of_row(layout, self.index(), packed, self.tree.row_in_key.then_some(row))
    }

    fn has_null(&self, layout: &Layout, packed: &[u8]) -> bool {
        let columns = &self.index().columns;
        columns.iter().any(|of| of.column.is_some_and(|column| layout.is_null(packed, column)))
    }

    /// The part of the key that no other row may have; none: others may.
    fn unique_part(&self, layout: &Layout, packed: &[u8], key: &KeyBytes) -> Option<KeyBytes> {
        let index = self.index();
        if !index.unique || !index.nulls_not_distinct && self.has_null(layout, packed) {
            return None;
        }
        let length = key.len() - if self.tree.row_in_key { size_of::<u32>() } else { 0 };
        Some(KeyBytes::from(&key[..length]))
    }

    /// Values of the key of a row; none: it has no entry at the owner of a key.
    fn values(&self, layout: &Layout, packed: &[u8]) -> Option<Vec<Value>> {
        if !self.index().nulls_not_distinct && self.has_null(layout, packed) {
            return None;
        }
        Some(self.index().values(&|column| layout.read(packed, column)))
    }

    fn add(&mut self, layout: &Layout, row: u32, packed: &[u8]) {
        let key = self.key(layout, packed, row);
        if let Some(unique) = self.unique_part(layout, packed, &key)
            && self.tree.get(&unique).is_some()
        {
            self.duplicates.entry(unique[..].into()).or_default().insert(row);
            return;
        }
        self.tree.insert(&key, row).expect("no other row has the key");
    }

    fn remove(&mut self, layout: &Layout, row: u32, packed: &[u8]) {
        let key = self.key(layout, packed, row);
        let unique = self.unique_part(layout, packed, &key);
        let mut successor = None;
        if let Some(unique) = unique.filter(|unique| self.duplicates.contains_key(&unique[..])) {
            let rows = self.duplicates.get_mut(&unique[..]).expect("it has the key");
            let is_beyond = rows.remove(&row);
            successor = if is_beyond { None } else { rows.pop_first() };
            if rows.is_empty() {
                self.duplicates.remove(&unique[..]);
            }
            if is_beyond {
                return;
            }
        }
        let removed = self.tree.remove(&key);
        assert_eq!(removed, Some(row), "the index {} that is being built misses a row", self.index().name);
        if let Some(successor) = successor {
            let key = self.key(layout, packed, successor);
            self.tree.insert(&key, successor).expect("the row before it is gone");
        }
    }

    /// A row changes, comes or goes. It is of the slots whose rows are in the index, or nothing is to be done.
    #[cold]
    pub(super) fn change(&mut self, layout: &Layout, row: u32, (old, new): (Option<&[u8]>, Option<&[u8]>)) {
        if row >= self.next {
            return;
        }
        let [before, after] = [old, new].map(|packed| packed.map(|packed| self.key(layout, packed, row)));
        if before.as_deref() == after.as_deref() {
            return;
        }
        if let Some(mut changed) = self.changed.take() {
            changed.entry(row).or_insert_with(|| old.and_then(|old| self.values(layout, old)));
            self.changed = Some(changed);
        }
        if let Some(old) = old {
            self.remove(layout, row, old);
        }
        if let Some(new) = new {
            self.add(layout, row, new);
        }
    }

    /// A row with a key that another row has.
    fn duplicate(&self) -> Option<u32> {
        self.duplicates.values().find_map(|rows| rows.first().copied())
    }

    /// # Errors
    /// Two rows have the same key (23505).
    pub(super) fn check_unique(&self, store: &TableStore) -> Result<(), SqlError> {
        match self.duplicate() {
            Some(row) => {
                let value = |column| store.value(row, column);
                Err(store.unique_violation(&self.schema, self.index, &value))
            }
            None => Ok(()),
        }
    }

    pub(super) fn into_tree(self) -> IndexTree {
        self.tree
    }
}

impl TableStore {
    fn building(&mut self, txn: TxnId) -> Option<&mut Building> {
        self.building.iter_mut().find(|one| one.txn == Some(txn))
    }

    /// Adds the rows of the next slots, from `from` on, to an index. They are not kept in it yet.
    fn build(&mut self, txn: TxnId, from: u32, limits: BatchLimits) -> Option<Batch> {
        let at = self.building.iter().position(|one| one.txn == Some(txn))?;
        let mut building = self.building.swap_remove(at);
        let end = self.slots().min(from.saturating_add(limits.rows));
        let (mut row, mut bytes, mut keys) = (from, 0, Vec::new());
        while row < end && bytes < limits.bytes {
            if let Some(packed) = self.row(row) {
                building.add(&self.layout, row, packed);
                let is_taken = building.changed.is_some();
                if let Some(values) = building.values(&self.layout, packed).filter(|_| is_taken) {
                    let key = KeyChange { values, is_there: true };
                    bytes += key.bytes();
                    keys.push(key);
                }
            }
            row += 1;
        }
        self.building.push(building);
        Some(Batch { next: (row < self.slots()).then_some(row), keys })
    }

    fn take_key_changes(&mut self, txn: TxnId) -> Vec<KeyChange> {
        let Some(building) = self.building(txn) else { return Vec::new() };
        let changed = building.changed.as_mut().map(std::mem::take).unwrap_or_default();
        let building = self.building.iter().find(|one| one.txn == Some(txn)).expect("it has just been found");
        let mut changes = Vec::with_capacity(2 * changed.len());
        for (row, was) in changed {
            let is = self.row(row).and_then(|packed| building.values(&self.layout, packed));
            if was != is {
                changes.extend(was.map(|values| KeyChange { values, is_there: false }));
                changes.extend(is.map(|values| KeyChange { values, is_there: true }));
            }
        }
        changes
    }
}

impl Storage {
    /// Begins to build an index of the table, without rows.
    pub fn begin_building(&mut self, table: TableId, building: Building) {
        self.tables[table].building.push(building);
    }

    /// Adds the rows of the next slots, from `from` on, to the index that the transaction builds; none: it builds none. Until
    /// [`Storage::keep_built`] the caller lets nobody write.
    pub fn build(&mut self, table: TableId, txn: TxnId, from: u32, limits: BatchLimits) -> Option<Batch> {
        self.tables[table].build(txn, from, limits)
    }

    /// From here on whoever writes rows of slots below `next` keeps the index; none: all rows.
    pub fn keep_built(&mut self, table: TableId, txn: TxnId, next: Option<u32>) {
        if let Some(building) = self.tables[table].building(txn) {
            building.next = next.unwrap_or(u32::MAX);
        }
    }

    /// Changes of the keys of rows in the index that the transaction builds, since they were last taken or the row came into it: the net
    /// effect on each row.
    pub fn take_key_changes(&mut self, table: TableId, txn: TxnId) -> Vec<KeyChange> {
        self.tables[table].take_key_changes(txn)
    }

    /// # Errors
    /// Two rows have the same key in the unique index that the transaction builds (23505).
    pub fn check_built(&self, table: TableId, txn: TxnId) -> Result<(), SqlError> {
        let store = &self.tables[table];
        store.building.iter().filter(|one| one.txn == Some(txn)).try_for_each(|one| one.check_unique(store))
    }

    /// Takes the index that the transaction has built.
    pub fn take_building(&mut self, table: TableId, txn: TxnId) -> Option<Building> {
        let building = &mut self.tables.of_tables_mut().get_mut(table.0 as usize)?.building;
        let at = building.iter().position(|one| one.txn == Some(txn))?;
        Some(building.swap_remove(at))
    }

    /// Drops all indexes that are being built.
    pub fn end_building(&mut self) {
        for store in self.tables.of_tables_mut() {
            store.building = Vec::new();
        }
    }

    /// Puts the entries of a new global key in place.
    ///
    /// # Errors
    /// Two rows have the same key (23505).
    pub fn settle(&mut self, entries: TableId, staged: StagedEntries) -> Result<(), SqlError> {
        let schema = self.schema.table(entries);
        let violation = |values: &[Value]| {
            self.tables[entries].unique_violation(schema, 0, &|column| values[column].clone())
        };
        if let Some(values) = staged.more.values().find_map(|more| more.first()) {
            return Err(violation(values));
        }
        let (table, index) = self.schema.claimed_as(entries, 0);
        let own = &self.tables[table].indexes[index];
        let store = &staged.store;
        for (row, packed) in (0..store.slots()).filter_map(|row| Some((row, store.row(row)?))) {
            check()?;
            let key = key_of_row(&store.layout, &schema.indexes[0], packed, None);
            if own.get(&key).is_some() {
                let values: Vec<Value> =
                    (0..schema.types.len()).map(|column| store.value(row, column)).collect();
                return Err(violation(&values));
            }
        }
        self.tables[entries] = staged.store;
        Ok(())
    }
}

/// Entries of a global key that is being built, at its owner. Rows of several shards may have one key meanwhile.
#[derive(Debug)]
pub struct StagedEntries {
    schema: Arc<TableSchema>,
    store: TableStore,
    /// By key: entries beyond the one that `store` has.
    more: BTreeMap<Box<[u8]>, Vec<Vec<Value>>>,
}

impl StagedEntries {
    /// `schema`: that of the entries.
    pub fn new(schema: Arc<TableSchema>) -> StagedEntries {
        StagedEntries { store: TableStore::new(&schema), schema, more: BTreeMap::new() }
    }

    /// A row at `home` has got the key, or has it no longer. Changes of one home come in their order.
    ///
    /// # Errors
    /// No row at `home` had the key.
    pub fn change(&mut self, change: &KeyChange, home: ShardId, clock: u64) -> Result<(), SqlError> {
        let mut entry = change.values.clone();
        entry.push(Value::Int(i64::from(home)));
        match change.is_there {
            true => self.add(entry, clock),
            false => return self.remove(&entry, clock),
        }
        Ok(())
    }

    fn key(&self, entry: &[Value]) -> KeyBytes {
        let packed = self.store.layout.pack(0, entry);
        key_of_row(&self.store.layout, &self.schema.indexes[0], &packed, None)
    }

    fn add(&mut self, entry: Vec<Value>, clock: u64) {
        let packed = self.store.layout.pack(clock, &entry);
        if self.store.insert(&self.schema, packed).is_err() {
            let key = self.key(&entry);
            self.more.entry(key[..].into()).or_default().push(entry);
        }
    }

    fn remove(&mut self, entry: &[Value], clock: u64) -> Result<(), SqlError> {
        let key = self.key(entry);
        if let Some(more) = self.more.get_mut(&key[..])
            && let Some(at) = more.iter().position(|one| one == entry)
        {
            more.swap_remove(at);
            if more.is_empty() {
                self.more.remove(&key[..]);
            }
            return Ok(());
        }
        let home = entry.len() - 1;
        let row = self.store.indexes[0].get(&key).filter(|row| self.store.value(*row, home) == entry[home]);
        let Some(row) = row else {
            let message = "an entry goes that has not come";
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        };
        self.store.remove(&self.schema, row, true);
        if let Some(mut more) = self.more.remove(&key[..]) {
            let next = more.pop().expect("no list is empty");
            if !more.is_empty() {
                self.more.insert(key[..].into(), more);
            }
            self.add(next, clock);
        }
        Ok(())
    }
}
