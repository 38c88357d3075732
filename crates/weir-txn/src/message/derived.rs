//! Writes that a shard derives for other shards, and that the coordinator carries to them within the same transaction
//! (docs/internals/global-keys.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use weir_core::ids::ShardId;
use weir_sql::catalog::TableId;
use weir_types::Value;

use super::{Attempt, DuplicateKey, KeyChange};
use crate::placement::shard_of;

/// A unique key whose columns do not say where a row lives: a unique index of a table, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GlobalKey {
    pub table: TableId,
    /// Position among the indexes of the table.
    pub index: usize,
}

/// Work that the write of a row at one shard leaves for another. The order is that of its stages: each sees all of those before it done
/// ([`Derived::stage`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Derived {
    /// At the owner of a key: the row at `home` no longer has it, and its entry goes.
    Remove { key: GlobalKey, values: Vec<Value>, home: ShardId },
    /// At the owner of a key: the row at `home` has it from now on.
    Add { key: GlobalKey, values: Vec<Value>, home: ShardId },
    /// At a shard where children may live: a parent has lost its key `old`. `reference` is one of the foreign keys that refer to the table.
    Children { at: ShardId, parent: TableId, reference: usize, old: Vec<Value>, change: ParentChange },
    /// Where the parent of a row is found: it must be there, and stay. `rule` is one of the foreign keys of the child's table, `key` has the
    /// order of the parent's index.
    Parent { at: ShardId, child: TableId, rule: usize, key: Vec<Value>, why: WhyParent },
    /// At the owner of an arbiter of INSERT … ON CONFLICT: as `Add`, but if a row has the key, it answers where that row is.
    Propose { key: GlobalKey, values: Vec<Value>, home: ShardId },
    /// At a shard with rows of a table that has got the key by a definition: entries of the rows from this slot on are to be derived.
    Entries { at: ShardId, key: GlobalKey, from: u32 },
    /// As `Add`, of a row that was there before the key.
    Fill { key: GlobalKey, values: Vec<Value>, home: ShardId },
    /// At all shards but `from`, which has written a row that every shard has a copy of: as it was, and as it is. They are written in the
    /// order of their numbers.
    Copy { number: u32, from: ShardId, table: TableId, old: Option<Vec<Value>>, new: Option<Vec<Value>> },
    /// At the shard where a row lives since an update: the row.
    Row { at: ShardId, table: TableId, values: Vec<Value> },
    /// For the coordinator: a statement of the table is to be undone, and begins again.
    BeginAgain { table: TableId, attempt: Attempt },
    /// At a shard that builds an index while others write: the next rows come into it, and changes of keys are derived. The key is of the
    /// schema with the index; it need not be global, nor unique.
    Build { at: ShardId, key: GlobalKey },
    /// At the owner of a key that is being built: rows at `home` get it or lose it, in this order.
    Stage { at: ShardId, key: GlobalKey, home: ShardId, changes: Vec<KeyChange> },
    /// At the owner of a key that has been built, when all is staged: its entries are put in place.
    Settle { at: ShardId, key: GlobalKey },
    /// At the shard that fails the statement: a key that two rows have, of an index that is being built. The lowest one is told.
    Duplicate { at: ShardId, key: GlobalKey, duplicate: DuplicateKey },
}

/// Change of a parent's row, which decides what its children's foreign key does to them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ParentChange {
    /// It is deleted: ON DELETE.
    Goes,
    /// It has this key now: ON UPDATE.
    Gets(Vec<Value>),
    /// Either, with a check that was deferred until now: NO ACTION.
    HasGone,
}

/// Why a parent is looked for; the error follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WhyParent {
    /// A row refers to it.
    IsReferred,
    /// A row with that key has gone and left children, which another one may have adopted (NO ACTION).
    HasGone,
}

impl Derived {
    /// The constraint that it is of: the table, and the number of the unique index or foreign key.
    pub fn constraint(&self) -> (TableId, usize) {
        match self {
            Derived::Remove { key, .. }
            | Derived::Add { key, .. }
            | Derived::Propose { key, .. }
            | Derived::Fill { key, .. }
            | Derived::Build { key, .. }
            | Derived::Stage { key, .. }
            | Derived::Settle { key, .. }
            | Derived::Duplicate { key, .. }
            | Derived::Entries { key, .. } => (key.table, key.index),
            Derived::BeginAgain { table, .. } | Derived::Copy { table, .. } | Derived::Row { table, .. } => {
                (*table, 0)
            }
            Derived::Children { parent, reference, .. } => (*parent, *reference),
            Derived::Parent { child, rule, .. } => (*child, *rule),
        }
    }

    /// Values of the key's columns.
    pub fn values(&self) -> &[Value] {
        match self {
            Derived::Remove { values, .. }
            | Derived::Add { values, .. }
            | Derived::Propose { values, .. }
            | Derived::Fill { values, .. } => values,
            Derived::BeginAgain { .. }
            | Derived::Entries { .. }
            | Derived::Build { .. }
            | Derived::Stage { .. }
            | Derived::Settle { .. } => &[],
            Derived::Duplicate { duplicate, .. } => &duplicate.values,
            Derived::Copy { old, new, .. } => new.as_ref().or(old.as_ref()).map_or(&[], |values| &values[..]),
            Derived::Row { values, .. } => values,
            Derived::Children { old, .. } => old,
            Derived::Parent { key, .. } => key,
        }
    }

    /// The shards that it is for; none: the coordinator. The owner of a key is the shard that its values say.
    pub fn targets(&self, shards: u16) -> SmallVec<[ShardId; 4]> {
        match self {
            Derived::Remove { values, .. }
            | Derived::Add { values, .. }
            | Derived::Propose { values, .. }
            | Derived::Fill { values, .. } => {
                smallvec![shard_of(values, shards)]
            }
            Derived::Children { at, .. }
            | Derived::Parent { at, .. }
            | Derived::Entries { at, .. }
            | Derived::Build { at, .. }
            | Derived::Stage { at, .. }
            | Derived::Settle { at, .. }
            | Derived::Duplicate { at, .. }
            | Derived::Row { at, .. } => smallvec![*at],
            Derived::Copy { from, .. } => (0..shards).filter(|shard| shard != from).collect(),
            Derived::BeginAgain { .. } => SmallVec::new(),
        }
    }

    /// How its statement is to begin again.
    pub(crate) fn attempt(&self) -> Option<Attempt> {
        match self {
            Derived::BeginAgain { attempt, .. } => Some(*attempt),
            _ => None,
        }
    }

    /// Returns whether builds that do not know [`Attempt`] do not know it.
    pub(crate) fn is_as_new_as_attempts(&self) -> bool {
        match self {
            Derived::Remove { .. }
            | Derived::Add { .. }
            | Derived::Children { .. }
            | Derived::Parent { .. } => false,
            Derived::Propose { .. }
            | Derived::BeginAgain { .. }
            | Derived::Entries { .. }
            | Derived::Fill { .. }
            | Derived::Copy { .. }
            | Derived::Row { .. } => true,
            Derived::Build { .. }
            | Derived::Stage { .. }
            | Derived::Settle { .. }
            | Derived::Duplicate { .. } => true,
        }
    }

    /// Returns whether it is of an index that is built while others write.
    pub(crate) fn is_of_build(&self) -> bool {
        matches!(
            self,
            Derived::Build { .. }
                | Derived::Stage { .. }
                | Derived::Settle { .. }
                | Derived::Duplicate { .. }
        )
    }

    /// Those of a lower stage are done at all shards before those of a higher one begin. Children are looked for when nobody else holds the
    /// key any more, and parents when all have come and gone.
    pub(crate) fn stage(&self) -> u8 {
        match self {
            Derived::Remove { .. }
            | Derived::Add { .. }
            | Derived::Propose { .. }
            | Derived::Entries { .. }
            | Derived::Fill { .. }
            | Derived::Build { .. }
            | Derived::Stage { .. }
            | Derived::Copy { .. } => 0,
            // The entry of the row, as it was, is gone then.
            Derived::Children { .. } | Derived::BeginAgain { .. } | Derived::Row { .. } => 1,
            Derived::Settle { .. } => 1,
            Derived::Parent { .. } | Derived::Duplicate { .. } => 2,
        }
    }

    /// Returns whether hardly anything is ever derived from it, so that a shard may prepare with it.
    pub(crate) fn is_last(&self) -> bool {
        match self {
            Derived::Remove { .. } | Derived::Add { .. } | Derived::Parent { .. } => true,
            // Where it is deleted, its children may go.
            Derived::Copy { new, .. } => new.is_some(),
            Derived::Children { .. }
            | Derived::Propose { .. }
            | Derived::Entries { .. }
            | Derived::Fill { .. }
            | Derived::Build { .. }
            | Derived::Stage { .. }
            | Derived::Settle { .. }
            | Derived::Duplicate { .. }
            | Derived::Row { .. }
            | Derived::BeginAgain { .. } => false,
        }
    }

    /// Approximate size in a message, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let new = match self {
            Derived::Children { change: ParentChange::Gets(new), .. } => &new[..],
            Derived::Copy { old: Some(old), new: Some(_), .. } => &old[..],
            _ => &[],
        };
        let staged: usize = match self {
            Derived::Stage { changes, .. } => changes.iter().map(KeyChange::bytes).sum(),
            _ => 0,
        };
        16 + staged + self.values().iter().chain(new).map(|value| 16 + value.content_bytes()).sum::<usize>()
    }

    /// The entry that it adds or removes.
    fn entry(&self) -> Option<(GlobalKey, &[Value], ShardId)> {
        match self {
            Derived::Remove { key, values, home } | Derived::Add { key, values, home } => {
                Some((*key, values, *home))
            }
            _ => None,
        }
    }

    /// The net effect of writes that one run has derived in this order: an entry that it adds and removes again, or removes and adds again,
    /// is left as it is; and what is asked more than once is asked once.
    pub(crate) fn net(mut derived: Vec<Derived>) -> Vec<Derived> {
        if derived.len() < 2 {
            return derived;
        }
        derived.sort_by(|a, b| a.entry().cmp(&b.entry()).then_with(|| a.asked().cmp(&b.asked())));
        let is_add = |one: &&Derived| matches!(one, Derived::Add { .. });
        let mut net = Vec::with_capacity(derived.len());
        for alike in derived.chunk_by(|a, b| a.entry() == b.entry() && a.asked() == b.asked()) {
            if alike[0].entry().is_none() {
                net.push(alike[0].clone());
                continue;
            }
            let added = alike.iter().filter(is_add).count();
            let removed = alike.len() - added;
            let more = alike.iter().filter(|one| is_add(one) == (added > removed));
            net.extend(more.skip(added.min(removed)).cloned());
        }
        net
    }

    /// It, unless it adds or removes an entry.
    fn asked(&self) -> Option<&Derived> {
        Some(self).filter(|one| one.entry().is_none())
    }

    /// The writes by target, sorted: all removals of a target come before its additions.
    pub(crate) fn by_target(derived: Vec<Derived>, shards: u16) -> BTreeMap<ShardId, Vec<Derived>> {
        let mut targets: BTreeMap<ShardId, Vec<Derived>> = BTreeMap::new();
        for one in derived {
            for target in one.targets(shards) {
                targets.entry(target).or_default().push(one.clone());
            }
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

    #[test]
    fn what_is_asked_twice_is_asked_once() {
        let child = TableId(4);
        let parent = |key: i64| Derived::Parent {
            at: 2,
            child,
            rule: 0,
            key: vec![Value::Int(key)],
            why: WhyParent::IsReferred,
        };
        let list = vec![parent(2), add(1, 0), parent(1), remove(1, 0), parent(2)];
        assert_eq!(Derived::net(list), [parent(1), parent(2)]);
    }
}
