//! The log of a shard: entries from a base on.

use serde::{Deserialize, Serialize};
use weir_ordered::packet::Index;

/// Entries with indices behind `base`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Log<E> {
    base: Index,
    entries: Vec<E>,
}

impl<E> Default for Log<E> {
    fn default() -> Self {
        Log { base: 0, entries: Vec::new() }
    }
}

impl<E: Clone> Log<E> {
    /// Index up to which entries are forgotten.
    pub fn base(&self) -> Index {
        self.base
    }

    /// Index of the last entry.
    pub fn end(&self) -> Index {
        self.base + self.entries.len() as Index
    }

    pub fn get(&self, index: Index) -> Option<&E> {
        self.entries.get(index.checked_sub(self.base + 1)? as usize)
    }

    /// Entries behind that index, which is not before the base.
    pub fn behind(&self, index: Index) -> &[E] {
        assert!(index >= self.base, "entries are asked for that all replicas have");
        self.entries.get((index - self.base) as usize..).unwrap_or_default()
    }

    pub fn push(&mut self, entry: E) {
        self.entries.push(entry);
    }

    /// Forgets the entries up to that index.
    pub fn forget(&mut self, up_to: Index) {
        if up_to > self.base {
            assert!(up_to <= self.end(), "entries are forgotten that the log never had");
            self.entries.drain(..(up_to - self.base) as usize);
            self.base = up_to;
        }
    }

    /// Takes what another log has from its base on in the place of the own entries there.
    pub fn adopt(&mut self, other: &Log<E>) {
        assert!(other.base <= self.end(), "entries between both logs are forgotten");
        if other.base < self.base {
            // All replicas have the entries up to the own base, and they are the same.
            self.entries = other.behind(self.base).to_vec();
        } else {
            self.entries.truncate((other.base - self.base) as usize);
            self.entries.extend_from_slice(&other.entries);
        }
    }
}
