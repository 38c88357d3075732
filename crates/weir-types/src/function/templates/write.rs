//! `to_char` of timestamps and intervals.

use super::{Case, DAYS, MONTHS, Node, ROMAN_MONTHS, ordinal_suffix, parse};
use crate::datetime::fields::{day_of_week, day_of_year, iso_week, iso_week_start};
use crate::datetime::print::offset;
use crate::datetime::{
    Civil, Fields, MICROSECONDS_PER_HOUR, MICROSECONDS_PER_MINUTE, SessionZone, days_from_civil,
    fields_from_timestamp,
};
use crate::error::{SqlError, SqlState};
use crate::value::Interval;

fn in_case(text: &str, case: Case) -> String {
    match case {
        Case::Upper => text.to_uppercase(),
        Case::Lower => text.to_lowercase(),
        Case::Capital => text.to_owned(),
    }
}

struct Writer {
    fields: Fields,
    /// An interval has neither a weekday nor a month name.
    is_interval: bool,
    /// Seconds east of UTC and what clocks are called there, of an instant.
    zone: Option<(i64, String)>,
}

pub(super) fn timestamp(timestamp: i64, template: &str, zoned: bool) -> String {
    let zone = if zoned { SessionZone::current() } else { SessionZone::UTC };
    let fields = fields_from_timestamp(zone.shown_at(timestamp));
    let zone = zoned.then(|| (zone.offset_at(timestamp), zone.abbreviation_at(timestamp)));
    let writer = Writer { fields, is_interval: false, zone };
    writer.write(template).unwrap_or_default()
}

/// 22007 for patterns that have no meaning for an interval.
pub(super) fn interval(interval: &Interval, template: &str) -> Result<String, SqlError> {
    let time = interval.microseconds;
    let fields = Fields {
        date: Civil {
            year: i64::from(interval.months / 12),
            month: i64::from(interval.months % 12),
            day: i64::from(interval.days),
        },
        hour: time / MICROSECONDS_PER_HOUR,
        minute: time / MICROSECONDS_PER_MINUTE % 60,
        second: time / 1_000_000 % 60,
        microsecond: time % 1_000_000,
    };
    Writer { fields, is_interval: true, zone: None }.write(template).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_DATETIME_FORMAT, "invalid format specification for an interval value")
            .with_hint("Intervals are not tied to specific calendar dates.")
    })
}

impl Writer {
    fn write(&self, template: &str) -> Option<String> {
        let mut out = String::new();
        for node in parse(template) {
            match node {
                Node::Plain(c) | Node::Quoted(c) => out.push(c),
                Node::Field { name, case, fill, ordinal } => {
                    if let Some((number, width)) = self.number(name) {
                        let text = if fill { number.to_string() } else { padded(number, width) };
                        out.push_str(&text);
                        if let Some(upper) = ordinal {
                            out.push_str(ordinal_suffix(&text, upper));
                        }
                    } else {
                        out.push_str(&self.word(name, case, fill)?);
                    }
                }
            }
        }
        Some(out)
    }

    fn east(&self) -> i64 {
        self.zone.as_ref().map_or(0, |(east, _)| *east)
    }

    fn days(&self) -> i64 {
        days_from_civil(self.fields.date)
    }

    /// The year that is displayed: of 1 BC, 1.
    fn year(&self) -> i64 {
        let year = self.fields.date.year;
        if year > 0 || self.is_interval { year } else { 1 - year }
    }

    fn iso_year(&self) -> i64 {
        let year = iso_week(self.days()).0;
        if year > 0 { year } else { 1 - year }
    }

    /// A numeric pattern's value and its width with leading zeros.
    fn number(&self, name: &str) -> Option<(i64, usize)> {
        let Fields { date, hour, minute, second, microsecond } = self.fields;
        let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
        let fraction = |digits: u32| microsecond / 10i64.pow(6 - digits);
        let calendar = !self.is_interval;
        Some(match name {
            "HH24" => (hour, 2),
            "HH12" | "HH" => (hour12, 2),
            "MI" => (minute, 2),
            "SS" => (second, 2),
            "MS" | "FF3" => (fraction(3), 3),
            "US" | "FF6" => (microsecond, 6),
            "FF1" => (fraction(1), 1),
            "FF2" => (fraction(2), 2),
            "FF4" => (fraction(4), 4),
            "FF5" => (fraction(5), 5),
            "SSSS" | "SSSSS" => ((hour * 60 + minute) * 60 + second, 1),
            "MM" => (date.month, 2),
            "DD" => (date.day, 2),
            "YYYY" => (self.year(), 4),
            "YYY" => (self.year() % 1000, 3),
            "YY" => (self.year() % 100, 2),
            "Y" => (self.year() % 10, 1),
            "CC" if calendar => (if date.year > 0 { (date.year + 99) / 100 } else { date.year / 100 - 1 }, 2),
            "CC" => (date.year / 100, 2),
            "Q" if date.month > 0 => ((date.month - 1) / 3 + 1, 1),
            "DDD" if calendar => (day_of_year(date), 3),
            "D" if calendar => (day_of_week(self.days()) + 1, 1),
            "ID" if calendar => ((day_of_week(self.days()) + 6) % 7 + 1, 1),
            "WW" if calendar => ((day_of_year(date) - 1) / 7 + 1, 2),
            "W" => ((date.day - 1) / 7 + 1, 1),
            "IW" if calendar => (iso_week(self.days()).1, 2),
            "IDDD" if calendar => (self.days() - iso_week_start(iso_week(self.days()).0, 1) + 1, 3),
            "IYYY" if calendar => (self.iso_year(), 4),
            "IYY" if calendar => (self.iso_year() % 1000, 3),
            "IY" if calendar => (self.iso_year() % 100, 2),
            "I" if calendar => (self.iso_year() % 10, 1),
            "J" if calendar => (self.days() + 2_451_545, 1),
            _ => return None,
        })
    }

    fn word(&self, name: &str, case: Case, fill: bool) -> Option<String> {
        let date = self.fields.date;
        let afternoon = self.fields.hour.rem_euclid(24) >= 12;
        let (text, width) = match name {
            "AM" | "PM" => (in_case(if afternoon { "PM" } else { "AM" }, case), 0),
            "A.M." | "P.M." => (in_case(if afternoon { "P.M." } else { "A.M." }, case), 0),
            "Y,YYY" => {
                let year = self.year();
                (format!("{},{:03}", year / 1000, year % 1000), 0)
            }
            "RM" => {
                let roman = ROMAN_MONTHS.get(usize::try_from(date.month - 1).ok()?)?;
                (in_case(roman, case), 4)
            }
            "TZ" if self.is_interval => return None,
            "TZ" => (self.zone.as_ref().map_or_else(String::new, |(_, name)| in_case(name, case)), 0),
            "OF" => (of_offset(self.east()), 0),
            "TZH" => (of_offset(self.east())[..3].to_owned(), 0),
            "TZM" => (format!("{:02}", self.east().abs() / 60 % 60), 0),
            "Q" => (String::new(), 0),
            _ if self.is_interval => return None,
            "AD" | "BC" => (in_case(if date.year > 0 { "AD" } else { "BC" }, case), 0),
            "A.D." | "B.C." => (in_case(if date.year > 0 { "A.D." } else { "B.C." }, case), 0),
            "MONTH" => (in_case(MONTHS[date.month as usize - 1], case), 9),
            "MON" => (in_case(&MONTHS[date.month as usize - 1][..3], case), 0),
            "DAY" => (in_case(DAYS[day_of_week(self.days()) as usize], case), 9),
            "DY" => (in_case(&DAYS[day_of_week(self.days()) as usize][..3], case), 0),
            _ => return None,
        };
        Some(if fill { text } else { format!("{text:<width$}") })
    }
}

/// Hours, and minutes if there are any.
fn of_offset(east: i64) -> String {
    offset(east / 60 * 60, false)
}

fn padded(number: i64, width: usize) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{:0>width$}", number.unsigned_abs())
}
