//! Transactions that a restarted shard has found prepared in its log, and whose outcome it does not know yet.
//!
//! Such a transaction may have been acknowledged: another participant decided it, and the process ended before this shard was told. A
//! statement that looks for rows to write would not see its insertions. So calls and statements wait until the shard has been told, or
//! has asked the other participants ([`weir_core::termination`]), which takes about a second. Readers need not wait: they learn of the
//! transaction from its other participants.
//!
//! A participant that cannot be reached would keep the transaction in doubt for ever. So nobody waits longer than [`WAIT_MS`] after the
//! first request; what was in doubt until then is claimed and pinned like every prepared transaction.

use std::collections::VecDeque;

use weir_core::ids::TxnId;

use super::Node;
use super::definitions::Barrier;
use crate::faults::Faults;

/// Nobody waits longer for what is in doubt, in milliseconds after the first request.
const WAIT_MS: u64 = 10_000;

/// Transactions in doubt since the restart.
#[derive(Debug, Default)]
pub(crate) struct InDoubt {
    /// In the order of their prepares. Those that have ended since are removed when they reach the front.
    transactions: VecDeque<TxnId>,
    /// When the waiting ends; set by the first request.
    until_ms: Option<u64>,
}

impl InDoubt {
    /// Nothing is in doubt.
    pub(crate) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// The log contains the prepare of a transaction.
    pub(crate) fn prepared_again(&mut self, txn: TxnId) {
        self.transactions.push_back(txn);
    }
}

impl<F: Faults> Node<F> {
    /// A transaction in doubt that writers have to wait for.
    pub(crate) fn in_doubt(&mut self, now_ms: u64) -> Option<Barrier> {
        if self.in_doubt.is_empty() || self.bugs.writes_in_doubt() {
            return None;
        }
        let until_ms = *self.in_doubt.until_ms.get_or_insert(now_ms + WAIT_MS);
        while let Some(txn) = self.in_doubt.transactions.front() {
            match self.participant.prepared().get(txn) {
                Some(prepared) if now_ms < until_ms => return Some(Barrier::of(*txn, prepared.age)),
                _ => self.in_doubt.transactions.pop_front(),
            };
        }
        None
    }

    /// Wakes those that have waited long enough for what is in doubt.
    pub(crate) fn end_doubts(&mut self, now_ms: u64) {
        if self.in_doubt.until_ms.is_some_and(|until_ms| until_ms <= now_ms) {
            self.ended.extend(self.in_doubt.transactions.drain(..));
        }
    }
}
