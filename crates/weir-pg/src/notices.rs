//! Notices of a session: NOTICE, WARNING and the like. They are sent before the answer, or error, of the statement that raises them,
//! filtered by the value of `client_min_messages` at that time.

use weir_types::{Notice, Severity, SqlError};

use crate::settings::Values;

/// Notices that have been raised and not sent.
#[derive(Debug, Default)]
pub(crate) struct PendingNotices(Vec<Notice>);

impl PendingNotices {
    pub fn mention(&mut self, values: &Values, severity: Severity, said: SqlError) {
        self.mention_all(values, vec![Notice { severity, said }]);
    }

    pub fn mention_all(&mut self, values: &Values, notices: Vec<Notice>) {
        self.0.extend(notices.into_iter().filter(|notice| values.lets_through(notice.severity)));
    }

    pub fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.0)
    }
}
