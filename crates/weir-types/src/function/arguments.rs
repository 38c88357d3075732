//! Reads evaluated arguments. Resolution has fixed their types, so a mismatch is a bug of the caller.

use crate::error::{SqlError, SqlState};
use crate::numeric::Numeric;
use crate::value::{Array, Interval, Json, Value};

#[cold]
fn mismatch(value: &Value, wanted: &str) -> SqlError {
    SqlError::new(
        SqlState::INTERNAL_ERROR,
        format!("a function that wants {wanted} was called with {}", crate::arrays::type_of(value)),
    )
}

macro_rules! readers {
    ($($name:ident: $variant:ident -> $ty:ty, |$found:ident| $result:expr;)*) => {
        $(pub(super) fn $name(value: &Value) -> Result<$ty, SqlError> {
            match value {
                Value::$variant($found) => Ok($result),
                _ => Err(mismatch(value, stringify!($name))),
            }
        })*
    };
}

readers! {
    boolean: Bool -> bool, |found| *found;
    int: Int -> i64, |found| *found;
    double: Float8 -> f64, |found| *found;
    real: Float4 -> f32, |found| *found;
    numeric: Numeric -> &Numeric, |found| found;
    text: Text -> &str, |found| found.as_str();
    date: Date -> i32, |found| *found;
    timestamp: Timestamp -> i64, |found| *found;
    interval: Interval -> &Interval, |found| found;
    bytea: Bytea -> &[u8], |found| found.as_slice();
    jsonb: Jsonb -> &Json, |found| found;
    array: Array -> &Array, |found| found;
}
