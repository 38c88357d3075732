//! Arithmetic on intervals.

use super::{MICROSECONDS_PER_DAY, interval_out_of_range};
use crate::error::{SqlError, SqlState};
use crate::value::Interval;

const DAYS_PER_MONTH: i64 = 30;

impl Interval {
    pub fn checked_neg(&self) -> Result<Interval, SqlError> {
        Interval::ZERO.checked_sub(self)
    }

    pub const ZERO: Interval = Interval { months: 0, days: 0, microseconds: 0 };

    pub fn checked_add(&self, other: &Interval) -> Result<Interval, SqlError> {
        let sum = || {
            Some(Interval {
                months: self.months.checked_add(other.months)?,
                days: self.days.checked_add(other.days)?,
                microseconds: self.microseconds.checked_add(other.microseconds)?,
            })
        };
        sum().ok_or_else(interval_out_of_range)
    }

    pub fn checked_sub(&self, other: &Interval) -> Result<Interval, SqlError> {
        let difference = || {
            Some(Interval {
                months: self.months.checked_sub(other.months)?,
                days: self.days.checked_sub(other.days)?,
                microseconds: self.microseconds.checked_sub(other.microseconds)?,
            })
        };
        difference().ok_or_else(interval_out_of_range)
    }

    /// Fractions of months cascade to days, and fractions of days to the time.
    pub fn multiply(&self, factor: f64) -> Result<Interval, SqlError> {
        self.scale(|part| part * factor)
    }

    pub fn divide(&self, divisor: f64) -> Result<Interval, SqlError> {
        if divisor == 0.0 {
            return Err(crate::numeric::division_by_zero());
        }
        self.scale(|part| part / divisor)
    }

    fn scale(&self, apply: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
        let (months_exact, days_exact) = (apply(f64::from(self.months)), apply(f64::from(self.days)));
        let in_i32 = |part: f64| {
            if part.is_nan() || part > f64::from(i32::MAX) || part < f64::from(i32::MIN) {
                Err(interval_out_of_range())
            } else {
                Ok(part as i32)
            }
        };
        let months = in_i32(months_exact)?;
        let mut days = in_i32(days_exact)?;
        let month_remainder = round_microsecond((months_exact - f64::from(months)) * DAYS_PER_MONTH as f64);
        let mut seconds = round_microsecond(
            (days_exact - f64::from(days) + month_remainder - month_remainder.trunc()) * 86_400.0,
        );
        // Rounding may have made a whole day of the time; it belongs to the days then.
        if seconds.abs() >= 86_400.0 {
            days += (seconds / 86_400.0) as i32;
            seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
        }
        days = days.checked_add(month_remainder as i32).ok_or_else(interval_out_of_range)?;
        let microseconds = (apply(self.microseconds as f64) + seconds * 1e6).round_ties_even();
        if !(-9.223_372_036_854_775e18..9.223_372_036_854_775e18).contains(&microseconds) {
            return Err(interval_out_of_range());
        }
        Ok(Interval { months, days, microseconds: microseconds as i64 })
    }
}

/// PostgreSQL's TSROUND.
fn round_microsecond(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

/// 24 hours become a day.
pub fn justify_hours(interval: &Interval) -> Result<Interval, SqlError> {
    let mut days = i64::from(interval.days) + interval.microseconds / MICROSECONDS_PER_DAY;
    let mut time = interval.microseconds % MICROSECONDS_PER_DAY;
    if days > 0 && time < 0 {
        time += MICROSECONDS_PER_DAY;
        days -= 1;
    } else if days < 0 && time > 0 {
        time -= MICROSECONDS_PER_DAY;
        days += 1;
    }
    let days = i32::try_from(days).map_err(|_| interval_out_of_range())?;
    Ok(Interval { months: interval.months, days, microseconds: time })
}

/// 30 days become a month.
pub fn justify_days(interval: &Interval) -> Result<Interval, SqlError> {
    let mut months = i64::from(interval.months) + i64::from(interval.days) / DAYS_PER_MONTH;
    let mut days = i64::from(interval.days) % DAYS_PER_MONTH;
    if months > 0 && days < 0 {
        days += DAYS_PER_MONTH;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= DAYS_PER_MONTH;
        months += 1;
    }
    let months = i32::try_from(months).map_err(|_| interval_out_of_range())?;
    Ok(Interval { months, days: days as i32, microseconds: interval.microseconds })
}

/// Both, and all parts get the same sign.
pub fn justify_interval(interval: &Interval) -> Result<Interval, SqlError> {
    let mut days = i64::from(interval.days) + interval.microseconds / MICROSECONDS_PER_DAY;
    let mut time = interval.microseconds % MICROSECONDS_PER_DAY;
    let mut months = i64::from(interval.months) + days / DAYS_PER_MONTH;
    days %= DAYS_PER_MONTH;
    if months > 0 && (days < 0 || (days == 0 && time < 0)) {
        days += DAYS_PER_MONTH;
        months -= 1;
    } else if months < 0 && (days > 0 || (days == 0 && time > 0)) {
        days -= DAYS_PER_MONTH;
        months += 1;
    }
    if days > 0 && time < 0 {
        time += MICROSECONDS_PER_DAY;
        days -= 1;
    } else if days < 0 && time > 0 {
        time -= MICROSECONDS_PER_DAY;
        days += 1;
    }
    let months = i32::try_from(months).map_err(|_| interval_out_of_range())?;
    Ok(Interval { months, days: days as i32, microseconds: time })
}

/// The units of an interval literal, cascading fractions downwards as PostgreSQL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    pub(super) fn parse(word: &str) -> Option<Unit> {
        Some(match word {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds"
            | "microsecon" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => {
                Unit::Millisecond
            }
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennium" | "millennia" => Unit::Millennium,
            _ => return None,
        })
    }
}

/// Sums up the parts of an interval literal without overflow.
#[derive(Default)]
pub(super) struct Builder {
    months: i128,
    days: i128,
    microseconds: i128,
}

impl Builder {
    pub(super) fn add_microseconds(&mut self, microseconds: i128) {
        self.microseconds += microseconds;
    }

    /// `fraction` has the sign of the whole and lies in (-1, 1).
    pub(super) fn add(&mut self, unit: Unit, whole: i64, fraction: f64) {
        let whole = i128::from(whole);
        let time = |unit_microseconds: i64| {
            whole * i128::from(unit_microseconds)
                + (fraction * unit_microseconds as f64).round_ties_even() as i128
        };
        match unit {
            Unit::Microsecond => self.microseconds += whole + fraction.round_ties_even() as i128,
            Unit::Millisecond => self.microseconds += time(1000),
            Unit::Second => self.microseconds += time(super::MICROSECONDS_PER_SECOND),
            Unit::Minute => self.microseconds += time(super::MICROSECONDS_PER_MINUTE),
            Unit::Hour => self.microseconds += time(super::MICROSECONDS_PER_HOUR),
            Unit::Day => self.add_days(whole, fraction),
            Unit::Week => self.add_days(whole * 7, fraction * 7.0),
            Unit::Month => {
                self.months += whole;
                self.add_days(0, fraction * DAYS_PER_MONTH as f64);
            }
            Unit::Year => self.add_months(whole * 12, fraction * 12.0),
            Unit::Decade => self.add_months(whole * 120, fraction * 120.0),
            Unit::Century => self.add_months(whole * 1200, fraction * 1200.0),
            Unit::Millennium => self.add_months(whole * 12_000, fraction * 12_000.0),
        }
    }

    /// Fractions of years are rounded to months.
    fn add_months(&mut self, whole: i128, fraction: f64) {
        self.months += whole + fraction.round_ties_even() as i128;
    }

    fn add_days(&mut self, whole: i128, fraction: f64) {
        self.days += whole + fraction.trunc() as i128;
        self.microseconds += (fraction.fract() * MICROSECONDS_PER_DAY as f64).round_ties_even() as i128;
    }

    pub(super) fn negate(&mut self) {
        *self = Builder { months: -self.months, days: -self.days, microseconds: -self.microseconds };
    }

    pub(super) fn build(&self, text: &str) -> Result<Interval, SqlError> {
        let build = || {
            Some(Interval {
                months: i32::try_from(self.months).ok()?,
                days: i32::try_from(self.days).ok()?,
                microseconds: i64::try_from(self.microseconds).ok()?,
            })
        };
        build().ok_or_else(|| field_overflow(text))
    }
}

pub(super) fn field_overflow(text: &str) -> SqlError {
    SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, format!("interval field value out of range: \"{text}\""))
}
