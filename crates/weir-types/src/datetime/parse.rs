//! Input of dates, timestamps and intervals, in the forms that PostgreSQL's ISO, MDY style reads.
//!
//! `now`, `today` and other words that need a clock are refused: this crate has none.

mod interval_text;

use super::zone::Zone;
use super::*;

pub use interval_text::interval;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
/// Largest number in a date or time, so that its arithmetic cannot overflow.
const FIELD_MAX: i64 = 2_147_483_647;

#[derive(Clone, Copy, PartialEq)]
enum Special {
    Infinity,
    NegativeInfinity,
    Epoch,
}

#[derive(Default)]
struct Scan {
    special: Option<Special>,
    date: Option<Civil>,
    /// Microseconds since midnight.
    time: Option<i64>,
    zone: Option<Zone>,
    month: Option<i64>,
    numbers: Vec<(i64, usize)>,
    before_christ: bool,
    afternoon: Option<bool>,
}

enum Failure {
    Syntax,
    Overflow,
    MonthOrDayOverflow,
    ZoneOverflow,
    Clock(String),
    Zone(String),
}

fn error(failure: Failure, text: &str, type_name: &str) -> SqlError {
    match failure {
        Failure::Syntax => SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        ),
        Failure::Overflow => SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        ),
        Failure::MonthOrDayOverflow => SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        )
        .with_hint("Perhaps you need a different \"datestyle\" setting."),
        Failure::ZoneOverflow => SqlError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        Failure::Clock(word) => SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("the date/time input \"{word}\" is not supported"),
        )
        .with_hint("Use now() or current_date."),
        Failure::Zone(word) => {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{word}\" not recognized"))
        }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&accept) {
            self.at += 1;
        }
        std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or("")
    }

    fn digits(&mut self) -> &'a str {
        self.take_while(|b| b.is_ascii_digit())
    }

    fn number(&mut self) -> Result<(i64, usize), Failure> {
        let digits = self.digits();
        let value = digits.parse().map_err(|_| Failure::Syntax)?;
        // Larger numbers are no field of any date or time.
        if value > FIELD_MAX { Err(Failure::Overflow) } else { Ok((value, digits.len())) }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Digits after a decimal point, as microseconds.
    fn fraction(&mut self) -> i64 {
        microseconds_of_fraction(self.digits())
    }
}

fn microseconds_of_fraction(digits: &str) -> i64 {
    let value: f64 = format!("0.{digits}0").parse().unwrap_or(0.0);
    (value * 1e6).round_ties_even() as i64
}

fn month_of(word: &str) -> Option<i64> {
    let known = |name: &&str| *name == word || (word.len() == 3 && name.starts_with(word));
    MONTHS.iter().position(known).or((word == "sept").then_some(8)).map(|at| at as i64 + 1)
}

fn is_day_name(word: &str) -> bool {
    DAYS.iter().any(|name| *name == word || (word.len() == 3 && name.starts_with(word)))
}

fn scan(text: &str) -> Result<Scan, Failure> {
    let lower = text.to_ascii_lowercase();
    let mut cursor = Cursor { bytes: lower.as_bytes(), at: 0 };
    let mut scan = Scan::default();
    let mut after_t = false;
    while let Some(b) = cursor.peek() {
        match b {
            b' ' | b'\t' | b'\n' | b'\r' | b',' => cursor.at += 1,
            b'0'..=b'9' => {
                number_or_date_or_time(&mut cursor, &mut scan, after_t)?;
                after_t = false;
            }
            b'+' | b'-' if scan.time.is_some() || scan.date.is_some() => {
                offset(&mut cursor, &mut scan)?;
            }
            b'-' if lower.trim() == "-infinity" => {
                scan.special = Some(Special::NegativeInfinity);
                return Ok(scan);
            }
            b'+' if lower.trim() == "+infinity" => {
                scan.special = Some(Special::Infinity);
                return Ok(scan);
            }
            b'a'..=b'z' => {
                let start = cursor.at;
                let mut word = cursor.take_while(|b| b.is_ascii_alphabetic() || b == b'/' || b == b'_');
                if word.contains('/') {
                    // `Etc/GMT+3`, `America/Port-au-Prince`.
                    cursor.at = start;
                    word = cursor.take_while(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(&b));
                }
                after_t = word == "t";
                if !after_t {
                    scan_word(word, &mut scan)?;
                } else if !cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
                    return Err(Failure::Syntax);
                }
            }
            _ => return Err(Failure::Syntax),
        }
    }
    assemble(scan)
}

fn scan_word(word: &str, scan: &mut Scan) -> Result<(), Failure> {
    if let Some(month) = month_of(word) {
        if scan.month.replace(month).is_some() {
            return Err(Failure::Syntax);
        }
    } else {
        match word {
            "am" | "pm" => scan.afternoon = Some(word == "pm"),
            "bc" => scan.before_christ = true,
            "ad" | "at" => {}
            "epoch" => scan.special = Some(Special::Epoch),
            "infinity" | "inf" => scan.special = Some(Special::Infinity),
            "now" | "today" | "tomorrow" | "yesterday" | "allballs" => {
                return Err(Failure::Clock(word.to_owned()));
            }
            _ if is_day_name(word) => {}
            _ => {
                let unknown = |_| match word.contains('/') {
                    true => Failure::Zone(word.to_owned()),
                    false => Failure::Syntax,
                };
                let zone = if word == "z" { Zone::Fixed(0) } else { Zone::named(word).map_err(unknown)? };
                set_zone(scan, zone)?;
            }
        }
    }
    Ok(())
}

fn number_or_date_or_time(cursor: &mut Cursor, scan: &mut Scan, after_t: bool) -> Result<(), Failure> {
    let first = cursor.number()?;
    match cursor.peek() {
        Some(b':') => clock_time(cursor, scan, first.0),
        Some(separator @ (b'-' | b'/' | b'.'))
            if scan.date.is_none()
                && cursor.bytes.get(cursor.at + 1).is_some_and(|b| b.is_ascii_alphanumeric()) =>
        {
            separated_date(cursor, scan, first, separator)
        }
        _ if after_t && (first.1 == 6 || first.1 == 4) => {
            let value = if first.1 == 4 { first.0 * 100 } else { first.0 };
            let fraction = if cursor.eat(b'.') { cursor.fraction() } else { 0 };
            set_time(scan, value / 10_000, value / 100 % 100, value % 100, fraction)
        }
        _ if scan.date.is_none() && scan.month.is_none() && (first.1 == 8 || first.1 == 6) => {
            let (year, rest) = (first.0 / 10_000, first.0 % 10_000);
            let year = if first.1 == 6 { short_year(year, 2) } else { year };
            set_date(scan, year, rest / 100, rest % 100)
        }
        _ => {
            scan.numbers.push(first);
            Ok(())
        }
    }
}

fn short_year(year: i64, digits: usize) -> i64 {
    match year {
        _ if digits > 2 => year,
        0..=69 => year + 2000,
        _ => year + 1900,
    }
}

fn separated_date(
    cursor: &mut Cursor,
    scan: &mut Scan,
    first: (i64, usize),
    separator: u8,
) -> Result<(), Failure> {
    cursor.at += 1;
    if cursor.peek().is_some_and(|b| b.is_ascii_alphabetic()) {
        let month = month_of(cursor.take_while(|b| b.is_ascii_alphabetic())).ok_or(Failure::Syntax)?;
        if !cursor.eat(separator) {
            return Err(Failure::Syntax);
        }
        let last = cursor.number()?;
        let (year, day) = if first.1 > 2 { (first, last.0) } else { (last, first.0) };
        return set_date(scan, short_year(year.0, year.1), month, day);
    }
    let second = cursor.number()?;
    if !cursor.eat(separator) {
        // Year and day of the year.
        if first.1 == 4 && second.1 == 3 {
            let start = days_from_civil(Civil { year: first.0, month: 1, day: 1 });
            let date = civil_from_days(start + second.0 - 1);
            return set_date(scan, date.year, date.month, date.day);
        }
        return Err(Failure::Syntax);
    }
    let third = cursor.number()?;
    if first.1 > 2 {
        set_date(scan, first.0, second.0, third.0)
    } else {
        set_date(scan, short_year(third.0, third.1), first.0, second.0)
    }
}

fn set_date(scan: &mut Scan, year: i64, month: i64, day: i64) -> Result<(), Failure> {
    match scan.date.replace(Civil { year, month, day }) {
        None => Ok(()),
        Some(_) => Err(Failure::Syntax),
    }
}

fn clock_time(cursor: &mut Cursor, scan: &mut Scan, hour: i64) -> Result<(), Failure> {
    cursor.at += 1;
    let minute = cursor.number()?.0;
    let (mut second, mut fraction) = (0, 0);
    if cursor.eat(b':') {
        second = cursor.number()?.0;
        if cursor.eat(b'.') {
            fraction = cursor.fraction();
        }
    }
    set_time(scan, hour, minute, second, fraction)
}

fn set_time(scan: &mut Scan, hour: i64, minute: i64, second: i64, fraction: i64) -> Result<(), Failure> {
    let midnight = hour == 24 && (minute, second, fraction) == (0, 0, 0);
    if (hour > 23 && !midnight) || minute > 59 || second > 60 {
        return Err(Failure::Overflow);
    }
    let time = ((hour * 60 + minute) * 60 + second) * MICROSECONDS_PER_SECOND + fraction;
    match scan.time.replace(time) {
        None => Ok(()),
        Some(_) => Err(Failure::Syntax),
    }
}

fn offset(cursor: &mut Cursor, scan: &mut Scan) -> Result<(), Failure> {
    let sign = if cursor.peek() == Some(b'-') { -1 } else { 1 };
    cursor.at += 1;
    let (value, digits) = cursor.number()?;
    let (hours, mut minutes, mut seconds) = match digits {
        1 | 2 => (value, 0, 0),
        3 | 4 => (value / 100, value % 100, 0),
        _ => (value / 10_000, value / 100 % 100, value % 100),
    };
    if digits <= 2 && cursor.eat(b':') {
        minutes = cursor.number()?.0;
        if cursor.eat(b':') {
            seconds = cursor.number()?.0;
        }
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Failure::ZoneOverflow);
    }
    set_zone(scan, Zone::Fixed(sign * (hours * 3600 + minutes * 60 + seconds)))
}

fn set_zone(scan: &mut Scan, zone: Zone) -> Result<(), Failure> {
    match scan.zone.replace(zone) {
        None => Ok(()),
        Some(_) => Err(Failure::Syntax),
    }
}

/// Puts a spelled-out month and loose numbers together, and checks the ranges.
fn assemble(mut scan: Scan) -> Result<Scan, Failure> {
    if scan.special.is_some() {
        let nothing_else = scan.date.is_none() && scan.time.is_none() && scan.numbers.is_empty();
        return if nothing_else { Ok(scan) } else { Err(Failure::Syntax) };
    }
    if let Some(month) = scan.month {
        let [first, second] = scan.numbers[..] else { return Err(Failure::Syntax) };
        let (year, day) = if first.1 > 2 { (first, second.0) } else { (second, first.0) };
        set_date(&mut scan, short_year(year.0, year.1), month, day)?;
    } else if !scan.numbers.is_empty() {
        return Err(Failure::Syntax);
    }
    let Some(date) = &mut scan.date else { return Err(Failure::Syntax) };
    if scan.before_christ {
        date.year = 1 - date.year;
    } else if date.year == 0 {
        return Err(Failure::Overflow);
    }
    if !(1..=12).contains(&date.month) || !(1..=31).contains(&date.day) {
        return Err(Failure::MonthOrDayOverflow);
    }
    if date.day > days_in_month(date.year, date.month) {
        return Err(Failure::Overflow);
    }
    if let Some(afternoon) = scan.afternoon {
        let time = scan.time.as_mut().ok_or(Failure::Syntax)?;
        let hour = *time / MICROSECONDS_PER_HOUR;
        if hour > 12 {
            return Err(Failure::Overflow);
        }
        match (afternoon, hour) {
            (true, 0..=11) => *time += 12 * MICROSECONDS_PER_HOUR,
            (false, 12) => *time -= 12 * MICROSECONDS_PER_HOUR,
            _ => {}
        }
    }
    Ok(scan)
}

/// Days since 2000-01-01.
pub fn date(text: &str) -> Result<i32, SqlError> {
    let scan = scan(text).map_err(|failure| error(failure, text, "date"))?;
    match (scan.special, scan.date) {
        (Some(Special::Infinity), _) => Ok(DATE_INFINITY),
        (Some(Special::NegativeInfinity), _) => Ok(DATE_NEGATIVE_INFINITY),
        (None, Some(date)) => date_from_days(days_from_civil(date)).ok_or_else(|| {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\""))
        }),
        _ => Ok(-(UNIX_EPOCH_DAYS as i32)),
    }
}

fn any_timestamp(text: &str, type_name: &str, zoned: bool) -> Result<i64, SqlError> {
    let scan = scan(text).map_err(|failure| error(failure, text, type_name))?;
    match (scan.special, scan.date) {
        (Some(Special::Infinity), _) => Ok(TIMESTAMP_INFINITY),
        (Some(Special::NegativeInfinity), _) => Ok(TIMESTAMP_NEGATIVE_INFINITY),
        (None, Some(date)) => {
            let (day, time) = (days_from_civil(date), scan.time.unwrap_or(0));
            let instant = match scan.zone.filter(|_| zoned) {
                None if zoned => {
                    let local = timestamp_from_day(day, time);
                    local.and_then(|local| SessionZone::current().instant_of(local).ok())
                }
                None => timestamp_from_day(day, time),
                Some(Zone::Fixed(east)) => timestamp_from_day(day, time - east * MICROSECONDS_PER_SECOND),
                Some(zone) => timestamp_from_day(day, time).and_then(|local| zone.instant_of(local).ok()),
            };
            instant.ok_or_else(|| {
                SqlError::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    format!("timestamp out of range: \"{text}\""),
                )
            })
        }
        _ => Ok(-UNIX_EPOCH_DAYS * MICROSECONDS_PER_DAY),
    }
}

/// A zone in the text is ignored.
pub fn timestamp(text: &str) -> Result<i64, SqlError> {
    any_timestamp(text, "timestamp", false)
}

/// Without an offset, the time is local in the session's zone.
pub fn timestamptz(text: &str) -> Result<i64, SqlError> {
    any_timestamp(text, "timestamp with time zone", true)
}
