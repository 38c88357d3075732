//! Settings that are numbers, as PostgreSQL reads and tells them.

use weir_types::{SqlError, SqlState};

use super::invalid;

/// Units of memory in kB, the largest first.
const SIZES: [(&str, i64); 4] = [("TB", 1 << 30), ("GB", 1 << 20), ("MB", 1 << 10), ("kB", 1)];

fn out_of_range(name: &str, told: &str, range: &str) -> SqlError {
    let message = format!("{told} is outside the valid range for parameter \"{name}\" ({range})");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn parsed(name: &str, value: &str) -> Result<f64, SqlError> {
    let number = value.trim_matches('\'').trim();
    // PostgreSQL does not read the words that Rust reads beside digits.
    let is_number = !number.is_empty() && number.bytes().all(|byte| b"0123456789+-.eE".contains(&byte));
    number.parse().ok().filter(|_| is_number).ok_or_else(|| invalid(name, value))
}

pub fn integer(name: &str, value: &str, least: i32, most: i32) -> Result<i32, SqlError> {
    let number = parsed(name, value)?.round_ties_even();
    if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number) {
        return Err(invalid(name, value).with_hint("Value exceeds integer range."));
    }
    match number >= f64::from(least) && number <= f64::from(most) {
        true => Ok(number as i32),
        false => Err(out_of_range(name, &number.to_string(), &format!("{least} .. {most}"))),
    }
}

pub fn real(name: &str, value: &str, least: f64, most: f64) -> Result<f64, SqlError> {
    let number = parsed(name, value)?;
    let told = if most == f64::MAX { "1.79769e+308".to_owned() } else { most.to_string() };
    match number >= least && number <= most {
        true => Ok(number),
        false => Err(out_of_range(name, &number.to_string(), &format!("{least} .. {told}"))),
    }
}

/// Memory, as it is told: in the largest unit that needs no fraction.
pub fn size(name: &str, value: &str, least: i32) -> Result<String, SqlError> {
    let text = value.trim_matches('\'').trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "" => 1.0,
        "B" => 1.0 / 1024.0,
        _ => {
            let known = SIZES.iter().find(|(one, _)| *one == unit).ok_or_else(|| {
                let hint = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
                invalid(name, value).with_hint(hint)
            })?;
            known.1 as f64
        }
    };
    let kib = (parsed(name, number).map_err(|_| invalid(name, value))? * factor).round_ties_even();
    if !(f64::from(least)..=f64::from(i32::MAX)).contains(&kib) {
        return Err(out_of_range(name, &format!("{kib} kB"), &format!("{least} .. {}", i32::MAX)));
    }
    let kib = kib as i64;
    if kib <= 0 {
        return Ok(kib.to_string());
    }
    let (unit, factor) = SIZES.iter().find(|(_, factor)| kib % factor == 0).unwrap_or(&SIZES[3]);
    Ok(format!("{}{unit}", kib / factor))
}

/// Bytes of a size as it is told; none: as much as there is.
pub fn bytes_of_size(told: &str) -> Option<u64> {
    let unit_at = told.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(told.len());
    let (number, unit) = told.split_at(unit_at);
    // 0 and -1 are told without a unit.
    let factor = SIZES.iter().find(|(one, _)| *one == unit).map_or(1, |(_, factor)| *factor as u64);
    Some(number.parse::<u64>().ok()? * factor * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_what_is_told() {
        let bytes = |value: &str| bytes_of_size(&size("x", value, -1).unwrap());
        let seen = ["-1", "0", "64", "1500kB", "4MB", "1GB", "1TB"].map(bytes);
        let kib = [64, 1_500, 4 << 10, 1 << 20].map(|kib: u64| Some(kib << 10));
        assert_eq!(seen[..2], [None, Some(0)]);
        assert_eq!(seen[2..6], kib);
        assert_eq!(seen[6], Some(1 << 40));
    }
}
