//! A transaction of one statement: a call that may derive writes for other shards. It commits as soon as its statement has succeeded, and
//! the client hears of nothing before.

use weir_core::ids::{ShardId, TxnId};
use weir_types::SqlError;

use super::{Action, Interactive, Links, Phase, is_ending};
use crate::message::{Begun, Call};

#[derive(Debug)]
pub(crate) struct Alone {
    /// Deferred checks, run before COMMIT.
    pub look: Option<Call>,
    /// After a deadlock, or if a shard has forgotten it, it begins again instead of failing.
    pub may_begin_again: bool,
    /// Its shards may prepare with the last round of derived writes, where they withdraw instead of waiting.
    pub binds_with_last_round: bool,
}

impl Interactive {
    /// Begins a transaction of that statement. `participants` and `owner` as in [`Interactive::statement_by_key`].
    pub(crate) fn begin_alone(
        (txn, begun, links): (TxnId, Begun, Links),
        (call, participants, owner): (Call, Vec<ShardId>, Option<ShardId>),
        alone: Alone,
        out: &mut Vec<Action>,
    ) -> Interactive {
        let mut begun = Interactive::begin(txn, begun, links);
        (begun.is_ended, begun.alone) = (true, Some(alone));
        begun.statement_by_key(call, participants, owner, out);
        begun
    }

    /// Returns whether the client still waits for its answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        !is_ending(&self.phase)
    }

    /// Cancels it, unless its deciding shard has been asked to commit: the answer of that shard tells the client what has happened.
    pub(crate) fn cancel(&mut self, error: SqlError, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Finishing { .. } | Phase::Ending(_)) {
            self.fail(error, out);
        }
    }

    pub(super) fn may_begin_again(&self) -> bool {
        self.alone.as_ref().is_some_and(|alone| alone.may_begin_again)
    }

    /// Ends this attempt, of which the client hears nothing.
    pub(super) fn begin_again(&mut self, out: &mut Vec<Action>) {
        out.push(Action::Retry);
        self.abort(out);
    }
}
