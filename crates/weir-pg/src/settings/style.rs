//! Settings that are words: which of them are so here, which there are and are refused, and which there are not.

use weir_types::SqlError;
use weir_types::datetime::SessionZone;
use weir_types::datetime::style::IntervalStyle;

use super::{invalid, not_supported};

pub fn one_of(name: &str, value: &str, words: &[&str]) -> Result<String, SqlError> {
    let value = value.trim_matches('\'');
    let word = words.iter().find(|word| word.eq_ignore_ascii_case(value));
    word.map(|word| (*word).to_owned())
        .ok_or_else(|| invalid(name, value).with_hint(format!("Available values: {}.", words.join(", "))))
}

/// Shown as PostgreSQL shows it: the name of the zone.
pub fn zone(value: &str) -> Result<String, SqlError> {
    SessionZone::of_setting(value).map(|zone| zone.name().to_owned())
}

/// Names without a schema are of `public`, or of none.
pub fn path(value: &str) -> Result<String, SqlError> {
    let schemas: Vec<String> = value.split(',').map(|one| unquoted(one.trim())).collect();
    let is_known = |one: &String| matches!(one.as_str(), "$user" | "public" | "pg_catalog" | "");
    if schemas.iter().all(is_known) {
        let shown = schemas.iter().map(|one| if one == "$user" { "\"$user\"" } else { one });
        return Ok(shown.collect::<Vec<_>>().join(", "));
    }
    let hint = "Names without a schema are of public; write the schema in front of the others: schema.name.";
    Err(not_supported("search_path", value, hint))
}

fn unquoted(word: &str) -> String {
    match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => word.trim_matches('\'').to_ascii_lowercase(),
    }
}

pub fn date_style(value: &str) -> Result<(), SqlError> {
    for word in value.trim_matches('\'').split(',').map(|word| word.trim().to_ascii_lowercase()) {
        match word.as_str() {
            "iso" | "mdy" | "us" | "noneuro" | "noneuropean" | "default" => {}
            "dmy" | "ymd" | "sql" | "postgres" | "german" | "euro" | "european" => {
                return Err(not_supported("DateStyle", value, "it may be ISO, MDY"));
            }
            _ => {
                let detail = format!("Unrecognized key word: \"{word}\".");
                return Err(invalid("DateStyle", value).with_detail(detail));
            }
        }
    }
    Ok(())
}

/// In sql_standard the sign of an interval's first field is that of all: what clients write would mean something else.
pub fn interval_style(name: &str, value: &str) -> Result<String, SqlError> {
    let styles = ["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
    let word = one_of(name, value, &styles)?;
    match IntervalStyle::named(&word) {
        Some(_) => Ok(word),
        None => {
            Err(not_supported("IntervalStyle", value, "it may be postgres, postgres_verbose or iso_8601"))
        }
    }
}
