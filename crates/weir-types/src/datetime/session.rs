//! The time zone of the session that something is evaluated for (TimeZone).
//!
//! Functions and casts are called without a context in many places, so the zone of an evaluation is held by its thread, from
//! [`SessionZone::enter`] to the end of that scope, and is UTC outside of one. It is not ambient: it comes with every request, beside the
//! transaction's time ([`TransactionTime`]), and whoever evaluates enters it from there. Processes know zones by their names alone.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError, RwLock};

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

use super::zone::Zone;
use super::{MICROSECONDS_PER_SECOND, date_from_timestamp, is_infinite_timestamp};
use crate::error::{SqlError, SqlState};

/// Largest number of zones outside the tz database: their names come from clients, and are kept forever.
const SPECIFIED_MAX: usize = 20_000;
/// Longest POSIX specification, in bytes.
const NAME_BYTES_MAX: usize = 255;

#[derive(Debug)]
struct Known {
    name: String,
    zone: Zone,
}

/// UTC, or a zone that this process has met. Small and `Copy`: the zones that were met stay.
#[derive(Clone, Copy, Default)]
pub struct SessionZone(Option<&'static Known>);

static KNOWN: LazyLock<RwLock<BTreeMap<String, &'static Known>>> = LazyLock::new(RwLock::default);

thread_local! {
    static CURRENT: Cell<SessionZone> = const { Cell::new(SessionZone(None)) };
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// The zone of a session that several threads may carry, one at a time.
#[derive(Debug, Default)]
pub struct ZoneCell {
    /// Fast path without a lock for UTC.
    is_other: AtomicBool,
    zone: Mutex<SessionZone>,
}

impl ZoneCell {
    pub fn get(&self) -> SessionZone {
        match self.is_other.load(Ordering::Acquire) {
            true => *self.zone.lock().unwrap_or_else(PoisonError::into_inner),
            false => SessionZone::UTC,
        }
    }

    /// The evaluation that is under way on this thread goes on in that zone.
    pub fn set(&self, zone: SessionZone) {
        *self.zone.lock().unwrap_or_else(PoisonError::into_inner) = zone;
        self.is_other.store(!zone.is_utc(), Ordering::Release);
        CURRENT.set(zone);
    }
}

/// From here on evaluations of this thread are in that zone, up to the end of this value. It stays on its thread.
pub struct Entered {
    before: SessionZone,
    of_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

impl PartialEq for SessionZone {
    fn eq(&self, other: &SessionZone) -> bool {
        match (self.0, other.0) {
            (None, None) => true,
            (Some(left), Some(right)) => std::ptr::eq(left, right),
            _ => false,
        }
    }
}

impl Eq for SessionZone {}

impl fmt::Debug for SessionZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn invalid(value: &str) -> SqlError {
    let message = format!("invalid value for parameter \"TimeZone\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

impl SessionZone {
    pub const UTC: SessionZone = SessionZone(None);

    /// By the name of a zone of the tz database or a POSIX specification.
    ///
    /// # Errors
    /// There is no such zone (22023).
    pub fn named(name: &str) -> Result<SessionZone, SqlError> {
        let Some((name, zone)) = Zone::of_setting(name).filter(|_| name.len() <= NAME_BYTES_MAX) else {
            return Err(invalid(name));
        };
        SessionZone::of(name, zone)
    }

    /// As TimeZone may be set: a name, hours, or an interval.
    ///
    /// # Errors
    /// It is none of these (22023).
    pub fn of_setting(value: &str) -> Result<SessionZone, SqlError> {
        let refuse = |what: &str| Err(invalid(value).with_detail(what));
        let seconds = |east: i64| {
            let named = SessionZone::named(&super::zone::name_of_offset(east));
            named.or_else(|_| refuse("UTC timezone offset is out of range."))
        };
        let word = value.get(..8).filter(|word| word.eq_ignore_ascii_case("interval"));
        if word.is_some() {
            let text = value[8..].trim().trim_matches('\'');
            let interval = super::parse::interval(text).map_err(|_| invalid(value))?;
            return match () {
                () if interval.months != 0 => refuse("Cannot specify months in time zone interval."),
                () if interval.days != 0 => refuse("Cannot specify days in time zone interval."),
                () => seconds(interval.microseconds / MICROSECONDS_PER_SECOND),
            };
        }
        match value.trim().parse::<f64>() {
            Ok(hours) if hours.is_finite() => seconds((hours * 3600.0) as i64),
            _ => SessionZone::named(value),
        }
    }

    fn of(name: String, zone: Zone) -> Result<SessionZone, SqlError> {
        if name == "UTC" {
            return Ok(SessionZone::UTC);
        }
        let known = |of: &BTreeMap<String, &'static Known>| of.get(&name).copied();
        if let Some(known) = known(&KNOWN.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(SessionZone(Some(known)));
        }
        let mut all = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known(&all) {
            return Ok(SessionZone(Some(known)));
        }
        if all.len() >= SPECIFIED_MAX {
            let message = "there are too many different time zones";
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_hint("use zones of the tz database, such as Europe/Berlin"));
        }
        let known: &'static Known = Box::leak(Box::new(Known { name: name.clone(), zone }));
        all.insert(name, known);
        Ok(SessionZone(Some(known)))
    }

    pub fn is_utc(self) -> bool {
        self.0.is_none()
    }

    /// Its rules; none: it is UTC.
    pub fn zone(self) -> Option<&'static Zone> {
        self.0.map(|known| &known.zone)
    }

    /// As SHOW tells it, and as other processes know it.
    pub fn name(self) -> &'static str {
        self.0.map_or("UTC", |known| &known.name)
    }

    /// Zone of the evaluation on this thread.
    #[inline]
    pub fn current() -> SessionZone {
        ASKED.set(true);
        CURRENT.get()
    }

    #[inline]
    pub fn enter(self) -> Entered {
        Entered { before: CURRENT.replace(self), of_thread: PhantomData }
    }

    /// Whether what it does depends on the zone: it has asked for it.
    pub fn is_asked<T>(evaluate: impl FnOnce() -> T) -> (T, bool) {
        let before = ASKED.replace(false);
        let value = evaluate();
        let asked = ASKED.replace(before);
        ASKED.set(before | asked);
        (value, asked)
    }

    /// Seconds east of UTC at that instant.
    pub fn offset_at(self, instant: i64) -> i64 {
        match self.0 {
            Some(known) if !is_infinite_timestamp(instant) => {
                known.zone.offset_at(instant.div_euclid(MICROSECONDS_PER_SECOND))
            }
            _ => 0,
        }
    }

    /// Local time of an instant; it may exceed the range of timestamps by less than a week.
    #[inline]
    pub fn shown_at(self, instant: i64) -> i64 {
        match self.0 {
            Some(_) => instant.saturating_add(self.offset_at(instant) * MICROSECONDS_PER_SECOND),
            None => instant,
        }
    }

    /// # Errors
    /// The local time is none of PostgreSQL's timestamps.
    #[inline]
    pub fn local_of(self, instant: i64) -> Result<i64, SqlError> {
        self.0.map_or(Ok(instant), |known| known.zone.local_of(instant))
    }

    /// # Errors
    /// The instant is none of PostgreSQL's timestamps.
    #[inline]
    pub fn instant_of(self, local: i64) -> Result<i64, SqlError> {
        self.0.map_or(Ok(local), |known| known.zone.instant_of(local))
    }

    /// The day that its calendars show.
    pub fn date_at(self, instant: i64) -> i32 {
        date_from_timestamp(self.shown_at(instant))
    }

    /// Abbreviation of the zone at that instant: CEST.
    pub fn abbreviation_at(self, instant: i64) -> String {
        match self.0 {
            Some(known) => {
                known.zone.abbreviation_at(instant.div_euclid(MICROSECONDS_PER_SECOND), &known.name)
            }
            None => "UTC".to_owned(),
        }
    }
}

/// When a transaction began, and in which zone its session is: what `now()` says and how it is shown. What is evaluated for a session,
/// now or later, here or elsewhere, is evaluated with this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionTime {
    /// Microseconds since 2000-01-01 00:00 UTC.
    pub at: i64,
    pub zone: SessionZone,
}

impl TransactionTime {
    pub fn new(at: i64, zone: SessionZone) -> TransactionTime {
        TransactionTime { at, zone }
    }
}

/// In UTC.
impl From<i64> for TransactionTime {
    fn from(at: i64) -> TransactionTime {
        TransactionTime { at, zone: SessionZone::UTC }
    }
}

/// No time: the time and the name of a zone follow. What is in UTC is its time alone, as it was before there were others.
const ZONED: i64 = i64::MIN;

impl Serialize for TransactionTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use ser::SerializeTuple;
        let parts = if self.zone.is_utc() { 1 } else { 3 };
        let mut tuple = serializer.serialize_tuple(parts)?;
        if self.zone.is_utc() {
            tuple.serialize_element(&self.at.max(ZONED + 1))?;
        } else {
            tuple.serialize_element(&ZONED)?;
            tuple.serialize_element(&self.at)?;
            tuple.serialize_element(self.zone.name())?;
        }
        tuple.end()
    }
}

impl<'de> Deserialize<'de> for TransactionTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TransactionTime, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = TransactionTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time, or a time and a zone")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<TransactionTime, A::Error> {
                let missing = || de::Error::custom("a time without its zone");
                let first: i64 = parts.next_element()?.ok_or_else(missing)?;
                if first != ZONED {
                    return Ok(first.into());
                }
                let at = parts.next_element()?.ok_or_else(missing)?;
                let name: String = parts.next_element()?.ok_or_else(missing)?;
                let zone = SessionZone::named(&name).map_err(|error| de::Error::custom(error.message()))?;
                Ok(TransactionTime { at, zone })
            }
        }

        deserializer.deserialize_tuple(3, Parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{parse, print};

    #[test]
    fn a_scope_has_its_zone_and_its_end_gives_the_one_before_back() {
        let instant = parse::timestamptz("2024-07-01 12:00+00").unwrap();
        assert_eq!(print::timestamptz(instant), "2024-07-01 12:00:00+00");
        {
            let _new_york = SessionZone::named("america/new_york").unwrap().enter();
            assert_eq!(print::timestamptz(instant), "2024-07-01 08:00:00-04");
            {
                let _india = SessionZone::of_setting("5.5").unwrap().enter();
                assert_eq!(print::timestamptz(instant), "2024-07-01 17:30:00+05:30");
                assert_eq!(parse::timestamptz("2024-07-01 17:30").unwrap(), instant);
            }
            assert_eq!(parse::timestamptz("2024-07-01 08:00").unwrap(), instant);
        }
        assert_eq!(parse::timestamptz("2024-07-01 12:00").unwrap(), instant);
        let asks = |text: &str| SessionZone::is_asked(|| parse::timestamptz(text)).1;
        assert!(asks("2024-07-01 12:00") && !asks("2024-07-01 12:00+00") && !asks("infinity"));
    }

    fn check(setting: &str, name: &str) {
        let shown = SessionZone::of_setting(setting);
        assert_eq!(shown.as_ref().map_or("none", |zone| zone.name()), name, "{setting}");
    }

    #[test]
    fn settings_name_zones_as_postgresql_shows_them() {
        check("utc", "UTC");
        check("europe/BERLIN", "Europe/Berlin");
        check("0", "<+00>-00");
        check("2", "<+02>-02");
        check("-3.5", "<-03:30>+03:30");
        check("INTERVAL '+02:00'", "<+02>-02");
        check("interval '1 day'", "none");
        check("FOO-2", "FOO-2");
        check("EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0");
        check("PST", "none");
        check("Mars/Olympus", "none");
        check("", "none");
    }
}
