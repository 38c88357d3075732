//! `extract`, `date_trunc` and ISO weeks.

use super::zone::Zone;
use super::*;
use crate::numeric::Numeric;

/// Field of a date or time, for extraction and truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Epoch,
    Julian,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

impl Field {
    pub fn parse(name: &str) -> Option<Field> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Field::Microseconds,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Field::Milliseconds,
            "second" | "seconds" | "s" | "sec" | "secs" => Field::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => Field::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => Field::Hour,
            "day" | "days" | "d" => Field::Day,
            "week" | "weeks" | "w" => Field::Week,
            "month" | "months" | "mon" | "mons" => Field::Month,
            "quarter" | "qtr" => Field::Quarter,
            "year" | "years" | "y" | "yr" | "yrs" => Field::Year,
            "decade" | "decades" | "dec" | "decs" => Field::Decade,
            "century" | "centuries" | "c" | "cent" => Field::Century,
            "millennium" | "millennia" | "mil" | "mils" => Field::Millennium,
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "doy" => Field::DayOfYear,
            "isoyear" => Field::IsoYear,
            "epoch" => Field::Epoch,
            "julian" | "jd" | "j" => Field::Julian,
            "timezone" => Field::Timezone,
            "timezone_hour" | "timezone_h" => Field::TimezoneHour,
            "timezone_minute" | "timezone_m" => Field::TimezoneMinute,
            _ => return None,
        })
    }
}

pub fn unrecognized(name: &str, type_name: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{}\" not recognized for type {type_name}", name.to_ascii_lowercase()),
    )
}

pub fn unsupported(name: &str, type_name: &str) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unit \"{}\" not supported for type {type_name}", name.to_ascii_lowercase()),
    )
}

/// Monday is 0.
fn weekday(days: i64) -> i64 {
    // 2000-01-01 was a Saturday.
    (days + 5).rem_euclid(7)
}

/// ISO 8601 year and week.
pub fn iso_week(days: i64) -> (i64, i64) {
    // The week belongs to the year that its Thursday is in.
    let thursday = days - weekday(days) + 3;
    let year = civil_from_days(thursday).year;
    let start = days_from_civil(Civil { year, month: 1, day: 1 });
    (year, (thursday - start) / 7 + 1)
}

pub fn iso_week_start(year: i64, week: i64) -> i64 {
    let fourth = days_from_civil(Civil { year, month: 1, day: 4 });
    fourth - weekday(fourth) + (week - 1) * 7
}

pub fn day_of_year(date: Civil) -> i64 {
    days_from_civil(date) - days_from_civil(Civil { month: 1, day: 1, ..date }) + 1
}

/// Sunday is 0.
pub fn day_of_week(days: i64) -> i64 {
    (weekday(days) + 1) % 7
}

fn century(year: i64, years: i64) -> i64 {
    if year > 0 { (year + years - 1) / years } else { -((years - 1 - (year - 1)) / years) }
}

/// The date's part of `extract`, `None` where the field is not of the date.
fn from_civil(field: Field, days: i64) -> Option<i64> {
    let date = civil_from_days(days);
    Some(match field {
        Field::Day => date.day,
        Field::Month => date.month,
        Field::Quarter => (date.month - 1) / 3 + 1,
        Field::Week => iso_week(days).1,
        // There is no year 0.
        Field::Year if date.year > 0 => date.year,
        Field::Year => date.year - 1,
        Field::Decade => date.year.div_euclid(10),
        Field::Century => century(date.year, 100),
        Field::Millennium => century(date.year, 1000),
        Field::DayOfWeek => day_of_week(days),
        Field::IsoDayOfWeek => weekday(days) + 1,
        Field::DayOfYear => day_of_year(date),
        Field::IsoYear => match iso_week(days).0 {
            year if year > 0 => year,
            year => year - 1,
        },
        _ => return None,
    })
}

/// Field of infinity: infinity if the field grows without bound, else NULL (`None`).
fn of_infinity(field: Field, negative: bool) -> Option<Numeric> {
    use Field::*;
    matches!(field, Year | Decade | Century | Millennium | IsoYear | Epoch | Julian)
        .then(|| Numeric::infinity(negative))
}

/// `extract(field FROM date)`; `None` is NULL.
pub fn extract_date(name: &str, date: i32) -> Result<Option<Numeric>, SqlError> {
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, "date"))?;
    let days = i64::from(date);
    let value = match field {
        _ if is_infinite_date(date) && from_civil(field, 0).is_some() => {
            return Ok(of_infinity(field, date < 0));
        }
        Field::Epoch | Field::Julian if is_infinite_date(date) => return Ok(of_infinity(field, date < 0)),
        Field::Epoch => (days + UNIX_EPOCH_DAYS) * 86_400,
        Field::Julian => days + EPOCH_JULIAN,
        _ => from_civil(field, days).ok_or_else(|| unsupported(name, "date"))?,
    };
    Ok(Some(Numeric::from_i64(value)))
}

/// `extract(field FROM timestamp)`; `None` is NULL.
/// Extracts a field of an instant (`zoned`), in the session's time zone.
pub fn extract_timestamp(name: &str, timestamp: i64, zoned: bool) -> Result<Option<Numeric>, SqlError> {
    let type_name = if zoned { "timestamp with time zone" } else { "timestamp without time zone" };
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, type_name))?;
    let is_zone = matches!(field, Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute);
    if is_zone && !zoned {
        return Err(unsupported(name, type_name));
    }
    if is_infinite_timestamp(timestamp) {
        return Ok(of_infinity(field, timestamp < 0));
    }
    let zone = if zoned && field != Field::Epoch { SessionZone::current() } else { SessionZone::UTC };
    let shown = zone.shown_at(timestamp);
    let days = shown.div_euclid(MICROSECONDS_PER_DAY);
    let time = shown.rem_euclid(MICROSECONDS_PER_DAY);
    let in_minute = time % MICROSECONDS_PER_MINUTE;
    Ok(Some(match field {
        Field::Timezone => Numeric::from_i64(zone.offset_at(timestamp)),
        Field::TimezoneHour => Numeric::from_i64(zone.offset_at(timestamp) / 3600),
        Field::TimezoneMinute => Numeric::from_i64(zone.offset_at(timestamp) / 60 % 60),
        Field::Microseconds => Numeric::from_i64(in_minute),
        Field::Milliseconds => Numeric::from_i128(i128::from(in_minute), 3),
        Field::Second => Numeric::from_i128(i128::from(in_minute), 6),
        Field::Minute => Numeric::from_i64(time / MICROSECONDS_PER_MINUTE % 60),
        Field::Hour => Numeric::from_i64(time / MICROSECONDS_PER_HOUR),
        Field::Epoch => Numeric::from_i128(
            i128::from(timestamp) + i128::from(UNIX_EPOCH_DAYS) * i128::from(MICROSECONDS_PER_DAY),
            6,
        ),
        Field::Julian => {
            let whole = Numeric::from_i64(days + EPOCH_JULIAN);
            let day = Numeric::from_i64(MICROSECONDS_PER_DAY);
            whole.add(&Numeric::from_i64(time).div(&day)?)?
        }
        _ => Numeric::from_i64(from_civil(field, days).unwrap_or(0)),
    }))
}

pub fn extract_interval(name: &str, interval: &Interval) -> Result<Numeric, SqlError> {
    let field = Field::parse(name).ok_or_else(|| unrecognized(name, "interval"))?;
    let months = i64::from(interval.months);
    let in_minute = interval.microseconds % MICROSECONDS_PER_MINUTE;
    Ok(match field {
        Field::Microseconds => Numeric::from_i64(in_minute),
        Field::Milliseconds => Numeric::from_i128(i128::from(in_minute), 3),
        Field::Second => Numeric::from_i128(i128::from(in_minute), 6),
        Field::Minute => Numeric::from_i64(interval.microseconds / MICROSECONDS_PER_MINUTE % 60),
        Field::Hour => Numeric::from_i64(interval.microseconds / MICROSECONDS_PER_HOUR),
        Field::Day => Numeric::from_i64(i64::from(interval.days)),
        Field::Month => Numeric::from_i64(months % 12),
        Field::Quarter => Numeric::from_i64(months % 12 / 3 + 1),
        Field::Year => Numeric::from_i64(months / 12),
        Field::Decade => Numeric::from_i64(months / 120),
        Field::Century => Numeric::from_i64(months / 1200),
        Field::Millennium => Numeric::from_i64(months / 12_000),
        Field::Epoch => {
            // A year counts 365.25 days, a left-over month 30.
            let hours = i128::from(months / 12) * 8766
                + (i128::from(months % 12) * 30 + i128::from(interval.days)) * 24;
            Numeric::from_i128(
                hours * i128::from(MICROSECONDS_PER_HOUR) + i128::from(interval.microseconds),
                6,
            )
        }
        _ => return Err(unsupported(name, "interval")),
    })
}

/// In doubles, as `date_part` computes it.
pub fn epoch_of_interval(interval: &Interval) -> f64 {
    let (years, months) = (interval.months / 12, interval.months % 12);
    interval.microseconds as f64 / 1e6
        + 365.25 * 86_400.0 * f64::from(years)
        + 30.0 * 86_400.0 * f64::from(months)
        + 86_400.0 * f64::from(interval.days)
}

/// Fields that are no units of time, which nothing can be truncated to.
fn is_unit(field: &Field) -> bool {
    use Field::*;
    !matches!(field, DayOfWeek | IsoDayOfWeek | DayOfYear | IsoYear | Epoch | Julian)
}

pub fn truncate_timestamp(name: &str, timestamp: i64, zoned: bool) -> Result<i64, SqlError> {
    let type_name = if zoned { "timestamp with time zone" } else { "timestamp without time zone" };
    if is_infinite_timestamp(timestamp) {
        return Ok(timestamp);
    }
    let field = Field::parse(name).filter(is_unit).ok_or_else(|| unrecognized(name, type_name))?;
    let floor = |unit: i64| Ok(timestamp - timestamp.rem_euclid(unit));
    let days = timestamp.div_euclid(MICROSECONDS_PER_DAY);
    let date = civil_from_days(days);
    let years_from = |years: i64, first: i64| {
        // Centuries begin with their year 1, decades with their year 0.
        (date.year - first).div_euclid(years) * years + first
    };
    let start = match field {
        Field::Microseconds => return Ok(timestamp),
        Field::Milliseconds => return floor(1000),
        Field::Second => return floor(MICROSECONDS_PER_SECOND),
        Field::Minute => return floor(MICROSECONDS_PER_MINUTE),
        Field::Hour => return floor(MICROSECONDS_PER_HOUR),
        Field::Day => return floor(MICROSECONDS_PER_DAY),
        Field::Week => {
            return timestamp_from_day(days - weekday(days), 0).ok_or_else(timestamp_out_of_range);
        }
        Field::Month => Civil { day: 1, ..date },
        Field::Quarter => Civil { day: 1, month: (date.month - 1) / 3 * 3 + 1, ..date },
        Field::Year => Civil { day: 1, month: 1, ..date },
        Field::Decade => Civil { day: 1, month: 1, year: years_from(10, 0) },
        Field::Century => Civil { day: 1, month: 1, year: years_from(100, 1) },
        Field::Millennium => Civil { day: 1, month: 1, year: years_from(1000, 1) },
        _ => return Err(unsupported(name, type_name)),
    };
    timestamp_from_day(days_from_civil(start), 0).ok_or_else(timestamp_out_of_range)
}

/// Truncates an instant in a time zone (none: UTC). Units below a day keep the offset; a day or more begins at the zone's local time.
pub fn truncate_instant(name: &str, instant: i64, zone: Option<&Zone>) -> Result<i64, SqlError> {
    use Field::*;
    let Some(zone) = zone.filter(|_| !is_infinite_timestamp(instant)) else {
        return truncate_timestamp(name, instant, true);
    };
    let offset = zone.offset_at(instant.div_euclid(MICROSECONDS_PER_SECOND)) * MICROSECONDS_PER_SECOND;
    let truncated = truncate_timestamp(name, zone.local_of(instant)?, true)?;
    match Field::parse(name) {
        Some(Microseconds | Milliseconds | Second | Minute | Hour) => Ok(truncated - offset),
        _ => zone.instant_of(truncated),
    }
}

pub fn truncate_interval(name: &str, interval: &Interval) -> Result<Interval, SqlError> {
    let field = Field::parse(name).filter(is_unit).ok_or_else(|| unrecognized(name, "interval"))?;
    let Interval { months, days, microseconds } = *interval;
    let time = |unit: i64| Ok(Interval { months, days, microseconds: microseconds - microseconds % unit });
    let whole_months = |unit: i32| Ok(Interval { months: months - months % unit, days: 0, microseconds: 0 });
    match field {
        Field::Microseconds => Ok(*interval),
        Field::Milliseconds => time(1000),
        Field::Second => time(MICROSECONDS_PER_SECOND),
        Field::Minute => time(MICROSECONDS_PER_MINUTE),
        Field::Hour => time(MICROSECONDS_PER_HOUR),
        Field::Day => Ok(Interval { months, days, microseconds: 0 }),
        Field::Month => whole_months(1),
        Field::Quarter => whole_months(3),
        Field::Year => whole_months(12),
        Field::Decade => whole_months(120),
        Field::Century => whole_months(1200),
        Field::Millennium => whole_months(12_000),
        Field::Week => {
            Err(unsupported(name, "interval").with_detail("Months usually have fractional weeks."))
        }
        _ => Err(unsupported(name, "interval")),
    }
}
