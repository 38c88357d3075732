//! Output in DateStyle ISO and IntervalStyle postgres, in the zone of the session; other styles of intervals are in [`super::style`].

use std::fmt::Write;

use super::*;

fn print_date(date: Civil, out: &mut String) {
    let year = if date.year > 0 { date.year } else { 1 - date.year };
    let _ = write!(out, "{year:04}-{:02}-{:02}", date.month, date.day);
}

pub(super) fn fraction(microsecond: i64, out: &mut String) {
    if microsecond != 0 {
        let digits = format!("{microsecond:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

pub fn date(days: i32) -> String {
    match days {
        DATE_INFINITY => "infinity".to_owned(),
        DATE_NEGATIVE_INFINITY => "-infinity".to_owned(),
        _ => {
            let civil = civil_from_days(i64::from(days));
            let mut out = String::with_capacity(10);
            print_date(civil, &mut out);
            if civil.year <= 0 {
                out.push_str(" BC");
            }
            out
        }
    }
}

/// `separator` is a space, or `T` in JSON.
fn timestamp_with(timestamp: i64, separator: char, zone: &str) -> String {
    match timestamp {
        TIMESTAMP_INFINITY => return "infinity".to_owned(),
        TIMESTAMP_NEGATIVE_INFINITY => return "-infinity".to_owned(),
        _ => {}
    }
    let fields = fields_from_timestamp(timestamp);
    let mut out = String::with_capacity(32);
    print_date(fields.date, &mut out);
    let _ = write!(out, "{separator}{:02}:{:02}:{:02}", fields.hour, fields.minute, fields.second);
    fraction(fields.microsecond, &mut out);
    out.push_str(zone);
    if fields.date.year <= 0 {
        out.push_str(" BC");
    }
    out
}

pub fn timestamp(timestamp: i64) -> String {
    timestamp_with(timestamp, ' ', "")
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

fn instant_with(instant: i64, separator: char, with_minutes: bool) -> String {
    let zone = SessionZone::current();
    if zone.is_utc() {
        return timestamp_with(instant, separator, if with_minutes { "+00:00" } else { "+00" });
    }
    if is_infinite_timestamp(instant) {
        return timestamp_with(instant, separator, "");
    }
    let east = zone.offset_at(instant);
    let shown = instant.saturating_add(east * MICROSECONDS_PER_SECOND);
    timestamp_with(shown, separator, &offset(east, with_minutes))
}

pub fn timestamptz(timestamp: i64) -> String {
    instant_with(timestamp, ' ', false)
}

/// As `to_jsonb` prints it.
pub fn timestamp_in_json(timestamp: i64, zoned: bool) -> String {
    if zoned { instant_with(timestamp, 'T', true) } else { timestamp_with(timestamp, 'T', "") }
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
