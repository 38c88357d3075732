//! Values of a shard by key, also in key order.

use std::collections::BTreeSet;
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::bytes::Key;
use super::message::KeyRange;

#[derive(Debug)]
pub struct Table<V> {
    rows: FxHashMap<Key, V>,
    /// Changes only when a key is added or removed.
    order: BTreeSet<Key>,
}

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table { rows: FxHashMap::default(), order: BTreeSet::new() }
    }
}

impl<V: Default> Table<V> {
    pub fn get(&self, key: &Key) -> Option<&V> {
        self.rows.get(key)
    }

    pub fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.rows.get_mut(key)
    }

    /// Value of the key, inserted if missing.
    pub fn at(&mut self, key: &Key) -> &mut V {
        let order = &mut self.order;
        self.rows.entry(key.clone()).or_insert_with(|| {
            order.insert(key.clone());
            V::default()
        })
    }

    pub fn remove(&mut self, key: &Key) {
        if self.rows.remove(key).is_some() {
            self.order.remove(key);
        }
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.order.iter().map(|key| (key, &self.rows[key]))
    }

    /// Entries of the range in key order.
    pub fn range(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &V)> {
        // A range that ends before it begins is empty, not an error.
        let to = if range.to < range.from { &range.from } else { &range.to };
        let keys = self.order.range::<Key, _>((Bound::Included(&range.from), Bound::Excluded(to)));
        keys.map(|key| (key, &self.rows[key]))
    }
}
