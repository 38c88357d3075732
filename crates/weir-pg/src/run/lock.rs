//! LOCK TABLE: as far as there is something that keeps others out.
//!
//! A lock of a table against writes excludes writes of all tables: it is the barrier of definitions. Reads are never excluded.

use weir_sql::session::{Lock, LockMode};
use weir_types::{SqlError, SqlState};

use crate::session::{Session, not_yet};
use crate::statement::{Done, Failure};
use crate::transaction::{TransactionState, only_in_transactions};

/// # Errors
/// There is no such table, no transaction, or no lock of that mode.
pub(crate) async fn lock_tables(session: &mut Session, lock: &Lock) -> Result<Done, Failure> {
    let TransactionState::Open { name, is_implicit: false } = session.transaction.state() else {
        return Err(only_in_transactions("LOCK TABLE").into());
    };
    let schema_version = session.current_schema_version().await?;
    if let Some(missing) = lock.tables.iter().find(|name| !schema_version.has_relation(name)) {
        let message = format!("relation \"{missing}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).into());
    }
    if session.settings.is_repeatable_read() && lock.mode == LockMode::AccessShare {
        // The schema stays, or the transaction fails.
        return Ok(Done::tag("LOCK TABLE"));
    }
    let refused = |what: &str, hint: &str| Err(not_yet(what).with_hint(hint).into());
    match lock.mode {
        LockMode::AccessExclusive => refused(
            "LOCK TABLE IN ACCESS EXCLUSIVE MODE, which is meant where no mode is written",
            "Who reads waits for nobody. IN EXCLUSIVE MODE keeps out everybody else who writes.",
        ),
        LockMode::AccessShare | LockMode::Rows => refused(
            "LOCK TABLE in a mode in which others may write",
            "Leave it away, or lock rows with SELECT … FOR UPDATE.",
        ),
        LockMode::Exclusive if lock.nowait => {
            refused("LOCK TABLE … NOWAIT", "Leave NOWAIT away, and SET LOCAL lock_timeout.")
        }
        LockMode::Exclusive => {
            let limit = session.settings.in_effect().lock_timeout;
            session.limit_waits(name, limit).await?;
            session.wait_for(|client| client.begin_definition(name, &schema_version.held())).await?;
            Ok(Done::tag("LOCK TABLE"))
        }
    }
}
