//! Advisory locks (pg_advisory_lock), whose meaning applications define. They are claims of an open transaction, like row locks, on the
//! home shard of their key, and are released with the transaction. Definitions do not wait for a transaction that holds nothing else:
//! migration tools hold one during the migration.

use smallvec::smallvec;
use weir_core::ids::TxnId;
use weir_types::Value;

use super::{Done, Open, StepResult};
use crate::claims::Claim;
use crate::faults::Faults;
use crate::message::{AdvisoryKey, Begun, Output, Request, Work};
use crate::shard::node::{Effects, Node};

impl Open {
    /// It has done nothing but take such locks.
    pub(super) fn only_advises(&self) -> bool {
        let advises = |done: &Done| {
            !done.claims.is_empty() && done.claims.iter().all(|claim| matches!(claim, Claim::Advisory(_)))
        };
        !self.done.is_empty() && self.done.iter().all(advises)
    }
}

impl<F: Faults> Node<F> {
    pub(super) fn on_advisory_lock(
        &mut self,
        (txn, begun): (TxnId, Begun),
        work: Box<Work>,
        key: AdvisoryKey,
        waits: bool,
        out: &mut Effects,
    ) {
        let (shard, number, claim) = (self.shard, work.number, Claim::Advisory(key));
        let holder = self.claims.holder(&claim);
        if let Some(holder) = holder.filter(|holder| waits && *holder != txn) {
            return self.wait_with_work(smallvec![holder], Request::Work { txn, begun, work }, out);
        }
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, shard, begun.age));
        if holder.is_none() {
            self.claims.take(&claim, txn);
            open.done.push(Done { number, claims: vec![claim], ..Done::default() });
        }
        let is_held = Value::Bool(holder.is_none_or(|holder| holder == txn));
        let output = Output { values: vec![is_held], ..Output::default() };
        self.worked(txn, open, (number, Ok(StepResult { output, ..StepResult::default() })), out);
    }
}
