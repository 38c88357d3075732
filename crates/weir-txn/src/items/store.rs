//! The items of one shard: by key, and in order of keys.

use std::collections::BTreeSet;
use std::ops::Bound;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::bytes::Key;
use super::chain::Chain;
use super::message::{KeyRange, Stamp};
use crate::ramp::ShardId;

#[derive(Debug, Default)]
pub struct Store {
    items: FxHashMap<Key, Chain>,
    /// Touched only when an item appears or goes.
    order: BTreeSet<Key>,
}

impl Store {
    pub fn chain(&self, key: &Key) -> Option<&Chain> {
        self.items.get(key)
    }

    /// The item, made if it is new.
    pub fn chain_mut(&mut self, key: &Key) -> &mut Chain {
        let order = &mut self.order;
        self.items.entry(key.clone()).or_insert_with(|| {
            order.insert(key.clone());
            Chain::default()
        })
    }

    pub fn present_mut(&mut self, key: &Key) -> Option<&mut Chain> {
        self.items.get_mut(key)
    }

    pub fn range(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &Chain)> {
        // A range that ends before it begins is empty, not a programmer's error.
        let to = if range.to < range.from { &range.from } else { &range.to };
        let keys = self.order.range::<Key, _>((Bound::Included(&range.from), Bound::Excluded(to)));
        keys.map(|key| (key, &self.items[key]))
    }

    /// Forgets a deleted item, unless it has been written since.
    pub fn forget(&mut self, key: &Key, deleted: Stamp) {
        if self.items.get(key).is_some_and(|chain| chain.is_tombstone() == Some(deleted)) {
            self.items.remove(key);
            self.order.remove(key);
        }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Versions kept above the bases, of all items.
    pub fn versions(&self) -> usize {
        self.items.values().map(Chain::versions).sum()
    }
}

/// The shard of an item: by hash, as in ramp.txt §5.1.
pub fn shard_of(key: &Key, shards: ShardId) -> ShardId {
    use std::hash::BuildHasher;
    // Not the hash that the table of a shard uses, or its keys would crowd in a part of that table.
    let hash = FxBuildHasher.hash_one((0x9E37_79B9_u32, key));
    ((u128::from(hash) * u128::from(shards)) >> 64) as ShardId
}
