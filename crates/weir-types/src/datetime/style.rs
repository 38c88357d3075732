//! Output of intervals in each IntervalStyle that does not change how they are read: PostgreSQL's EncodeInterval.

use std::fmt::Write;

use super::print;
use super::{MICROSECONDS_PER_HOUR, MICROSECONDS_PER_MINUTE, MICROSECONDS_PER_SECOND};
use crate::value::Interval;

/// `sql_standard` is none of them: with it the sign of a literal's first field is that of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    #[default]
    Postgres,
    PostgresVerbose,
    Iso8601,
}

impl IntervalStyle {
    /// By its name as a setting.
    pub fn named(name: &str) -> Option<IntervalStyle> {
        match name {
            "postgres" => Some(IntervalStyle::Postgres),
            "postgres_verbose" => Some(IntervalStyle::PostgresVerbose),
            "iso_8601" => Some(IntervalStyle::Iso8601),
            _ => None,
        }
    }

    pub fn print(self, interval: &Interval) -> String {
        match self {
            IntervalStyle::Postgres => print::interval(interval),
            IntervalStyle::PostgresVerbose => verbose(interval),
            IntervalStyle::Iso8601 => iso_8601(interval),
        }
    }
}

/// The fields that are printed; all of the time have one sign.
struct Fields {
    /// Years, months, days, hours, minutes.
    whole: [i64; 5],
    /// Seconds, in microseconds.
    seconds: i64,
}

impl Fields {
    fn of(interval: &Interval) -> Fields {
        let (months, time) = (i64::from(interval.months), interval.microseconds);
        let (hours, minutes) = (time / MICROSECONDS_PER_HOUR, time / MICROSECONDS_PER_MINUTE % 60);
        Fields {
            whole: [months / 12, months % 12, i64::from(interval.days), hours, minutes],
            seconds: time % MICROSECONDS_PER_MINUTE,
        }
    }
}

/// Without a sign.
fn print_seconds(microseconds: i64, out: &mut String) {
    let microseconds = microseconds.abs();
    let _ = write!(out, "{}", microseconds / MICROSECONDS_PER_SECOND);
    print::fraction(microseconds % MICROSECONDS_PER_SECOND, out);
}

/// `@ 1 year 2 mons -3 days`: the first field's sign is shown as `ago`, and the others' are seen from there.
fn verbose(interval: &Interval) -> String {
    let Fields { whole, seconds } = Fields::of(interval);
    let mut out = "@".to_owned();
    let mut is_ago = None;
    for (amount, unit) in whole.into_iter().zip(["year", "mon", "day", "hour", "min"]) {
        if amount != 0 {
            let shown = if *is_ago.get_or_insert(amount < 0) { -amount } else { amount };
            let _ = write!(out, " {shown} {unit}{}", if shown == 1 { "" } else { "s" });
        }
    }
    if seconds != 0 {
        let is_negative = *is_ago.get_or_insert(seconds < 0) != (seconds < 0);
        out.push_str(if is_negative { " -" } else { " " });
        print_seconds(seconds, &mut out);
        let is_one = seconds.abs() == MICROSECONDS_PER_SECOND;
        out.push_str(if is_one { " sec" } else { " secs" });
    }
    out.push_str(match is_ago {
        None => " 0",
        Some(true) => " ago",
        Some(false) => "",
    });
    out
}

/// `P1Y2M-3DT4H5M6.7S`: each field with its own sign.
fn iso_8601(interval: &Interval) -> String {
    let Fields { whole, seconds } = Fields::of(interval);
    let mut out = "P".to_owned();
    for (at, (amount, unit)) in whole.into_iter().zip(['Y', 'M', 'D', 'H', 'M']).enumerate() {
        if at == 3 && interval.microseconds != 0 {
            out.push('T');
        }
        if amount != 0 {
            let _ = write!(out, "{amount}{unit}");
        }
    }
    if seconds != 0 {
        out.push_str(if seconds < 0 { "-" } else { "" });
        print_seconds(seconds, &mut out);
        out.push('S');
    }
    if out == "P" {
        out.push_str("T0S");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::parse;

    /// The same output as PostgreSQL 15.
    #[test]
    fn intervals_are_printed_in_each_style() {
        let check = |text: &str, verbose: &str, iso_8601: &str| {
            let interval = parse::interval(text).unwrap();
            assert_eq!(IntervalStyle::PostgresVerbose.print(&interval), verbose, "{text}");
            assert_eq!(IntervalStyle::Iso8601.print(&interval), iso_8601, "{text}");
        };
        check(
            "1 year 2 mons 3 days 04:05:06.7",
            "@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs",
            "P1Y2M3DT4H5M6.7S",
        );
        check(
            "-1 year 2 mons -3 days 04:05:06.7",
            "@ 10 mons 3 days -4 hours -5 mins -6.7 secs ago",
            "P-10M-3DT4H5M6.7S",
        );
        check("0", "@ 0", "PT0S");
        check("-00:00:01", "@ 1 sec ago", "PT-1S");
        check("00:00:01", "@ 1 sec", "PT1S");
        check("1 day -00:00:01", "@ 1 day -1 sec", "P1DT-1S");
        check("-1 day 00:00:00.5", "@ 1 day -0.5 secs ago", "P-1DT0.5S");
        check("1 mon -1 day", "@ 1 mon -1 days", "P1M-1D");
        check("-14 mons", "@ 1 year 2 mons ago", "P-1Y-2M");
        check("-1 days +02:03:00", "@ 1 day -2 hours -3 mins ago", "P-1DT2H3M");
        check("00:00:00.000001", "@ 0.000001 secs", "PT0.000001S");
        check(
            "100 hours 59 mins 59.999999 secs",
            "@ 100 hours 59 mins 59.999999 secs",
            "PT100H59M59.999999S",
        );
        check("-1 mons -1 hours", "@ 1 mon 1 hour ago", "P-1MT-1H");
        check("1 mon 1 day 1 hour 1 min 1 sec", "@ 1 mon 1 day 1 hour 1 min 1 sec", "P1M1DT1H1M1S");
        check("-178000000 years", "@ 178000000 years ago", "P-178000000Y");
        check("2147483647 days", "@ 2147483647 days", "P2147483647D");
    }
}
