//! The settings of one session, and for how long each is what it was set to: for the session, or until the end of the transaction, with
//! which SET is rolled back.

use std::sync::Arc;

use weir_types::datetime::SessionZone;
use weir_types::{SqlError, SqlState};

use super::{Changed, InEffect, Values};
use crate::backend::Backend;
use crate::evaluation::Evaluation;

/// State of settings for a transaction that has changed one.
#[derive(Clone, Debug)]
struct Scope {
    /// As settings are after a roll-back.
    before: Values,
    /// As they are after a commit: without what is LOCAL.
    after: Values,
}

/// Settings as they are at a savepoint.
#[derive(Clone)]
pub(crate) struct Saved {
    values: Values,
    scope: Option<Scope>,
}

pub(crate) struct SessionSettings {
    /// Changed by `replace` alone.
    values: Values,
    /// Always that of `values`.
    in_effect: InEffect,
    /// Of the open transaction, once it has changed a setting; none outside of one.
    scope: Option<Scope>,
    /// Always that of `values`.
    evaluation: Arc<Evaluation>,
    /// Told of `application_name`.
    backend: Arc<Backend>,
}

type Change<'a> = dyn Fn(&mut Values) -> Result<(), SqlError> + 'a;

impl SessionSettings {
    pub fn new(backend: Arc<Backend>) -> SessionSettings {
        let values = Values::default();
        SessionSettings {
            in_effect: InEffect::of(&values),
            values,
            scope: None,
            evaluation: Arc::default(),
            backend,
        }
    }

    /// The values that every statement asks for.
    pub fn in_effect(&self) -> &InEffect {
        &self.in_effect
    }

    pub fn values(&self) -> &Values {
        &self.values
    }

    pub fn zone(&self) -> SessionZone {
        self.evaluation.zone.get()
    }

    /// Time zone and working memory of the session, which whoever polls its work enters.
    pub fn evaluation(&self) -> &Arc<Evaluation> {
        &self.evaluation
    }

    /// Gives what clients are told of the change.
    fn replace(&mut self, values: Values) -> Changed {
        let told = values.told_anew(&self.values);
        self.evaluation.set(values.zone(), values.working_memory());
        self.in_effect = InEffect::of(&values);
        let before = std::mem::replace(&mut self.values, values);
        if before.application() != self.values.application() {
            self.backend.activity.set_application(self.values.application());
        }
        told
    }

    /// As the startup packet has them.
    pub fn start(&mut self, values: Values) {
        self.replace(values);
    }

    /// Changes settings; gives what clients are told of it. `is_open`: a transaction is, with which they are rolled back.
    pub fn change(
        &mut self,
        is_open: bool,
        is_local: bool,
        change: &Change<'_>,
    ) -> Result<Changed, SqlError> {
        let mut changed = self.values.clone();
        change(&mut changed)?;
        if is_open {
            let values = &self.values;
            let scope =
                self.scope.get_or_insert_with(|| Scope { before: values.clone(), after: values.clone() });
            if !is_local {
                change(&mut scope.after)?;
            }
        } else if is_local {
            // It is of the transaction, which is over with this statement.
            return Ok(Changed::new());
        }
        Ok(self.replace(changed))
    }

    /// The transaction is over: what was LOCAL is as before, and everything if it was rolled back.
    pub fn end_transaction(&mut self, has_committed: bool) -> Changed {
        match self.scope.take() {
            Some(scope) => self.replace(if has_committed { scope.after } else { scope.before }),
            None => Changed::new(),
        }
    }

    pub fn saved(&self) -> Saved {
        Saved { values: self.values.clone(), scope: self.scope.clone() }
    }

    /// As they were at a savepoint.
    pub fn restore(&mut self, Saved { values, scope }: Saved) -> Changed {
        let open = self.scope.take();
        // A scope that had set nothing then must still know the values before it.
        self.scope =
            scope.or_else(|| open.map(|Scope { before, .. }| Scope { after: before.clone(), before }));
        self.replace(values)
    }

    /// Whether the transaction is read-only, and must not become anything else.
    ///
    /// # Errors
    /// The statement writes.
    pub fn refuse_write(&self, what: &str) -> Result<(), SqlError> {
        if !self.in_effect.is_read_only {
            return Ok(());
        }
        let message = format!("cannot execute {what} in a read-only transaction");
        Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
    }

    pub fn is_repeatable_read(&self) -> bool {
        self.in_effect.is_repeatable_read
    }
}
