//! Writes that a shard derives for other shards, and that the coordinator carries to them within the same transaction
//! (docs/internals/global-keys.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;
use weir_sql::catalog::TableId;
use weir_types::Value;

use crate::placement::shard_of;

/// A unique key whose columns do not say where a row lives: a unique index of a table, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GlobalKey {
    pub table: TableId,
    /// Position among the indexes of the table.
    pub index: usize,
}

/// A write of an entry at the owner of a key, derived from the write of a row at another shard, its home. Removals come before additions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Derived {
    /// The row at `home` no longer has this key.
    Remove { key: GlobalKey, values: Vec<Value>, home: ShardId },
    /// The row at `home` has this key from now on.
    Add { key: GlobalKey, values: Vec<Value>, home: ShardId },
}

impl Derived {
    pub fn key(&self) -> GlobalKey {
        let (Derived::Remove { key, .. } | Derived::Add { key, .. }) = self;
        *key
    }

    /// Values of the key's columns.
    pub fn values(&self) -> &[Value] {
        let (Derived::Remove { values, .. } | Derived::Add { values, .. }) = self;
        values
    }

    /// The shard of the row.
    pub fn home(&self) -> ShardId {
        let (Derived::Remove { home, .. } | Derived::Add { home, .. }) = self;
        *home
    }

    /// The owner of the key: the shard that its values say.
    pub fn target(&self, shards: u16) -> ShardId {
        shard_of(self.values(), shards)
    }

    /// Approximate size in a message, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        16 + self.values().iter().map(|value| 16 + value.content_bytes()).sum::<usize>()
    }

    fn entry(&self) -> (GlobalKey, &[Value], ShardId) {
        (self.key(), self.values(), self.home())
    }

    /// The net effect of writes that one run has derived in this order: an entry that it adds and removes again, or removes and adds again,
    /// is left as it is.
    pub(crate) fn net(mut derived: Vec<Derived>) -> Vec<Derived> {
        if derived.len() < 2 {
            return derived;
        }
        derived.sort_by(|a, b| a.entry().cmp(&b.entry()));
        let is_add = |one: &&Derived| matches!(one, Derived::Add { .. });
        let mut net = Vec::with_capacity(derived.len());
        for of_entry in derived.chunk_by(|a, b| a.entry() == b.entry()) {
            let added = of_entry.iter().filter(is_add).count();
            let removed = of_entry.len() - added;
            let more = of_entry.iter().filter(|one| is_add(one) == (added > removed));
            net.extend(more.skip(added.min(removed)).cloned());
        }
        net
    }

    /// The writes by target, sorted: all removals of a target come before its additions.
    pub(crate) fn by_target(derived: Vec<Derived>, shards: u16) -> BTreeMap<ShardId, Vec<Derived>> {
        let mut targets: BTreeMap<ShardId, Vec<Derived>> = BTreeMap::new();
        for one in derived {
            targets.entry(one.target(shards)).or_default().push(one);
        }
        targets.values_mut().for_each(|list| list.sort_unstable());
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: GlobalKey = GlobalKey { table: TableId(3), index: 1 };

    fn add(value: i64, home: ShardId) -> Derived {
        Derived::Add { key: KEY, values: vec![Value::Int(value)], home }
    }

    fn remove(value: i64, home: ShardId) -> Derived {
        Derived::Remove { key: KEY, values: vec![Value::Int(value)], home }
    }

    #[test]
    fn removals_of_a_target_come_first() {
        let targets = Derived::by_target(vec![add(4, 0), remove(5, 0), add(1, 0), remove(7, 2)], 3);
        let expected = [(1, vec![remove(7, 2), add(1, 0), add(4, 0)]), (2, vec![remove(5, 0)])];
        assert_eq!(targets, expected.into());
    }

    #[test]
    fn an_entry_that_ends_as_it_began_is_not_written() {
        for list in [vec![add(1, 0), remove(1, 0)], vec![remove(1, 0), add(2, 0), remove(2, 0), add(1, 0)]] {
            assert_eq!(Derived::net(list), []);
        }
        assert_eq!(Derived::net(vec![add(1, 0), remove(1, 0), add(1, 0)]), [add(1, 0)]);
        assert_eq!(Derived::net(vec![remove(1, 0), add(1, 0), remove(1, 0)]), [remove(1, 0)]);
        let other = vec![add(1, 0), remove(1, 2)];
        assert_eq!(Derived::net(other.clone()), other, "it moves from one home to another");
    }
}
