//! `to_date` and `to_timestamp` of text.

use super::{DAYS, MONTHS, Node, ROMAN_MONTHS, parse};
use crate::datetime::fields::iso_week_start;
use crate::datetime::{
    Civil, MICROSECONDS_PER_SECOND, civil_from_days, date_from_days, date_out_of_range, days_from_civil,
    days_in_month, is_leap, timestamp_from_day, timestamp_out_of_range,
};
use crate::error::{SqlError, SqlState};

/// What the template has found.
#[derive(Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_day: Option<i64>,
    julian: Option<i64>,
    hour: i64,
    twelve_hours: bool,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    microsecond: i64,
    second_of_day: Option<i64>,
    before_christ: bool,
    offset_seconds: i64,
}

fn format_error(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

pub(super) fn date(text: &str, template: &str) -> Result<i32, SqlError> {
    let found = scan(text, template)?;
    date_from_days(found.days(text)?).ok_or_else(date_out_of_range)
}

/// Microseconds since 2000-01-01 UTC.
pub(super) fn timestamp(text: &str, template: &str) -> Result<i64, SqlError> {
    let found = scan(text, template)?;
    let time = found.time(text)? - found.offset_seconds * MICROSECONDS_PER_SECOND;
    timestamp_from_day(found.days(text)?, time).ok_or_else(timestamp_out_of_range)
}

fn out_of_range(text: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

impl Found {
    fn days(&self, text: &str) -> Result<i64, SqlError> {
        if let Some(julian) = self.julian {
            return Ok(julian - 2_451_545);
        }
        if let Some(iso_year) = self.iso_year {
            let week = self.iso_week.unwrap_or(1);
            return Ok(iso_week_start(iso_year, week) + self.iso_day.unwrap_or(1) - 1);
        }
        let year = self.year.unwrap_or(0);
        // Without a year it is 1 BC; "1 BC" is year 0.
        let year = if self.before_christ { 1 - year } else { year };
        if let Some(day_of_year) = self.day_of_year {
            if !(1..=365 + i64::from(is_leap(year))).contains(&day_of_year) {
                return Err(out_of_range(text));
            }
            let first = days_from_civil(Civil { year, month: 1, day: 1 });
            let date = civil_from_days(first + day_of_year - 1);
            return Ok(days_from_civil(date));
        }
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return Err(out_of_range(text));
        }
        Ok(days_from_civil(Civil { year, month, day }))
    }

    fn time(&self, text: &str) -> Result<i64, SqlError> {
        let mut hour = self.hour;
        if self.twelve_hours {
            if !(1..=12).contains(&hour) {
                return Err(SqlError::new(
                    SqlState::INVALID_DATETIME_FORMAT,
                    format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                )
                .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.afternoon == Some(true) { 12 } else { 0 };
        }
        if hour > 23 || self.minute > 59 || self.second > 59 {
            return Err(out_of_range(text));
        }
        let second = self.second_of_day.unwrap_or((hour * 60 + self.minute) * 60 + self.second);
        if second >= 86_400 {
            return Err(out_of_range(text));
        }
        Ok(second * MICROSECONDS_PER_SECOND + self.microsecond)
    }
}

/// How many digits a numeric pattern takes at most, where digits follow at once.
fn width(name: &str) -> usize {
    match name {
        "YYYY" | "IYYY" => 4,
        "YYY" | "IYY" | "DDD" | "MS" | "FF3" | "IDDD" => 3,
        "Y" | "I" | "D" | "ID" | "Q" | "W" | "FF1" => 1,
        "FF4" => 4,
        "FF5" | "SSSS" | "SSSSS" => 5,
        "US" | "FF6" => 6,
        "J" => 7,
        _ => 2,
    }
}

fn is_numeric(node: Option<&Node>) -> bool {
    match node {
        Some(Node::Field { name, .. }) => {
            !["MONTH", "MON", "DAY", "DY", "AM", "PM", "A.M.", "P.M.", "AD", "BC", "A.D.", "B.C.", "RM", "TZ"]
                .contains(name)
        }
        Some(Node::Plain(c) | Node::Quoted(c)) => c.is_ascii_digit(),
        None => false,
    }
}

fn scan(text: &str, template: &str) -> Result<Found, SqlError> {
    let nodes = parse(template);
    let mut found = Found::default();
    let mut rest = text;
    for (i, node) in nodes.iter().enumerate() {
        match node {
            Node::Plain(c) if !c.is_alphanumeric() => {
                // A separator stands for any separator, or for none.
                let next = rest.chars().next();
                if next.is_some_and(|c| !c.is_alphanumeric() && c != '+' && c != '-' || c == '-' && i > 0) {
                    rest = &rest[next.map_or(0, char::len_utf8)..];
                }
            }
            Node::Plain(_) | Node::Quoted(_) => {
                if let Some(c) = rest.chars().next() {
                    rest = &rest[c.len_utf8()..];
                }
            }
            Node::Field { name, ordinal, .. } => {
                rest = rest.trim_start();
                if rest.is_empty() {
                    break;
                }
                rest = field(name, rest, is_numeric(nodes.get(i + 1)), &mut found)?;
                if ordinal.is_some() {
                    rest = rest.get(2..).unwrap_or("");
                }
            }
        }
    }
    Ok(found)
}

/// Takes one of the words off the start, whatever its case.
fn word<'a>(rest: &'a str, name: &str, words: &[&str]) -> Result<(usize, &'a str), SqlError> {
    let starts = |word: &&str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    // The longest word wins: VIII begins with VII.
    match words.iter().enumerate().filter(|(_, word)| starts(word)).max_by_key(|(_, word)| word.len()) {
        Some((at, word)) => Ok((at, &rest[word.len()..])),
        None => {
            let token = rest.split(|c: char| c.is_whitespace()).next().unwrap_or(rest);
            Err(format_error(format!("invalid value \"{token}\" for \"{name}\""))
                .with_detail("The given value did not match any of the allowed values for this field."))
        }
    }
}

fn field<'a>(name: &str, rest: &'a str, digits_follow: bool, found: &mut Found) -> Result<&'a str, SqlError> {
    let short = |words: &[&'static str]| words.iter().map(|word| &word[..3]).collect::<Vec<_>>();
    match name {
        "MONTH" => {
            // A month that is cut off after three letters is accepted too.
            let (at, rest) = word(rest, name, &MONTHS).or_else(|_| word(rest, name, &short(&MONTHS)))?;
            found.month = Some(at as i64 + 1);
            return Ok(rest);
        }
        "MON" => {
            let (at, rest) = word(rest, name, &short(&MONTHS))?;
            found.month = Some(at as i64 + 1);
            return Ok(rest);
        }
        "DAY" => return word(rest, name, &DAYS).map(|(_, rest)| rest),
        "DY" => return word(rest, name, &short(&DAYS)).map(|(_, rest)| rest),
        "RM" => {
            let (at, rest) = word(rest, name, &ROMAN_MONTHS)?;
            found.month = Some(at as i64 + 1);
            return Ok(rest);
        }
        "AM" | "PM" | "A.M." | "P.M." => {
            let (at, rest) = word(rest, name, &["AM", "PM", "A.M.", "P.M."])?;
            found.afternoon = Some(at % 2 == 1);
            found.twelve_hours = true;
            return Ok(rest);
        }
        "AD" | "BC" | "A.D." | "B.C." => {
            let (at, rest) = word(rest, name, &["AD", "BC", "A.D.", "B.C."])?;
            found.before_christ = at % 2 == 1;
            return Ok(rest);
        }
        "Y,YYY" => {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
            let year: Option<i32> = rest[..end].replace(',', "").parse().ok();
            found.year = year.map(i64::from);
            return Ok(&rest[end..]);
        }
        "TZ" | "OF" => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("formatting field \"{name}\" is only supported in to_char"),
            ));
        }
        _ => {}
    }
    number_field(name, rest, digits_follow, found)
}

fn number_field<'a>(
    name: &str,
    rest: &'a str,
    digits_follow: bool,
    found: &mut Found,
) -> Result<&'a str, SqlError> {
    let signed = rest.starts_with(['-', '+']);
    let body = &rest[usize::from(signed)..];
    let available = body.bytes().take_while(u8::is_ascii_digit).count();
    let fraction = name == "MS" || name == "US" || name.starts_with("FF");
    let taken = if digits_follow || fraction { available.min(width(name)) } else { available };
    let digits = &body[..taken];
    let Ok(mut value) = digits.parse::<i64>() else {
        let token: String = rest.chars().take(width(name)).collect();
        return Err(format_error(format!("invalid value \"{token}\" for \"{name}\""))
            .with_detail("Value must be an integer."));
    };
    if rest.starts_with('-') {
        value = -value;
    }
    if i32::try_from(value).is_err() {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("value \"{digits}\" for \"{name}\" is out of range"),
        )
        .with_detail("Value must be in the range -2147483648 to 2147483647."));
    }
    let short_year = |value: i64, digits: usize| match (digits, value) {
        (1 | 2, 0..=69) => value + 2000,
        (1 | 2, 70..=99) => value + 1900,
        (3, 100..=519) => value + 2000,
        (3, 520..=999) => value + 1000,
        _ => value,
    };
    let six_digits = || format!("{digits:0<6}")[..6].parse().unwrap_or(0);
    match name {
        "YYYY" => found.year = Some(value),
        "YYY" | "YY" | "Y" => found.year = Some(short_year(value, taken)),
        "IYYY" => found.iso_year = Some(value),
        "IYY" | "IY" | "I" => found.iso_year = Some(short_year(value, taken)),
        "IW" => found.iso_week = Some(value),
        "ID" => found.iso_day = Some(value),
        "MM" => found.month = Some(value),
        "DD" => found.day = Some(value),
        "DDD" => found.day_of_year = Some(value),
        "J" => found.julian = Some(value),
        "HH24" => found.hour = value,
        "HH" | "HH12" => {
            found.hour = value;
            found.twelve_hours = true;
        }
        "MI" => found.minute = value,
        "SS" => found.second = value,
        "SSSS" | "SSSSS" => found.second_of_day = Some(value),
        "TZH" => found.offset_seconds += value * 3600,
        "TZM" => found.offset_seconds += value * 60 * if found.offset_seconds < 0 { -1 } else { 1 },
        "CC" | "Q" | "D" | "W" | "WW" | "IDDD" => {}
        _ => found.microsecond = six_digits(),
    }
    Ok(&body[taken..])
}
