//! `real` and `double precision`: reading, and printing the shortest digits that read back the same.

use crate::error::{SqlError, SqlState};

/// Prints as PostgreSQL does with `extra_float_digits` at its default.
pub fn print_f64(value: f64) -> String {
    print(value, format!("{value:e}"), 15)
}

pub fn print_f32(value: f32) -> String {
    print(f64::from(value), format!("{value:e}"), 6)
}

/// Scientific notation below 10^-4 and from 10^`digits` on.
fn print(value: f64, shortest: String, digits: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 {
        return mantissa.to_owned();
    }
    if (-4..digits).contains(&exponent) {
        let (sign, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", mantissa),
        };
        let all = mantissa.replace('.', "");
        return if exponent < 0 {
            format!("{sign}0.{}{all}", "0".repeat((-exponent - 1) as usize))
        } else if all.len() as i32 <= exponent + 1 {
            format!("{sign}{all}{}", "0".repeat((exponent + 1) as usize - all.len()))
        } else {
            let (integer, fraction) = all.split_at(exponent as usize + 1);
            format!("{sign}{integer}.{fraction}")
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `type_name` is for the message: `double precision` or `real`.
fn parse<T: std::str::FromStr>(text: &str, type_name: &str) -> Result<T, SqlError> {
    let invalid = || {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        )
    };
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let body = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    let known = body.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || ["nan", "inf", "infinity"].iter().any(|word| body.eq_ignore_ascii_case(word));
    if !known {
        return Err(invalid());
    }
    trimmed.parse().map_err(|_| invalid())
}

#[cold]
fn out_of_range(text: &str, type_name: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("\"{}\" is out of range for type {type_name}", text.trim()),
    )
}

fn is_word(text: &str) -> bool {
    text.contains(['i', 'I'])
}

fn has_digits(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b))
}

pub fn parse_f64(text: &str) -> Result<f64, SqlError> {
    let value: f64 = parse(text, "double precision")?;
    if (value.is_infinite() && !is_word(text)) || (value == 0.0 && has_digits(text)) {
        return Err(out_of_range(text, "double precision"));
    }
    Ok(value)
}

pub fn parse_f32(text: &str) -> Result<f32, SqlError> {
    let value: f32 = parse(text, "real")?;
    if (value.is_infinite() && !is_word(text)) || (value == 0.0 && has_digits(text)) {
        return Err(out_of_range(text, "real"));
    }
    Ok(value)
}
