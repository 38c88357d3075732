//! How much a shard keeps, for reports and tests of its bounds. Only counts.

use super::faults::Faults;
use super::partition::Partition;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Keys, those of deleted items included that are not forgotten yet.
    pub items: usize,
    /// Writes above the bases of items: kept for readers, or since an older one may still come.
    pub versions: usize,
    pub prepared: usize,
    /// Committed transactions whose metadata is kept.
    pub committed: usize,
    pub tombstones: usize,
    /// Abort promises, and outcomes that coordinators do not know yet.
    pub promises_and_outcomes: usize,
    pub inquiries: usize,
    /// Coordinators that it knows of, and words of the windows that say which of their transactions are over.
    pub coordinators: usize,
    pub window_words: usize,
    /// Coordinators of which only the ids are kept.
    pub retired: usize,
}

impl Sizes {
    /// Sum of the sizes of several shards.
    pub fn and(self, other: Sizes) -> Sizes {
        Sizes {
            items: self.items + other.items,
            versions: self.versions + other.versions,
            prepared: self.prepared + other.prepared,
            committed: self.committed + other.committed,
            tombstones: self.tombstones + other.tombstones,
            promises_and_outcomes: self.promises_and_outcomes + other.promises_and_outcomes,
            inquiries: self.inquiries + other.inquiries,
            coordinators: self.coordinators + other.coordinators,
            window_words: self.window_words + other.window_words,
            retired: self.retired + other.retired,
        }
    }
}

impl<F: Faults> Partition<F> {
    /// Looks at every item.
    pub fn sizes(&self) -> Sizes {
        let of = &self.participant;
        let (coordinators, window_words) = of.readers.sizes();
        Sizes {
            items: self.table.iter().count(),
            versions: self.table.iter().map(|(_, chain)| chain.versions()).sum(),
            prepared: of.prepared().len(),
            committed: of.committed().len(),
            tombstones: self.tombstones.len(),
            promises_and_outcomes: of.outcomes.len(),
            inquiries: of.inquiries().len(),
            coordinators,
            window_words,
            retired: of.outcomes.retired().count(),
        }
    }
}
