//! Attempts of an INSERT … ON CONFLICT at global keys (docs/internals/global-keys.md): it is run where its row would live, and begins again
//! elsewhere if another shard has a row with the same key.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;

use super::{Call, Callee};

/// How such a statement is run again. The order is that of urgency: of several reports the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Attempt {
    /// At the shard where a row was seen that has a key of the proposed row. It inserts nothing there.
    AtConflict(ShardId),
    /// As at first: the row that was seen has gone.
    AtHome,
    /// As at first, when the owners have found no row with its keys: an error of the insertion stands.
    Unopposed,
}

impl Attempt {
    /// The shards that run the statement: those of the first attempt, or the one where the row was seen.
    pub(crate) fn participants(self, first: &Arc<[ShardId]>) -> Arc<[ShardId]> {
        match self {
            Attempt::AtConflict(shard) => [shard].into(),
            Attempt::AtHome | Attempt::Unopposed => first.clone(),
        }
    }

    /// The call of this attempt.
    pub(crate) fn call(self, first: &Arc<Call>) -> Arc<Call> {
        let of = |callee: &Callee| Callee::Attempt(Arc::new(callee.clone()), self);
        let callee = match (&first.callee, self) {
            (_, Attempt::AtHome) => return first.clone(),
            (Callee::Serializable(callee), _) => Callee::Serializable(Arc::new(of(callee))),
            (callee, _) => of(callee),
        };
        Arc::new(Call { callee, ..(**first).clone() })
    }
}
