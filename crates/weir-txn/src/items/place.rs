//! Which shard an item is on.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

use super::bytes::Key;
use crate::ramp::ShardId;

/// The shard of an item: by hash, as in ramp.txt §5.1.
pub fn shard_of(key: &Key, shards: ShardId) -> ShardId {
    // Not the hash that the table of a shard uses, or its keys would crowd in a part of that table.
    let hash = FxBuildHasher.hash_one((0x9E37_79B9_u32, key));
    ((u128::from(hash) * u128::from(shards)) >> 64) as ShardId
}
