//! REPEATABLE READ of the schema: a read-only transaction that asks for it may read what the system catalog says, which stays as it is
//! until the transaction ends, or the transaction fails. Rows of tables are another matter, and refused.

use std::sync::{Mutex, PoisonError};

use weir_client::{Edition, Prepared};
use weir_sql::session::Isolation;
use weir_types::{SqlError, SqlState};

use crate::session::{Session, not_yet};
use crate::statement::Failure;

/// The edition that the transaction has read.
#[derive(Default)]
pub(crate) struct Still(Mutex<Option<Edition>>);

impl Session {
    pub(crate) fn is_still(&self) -> bool {
        self.values().is_isolation(Isolation::RepeatableRead.name())
    }

    /// From here on, if it is a level that is more than the usual.
    pub(crate) fn be_still(&self, level: Isolation) -> Result<(), SqlError> {
        *self.still.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let level = (level == Isolation::RepeatableRead).then(|| level.name());
        self.change(true, &|values| {
            values.set_isolation(level);
            Ok(())
        })
        .map(drop)
    }

    pub(crate) fn refuse_to_write_still(&self) -> Result<(), SqlError> {
        match self.is_still() {
            true => Err(not_yet("isolation level repeatable read of a transaction that writes")),
            false => Ok(()),
        }
    }

    /// The statement may run where the transaction is to read one state.
    pub(crate) fn keep_still(&self, prepared: &Prepared) -> Result<(), Failure> {
        if !self.is_still() {
            return Ok(());
        }
        if prepared.reads_tables() {
            let error = not_yet("rows of tables in a transaction of isolation level repeatable read");
            return Err(error.with_hint("weir dump writes them; or read committed").into());
        }
        let now = self.edition()?;
        let mut read = self.still.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*read {
            Some(before) if *before != now => {
                let message = "the schema has changed since the transaction began";
                Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Try it again.").into())
            }
            _ => {
                *read = Some(now);
                Ok(())
            }
        }
    }
}
