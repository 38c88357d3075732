//! One-shot transactions that shards execute, and the data of a shard.
//!
//! Each comparator is generic over both: [`super::operation`] has registers with reads, writes, modifications and swaps, [`super::tpcc`] TPC-C.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::ids::ShardId;
use weir_ordered::packet::Index;

use super::operation::{Access, Key, Part, Placement, Reads, Value};

/// A transaction whose whole work is known when it begins. Each participant executes its part.
pub trait OneShot: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Answer of one participant.
    type Answer: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Whether replicas of an optimistic protocol execute it on their own data, as soon as these have what it has read. Else all that it writes
    /// follows from the values that it has read.
    const IS_REPLAYED: bool = false;

    /// Shards that have a part of it, ascending.
    fn participants(&self, placement: Placement) -> Vec<ShardId>;

    /// Returns whether each participant's part follows from its own data alone (eris.txt §4.1).
    fn is_independent(&self, _placement: Placement) -> bool {
        true
    }

    /// Items that it locks at a shard.
    fn accesses_at(&self, at: ShardId, placement: Placement) -> impl Iterator<Item = (Key, Access)> + '_;

    /// Keys of a shard whose versions it depends on.
    fn keys_read_at(&self, at: ShardId, placement: Placement) -> Vec<Key>;

    /// The part of a shard, if it follows from the values that all participants have read.
    fn part_from(
        &self,
        _at: ShardId,
        _placement: Placement,
        _read: &dyn Fn(Key) -> Value,
    ) -> Option<Part<Self::Answer>> {
        None
    }

    /// The values that a participant has read, as the answer of a first round.
    fn answer_of_reads(reads: Reads) -> Self::Answer;

    /// The values in that answer.
    fn reads_of_answer(answer: Self::Answer) -> Reads;
}

pub type AnswerOf<A> = <<A as Application>::Operation as OneShot>::Answer;

/// The data of one shard. Execution is deterministic.
pub trait Application: Clone + Debug + Send + 'static {
    type Operation: OneShot;
    /// All data that transactions change.
    type Snapshot: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    fn place(&self) -> (ShardId, Placement);

    /// Values of own keys that other participants need.
    fn export(&self, _operation: &Self::Operation) -> Reads {
        Reads::new()
    }

    /// The answer that [`Application::execute`] would give. `reads`: what other participants have exported.
    fn answer(&self, operation: &Self::Operation, reads: &[(Key, Value)]) -> AnswerOf<Self>;

    /// Executes this shard's part as a part of the entry with that index. Indices do not descend.
    fn execute(
        &mut self,
        index: Index,
        operation: &Self::Operation,
        reads: &[(Key, Value)],
    ) -> AnswerOf<Self>;

    /// Executes this shard's part. It is never undone.
    fn execute_for_good(&mut self, operation: &Self::Operation, reads: &[(Key, Value)]) -> AnswerOf<Self>;

    /// The value of a key, where data are values of keys.
    fn read(&self, _key: Key) -> Value {
        0
    }

    /// Writes values of keys for good, where data are that.
    fn write_for_good(&mut self, _writes: &[(Key, Value)]) {}

    /// Undoes the changes of all entries behind that index.
    fn roll_back(&mut self, to: Index);

    /// Changes up to that index will never be undone.
    fn forget(&mut self, up_to: Index);

    fn snapshot(&self) -> Self::Snapshot;

    /// Takes the data after the entry with that index. Nothing before it will be undone.
    fn restore(&mut self, at: Index, snapshot: &Self::Snapshot);
}

/// The data with which the shards of a cluster begin.
pub trait Origin: Clone + Copy + Debug + Send + 'static {
    type Application: Application;

    fn shard(self, shard: ShardId, placement: Placement) -> Self::Application;
}
