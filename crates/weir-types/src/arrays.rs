//! Arrays as text, and what operators and functions do with them.

use crate::datetime::style::IntervalStyle;
use crate::error::{SqlError, SqlState};
use crate::interrupt::{check, check_work};
use crate::sql_type::SqlType;
use crate::text::{parse_text, to_styled_text};
use crate::value::{Array, Value};

/// Elements that are compared in the time of one check.
pub(crate) const COMPARED_PER_CHECK: usize = 16;

fn malformed(text: &str, detail: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
        .with_detail(detail)
}

/// `{a,"b c",NULL}`; one dimension only.
pub fn parse(text: &str, element: &SqlType) -> Result<Array, SqlError> {
    let mut values = Vec::new();
    for item in split(text)? {
        check()?;
        values.push(match item {
            Some(item) => parse_text(&item, element)?,
            None => Value::Null,
        });
    }
    Ok(Array { element: element.clone(), values })
}

/// The elements' texts, `None` for NULL.
fn split(text: &str) -> Result<Vec<Option<String>>, SqlError> {
    let trimmed = text.trim();
    let Some(body) = trimmed.strip_prefix('{') else {
        return Err(malformed(text, "Array value must start with \"{\" or dimension information."));
    };
    let mut chars = body.chars().peekable();
    let mut items = Vec::new();
    loop {
        check()?;
        let (mut item, mut quoted, mut keep) = (String::new(), false, 0);
        let end = loop {
            match chars.next() {
                None => return Err(malformed(text, "Unexpected end of input.")),
                Some(c @ (',' | '}')) => break c,
                Some('{') => {
                    return Err(SqlError::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "arrays of more than one dimension are not supported",
                    ));
                }
                Some('"') => {
                    if quoted || !item.is_empty() {
                        return Err(malformed(text, "Unexpected array element."));
                    }
                    quoted = true;
                    loop {
                        match chars.next() {
                            None => return Err(malformed(text, "Unexpected end of input.")),
                            Some('"') => break,
                            Some('\\') => match chars.next() {
                                None => return Err(malformed(text, "Unexpected end of input.")),
                                Some(c) => item.push(c),
                            },
                            Some(c) => item.push(c),
                        }
                    }
                    keep = item.len();
                }
                Some('\\') => match chars.next() {
                    None => return Err(malformed(text, "Unexpected end of input.")),
                    Some(c) => {
                        item.push(c);
                        keep = item.len();
                    }
                },
                Some(c) if c.is_ascii_whitespace() => {
                    if !item.is_empty() && !quoted {
                        item.push(c);
                    }
                }
                Some(_) if quoted => return Err(malformed(text, "Unexpected array element.")),
                Some(c) => {
                    item.push(c);
                    keep = item.len();
                }
            }
        };
        item.truncate(keep);
        if item.is_empty() && !quoted {
            let only = items.is_empty() && end == '}';
            if !only {
                return Err(malformed(text, &format!("Unexpected \"{end}\" character.")));
            }
        } else if !quoted && item.eq_ignore_ascii_case("null") {
            items.push(None);
        } else {
            items.push(Some(item));
        }
        if end == '}' {
            break;
        }
    }
    if chars.any(|c| !c.is_whitespace()) {
        return Err(malformed(text, "Junk after closing right brace."));
    }
    Ok(items)
}

pub fn print(array: &Array, element: &SqlType, style: IntervalStyle) -> String {
    let mut out = String::from("{");
    for (i, value) in array.values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if value.is_null() {
            out.push_str("NULL");
            continue;
        }
        let text = to_styled_text(value, element, style);
        let needs_quotes = text.is_empty()
            || text.eq_ignore_ascii_case("null")
            || text.contains(|c: char| {
                matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace() || c == '\x0b'
            });
        if needs_quotes {
            push_quoted(&text, &mut out);
        } else {
            out.push_str(&text);
        }
    }
    out.push('}');
    out
}

fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if c == '"' || c == '\\' {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// A record's text: `(1,"a b",)`.
pub fn print_record(fields: &[Value], style: IntervalStyle) -> String {
    let mut out = String::from("(");
    for (i, value) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        if value.is_null() {
            continue;
        }
        let text = to_styled_text(value, &type_of(value), style);
        let needs_quotes = text.is_empty()
            || text.contains(|c: char| matches!(c, '(' | ')' | ',' | '"' | '\\') || c.is_ascii_whitespace());
        if needs_quotes {
            // Inside of records quotes are doubled.
            out.push('"');
            out.push_str(&text.replace('\\', "\\\\").replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&text);
        }
    }
    out.push(')');
    out
}

/// A type that prints the value, for fields of records, whose types are not kept.
pub fn type_of(value: &Value) -> SqlType {
    match value {
        Value::Bool(_) => SqlType::Bool,
        Value::Int(_) => SqlType::Int8,
        Value::Float4(_) => SqlType::Float4,
        Value::Float8(_) => SqlType::Float8,
        Value::Numeric(_) => SqlType::Numeric(None),
        Value::Text(_) => SqlType::Text,
        Value::Date(_) => SqlType::Date,
        Value::Timestamp(_) => SqlType::Timestamp,
        Value::Interval(_) => SqlType::Interval,
        Value::Uuid(_) => SqlType::Uuid,
        Value::Bytea(_) => SqlType::Bytea,
        Value::Jsonb(_) => SqlType::Jsonb,
        Value::Array(array) => SqlType::Array(Box::new(array.element.clone())),
        Value::Record(_) => SqlType::Record,
        Value::Null | Value::Deferred => SqlType::Unknown,
    }
}

/// `@>`: every element of `right` is in `left`; NULLs are in nothing.
pub fn contains(left: &Array, right: &Array) -> Result<bool, SqlError> {
    for value in &right.values {
        if value.is_null() || !has(left, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `&&`.
pub fn overlaps(left: &Array, right: &Array) -> Result<bool, SqlError> {
    for value in &left.values {
        if !value.is_null() && has(right, value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has(array: &Array, value: &Value) -> Result<bool, SqlError> {
    check_work(array.values.len() / COMPARED_PER_CHECK)?;
    Ok(array.values.iter().any(|found| found == value))
}
