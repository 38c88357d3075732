//! One table of one shard: packed rows in numbered slots, and their indexes.
//!
//! Knows nothing of transactions; [`super::Storage`] records what is needed to undo each change.

use weir_sql::catalog::ColumnIndex;
use weir_types::{SqlError, SqlState, Value};

use super::history::RowState;
use super::index::IndexTree;
use super::key::KeyBytes;
use super::layout::{Layout, Packed, Patch};
use super::saved::Saved;
use super::schema::{IndexId, TableSchema};

#[derive(Debug)]
pub struct TableStore {
    pub layout: Layout,
    rows: Vec<Option<Packed>>,
    free: Vec<u32>,
    pub indexes: Vec<IndexTree>,
    live: usize,
    /// Rows of an earlier moment are being read.
    pub(super) saved: Option<Box<Saved>>,
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
        }
    }

    /// Of a table that nobody looks at.
    pub fn absent() -> TableStore {
        TableStore {
            layout: Layout::new(&[]),
            rows: Vec::new(),
            free: Vec::new(),
            indexes: Vec::new(),
            live: 0,
            saved: None,
        }
    }

    pub fn row(&self, row: u32) -> Option<&[u8]> {
        self.rows.get(row as usize)?.as_deref()
    }

    pub fn value(&self, row: u32, column: ColumnIndex) -> Value {
        self.layout.read(self.rows[row as usize].as_deref().expect("a row that was just found"), column)
    }

    /// The row is about to change.
    fn keep(&mut self, row: u32) {
        if let Some(saved) = &mut self.saved
            && saved.is_wanted(row)
        {
            saved.keep(row, self.rows[row as usize].clone());
        }
    }

    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        self.live
    }

    /// One past the highest slot in use: what a scan runs to.
    pub fn slots(&self) -> u32 {
        self.rows.len() as u32
    }

    pub fn key(&self, schema: &TableSchema, index: IndexId, packed: &[u8], row: u32) -> KeyBytes {
        let mut key = KeyBytes::new();
        for column in &schema.indexes[index].columns {
            let at = column.column.expect("expression indexes are refused by the schema");
            self.layout.push_key(&mut key, packed, at, column);
        }
        if self.indexes[index].row_in_key {
            key.push_array(row.to_be_bytes());
        }
        key
    }

    /// None: the index is not unique, or a NULL keeps the row out of uniqueness.
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

    /// Puts a row in a slot of its own choice. `Err` is the index whose key another row has.
    pub fn insert(&mut self, schema: &TableSchema, packed: Packed) -> Result<u32, IndexId> {
        let row = self.reserve();
        self.place(schema, row, packed).inspect_err(|_| self.free.push(row))?;
        Ok(row)
    }

    /// Takes an empty slot for a row that is to come ([`TableStore::fill`]) or not ([`TableStore::release`]).
    pub fn reserve(&mut self) -> u32 {
        while let Some(row) = self.free.pop() {
            // One that was reserved when a log was read has been filled since.
            if self.rows[row as usize].is_none() {
                return row;
            }
        }
        self.rows.push(None);
        (self.rows.len() - 1) as u32
    }

    /// There is a slot of that number.
    pub fn make_slot(&mut self, row: u32) {
        if self.rows.len() <= row as usize {
            self.rows.resize_with(row as usize + 1, || None);
        }
    }

    /// Puts a row into a slot that was reserved for it.
    pub fn fill(&mut self, schema: &TableSchema, row: u32, packed: Packed) {
        self.place(schema, row, packed).expect("keys were told apart when the row was written");
    }

    /// The slot is empty, and nobody has reserved it.
    pub fn is_free(&self, row: u32) -> bool {
        self.row(row).is_none() && self.free.contains(&row)
    }

    /// Gives back a slot that was reserved.
    pub fn release(&mut self, row: u32) {
        self.free.push(row);
    }

    /// Every unique index has the row under the same key if it becomes that.
    pub fn has_same_unique_keys(&self, schema: &TableSchema, row: u32, packed: &[u8]) -> bool {
        let old = self.rows[row as usize].as_deref().expect("a row that was just found");
        (0..self.indexes.len())
            .all(|index| self.unique_key(schema, index, old) == self.unique_key(schema, index, packed))
    }

    /// Puts a row back in the slot that it had.
    pub fn insert_at(&mut self, schema: &TableSchema, row: u32, packed: Packed) {
        if let Some(at) = self.free.iter().rposition(|&free| free == row) {
            self.free.swap_remove(at);
        }
        // A shard that reads its log has no more slots than that has told of so far.
        self.make_slot(row);
        self.place(schema, row, packed).expect("undo restores a state whose keys were unique");
    }

    /// Puts a row where a log says that it was; slots are freed when the log has been read.
    pub fn restore(&mut self, schema: &TableSchema, row: u32, packed: Packed) {
        self.try_restore(schema, row, packed).expect("keys were unique when the log was written");
    }

    /// The same where keys may clash: `Err` is the index whose key another row has.
    pub fn try_restore(&mut self, schema: &TableSchema, row: u32, packed: Packed) -> Result<(), IndexId> {
        self.make_slot(row);
        self.place(schema, row, packed)
    }

    /// Every index has the row under the same key if it becomes that.
    pub fn has_same_keys(&self, schema: &TableSchema, row: u32, packed: &[u8]) -> bool {
        let old = self.rows[row as usize].as_deref().expect("a row that was just found");
        let key = |index, packed| self.key(schema, index, packed, row);
        (0..self.indexes.len()).all(|index| key(index, old) == key(index, packed))
    }

    /// Who looks where the row was before the change finds nothing.
    pub fn is_missed(&self, schema: &TableSchema, row: u32, before: &RowState) -> bool {
        match before {
            RowState::Absent | RowState::Patched(_) => false,
            RowState::Row(packed) => self.row(row).is_none() || !self.has_same_keys(schema, row, packed),
        }
    }

    /// Exchanges the row's bytes, which no index notices.
    pub fn overwrite(&mut self, row: u32, packed: Packed) {
        self.put(row, packed);
    }

    /// Exchanges what is in the slot.
    fn put(&mut self, row: u32, packed: Packed) -> Packed {
        self.keep(row);
        self.rows[row as usize].replace(packed).expect("a row that was just found")
    }

    /// Slots without a row are free if `may_be` says so.
    pub fn free_all(&mut self, may_be: impl Fn(u32) -> bool) {
        let empty = (0..self.slots()).filter(|&row| self.rows[row as usize].is_none());
        self.free = empty.filter(|&row| may_be(row)).collect();
    }

    fn place(&mut self, schema: &TableSchema, row: u32, packed: Packed) -> Result<(), IndexId> {
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
        Ok(())
    }

    /// For a unique index in which NULLs are distinct: another row with the same non-null key.
    fn clashes(&self, schema: &TableSchema, index: IndexId, packed: &[u8], key: &KeyBytes) -> bool {
        let null = |column: &super::schema::IndexColumn| {
            column.column.is_some_and(|column| self.layout.is_null(packed, column))
        };
        !schema.indexes[index].columns.iter().any(null)
            && self.indexes[index].get(&KeyBytes::from(&key[..key.len() - 4])).is_some()
    }

    /// Takes the row out; `recycle` frees its slot for others.
    pub fn remove(&mut self, schema: &TableSchema, row: u32, recycle: bool) -> Packed {
        self.keep(row);
        let packed = self.rows[row as usize].take().expect("a row that was just found");
        for index in 0..self.indexes.len() {
            let key = self.key(schema, index, &packed, row);
            let removed = self.indexes[index].remove(&key);
            assert_eq!(removed, Some(row), "index {} of {} misses a row", index, schema.name);
        }
        self.live -= 1;
        if recycle {
            self.free.push(row);
        }
        packed
    }

    /// Frees the slot of a row that was removed without being recycled.
    pub fn recycle(&mut self, row: u32) {
        if self.rows[row as usize].is_none() && !self.free.contains(&row) {
            self.free.push(row);
        }
    }

    /// Exchanges the row's bytes; `touched` are the columns that may differ. `Err` is the index that
    /// refuses, with the row unchanged.
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

    /// Puts a patch into the row, and the row's own bytes into the patch. No index column may be touched.
    pub fn exchange(&mut self, row: u32, patch: &mut Patch) {
        self.keep(row);
        patch.exchange(self.rows[row as usize].as_deref_mut().expect("a row that was just found"));
    }

    /// Whether any index has one of these columns.
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

    /// PostgreSQL's 23505 for this row and index.
    pub fn unique_violation(
        &self,
        schema: &TableSchema,
        index: IndexId,
        values: &dyn Fn(ColumnIndex) -> Value,
    ) -> SqlError {
        let index = &schema.indexes[index];
        let (mut names, mut texts) = (Vec::new(), Vec::new());
        for column in index.columns.iter().take(index.told).filter_map(|column| column.column) {
            names.push(schema.column_names[column].as_str());
            texts.push(match values(column) {
                Value::Null => "null".to_string(),
                value => weir_types::text::to_text(&value, &schema.types[column]),
            });
        }
        SqlError::new(
            SqlState::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{}\"", index.name),
        )
        .with_detail(format!("Key ({})=({}) already exists.", names.join(", "), texts.join(", ")))
        .with_constraint(index.name.clone())
    }

    /// Bytes of the values alone.
    pub fn raw_bytes(&self) -> usize {
        self.rows.iter().flatten().map(|row| self.layout.raw_bytes(row)).sum()
    }

    /// A sum over rows, so that their order does not matter.
    pub fn fingerprint(&self) -> u64 {
        // FNV-1a of each row, without its timestamp.
        let hash = |row: &Packed| {
            row[8..].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        self.rows.iter().flatten().map(hash).fold(0, u64::wrapping_add)
    }

    /// Bytes of rows (with their allocations) and indexes.
    pub fn memory_bytes(&self) -> usize {
        let rows: usize = self.rows.iter().flatten().map(bytes_of).sum();
        self.slots_bytes()
            + rows
            + self.indexes.iter().map(|index| index.memory_bytes(usize::MAX)).sum::<usize>()
    }

    /// The same, as if all rows and keys were as large as some of them are.
    pub fn about_bytes(&self) -> usize {
        const LOOKED_AT: usize = 256;
        let step = (self.rows.len() / LOOKED_AT).max(1);
        let some = self.rows.iter().step_by(step).flatten();
        let (count, bytes) = some.fold((0, 0), |(count, bytes), row| (count + 1, bytes + bytes_of(row)));
        let rows = (bytes * self.live).checked_div(count).unwrap_or(0);
        self.slots_bytes()
            + rows
            + self.indexes.iter().map(|index| index.memory_bytes(LOOKED_AT)).sum::<usize>()
    }

    fn slots_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Option<Packed>>()
    }
}

/// With its allocation.
fn bytes_of(row: &Packed) -> usize {
    row.len().div_ceil(16) * 16 + 8
}
