//! Input of intervals: ISO 8601 designators, and PostgreSQL's own list of amounts with their units.

use super::*;
use crate::datetime::interval::{Builder, Unit};

pub fn interval(text: &str) -> Result<Interval, SqlError> {
    let lower = text.trim().to_ascii_lowercase();
    let mut builder = Builder::default();
    let parsed = match lower.strip_prefix('p') {
        Some(iso) => iso_interval(iso, &mut builder).ok_or(Failure::Syntax),
        None => verbose_interval(&lower, &mut builder),
    };
    match parsed {
        Ok(()) => builder.build(text),
        Err(Failure::Overflow) => Err(super::interval::field_overflow(text)),
        Err(failure) => Err(error(failure, text, "interval")),
    }
}

struct Amount {
    negative: bool,
    whole: i64,
    fraction: f64,
}

impl Amount {
    fn add_to(&self, unit: Unit, builder: &mut Builder) {
        let sign = if self.negative { -1 } else { 1 };
        builder.add(unit, self.whole * sign, self.fraction * sign as f64);
    }
}

fn amount(cursor: &mut Cursor) -> Option<Amount> {
    let negative = cursor.peek() == Some(b'-');
    let signed = negative || cursor.peek() == Some(b'+');
    cursor.at += usize::from(signed);
    let digits = cursor.digits();
    let fraction_digits = if cursor.eat(b'.') { cursor.digits() } else { "" };
    if digits.is_empty() && fraction_digits.is_empty() {
        return None;
    }
    let whole = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let fraction = format!("0.{fraction_digits}0").parse().ok()?;
    Some(Amount { negative, whole, fraction })
}

/// `1Y2M3DT4H5M6.7S`, after the `P`.
fn iso_interval(text: &str, builder: &mut Builder) -> Option<()> {
    let mut cursor = Cursor { bytes: text.as_bytes(), at: 0 };
    let mut in_time = false;
    if text.is_empty() {
        return None;
    }
    while cursor.peek().is_some() {
        if cursor.eat(b't') {
            in_time = true;
            continue;
        }
        let amount = amount(&mut cursor)?;
        if matches!(cursor.peek(), Some(b'-' | b':')) {
            cursor.at = iso_start(text, cursor.at);
            iso_alternative(&mut cursor, in_time, builder)?;
            continue;
        }
        let unit = match (cursor.peek()?, in_time) {
            (b'y', false) => Unit::Year,
            (b'm', false) => Unit::Month,
            (b'w', false) => Unit::Week,
            (b'd', false) => Unit::Day,
            (b'h', true) => Unit::Hour,
            (b'm', true) => Unit::Minute,
            (b's', true) => Unit::Second,
            _ => return None,
        };
        cursor.at += 1;
        amount.add_to(unit, builder);
    }
    Some(())
}

/// Where the number that ends at `end` starts.
fn iso_start(text: &str, end: usize) -> usize {
    let is_number = |b: &u8| b.is_ascii_digit() || *b == b'.';
    end - text.as_bytes()[..end].iter().rev().take_while(|b| is_number(b)).count()
}

/// `0001-02-03` of the alternative form, or `04:05:06` behind its `T`.
fn iso_alternative(cursor: &mut Cursor, in_time: bool, builder: &mut Builder) -> Option<()> {
    let (units, separator) = if in_time {
        ([Unit::Hour, Unit::Minute, Unit::Second], b':')
    } else {
        ([Unit::Year, Unit::Month, Unit::Day], b'-')
    };
    for (i, unit) in units.into_iter().enumerate() {
        if i > 0 && !cursor.eat(separator) {
            return None;
        }
        amount(cursor)?.add_to(unit, builder);
    }
    Some(())
}

/// `1 year 2 mons -3 days 04:05:06.7 ago`, `1-2 3 4:05:06`, `90`.
fn verbose_interval(text: &str, builder: &mut Builder) -> Result<(), Failure> {
    let mut cursor = Cursor { bytes: text.as_bytes(), at: 0 };
    let mut pending: Option<Amount> = None;
    let mut units = Vec::new();
    // Each unit may occur once.
    let mut once = |unit: Unit| {
        let first = !units.contains(&unit);
        units.push(unit);
        if first { Ok(unit) } else { Err(Failure::Syntax) }
    };
    let mut seen = false;
    cursor.take_while(|b| b == b'@' || b.is_ascii_whitespace());
    while let Some(b) = cursor.peek() {
        if b.is_ascii_whitespace() {
            cursor.at += 1;
        } else if b.is_ascii_alphabetic() {
            let word = cursor.take_while(|b| b.is_ascii_alphabetic());
            if word == "ago" {
                builder.negate();
                cursor.take_while(|b| b.is_ascii_whitespace());
                let ended = cursor.peek().is_none() && pending.is_none() && seen;
                return if ended { Ok(()) } else { Err(Failure::Syntax) };
            }
            let unit = once(Unit::parse(word).ok_or(Failure::Syntax)?)?;
            pending.take().ok_or(Failure::Syntax)?.add_to(unit, builder);
        } else {
            let amount = amount(&mut cursor).ok_or(Failure::Syntax)?;
            seen = true;
            match cursor.peek() {
                Some(b':') => {
                    // A bare number before a time counts days.
                    if let Some(days) = pending.take() {
                        days.add_to(once(Unit::Day)?, builder);
                    }
                    once(Unit::Hour)?;
                    clock_interval(&mut cursor, &amount, builder)?;
                }
                Some(b'-') if amount.fraction == 0.0 => {
                    cursor.at += 1;
                    let months = cursor.number()?.0;
                    if months > 11 {
                        return Err(Failure::Overflow);
                    }
                    if cursor.peek() == Some(b'-') {
                        return Err(Failure::Syntax);
                    }
                    Amount { fraction: 0.0, ..amount }.add_to(once(Unit::Year)?, builder);
                    Amount { whole: months, ..amount }.add_to(once(Unit::Month)?, builder);
                }
                _ => {
                    if let Some(days) = pending.replace(amount) {
                        days.add_to(once(Unit::Day)?, builder);
                    }
                }
            }
        }
    }
    if let Some(seconds) = pending {
        seconds.add_to(once(Unit::Second)?, builder);
    }
    if seen { Ok(()) } else { Err(Failure::Syntax) }
}

/// `hours:minutes[:seconds]`, or `minutes:seconds.fraction`.
fn clock_interval(cursor: &mut Cursor, hours: &Amount, builder: &mut Builder) -> Result<(), Failure> {
    cursor.at += 1;
    let middle = cursor.number()?.0;
    let (hour, minute, second, fraction) = if cursor.eat(b'.') {
        (0, hours.whole, middle, cursor.fraction())
    } else if cursor.eat(b':') {
        let second = cursor.number()?.0;
        (hours.whole, middle, second, if cursor.eat(b'.') { cursor.fraction() } else { 0 })
    } else {
        (hours.whole, middle, 0, 0)
    };
    if minute > 59 || second > 60 {
        return Err(Failure::Overflow);
    }
    let microseconds = ((i128::from(hour) * 60 + i128::from(minute)) * 60 + i128::from(second))
        * i128::from(MICROSECONDS_PER_SECOND)
        + i128::from(fraction);
    builder.add_microseconds(if hours.negative { -microseconds } else { microseconds });
    Ok(())
}
