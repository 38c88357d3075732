//! Values as text: what clients send and see.

use std::fmt::Write;
use std::sync::Arc;

use crate::arrays;
use crate::cast;
use crate::datetime;
use crate::datetime::style::IntervalStyle;
use crate::error::{SqlError, SqlState};
use crate::floats;
use crate::json;
use crate::sql_type::SqlType;
use crate::value::Value;

#[cold]
fn invalid(text: &str, type_name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

/// Reads PostgreSQL's input syntax. A modifier applies as for an explicit cast of a literal: `numeric`
/// rounds, too long a `varchar(n)` or `char(n)` is an error unless only spaces are too many.
pub fn parse_text(text: &str, ty: &SqlType) -> Result<Value, SqlError> {
    Ok(match ty {
        SqlType::Bool => Value::Bool(parse_bool(text)?),
        SqlType::Int2 => Value::Int(parse_int(text, "smallint", i64::from(i16::MIN), i64::from(i16::MAX))?),
        SqlType::Int4 => Value::Int(parse_int(text, "integer", i64::from(i32::MIN), i64::from(i32::MAX))?),
        SqlType::Int8 => Value::Int(parse_int(text, "bigint", i64::MIN, i64::MAX)?),
        SqlType::Numeric(modifier) => {
            let numeric: crate::numeric::Numeric = text.parse()?;
            Value::Numeric(match modifier {
                Some((precision, scale)) => numeric.apply_modifier(*precision, *scale)?,
                None => numeric,
            })
        }
        SqlType::Float4 => Value::Float4(floats::parse_f32(text)?),
        SqlType::Float8 => Value::Float8(floats::parse_f64(text)?),
        SqlType::Text | SqlType::Unknown | SqlType::Varchar(None) => Value::text(text),
        SqlType::Varchar(Some(_)) | SqlType::Char(_) => cast::fit_string(text.into(), ty, false)?,
        SqlType::Date => Value::Date(datetime::parse::date(text)?),
        SqlType::Timestamp => Value::Timestamp(datetime::parse::timestamp(text)?),
        SqlType::Timestamptz => Value::Timestamp(datetime::parse::timestamptz(text)?),
        SqlType::Interval => Value::interval(datetime::parse::interval(text)?),
        SqlType::Uuid => Value::Uuid(Arc::new(parse_uuid(text).ok_or_else(|| invalid(text, "uuid"))?)),
        SqlType::Bytea => Value::bytea(parse_bytea(text)?),
        SqlType::Jsonb => Value::jsonb(json::parse(text)?),
        SqlType::Array(element) => Value::Array(Arc::new(arrays::parse(text, element)?)),
        SqlType::Enum(of) if !of.labels.iter().any(|label| label == text) => {
            return Err(SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input value for enum {}: \"{text}\"", of.name),
            )
            .with_hint(format!("its values are {}", of.labels.join(", "))));
        }
        SqlType::Enum(_) | SqlType::Opaque(_) => Value::text(text),
        SqlType::Record => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "input of anonymous composite types is not implemented",
            ));
        }
        SqlType::Void => Value::Null,
    })
}

/// The bytes that a client has sent, as a text that a value may have.
///
/// # Errors
/// They are no UTF-8, or there is a zero among them (22021).
pub fn text_of(bytes: &[u8]) -> Result<&str, SqlError> {
    let wrong = |message: &str| SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message);
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err(wrong("invalid byte sequence for encoding \"UTF8\": 0x00")),
        Ok(text) => Ok(text),
        Err(_) => Err(wrong("invalid byte sequence for encoding \"UTF8\"")),
    }
}

/// Prints as PostgreSQL does: ISO dates at UTC, intervals in the postgres style, shortest floats,
/// `char(n)` padded. NULL prints as nothing; callers treat it before.
pub fn to_text(value: &Value, ty: &SqlType) -> String {
    to_styled_text(value, ty, IntervalStyle::Postgres)
}

/// Text of a value with intervals in that style, including those within arrays and records.
pub fn to_styled_text(value: &Value, ty: &SqlType, style: IntervalStyle) -> String {
    match value {
        Value::Null => String::new(),
        Value::Deferred => "(deferred)".to_owned(),
        Value::Bool(bool) => if *bool { "t" } else { "f" }.to_owned(),
        Value::Int(int) => int.to_string(),
        Value::Float4(float) => floats::print_f32(*float),
        Value::Float8(float) => floats::print_f64(*float),
        Value::Numeric(numeric) => numeric.to_string(),
        Value::Text(text) => match ty {
            SqlType::Char(length) => {
                let missing = (*length as usize).saturating_sub(text.chars().count());
                format!("{text}{}", " ".repeat(missing))
            }
            _ => text.to_string(),
        },
        Value::Date(days) => datetime::print::date(*days),
        Value::Timestamp(timestamp) => match ty {
            SqlType::Timestamptz => datetime::print::timestamptz(*timestamp),
            _ => datetime::print::timestamp(*timestamp),
        },
        Value::Interval(interval) => style.print(interval),
        Value::Uuid(bytes) => print_uuid(bytes),
        Value::Bytea(bytes) => {
            let mut out = String::from("\\x");
            for byte in bytes.iter() {
                let _ = write!(out, "{byte:02x}");
            }
            out
        }
        Value::Jsonb(json) => json.to_string(),
        Value::Array(array) => match ty {
            SqlType::Array(element) => arrays::print(array, element, style),
            _ => arrays::print(array, &array.element, style),
        },
        Value::Record(fields) => arrays::print_record(fields, style),
    }
}

/// Appends [`to_styled_text`] to `out`, without a string of its own for the values that results mostly have.
pub fn push_styled_text(value: &Value, ty: &SqlType, style: IntervalStyle, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) if !matches!(ty, SqlType::Char(_)) => out.extend_from_slice(text.as_bytes()),
        Value::Int(int) => out.extend_from_slice(itoa::Buffer::new().format(*int).as_bytes()),
        Value::Numeric(numeric) => numeric.push_text(out),
        Value::Bool(bool) => out.push(if *bool { b't' } else { b'f' }),
        Value::Date(days) => datetime::print::push_date(*days, out),
        Value::Timestamp(timestamp) => match ty {
            SqlType::Timestamptz => datetime::print::push_timestamptz(*timestamp, out),
            _ => datetime::print::push_timestamp(*timestamp, out),
        },
        value => out.extend_from_slice(to_styled_text(value, ty, style).as_bytes()),
    }
}

/// Prefixes of true, false, yes and no, `on`, `off`, 1 and 0.
pub fn parse_bool(text: &str) -> Result<bool, SqlError> {
    let word = text.trim().to_ascii_lowercase();
    let is_prefix = |of: &str, at_least: usize| word.len() >= at_least && of.starts_with(&word);
    if word == "1" || word == "on" || is_prefix("true", 1) || is_prefix("yes", 1) {
        Ok(true)
    } else if word == "0" || is_prefix("off", 2) || is_prefix("false", 1) || is_prefix("no", 1) {
        Ok(false)
    } else {
        Err(invalid(text, "boolean"))
    }
}

fn parse_int(text: &str, type_name: &str, min: i64, max: i64) -> Result<i64, SqlError> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid(text, type_name));
    }
    trimmed.parse().ok().filter(|value| (min..=max).contains(value)).ok_or_else(|| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {type_name}"),
        )
    })
}

/// 32 hexadecimal digits, in braces or not, with hyphens after any group of four.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let (mut bytes, mut digits) = ([0u8; 16], 0usize);
    let mut after_hyphen = true;
    for c in body.chars() {
        if c == '-' {
            if after_hyphen || digits % 4 != 0 || digits >= 32 {
                return None;
            }
            after_hyphen = true;
            continue;
        }
        let digit = c.to_digit(16)? as u8;
        *bytes.get_mut(digits / 2)? |= if digits % 2 == 0 { digit << 4 } else { digit };
        digits += 1;
        after_hyphen = false;
    }
    (digits == 32).then_some(bytes)
}

fn print_uuid(bytes: &[u8; 16]) -> String {
    let mut out = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// `\x` and hexadecimal digits, or the escape format with `\\` and `\ooo`.
pub fn parse_bytea(text: &str) -> Result<Vec<u8>, SqlError> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return decode_hex(hex);
    }
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        if *byte != b'\\' {
            out.push(*byte);
            at += 1;
        } else if bytes.get(at + 1) == Some(&b'\\') {
            out.push(b'\\');
            at += 2;
        } else {
            let octal = bytes.get(at + 1..at + 4).filter(|digits| {
                digits[0] <= b'3' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
            });
            let Some(octal) = octal else {
                // This message does not repeat the input.
                return Err(SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    "invalid input syntax for type bytea",
                ));
            };
            out.push(octal.iter().fold(0u8, |value, digit| value.wrapping_mul(8) + (digit - b'0')));
            at += 4;
        }
    }
    Ok(out)
}

/// Pairs of hexadecimal digits, white space between them.
pub fn decode_hex(text: &str) -> Result<Vec<u8>, SqlError> {
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut high: Option<u8> = None;
    for c in text.chars() {
        if high.is_none() && c.is_ascii_whitespace() {
            continue;
        }
        let Some(digit) = c.to_digit(16) else {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid hexadecimal digit: \"{c}\""),
            ));
        };
        match high.take() {
            None => high = Some(digit as u8),
            Some(high) => out.push(high << 4 | digit as u8),
        }
    }
    match high {
        None => Ok(out),
        Some(_) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "invalid hexadecimal data: odd number of digits",
        )),
    }
}
