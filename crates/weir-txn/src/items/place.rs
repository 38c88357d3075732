//! Which shard an item is on, and what a transaction wants of each shard.

use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::bytes::Key;
use super::write::Write;
use crate::ramp::ShardId;

/// The shard of an item: by hash, as in ramp.txt §5.1.
pub fn shard_of(key: &Key, shards: ShardId) -> ShardId {
    shard_of_hash(hash_of(key), shards)
}

/// Not the hash that the table of a shard uses, or its keys would crowd in a part of that table.
pub(super) fn hash_of(key: &Key) -> u64 {
    FxBuildHasher.hash_one((0x9E37_79B9_u32, key))
}

/// Two parties with the same fingerprint place items alike, and set the same bits of filters for them: it changes with the hash.
pub fn fingerprint() -> u64 {
    hash_of(&Key::from("where an item lives, and which bits it sets"))
}

/// By its high bits.
pub(super) fn shard_of_hash(hash: u64, shards: ShardId) -> ShardId {
    ((u128::from(hash) * u128::from(shards)) >> 64) as ShardId
}

/// Something for each of some shards, in the order in which the shards came up.
pub type ByShard<T> = SmallVec<[(ShardId, T); 4]>;

/// Places in a list of keys.
pub type Slots = SmallVec<[u32; 4]>;

/// What is for that shard, made if nothing was.
pub fn part_at<T>(parts: &mut ByShard<T>, shard: ShardId, make: impl FnOnce() -> T) -> &mut T {
    let at = parts.iter().position(|(one, _)| *one == shard).unwrap_or_else(|| {
        parts.push((shard, make()));
        parts.len() - 1
    });
    &mut parts[at].1
}

/// Which of the keys are on which shard; a range is on all shards.
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
