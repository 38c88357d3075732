//! No call waits for ever while younger ones come (docs/internals/escrow.md, "Who decides, and who waits").
//!
//! A call that waits holds nothing of this shard, so calls that come later may take what it needs before it runs again. Once it has
//! stopped often, it is *starved*: the table at which it stopped is reserved for it. Younger calls that would hold anything there wait until
//! it has run, or withdraw. Those that have prepared end without it, so it runs in the end.

use weir_core::ids::TxnId;
use weir_sql::catalog::TableId;

use super::node::Node;
use super::waiting::age_of_call;
use crate::claims::Reserved;
use crate::faults::Faults;
use crate::message::{Age, Request};

/// Number of times that a call stops at a shard before a table is reserved for it, and a statement before it keeps what it has waited for.
pub(super) const STOPS_MAX: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Starved {
    age: Age,
    reserved: Reserved,
}

/// The calls of a shard that stop again and again.
#[derive(Debug, Default)]
pub(crate) struct Starvation {
    /// The oldest call that has stopped more than [`STOPS_MAX`] times. Invariant: at the end of a step it waits for a call, or runs on a
    /// worker.
    starved: Option<Starved>,
    /// The table of which the call that runs in this step must not hold anything.
    pub(super) met: Option<Reserved>,
}

impl Starvation {
    /// A request is about to run.
    pub(super) fn meet(&mut self, request: &Request) {
        let is_younger = |starved: &Starved| age_of_call(request).is_some_and(|age| age > starved.age);
        self.met = self.starved.filter(is_younger).map(|starved| starved.reserved);
    }

    pub(super) fn is_for(&self, txn: TxnId) -> bool {
        self.starved.is_some_and(|starved| starved.reserved.txn == txn)
    }
}

impl<F: Faults> Node<F> {
    /// Notes that a call waits for a holder, after so many stops, the last one at that table. Nothing is reserved for a call that waits for
    /// an open transaction, which may take as long as it likes.
    pub(super) fn note_wait(
        &mut self,
        (age, txn): (Age, TxnId),
        (stops, table): (u32, Option<TableId>),
        holder: TxnId,
    ) {
        let is_oldest = self.starvation.starved.is_none_or(|starved| age <= starved.age);
        if self.open.contains_key(&holder) {
            self.end_starvation_of(txn);
        } else if let (Some(table), true) = (table, stops > STOPS_MAX && is_oldest && !self.bugs.starves()) {
            let before = self.starvation.starved.replace(Starved { age, reserved: Reserved { table, txn } });
            // Those that waited for another starved call go on: its end would not wake them any more.
            let other = before.map(|starved| starved.reserved.txn).filter(|other| *other != txn);
            self.ended.extend(other.filter(|_| !self.bugs.leaves_waiters()));
        }
    }

    fn end_starvation_of(&mut self, txn: TxnId) {
        if self.starvation.is_for(txn) {
            self.starvation.starved = None;
            self.ended.push(txn);
        }
    }

    /// Returns whether a call that was starved does not wait any more. Then those that waited for it go on.
    pub(super) fn ends_starvation(&mut self) -> bool {
        let Some(Starved { reserved: Reserved { txn, .. }, .. }) = self.starvation.starved else {
            return false;
        };
        let is_over = self.waits_for(txn).is_none() && !self.workers.calls(txn);
        if is_over {
            self.end_starvation_of(txn);
        }
        is_over
    }
}
