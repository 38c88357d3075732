//! Isolation levels of a session's transactions. SERIALIZABLE, and REPEATABLE READ of a transaction that may write, lock what they read
//! (docs/internals/serializable.md); REPEATABLE READ, READ ONLY reads a snapshot ([`super::snapshots`]).

use weir_sql::session::Isolation;
use weir_types::{SqlError, SqlState};

use crate::session::{Session, sql_error};
use crate::settings::Values;
use crate::statement::{Failure, Kind};

/// `how`: called or set.
pub(crate) fn before_any_query(what: &str, how: &str) -> SqlError {
    SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, format!("{what} must be {how} before any query"))
}

/// Sets the level of the open transaction, until its end.
pub(crate) fn set_isolation(session: &mut Session, level: Isolation) -> Result<(), SqlError> {
    if !session.settings.values().is_isolation(level) && session.transaction.has_run() {
        return Err(before_any_query("SET TRANSACTION ISOLATION LEVEL", "called"));
    }
    let set = |values: &mut Values| {
        values.set_isolation(level);
        Ok(())
    };
    session.settings.change(!session.transaction.is_none(), true, &set).map(drop)
}

impl Session {
    /// Makes the transaction serializable before its first statement, if it is to be. A statement by itself becomes a transaction.
    pub(super) async fn begin_isolated(&mut self, kind: &Kind) -> Result<(), Failure> {
        if !self.settings.in_effect().is_serializable || self.transaction.has_run() {
            return Ok(());
        }
        let name = match (self.transaction.open_name(), kind) {
            (Some(name), _) => name,
            (
                None,
                Kind::Run(..)
                | Kind::Execute(..)
                | Kind::Copy(..)
                | Kind::Script(_)
                | Kind::CreateAs(..)
                | Kind::Command(_),
            ) => self.begin_together(),
            // Definitions, and what reads nothing.
            (None, _) => return Ok(()),
        };
        self.transaction.become_serializable(name);
        self.transaction.note_asked();
        self.client.begin_serializable(name).await.map(drop).map_err(sql_error)
    }
}
