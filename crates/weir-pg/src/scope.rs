//! For how long a setting is what it was set to: for the session, or until the end of the transaction, with which SET is rolled back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_types::{Severity, SqlError, SqlState};

use crate::session::{Session, Transaction, only_in_transactions};
use crate::settings::Values;
use crate::statement::Done;

/// State of settings for a transaction that has changed one.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// As settings are after a roll-back.
    before: Values,
    /// As they are after a commit: without what is LOCAL.
    after: Values,
}

#[derive(Debug, Default)]
pub(crate) struct OpenScope(Mutex<Option<Scope>>);

impl OpenScope {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Scope>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Change<'a> = dyn Fn(&mut Values) -> Result<(), SqlError> + 'a;

impl Session {
    /// Changes settings; gives what clients are told of it.
    pub(crate) fn change(
        &self,
        is_local: bool,
        change: &Change<'_>,
    ) -> Result<Vec<(&'static str, String)>, SqlError> {
        let is_open = *self.transaction() != Transaction::None;
        let mut values = self.values();
        let mut changed = values.clone();
        change(&mut changed)?;
        if is_open {
            let mut scope = self.scope.lock();
            let scope = scope.get_or_insert_with(|| Scope { before: values.clone(), after: values.clone() });
            if !is_local {
                change(&mut scope.after)?;
            }
        } else if is_local {
            // It is of the transaction, which is over with this statement.
            return Ok(Vec::new());
        }
        let told = changed.told_anew(&values);
        self.follow_zone(&changed);
        *values = changed;
        Ok(told)
    }

    /// SET and RESET of one setting.
    pub(crate) fn set(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<Done, SqlError> {
        let is_of_transaction = name.eq_ignore_ascii_case("transaction_read_only");
        let is_alone = *self.transaction() == Transaction::None;
        let changed = self.change(is_local || is_of_transaction, &|values| values.set(name, value))?;
        if is_local && is_alone {
            self.mention(Severity::Warning, only_in_transactions("SET LOCAL"));
        }
        Ok(Done { changed, ..Done::tag(if value.is_some() { "SET" } else { "RESET" }) })
    }

    /// The transaction is over: what was LOCAL is as before, and everything if it was rolled back.
    pub(crate) fn end_scope(&self, has_committed: bool) -> Vec<(&'static str, String)> {
        self.catalog_snapshot.let_go();
        let Some(scope) = self.scope.lock().take() else { return Vec::new() };
        let mut values = self.values();
        let ended = std::mem::replace(&mut *values, if has_committed { scope.after } else { scope.before });
        self.follow_zone(&values);
        values.told_anew(&ended)
    }

    /// As settings are at a savepoint.
    pub(crate) fn settings_now(&self) -> (Values, Option<Scope>) {
        (self.values().clone(), self.scope.lock().clone())
    }

    /// As they were there.
    pub(crate) fn settings_again(
        &self,
        (values, scope): (Values, Option<Scope>),
    ) -> Vec<(&'static str, String)> {
        let mut now = self.values();
        let told = values.told_anew(&now);
        self.follow_zone(&values);
        *now = values;
        let mut open = self.scope.lock();
        // What had set nothing then must still know what was before.
        *open =
            scope.or_else(|| open.take().map(|Scope { before, .. }| Scope { after: before.clone(), before }));
        told
    }

    /// Whether the transaction is read-only, and must not become anything else.
    ///
    /// # Errors
    /// The statement writes.
    pub(crate) fn refuse_write(&self, what: &str) -> Result<(), SqlError> {
        if !self.values().is_on("transaction_read_only") {
            return Ok(());
        }
        let message = format!("cannot execute {what} in a read-only transaction");
        Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
    }
}
