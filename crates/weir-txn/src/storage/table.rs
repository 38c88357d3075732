//! One table of one shard: packed rows in numbered slots, and indexes on them.
//!
//! Independent of transactions; [`super::Storage`] records the inverse of each change.

use std::ops::ControlFlow;

use weir_sql::catalog::ColumnIndex;
use weir_types::{SqlError, Value};

use super::building::Building;
use super::hidden::Hidden;
use super::history::RowState;
use super::index::IndexTree;
use super::key::{KeyBytes, KeyRange};
use super::layout::{Layout, Packed, Patch};
use super::saved::Saved;
use super::schema::{IndexId, IndexSchema, TableSchema};

#[derive(Debug)]
pub struct TableStore {
    pub layout: Layout,
    rows: Vec<Option<Packed>>,
    free: Vec<u32>,
    pub indexes: Vec<IndexTree>,
    live: usize,
    /// Copy of the rows of an earlier moment, if one is in progress.
    pub(super) saved: Option<Box<Saved>>,
    /// Entries of the table's global keys, as in its schema.
    pub(super) entries: Vec<TableStore>,
    /// Indexes that are being built, which are not in its schema. They have the rows of the physical state.
    pub(super) building: Vec<Building>,
    /// Rows of a commit in progress, which nobody sees. `row`, `value`, `get`, `range` and `row_count` give what is seen; what changes rows
    /// or indexes works on the physical state.
    pub(super) hidden: Option<Box<Hidden>>,
}

/// Key of a row in an index. `row_in_key`: the row's number, where it is part of the key.
pub(super) fn key_of_row(
    layout: &Layout,
    index: &IndexSchema,
    packed: &[u8],
    row_in_key: Option<u32>,
) -> KeyBytes {
    let mut key = KeyBytes::new();
    for column in &index.columns {
        let at = column.column.expect("expression indexes are refused by the schema");
        layout.push_key(&mut key, packed, at, column);
    }
    if let Some(row) = row_in_key {
        key.push_array(row.to_be_bytes());
    }
    key
}

impl TableStore {
    pub fn new(schema: &TableSchema) -> TableStore {
        TableStore {
            layout: Layout::new(&schema.types),
            rows: Vec::new(),
            free: Vec::new(),
            indexes: schema.indexes.iter().map(IndexTree::new).collect(),
            live: 0,
            saved: None,
            entries: schema.entries.iter().map(|entries| TableStore::new(&entries.schema)).collect(),
            building: Vec::new(),
            hidden: None,
        }
    }

    /// Placeholder of a table that is never read.
    pub fn absent() -> TableStore {
        TableStore {
            layout: Layout::new(&[]),
            rows: Vec::new(),
            free: Vec::new(),
            indexes: Vec::new(),
            live: 0,
            saved: None,
            entries: Vec::new(),
            building: Vec::new(),
            hidden: None,
        }
    }

    #[inline]
    pub fn row(&self, row: u32) -> Option<&[u8]> {
        match &self.hidden {
            None => self.physical(row),
            Some(hidden) => self.seen(hidden, row),
        }
    }

    /// The row of the slot, seen or not.
    #[inline]
    pub(super) fn physical(&self, row: u32) -> Option<&[u8]> {
        self.rows.get(row as usize)?.as_deref()
    }

    pub fn value(&self, row: u32, column: ColumnIndex) -> Value {
        self.layout.read(self.row(row).expect("a row that was just found"), column)
    }

    /// Saves the state of a row that is about to change, for a copy in progress.
    fn keep(&mut self, row: u32) {
        if let Some(saved) = &mut self.saved
            && saved.is_wanted(row)
        {
            saved.keep(row, self.rows[row as usize].clone());
        }
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.live - self.hidden_rows()
    }

    /// One past the highest slot in use: the end of a scan.
    pub fn slots(&self) -> u32 {
        self.rows.len() as u32
    }

    pub fn key(&self, schema: &TableSchema, index: IndexId, packed: &[u8], row: u32) -> KeyBytes {
        let row_in_key = self.indexes[index].row_in_key.then_some(row);
        key_of_row(&self.layout, &schema.indexes[index], packed, row_in_key)
    }

    /// Key of the row in a unique index. None: the index is not unique, or a NULL exempts the row.
    pub fn unique_key(&self, schema: &TableSchema, index: IndexId, packed: &[u8]) -> Option<KeyBytes> {
        let index = Some(&schema.indexes[index]).filter(|index| index.unique)?;
        let mut key = KeyBytes::new();
        for column in &index.columns {
            let at = column.column?;
            if !index.nulls_not_distinct && self.layout.is_null(packed, at) {
                return None;
            }
            self.layout.push_key(&mut key, packed, at, column);
        }
        Some(key)
    }

    /// Inserts a row into a free slot. `Err` is the index in which another row has the key.
    pub fn insert(&mut self, schema: &TableSchema, packed: Packed) -> Result<u32, IndexId> {
        let row = self.reserve();
        self.place(schema, row, packed).inspect_err(|_| self.free.push(row))?;
        Ok(row)
    }

    /// Reserves an empty slot; the caller must [`fill`](TableStore::fill) or [`release`](TableStore::release) it.
    pub fn reserve(&mut self) -> u32 {
        while let Some(row) = self.free.pop() {
            // The free list may contain slots that recovery has filled since.
            if self.rows[row as usize].is_none() {
                return row;
            }
        }
        self.rows.push(None);
        (self.rows.len() - 1) as u32
    }

    /// Extends the slots so that `row` exists.
    pub fn make_slot(&mut self, row: u32) {
        if self.rows.len() <= row as usize {
            self.rows.resize_with(row as usize + 1, || None);
        }
    }

    /// Puts a row into its reserved slot.
    pub fn fill(&mut self, schema: &TableSchema, row: u32, packed: Packed) {
        self.place(schema, row, packed).expect("keys were told apart when the row was written");
    }

    /// Returns whether the slot is empty and not reserved.
    pub fn is_free(&self, row: u32) -> bool {
        self.physical(row).is_none() && self.free.contains(&row)
    }

    /// Frees a reserved slot.
    pub fn release(&mut self, row: u32) {
        self.free.push(row);
    }

    /// Returns whether the new row has the same keys in all unique indexes as the old one.
    pub fn has_same_unique_keys(&self, schema: &TableSchema, row: u32, packed: &[u8]) -> bool {
        let old = self.rows[row as usize].as_deref().expect("a row that was just found");
        (0..self.indexes.len())
            .all(|index| self.unique_key(schema, index, old) == self.unique_key(schema, index, packed))
    }

    /// Restores a row into its slot, which has stayed reserved.
    pub fn insert_reserved(&mut self, schema: &TableSchema, row: u32, packed: Packed) {
        self.place(schema, row, packed).expect("what is done again restores a state whose keys were unique");
    }

    /// Restores a row into its former slot.
    pub fn insert_at(&mut self, schema: &TableSchema, row: u32, packed: Packed) {
        if let Some(at) = self.free.iter().rposition(|&free| free == row) {
            self.free.swap_remove(at);
        }
        // During recovery the table has only the slots seen so far.
        self.make_slot(row);
        self.place(schema, row, packed).expect("undo restores a state whose keys were unique");
    }

    /// Restores a logged row; free slots are computed at the end of recovery.
    pub fn restore(&mut self, schema: &TableSchema, row: u32, packed: Packed) {
        self.try_restore(schema, row, packed).expect("keys were unique when the log was written");
    }

    /// Like [`TableStore::restore`], but keys may clash: `Err` is the index in which another row has the key.
    pub fn try_restore(&mut self, schema: &TableSchema, row: u32, packed: Packed) -> Result<(), IndexId> {
        self.make_slot(row);
        self.place(schema, row, packed)
    }

    /// Returns whether the new row has the same keys in all indexes as the old one.
    pub fn has_same_keys(&self, schema: &TableSchema, row: u32, packed: &[u8]) -> bool {
        let old = self.rows[row as usize].as_deref().expect("a row that was just found");
        let key = |index, packed| self.key(schema, index, packed, row);
        (0..self.indexes.len()).all(|index| key(index, old) == key(index, packed))
    }

    /// Returns whether a search under the row's earlier keys no longer finds the row.
    pub fn is_missed(&self, schema: &TableSchema, row: u32, before: &RowState) -> bool {
        match before {
            RowState::Absent | RowState::Patched(_) => false,
            RowState::Row(packed) => self.row(row).is_none() || !self.has_same_keys(schema, row, packed),
        }
    }

    /// Replaces the bytes of a row; no index key may change.
    pub fn overwrite(&mut self, row: u32, packed: Packed) {
        self.put(row, packed);
    }

    /// Replaces the contents of a slot; returns the old contents.
    pub(super) fn put(&mut self, row: u32, packed: Packed) -> Packed {
        self.keep(row);
        let old = self.rows[row as usize].replace(packed).expect("a row that was just found");
        if !self.building.is_empty() {
            self.keep_building(row, Some(&old));
        }
        old
    }

    /// Keeps the indexes that are being built. The row is as it will be; `old`: as it was.
    #[cold]
    fn keep_building(&mut self, row: u32, old: Option<&[u8]>) {
        let new = self.rows[row as usize].as_deref();
        self.building.iter_mut().for_each(|building| building.change(&self.layout, row, (old, new)));
    }

    /// Frees the empty slots for which `may_be` holds.
    pub fn free_all(&mut self, may_be: impl Fn(u32) -> bool) {
        let empty = (0..self.slots()).filter(|&row| self.rows[row as usize].is_none());
        self.free = empty.filter(|&row| may_be(row)).collect();
    }

    pub(super) fn place(&mut self, schema: &TableSchema, row: u32, packed: Packed) -> Result<(), IndexId> {
        assert!(self.rows[row as usize].is_none(), "slot {row} of {} is taken", schema.name);
        for index in 0..self.indexes.len() {
            let key = self.key(schema, index, &packed, row);
            let clash = if schema.indexes[index].unique && self.indexes[index].row_in_key {
                self.clashes(schema, index, &packed, &key)
            } else {
                false
            };
            if clash || self.indexes[index].insert(&key, row).is_err() {
                for earlier in 0..index {
                    let key = self.key(schema, earlier, &packed, row);
                    self.indexes[earlier].remove(&key);
                }
                return Err(index);
            }
        }
        self.keep(row);
        self.rows[row as usize] = Some(packed);
        self.live += 1;
        if !self.building.is_empty() {
            self.keep_building(row, None);
        }
        Ok(())
    }

    /// For a unique index with distinct NULLs: returns whether another row has the same non-null key.
    fn clashes(&self, schema: &TableSchema, index: IndexId, packed: &[u8], key: &KeyBytes) -> bool {
        let null = |column: &super::schema::IndexColumn| {
            column.column.is_some_and(|column| self.layout.is_null(packed, column))
        };
        !schema.indexes[index].columns.iter().any(null)
            && self.indexes[index].get(&KeyBytes::from(&key[..key.len() - 4])).is_some()
    }

    /// Removes a row; `recycle` frees its slot.
    pub fn remove(&mut self, schema: &TableSchema, row: u32, recycle: bool) -> Packed {
        self.keep(row);
        let packed = self.rows[row as usize].take().expect("a row that was just found");
        for index in 0..self.indexes.len() {
            let key = self.key(schema, index, &packed, row);
            let removed = self.indexes[index].remove(&key);
            assert_eq!(removed, Some(row), "index {} of {} misses a row", index, schema.name);
        }
        if !self.building.is_empty() {
            self.keep_building(row, Some(&packed));
        }
        self.live -= 1;
        if recycle {
            self.free.push(row);
        }
        packed
    }

    /// Frees the slot of a row that was removed without `recycle`. During recovery the table has only the slots seen so far.
    pub fn recycle(&mut self, row: u32) {
        if self.rows.get(row as usize).is_some_and(Option::is_none) && !self.free.contains(&row) {
            self.free.push(row);
        }
    }

    /// Replaces the bytes of a row; `touched` are the columns that may differ. `Err` is the index in which another row has the new key;
    /// then the row is unchanged.
    pub fn replace(
        &mut self,
        schema: &TableSchema,
        row: u32,
        packed: Packed,
        touched: impl Fn(ColumnIndex) -> bool,
    ) -> Result<Packed, IndexId> {
        let affected = |index: IndexId| {
            schema.indexes[index].columns.iter().any(|column| column.column.is_none_or(&touched))
        };
        for index in 0..self.indexes.len() {
            if !affected(index) {
                continue;
            }
            if let Err(clash) = self.rekey(schema, index, row, &packed) {
                let new = packed;
                for earlier in (0..index).filter(|&earlier| affected(earlier)) {
                    let old = self.rows[row as usize].clone().expect("still in place");
                    let key = self.key(schema, earlier, &new, row);
                    self.indexes[earlier].remove(&key);
                    let key = self.key(schema, earlier, &old, row);
                    self.indexes[earlier].insert(&key, row).expect("the old key was unique");
                }
                return Err(clash);
            }
        }
        Ok(self.put(row, packed))
    }

    /// Swaps the bytes of a patch with those of the row. No indexed column may be touched.
    pub fn exchange(&mut self, row: u32, patch: &mut Patch) {
        self.keep(row);
        let old = if self.building.is_empty() { None } else { self.rows[row as usize].clone() };
        patch.exchange(self.rows[row as usize].as_deref_mut().expect("a row that was just found"));
        if old.is_some() {
            self.keep_building(row, old.as_deref());
        }
    }

    /// Returns whether an index contains one of these columns.
    pub fn is_indexed(schema: &TableSchema, touched: impl Fn(ColumnIndex) -> bool) -> bool {
        let columns = schema.indexes.iter().flat_map(|index| &index.columns);
        columns.into_iter().any(|column| column.column.is_none_or(&touched))
    }

    fn rekey(
        &mut self,
        schema: &TableSchema,
        index: IndexId,
        row: u32,
        packed: &[u8],
    ) -> Result<(), IndexId> {
        let old = self.rows[row as usize].as_deref().expect("a row that was just found");
        let (old_key, new_key) = (self.key(schema, index, old, row), self.key(schema, index, packed, row));
        if old_key == new_key {
            return Ok(());
        }
        if schema.indexes[index].unique
            && self.indexes[index].row_in_key
            && self.clashes(schema, index, packed, &new_key)
        {
            return Err(index);
        }
        self.indexes[index].insert(&new_key, row).map_err(|_| index)?;
        self.indexes[index].remove(&old_key);
        Ok(())
    }

    /// The unique violation (23505) of this row and index, as in PostgreSQL.
    pub fn unique_violation(
        &self,
        schema: &TableSchema,
        index: IndexId,
        values: &dyn Fn(ColumnIndex) -> Value,
    ) -> SqlError {
        schema.unique_violation(index, values)
    }

    /// Checks that each index has every row under its key, and nothing else.
    ///
    /// # Errors
    /// Names an index.
    pub fn check_indexes(&self, schema: &TableSchema) -> Result<(), String> {
        for (index, tree) in self.indexes.iter().enumerate() {
            let mut found = 0;
            let everything = KeyRange::prefix(KeyBytes::new());
            let _ = tree.range(&everything, false, &mut |_| {
                found += 1;
                Ok(ControlFlow::Continue(()))
            });
            let is_there =
                |row: u32, packed: &Packed| tree.get(&self.key(schema, index, packed, row)) == Some(row);
            let rows = (0..).zip(&self.rows).filter_map(|(row, packed)| Some((row, packed.as_ref()?)));
            let missing = rows.filter(|(row, packed)| !is_there(*row, packed)).count();
            if found != self.live || missing > 0 {
                let name = &schema.indexes[index].name;
                return Err(format!(
                    "{name} of {} has {found} of {} rows, {missing} missing",
                    schema.name, self.live
                ));
            }
        }
        Ok(())
    }

    /// Bytes of the values without overhead.
    pub fn raw_bytes(&self) -> usize {
        self.rows.iter().flatten().map(|row| self.layout.raw_bytes(row)).sum()
    }

    /// Hash of all rows: a sum, so that their order does not matter.
    pub fn fingerprint(&self) -> u64 {
        // FNV-1a of each row, without its timestamp.
        let hash = |row: &[u8]| {
            row[8..].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        match self.hidden {
            None => self.rows.iter().flatten().map(|row| hash(row)).fold(0, u64::wrapping_add),
            Some(_) => (0..self.slots()).filter_map(|row| self.row(row)).map(hash).fold(0, u64::wrapping_add),
        }
    }

    /// Bytes of rows (with their allocations), indexes and entries.
    pub fn memory_bytes(&self) -> usize {
        let rows: usize = self.rows.iter().flatten().map(bytes_of).sum();
        self.slots_bytes()
            + rows
            + self.indexes.iter().map(|index| index.memory_bytes(usize::MAX)).sum::<usize>()
            + self.building.iter().map(|index| index.memory_bytes(usize::MAX)).sum::<usize>()
            + self.entries.iter().map(TableStore::memory_bytes).sum::<usize>()
    }

    /// Estimate of [`TableStore::memory_bytes`] from a sample of rows and keys.
    pub fn about_bytes(&self) -> usize {
        const LOOKED_AT: usize = 256;
        let step = (self.rows.len() / LOOKED_AT).max(1);
        let some = self.rows.iter().step_by(step).flatten();
        let (count, bytes) = some.fold((0, 0), |(count, bytes), row| (count + 1, bytes + bytes_of(row)));
        let rows = (bytes * self.live).checked_div(count).unwrap_or(0);
        self.slots_bytes()
            + rows
            + self.indexes.iter().map(|index| index.memory_bytes(LOOKED_AT)).sum::<usize>()
            + self.building.iter().map(|index| index.memory_bytes(LOOKED_AT)).sum::<usize>()
            + self.entries.iter().map(TableStore::about_bytes).sum::<usize>()
    }

    fn slots_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Option<Packed>>()
    }
}

/// Bytes of a row with its allocation.
fn bytes_of(row: &Packed) -> usize {
    row.len().div_ceil(16) * 16 + 8
}
