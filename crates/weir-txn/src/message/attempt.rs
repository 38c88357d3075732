//! Attempts of a statement at global keys (docs/internals/global-keys.md). An INSERT … ON CONFLICT is run where its row would live, and begins
//! again elsewhere if another shard has a row with the same key; a statement that names its row by such a key is run where the row is.

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
    /// An UPDATE, DELETE or SELECT … FOR UPDATE that names its row by a global key: at the key's owner, or where the owner has said that the
    /// row is. It does nothing there if the row is elsewhere.
    ByKey(ShardId),
    /// An INSERT of one row, at its home and at the owners of its global keys, which add their entries at the same time.
    WithKeys,
}

/// Limit on the attempts of a statement that looks for its row by a key: the row has moved, or another one has got its key, before each. Then
/// all shards are asked.
pub(crate) const BY_KEY_MAX: u32 = 64;

impl Attempt {
    /// The shards that run the statement: those of the first attempt, or the one where the row was seen.
    pub(crate) fn participants(self, first: &Arc<[ShardId]>) -> Arc<[ShardId]> {
        match self {
            Attempt::AtConflict(shard) | Attempt::ByKey(shard) => [shard].into(),
            Attempt::AtHome | Attempt::Unopposed | Attempt::WithKeys => first.clone(),
        }
    }

    pub(crate) fn is_with_keys(self) -> bool {
        self == Attempt::WithKeys
    }

    /// The call of this attempt.
    pub(crate) fn call(self, first: &Arc<Call>) -> Arc<Call> {
        match self {
            Attempt::AtHome => first.clone(),
            _ => Arc::new(self.sent((**first).clone())),
        }
    }

    /// The call, marked as of this attempt.
    pub(crate) fn sent(self, first: Call) -> Call {
        let of = |callee: Callee| Callee::Attempt(Arc::new(callee), self);
        let callee = match first.callee {
            Callee::Serializable(callee) => Callee::Serializable(Arc::new(of((*callee).clone()))),
            callee => of(callee),
        };
        Call { callee, ..first }
    }
}
