//! Sequence values of a session, for `currval('s')` and `lastval()`. They are private to the session and survive a rollback.

use std::collections::BTreeMap;

use weir_client::{CallResult, CurrentValue, Prepared};
use weir_types::{SqlError, SqlState};

#[derive(Debug, Default)]
pub(crate) struct SequenceValues {
    /// By sequence.
    values: BTreeMap<String, i64>,
    /// Which has given one last.
    last: Option<String>,
}

impl SequenceValues {
    pub fn get(&self, asked: &CurrentValue) -> Result<i64, SqlError> {
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

    /// Records the sequence values that a statement was given.
    pub fn note(&mut self, prepared: &Prepared, result: &CallResult) {
        if result.given.is_empty() {
            return;
        }
        for (sequence, value) in prepared.given(result) {
            self.values.insert(sequence.to_owned(), value);
            self.last = Some(sequence.to_owned());
        }
    }

    pub fn clear(&mut self) {
        *self = SequenceValues::default();
    }
}
