//! Settings that are durations: how they are read, and how SHOW tells them.

use weir_types::{SqlError, SqlState};

/// Units of time, the largest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

/// # Errors
/// It is no time, or more than PostgreSQL takes.
pub(super) fn milliseconds(name: &str, value: &str) -> Result<u64, SqlError> {
    let wrong = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let value = value.trim_matches('\'').trim();
    let digits = value.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit = unit.trim();
    let factor = match unit {
        "" => Some(1.0),
        "us" => Some(0.001),
        _ => UNITS.iter().find(|(one, _)| *one == unit).map(|(_, ms)| *ms as f64),
    };
    let (Ok(number), Some(factor)) = (number.parse::<f64>(), factor) else {
        let error = wrong(format!("invalid value for parameter \"{name}\": \"{value}\""));
        return Err(error.with_hint(
            "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".",
        ));
    };
    let ms = (number * factor).round();
    if !(0.0..=f64::from(i32::MAX)).contains(&ms) {
        return Err(wrong(format!(
            "{ms} ms is outside the valid range for parameter \"{name}\" (0 .. {})",
            i32::MAX
        )));
    }
    Ok(ms as u64)
}

/// In the largest unit that needs no fraction, as SHOW tells it.
pub(super) fn shown(ms: u64) -> String {
    match UNITS.iter().find(|(_, size)| ms > 0 && ms.is_multiple_of(*size)) {
        Some((unit, size)) => format!("{}{unit}", ms / size),
        None => ms.to_string(),
    }
}
