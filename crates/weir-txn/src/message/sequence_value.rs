//! Values that sequences hand out to calls, as they travel.

use weir_sql::catalog::SequenceId;
use weir_types::Value;

/// The last value that a sequence handed out to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceValue {
    pub sequence: SequenceId,
    pub value: i64,
    /// Position in its text of the statement that took the value.
    pub(crate) place: u32,
}

impl SequenceValue {
    const WIDTH: usize = 3;

    /// Encodes the values as one record. None: there are no values.
    pub(crate) fn record(all: &[SequenceValue]) -> Option<Value> {
        let values = |one: &SequenceValue| {
            [i64::from(one.place), i64::from(one.sequence.0), one.value].map(Value::Int)
        };
        (!all.is_empty()).then(|| Value::record(all.iter().flat_map(values).collect()))
    }

    pub(crate) fn of_record(value: &Value) -> Option<Vec<SequenceValue>> {
        let Value::Record(values) = value else { return None };
        let one = |values: &[Value]| match *values {
            [Value::Int(place), Value::Int(sequence), Value::Int(value)] => {
                let sequence = SequenceId(u32::try_from(sequence).ok()?);
                Some(SequenceValue { sequence, value, place: u32::try_from(place).ok()? })
            }
            _ => None,
        };
        values.chunks(SequenceValue::WIDTH).map(one).collect()
    }

    /// Merges the values of several shards, in the order of the statements that took them.
    pub(crate) fn joined(parts: impl Iterator<Item = Vec<SequenceValue>>) -> Vec<SequenceValue> {
        let mut all: Vec<SequenceValue> = Vec::new();
        for one in parts.flatten() {
            match all.iter_mut().find(|other| other.sequence == one.sequence) {
                Some(other) if other.place <= one.place => *other = one,
                Some(_) => {}
                None => all.push(one),
            }
        }
        all.sort_by_key(|one| one.place);
        all
    }
}
