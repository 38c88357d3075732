//! `to_char`, `to_date`, `to_timestamp` and `to_number`: PostgreSQL's template patterns.

mod number;
mod read;
mod write;

use super::arguments::{double, int, interval, numeric, real, text, timestamp};
use super::{Arg, Function};
use crate::datetime::is_infinite_timestamp;
use crate::error::SqlError;
use crate::value::Value;

use Arg::*;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("to_char", &[Timestamp, Text], Text, |a, _| {
        write_timestamp(timestamp(&a[0])?, text(&a[1])?, false)
    }),
    Function::new("to_char", &[Timestamptz, Text], Text, |a, _| {
        write_timestamp(timestamp(&a[0])?, text(&a[1])?, true)
    }),
    Function::new("to_char", &[Interval, Text], Text, |a, _| {
        let template = text(&a[1])?;
        Ok(if template.is_empty() {
            Value::Null
        } else {
            Value::text(write::interval(interval(&a[0])?, template)?)
        })
    }),
    Function::new("to_char", &[Int4, Text], Text, |a, _| {
        number::print(number::Source::Integer(int(&a[0])?), text(&a[1])?).map(Value::text)
    }),
    Function::new("to_char", &[Int8, Text], Text, |a, _| {
        number::print(number::Source::Integer(int(&a[0])?), text(&a[1])?).map(Value::text)
    }),
    Function::new("to_char", &[Numeric, Text], Text, |a, _| {
        number::print(number::Source::Exact(numeric(&a[0])?), text(&a[1])?).map(Value::text)
    }),
    Function::new("to_char", &[Float8, Text], Text, |a, _| {
        number::print(number::Source::Float(double(&a[0])?, 15), text(&a[1])?).map(Value::text)
    }),
    Function::new("to_char", &[Float4, Text], Text, |a, _| {
        number::print(number::Source::Float(f64::from(real(&a[0])?), 6), text(&a[1])?).map(Value::text)
    }),
    Function::new("to_number", &[Text, Text], Numeric, |a, _| {
        number::read(text(&a[0])?, text(&a[1])?).map(Value::Numeric)
    }),
    Function::new("to_date", &[Text, Text], Date, |a, _| {
        read::date(text(&a[0])?, text(&a[1])?).map(Value::Date)
    }),
    Function::new("to_timestamp", &[Text, Text], Timestamptz, |a, _| {
        read::timestamp(text(&a[0])?, text(&a[1])?).map(Value::Timestamp)
    }),
];

/// NULL for an empty template and for infinity, as PostgreSQL has it.
fn write_timestamp(timestamp: i64, template: &str, zoned: bool) -> Result<Value, SqlError> {
    if template.is_empty() || is_infinite_timestamp(timestamp) {
        return Ok(Value::Null);
    }
    Ok(Value::text(write::timestamp(timestamp, template, zoned)))
}

/// The date/time patterns, longer ones before their prefixes.
const PATTERNS: [&str; 57] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI",
    "MM", "MONTH", "MON", "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ",
    "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y", "FM", "TM", "SP",
];

/// The case in which a pattern was written, which the names of months and days follow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Upper,
    Lower,
    Capital,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Field {
        /// One of [`PATTERNS`].
        name: &'static str,
        case: Case,
        /// `FM`: neither padding nor leading zeros.
        fill: bool,
        /// `TH` (true) or `th` behind it.
        ordinal: Option<bool>,
    },
    /// A character that is not part of any pattern.
    Plain(char),
    /// A character in quotes or behind a backslash.
    Quoted(char),
}

fn pattern_at(rest: &str) -> Option<(&'static str, Case)> {
    PATTERNS.iter().find_map(|name| {
        let written = rest.get(..name.len())?;
        if written == *name {
            return Some((*name, Case::Upper));
        }
        if written == name.to_ascii_lowercase() {
            return Some((*name, Case::Lower));
        }
        let capital = format!("{}{}", &name[..1], name[1..].to_ascii_lowercase());
        let has_capital = ["MONTH", "MON", "DAY", "DY"].contains(name);
        (has_capital && written == capital).then_some((*name, Case::Capital))
    })
}

fn parse(template: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut rest = template;
    let mut fill = false;
    while let Some(c) = rest.chars().next() {
        if let Some((name, case)) = pattern_at(rest) {
            rest = &rest[name.len()..];
            match name {
                "FM" => fill = true,
                "FX" | "TM" | "SP" => {}
                _ => {
                    let ordinal = match rest.get(..2) {
                        Some("TH") => Some(true),
                        Some("th") => Some(false),
                        _ => None,
                    };
                    if ordinal.is_some() {
                        rest = &rest[2..];
                    }
                    nodes.push(Node::Field { name, case, fill, ordinal });
                    fill = false;
                }
            }
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => {
                while let Some(c) = rest.chars().next() {
                    rest = &rest[c.len_utf8()..];
                    match c {
                        '"' => break,
                        '\\' => {
                            if let Some(escaped) = rest.chars().next() {
                                rest = &rest[escaped.len_utf8()..];
                                nodes.push(Node::Quoted(escaped));
                            }
                        }
                        c => nodes.push(Node::Quoted(c)),
                    }
                }
            }
            // Outside of quotes a backslash matters only before a quote.
            '\\' if rest.starts_with('"') => {
                rest = &rest[1..];
                nodes.push(Node::Quoted('"'));
            }
            c => nodes.push(Node::Plain(c)),
        }
    }
    nodes
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// `ST`, `ND`, `RD` or `TH`.
fn ordinal_suffix(number: &str, upper: bool) -> &'static str {
    let bytes = number.as_bytes();
    let last = bytes.last().copied().unwrap_or(b'0');
    let teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    match (last, teen, upper) {
        (b'1', false, true) => "ST",
        (b'1', false, false) => "st",
        (b'2', false, true) => "ND",
        (b'2', false, false) => "nd",
        (b'3', false, true) => "RD",
        (b'3', false, false) => "rd",
        (_, _, true) => "TH",
        (_, _, false) => "th",
    }
}
