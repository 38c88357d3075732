//! Notices of a session: NOTICE, WARNING and the like. They are sent before the answer, or error, of the statement that raises them,
//! filtered by the value of `client_min_messages` at that time.

use std::sync::{Mutex, PoisonError};

use weir_types::{Notice, Severity, SqlError};

use crate::session::Session;

/// Notices that have been raised and not sent.
#[derive(Debug, Default)]
pub(crate) struct PendingNotices(Mutex<Vec<Notice>>);

impl Session {
    pub(crate) fn mention(&self, severity: Severity, said: SqlError) {
        self.mention_all(vec![Notice { severity, said }]);
    }

    pub(crate) fn mention_all(&self, mut notices: Vec<Notice>) {
        if notices.is_empty() {
            return;
        }
        {
            let values = self.values();
            notices.retain(|notice| values.lets_through(notice.severity));
        }
        self.notices.0.lock().unwrap_or_else(PoisonError::into_inner).append(&mut notices);
    }

    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.notices.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
