//! Termination of SQL calls. The commit of the last participant is the decision (docs/decisions/0003), so a prepared participant asks it,
//! and the others, who may have received COMMIT. The protocol is [`weir_core::termination`]; S3, S4.

use smallvec::SmallVec;
use weir_core::ids::{CoordinatorId, ShardId, Timestamp, TxnId};
use weir_core::readers::Readers;
use weir_core::termination::{Fate, Inquiries, Terminates, Timeouts, says_words};

use crate::faults::Faults;
use crate::message::Request;
use crate::shard::node::Node;

impl<F: Faults> Terminates for Node<F> {
    fn own_id(&self) -> ShardId {
        self.shard
    }

    fn readers(&self) -> &Readers {
        &self.participant.readers
    }

    fn timeouts(&self) -> Timeouts {
        self.outcomes.as_deref().map(|outcomes| outcomes.timeouts).unwrap_or_default()
    }

    fn inquiries(&mut self) -> &mut Inquiries {
        &mut self.outcomes.get_or_insert_default().inquiries
    }

    fn prepared(&self) -> impl Iterator<Item = TxnId> {
        self.participant.prepared.keys().copied()
    }

    fn unsettled(&self) -> impl Iterator<Item = TxnId> {
        self.participant.unsettled.iter().filter(|(_, one)| !one.settled).map(|(txn, _)| *txn)
    }

    fn is_unsettled(&self, txn: TxnId) -> bool {
        self.participant.prepared.contains_key(&txn)
            || self.participant.unsettled.get(&txn).is_some_and(|one| !one.settled)
    }

    fn others(&self, txn: TxnId) -> SmallVec<[ShardId; 4]> {
        let prepared = self.participant.prepared.get(&txn).map(|prepared| &prepared.participants);
        let committed = || self.participant.unsettled.get(&txn).map(|one| &one.participants);
        let all = prepared.or_else(committed).into_iter().flat_map(|all| all.iter());
        all.copied().filter(|shard| *shard != self.shard).collect()
    }

    fn fate(&self, txn: TxnId) -> Option<Fate> {
        if let Some(prepared) = self.participant.prepared.get(&txn) {
            let clock = prepared.answer.as_deref().map_or(0, |(_, timestamp)| timestamp.clock);
            return Some(Fate::Prepared { clock });
        }
        if let Some(one) = self.participant.unsettled.get(&txn) {
            return Some(Fate::Committed { clock: one.timestamp.clock });
        }
        let outcomes = self.outcomes.as_deref()?;
        if let Some(over) = outcomes.over.get(&txn) {
            return Some(over.clock.map_or(Fate::Refused, |clock| Fate::Committed { clock }));
        }
        // If the transaction has committed everywhere, no asking shard can still act on this answer.
        let refused = outcomes.retired.contains(&txn.coordinator)
            || self.participant.readers.is_below(txn.coordinator, txn.sequence);
        refused.then_some(Fate::Refused)
    }

    /// The last participant never prepares: until it has committed, there is no decision.
    fn clock_of_all_prepared(&self, _txn: TxnId, _others: &[u64]) -> Option<u64> {
        None
    }

    fn fate_for(&self, txn: TxnId, asked: Fate) -> Option<Fate> {
        match (self.fate(txn), asked) {
            (None, Fate::Prepared { clock }) if self.bugs.unknown_means_committed() => {
                Some(Fate::Committed { clock })
            }
            (fate, _) => fate,
        }
    }

    fn commit_at(&mut self, txn: TxnId, clock: u64) -> bool {
        let Some(prepared) = self.participant.prepared.get(&txn) else { return false };
        let node = *prepared.participants.last().expect("a transaction has a participant");
        self.commit(txn, Timestamp { clock, node })
    }

    fn abort(&mut self, txn: TxnId) -> bool {
        Node::abort(self, txn)
    }

    fn promise(&mut self, txn: TxnId) {
        self.note_refusal(txn, None);
    }

    fn settle(&mut self, txn: TxnId) {
        self.participant.settle(txn);
    }

    /// [`Node::on_progress`] does this at once.
    fn forget_what_is_below(&mut self) {}

    fn has_left(&self, coordinator: CoordinatorId) -> bool {
        let of_it = |txn: &TxnId| txn.coordinator == coordinator;
        self.participant.prepared.keys().any(of_it) || self.participant.unsettled.keys().any(of_it)
    }

    fn retire(&mut self, coordinator: CoordinatorId) {
        self.participant.forget_coordinator(coordinator);
        let Some(outcomes) = &mut self.outcomes else { return };
        outcomes.forget_coordinator(coordinator);
        if outcomes.is_logged {
            outcomes.log.push(super::log::Record::Retired { coordinator });
        }
    }

    fn terminated(&mut self) -> &mut (u64, u64) {
        &mut self.outcomes.get_or_insert_default().terminated
    }
}

impl<F: Faults> Node<F> {
    /// Number of transactions that this shard has committed, and aborted, by asking the other participants.
    pub fn terminated_by_asking(&self) -> (u64, u64) {
        self.outcomes.as_deref().map_or((0, 0), |outcomes| outcomes.terminated)
    }

    /// State left of that coordinator's transactions: prepared, committed and not drained, and remembered outcomes.
    pub fn left_of(&self, coordinator: CoordinatorId) -> Left {
        let of_it = |txn: &&TxnId| txn.coordinator == coordinator;
        let over = self.outcomes.as_deref().map_or(0, |outcomes| outcomes.over.keys().filter(of_it).count());
        Left {
            prepared: self.participant.prepared.keys().filter(of_it).count(),
            unsettled: self.participant.unsettled.keys().filter(of_it).count(),
            over,
        }
    }
}

/// Size of the state that a shard holds for one coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    pub prepared: usize,
    pub unsettled: usize,
    pub over: usize,
}

says_words!(Request);
