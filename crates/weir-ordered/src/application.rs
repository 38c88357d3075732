//! The application that a shard executes, as its replicas see it.

use std::fmt::Debug;

use crate::footprint::Footprint;
use crate::packet::Index;

/// The state of one shard. Execution is deterministic: equal operations in equal order give equal answers and equal states.
pub trait Application {
    /// Operation of a whole transaction; a shard executes its own part of it.
    type Operation: Clone + Debug;
    type Answer: Clone + Debug;
    /// A copy of the state that later operations do not change.
    type Snapshot: Clone + Debug;

    /// Executes an operation as a part of the entry with that index. Indices do not descend: a transaction that has waited for locks is executed
    /// with the index of the entry that has let go of them.
    fn execute(&mut self, index: Index, operation: &Self::Operation) -> Self::Answer;
    /// What the operation reads and writes at this shard: a function of the operation alone. The conclusory part of a general transaction keeps
    /// within the footprint of its preliminary part.
    fn footprint(&self, _operation: &Self::Operation) -> Footprint {
        Footprint::Everything
    }
    /// A read of the state as it is, outside of any transaction. None: the application has no such reads.
    fn reconnoitre(&self, _operation: &Self::Operation) -> Option<Self::Answer> {
        None
    }
    /// Undoes the operations of all entries behind that index. It is never below what was forgotten.
    fn roll_back(&mut self, to: Index);
    /// Entries up to that index will never be rolled back.
    fn forget(&mut self, up_to: Index);
    /// The state after the entry with that index, which is not before what was forgotten, and not behind what is executed.
    fn snapshot(&self, at: Index) -> Self::Snapshot;
    /// Takes the state after the entry with that index. Nothing before it will be rolled back.
    fn restore(&mut self, at: Index, snapshot: &Self::Snapshot);
}
