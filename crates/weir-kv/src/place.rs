//! Placement of items on shards, and grouping of requests by shard.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use weir_core::ids::ShardId;

use super::bytes::Key;
use super::write::Write;

/// The shard of an item: by hash, as in ramp.txt §5.1.
pub fn shard_of(key: &Key, shards: ShardId) -> ShardId {
    shard_of_hash(hash_of(key), shards)
}

/// Hash for placement. It must differ from the hash of a shard's table, or a shard's keys would cluster there.
pub(super) fn hash_of(key: &Key) -> u64 {
    FxBuildHasher.hash_one((0x9E37_79B9_u32, key))
}

/// Fingerprint of the hash function: nodes with the same one place items alike and set the same filter bits.
pub fn fingerprint() -> u64 {
    hash_of(&Key::from("where an item lives, and which bits it sets"))
}

/// Shard by the high bits of the hash.
pub(super) fn shard_of_hash(hash: u64, shards: ShardId) -> ShardId {
    ((u128::from(hash) * u128::from(shards)) >> 64) as ShardId
}

/// Values for some of the shards, in order of first use.
pub type ByShard<T> = SmallVec<[(ShardId, T); 4]>;

/// Positions in a list of keys.
pub type Slots = SmallVec<[u32; 4]>;

/// Entry of that shard, created by `make` if missing.
pub fn part_at<T>(parts: &mut ByShard<T>, shard: ShardId, make: impl FnOnce() -> T) -> &mut T {
    let at = parts.iter().position(|(one, _)| *one == shard).unwrap_or_else(|| {
        parts.push((shard, make()));
        parts.len() - 1
    });
    &mut parts[at].1
}

/// Positions of the keys by shard; a range is on all shards.
pub fn slots_by_shard(keys: &[Key], with_ranges: bool, shards: ShardId) -> ByShard<Slots> {
    let mut parts = ByShard::new();
    if with_ranges {
        parts.extend((0..shards).map(|shard| (shard, Slots::new())));
    }
    for (slot, key) in keys.iter().enumerate() {
        part_at(&mut parts, shard_of(key, shards), Slots::new).push(slot as u32);
    }
    parts
}

pub fn writes_by_shard(writes: Vec<(Key, Write)>, shards: ShardId) -> ByShard<Vec<(Key, Write)>> {
    let mut parts = ByShard::new();
    for (key, write) in writes {
        part_at(&mut parts, shard_of(&key, shards), Vec::new).push((key, write));
    }
    parts
}
