//! Names of SQL in texts: `parse_ident`, and names of objects as `regclass` and its like read them.

use super::arguments::text;
use super::strings::text_array;
use super::{Arg, CallTypes, Function};
use crate::error::{SqlError, SqlState};
use crate::value::Value;

use Arg::*;

type Evaluated = Result<Value, SqlError>;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("parse_ident", &[Text, Bool], TextArray, parse_ident).optional(1),
    // For regclass and similar types; the name cannot be called from SQL by accident.
    Function::new("parts of name", &[Text], TextArray, |a, _| {
        let parts = parts(text(&a[0])?, true)
            .map_err(|_| SqlError::new(SqlState::INVALID_NAME, "invalid name syntax"))?;
        Ok(text_array(parts.into_iter().map(Value::text).collect()))
    }),
];

fn parse_ident(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let whole = text(&args[0])?;
    let strict = args.get(1) != Some(&Value::Bool(false));
    let parts = parts(whole, strict).map_err(|detail| {
        let message = format!("string is not a valid identifier: \"{whole}\"");
        let wrong = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        if detail.is_empty() { wrong } else { wrong.with_detail(detail) }
    })?;
    Ok(text_array(parts.into_iter().map(Value::text).collect()))
}

/// The parts of a qualified name; those without quotes are in lower case. `strict`: nothing may follow.
///
/// # Errors
/// It is none; says more, if there is more to say.
fn parts(whole: &str, strict: bool) -> Result<Vec<String>, &'static str> {
    let blank = |c: char| c.is_ascii_whitespace();
    let mut rest = whole.trim_start_matches(blank);
    let mut parts = Vec::new();
    loop {
        match part(rest)? {
            Some((part, behind)) => {
                parts.push(part);
                rest = behind.trim_start_matches(blank);
            }
            None if rest.starts_with('.') => return Err("No valid identifier before \".\"."),
            None if !parts.is_empty() => return Err("No valid identifier after \".\"."),
            None => return Err(""),
        }
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start_matches(blank),
            None if rest.is_empty() || !strict => return Ok(parts),
            None => return Err(""),
        }
    }
}

/// The part that the text begins with, and what is behind it; none if it begins with none.
fn part(text: &str) -> Result<Option<(String, &str)>, &'static str> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut end = 0;
        loop {
            end += quoted[end..].find('"').ok_or("String has unclosed double quotes.")?;
            if !quoted[end + 1..].starts_with('"') {
                break;
            }
            end += 2;
        }
        if end == 0 {
            return Err("Quoted identifier must not be empty.");
        }
        return Ok(Some((quoted[..end].replace("\"\"", "\""), &quoted[end + 1..])));
    }
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    if !text.starts_with(begins) {
        return Ok(None);
    }
    let end = text.find(|c: char| !(begins(c) || c.is_ascii_digit() || c == '$')).unwrap_or(text.len());
    Ok(Some((text[..end].to_ascii_lowercase(), &text[end..])))
}
