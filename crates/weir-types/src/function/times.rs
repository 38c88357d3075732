//! Functions on dates, timestamps and intervals.

use super::arguments::{date, double, int, interval, numeric, text, timestamp};
use super::{Arg, CallTypes, Function};
use crate::datetime::fields::{self, extract_date, extract_interval, extract_timestamp};
use crate::datetime::interval::{justify_days, justify_hours, justify_interval};
use crate::datetime::modifier;
use crate::datetime::zone::Zone;
use crate::datetime::{
    self, Civil, MICROSECONDS_PER_DAY, SessionZone, UNIX_EPOCH_DAYS, days_from_civil, days_in_month,
};
use crate::error::{SqlError, SqlState};
use crate::numeric::Numeric as Decimal;
use crate::value::{Interval as Span, Value};

use Arg::*;

type Evaluated = Result<Value, SqlError>;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("extract", &[Text, Date], Numeric, |a, _| {
        Ok(nullable(extract_date(text(&a[0])?, date(&a[1])?)?))
    }),
    Function::new("extract", &[Text, Timestamp], Numeric, |a, _| {
        Ok(nullable(extract_timestamp(text(&a[0])?, timestamp(&a[1])?, false)?))
    }),
    Function::new("extract", &[Text, Timestamptz], Numeric, |a, _| {
        Ok(nullable(extract_timestamp(text(&a[0])?, timestamp(&a[1])?, true)?))
    }),
    Function::new("extract", &[Text, Interval], Numeric, |a, _| {
        Ok(Value::Numeric(extract_interval(text(&a[0])?, interval(&a[1])?)?))
    }),
    Function::new("date_part", &[Text, Date], Float8, |a, _| {
        let timestamp = datetime::timestamp_from_date(date(&a[1])?)?;
        inexact(nullable(extract_timestamp(text(&a[0])?, timestamp, false)?))
    }),
    Function::new("date_part", &[Text, Timestamp], Float8, |a, _| {
        inexact(nullable(extract_timestamp(text(&a[0])?, timestamp(&a[1])?, false)?))
    }),
    Function::new("date_part", &[Text, Timestamptz], Float8, |a, _| {
        inexact(nullable(extract_timestamp(text(&a[0])?, timestamp(&a[1])?, true)?))
    }),
    Function::new("date_part", &[Text, Interval], Float8, |a, _| {
        let (field, span) = (text(&a[0])?, interval(&a[1])?);
        if field.eq_ignore_ascii_case("epoch") {
            return Ok(Value::Float8(fields::epoch_of_interval(span)));
        }
        inexact(Value::Numeric(extract_interval(field, span)?))
    }),
    Function::new("date_trunc", &[Text, Timestamp], Timestamp, |a, _| {
        fields::truncate_timestamp(text(&a[0])?, timestamp(&a[1])?, false).map(Value::Timestamp)
    }),
    Function::new("date_trunc", &[Text, Timestamptz], Timestamptz, |a, _| {
        let zone = SessionZone::current().zone();
        fields::truncate_instant(text(&a[0])?, timestamp(&a[1])?, zone).map(Value::Timestamp)
    }),
    Function::new("date_trunc", &[Text, Timestamptz, Text], Timestamptz, |a, _| {
        let zone = Zone::named(text(&a[2])?)?;
        fields::truncate_instant(text(&a[0])?, timestamp(&a[1])?, Some(&zone)).map(Value::Timestamp)
    }),
    Function::new("date_trunc", &[Text, Interval], Interval, |a, _| {
        fields::truncate_interval(text(&a[0])?, interval(&a[1])?).map(Value::interval)
    }),
    Function::new("age", &[Timestamp, Timestamp], Interval, age),
    Function::new("age", &[Timestamptz, Timestamptz], Interval, |a, _| {
        datetime::age_of_instants(timestamp(&a[0])?, timestamp(&a[1])?).map(Value::interval)
    }),
    Function::new("make_date", &[Int4, Int4, Int4], Date, |a, _| {
        let day = checked_day(int(&a[0])?, int(&a[1])?, int(&a[2])?)?;
        datetime::date_from_days(day).map(Value::Date).ok_or_else(datetime::date_out_of_range)
    }),
    Function::new("make_timestamp", &[Int4, Int4, Int4, Int4, Int4, Float8], Timestamp, make_timestamp),
    Function::new("make_timestamptz", &[Int4, Int4, Int4, Int4, Int4, Float8], Timestamptz, |a, types| {
        let local = make_timestamp(a, types)?;
        SessionZone::current().instant_of(timestamp(&local)?).map(Value::Timestamp)
    }),
    Function::new(
        "make_timestamptz",
        &[Int4, Int4, Int4, Int4, Int4, Float8, Text],
        Timestamptz,
        |a, types| {
            let local = make_timestamp(&a[..6], types)?;
            Zone::of_offset_or_name(text(&a[6])?)?.instant_of(timestamp(&local)?).map(Value::Timestamp)
        },
    ),
    Function::new("make_interval", &[Int4, Int4, Int4, Int4, Int4, Int4, Float8], Interval, make_interval)
        .optional(7),
    Function::new("justify_hours", &[Interval], Interval, |a, _| {
        justify_hours(interval(&a[0])?).map(Value::interval)
    }),
    Function::new("justify_days", &[Interval], Interval, |a, _| {
        justify_days(interval(&a[0])?).map(Value::interval)
    }),
    Function::new("justify_interval", &[Interval], Interval, |a, _| {
        justify_interval(interval(&a[0])?).map(Value::interval)
    }),
    Function::new("to_timestamp", &[Float8], Timestamptz, from_unix),
    Function::new("isfinite", &[Date], Bool, |a, _| {
        Ok(Value::Bool(!datetime::is_infinite_date(date(&a[0])?)))
    }),
    Function::new("isfinite", &[Timestamp], Bool, is_finite),
    Function::new("isfinite", &[Timestamptz], Bool, is_finite),
    Function::new("isfinite", &[Interval], Bool, |_, _| Ok(Value::Bool(true))),
    // Effects of modifiers on a value, by PostgreSQL's names.
    Function::new("timestamp", &[Timestamp, Int4], Timestamp, fit_timestamp),
    Function::new("timestamptz", &[Timestamptz, Int4], Timestamptz, fit_timestamp),
    Function::new("interval", &[Interval, Int4], Interval, |a, _| {
        modifier::fit_interval(interval(&a[0])?, typmod(&a[1])?).map(Value::interval)
    }),
    // For format_type; the name cannot be called from SQL by accident.
    Function::new("interval fields", &[Int4], Text, |a, _| {
        Ok(Value::text(modifier::shown_of_interval(typmod(&a[0])?)))
    }),
    Function::new("date", &[Timestamp], Date, to_date),
    Function::new("date", &[Timestamptz], Date, |a, _| {
        Ok(Value::Date(SessionZone::current().date_at(timestamp(&a[0])?)))
    }),
    Function::new("timezone", &[Text, Timestamp], Timestamptz, |a, _| {
        Zone::named(text(&a[0])?)?.instant_of(timestamp(&a[1])?).map(Value::Timestamp)
    }),
    Function::new("timezone", &[Text, Timestamptz], Timestamp, |a, _| {
        Zone::named(text(&a[0])?)?.local_of(timestamp(&a[1])?).map(Value::Timestamp)
    }),
    Function::new("timezone", &[Interval, Timestamp], Timestamptz, |a, _| {
        zone_of_interval(interval(&a[0])?)?.instant_of(timestamp(&a[1])?).map(Value::Timestamp)
    }),
    Function::new("timezone", &[Interval, Timestamptz], Timestamp, |a, _| {
        zone_of_interval(interval(&a[0])?)?.local_of(timestamp(&a[1])?).map(Value::Timestamp)
    }),
];

fn nullable(value: Option<Decimal>) -> Value {
    value.map_or(Value::Null, Value::Numeric)
}

fn inexact(value: Value) -> Evaluated {
    match &value {
        Value::Null => Ok(value),
        other => Ok(Value::Float8(numeric(other)?.to_f64())),
    }
}

fn age(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    datetime::age(timestamp(&args[0])?, timestamp(&args[1])?).map(Value::interval)
}

/// `atttypmod`, which an int4 holds.
fn typmod(value: &Value) -> Result<i32, SqlError> {
    i32::try_from(int(value)?).map_err(|_| datetime::interval_out_of_range())
}

fn fit_timestamp(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    modifier::fit_timestamp(timestamp(&args[0])?, typmod(&args[1])?).map(Value::Timestamp)
}

fn is_finite(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    Ok(Value::Bool(!datetime::is_infinite_timestamp(timestamp(&args[0])?)))
}

fn to_date(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    Ok(Value::Date(datetime::date_from_timestamp(timestamp(&args[0])?)))
}

/// Time zone of `AT TIME ZONE INTERVAL '-08:00'`.
fn zone_of_interval(east: &Span) -> Result<Zone, SqlError> {
    if east.months != 0 || east.days != 0 {
        let shown = crate::datetime::print::interval(east);
        let message = format!("interval time zone \"{shown}\" must not include months or days");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(Zone::Fixed(east.microseconds / datetime::MICROSECONDS_PER_SECOND))
}

fn checked_day(year: i64, month: i64, day: i64) -> Result<i64, SqlError> {
    let out_of_range = || {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date field value out of range: {year}-{month:02}-{day:02}"),
        )
    };
    // A negative year counts before Christ; there is no year 0.
    let civil_year = if year < 0 { year + 1 } else { year };
    if year == 0 || !(1..=12).contains(&month) || day < 1 || day > days_in_month(civil_year, month) {
        return Err(out_of_range());
    }
    Ok(days_from_civil(Civil { year: civil_year, month, day }))
}

fn make_timestamp(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let day = checked_day(int(&args[0])?, int(&args[1])?, int(&args[2])?)?;
    let (hour, minute, second) = (int(&args[3])?, int(&args[4])?, double(&args[5])?);
    let in_range = (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    if !in_range {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("time field value out of range: {hour}:{minute:02}:{second:02}"),
        ));
    }
    let time =
        (hour * 60 + minute) * datetime::MICROSECONDS_PER_MINUTE + (second * 1e6).round_ties_even() as i64;
    datetime::timestamp_from_day(day, time).map(Value::Timestamp).ok_or_else(datetime::timestamp_out_of_range)
}

fn make_interval(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let part = |at: usize| args.get(at).map_or(Ok(0), int);
    let seconds = args.get(6).map_or(Ok(0.0), double)?;
    if !seconds.is_finite() || seconds.abs() > 1e14 {
        return Err(datetime::interval_out_of_range());
    }
    let months = part(0)? * 12 + part(1)?;
    let days = part(2)? * 7 + part(3)?;
    let microseconds = i128::from(part(4)? * 60 + part(5)?) * i128::from(datetime::MICROSECONDS_PER_MINUTE)
        + (seconds * 1e6).round_ties_even() as i128;
    let build = || {
        Some(Span {
            months: i32::try_from(months).ok()?,
            days: i32::try_from(days).ok()?,
            microseconds: i64::try_from(microseconds).ok()?,
        })
    };
    build().map(Value::interval).ok_or_else(datetime::interval_out_of_range)
}

fn from_unix(args: &[Value], _: &CallTypes<'_>) -> Evaluated {
    let seconds = double(&args[0])?;
    if seconds.is_nan() {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        return Ok(Value::Timestamp(if seconds > 0.0 {
            datetime::TIMESTAMP_INFINITY
        } else {
            datetime::TIMESTAMP_NEGATIVE_INFINITY
        }));
    }
    let out_of_range = || {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{}\"", crate::floats::print_f64(seconds)),
        )
    };
    let microseconds = (seconds * 1e6).round_ties_even();
    if microseconds.abs() > 9.2e18 {
        return Err(out_of_range());
    }
    let since_2000 =
        (microseconds as i64).checked_sub(UNIX_EPOCH_DAYS * MICROSECONDS_PER_DAY).ok_or_else(out_of_range)?;
    let (days, time) =
        (since_2000.div_euclid(MICROSECONDS_PER_DAY), since_2000.rem_euclid(MICROSECONDS_PER_DAY));
    datetime::timestamp_from_day(days, time).map(Value::Timestamp).ok_or_else(out_of_range)
}
