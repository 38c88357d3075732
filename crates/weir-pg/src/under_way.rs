//! What the cluster does for a session at the moment, and how that is cancelled.

use std::sync::{Mutex, PoisonError};

use weir_client::{CallResult, Pending};
use weir_types::{SqlError, SqlState};

use crate::session::{Session, sql_error};
use crate::statement::Failure;

/// Its name at the client, while there is something.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<Option<u64>>);

impl UnderWay {
    fn set(&self, tag: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = tag;
    }

    fn tag(&self) -> Option<u64> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Ends the statement that is under way with 57014, if one is and it can still be kept from happening: what waits for a lock or
    /// for the network can, a commit cannot. Whoever runs it is told. May be called at any time, from anywhere.
    #[allow(dead_code, reason = "CancelRequest, which is not answered yet, is what calls it")]
    pub fn cancel(&self) {
        if let Some(tag) = self.under_way.tag() {
            let message = "canceling statement due to user request";
            self.client.cancel(tag, SqlError::new(SqlState::QUERY_CANCELED, message));
        }
    }

    /// Everything that the session asks of the cluster goes through here, so that it can be cancelled.
    pub(crate) async fn wait_for(&self, pending: Pending<CallResult>) -> Result<CallResult, Failure> {
        self.under_way.set(Some(pending.tag()));
        let result = pending.await;
        self.under_way.set(None);
        result.map_err(sql_error)
    }
}
