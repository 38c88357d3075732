//! Values of the settings that every statement asks for, computed when a setting changes: names are looked up then, and not for each
//! statement.

use std::time::Duration;

use weir_sql::session::Isolation;
use weir_types::datetime::style::IntervalStyle;

use super::Values;

/// Invariant: always those of the session's [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InEffect {
    pub statement_timeout: Option<Duration>,
    pub lock_timeout: Option<Duration>,
    pub idle_in_transaction_session_timeout: Option<Duration>,
    /// `log_min_duration_statement`; none: the session has not set it. `Some(None)`: no statement is logged.
    pub log_slow: Option<Option<Duration>>,
    pub interval_style: IntervalStyle,
    pub is_read_only: bool,
    /// The isolation level is repeatable read, for reading alone: such a transaction reads a snapshot.
    pub is_repeatable_read: bool,
    /// The transaction locks what it reads; so does one that writes at repeatable read.
    pub is_serializable: bool,
}

impl InEffect {
    pub fn of(values: &Values) -> InEffect {
        let is_read_only = values.is_on("transaction_read_only");
        let is_repeatable_read = values.is_isolation(Isolation::RepeatableRead);
        InEffect {
            statement_timeout: values.time("statement_timeout"),
            lock_timeout: values.time("lock_timeout"),
            idle_in_transaction_session_timeout: values.time("idle_in_transaction_session_timeout"),
            log_slow: values.log_slow(),
            interval_style: values.interval_style(),
            is_read_only,
            is_repeatable_read: is_repeatable_read && is_read_only,
            is_serializable: values.is_isolation(Isolation::Serializable)
                || is_repeatable_read && !is_read_only,
        }
    }
}
