//! Dates, timestamps and intervals: PostgreSQL's proleptic Gregorian calendar on Julian days.
//!
//! Pure arithmetic: there is no clock here. A timestamptz is an instant, printed in the zone of its session ([`session`]); other
//! time zones are those that a statement names ([`zone`]).

pub mod fields;
pub mod interval;
pub mod modifier;
pub mod parse;
pub mod print;
pub mod session;
pub mod style;
pub mod zone;

pub use session::{SessionZone, TransactionTime};

use crate::error::{SqlError, SqlState};
use crate::value::Interval;

pub const MICROSECONDS_PER_SECOND: i64 = 1_000_000;
pub const MICROSECONDS_PER_MINUTE: i64 = 60 * MICROSECONDS_PER_SECOND;
pub const MICROSECONDS_PER_HOUR: i64 = 60 * MICROSECONDS_PER_MINUTE;
pub const MICROSECONDS_PER_DAY: i64 = 24 * MICROSECONDS_PER_HOUR;

/// Julian day of 2000-01-01.
const EPOCH_JULIAN: i64 = 2_451_545;
/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_DAYS: i64 = 10_957;
/// First timestamp: 4714-11-24 00:00:00 BC.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// First instant after the last timestamp: 294277-01-01.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
const DATE_MIN: i64 = -2_451_545;
/// First day after the last date: 5874898-01-01.
const DATE_END: i64 = 2_147_483_494 - EPOCH_JULIAN;

pub const DATE_INFINITY: i32 = i32::MAX;
pub const DATE_NEGATIVE_INFINITY: i32 = i32::MIN;
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
pub const TIMESTAMP_NEGATIVE_INFINITY: i64 = i64::MIN;

/// A calendar date; year 0 is 1 BC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    pub month: i64,
    pub day: i64,
}

/// A timestamp's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    pub date: Civil,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub microsecond: i64,
}

/// Days since 2000-01-01.
pub fn days_from_civil(date: Civil) -> i64 {
    let (month, year) =
        if date.month > 2 { (date.month + 1, date.year + 4800) } else { (date.month + 13, date.year + 4799) };
    let century = year.div_euclid(100);
    let julian = year * 365 - 32167 + year.div_euclid(4) - century + century.div_euclid(4);
    julian + 7834 * month / 256 + date.day - EPOCH_JULIAN
}

pub fn civil_from_days(days: i64) -> Civil {
    // Days since 0000-03-01, in eras of 400 years.
    let days = days + EPOCH_JULIAN - 1_721_120;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    Civil {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
    }
}

pub fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

pub fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub fn fields_from_timestamp(timestamp: i64) -> Fields {
    let time = timestamp.rem_euclid(MICROSECONDS_PER_DAY);
    Fields {
        date: civil_from_days(timestamp.div_euclid(MICROSECONDS_PER_DAY)),
        hour: time / MICROSECONDS_PER_HOUR,
        minute: time / MICROSECONDS_PER_MINUTE % 60,
        second: time / MICROSECONDS_PER_SECOND % 60,
        microsecond: time % MICROSECONDS_PER_SECOND,
    }
}

/// Microseconds since 2000-01-01; `None` outside of PostgreSQL's range.
pub fn timestamp_from_fields(fields: Fields) -> Option<i64> {
    let time = ((fields.hour * 60 + fields.minute) * 60 + fields.second) * MICROSECONDS_PER_SECOND
        + fields.microsecond;
    timestamp_from_day(days_from_civil(fields.date), time)
}

pub fn timestamp_from_day(days: i64, time: i64) -> Option<i64> {
    let timestamp = i128::from(days) * i128::from(MICROSECONDS_PER_DAY) + i128::from(time);
    i64::try_from(timestamp).ok().filter(|timestamp| is_timestamp(*timestamp))
}

fn is_timestamp(timestamp: i64) -> bool {
    (TIMESTAMP_MIN..TIMESTAMP_END).contains(&timestamp)
}

pub fn date_from_days(days: i64) -> Option<i32> {
    if (DATE_MIN..DATE_END).contains(&days) { i32::try_from(days).ok() } else { None }
}

pub fn is_infinite_timestamp(timestamp: i64) -> bool {
    timestamp == TIMESTAMP_INFINITY || timestamp == TIMESTAMP_NEGATIVE_INFINITY
}

pub fn is_infinite_date(date: i32) -> bool {
    date == DATE_INFINITY || date == DATE_NEGATIVE_INFINITY
}

#[cold]
pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cold]
pub fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

#[cold]
pub fn interval_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// Midnight of that day.
pub fn timestamp_from_date(date: i32) -> Result<i64, SqlError> {
    match date {
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        DATE_NEGATIVE_INFINITY => Ok(TIMESTAMP_NEGATIVE_INFINITY),
        _ => timestamp_from_day(i64::from(date), 0).ok_or_else(|| {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
        }),
    }
}

pub fn date_from_timestamp(timestamp: i64) -> i32 {
    match timestamp {
        TIMESTAMP_INFINITY => DATE_INFINITY,
        TIMESTAMP_NEGATIVE_INFINITY => DATE_NEGATIVE_INFINITY,
        _ => timestamp.div_euclid(MICROSECONDS_PER_DAY) as i32,
    }
}

/// Months first (clamped to the month's length), then days, then the time.
pub fn add_interval(timestamp: i64, interval: &Interval) -> Result<i64, SqlError> {
    if is_infinite_timestamp(timestamp) {
        return Ok(timestamp);
    }
    let mut days = timestamp.div_euclid(MICROSECONDS_PER_DAY);
    let time = timestamp.rem_euclid(MICROSECONDS_PER_DAY);
    if interval.months != 0 {
        days = add_months(days, i64::from(interval.months));
    }
    days += i64::from(interval.days);
    let sum = i128::from(days) * i128::from(MICROSECONDS_PER_DAY)
        + i128::from(time)
        + i128::from(interval.microseconds);
    i64::try_from(sum).ok().filter(|sum| is_timestamp(*sum)).ok_or_else(timestamp_out_of_range)
}

/// Adds an interval to an instant: months and days follow the calendar in the session's time zone.
pub fn add_interval_to_instant(instant: i64, interval: &Interval) -> Result<i64, SqlError> {
    if interval.months == 0 && interval.days == 0 {
        return add_interval(instant, interval);
    }
    let zone = SessionZone::current();
    if zone.is_utc() || is_infinite_timestamp(instant) {
        return add_interval(instant, interval);
    }
    let none = Interval { months: 0, days: 0, microseconds: 0 };
    let mut moved = instant;
    for step in [Interval { months: interval.months, ..none }, Interval { days: interval.days, ..none }] {
        if step != none {
            moved = zone.instant_of(add_interval(zone.local_of(moved)?, &step)?)?;
        }
    }
    add_interval(moved, &Interval { microseconds: interval.microseconds, ..none })
}

fn add_months(days: i64, months: i64) -> i64 {
    let date = civil_from_days(days);
    let month = date.year * 12 + date.month - 1 + months;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    days_from_civil(Civil { year, month, day: date.day.min(days_in_month(year, month)) })
}

/// Days and time, as `timestamp - timestamp` has it (never months).
pub fn subtract_timestamps(left: i64, right: i64) -> Result<Interval, SqlError> {
    if is_infinite_timestamp(left) || is_infinite_timestamp(right) {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite timestamps"));
    }
    let microseconds = left.checked_sub(right).ok_or_else(interval_out_of_range)?;
    interval::justify_hours(&Interval { months: 0, days: 0, microseconds })
}

/// The symbolic difference in years, months, days and time.
pub fn age(left: i64, right: i64) -> Result<Interval, SqlError> {
    age_of((left < right, left, right))
}

/// Age of two instants, by their local times in the session's time zone.
pub fn age_of_instants(left: i64, right: i64) -> Result<Interval, SqlError> {
    if is_infinite_timestamp(left) || is_infinite_timestamp(right) {
        return Err(timestamp_out_of_range());
    }
    let zone = SessionZone::current();
    age_of((left < right, zone.shown_at(left), zone.shown_at(right)))
}

fn age_of((negative, left, right): (bool, i64, i64)) -> Result<Interval, SqlError> {
    if is_infinite_timestamp(left) || is_infinite_timestamp(right) {
        return Err(timestamp_out_of_range());
    }
    let (late, early) = if negative { (right, left) } else { (left, right) };
    let (late, early) = (fields_from_timestamp(late), fields_from_timestamp(early));
    let time_of = |fields: &Fields| {
        ((fields.hour * 60 + fields.minute) * 60 + fields.second) * MICROSECONDS_PER_SECOND
            + fields.microsecond
    };
    let mut time = time_of(&late) - time_of(&early);
    let mut days = late.date.day - early.date.day;
    let mut months = (late.date.year - early.date.year) * 12 + late.date.month - early.date.month;
    if time < 0 {
        time += MICROSECONDS_PER_DAY;
        days -= 1;
    }
    while days < 0 {
        // As PostgreSQL does it, the days are borrowed from the earlier timestamp's month.
        days += days_in_month(early.date.year, early.date.month);
        months -= 1;
    }
    let sign = if negative { -1 } else { 1 };
    Ok(Interval { months: (months * sign) as i32, days: (days * sign) as i32, microseconds: time * sign })
}
