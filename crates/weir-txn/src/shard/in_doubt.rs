//! Writers wait for transactions that a restarted shard has found prepared in its log, and whose outcome it does not know yet.
//!
//! Such a transaction may have been acknowledged: another participant decided it, and the process ended before this shard was told. A
//! statement that looks for rows to write would not see its insertions. So calls and statements wait until the shard has been told, or
//! has asked the other participants ([`weir_core::termination`]), which takes about a second. Readers need not wait: they learn of the
//! transaction from its other participants.
//!
//! A participant that cannot be reached would keep the transaction in doubt for ever. So the waiting ends [`WAIT_MS`] after the first
//! request. The transaction is then claimed and pinned like every prepared one.

use std::collections::VecDeque;

use weir_core::ids::TxnId;
use weir_core::participant::Participant;

use super::Node;
use super::definitions::Barrier;
use super::participant::Sql;
use crate::faults::Faults;

/// Writers wait at most so long after the first request, in milliseconds.
const WAIT_MS: u64 = 10_000;

/// Transactions in doubt since the restart.
#[derive(Debug, Default)]
pub(crate) struct InDoubt {
    /// In the order of their prepares. Those that have ended since are removed when they reach the front.
    transactions: VecDeque<TxnId>,
    /// End of the waiting; set by the first request.
    until_ms: Option<u64>,
}

impl InDoubt {
    /// All that is prepared at the end of recovery.
    pub(crate) fn of(participant: &Participant<Sql>) -> InDoubt {
        InDoubt { transactions: participant.in_prepare_order().map(|(txn, _)| txn).collect(), until_ms: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }
}

impl<F: Faults> Node<F> {
    /// The transaction in doubt that writers have to wait for.
    pub(crate) fn in_doubt(&mut self, now_ms: u64) -> Option<Barrier> {
        if self.in_doubt.is_empty() || self.bugs.writes_in_doubt() {
            return None;
        }
        if now_ms >= *self.in_doubt.until_ms.get_or_insert(now_ms + WAIT_MS) {
            return None;
        }
        while let Some(&txn) = self.in_doubt.transactions.front() {
            if let Some(prepared) = self.participant.prepared().get(&txn) {
                return Some(Barrier { txn, age: prepared.age });
            }
            self.in_doubt.transactions.pop_front();
        }
        None
    }

    /// Wakes those who have waited long enough.
    pub(crate) fn end_doubts(&mut self, now_ms: u64) {
        if self.in_doubt.until_ms.is_some_and(|until_ms| now_ms >= until_ms) {
            self.ended.extend(self.in_doubt.transactions.drain(..));
        }
    }
}
