//! What a session says to its client beside its answers: NOTICEs, WARNINGs and their like. They are heard before the answer of the
//! statement that says them, be it an error, as far as `client_min_messages` lets them through when they are said.

use std::sync::{Mutex, PoisonError};

use weir_types::{Notice, Severity, SqlError};

use crate::session::Session;

/// What has been said and not sent.
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
