//! The few operations that are neither operators nor functions of `weir-types`.

use std::sync::Arc;

use weir_types::datetime::TransactionTime;
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::{Cast, Truth};

/// `-x`.
pub fn negate(value: Value, ty: &SqlType) -> Result<Value, SqlError> {
    match value {
        Value::Null | Value::Deferred => Ok(value),
        value => weir_types::operator::negate(&value, ty),
    }
}

pub fn cast(value: &Value, cast: &Cast) -> Result<Value, SqlError> {
    let context = match cast.explicit {
        true => weir_types::cast::CastContext::Explicit,
        false => weir_types::cast::CastContext::Assignment,
    };
    weir_types::cast::cast(value, &cast.from, &cast.to, context)
}

/// Blanks up to the width, which counts characters.
pub fn pad(value: Value, width: u32) -> Value {
    let Value::Text(text) = &value else { return value };
    let missing = (width as usize).saturating_sub(text.chars().count());
    if missing == 0 {
        return value;
    }
    Value::text(format!("{text}{:missing$}", ""))
}

/// The day of a moment, in the zone of the session.
pub fn date_of(time: TransactionTime) -> Value {
    Value::Date(time.zone.date_at(time.at))
}

/// `ARRAY[…]` of scalars; arrays inside would make it multi-dimensional.
pub fn array(element: &SqlType, values: Vec<Value>) -> Result<Value, SqlError> {
    if values.iter().any(Value::is_deferred) {
        return Ok(Value::Deferred);
    }
    if values.iter().any(|value| matches!(value, Value::Array(_))) {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "arrays of more than one dimension are not supported",
        ));
    }
    Ok(Value::array(element.clone(), values))
}

/// `a[lower:upper]`; an empty array outside of the bounds, NULL if a bound is NULL.
pub fn slice(array: &Value, lower: Option<&Value>, upper: Option<&Value>) -> Value {
    let bounds = [lower, upper];
    if array.is_deferred() || bounds.iter().flatten().any(|bound| bound.is_deferred()) {
        return Value::Deferred;
    }
    let Value::Array(array) = array else { return Value::Null };
    let bound = |bound: Option<&Value>, default: i64| match bound {
        None => Some(default),
        Some(Value::Int(bound)) => Some(*bound),
        Some(_) => None,
    };
    let length = array.values.len() as i64;
    let (Some(lower), Some(upper)) = (bound(lower, 1), bound(upper, length)) else { return Value::Null };
    let (lower, upper) = (lower.max(1), upper.min(length));
    let values =
        if lower > upper { Vec::new() } else { array.values[lower as usize - 1..upper as usize].to_vec() };
    Value::Array(Arc::new(weir_types::value::Array { element: array.element.clone(), values }))
}

/// `ROW(…) IS [NOT] NULL`: every field is (not) NULL.
pub fn record_is_null(fields: &[Value], negated: bool) -> Truth {
    if fields.iter().any(Value::is_deferred) {
        return Truth::Deferred;
    }
    Truth::from(fields.iter().all(|field| field.is_null() != negated))
}

/// `text LIKE pattern`, of operands that are there.
pub fn like(
    text: &Value,
    pattern: &Value,
    escape: Option<&Value>,
    insensitive: bool,
) -> Result<Truth, SqlError> {
    let (Value::Text(text), Value::Text(pattern)) = (text, pattern) else {
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "LIKE takes text on both sides"));
    };
    let escape = match escape {
        None => None,
        Some(Value::Text(escape)) => Some(escape.as_str()),
        Some(_) => return Ok(Truth::Unknown),
    };
    weir_types::pattern::like(text, pattern, escape, insensitive).map(Truth::from)
}
