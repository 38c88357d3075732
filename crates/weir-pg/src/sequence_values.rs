//! Sequence values of a session, for `currval('s')` and `lastval()`. They are private to the session and survive a rollback.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use weir_client::{CallResult, CurrentValue, Prepared};
use weir_types::{SqlError, SqlState, Value};

use crate::session::Session;
use crate::statement::Failure;

#[derive(Debug, Default)]
pub(crate) struct SequenceValues {
    /// By sequence.
    values: BTreeMap<String, i64>,
    /// Which has given one last.
    last: Option<String>,
}

impl SequenceValues {
    fn get(&self, asked: &CurrentValue) -> Result<i64, SqlError> {
        let value = match asked {
            CurrentValue::Of(sequence) => self.values.get(sequence),
            CurrentValue::Last => self.last.as_ref().and_then(|last| self.values.get(last)),
        };
        value.copied().ok_or_else(|| {
            let message = match asked {
                CurrentValue::Of(sequence) => {
                    let name = sequence.rsplit('.').next().unwrap_or_default();
                    format!("currval of sequence \"{name}\" is not yet defined in this session")
                }
                CurrentValue::Last => "lastval is not yet defined in this session".to_owned(),
            };
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }
}

impl Session {
    fn given_values(&self) -> MutexGuard<'_, SequenceValues> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// There is no such sequence (42P01), or it has given nothing yet (55000).
    pub(crate) fn current_value(&self, asked: &CurrentValue) -> Result<i64, Failure> {
        if let CurrentValue::Of(sequence) = asked {
            self.schema_version()?.check_sequence(sequence)?;
        }
        Ok(self.given_values().get(asked)?)
    }

    /// The values of a statement, with those that the session has been given behind them.
    pub(crate) fn with_current_values<'v>(
        &self,
        prepared: &Prepared,
        values: &'v [Value],
    ) -> Result<Cow<'v, [Value]>, Failure> {
        if prepared.current_values().is_empty() {
            return Ok(Cow::Borrowed(values));
        }
        let mut all = values.to_vec();
        for asked in prepared.current_values() {
            all.push(Value::Int(self.current_value(asked)?));
        }
        Ok(Cow::Owned(all))
    }

    pub(crate) fn note_given(&self, prepared: &Prepared, result: &CallResult) {
        if result.given.is_empty() {
            return;
        }
        let mut given = self.given_values();
        for (sequence, value) in prepared.given(result) {
            given.values.insert(sequence.to_owned(), value);
            given.last = Some(sequence.to_owned());
        }
    }

    pub(crate) fn forget_given(&self) {
        *self.given_values() = SequenceValues::default();
    }
}
