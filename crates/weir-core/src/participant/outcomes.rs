//! Outcomes of transactions at a participant: what a repeated request is answered with, and what other participants are told (S3).
//!
//! The table is bounded. An outcome is dropped as soon as its coordinator's watermark has passed the transaction: it is then over
//! everywhere, and the watermark alone rejects a late message. A coordinator that stays silent is retired, and its outcomes are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::ids::{CoordinatorId, TxnId};

/// Outcome of a transaction at a participant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome<A> {
    /// Clock of its commit; none: it has not committed here and never will.
    pub clock: Option<u64>,
    /// Answer to a repetition of its last request.
    pub answer: A,
}

/// Outcomes that coordinators may not know yet. Invariant: each belongs to a transaction at or above its coordinator's watermark, of a
/// coordinator that is not retired.
#[derive(Debug)]
pub struct OutcomeTable<A> {
    of: BTreeMap<TxnId, Outcome<A>>,
    /// Coordinators that were silent for too long: nothing of theirs is accepted any more.
    retired: BTreeSet<CoordinatorId>,
}

impl<A> Default for OutcomeTable<A> {
    fn default() -> Self {
        OutcomeTable { of: BTreeMap::new(), retired: BTreeSet::new() }
    }
}

impl<A> OutcomeTable<A> {
    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    #[inline]
    pub fn get(&self, txn: TxnId) -> Option<&Outcome<A>> {
        self.of.get(&txn)
    }

    /// The transaction has committed here, at that clock.
    #[inline]
    pub fn commit(&mut self, txn: TxnId, clock: u64, answer: A) {
        self.of.insert(txn, Outcome { clock: Some(clock), answer });
    }

    /// The transaction has not committed here and never will.
    pub fn refuse(&mut self, txn: TxnId, answer: A) {
        self.of.insert(txn, Outcome { clock: None, answer });
    }

    /// In order of transactions.
    pub fn iter(&self) -> impl Iterator<Item = (TxnId, &Outcome<A>)> {
        self.of.iter().map(|(txn, outcome)| (*txn, outcome))
    }

    /// Transactions that never commit here.
    pub fn refused(&self) -> impl Iterator<Item = TxnId> {
        self.iter().filter(|(_, outcome)| outcome.clock.is_none()).map(|(txn, _)| txn)
    }

    /// Clocks of transactions that have committed here.
    pub fn committed(&self) -> impl Iterator<Item = (TxnId, u64)> {
        self.iter().filter_map(|(txn, outcome)| Some((txn, outcome.clock?)))
    }

    /// The watermark of their coordinator has passed these transactions.
    #[inline]
    pub fn forget(&mut self, below: Range<TxnId>) {
        while let Some((&txn, _)) = self.of.range(below.clone()).next() {
            self.of.remove(&txn);
        }
    }

    /// Retires a coordinator.
    pub fn retire(&mut self, coordinator: CoordinatorId) {
        self.forget(TxnId { coordinator, sequence: 0 }..TxnId { coordinator, sequence: u64::MAX });
        self.retired.insert(coordinator);
    }

    #[inline]
    pub fn is_retired(&self, coordinator: CoordinatorId) -> bool {
        self.retired.contains(&coordinator)
    }

    pub fn retired(&self) -> impl Iterator<Item = CoordinatorId> {
        self.retired.iter().copied()
    }

    /// Restores the state of a snapshot.
    pub fn restore(
        &mut self,
        outcomes: impl IntoIterator<Item = (TxnId, Outcome<A>)>,
        retired: impl IntoIterator<Item = CoordinatorId>,
    ) {
        self.of.extend(outcomes);
        self.retired.extend(retired);
    }

    /// Drops outcomes. For planted bugs.
    pub fn lose(&mut self, is_lost: impl Fn(&Outcome<A>) -> bool) {
        self.of.retain(|_, outcome| !is_lost(outcome));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(coordinator: CoordinatorId, sequence: u64) -> TxnId {
        TxnId { coordinator, sequence }
    }

    /// A coordinator that goes on reporting keeps the table as small as its window of unfinished transactions.
    #[test]
    fn a_watermark_bounds_the_table() {
        let mut table = OutcomeTable::default();
        table.refuse(of(2, 0), "of another");
        for sequence in 0..1_000 {
            table.commit(of(1, sequence), sequence, "done");
            if sequence >= 10 {
                table.forget(of(1, sequence - 10)..of(1, sequence - 9));
            }
            assert!(table.len() <= 12, "after {sequence}: {}", table.len());
        }
        assert!(table.get(of(1, 989)).is_none() && table.get(of(1, 990)).is_some());
        assert_eq!(table.refused().collect::<Vec<_>>(), [of(2, 0)]);
        assert_eq!(table.committed().count(), 10);
    }

    #[test]
    fn a_retired_coordinator_leaves_its_name_alone() {
        let mut table = OutcomeTable::default();
        for coordinator in [1, 2, 3] {
            table.refuse(of(coordinator, 0), ());
            table.commit(of(coordinator, 7), 70, ());
        }
        table.retire(2);
        assert_eq!(table.iter().map(|(txn, _)| txn.coordinator).collect::<Vec<_>>(), [1, 1, 3, 3]);
        assert!(table.is_retired(2) && !table.is_retired(1));
    }
}
