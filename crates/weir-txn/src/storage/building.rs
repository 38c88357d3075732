//! An index that is built while its table is written (docs/internals/global-keys.md, 3.17). It stands beside the indexes of the schema, and
//! nobody reads it before a definition makes it one of the table's.
//!
//! Invariant: it has the rows of all slots below `next`, as they are, and no others. So once `next` is behind all slots it is the index of
//! the table's rows, whoever writes them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use weir_core::ids::{ShardId, TxnId};
use weir_sql::catalog::TableId;
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, Value};

use super::Storage;
use super::index::IndexTree;
use super::key::{KeyBytes, KeyRange};
use super::layout::Layout;
use super::schema::{IndexId, IndexSchema, TableSchema};
use super::table::{TableStore, key_of_row};
pub use crate::message::{DuplicateKey, KeyChange};

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

impl DuplicateKey {
    /// The unique violation (23505) of the index.
    pub fn violation(&self, schema: &TableSchema, index: IndexId) -> SqlError {
        let columns = &schema.indexes[index].columns;
        schema.unique_violation(index, &|column| {
            let mut values = columns.iter().zip(&self.values);
            values.find(|(of, _)| of.column == Some(column)).map_or(Value::Null, |(_, value)| value.clone())
        })
    }
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
            if let Some(packed) = store.physical(row) {
                building.add(&store.layout, row, packed);
            }
        }
        Ok(building)
    }

    /// Returns whether it is that index of that table.
    pub fn is_of(&self, schema: &Arc<TableSchema>, index: IndexId) -> bool {
        Arc::ptr_eq(&self.schema, schema) && self.index == index
    }

    /// Returns whether owners are told of its keys.
    pub(super) fn is_staged(&self) -> bool {
        self.changed.is_some()
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

    fn duplicate(&self, store: &TableStore) -> Option<DuplicateKey> {
        let (bytes, rows) = self.duplicates.first_key_value()?;
        let row = *rows.first().expect("no list is empty");
        let packed = store.physical(row).expect("an index has rows of its table");
        let values = self.index().values(&|column| store.layout.read(packed, column));
        Some(DuplicateKey { bytes: bytes.to_vec(), values })
    }

    /// # Errors
    /// Two rows have the same key (23505).
    pub(super) fn check_unique(&self, store: &TableStore) -> Result<(), SqlError> {
        match self.duplicate(store) {
            Some(duplicate) => Err(duplicate.violation(&self.schema, self.index)),
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
            if let Some(packed) = self.physical(row) {
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
            let is = self.physical(row).and_then(|packed| building.values(&self.layout, packed));
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
    ///
    /// # Errors
    /// The shard's rows may not grow (53200).
    pub fn build(
        &mut self,
        table: TableId,
        txn: TxnId,
        from: u32,
        limits: BatchLimits,
    ) -> Result<Option<Batch>, SqlError> {
        self.check_memory()?;
        Ok(self.tables[table].build(txn, from, limits))
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

    /// A key that two rows have in the unique index that the transaction builds.
    pub fn built_duplicate(&self, table: TableId, txn: TxnId) -> Option<DuplicateKey> {
        let store = &self.tables[table];
        store.building.iter().find(|one| one.txn == Some(txn))?.duplicate(store)
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

    /// Puts the entries of a new global key in place; or gives a key that two of them, or one and a row of this shard have.
    ///
    /// # Errors
    /// The statement is interrupted.
    pub fn settle(
        &mut self,
        entries: TableId,
        staged: StagedEntries,
    ) -> Result<Option<DuplicateKey>, SqlError> {
        let (table, index) = self.schema.claimed_as(entries, 0);
        let own = &self.tables[table].indexes[index];
        let duplicate = staged.more.first_key_value().map(|(bytes, more)| {
            let entry = more.first().expect("no list is empty");
            DuplicateKey { bytes: bytes.to_vec(), values: entry[..entry.len() - 1].to_vec() }
        });
        let duplicate = duplicate.into_iter().chain(staged.first_within(own)?).min();
        if duplicate.is_none() {
            self.tables[entries] = staged.store;
        }
        Ok(duplicate)
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

    /// The first key that the index has, too.
    fn first_within(&self, index: &IndexTree) -> Result<Option<DuplicateKey>, SqlError> {
        let (store, mut found) = (&self.store, None);
        let everything = KeyRange::prefix(KeyBytes::new());
        let width = self.schema.types.len() - 1;
        let _ = store.indexes[0].range(&everything, false, &mut |row| {
            check()?;
            let packed = store.row(row).expect("an index has rows of its table");
            let key = key_of_row(&store.layout, &self.schema.indexes[0], packed, None);
            if index.get(&key).is_none() {
                return Ok(ControlFlow::Continue(()));
            }
            let values = (0..width).map(|column| store.value(row, column)).collect();
            found = Some(DuplicateKey { bytes: key.to_vec(), values });
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
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
