//! A map whose changes are undone back to an index of a log.

use std::collections::BTreeMap;
use std::hash::Hash;

use rustc_hash::FxHashMap;
use weir_ordered::packet::Index;

/// A map whose entries a journal changes.
pub trait Entries<K, V>: Default {
    fn get(&self, key: &K) -> Option<&V>;
    /// Returns what was there before.
    fn insert(&mut self, key: K, value: V) -> Option<V>;
    fn remove(&mut self, key: &K) -> Option<V>;
}

macro_rules! entries_of {
    ($map:ident, $($bound:tt)+) => {
        impl<K: $($bound)+, V> Entries<K, V> for $map<K, V> {
            fn get(&self, key: &K) -> Option<&V> {
                self.get(key)
            }

            fn insert(&mut self, key: K, value: V) -> Option<V> {
                self.insert(key, value)
            }

            fn remove(&mut self, key: &K) -> Option<V> {
                self.remove(key)
            }
        }
    };
}

entries_of!(BTreeMap, Ord);
entries_of!(FxHashMap, Eq + Hash);

/// A map, and what its entries were before the changes that may be undone.
#[derive(Clone, Debug)]
pub struct Journal<K, V, M = BTreeMap<K, V>> {
    entries: M,
    /// Ascending by index.
    undo: Vec<(Index, K, Option<V>)>,
}

impl<K, V, M: Default> Default for Journal<K, V, M> {
    fn default() -> Self {
        Journal { entries: M::default(), undo: Vec::new() }
    }
}

impl<K: Clone, V: Clone, M: Entries<K, V>> Journal<K, V, M> {
    pub fn entries(&self) -> &M {
        &self.entries
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// The entry with that index of the log sets the value. Indices ascend.
    pub fn insert(&mut self, index: Index, key: K, value: V) {
        let before = self.entries.insert(key.clone(), value);
        self.undo.push((index, key, before));
    }

    pub fn remove(&mut self, index: Index, key: &K) {
        if let Some(before) = self.entries.remove(key) {
            self.undo.push((index, key.clone(), Some(before)));
        }
    }

    /// Undoes the changes of all entries behind that index.
    pub fn roll_back(&mut self, to: Index) {
        while let Some((_, key, before)) = self.undo.pop_if(|(index, ..)| *index > to) {
            match before {
                Some(before) => self.entries.insert(key, before),
                None => self.entries.remove(&key),
            };
        }
    }

    /// Changes up to that index will never be undone.
    pub fn forget(&mut self, up_to: Index) {
        let forgotten = self.undo.partition_point(|(index, ..)| *index <= up_to);
        self.undo.drain(..forgotten);
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn changes_are_undone_back_to_an_index() {
        let mut journal: Journal<char, u64> = Journal::default();
        journal.insert(1, 'a', 1);
        journal.insert(2, 'a', 2);
        journal.insert(2, 'b', 2);
        journal.remove(3, &'a');
        journal.roll_back(2);
        assert_eq!((journal.get(&'a'), journal.get(&'b')), (Some(&2), Some(&2)));
        journal.forget(1);
        journal.roll_back(0);
        assert_eq!((journal.get(&'a'), journal.get(&'b'), journal.entries().len()), (Some(&1), None, 1));
    }
}
