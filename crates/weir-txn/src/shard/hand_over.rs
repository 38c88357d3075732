//! A claim goes from its holder to the request that has waited for it, not to one that has come later (docs/internals/row-locks.md,
//! "Who gets a claim").
//!
//! A statement of an open transaction keeps what it is given until it ends, so it waits at most once for each claim that it needs. A call
//! gives its claims back when it has to wait (S7).

use weir_core::ids::TxnId;

use super::node::Node;
use super::open::Open;
use super::starvation::STOPS_MAX;
use crate::claims::Claim;
use crate::faults::Faults;

/// A request that runs again within this step: it has waited, or a worker has just ended its run.
#[derive(Debug)]
pub(crate) struct Again {
    pub(super) txn: TxnId,
    /// Number of times that it has stopped at this shard.
    pub(super) stops: u32,
    /// The claim for which it has stopped last. Nobody held it when the request was woken.
    pub(super) wanted: Option<Claim>,
    /// A worker has just ended its run.
    pub(super) was_beside: bool,
}

impl<F: Faults> Node<F> {
    /// The record of the request, if it runs again.
    pub(super) fn take_again(&mut self, txn: TxnId) -> Option<Again> {
        self.again.take_if(|again| again.txn == txn)
    }

    /// Takes the claim for which the request has waited, before anybody else runs. None: others hold it, or the transaction has it already.
    pub(super) fn take_wanted(&mut self, txn: TxnId) -> Option<Claim> {
        let claim = self.again.as_mut().filter(|again| again.txn == txn)?.wanted.take()?;
        let is_exclusive = match claim {
            Claim::Row(..) | Claim::WeakRow(..) | Claim::Key(..) | Claim::Table(_) => true,
            // These are taken in one step, with a check that belongs to it.
            Claim::Amount(..) | Claim::Interval(..) | Claim::Advisory(_) => false,
        };
        let is_covered = self.claims.tables_of(txn).any(|own| claim.table() == Some(own));
        let is_reserved = self.starvation.met.is_some_and(|reserved| claim.table() == Some(reserved.table));
        let is_free = !is_reserved && self.claims.against(&claim, txn).is_empty();
        let may_take = is_exclusive && !is_covered && is_free;
        let takes = may_take && !self.bugs.hands_nothing_over() && self.claims.take(&claim, txn);
        // The planted bug forgets whose it is.
        (takes && !self.bugs.keeps_handed_over()).then_some(claim)
    }

    /// A statement that runs within a step takes all its claims in one run, or none. Once it has stopped often, it keeps those for which it
    /// has waited: otherwise others, each of which holds one of them, could keep it waiting for ever.
    pub(super) fn hand_over_to_starved(&mut self, txn: TxnId, open: &mut Open) {
        let is_starved = self.again.as_ref().is_some_and(|again| again.txn == txn && again.stops > STOPS_MAX);
        if is_starved && let Some(claim) = self.take_wanted(txn) {
            open.keep_while_waiting([claim]);
        }
    }
}
