//! Output in DateStyle ISO and IntervalStyle postgres, in the zone of the session; other styles of intervals are in [`super::style`].

use std::fmt::Write;

use super::*;

/// Two digits of a number below 100.
fn push_two(number: i64, out: &mut Vec<u8>) {
    out.extend([b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]);
}

fn push_civil(date: Civil, out: &mut Vec<u8>) {
    match date.year {
        1_000..=9_999 => {
            push_two(date.year / 100, out);
            push_two(date.year % 100, out);
        }
        year => {
            let year = if year > 0 { year } else { 1 - year };
            out.extend_from_slice(format!("{year:04}").as_bytes());
        }
    }
    out.push(b'-');
    push_two(date.month, out);
    out.push(b'-');
    push_two(date.day, out);
}

/// The bytes as a string: this module pushes ASCII alone.
fn string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

pub(super) fn fraction(microsecond: i64, out: &mut String) {
    if microsecond != 0 {
        let digits = format!("{microsecond:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

pub fn date(days: i32) -> String {
    let mut out = Vec::with_capacity(10);
    push_date(days, &mut out);
    string(out)
}

pub fn push_date(days: i32, out: &mut Vec<u8>) {
    match days {
        DATE_INFINITY => out.extend_from_slice(b"infinity"),
        DATE_NEGATIVE_INFINITY => out.extend_from_slice(b"-infinity"),
        _ => {
            let civil = civil_from_days(i64::from(days));
            push_civil(civil, out);
            if civil.year <= 0 {
                out.extend_from_slice(b" BC");
            }
        }
    }
}

/// `separator` is a space, or `T` in JSON.
fn push_timestamp_with(timestamp: i64, separator: u8, zone: &str, out: &mut Vec<u8>) {
    match timestamp {
        TIMESTAMP_INFINITY => return out.extend_from_slice(b"infinity"),
        TIMESTAMP_NEGATIVE_INFINITY => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let fields = fields_from_timestamp(timestamp);
    push_civil(fields.date, out);
    out.push(separator);
    push_two(fields.hour, out);
    out.push(b':');
    push_two(fields.minute, out);
    out.push(b':');
    push_two(fields.second, out);
    if fields.microsecond != 0 {
        out.push(b'.');
        push_two(fields.microsecond / 10_000, out);
        push_two(fields.microsecond / 100 % 100, out);
        push_two(fields.microsecond % 100, out);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
    out.extend_from_slice(zone.as_bytes());
    if fields.date.year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

pub fn push_timestamp(timestamp: i64, out: &mut Vec<u8>) {
    push_timestamp_with(timestamp, b' ', "", out);
}

pub fn push_timestamptz(timestamp: i64, out: &mut Vec<u8>) {
    push_instant_with(timestamp, b' ', false, out);
}

pub fn timestamp(timestamp: i64) -> String {
    let mut out = Vec::with_capacity(32);
    push_timestamp(timestamp, &mut out);
    string(out)
}

/// `+02`, `+05:30`, `-04:56:02`.
pub fn offset(east: i64, with_minutes: bool) -> String {
    let (sign, seconds) = (if east < 0 { '-' } else { '+' }, east.unsigned_abs());
    let mut out = format!("{sign}{:02}", seconds / 3600);
    if with_minutes || seconds % 3600 != 0 {
        let _ = write!(out, ":{:02}", seconds / 60 % 60);
    }
    if seconds % 60 != 0 {
        let _ = write!(out, ":{:02}", seconds % 60);
    }
    out
}

fn push_instant_with(instant: i64, separator: u8, with_minutes: bool, out: &mut Vec<u8>) {
    let zone = SessionZone::current();
    if zone.is_utc() {
        let told = if with_minutes { "+00:00" } else { "+00" };
        return push_timestamp_with(instant, separator, told, out);
    }
    if is_infinite_timestamp(instant) {
        return push_timestamp_with(instant, separator, "", out);
    }
    let east = zone.offset_at(instant);
    let shown = instant.saturating_add(east * MICROSECONDS_PER_SECOND);
    push_timestamp_with(shown, separator, &offset(east, with_minutes), out);
}

pub fn timestamptz(timestamp: i64) -> String {
    let mut out = Vec::with_capacity(32);
    push_timestamptz(timestamp, &mut out);
    string(out)
}

/// As `to_jsonb` prints it.
pub fn timestamp_in_json(timestamp: i64, zoned: bool) -> String {
    let mut out = Vec::with_capacity(32);
    match zoned {
        true => push_instant_with(timestamp, b'T', true, &mut out),
        false => push_timestamp_with(timestamp, b'T', "", &mut out),
    }
    string(out)
}

pub fn interval(interval: &Interval) -> String {
    let mut out = String::new();
    // After a negative part, a positive one shows its sign.
    let mut after_negative = false;
    let (years, months) = (interval.months / 12, interval.months % 12);
    for (amount, unit) in [(years, "year"), (months, "mon"), (interval.days, "day")] {
        if amount == 0 {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        let plus = if after_negative && amount > 0 { "+" } else { "" };
        let plural = if amount == 1 { "" } else { "s" };
        let _ = write!(out, "{plus}{amount} {unit}{plural}");
        after_negative = amount < 0;
    }
    if interval.microseconds != 0 || out.is_empty() {
        if !out.is_empty() {
            out.push(' ');
        }
        let time = interval.microseconds.unsigned_abs();
        let sign = match interval.microseconds < 0 {
            true => "-",
            false if after_negative => "+",
            false => "",
        };
        let per_hour = MICROSECONDS_PER_HOUR as u64;
        let per_minute = MICROSECONDS_PER_MINUTE as u64;
        let _ = write!(
            out,
            "{sign}{:02}:{:02}:{:02}",
            time / per_hour,
            time / per_minute % 60,
            time / 1_000_000 % 60
        );
        fraction((time % 1_000_000) as i64, &mut out);
    }
    out
}
