//! Guards: conditions of a write that the shard of the item decides when it prepares (soundness S17; docs/internals/items.md).
//!
//! A guard is held from the prepare to the decision, in `Partition::guarded`. No request waits for it: a conflicting prepare is refused.

use super::faults::Faults;
use super::message::Guard;
use super::partition::Partition;

impl<F: Faults> Partition<F> {
    /// Nothing is above the base of an item that everybody sees alike.
    pub(super) fn holds(&self, guard: &Guard) -> bool {
        if self.bugs.stale_delta() {
            return true;
        }
        let is_as_seen = match self.table.get(&guard.key) {
            None => guard.absent,
            Some(chain) => {
                let same =
                    chain.base_stamp() == guard.seen || (guard.absent && chain.is_tombstone().is_some());
                let committed = self.participant.committed();
                let drained = chain.fresh().is_none_or(|stamp| !committed.contains_key(&stamp.txn));
                chain.versions() == 0 && drained && same
            }
        };
        is_as_seen && !self.guarded.contains(&guard.key)
    }
}
