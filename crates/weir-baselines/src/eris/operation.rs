//! Operations of the comparators: one-shot transactions over keys and values, and what each shard's part of one reads and writes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize};
use weir_core::ids::ShardId;
use weir_ordered::few::Few;
use weir_ordered::packet::Index;

use super::application::{Application, OneShot, Origin};
use super::journal::Journal;

pub type Key = u64;
/// Absent keys have the value 0.
pub type Value = u64;

/// Effect of an operation on one or two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    Read(Key),
    Write(Key, Value),
    /// Reads the value, and writes one that depends on it: no two orders of modifications look alike.
    Modify(Key, Value),
    /// Each key gets the value of the other.
    Swap(Key, Key),
}

/// How an operation accesses a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    /// Also of what is read and written.
    Write,
}

/// Values of a shard's keys after the operation, in the order of its actions.
pub type Answer = Vec<(Key, Value)>;
/// Values that an operation has read.
pub type Reads = Vec<(Key, Value)>;

/// Which shard has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub shards: ShardId,
}

impl Placement {
    pub fn shard_of(self, key: Key) -> ShardId {
        (key % u64::from(self.shards)) as ShardId
    }
}

/// A transaction's work. No two of its actions have a key in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation(#[serde(deserialize_with = "actions")] Arc<[Action]>);

/// Reads actions where they mostly need no memory but that in which they stay.
fn actions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[Action]>, D::Error> {
    let few: Few<Action, 2> = Few::deserialize(deserializer)?;
    Ok((*few).into())
}

/// Share of one shard in an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part<R = Answer> {
    pub answer: R,
    pub writes: Vec<(Key, Value)>,
}

impl Default for Action {
    fn default() -> Self {
        Action::Read(0)
    }
}

impl Action {
    fn accesses(self) -> impl Iterator<Item = (Key, Access)> {
        let (first, second) = match self {
            Action::Read(key) => ((key, Access::Read), None),
            Action::Write(key, _) | Action::Modify(key, _) => ((key, Access::Write), None),
            Action::Swap(a, b) => ((a, Access::Write), Some((b, Access::Write))),
        };
        std::iter::once(first).chain(second)
    }
}

impl Operation {
    /// # Panics
    /// There is no action, or two have a key in common.
    pub fn new(actions: impl Into<Arc<[Action]>>) -> Operation {
        let operation = Operation(actions.into());
        let mut keys: Vec<_> = operation.accesses().map(|(key, _)| key).collect();
        keys.sort_unstable();
        assert!(
            !keys.is_empty() && keys.is_sorted_by(|a, b| a < b),
            "an operation without keys, or with one twice"
        );
        operation
    }

    pub fn actions(&self) -> &[Action] {
        &self.0
    }

    pub fn accesses(&self) -> impl Iterator<Item = (Key, Access)> + '_ {
        self.0.iter().flat_map(|action| action.accesses())
    }

    /// Accesses of one shard's keys.
    pub fn accesses_at(&self, at: ShardId, placement: Placement) -> impl Iterator<Item = (Key, Access)> + '_ {
        self.accesses().filter(move |(key, _)| placement.shard_of(*key) == at)
    }

    /// Shards of its keys, ascending.
    pub fn participants(&self, placement: Placement) -> Vec<ShardId> {
        let mut shards: Vec<_> = self.accesses().map(|(key, _)| placement.shard_of(key)).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    /// Returns whether each participant's part follows from its own keys alone (eris.txt §4.1).
    pub fn is_independent(&self, placement: Placement) -> bool {
        let crosses = |action: &Action| matches!(action, Action::Swap(a, b) if placement.shard_of(*a) != placement.shard_of(*b));
        !self.0.iter().any(crosses)
    }

    /// Keys of the shard whose values others need: if the operation is not independent all that it has, so that anybody who knows what all have
    /// exported knows all answers.
    pub fn exported(&self, at: ShardId, placement: Placement) -> impl Iterator<Item = Key> + '_ {
        let is_needed = !self.is_independent(placement);
        self.accesses_at(at, placement).map(|(key, _)| key).filter(move |_| is_needed)
    }

    /// The part of a shard. `read`: the value of a key before the operation; only own keys are asked for, and those that others export.
    pub fn part(&self, at: ShardId, placement: Placement, read: impl Fn(Key) -> Value) -> Part {
        let mut part: Part = Part::default();
        let is_own = |key: Key| placement.shard_of(key) == at;
        for action in self.0.iter() {
            let mut write = |key: Key, value: &dyn Fn() -> Value| {
                if is_own(key) {
                    let value = value();
                    part.writes.push((key, value));
                    part.answer.push((key, value));
                }
            };
            match *action {
                Action::Read(key) if is_own(key) => part.answer.push((key, read(key))),
                Action::Read(_) => {}
                Action::Write(key, value) => write(key, &|| value),
                Action::Modify(key, by) => write(key, &|| read(key).wrapping_mul(31).wrapping_add(by)),
                Action::Swap(a, b) => {
                    write(a, &|| read(b));
                    write(b, &|| read(a));
                }
            }
        }
        part
    }
}

/// The keys of one shard, with what undoes changes.
#[derive(Clone, Debug)]
pub struct Registers {
    shard: ShardId,
    placement: Placement,
    values: Journal<Key, Value, FxHashMap<Key, Value>>,
}

impl Registers {
    pub fn new(shard: ShardId, placement: Placement) -> Registers {
        Registers { shard, placement, values: Journal::default() }
    }

    pub fn read(&self, key: Key) -> Value {
        self.values.get(&key).copied().unwrap_or(0)
    }

    /// Values of own keys that other participants need.
    pub fn export(&self, operation: &Operation) -> Reads {
        operation.exported(self.shard, self.placement).map(|key| (key, self.read(key))).collect()
    }

    /// The part of this shard, with the values that others have read.
    pub fn part(&self, operation: &Operation, reads: &[(Key, Value)]) -> Part {
        let foreign = |key| reads.iter().find(|(of, _)| *of == key).map_or(0, |(_, value)| *value);
        let is_own = |key| self.placement.shard_of(key) == self.shard;
        operation.part(
            self.shard,
            self.placement,
            |key| if is_own(key) { self.read(key) } else { foreign(key) },
        )
    }

    pub fn write(&mut self, index: Index, writes: &[(Key, Value)]) {
        for (key, value) in writes {
            self.values.insert(index, *key, *value);
        }
    }
}

impl OneShot for Operation {
    type Answer = Answer;

    fn participants(&self, placement: Placement) -> Vec<ShardId> {
        Operation::participants(self, placement)
    }

    fn is_independent(&self, placement: Placement) -> bool {
        Operation::is_independent(self, placement)
    }

    fn accesses_at(&self, at: ShardId, placement: Placement) -> impl Iterator<Item = (Key, Access)> + '_ {
        Operation::accesses_at(self, at, placement)
    }

    fn keys_read_at(&self, at: ShardId, placement: Placement) -> Vec<Key> {
        let of_action = |action: &Action| match *action {
            Action::Read(key) | Action::Modify(key, _) => [Some(key), None],
            Action::Write(..) => [None, None],
            Action::Swap(a, b) => [Some(a), Some(b)],
        };
        let read = self.actions().iter().flat_map(of_action).flatten();
        read.filter(|key| placement.shard_of(*key) == at).collect()
    }

    fn part_from(&self, at: ShardId, placement: Placement, read: &dyn Fn(Key) -> Value) -> Option<Part> {
        Some(self.part(at, placement, read))
    }

    fn answer_of_reads(reads: Reads) -> Answer {
        reads
    }

    fn reads_of_answer(answer: Answer) -> Reads {
        answer
    }
}

impl Application for Registers {
    type Operation = Operation;
    /// All values but 0.
    type Snapshot = BTreeMap<Key, Value>;

    fn place(&self) -> (ShardId, Placement) {
        (self.shard, self.placement)
    }

    fn export(&self, operation: &Operation) -> Reads {
        Registers::export(self, operation)
    }

    fn answer(&self, operation: &Operation, reads: &[(Key, Value)]) -> Answer {
        self.part(operation, reads).answer
    }

    fn execute(&mut self, index: Index, operation: &Operation, reads: &[(Key, Value)]) -> Answer {
        let part = self.part(operation, reads);
        self.write(index, &part.writes);
        part.answer
    }

    fn execute_for_good(&mut self, operation: &Operation, reads: &[(Key, Value)]) -> Answer {
        let part = self.part(operation, reads);
        self.write_for_good(&part.writes);
        part.answer
    }

    fn read(&self, key: Key) -> Value {
        Registers::read(self, key)
    }

    fn write_for_good(&mut self, writes: &[(Key, Value)]) {
        self.write(1, writes);
        self.forget(1);
    }

    fn roll_back(&mut self, to: Index) {
        self.values.roll_back(to);
    }

    fn forget(&mut self, up_to: Index) {
        self.values.forget(up_to);
    }

    fn snapshot(&self) -> BTreeMap<Key, Value> {
        let values = self.values.entries().iter().filter(|(_, value)| **value != 0);
        values.map(|(key, value)| (*key, *value)).collect()
    }

    fn restore(&mut self, at: Index, values: &BTreeMap<Key, Value>) {
        self.values = Journal::default();
        for (key, value) in values {
            self.values.insert(at, *key, *value);
        }
        self.values.forget(at);
    }
}

/// Shards begin with registers that have the value 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Empty;

impl Origin for Empty {
    type Application = Registers;

    fn shard(self, shard: ShardId, placement: Placement) -> Registers {
        Registers::new(shard, placement)
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    const PLACEMENT: Placement = Placement { shards: 2 };

    #[test]
    fn each_shard_has_its_own_part() {
        let operation = Operation::new([Action::Modify(0, 5), Action::Read(1), Action::Write(3, 7)]);
        let read = |key: Key| key + 10;
        assert_eq!(operation.participants(PLACEMENT), [0, 1]);
        assert!(operation.is_independent(PLACEMENT));
        let part = operation.part(0, PLACEMENT, read);
        assert_eq!(part, Part { answer: vec![(0, 315)], writes: vec![(0, 315)] });
        let part = operation.part(1, PLACEMENT, read);
        assert_eq!(part, Part { answer: vec![(1, 11), (3, 7)], writes: vec![(3, 7)] });
    }

    #[test]
    fn a_swap_over_two_shards_needs_the_values_of_both() {
        let operation = Operation::new([Action::Swap(0, 1)]);
        assert!(!operation.is_independent(PLACEMENT));
        assert!(operation.is_independent(Placement { shards: 1 }));
        assert_eq!(operation.exported(1, PLACEMENT).collect::<Vec<_>>(), [1]);
        let mut registers = Registers::new(0, PLACEMENT);
        registers.write(1, &[(0, 4)]);
        assert_eq!(registers.export(&operation), [(0, 4)]);
        assert_eq!(registers.part(&operation, &[(1, 9)]).writes, [(0, 9)]);
    }
}
