//! Reading and printing `numeric`.

use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;
use num_traits::{Signed, Zero};

use super::{BigNumeric, MAX_INTEGER_DIGITS, MAX_SCALE, Numeric, overflow, power_of_ten};
use crate::error::{SqlError, SqlState};

/// An exponent beyond it moves each digit of a text out of what a number has.
const EXPONENT_MAX: i64 = 2_000_000_000;

#[cold]
fn invalid(text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type numeric: \"{text}\""),
    )
}

impl FromStr for Numeric {
    type Err = SqlError;

    /// PostgreSQL's input syntax: digits, a point, an exponent, `NaN`, `Infinity`, white space around.
    fn from_str(text: &str) -> Result<Numeric, SqlError> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (negative, unsigned) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        match unsigned.as_bytes().first() {
            Some(b'0'..=b'9' | b'.') => {}
            _ if trimmed.eq_ignore_ascii_case("nan") => return Ok(Numeric::nan()),
            _ if unsigned.eq_ignore_ascii_case("infinity") || unsigned.eq_ignore_ascii_case("inf") => {
                return Ok(Numeric::infinity(negative));
            }
            _ => return Err(invalid(text)),
        }
        let (digits, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => {
                let exponent = &unsigned[at + 1..];
                let unsigned_exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if unsigned_exponent.is_empty() || !unsigned_exponent.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(invalid(text));
                }
                (&unsigned[..at], exponent.parse::<i64>().map_err(|_| overflow())?)
            }
            None => (unsigned, 0),
        };
        let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if integer.len() + fraction.len() == 0
            || !integer.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
        {
            return Err(invalid(text));
        }
        from_digits(negative, integer, fraction, exponent)
    }
}

fn from_digits(negative: bool, integer: &str, fraction: &str, exponent: i64) -> Result<Numeric, SqlError> {
    if exponent == 0 && integer.len() + fraction.len() <= 18 {
        let mut mantissa = 0i64;
        for digit in integer.bytes().chain(fraction.bytes()) {
            mantissa = mantissa * 10 + i64::from(digit - b'0');
        }
        let mantissa = if negative { -mantissa } else { mantissa };
        return Ok(Numeric::Small { scale: fraction.len() as u8, mantissa });
    }
    let all = format!("{integer}{fraction}");
    let scale = fraction.len() as i64 - exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX);
    // Digits behind the first that is rounded away. Reading a number takes time with the square of its length.
    let behind = (scale - MAX_SCALE - 1).clamp(0, all.len() as i64);
    let scale = (scale - behind).min(MAX_SCALE + 1);
    let digits = all[..all.len() - behind as usize].trim_start_matches('0');
    if digits.is_empty() {
        return Numeric::from_big(BigInt::zero(), scale.clamp(0, MAX_SCALE));
    }
    if digits.len() as i64 - scale > MAX_INTEGER_DIGITS {
        return Err(overflow());
    }
    let mut mantissa: BigInt = digits.parse().map_err(|_| invalid(digits))?;
    if negative {
        mantissa = -mantissa;
    }
    if scale >= 0 {
        return Numeric::from_big(mantissa, scale);
    }
    Numeric::from_big(mantissa * power_of_ten(-scale as u32), 0)
}

impl Numeric {
    /// Appends its text.
    pub fn push_text(&self, out: &mut Vec<u8>) {
        let Numeric::Small { scale, mantissa } = self else {
            return out.extend_from_slice(self.to_string().as_bytes());
        };
        let mut buffer = itoa::Buffer::new();
        let (digits, scale) = (buffer.format(mantissa.unsigned_abs()).as_bytes(), usize::from(*scale));
        if *mantissa < 0 {
            out.push(b'-');
        }
        let point = digits.len().saturating_sub(scale);
        match point {
            0 => out.push(b'0'),
            _ => out.extend_from_slice(&digits[..point]),
        }
        if scale > 0 {
            out.push(b'.');
            out.extend(std::iter::repeat_n(b'0', scale.saturating_sub(digits.len())));
            out.extend_from_slice(&digits[point..]);
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, digits, scale) = match self {
            Numeric::Small { scale: 0, mantissa } => return write!(f, "{mantissa}"),
            Numeric::Small { scale, mantissa } => {
                (*mantissa < 0, mantissa.unsigned_abs().to_string(), usize::from(*scale))
            }
            Numeric::Big(big) => match &**big {
                BigNumeric::NaN => return f.write_str("NaN"),
                BigNumeric::PositiveInfinity => return f.write_str("Infinity"),
                BigNumeric::NegativeInfinity => return f.write_str("-Infinity"),
                BigNumeric::Finite { scale, mantissa } => {
                    (mantissa.is_negative(), mantissa.magnitude().to_string(), usize::from(*scale))
                }
            },
        };
        if negative {
            f.write_str("-")?;
        }
        if scale == 0 {
            return f.write_str(&digits);
        }
        if digits.len() > scale {
            let (integer, fraction) = digits.split_at(digits.len() - scale);
            write!(f, "{integer}.{fraction}")
        } else {
            write!(f, "0.{digits:0>scale$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_pushed_is_text_that_is_displayed() {
        for mantissa in [0, 1, -1, 5, 10, 99, -100, 12_345, i64::MAX, i64::MIN] {
            for scale in 0..=25 {
                let numeric = Numeric::Small { scale, mantissa };
                let mut pushed = Vec::new();
                numeric.push_text(&mut pushed);
                assert_eq!(String::from_utf8(pushed).unwrap(), numeric.to_string(), "{mantissa} {scale}");
            }
        }
        let mut pushed = Vec::new();
        Numeric::Big(Box::new(BigNumeric::NaN)).push_text(&mut pushed);
        assert_eq!(pushed, b"NaN");
    }
}
