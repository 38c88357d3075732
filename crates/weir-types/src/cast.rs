//! Casts: which exist in which context, and what they do.

use std::sync::Arc;

use arcstr::ArcStr;

use crate::datetime::{self, SessionZone};
use crate::error::{SqlError, SqlState};
use crate::numeric::Numeric;
use crate::sql_type::SqlType;
use crate::text::{parse_text, to_text};
use crate::value::{Array, Json, Value};

/// Context of a cast; each context allows everything that the previous one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// An operand or argument.
    Implicit,
    /// A value that is stored in a column or variable.
    Assignment,
    /// `CAST` or `::`.
    Explicit,
}

/// The weakest context in which the cast exists.
fn needed(from: &SqlType, to: &SqlType) -> Option<CastContext> {
    use CastContext::*;
    use SqlType::*;
    let number_rank = |ty: &SqlType| match ty {
        Int2 => 1,
        Int4 => 2,
        Int8 => 3,
        Numeric(_) => 4,
        Float4 => 5,
        _ => 6,
    };
    Some(match (from, to) {
        (Unknown, _) => Implicit,
        (_, Void) | (Void, _) => return None,
        (Opaque(_), _) | (_, Opaque(_)) => Implicit,
        (Text | Varchar(_) | Char(_), Text | Varchar(_) | Char(_)) => Implicit,
        (Array(from), Array(to)) => needed(from, to)?,
        _ if from.base() == to.base() => Implicit,
        _ if from.is_number() && to.is_number() => {
            if number_rank(from) < number_rank(to) {
                Implicit
            } else {
                Assignment
            }
        }
        (Int4, Bool) | (Bool, Int4) => Explicit,
        (Date, Timestamp | Timestamptz) | (Timestamp, Timestamptz) => Implicit,
        (Timestamptz, Timestamp | Date) | (Timestamp, Date) => Assignment,
        (Jsonb, Bool) => Explicit,
        (Jsonb, to) if to.is_number() => Explicit,
        (_, Text | Varchar(_) | Char(_)) => Assignment,
        (Text | Varchar(_) | Char(_), _) => Explicit,
        _ => return None,
    })
}

pub fn can_cast(from: &SqlType, to: &SqlType, context: CastContext) -> bool {
    needed(from, to).is_some_and(|needed| needed <= context)
}

/// Whether every value of `from` is already the same value of `to`, so that no cast need run.
pub fn is_identity(from: &SqlType, to: &SqlType) -> bool {
    use SqlType::*;
    match (from, to) {
        _ if from == to => true,
        (Int2, Int4 | Int8) | (Int4, Int8) => true,
        (Varchar(_) | Char(_) | Text, Text | Varchar(None)) => true,
        (Numeric(_), Numeric(None)) => true,
        _ => false,
    }
}

/// 42846.
pub fn cannot_cast(from: &SqlType, to: &SqlType) -> SqlError {
    SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {} to {}", from.name(), to.name()))
}

#[cold]
pub(crate) fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range"))
}

#[cold]
pub(crate) fn float_overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

#[cold]
pub(crate) fn float_underflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

/// Checks that an integer is in its type's range.
#[inline]
pub(crate) fn fit_integer(value: i64, ty: &SqlType) -> Result<Value, SqlError> {
    let fits = match ty {
        SqlType::Int2 => i16::try_from(value).is_ok(),
        SqlType::Int4 => i32::try_from(value).is_ok(),
        _ => true,
    };
    if fits { Ok(Value::Int(value)) } else { Err(out_of_range(&ty.to_string())) }
}

/// Converts a value. NULL and Deferred stay what they are. `from` may be Unknown for a literal's text.
/// In the explicit context too long strings are truncated, otherwise they are errors (22001).
pub fn cast(value: &Value, from: &SqlType, to: &SqlType, context: CastContext) -> Result<Value, SqlError> {
    let explicit = context == CastContext::Explicit;
    match value {
        Value::Null | Value::Deferred => return Ok(value.clone()),
        _ if is_identity(from, to) => return Ok(value.clone()),
        Value::Text(text) => {
            return match to {
                SqlType::Text | SqlType::Unknown | SqlType::Varchar(_) | SqlType::Char(_) => {
                    fit_string(text.clone(), to, explicit)
                }
                SqlType::Array(element) if explicit => cast_text_to_array(text, element),
                _ => parse_text(text, to),
            };
        }
        _ => {}
    }
    match to {
        SqlType::Text | SqlType::Unknown | SqlType::Varchar(_) | SqlType::Char(_) => {
            let text = match value {
                Value::Bool(bool) => ArcStr::from(if *bool { "true" } else { "false" }),
                _ => ArcStr::from(to_text(value, from)),
            };
            fit_string(text, to, explicit)
        }
        SqlType::Array(element) => match (value, from) {
            (Value::Array(array), SqlType::Array(from_element)) => {
                let values = array
                    .values
                    .iter()
                    .map(|value| cast(value, from_element, element, context))
                    .collect::<Result<_, _>>()?;
                Ok(Value::Array(Arc::new(Array { element: (**element).clone(), values })))
            }
            _ => Err(cannot_cast(from, to)),
        },
        _ => cast_scalar(value, from, to),
    }
}

fn cast_text_to_array(text: &str, element: &SqlType) -> Result<Value, SqlError> {
    match element {
        SqlType::Varchar(Some(_)) | SqlType::Char(_) => {
            let array = crate::arrays::parse(text, &SqlType::Text)?;
            let to = SqlType::array_of(element.clone());
            let from = SqlType::array_of(SqlType::Text);
            cast(&Value::Array(Arc::new(array)), &from, &to, CastContext::Explicit)
        }
        _ => Ok(Value::Array(Arc::new(crate::arrays::parse(text, element)?))),
    }
}

fn cast_scalar(value: &Value, from: &SqlType, to: &SqlType) -> Result<Value, SqlError> {
    match (value, to) {
        (Value::Int(int), SqlType::Int2 | SqlType::Int4 | SqlType::Int8) => fit_integer(*int, to),
        (Value::Int(int), SqlType::Numeric(modifier)) => fit_numeric(Numeric::from_i64(*int), *modifier),
        (Value::Int(int), SqlType::Float8) => Ok(Value::Float8(*int as f64)),
        (Value::Int(int), SqlType::Float4) => Ok(Value::Float4(*int as f32)),
        (Value::Int(int), SqlType::Bool) => Ok(Value::Bool(*int != 0)),
        (Value::Bool(bool), SqlType::Int4) => Ok(Value::Int(i64::from(*bool))),
        (Value::Numeric(numeric), _) => cast_numeric(numeric, from, to),
        (Value::Float8(float), _) => cast_float(*float, false, from, to),
        (Value::Float4(float), _) => cast_float(f64::from(*float), true, from, to),
        (Value::Date(days), SqlType::Timestamp) => {
            Ok(Value::Timestamp(datetime::timestamp_from_date(*days)?))
        }
        (Value::Date(days), SqlType::Timestamptz) => {
            let local = datetime::timestamp_from_date(*days)?;
            SessionZone::current().instant_of(local).map(Value::Timestamp)
        }
        (Value::Timestamp(instant), SqlType::Date) if *from == SqlType::Timestamptz => {
            Ok(Value::Date(SessionZone::current().date_at(*instant)))
        }
        (Value::Timestamp(timestamp), SqlType::Date) => {
            Ok(Value::Date(datetime::date_from_timestamp(*timestamp)))
        }
        (Value::Timestamp(instant), SqlType::Timestamp) if *from == SqlType::Timestamptz => {
            SessionZone::current().local_of(*instant).map(Value::Timestamp)
        }
        (Value::Timestamp(local), SqlType::Timestamptz) if *from == SqlType::Timestamp => {
            SessionZone::current().instant_of(*local).map(Value::Timestamp)
        }
        (Value::Jsonb(json), _) if to.is_number() || *to == SqlType::Bool => cast_json(json, to),
        _ if from.base() == to.base() => Ok(value.clone()),
        _ => Err(cannot_cast(from, to)),
    }
}

fn fit_numeric(numeric: Numeric, modifier: Option<(u16, i16)>) -> Result<Value, SqlError> {
    Ok(Value::Numeric(match modifier {
        Some((precision, scale)) => numeric.apply_modifier(precision, scale)?,
        None => numeric,
    }))
}

fn cast_numeric(numeric: &Numeric, from: &SqlType, to: &SqlType) -> Result<Value, SqlError> {
    match to {
        SqlType::Numeric(modifier) => fit_numeric(numeric.clone(), *modifier),
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => match numeric.to_i64() {
            Some(int) => fit_integer(int, to),
            None if numeric.is_finite() => Err(out_of_range(&to.to_string())),
            None => {
                let what = if numeric.is_nan() { "NaN" } else { "infinity" };
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {to}")))
            }
        },
        SqlType::Float8 => {
            let float = numeric.to_f64();
            if float.is_infinite() && numeric.is_finite() {
                return Err(SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("\"{numeric}\" is out of range for type double precision"),
                ));
            }
            Ok(Value::Float8(float))
        }
        SqlType::Float4 => {
            let float: f32 = numeric.to_string().parse().unwrap_or(f32::NAN);
            if float.is_infinite() && numeric.is_finite() {
                return Err(SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("\"{numeric}\" is out of range for type real"),
                ));
            }
            Ok(Value::Float4(float))
        }
        _ => Err(cannot_cast(from, to)),
    }
}

/// Floats round to the even integer at halves, unlike numerics.
fn cast_float(float: f64, single: bool, from: &SqlType, to: &SqlType) -> Result<Value, SqlError> {
    match to {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => {
            let rounded = float.round_ties_even();
            // Both bounds are exact doubles; the upper one is already too large.
            if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                return Err(out_of_range(&to.to_string()));
            }
            fit_integer(rounded as i64, to)
        }
        SqlType::Float8 => Ok(Value::Float8(float)),
        SqlType::Float4 => {
            let narrow = float as f32;
            if narrow.is_infinite() && float.is_finite() {
                return Err(float_overflow());
            }
            if narrow == 0.0 && float != 0.0 {
                return Err(float_underflow());
            }
            Ok(Value::Float4(narrow))
        }
        SqlType::Numeric(modifier) => {
            let numeric = if single { Numeric::from_f32(float as f32) } else { Numeric::from_f64(float) };
            fit_numeric(numeric, *modifier)
        }
        _ => Err(cannot_cast(from, to)),
    }
}

fn cast_json(json: &Json, to: &SqlType) -> Result<Value, SqlError> {
    match (json, to) {
        (Json::Bool(bool), SqlType::Bool) => Ok(Value::Bool(*bool)),
        (Json::Number(number), to) if to.is_number() => cast_numeric(number, &SqlType::Numeric(None), to),
        _ => {
            let kind = match json {
                Json::Null => "null",
                Json::Bool(_) => "boolean",
                Json::Number(_) => "numeric",
                Json::String(_) => "string",
                Json::Array(_) => "array",
                Json::Object(_) => "object",
            };
            Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("cannot cast jsonb {kind} to type {}", to.name()),
            ))
        }
    }
}

/// Fits a string to `varchar(n)` or `char(n)`: too long is 22001, unless only spaces are too many or
/// `truncate` is given. `char(n)` loses its trailing spaces.
pub fn fit_string(text: ArcStr, ty: &SqlType, truncate: bool) -> Result<Value, SqlError> {
    let (limit, strip) = match ty {
        SqlType::Varchar(Some(limit)) => (*limit as usize, false),
        SqlType::Char(0) => (usize::MAX, true),
        SqlType::Char(limit) => (*limit as usize, true),
        _ => return Ok(Value::Text(text)),
    };
    let mut kept: &str = &text;
    // As many bytes cannot be more characters.
    if text.len() > limit
        && let Some((end, _)) = text.char_indices().nth(limit)
    {
        if !truncate && text[end..].bytes().any(|b| b != b' ') {
            return Err(SqlError::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {ty}"),
            ));
        }
        kept = &text[..end];
    }
    if strip {
        kept = kept.trim_end_matches(' ');
    }
    if kept.len() == text.len() { Ok(Value::Text(text)) } else { Ok(Value::text(kept)) }
}
