//! The application that a shard executes, as its replicas see it.

use std::fmt::Debug;

use crate::packet::Index;

/// The state of one shard. Execution is deterministic: equal operations in equal order give equal answers and equal states.
pub trait Application {
    /// Operation of a whole transaction; a shard executes its own part of it.
    type Operation: Clone + Debug;
    type Answer: Clone + Debug;
    /// A copy of the state that later operations do not change.
    type Snapshot: Clone + Debug;

    /// Executes the operation of the entry with that index. Indices ascend; some are left out.
    fn execute(&mut self, index: Index, operation: &Self::Operation) -> Self::Answer;
    /// Undoes the operations of all entries behind that index. It is never below what was forgotten.
    fn roll_back(&mut self, to: Index);
    /// Entries up to that index will never be rolled back.
    fn forget(&mut self, up_to: Index);
    /// The state after the entry with that index, which is not before what was forgotten, and not behind what is executed.
    fn snapshot(&self, at: Index) -> Self::Snapshot;
    /// Takes the state after the entry with that index. Nothing before it will be rolled back.
    fn restore(&mut self, at: Index, snapshot: &Self::Snapshot);
}
