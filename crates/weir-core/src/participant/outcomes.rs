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
    /// Transactions that were over when their coordinators were retired; none: they are not kept.
    over: Option<BTreeMap<CoordinatorId, OverOfRetired>>,
}

/// Transactions of a coordinator that were over when it was retired.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverOfRetired {
    /// Its watermark.
    below: u64,
    /// Above the watermark: those that had outcomes.
    above: BTreeSet<u64>,
}

impl<A> Default for OutcomeTable<A> {
    fn default() -> Self {
        OutcomeTable { of: BTreeMap::new(), retired: BTreeSet::new(), over: None }
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

    /// Retires a coordinator. `below`: its watermark.
    pub fn retire(&mut self, coordinator: CoordinatorId, below: u64) {
        let all = TxnId { coordinator, sequence: 0 }..TxnId { coordinator, sequence: u64::MAX };
        if let Some(over) = &mut self.over {
            let above = self.of.range(all.clone()).map(|(txn, _)| txn.sequence).collect();
            over.insert(coordinator, OverOfRetired { below, above });
        }
        self.forget(all);
        self.retired.insert(coordinator);
    }

    /// Keeps, from now on and for good, which transactions of retired coordinators are over. `before`: those of an earlier start.
    pub fn keep_over(&mut self, before: impl IntoIterator<Item = (CoordinatorId, OverOfRetired)>) {
        self.over.get_or_insert_default().extend(before);
    }

    /// Returns whether the transaction has an outcome, or was over when its coordinator was retired.
    pub fn is_over(&self, TxnId { coordinator, sequence }: TxnId) -> bool {
        let was_over = |of: &OverOfRetired| sequence < of.below || of.above.contains(&sequence);
        self.of.contains_key(&TxnId { coordinator, sequence })
            || self.over.as_ref().and_then(|over| over.get(&coordinator)).is_some_and(was_over)
    }

    /// Transactions that were over when their coordinators were retired, as far as they are kept.
    pub fn over_of_retired(&self) -> impl Iterator<Item = (CoordinatorId, OverOfRetired)> {
        self.over.iter().flatten().map(|(coordinator, over)| (*coordinator, over.clone()))
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

    /// A transaction that is over stays over, and one that has not come may still come.
    #[test]
    fn what_was_over_of_a_retired_coordinator_is_kept_on_demand() {
        let mut table = OutcomeTable::default();
        table.commit(of(1, 5), 1, ());
        table.retire(1, 3);
        assert!(!table.is_over(of(1, 2)) && !table.is_over(of(1, 5)));
        table.keep_over([]);
        table.commit(of(2, 5), 1, ());
        table.refuse(of(2, 7), ());
        table.retire(2, 3);
        let over: Vec<bool> = [2, 3, 5, 6, 7].map(|sequence| table.is_over(of(2, sequence))).into();
        assert_eq!(over, [true, false, true, false, true]);
        assert!(table.is_empty());
        let mut restored = OutcomeTable::<()>::default();
        restored.keep_over(table.over_of_retired());
        assert!(restored.is_over(of(2, 5)) && !restored.is_over(of(2, 6)));
    }

    #[test]
    fn a_retired_coordinator_leaves_its_name_alone() {
        let mut table = OutcomeTable::default();
        for coordinator in [1, 2, 3] {
            table.refuse(of(coordinator, 0), ());
            table.commit(of(coordinator, 7), 70, ());
        }
        table.retire(2, 0);
        assert_eq!(table.iter().map(|(txn, _)| txn.coordinator).collect::<Vec<_>>(), [1, 1, 3, 3]);
        assert!(table.is_retired(2) && !table.is_retired(1));
    }
}
