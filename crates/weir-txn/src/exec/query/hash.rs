//! Hash sets and tables over rows of values. NULL equals NULL here; callers leave NULL keys out where SQL
//! says that NULL matches nothing. The hasher has no random state: the same input gives the same order.

use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;
use weir_types::Value;

type Fixed = BuildHasherDefault<FxHasher>;
pub type Key = Box<[Value]>;

/// Distinct rows.
#[derive(Clone, Debug, Default)]
pub struct ValueSet {
    rows: std::collections::HashSet<Key, Fixed>,
    /// Rows that contain a NULL.
    with_null: Vec<Key>,
}

impl ValueSet {
    /// False if the row was there already.
    pub fn insert(&mut self, row: &[Value]) -> bool {
        if self.rows.contains(row) {
            return false;
        }
        if row.iter().any(Value::is_null) {
            self.with_null.push(row.into());
        }
        self.rows.insert(row.into())
    }

    pub fn contains(&self, row: &[Value]) -> bool {
        self.rows.contains(row)
    }

    /// The rows that have a NULL in them.
    pub fn with_null(&self) -> impl Iterator<Item = &[Value]> {
        self.with_null.iter().map(|row| &**row)
    }

    /// All rows; only for questions whose answer does not depend on the order.
    pub fn iter(&self) -> impl Iterator<Item = &[Value]> {
        self.rows.iter().map(|row| &**row)
    }
}

/// One value row per key.
#[derive(Clone, Debug, Default)]
pub struct ValueMap {
    rows: std::collections::HashMap<Key, Value, Fixed>,
}

impl ValueMap {
    pub fn insert(&mut self, key: &[Value], value: Value) {
        self.rows.insert(key.into(), value);
    }

    pub fn get(&self, key: &[Value]) -> Option<&Value> {
        self.rows.get(key)
    }
}

/// Groups or counts in order of first appearance.
#[derive(Clone, Debug)]
pub struct Indexed<T> {
    index: std::collections::HashMap<Key, u32, Fixed>,
    pub entries: Vec<T>,
}

impl<T> Default for Indexed<T> {
    fn default() -> Indexed<T> {
        Indexed { index: Default::default(), entries: Vec::new() }
    }
}

impl<T> Indexed<T> {
    pub fn get_mut(&mut self, key: &[Value]) -> Option<&mut T> {
        self.index.get(key).map(|&position| &mut self.entries[position as usize])
    }

    /// The entry of a key, made at its first appearance.
    pub fn entry(&mut self, key: &[Value], make: impl FnOnce() -> T) -> &mut T {
        let position = match self.index.get(key) {
            Some(&position) => position,
            None => {
                let position = self.entries.len() as u32;
                self.index.insert(key.into(), position);
                self.entries.push(make());
                position
            }
        };
        &mut self.entries[position as usize]
    }
}

/// The build side of a hash join: saved slots of every row, by key.
#[derive(Clone, Debug, Default)]
pub struct HashTable {
    keys: std::collections::HashMap<Key, Vec<u32>, Fixed>,
    values: Vec<Value>,
    width: usize,
    pub rows: usize,
    empty: Vec<u32>,
}

impl HashTable {
    pub fn new(width: usize) -> HashTable {
        HashTable { width, ..HashTable::default() }
    }

    /// Rows with their keys, in the order in which they were inserted.
    pub fn into_rows(self) -> impl Iterator<Item = (Option<Key>, Vec<Value>)> {
        let mut keys: Vec<Option<Key>> = vec![None; self.rows];
        for (key, rows) in self.keys {
            rows.into_iter().for_each(|row| keys[row as usize] = Some(key.clone()));
        }
        let (mut values, width) = (self.values.into_iter(), self.width);
        keys.into_iter().map(move |key| (key, values.by_ref().take(width).collect()))
    }

    /// Returns the number of the row. One without a key can still be unmatched in a FULL JOIN.
    pub fn insert(&mut self, key: Option<&[Value]>, values: impl Iterator<Item = Value>) -> u32 {
        let row = self.rows as u32;
        self.rows += 1;
        self.values.extend(values);
        let Some(key) = key else { return row };
        match self.keys.get_mut(key) {
            Some(rows) => rows.push(row),
            None => {
                self.keys.insert(key.into(), vec![row]);
            }
        }
        row
    }

    /// About how many bytes a row takes with its key, at most.
    pub fn bytes_of(&self, row: u32, key: &[Value]) -> usize {
        Value::row_bytes(self.row(row)) + Value::row_bytes(key)
    }

    pub fn matches(&self, key: &[Value]) -> &[u32] {
        self.keys.get(key).unwrap_or(&self.empty)
    }

    pub fn row(&self, row: u32) -> &[Value] {
        let start = row as usize * self.width;
        &self.values[start..start + self.width]
    }
}
