//! The application: registers. An operation's effect depends on the operations before it, so no two orders look alike.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;
use weir_ordered::application::Application;
use weir_ordered::footprint::{Access, Footprint};
use weir_ordered::packet::Index;

pub type Register = (ShardId, u8);

/// In the place of a number: the register is read.
pub const READ: u64 = 0;
/// The register is read, and will be written by the conclusory part of the transaction.
pub const READ_TO_WRITE: u64 = u64::MAX;

/// Changes these registers by these numbers, or reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change(pub Vec<(Register, u64)>);

/// Registers of the shard that a transaction has changed or read, with their new values.
pub type Values = Vec<(Register, u64)>;

pub type Snapshot = BTreeMap<Register, u64>;

/// Returns whether a number stands for a read.
pub fn is_read(by: u64) -> bool {
    by == READ || by == READ_TO_WRITE
}

/// The registers of one shard.
#[derive(Clone, Debug)]
pub struct Registers {
    shard: ShardId,
    pub values: BTreeMap<Register, u64>,
    undo: Vec<(Index, Register, u64)>,
    forgotten: Index,
    /// Whether an entry was to be rolled back that was forgotten.
    pub is_damaged: bool,
}

impl Registers {
    pub fn new(shard: ShardId) -> Registers {
        Registers { shard, values: BTreeMap::new(), undo: Vec::new(), forgotten: 0, is_damaged: false }
    }
}

impl Application for Registers {
    type Operation = Change;
    type Answer = Values;
    type Snapshot = Snapshot;

    fn execute(&mut self, index: Index, Change(changes): &Change) -> Values {
        let mut answer = Vec::new();
        for &(register, by) in changes.iter().filter(|((shard, _), _)| *shard == self.shard) {
            if is_read(by) {
                answer.push((register, self.values.get(&register).copied().unwrap_or_default()));
                continue;
            }
            let value = self.values.entry(register).or_default();
            self.undo.push((index, register, *value));
            *value = value.wrapping_mul(31).wrapping_add(by);
            answer.push((register, *value));
        }
        answer
    }

    fn footprint(&self, Change(changes): &Change) -> Footprint {
        let own = changes.iter().filter(|((shard, _), _)| *shard == self.shard);
        let access = |by| if by == READ { Access::Read } else { Access::Write };
        let item = |register: u8| u64::from(register)..=u64::from(register);
        Footprint::of(own.map(|((_, register), by)| (item(*register), access(*by))))
    }

    fn reconnoitre(&self, Change(changes): &Change) -> Option<Values> {
        let read = |register: &Register| self.values.get(register).copied().unwrap_or_default();
        Some(changes.iter().map(|(register, _)| (*register, read(register))).collect())
    }

    fn roll_back(&mut self, to: Index) {
        self.is_damaged |= to < self.forgotten;
        while let Some((_, register, value)) = self.undo.pop_if(|(index, ..)| *index > to) {
            self.values.insert(register, value);
        }
        self.values.retain(|_, value| *value != 0);
    }

    fn forget(&mut self, up_to: Index) {
        self.forgotten = self.forgotten.max(up_to);
        self.undo.retain(|(index, ..)| *index > up_to);
    }

    fn snapshot(&self, at: Index) -> Snapshot {
        assert!(at >= self.forgotten, "a snapshot is of what can be rolled back to");
        let mut then = self.clone();
        then.roll_back(at);
        then.values
    }

    fn restore(&mut self, at: Index, snapshot: &Snapshot) {
        self.values.clone_from(snapshot);
        self.undo.clear();
        self.forgotten = at;
    }
}
