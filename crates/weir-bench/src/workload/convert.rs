//! Conversion of generated values to the types of columns and parameters, and row sizes.

use std::sync::Arc;

use weir_sql::{Diagnostic, Span};
use weir_types::numeric::Numeric;
use weir_types::value::{Array, Json};
use weir_types::{EnumType, SqlType, Value};

use super::code::{Kind, natural};
use super::compile::mismatch;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

/// Chosen once for each column and parameter.
#[derive(Clone, Debug)]
pub(crate) enum Conversion {
    None,
    /// Only a check.
    Int {
        low: i64,
        high: i64,
    },
    /// To a scale, if the type has one, and with a limited number of digits.
    Numeric {
        scale: Option<u8>,
        bound: i128,
    },
    Float4,
    Float8,
    /// Fewer characters than that.
    Text {
        characters_max: usize,
        pads: bool,
    },
    /// One of the labels.
    Enum(Arc<EnumType>),
    Date,
    /// A number, as the last digits of a UUID.
    Uuid,
    Array(SqlType, Box<Conversion>),
}

impl Conversion {
    /// Refuses what can never fit: a text for an integer, say.
    pub fn new(kind: &Kind, ty: &SqlType, span: Span) -> Result<Conversion, Diagnostic> {
        let is_number = matches!(kind, Kind::Int | Kind::Decimal(_));
        let text =
            |characters_max: u32, pads| Conversion::Text { characters_max: characters_max as usize, pads };
        Ok(match (kind, ty) {
            (Kind::Null, _) => Conversion::None,
            (Kind::Int, SqlType::Int2) => {
                Conversion::Int { low: i64::from(i16::MIN), high: i64::from(i16::MAX) }
            }
            (Kind::Int, SqlType::Int4) => {
                Conversion::Int { low: i64::from(i32::MIN), high: i64::from(i32::MAX) }
            }
            (Kind::Int, SqlType::Int8) | (Kind::Bool, SqlType::Bool) => Conversion::None,
            (_, SqlType::Numeric(None)) if is_number => Conversion::Numeric { scale: None, bound: i128::MAX },
            (_, SqlType::Numeric(Some((precision, scale)))) if is_number && (0..=18).contains(scale) => {
                let bound = 10i128.checked_pow(u32::from(*precision)).unwrap_or(i128::MAX);
                Conversion::Numeric { scale: Some(*scale as u8), bound }
            }
            (_, SqlType::Float4) if is_number => Conversion::Float4,
            (_, SqlType::Float8) if is_number => Conversion::Float8,
            (Kind::Text, SqlType::Text | SqlType::Varchar(None)) => Conversion::None,
            (Kind::Text, SqlType::Varchar(Some(n))) => text(*n, false),
            (Kind::Text, SqlType::Char(n)) => text(*n, true),
            (Kind::Text, SqlType::Enum(of)) => Conversion::Enum(of.clone()),
            (Kind::Time, SqlType::Timestamp | SqlType::Timestamptz) => Conversion::None,
            (Kind::Time, SqlType::Date) => Conversion::Date,
            (Kind::Int, SqlType::Uuid) => Conversion::Uuid,
            (Kind::Array(element), SqlType::Array(ty)) => {
                Conversion::Array((**ty).clone(), Box::new(Conversion::new(element, ty, span)?))
            }
            _ => return Err(mismatch(span, &format!("what fits {ty}"), kind)),
        })
    }

    /// A scalar, without a detour over its natural value where that is the same.
    pub fn scalar(&self, kind: &Kind, scalar: i64) -> Result<Value, String> {
        self.value(natural(kind, scalar))
    }

    pub fn value(&self, value: Value) -> Result<Value, String> {
        match (self, value) {
            (_, Value::Null) => Ok(Value::Null),
            (Conversion::None, value) => Ok(value),
            (Conversion::Int { low, high }, Value::Int(value)) => {
                if (*low..=*high).contains(&value) {
                    Ok(Value::Int(value))
                } else {
                    Err(format!("{value} is not between {low} and {high}"))
                }
            }
            (Conversion::Numeric { scale, bound }, value) => numeric(parts(&value)?, *scale, *bound),
            (Conversion::Float4, value) => Ok(Value::Float4(float(parts(&value)?) as f32)),
            (Conversion::Float8, value) => Ok(Value::Float8(float(parts(&value)?))),
            (Conversion::Text { characters_max, pads }, Value::Text(text)) => {
                // Bytes are at least as many as characters, and cheaper to count.
                if text.len() > *characters_max && text.chars().count() > *characters_max {
                    return Err(format!("'{text}' has more than {characters_max} characters"));
                }
                if *pads && text.ends_with(' ') {
                    return Ok(Value::text(text.trim_end_matches(' ')));
                }
                Ok(Value::Text(text))
            }
            (Conversion::Enum(of), Value::Text(text)) => {
                match of.labels.iter().any(|label| *label == text.as_str()) {
                    true => Ok(Value::Text(text)),
                    false => Err(format!("'{text}' is none of {}: {}", of.name, of.labels.join(", "))),
                }
            }
            (Conversion::Date, Value::Timestamp(microseconds)) => {
                Ok(Value::Date(microseconds.div_euclid(MICROSECONDS_PER_DAY) as i32))
            }
            (Conversion::Uuid, Value::Int(number)) => Ok(Value::Uuid(Arc::new(uuid(number)))),
            (Conversion::Array(ty, each), Value::Array(array)) => convert_array(array, ty, each),
            (_, other) => Err(format!("{other:?} does not fit")),
        }
    }
}

/// `00000000-0000-4000-8000-…`, as of version 4, and the number.
fn uuid(number: i64) -> [u8; 16] {
    const VERSION_AND_VARIANT: u128 = 0x4000_8000_0000_0000_0000;
    (VERSION_AND_VARIANT | u128::from(number.unsigned_abs() & 0xffff_ffff_ffff)).to_be_bytes()
}

fn convert_array(array: Arc<Array>, ty: &SqlType, each: &Conversion) -> Result<Value, String> {
    let mut array = Arc::unwrap_or_clone(array);
    if !matches!(each, Conversion::None) {
        for value in &mut array.values {
            *value = each.value(std::mem::take(value))?;
        }
    }
    Ok(Value::Array(Arc::new(Array { element: ty.clone(), values: array.values })))
}

fn parts(value: &Value) -> Result<(i64, u8), String> {
    match value {
        Value::Int(value) => Ok((*value, 0)),
        Value::Numeric(Numeric::Small { scale, mantissa }) => Ok((*mantissa, *scale)),
        other => Err(format!("{other:?} is no number")),
    }
}

fn float((mantissa, scale): (i64, u8)) -> f64 {
    mantissa as f64 / 10f64.powi(i32::from(scale))
}

/// Rounds half away from zero, as PostgreSQL does.
fn numeric((mantissa, from): (i64, u8), to: Option<u8>, bound: i128) -> Result<Value, String> {
    let scale = to.unwrap_or(from);
    let mantissa = i128::from(mantissa);
    let scaled = if scale >= from {
        mantissa * 10i128.pow(u32::from(scale - from))
    } else {
        let divisor = 10i128.pow(u32::from(from - scale));
        (mantissa + mantissa.signum() * (divisor / 2)) / divisor
    };
    match i64::try_from(scaled) {
        Ok(mantissa) if scaled.abs() < bound => Ok(Value::Numeric(Numeric::Small { scale, mantissa })),
        _ => Err(format!("{scaled} with {scale} decimals has too many digits")),
    }
}

/// Number of bytes that a row's values need by themselves: the "raw size" in figures of memory. Integers,
/// floats, dates and times take their width, numerics as many bytes as two digits each need, texts and
/// bytea their length, char(n) its padding too, NULL nothing.
pub fn raw_row_bytes<'a>(values: &[Value], types: impl IntoIterator<Item = &'a SqlType>) -> usize {
    values.iter().zip(types).map(|(value, ty)| raw_bytes(value, ty)).sum()
}

fn raw_bytes(value: &Value, ty: &SqlType) -> usize {
    match (value, ty) {
        // A deferred value stands for one that is not known yet; no generated row has one.
        (Value::Null | Value::Deferred, _) => 0,
        (Value::Bool(_), _) => 1,
        (Value::Int(_), SqlType::Int2) => 2,
        (Value::Int(_), SqlType::Int4) => 4,
        (Value::Int(_), _) => 8,
        (Value::Float4(_) | Value::Date(_), _) => 4,
        (Value::Float8(_) | Value::Timestamp(_), _) => 8,
        (Value::Numeric(_), SqlType::Numeric(Some((precision, _)))) => usize::from(*precision).div_ceil(2),
        (Value::Numeric(_), _) => 8,
        (Value::Text(text), SqlType::Char(n)) => text.len().max(*n as usize),
        (Value::Text(text), _) => text.len(),
        (Value::Interval(_) | Value::Uuid(_), _) => 16,
        (Value::Bytea(bytes), _) => bytes.len(),
        (Value::Jsonb(json), _) => json_bytes(json),
        (Value::Array(array), _) => array.values.iter().map(|value| raw_bytes(value, &array.element)).sum(),
        (Value::Record(fields), _) => fields.iter().map(|value| raw_bytes(value, &SqlType::Unknown)).sum(),
    }
}

fn json_bytes(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) => 1,
        Json::Number(_) => 8,
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(json_bytes).sum(),
        Json::Object(fields) => fields.iter().map(|(key, value)| key.len() + json_bytes(value)).sum(),
    }
}
