//! A session's settings: what may be set, and what SHOW tells.

mod in_effect;
mod known;
mod number;
mod session;
mod startup;
mod style;
mod time;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use weir_sql::session::Isolation;
use weir_types::datetime::SessionZone;
use weir_types::datetime::style::IntervalStyle;
use weir_types::memory::WorkingMemory;
use weir_types::{Severity, SqlError, SqlState};

pub(crate) use self::in_effect::InEffect;
pub use self::known::PARAMETER_STATUS;
use self::known::{KNOWN, LEAST_SEVERITY, LOG_SLOW, May, SEVERITIES, key, known, severity};
pub(crate) use self::session::{Saved, SessionSettings};
use self::time::{milliseconds, shown};

/// Settings reported to clients, with their new values.
pub(crate) type Changed = Vec<(&'static str, String)>;

/// The settings of one session.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// As the client came in with them: RESET goes back to these.
    first: BTreeMap<String, String>,
    /// Values set since the start.
    set: BTreeMap<String, String>,
}

impl Values {
    /// As the startup packet has them.
    ///
    /// # Errors
    /// It names a setting that there is not, or that may not be so.
    pub fn of<'a>(
        parameters: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Values, SqlError> {
        let mut values = Values::default();
        let (mut options, mut others) = (Vec::new(), Vec::new());
        for (name, value) in parameters {
            match name.as_str() {
                "user" => drop(values.set.insert("session_authorization".to_owned(), value.clone())),
                "database" => {}
                "replication" if switch(value) == Some(false) => {}
                "replication" => {
                    return Err(not_supported("replication", value, "no replication protocol is spoken"));
                }
                "options" => options = startup::options(value)?,
                // Protocol options; unknown ones are negotiated.
                name if name.starts_with("_pq_.") => {}
                _ => others.push((name.clone(), value.clone())),
            }
        }
        for (name, value) in options.into_iter().chain(others) {
            values.set(&name, Some(&value))?;
        }
        values.first = std::mem::take(&mut values.set);
        Ok(values)
    }

    /// Value set explicitly, by the session or at startup.
    fn given(&self, key: &str) -> Option<&String> {
        self.set.get(key).or_else(|| self.first.get(key))
    }

    /// A setting that is on or off. Outside of transactions what is so of the next one is asked.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some("on")
    }

    /// A time, if one is set.
    fn time(&self, name: &str) -> Option<Duration> {
        let value = self.value(name).filter(|value| *value != "0")?;
        milliseconds(name, value).ok().filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// A statement that takes so long is logged; none where nothing is set.
    fn log_slow(&self) -> Option<Option<Duration>> {
        let value = self.given(LOG_SLOW)?;
        Some(milliseconds(LOG_SLOW, value).ok().map(Duration::from_millis))
    }

    /// The style of intervals that are sent as text.
    fn interval_style(&self) -> IntervalStyle {
        let given = self.given("intervalstyle");
        given.and_then(|name| IntervalStyle::named(name)).unwrap_or_default()
    }

    /// Time zone of the session, for evaluation and for text output.
    pub fn zone(&self) -> SessionZone {
        let given = self.given("timezone");
        // It was one when it was set.
        given.and_then(|name| SessionZone::named(name).ok()).unwrap_or_default()
    }

    /// Memory and temporary files of the session's statements.
    pub fn working_memory(&self) -> WorkingMemory {
        let bytes = |name| self.value(name).and_then(number::bytes_of_size);
        let multiplier = self.value("hash_mem_multiplier").and_then(|value| value.parse::<f64>().ok());
        let default = WorkingMemory::default();
        let sort_bytes = bytes("work_mem").map_or(default.sort_bytes, |bytes| bytes as usize);
        let hash_bytes = (sort_bytes as f64 * multiplier.unwrap_or(1.0)) as usize;
        WorkingMemory { sort_bytes, hash_bytes, files_bytes_max: bytes("temp_file_limit") }
    }

    /// Whether the client hears what is of that severity. It hears INFO in any case.
    pub fn lets_through(&self, severity: Severity) -> bool {
        let least = self.value(LEAST_SEVERITY).unwrap_or_default();
        let least = SEVERITIES.iter().find(|(word, ..)| *word == least);
        severity == Severity::Info
            || least.is_none_or(|(_, least, _)| least.is_some_and(|least| severity >= least))
    }

    pub fn application(&self) -> &str {
        self.value("application_name").unwrap_or_default()
    }

    /// Value for SHOW; none: there is no such setting.
    pub fn get(&self, name: &str) -> Option<String> {
        self.value(name).map(str::to_owned)
    }

    fn value(&self, name: &str) -> Option<&str> {
        let mut key = key(name);
        if matches!(&*key, "transaction_read_only" | "transaction_isolation") && self.given(&key).is_none() {
            key = Cow::Owned(format!("default_{key}"));
        }
        let given = self.given(&key).map(String::as_str);
        given.or_else(|| known(&key).map(|(_, first, _)| *first))
    }

    /// All that there are, and the application's own.
    pub fn by_name(&self) -> BTreeMap<String, String> {
        let own = self.first.iter().chain(&self.set).filter(|(name, _)| known(name).is_none());
        let own = own.map(|(name, value)| (name.clone(), value.clone()));
        own.chain(self.all().map(|(name, value)| (name.to_owned(), value))).collect()
    }

    /// All that there are, by name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, String)> {
        KNOWN.iter().map(|(name, ..)| (*name, self.get(name).unwrap_or_default()))
    }

    /// # Errors
    /// There is no such setting (42704), it cannot be set (55P02), or not to this (0A000).
    pub fn set(&mut self, written: &str, value: Option<&str>) -> Result<(), SqlError> {
        let key = written.to_ascii_lowercase();
        // Settings with a point are the application's own.
        let Some((name, _, may)) = known(written) else {
            if !key.contains('.') {
                let message = format!("unrecognized configuration parameter \"{written}\"");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
            }
            // One that has been set once is there.
            let value = value.or_else(|| self.first.get(&key).map(String::as_str)).unwrap_or_default();
            let value = value.to_owned();
            self.set.insert(key, value);
            return Ok(());
        };
        if let May::NotBeSet = may {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        let Some(value) = value else {
            self.set.remove(&key);
            return Ok(());
        };
        match may {
            May::BeWhoAsks if value.eq_ignore_ascii_case("none") => {
                self.set.remove("role");
                Ok(())
            }
            May::BeWhoAsks if self.get("session_authorization").as_deref() != Some(value) => {
                let message = format!("role \"{value}\" does not exist");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            May::Only(these)
                if !these.iter().any(|one| one.eq_ignore_ascii_case(value.trim_matches('\''))) =>
            {
                Err(not_supported(name, value, &format!("it may be {}", these.join(" or "))))
            }
            May::BeLevel => {
                self.set.insert(key, level(name, value)?.to_owned());
                Ok(())
            }
            May::BeSwitched => {
                let is_on = switch(value).ok_or_else(|| {
                    let message = format!("parameter \"{name}\" requires a Boolean value");
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                })?;
                self.set.insert(key, if is_on { "on" } else { "off" }.to_owned());
                Ok(())
            }
            May::BeSeverity => {
                self.set.insert(key, severity(name, value)?.to_owned());
                Ok(())
            }
            May::BeTimeOrNever if value.trim_matches('\'') == "-1" => {
                self.set.insert(key, "-1".to_owned());
                Ok(())
            }
            May::BeTime | May::BeTimeOrNever => {
                self.set.insert(key, shown(milliseconds(name, value)?));
                Ok(())
            }
            May::BeInteger(least, most) => {
                self.set.insert(key, number::integer(name, value, *least, *most)?.to_string());
                Ok(())
            }
            May::BeNumber(least, most) => {
                self.set.insert(key, number::real(name, value, *least, *most)?.to_string());
                Ok(())
            }
            May::BeSize(least) => {
                self.set.insert(key, number::size(name, value, *least)?);
                Ok(())
            }
            May::BeDigits => {
                let digits = number::integer(name, value, -15, 3)?;
                if digits < 1 {
                    return Err(not_supported(
                        name,
                        value,
                        "floats are told with as many digits as it takes: 1",
                    ));
                }
                self.set.insert(key, digits.to_string());
                Ok(())
            }
            May::BeOneOf(words) => {
                self.set.insert(key, style::one_of(name, value, words)?);
                Ok(())
            }
            May::BePath => {
                self.set.insert(key, style::path(value)?);
                Ok(())
            }
            May::BeZone => {
                self.set.insert(key, style::zone(value)?);
                Ok(())
            }
            May::BeDateStyle => style::date_style(value),
            May::BeIntervalStyle => {
                self.set.insert(key, style::interval_style(written, value)?);
                Ok(())
            }
            // The effect is the same, and clients see the name that they know.
            May::Only(_) | May::NotBeSet => Ok(()),
            May::BeAnything | May::BeWhoAsks => {
                self.set.insert(key, value.to_owned());
                Ok(())
            }
        }
    }

    /// Settings reported to clients whose values differ from `before`.
    pub fn told_anew(&self, before: &Values) -> Changed {
        let told = PARAMETER_STATUS.iter().filter(|name| self.get(name) != before.get(name));
        told.filter_map(|name| Some((*name, self.get(name)?))).collect()
    }

    /// Transactions are of that level: the open one; outside of transactions, the next one.
    pub fn is_isolation(&self, level: Isolation) -> bool {
        let set =
            self.set.get("transaction_isolation").or_else(|| self.given("default_transaction_isolation"));
        let level = kept_level(level);
        set.map_or(level == Isolation::ReadCommitted, |set| set == level.name())
    }

    /// Sets the isolation level of the open transaction.
    pub fn set_isolation(&mut self, level: Isolation) {
        self.set.insert("transaction_isolation".to_owned(), kept_level(level).name().to_owned());
    }

    pub fn reset(&mut self) {
        self.set.retain(|name, value| {
            let is_own = known(name).is_none();
            *value = self.first.get(name).cloned().unwrap_or_default();
            is_own
        });
    }
}

/// The level of that name, as it is kept.
fn level(name: &str, value: &str) -> Result<&'static str, SqlError> {
    let value = value.trim_matches('\'');
    Ok(kept_level(Isolation::by_name(value).ok_or_else(|| invalid(name, value))?).name())
}

/// READ UNCOMMITTED is READ COMMITTED.
fn kept_level(level: Isolation) -> Isolation {
    if level == Isolation::ReadUncommitted { Isolation::ReadCommitted } else { level }
}

/// A word for on or off, or the beginning of one that is no other's.
pub(crate) fn switch(value: &str) -> Option<bool> {
    let value = value.trim_matches('\'').trim().to_ascii_lowercase();
    let is = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if is("on", 2) || is("true", 1) || is("yes", 1) || value == "1" {
        return Some(true);
    }
    (is("off", 2) || is("false", 1) || is("no", 1) || value == "0").then_some(false)
}

fn not_supported(name: &str, value: &str, hint: &str) -> SqlError {
    let message = format!("{name} \"{value}\" is not supported");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(hint)
}

fn invalid(name: &str, value: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_other_processes_accept_the_largest_working_memory() {
        let mut values = Values::of(&BTreeMap::new()).unwrap();
        for (name, value) in
            [("work_mem", "2147483647"), ("temp_file_limit", "2147483647"), ("hash_mem_multiplier", "1000")]
        {
            values.set(name, Some(value)).unwrap();
        }
        let memory = values.working_memory();
        assert!(memory.can_be_set() && memory.hash_bytes == memory.sort_bytes * 1000, "{memory:?}");
        assert!(!WorkingMemory { hash_bytes: memory.hash_bytes + 1, ..memory }.can_be_set());
    }

    #[test]
    fn what_is_set_is_shown_and_what_cannot_be_is_refused() {
        let mut values = Values::of(&BTreeMap::from([
            ("user".to_owned(), "ann".to_owned()),
            ("application_name".to_owned(), "psql".to_owned()),
            ("client_encoding".to_owned(), "'utf-8'".to_owned()),
        ]))
        .unwrap();
        let check = |values: &Values, name: &str, expected: &str| {
            assert_eq!(values.get(name).as_deref(), Some(expected), "{name}");
        };
        check(&values, "application_name", "psql");
        check(&values, "session_authorization", "ann");
        check(&values, "client_encoding", "UTF8");
        check(&values, "datestyle", "ISO, MDY");
        values.set("Extra_Float_Digits", Some("3")).unwrap();
        values.set("my.own", Some("x")).unwrap();
        values.set("timezone", Some("Etc/UTC")).unwrap();
        check(&values, "extra_float_digits", "3");
        check(&values, "my.own", "x");
        let refused = |values: &mut Values, name: &str, value: &str, state: &str| {
            assert_eq!(values.set(name, Some(value)).unwrap_err().state().as_str(), state, "{name}");
        };
        refused(&mut values, "nothing", "1", "42704");
        refused(&mut values, "server_version", "16", "55P02");
        refused(&mut values, "TimeZone", "Europe/Paree", "22023");
        refused(&mut values, "TimeZone", "PST", "22023");
        for (given, told) in [("europe/berlin", "Europe/Berlin"), ("+3", "<+03>-03"), ("UTC", "UTC")] {
            values.set("TimeZone", Some(given)).unwrap();
            check(&values, "timezone", told);
            assert_eq!(values.zone().name(), told);
        }
        refused(&mut values, "transaction_isolation", "serializable", "0A000");
        refused(&mut values, "lock_timeout", "1 year", "22023");
        refused(&mut values, "lock_timeout", "-1", "22023");
        refused(&mut values, "default_transaction_read_only", "maybe", "22023");
        check(&values, "idle_in_transaction_session_timeout", "1min");
        for (given, told) in
            [("250", "250ms"), ("'2 s'", "2s"), ("90000", "90s"), ("0", "0"), ("1.5h", "90min")]
        {
            values.set("statement_timeout", Some(given)).unwrap();
            check(&values, "statement_timeout", told);
        }
        assert_eq!(values.time("statement_timeout"), Some(Duration::from_secs(5_400)));
        assert_eq!(values.time("lock_timeout"), None);
        let second = Some(Duration::from_secs(1));
        assert_eq!(values.log_slow().unwrap_or(second), second);
        for (given, told, slow) in
            [("-1", "-1", None), ("0", "0", Some(Duration::ZERO)), ("1000", "1s", second)]
        {
            values.set("log_min_duration_statement", Some(given)).unwrap();
            check(&values, "log_min_duration_statement", told);
            assert_eq!(values.log_slow().unwrap_or(second), slow);
        }
        refused(&mut values, "log_min_duration_statement", "-2", "22023");
        refused(&mut values, "client_min_messages", "fatal", "22023");
        for (given, told, heard) in [
            ("'DEBUG'", "debug2", "DLINW"),
            ("Debug1", "debug1", "DLINW"),
            ("log", "log", "LINW"),
            ("info", "info", "INW"),
            ("notice", "notice", "INW"),
            ("warning", "warning", "IW"),
            ("error", "error", "I"),
        ] {
            values.set("client_min_messages", Some(given)).unwrap();
            check(&values, "client_min_messages", told);
            let all = [Severity::Debug, Severity::Log, Severity::Info, Severity::Notice, Severity::Warning];
            let through = all.into_iter().filter(|severity| values.lets_through(*severity));
            assert_eq!(through.map(|severity| &severity.name()[..1]).collect::<String>(), heard, "{given}");
        }
        values.set("extra_float_digits", None).unwrap();
        check(&values, "extra_float_digits", "1");
        values.reset();
        check(&values, "application_name", "psql");
        check(&values, "session_authorization", "ann");
        assert_eq!(values.all().count(), KNOWN.len());
        assert!(PARAMETER_STATUS.iter().all(|name| known(name).is_some()));
    }
}
