//! `to_date` and `to_timestamp` of text.

use super::{DAYS, MONTHS, Node, ROMAN_MONTHS, parse};
use crate::datetime::fields::iso_week_start;
use crate::datetime::{
    Civil, MICROSECONDS_PER_SECOND, SessionZone, civil_from_days, date_from_days, date_out_of_range,
    days_from_civil, days_in_month, is_leap, timestamp_from_day, timestamp_out_of_range,
};
use crate::error::{SqlError, SqlState};

/// Fields found by the template.
#[derive(Default)]
struct Found {
    /// Year; of the ISO calendar if [`Found::convention`] says so. 0: not given.
    year: i64,
    year_digits: usize,
    century: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    week: i64,
    week_of_month: i64,
    /// From 1, Sunday.
    weekday: i64,
    julian: i64,
    convention: Option<Convention>,
    hour: i64,
    twelve_hours: bool,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    microsecond: i64,
    second_of_day: Option<i64>,
    before_christ: bool,
    offset_seconds: i64,
    has_offset: bool,
}

/// The calendar that a field is of.
#[derive(Clone, Copy, PartialEq)]
enum Convention {
    Gregorian,
    IsoWeek,
}

fn convention_of(name: &str) -> Option<Convention> {
    match name {
        "IYYY" | "IYY" | "IY" | "I" | "IW" | "ID" | "IDDD" => Some(Convention::IsoWeek),
        "YYYY" | "Y,YYY" | "YYY" | "YY" | "Y" | "MM" | "MON" | "MONTH" | "RM" | "DD" | "DDD" | "D" | "W"
        | "WW" => Some(Convention::Gregorian),
        _ => None,
    }
}

fn format_error(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

pub(super) fn date(text: &str, template: &str) -> Result<i32, SqlError> {
    let found = scan(text, template)?;
    let days = found.days(text)?;
    found.time(text)?;
    date_from_days(days).ok_or_else(date_out_of_range)
}

/// Microseconds since 2000-01-01 UTC. Without an offset in the text it is local in the session's zone.
pub(super) fn timestamp(text: &str, template: &str) -> Result<i64, SqlError> {
    let found = scan(text, template)?;
    let days = found.days(text)?;
    let time = found.time(text)? - found.offset_seconds * MICROSECONDS_PER_SECOND;
    let timestamp = timestamp_from_day(days, time).ok_or_else(timestamp_out_of_range)?;
    if found.has_offset { Ok(timestamp) } else { SessionZone::current().instant_of(timestamp) }
}

fn out_of_range(text: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{text}\""),
    )
}

impl Found {
    fn days(&self, text: &str) -> Result<i64, SqlError> {
        let year = self.year();
        let has_year = self.year != 0 || self.century != 0;
        let (mut month, mut day) = (1, 1);
        let (mut has_month, mut has_day) = (false, false);
        let mut day_of_year = self.day_of_year;
        let is_iso = self.convention == Some(Convention::IsoWeek);
        let civil = |days: i64| civil_from_days(days);
        let mut start = Civil { year, month, day };
        if self.julian != 0 {
            start = civil(self.julian - 2_451_545);
            (month, day, has_month, has_day) = (start.month, start.day, true, true);
        }
        if self.week != 0 && is_iso {
            let behind_monday = match self.weekday {
                0 => 0,
                1 => 6,
                weekday => weekday - 2,
            };
            start = civil(iso_week_start(year, self.week) + behind_monday);
            (month, day, has_month, has_day) = (start.month, start.day, true, true);
        } else if self.week != 0 {
            day_of_year = (self.week - 1) * 7 + 1;
        }
        let year = start.year;
        let given_day = if self.week_of_month != 0 { (self.week_of_month - 1) * 7 + 1 } else { self.day };
        if given_day != 0 {
            (day, has_day) = (given_day, true);
        }
        if self.month != 0 {
            (month, has_month) = (self.month, true);
        }
        if day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && !self.before_christ {
                return Err(format_error("cannot calculate day of year without year information".to_owned()));
            }
            if is_iso {
                return Ok(iso_week_start(year, 1) - 1 + day_of_year);
            }
            let last = 365 + i64::from(is_leap(year));
            let date = civil(days_from_civil(Civil { year, month: 1, day: 1 }) + day_of_year.min(last) - 1);
            let date = match day_of_year > last {
                true => Civil { month: 13, day: day_of_year - last, ..date },
                false => date,
            };
            month = if month <= 1 { date.month } else { month };
            day = if day <= 1 { date.day } else { day };
            (has_month, has_day) = (true, true);
        }
        let days_max = match (has_year || has_month && has_day && self.julian != 0, has_month) {
            (true, true) if (1..=12).contains(&month) => days_in_month(year, month),
            _ => 31,
        };
        if has_month && !(1..=12).contains(&month) || has_day && !(1..=days_max).contains(&day) {
            return Err(out_of_range(text));
        }
        Ok(days_from_civil(Civil { year, month, day: 1 }) + day - 1)
    }

    /// As calendars count: 1 BC is the year 0.
    fn year(&self) -> i64 {
        let century = if self.before_christ { -self.century } else { self.century };
        if self.year == 0 {
            return match century {
                0 => 0,
                century if century > 0 => (century - 1) * 100 + 1,
                century => century * 100 + 1,
            };
        }
        if century != 0 && self.year_digits <= 2 {
            return match (self.year % 100, century > 0) {
                (0, true) => century * 100,
                (0, false) => century * 100 + 1,
                (year, true) => (century - 1) * 100 + year,
                (year, false) => (century + 1) * 100 - year + 1,
            };
        }
        let year = if self.before_christ { -self.year } else { self.year };
        if year < 0 { year + 1 } else { year }
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
        if !(0..24).contains(&hour) || !(0..60).contains(&self.minute) || !(0..60).contains(&self.second) {
            return Err(out_of_range(text));
        }
        let second = self.second_of_day.unwrap_or((hour * 60 + self.minute) * 60 + self.second);
        if second >= 86_400 {
            return Err(out_of_range(text));
        }
        Ok(second * MICROSECONDS_PER_SECOND + self.microsecond)
    }
}

/// Most digits that a numeric pattern takes, where digits follow at once.
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

/// Returns whether a character may separate fields.
fn separates(c: char) -> bool {
    c.is_whitespace() || c.is_ascii_punctuation()
}

fn scan(text: &str, template: &str) -> Result<Found, SqlError> {
    let nodes = parse(template);
    let mut found = Found::default();
    let mut rest = text;
    // Blanks that were passed over, and that no separator of the template stands for yet.
    let mut skipped: usize = 0;
    let blanks = |rest: &mut &str| {
        let trimmed = rest.trim_start();
        let count = rest[..rest.len() - trimmed.len()].chars().count();
        *rest = trimmed;
        count
    };
    for (i, node) in nodes.iter().enumerate() {
        if i == 0 || matches!(node, Node::Field { .. }) {
            skipped += blanks(&mut rest);
        }
        let Some(next) = rest.chars().next() else { break };
        match node {
            Node::Plain(c) if separates(*c) => match separates(next) {
                true => rest = &rest[next.len_utf8()..],
                false => skipped = skipped.saturating_sub(1),
            },
            Node::Plain(_) | Node::Quoted(_) if skipped > 0 => skipped -= 1,
            Node::Plain(_) | Node::Quoted(_) => rest = &rest[next.len_utf8()..],
            Node::Field { name, ordinal, .. } => {
                rest = field(name, rest, is_numeric(nodes.get(i + 1)), &mut found)?;
                if ordinal.is_some() {
                    rest = rest.get(2..).unwrap_or("");
                }
                skipped = blanks(&mut rest);
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
    let convention = convention_of(name);
    if convention.is_some() && found.convention.is_some() && convention != found.convention {
        return Err(format_error("invalid combination of date conventions".to_owned())
            .with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
    }
    found.convention = found.convention.or(convention);
    match name {
        "MONTH" => {
            // A month that is cut off after three letters is accepted too.
            let (at, rest) = word(rest, name, &MONTHS).or_else(|_| word(rest, name, &short(&MONTHS)))?;
            set(&mut found.month, at as i64 + 1, name)?;
            return Ok(rest);
        }
        "MON" => {
            let (at, rest) = word(rest, name, &short(&MONTHS))?;
            set(&mut found.month, at as i64 + 1, name)?;
            return Ok(rest);
        }
        "DAY" | "DY" => {
            let found_word =
                if name == "DAY" { word(rest, name, &DAYS) } else { word(rest, name, &short(&DAYS)) };
            let (at, rest) = found_word?;
            set(&mut found.weekday, at as i64 + 1, name)?;
            return Ok(rest);
        }
        "RM" => {
            let (at, rest) = word(rest, name, &ROMAN_MONTHS)?;
            set(&mut found.month, at as i64 + 1, name)?;
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
            set(&mut found.year, year.map_or(0, i64::from), name)?;
            found.year_digits = 4;
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

/// A field may be given again with the same value only.
fn set(field: &mut i64, value: i64, name: &str) -> Result<(), SqlError> {
    if *field != 0 && *field != value {
        let error = format_error(format!("conflicting values for \"{name}\" field in formatting string"));
        return Err(error.with_detail("This value contradicts a previous setting for the same field type."));
    }
    *field = value;
    Ok(())
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
    found.has_offset |= matches!(name, "TZH" | "TZM");
    match name {
        "YYYY" | "IYYY" => {
            set(&mut found.year, value, name)?;
            found.year_digits = taken;
        }
        "YYY" | "YY" | "Y" | "IYY" | "IY" | "I" => {
            set(&mut found.year, short_year(value, taken), name)?;
            found.year_digits = taken;
        }
        "CC" => set(&mut found.century, value, name)?,
        "IW" | "WW" => set(&mut found.week, value, name)?,
        "ID" => set(&mut found.weekday, if value >= 7 { 1 } else { value + 1 }, name)?,
        "D" => set(&mut found.weekday, value, name)?,
        "W" => set(&mut found.week_of_month, value, name)?,
        "MM" => set(&mut found.month, value, name)?,
        "DD" => set(&mut found.day, value, name)?,
        "DDD" | "IDDD" => set(&mut found.day_of_year, value, name)?,
        "J" => set(&mut found.julian, value, name)?,
        "HH24" => set(&mut found.hour, value, name)?,
        "HH" | "HH12" => {
            set(&mut found.hour, value, name)?;
            found.twelve_hours = true;
        }
        "MI" => set(&mut found.minute, value, name)?,
        "SS" => set(&mut found.second, value, name)?,
        "SSSS" | "SSSSS" => found.second_of_day = Some(value),
        "TZH" => found.offset_seconds += value * 3600,
        "TZM" => found.offset_seconds += value * 60 * if found.offset_seconds < 0 { -1 } else { 1 },
        "Q" => {}
        _ => found.microsecond = six_digits(),
    }
    Ok(&body[taken..])
}
