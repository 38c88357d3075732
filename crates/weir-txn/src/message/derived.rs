//! Writes that a shard derives for other shards, and that the coordinator carries to them within the same transaction
//! (docs/internals/global-keys.md).

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;
use weir_sql::catalog::TableId;
use weir_types::Value;

use crate::placement::shard_of;
use crate::storage::IndexId;

/// A unique key whose columns do not say where a row lives: a unique index of a table, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GlobalKey {
    pub table: TableId,
    pub index: IndexId,
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
    /// The owner of the key: the shard that its values say.
    pub fn target(&self, shards: u16) -> ShardId {
        let (Derived::Remove { values, .. } | Derived::Add { values, .. }) = self;
        shard_of(values, shards)
    }
}
