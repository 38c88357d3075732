//! What the engine does with a transaction: one judgement, which `weir analyze`, runs, servers and EXPLAIN ask
//! (docs/internals/admission.md).
//!
//! It follows from the plan and from the shards that a call needs. Never looks at data and never runs anything.

use weir_analysis::plan::TransactionPlan;
use weir_types::{SqlError, SqlState};

use super::program::Participants;

/// What the engine does with the calls of one transaction. A refused call has done nothing.
#[derive(Clone, Debug)]
pub enum Admission {
    Runs,
    /// Calls whose rows are on one shard run; any other is refused with this error.
    OnOneShard(SqlError),
    Refused(SqlError),
}

impl Admission {
    /// `plan`: of the transaction; none for what is judged otherwise.
    pub(super) fn of(
        name: &str,
        plan: Option<&TransactionPlan>,
        participants: &Participants,
        shards: u16,
    ) -> Admission {
        if let Some(plan) = plan.filter(|plan| plan.mechanism.is_ordered_family())
            && !participants.is_one_shard(shards)
        {
            return Admission::Refused(needs_order(name, plan, shards));
        }
        match &participants.unsupported {
            Some(why) if shards > 1 => Admission::OnOneShard(spans_shards(name, why)),
            _ => Admission::Runs,
        }
    }

    /// # Errors
    /// Why a call that needs so many shards is refused.
    pub fn check(&self, participants: usize) -> Result<(), SqlError> {
        match self {
            Admission::Refused(error) => Err(error.clone()),
            Admission::OnOneShard(error) if participants > 1 => Err(error.clone()),
            Admission::Runs | Admission::OnOneShard(_) => Ok(()),
        }
    }

    /// Why every call is refused.
    pub fn refused(&self) -> Option<&SqlError> {
        match self {
            Admission::Refused(error) => Some(error),
            Admission::Runs | Admission::OnOneShard(_) => None,
        }
    }
}

fn needs_order(name: &str, plan: &TransactionPlan, shards: u16) -> SqlError {
    let mechanism = plan.mechanism.name();
    let message = format!(
        "not supported: {name} on {shards} shards: its plan is `{mechanism}`, and order among transactions on several shards is not \
         built: {}",
        plan.why
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
        "Run it on one shard (--shards 1), or keep all rows of a call together (COMMENT ON TABLE … IS 'weir: partition by (…)'), or \
         change what `weir analyze` says needs order.",
    )
}

fn spans_shards(name: &str, why: &str) -> SqlError {
    let message = format!("{name} cannot run on several shards: {why}");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
        "Place the rows that it needs together (COMMENT ON TABLE … IS 'weir: partition by (…)') or run on one shard; or read them in a \
         transaction, FOR UPDATE, and write rows by their keys.",
    )
}

/// An open transaction commits later than it reads, so nothing that it has tested is certain to hold then.
pub(super) fn in_a_transaction(name: &str) -> SqlError {
    let message = format!(
        "not supported: {name} in a transaction of several statements: it runs in order with others, and so by itself"
    );
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint("CALL it outside of BEGIN … COMMIT.")
}
