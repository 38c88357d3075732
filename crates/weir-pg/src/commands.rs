//! Statements about the session itself: SET, SHOW, FETCH, DISCARD and others.

use weir_sql::session::{Characteristics, Command, Isolation};
use weir_types::{Severity, SqlError, SqlState, Value};

use crate::portals::no_portal;
use crate::run::import_snapshot;
use crate::session::{Session, not_yet};
use crate::settings::{Changed, switch};
use crate::statement::Done;
use crate::transaction::only_in_transactions;

impl Session {
    /// SET SESSION CHARACTERISTICS. What it wishes for together is wished for in the order in which it is granted.
    fn set_session(&mut self, wished: Characteristics) -> Result<Done, SqlError> {
        let level = wished.isolation.map(Isolation::name);
        let read_only = wished.read_only.map(|read_only| if read_only { "on" } else { "off" });
        let mut all =
            [("default_transaction_isolation", level), ("default_transaction_read_only", read_only)];
        if wished.read_only == Some(true) {
            all.reverse();
        }
        let changed = self.settings.change(!self.transaction.is_none(), false, &|values| {
            let mut set = all.iter().filter(|(_, value)| value.is_some());
            set.try_for_each(|(name, value)| values.set(name, *value))
        })?;
        Ok(Done { changed, ..Done::tag("SET") })
    }

    /// SET and RESET of one setting.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<Done, SqlError> {
        let is_of_transaction = name.eq_ignore_ascii_case("transaction_read_only");
        let is_open = !self.transaction.is_none();
        let local = is_local || is_of_transaction;
        let changed = self.settings.change(is_open, local, &|values| values.set(name, value))?;
        if is_local && !is_open {
            self.mention(Severity::Warning, only_in_transactions("SET LOCAL"));
        }
        Ok(Done { changed, ..Done::tag(if value.is_some() { "SET" } else { "RESET" }) })
    }

    /// SET of what SET TRANSACTION sets; none: of anything else.
    fn characteristics_of(&self, name: &str, value: Option<&str>) -> Option<Characteristics> {
        let (value, plain) = (value?.trim_matches('\''), Characteristics::default());
        if name.eq_ignore_ascii_case("transaction_isolation") {
            return Some(Characteristics { isolation: Some(Isolation::by_name(value)?), ..plain });
        }
        let is_off = name.eq_ignore_ascii_case("transaction_read_only") && switch(value) == Some(false);
        is_off.then_some(Characteristics { read_only: Some(false), ..plain })
    }

    pub(crate) fn obey(&mut self, command: &Command) -> Result<Done, SqlError> {
        match command {
            Command::Begin(..)
            | Command::Commit
            | Command::RollBack
            | Command::Savepoint(_)
            | Command::Release(_)
            | Command::RollBackTo(_)
            | Command::Fetch { .. }
            | Command::Constraints { .. } => {
                Err(SqlError::new(SqlState::INTERNAL_ERROR, "it is obeyed elsewhere"))
            }
            Command::SetTransaction(wished) => {
                self.set_transaction(*wished)?;
                Ok(Done::tag("SET"))
            }
            Command::Snapshot(name) => {
                import_snapshot(self, name)?;
                Ok(Done::tag("SET"))
            }
            Command::SetSession(wished) => self.set_session(*wished),
            Command::Set { name, value, local } => match self.characteristics_of(name, value.as_deref()) {
                Some(wished) => {
                    self.set_transaction(wished)?;
                    Ok(Done::tag("SET"))
                }
                None => self.set(name, value.as_deref(), *local),
            },
            Command::ResetAll => {
                let changed = self.reset()?;
                Ok(Done { changed, ..Done::tag("RESET") })
            }
            Command::Show(Some(name)) => {
                let value = self.settings.values().get(name).ok_or_else(|| {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?;
                Ok(Done { rows: vec![vec![Value::text(value)]], ..Done::tag("SHOW") })
            }
            Command::Show(None) => {
                let row =
                    |(name, value): (&str, String)| [name.into(), value.as_str().into(), "".into()].to_vec();
                Ok(Done { rows: self.settings.values().all().map(row).collect(), ..Done::tag("SHOW") })
            }
            Command::Unlisten => Ok(Done::tag("UNLISTEN")),
            Command::Discard { all: false, sequences, temporary } => {
                if *sequences {
                    self.sequence_values.clear();
                } else if *temporary {
                    self.temporary.clear();
                }
                Ok(Done::tag(match (sequences, temporary) {
                    (true, _) => "DISCARD SEQUENCES",
                    (false, true) => "DISCARD TEMP",
                    (false, false) => "DISCARD PLANS",
                }))
            }
            Command::Discard { all: true, .. } => {
                if self.transaction.open_name().is_some() {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
                }
                let changed = self.reset()?;
                self.advisory.give_all_back(&self.client);
                self.sequence_values.clear();
                self.temporary.clear();
                self.names.clear_statements();
                self.names.clear_portals();
                Ok(Done { changed, ..Done::tag("DISCARD ALL") })
            }
            Command::Deallocate(None) => {
                self.names.clear_statements();
                Ok(Done::tag("DEALLOCATE ALL"))
            }
            Command::Deallocate(Some(name)) => match self.names.remove_statement(name) {
                true => Ok(Done::tag("DEALLOCATE")),
                false => {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    Err(SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message))
                }
            },
            Command::CloseCursor(None) => {
                self.names.clear_portals();
                Ok(Done::tag("CLOSE CURSOR ALL"))
            }
            Command::CloseCursor(Some(name)) => match self.names.remove_portal(name) {
                true => Ok(Done::tag("CLOSE CURSOR")),
                false => Err(no_portal(name, "cursor")),
            },
            Command::Nothing(what) => Ok(Done::tag(*what)),
            Command::Chore(chore) => {
                let is_open = self.transaction.is_block_open();
                let schema_version = self.schema_version().map_err(|failure| failure.error)?;
                schema_version.check_chore(chore, is_open)?;
                Ok(Done::tag(chore.tag))
            }
            Command::Refresh(name) => {
                self.settings.refuse_write("REFRESH MATERIALIZED VIEW")?;
                self.schema_version().map_err(|failure| failure.error)?.refresh(name)?;
                Ok(Done::tag("REFRESH MATERIALIZED VIEW"))
            }
            Command::Unsupported(what) => Err(not_yet(what)),
            Command::Copy(_)
            | Command::Lock(_)
            | Command::Temporary(_)
            | Command::CreateAs(_)
            | Command::CreateMaterialized(..)
            | Command::Run
            | Command::RunInner(_)
            | Command::Script(_)
            | Command::Effects(_)
            | Command::Define(_)
            | Command::Explain(..)
            | Command::Signal { .. }
            | Command::Prepare { .. }
            | Command::Execute { .. }
            | Command::Declare { .. } => {
                Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement that was not bound"))
            }
        }
    }

    fn reset(&mut self) -> Result<Changed, SqlError> {
        self.settings.change(!self.transaction.is_none(), false, &|values| {
            values.reset();
            Ok(())
        })
    }
}
