//! A bounded map of what was met lately.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use rustc_hash::FxBuildHasher;

/// Keeps at least the last `kept` that were met, and twice as many at most. All operations take constant time.
#[derive(Debug)]
pub struct Recent<K, V> {
    kept: usize,
    young: HashMap<K, V, FxBuildHasher>,
    /// Met before those, and not since.
    old: HashMap<K, V, FxBuildHasher>,
}

impl<K: Hash + Eq, V> Recent<K, V> {
    pub fn new(kept: usize) -> Recent<K, V> {
        Recent { kept, young: HashMap::default(), old: HashMap::default() }
    }

    /// Meets it again.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.put(key, value);
        }
        self.young.get_mut(key)
    }

    pub fn put(&mut self, key: K, value: V) {
        if self.young.len() >= self.kept {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_met_again_stays() {
        let mut recent = Recent::new(2);
        for n in 0..10 {
            recent.put(n, n * n);
            assert_eq!(recent.get(&0), Some(&mut 0), "{n}");
        }
        assert_eq!(recent.get(&1), None);
        assert_eq!(recent.get(&9), Some(&mut 81));
    }
}
