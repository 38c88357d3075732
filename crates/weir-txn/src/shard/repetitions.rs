//! Answers to requests of transactions that are over on this shard and come again (docs/ramp.md, the log and termination).

use weir_core::participant::Outcome;

use crate::faults::Faults;
use crate::message::{Reply, Request};
use crate::shard::node::Node;

impl<F: Faults> Node<F> {
    /// Reply to a repeated request. None: the request is new; `Some(None)`: it is repeated and needs no reply.
    pub(crate) fn answer_again(&self, request: &Request) -> Option<Option<Reply>> {
        let (txn, shard) = (request.txn(), self.shard);
        let Outcome { clock, answer } = self.participant.outcomes.get(txn)?;
        Some(match (request, clock, answer) {
            (Request::Commit { .. }, Some(_), _) => Some(Reply::Committed { txn, shard }),
            // The abort comes too late: the transaction has committed.
            (Request::Abort { .. }, Some(_), Some(reply)) => Some((**reply).clone()),
            (Request::Abort { .. }, ..) => Some(Reply::Aborted { txn, shard }),
            (Request::Commit { .. }, ..) => None,
            (_, _, Some(reply)) => Some((**reply).clone()),
            // A committed transaction had received all the answers that it needs.
            (_, Some(_), None) => None,
            (_, None, None) => Some(Reply::Busy { txn, shard }),
        })
    }
}
