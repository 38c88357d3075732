//! Settled transactions: those that all participants have committed, until no reader may ask for their metadata any more (S10).
//!
//! An order only: the shard keeps what is known of the transactions.

use std::collections::VecDeque;

use crate::ids::TxnId;

/// A committed transaction as its shard remembers it.
pub trait Committed {
    /// Set once all participants have committed it.
    fn settled(&mut self) -> &mut bool;
}

/// Settled transactions in the order in which they settled, each with the drain epoch of that moment.
#[derive(Debug, Default)]
pub struct Draining(VecDeque<(u64, TxnId)>);

impl Draining {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Marks a committed transaction as settled in this epoch. Returns whether that is new.
    pub fn settle(&mut self, epoch: u64, txn: TxnId, committed: Option<&mut impl Committed>) -> bool {
        let Some(settled) = committed.map(Committed::settled).filter(|settled| !**settled) else {
            return false;
        };
        *settled = true;
        self.0.push_back((epoch, txn));
        true
    }

    /// Begins anew after a restart of the shard: there are no readers yet, so all settled transactions drain in the first epoch.
    pub fn restart(&mut self, epoch: u64, settled: impl IntoIterator<Item = TxnId>) {
        self.0.clear();
        self.0.extend(settled.into_iter().map(|txn| (epoch, txn)));
    }

    /// Removes the oldest transaction if it settled before the epoch `drained`, which all readers have drained: none asks for it.
    pub fn next_drained(&mut self, drained: u64) -> Option<TxnId> {
        self.0.front().filter(|(epoch, _)| *epoch < drained)?;
        self.0.pop_front().map(|(_, txn)| txn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(bool);

    impl Committed for One {
        fn settled(&mut self) -> &mut bool {
            &mut self.0
        }
    }

    fn of(sequence: u64) -> TxnId {
        TxnId { coordinator: 0, sequence }
    }

    #[test]
    fn a_transaction_settles_once_and_drains_after_its_epoch() {
        let mut draining = Draining::default();
        let mut one = One(false);
        assert!(!draining.settle(1, of(7), None::<&mut One>), "it is not known");
        assert!(draining.settle(1, of(7), Some(&mut one)));
        assert!(one.0 && !draining.settle(2, of(7), Some(&mut one)), "it has settled");
        assert!(draining.settle(2, of(3), Some(&mut One(false))));
        assert_eq!(draining.next_drained(1), None, "a reader of epoch 1 may ask");
        assert_eq!((draining.next_drained(2), draining.next_drained(2)), (Some(of(7)), None));
        assert_eq!(draining.next_drained(3), Some(of(3)));
        assert!(draining.is_empty());
    }

    #[test]
    fn after_a_restart_all_drain_in_the_first_epoch() {
        let mut draining = Draining::default();
        draining.settle(9, of(1), Some(&mut One(false)));
        draining.restart(0, [of(1), of(2)]);
        assert_eq!([1, 1, 1].map(|drained| draining.next_drained(drained)), [Some(of(1)), Some(of(2)), None]);
    }
}
