//! Effect of the modifiers of `timestamp(p)` and of intervals (`interval day to hour`, `interval second(3)`) on values.
//!
//! A modifier is PostgreSQL's `atttypmod`: of a timestamp the digits behind the second; of an interval the digits in the lower 16 bits
//! and the mask of its fields above them.

use std::borrow::Cow;

use crate::datetime::{is_infinite_timestamp, timestamp_out_of_range};
use crate::error::SqlError;
use crate::value::Interval;

/// All fields, or all digits.
const FULL_RANGE: i32 = 0x7fff;
const FULL_PRECISION: i32 = 0xffff;

/// As many digits as are kept.
pub const PRECISION_MAX: i32 = 6;

const MONTH: i32 = 1 << 1;
const YEAR: i32 = 1 << 2;
const DAY: i32 = 1 << 3;
const HOUR: i32 = 1 << 10;
const MINUTE: i32 = 1 << 11;
const SECOND: i32 = 1 << 12;

const MICROSECONDS_PER_MINUTE: i64 = 60_000_000;

/// The words of the fields, as `format_type` shows them.
const RANGES: [(i32, &str); 13] = [
    (YEAR, "year"),
    (MONTH, "month"),
    (DAY, "day"),
    (HOUR, "hour"),
    (MINUTE, "minute"),
    (SECOND, "second"),
    (YEAR | MONTH, "year to month"),
    (DAY | HOUR, "day to hour"),
    (DAY | HOUR | MINUTE, "day to minute"),
    (DAY | HOUR | MINUTE | SECOND, "day to second"),
    (HOUR | MINUTE, "hour to minute"),
    (HOUR | MINUTE | SECOND, "hour to second"),
    (MINUTE | SECOND, "minute to second"),
];

/// The modifier of an interval of these fields; `None` as fields is all of them.
pub fn of_interval(range: Option<i32>, precision: Option<i32>) -> i32 {
    let precision = precision.map_or(FULL_PRECISION, |precision| precision.min(PRECISION_MAX));
    range.unwrap_or(FULL_RANGE) << 16 | precision
}

fn range_of(modifier: i32) -> i32 {
    modifier >> 16 & FULL_RANGE
}

fn precision_of(modifier: i32) -> i32 {
    modifier & FULL_PRECISION
}

fn rounded(microseconds: i64, precision: i32) -> Option<i64> {
    if !(0..PRECISION_MAX).contains(&precision) {
        return Some(microseconds);
    }
    let scale = 10_i64.pow((PRECISION_MAX - precision) as u32);
    // Rounds half away from zero, as PostgreSQL does.
    let size = microseconds.checked_abs()?.checked_add(scale / 2)? / scale * scale;
    Some(if microseconds < 0 { -size } else { size })
}

/// # Errors
/// It is beyond the last timestamp then (22008).
pub fn fit_timestamp(timestamp: i64, modifier: i32) -> Result<i64, SqlError> {
    match is_infinite_timestamp(timestamp) {
        true => Ok(timestamp),
        false => rounded(timestamp, modifier).ok_or_else(timestamp_out_of_range),
    }
}

/// # Errors
/// It is beyond the longest interval then (22008).
pub fn fit_interval(interval: &Interval, modifier: i32) -> Result<Interval, SqlError> {
    let mut fitted = *interval;
    let whole = |microseconds: i64, unit: i64| microseconds / unit * unit;
    match range_of(modifier) {
        YEAR => fitted = Interval { months: fitted.months / 12 * 12, days: 0, microseconds: 0 },
        range if range == MONTH || range == YEAR | MONTH => {
            fitted = Interval { days: 0, microseconds: 0, ..fitted };
        }
        DAY => fitted.microseconds = 0,
        range if range == HOUR || range == DAY | HOUR => {
            fitted.microseconds = whole(fitted.microseconds, 60 * MICROSECONDS_PER_MINUTE);
        }
        range if range & MINUTE != 0 && range & SECOND == 0 && range != FULL_RANGE => {
            fitted.microseconds = whole(fitted.microseconds, MICROSECONDS_PER_MINUTE);
        }
        _ => {}
    }
    fitted.microseconds =
        rounded(fitted.microseconds, precision_of(modifier)).ok_or_else(super::interval_out_of_range)?;
    Ok(fitted)
}

/// The text of an interval of such fields: a number without a unit is one of the last field.
pub fn with_unit(text: &str, modifier: i32) -> Cow<'_, str> {
    let range = range_of(modifier);
    let unit = match range {
        FULL_RANGE => return Cow::Borrowed(text),
        YEAR => "years",
        range if range == MONTH || range == YEAR | MONTH => "months",
        DAY => "days",
        range if range == HOUR || range == DAY | HOUR => "hours",
        range if range & SECOND == 0 => "minutes",
        _ => "seconds",
    };
    let is_number = |word: &str| word.parse::<f64>().is_ok() && !word.contains(char::is_alphabetic);
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [number] if is_number(number) => Cow::Owned(format!("{number} {unit}")),
        [days, number] if unit == "hours" && is_number(days) && is_number(number) => {
            Cow::Owned(format!("{days} days {number} hours"))
        }
        // With two fields the clock shows minutes and seconds.
        [clock] if range == MINUTE | SECOND && clock.matches(':').count() == 1 => {
            Cow::Owned(match clock.strip_prefix('-') {
                Some(clock) => format!("-00:{clock}"),
                None => format!("00:{clock}"),
            })
        }
        _ => Cow::Borrowed(text),
    }
}

/// Text after `interval`: `day to hour`, `second(3)`.
pub fn shown_of_interval(modifier: i32) -> String {
    let range = range_of(modifier);
    let fields =
        RANGES.iter().find(|(one, _)| *one == range).map_or(String::new(), |(_, words)| format!(" {words}"));
    match precision_of(modifier) {
        FULL_PRECISION => fields,
        precision => format!("{fields}({precision})"),
    }
}
