//! No call waits for ever while younger ones come (docs/internals/escrow.md, "Who decides, and who waits").
//!
//! A call that waits holds nothing of this shard, so calls that come later may take what it needs before it runs again. Once it has
//! stopped often, it is *starved*: younger calls that need anything of the shard wait until it has run, or withdraw. Those that have prepared
//! here end without it, so it runs in the end.

use weir_core::ids::TxnId;

use super::node::{Effects, Node};
use super::waiting::{Waiting, is_first_of_call};
use crate::faults::Faults;
use crate::message::{Age, Request};

/// Number of times that a call stops at a shard before younger ones give way.
const STOPS_MAX: u32 = 8;

/// The calls of a shard that stop again and again.
#[derive(Debug, Default)]
pub(crate) struct Starvation {
    /// The oldest call that has stopped more than [`STOPS_MAX`] times. Invariant: at the end of a step it waits, or runs on a worker.
    starved: Option<(Age, TxnId)>,
    /// The call that runs again within this step, or that a worker has just ended, and the number of its stops.
    again: Option<(TxnId, u32)>,
}

impl Starvation {
    pub(super) fn is_any(&self) -> bool {
        self.starved.is_some()
    }

    /// The call begins to run again.
    pub(super) fn runs_again(&mut self, txn: TxnId, stops: u32) {
        self.again = Some((txn, stops));
    }

    /// Number of times that the call has stopped here.
    pub(super) fn stops_of(&mut self, txn: TxnId) -> u32 {
        self.again.take_if(|(of, _)| *of == txn).map_or(0, |(_, stops)| stops)
    }
}

impl<F: Faults> Node<F> {
    /// Notes that a call has stopped for that many times, and waits.
    pub(super) fn note_stop(&mut self, (age, txn): (Age, TxnId), stops: u32) {
        let is_oldest = self.starvation.starved.is_none_or(|starved| age <= starved.0);
        if stops > STOPS_MAX && is_oldest && !self.bugs.starves() {
            self.starvation.starved = Some((age, txn));
        }
    }

    /// Returns whether a call that was starved does not wait any more. Then those that gave way go on.
    pub(super) fn ends_starvation(&mut self) -> bool {
        let Some((_, txn)) = self.starvation.starved else { return false };
        if self.waits_for(txn).is_some() || self.workers.calls(txn) {
            return false;
        }
        self.starvation.starved = None;
        self.ended.push(txn);
        true
    }

    /// Returns the request unless it is of a call that gives way to an older, starved one: it waits if it holds nothing on any shard, and
    /// withdraws otherwise.
    pub(super) fn gives_way(&mut self, request: Request, out: &mut Effects) -> Option<Request> {
        let Some((age, starved)) = self.starvation.starved else { return Some(request) };
        let is_younger = match &request {
            Request::Execute { begun, .. }
            | Request::Prepare { begun, .. }
            | Request::Decide { begun, .. } => begun.age > age,
            _ => false,
        };
        if !is_younger || request.txn() == starved {
            return Some(request);
        }
        match is_first_of_call(&request) {
            true => self.wait_with_call(starved, Waiting::from(request), out),
            false => self.withdraw(request.txn(), out),
        }
        None
    }
}
