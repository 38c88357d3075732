//! A client's session: executes its statements. Independent of the protocol.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use weir_client::{Client, Error, Prepared, Verb};
use weir_sql::session::{Characteristics, Command, Isolation};
use weir_sql::system::Facts;
use weir_types::datetime::session::ZoneCell;
use weir_types::{Severity, SqlError, SqlState, Value};

use crate::advisory::AdvisoryLocks;
use crate::begun::Begun;
use crate::copy::CopyIn;
use crate::definitions::{Own, PATIENCE};
use crate::ending::Ending;
use crate::idle::Idle;
use crate::in_flight::InFlight;
use crate::notices::PendingNotices;
use crate::portals::{Cursor, Formats, Names, Portal, PortalState, no_portal};
use crate::repeatable_catalog::RepeatableCatalog;
use crate::savepoints::Savepoints;
use crate::scope::OpenScope;
use crate::sequence_values::SequenceValues;
use crate::settings::{Values, switch};
use crate::statement::{Done, Failure, Kind, Statement};
use crate::temporary::TemporaryFunctions;
use crate::watch::{Activity, FrontEnd, Phase};
use crate::watchdog::Peer;

pub struct Session {
    pub(crate) client: Arc<Client>,
    values: Mutex<Values>,
    transaction: Mutex<Transaction>,
    begun: Begun,
    names: Mutex<Names>,
    pub(crate) savepoints: Savepoints,
    pub(crate) scope: OpenScope,
    pub(crate) in_flight: Arc<InFlight>,
    idle: Idle,
    pub(crate) copying: Mutex<Option<CopyIn>>,
    pub(crate) advisory: Mutex<AdvisoryLocks>,
    pub(crate) catalog_snapshot: RepeatableCatalog,
    pub(crate) notices: PendingNotices,
    pub(crate) given: Mutex<SequenceValues>,
    pub(crate) own_schema_version: Own,
    /// Facts about the client, once it is authenticated.
    pub(crate) facts: OnceLock<Facts>,
    pub(crate) origin: OnceLock<Origin>,
    pub(crate) front: Arc<FrontEnd>,
    pub(crate) activity: Activity,
    pub(crate) zone: ZoneCell,
    pub(crate) ending: Ending,
    /// Connection of its client.
    pub(crate) peer: OnceLock<Peer>,
    pub(crate) temporary: TemporaryFunctions,
}

/// From where a client has come, and when.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub address: SocketAddr,
    pub since: SystemTime,
}

/// Transaction status, as in PostgreSQL: I, T and E.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transaction {
    #[default]
    None,
    /// An open transaction, by name. `is_implicit`: it consists of the statements of one text, or of the messages up to a Sync.
    Open { name: u64, is_implicit: bool },
    /// Only its end is accepted.
    Failed { name: u64 },
}

/// Transaction status as reported to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Idle,
    InTransaction,
    Failed,
}

/// Settings reported to clients, with their new values.
pub(crate) type Changed = Vec<(&'static str, String)>;

impl Session {
    pub(crate) fn new(client: Arc<Client>, front: Arc<FrontEnd>) -> Session {
        let (values, transaction, names) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (savepoints, scope, in_flight, idle, own_schema_version) = Default::default();
        let (facts, origin) = Default::default();
        Session {
            client,
            values,
            transaction,
            begun: Begun::default(),
            names,
            savepoints,
            scope,
            in_flight,
            idle,
            copying: Mutex::default(),
            advisory: Mutex::default(),
            catalog_snapshot: RepeatableCatalog::default(),
            notices: PendingNotices::default(),
            given: Mutex::default(),
            own_schema_version,
            facts,
            origin,
            front,
            activity: Activity::default(),
            zone: ZoneCell::default(),
            ending: Ending::default(),
            peer: OnceLock::new(),
            temporary: TemporaryFunctions::default(),
        }
    }

    pub fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn transaction(&self) -> MutexGuard<'_, Transaction> {
        self.transaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn status(&self) -> Status {
        match *self.transaction() {
            Transaction::None | Transaction::Open { is_implicit: true, .. } => Status::Idle,
            Transaction::Open { .. } => Status::InTransaction,
            Transaction::Failed { .. } => Status::Failed,
        }
    }

    /// The name of the transaction that is open.
    pub(crate) fn open_name(&self) -> Option<u64> {
        match *self.transaction() {
            Transaction::Open { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Begins an implicit transaction until `end_together`, unless one is open. Returns its name.
    pub fn begin_together(&self) -> u64 {
        let mut transaction = self.transaction();
        match *transaction {
            Transaction::Open { name, .. } | Transaction::Failed { name } => name,
            Transaction::None => {
                let name = self.client.new_transaction();
                *transaction = Transaction::Open { name, is_implicit: true };
                name
            }
        }
    }

    /// The statement would be better by itself if nothing else belongs to its transaction: it writes, and none is open.
    pub fn may_be_alone(&self, portal: &str) -> bool {
        let is_written = |portal: &mut Portal| {
            let runs = |prepared: &Prepared| !prepared.reads_only();
            matches!(portal.state, PortalState::Bound)
                && match &portal.statement.kind {
                    Kind::Run(prepared, _) => runs(prepared),
                    Kind::Execute(..) | Kind::Define(..) => true,
                    Kind::Explain(explain, _) => explain.analyze,
                    _ => false,
                }
        };
        *self.transaction() == Transaction::None && self.names().portal(portal).is_ok_and(is_written)
    }

    /// Ends the implicit transaction after its last statement, or the first that failed. Returns the settings that it has changed.
    ///
    /// # Errors
    /// Their transaction cannot commit.
    pub async fn end_together(&self, has_failed: bool) -> (Changed, Result<(), Failure>) {
        let transaction = *self.transaction();
        let ended = match transaction {
            Transaction::Open { name, is_implicit: true } => {
                *self.transaction() = Transaction::None;
                self.savepoints.clear();
                let ended = self.end_named(name, !has_failed).await;
                self.count_transaction(!has_failed && ended.is_ok());
                self.activity.end(std::time::Instant::now(), Phase::Idle);
                ended
            }
            _ => Ok(()),
        };
        let mut changed = Changed::new();
        if *self.transaction() == Transaction::None {
            self.end_advice();
            self.names().end_transaction(!has_failed && ended.is_ok());
            changed = self.end_scope(!has_failed && ended.is_ok());
        }
        (changed, ended)
    }

    /// A statement has failed, be it before it ran.
    pub fn fail(&self) {
        let mut transaction = self.transaction();
        if let Transaction::Open { name, is_implicit: false } = *transaction {
            *transaction = Transaction::Failed { name };
        }
    }

    /// In which formats a client that says none gets what the statement gives: a cursor may have been declared BINARY.
    pub fn formats_of(&self, statement: &Statement) -> Formats {
        match &statement.kind {
            Kind::Command(Command::Fetch { name, .. }) => {
                self.names().portal(name).map_or_else(|_| Formats::default(), |portal| portal.formats.clone())
            }
            _ => Formats::default(),
        }
    }

    /// Nothing but its end is taken of a transaction that has failed.
    ///
    /// # Errors
    /// It has.
    pub fn refuse_after_failure(&self, command: Option<&Command>) -> Result<(), Failure> {
        let ends = matches!(command, Some(Command::Commit | Command::RollBack | Command::RollBackTo(_)));
        if ends || !matches!(*self.transaction(), Transaction::Failed { .. }) {
            return Ok(());
        }
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message).into())
    }

    /// # Errors
    /// An error of PostgreSQL, or an unsupported feature.
    pub async fn run(&self, statement: &Statement, values: &[Value]) -> Result<Done, Failure> {
        self.idle.stop()?;
        let watched = self.begin_watch(statement);
        let number = self.in_flight.begin_statement();
        let armed = self.limit_time(number);
        let result = self.run_now(statement, values).await;
        drop(armed);
        self.in_flight.end_statement();
        self.end_watch(statement, watched, &result);
        let transaction = *self.transaction();
        if let Transaction::Open { name, is_implicit: false } | Transaction::Failed { name } = transaction
            && let Some(most) = self.values().time("idle_in_transaction_session_timeout")
        {
            self.idle.start(Instant::now() + most, name, &self.client);
        }
        result
    }

    pub(crate) async fn run_now(&self, statement: &Statement, values: &[Value]) -> Result<Done, Failure> {
        self.refuse_after_failure(statement.command())?;
        if !matches!(statement.kind, Kind::Empty | Kind::Command(_) | Kind::Prepare(..))
            && let Some(name) = self.open_name()
        {
            self.catalog_snapshot.note_run(name);
        }
        match &statement.kind {
            Kind::Empty => Ok(Done::tag("")),
            Kind::Command(Command::Commit) => self.end(true).await,
            Kind::Command(Command::RollBack) => self.end(false).await,
            Kind::Command(Command::Savepoint(name)) => self.savepoint(name).await,
            Kind::Command(Command::Release(name)) => self.release(name).await,
            Kind::Command(Command::RollBackTo(name)) => self.roll_back_to(name).await,
            Kind::Command(Command::Constraints { names, deferred }) => {
                self.set_constraints(names.as_deref(), *deferred).await
            }
            Kind::Command(Command::Begin(wished)) => Ok(self.begin(*wished)?),
            Kind::Command(Command::Lock(lock)) => self.lock_tables(lock).await,
            Kind::Command(Command::Temporary(temporary)) => {
                self.run_temporary(temporary, statement.columns.clone()).await
            }
            Kind::Command(command) => Ok(Done { columns: self.columns_of(statement), ..self.obey(command)? }),
            Kind::Run(prepared, tag) => self.run_prepared(prepared, tag, values).await,
            Kind::Define(text, tag) => {
                self.refuse_write(tag)?;
                self.define(text, tag, self.open_name()).await
            }
            Kind::Prepare(name, statement) => {
                self.names().put_statement(name, statement.clone())?;
                Ok(Done::tag("PREPARE"))
            }
            Kind::Execute(name, arguments) => {
                let (statement, values) = self.executed(name, arguments.as_ref()).await?;
                match &statement.kind {
                    Kind::Run(prepared, tag) => self.run_prepared(prepared, tag, &values).await,
                    _ => Ok(Done::tag("")),
                }
            }
            Kind::Script(steps) => self.run_script(steps).await,
            Kind::Effects(calls, query) => self.run_effects(calls, query, values).await,
            Kind::Copy(copy, query) => self.copy(copy, query.as_ref()).await,
            Kind::Signal(signals, query) => {
                let mut done = self.run_prepared(query, "SELECT", values).await?;
                self.signal(signals, &mut done.rows);
                Ok(Done { columns: statement.columns.clone(), ..done })
            }
            Kind::CreateAs(create, query) => self.create_as(create, &query.0, &query.1).await,
            Kind::CreateMaterialized(text, name, quoted) => {
                self.create_materialized(text, name, quoted).await
            }
            Kind::Explain(explain, of) => {
                let lines = self.explain(*explain, of, values).await?;
                let rows = lines.into_iter().map(|line| vec![Value::text(line)]).collect();
                Ok(Done { rows, columns: statement.columns.clone(), ..Done::tag("EXPLAIN") })
            }
            Kind::Declare { name, scroll, hold, binary, query } => {
                if !hold && self.open_name().is_none() {
                    return Err(only_in_transactions("DECLARE CURSOR").into());
                }
                self.names().refuse_double(name)?;
                let Done { columns, rows, .. } = self.run_prepared(query, "", values).await?;
                let cursor = Cursor::new(columns, "FETCH".to_owned(), rows, *scroll);
                self.names().declare(name, cursor, (*hold, *binary), self.open_name());
                Ok(Done::tag("DECLARE CURSOR"))
            }
        }
    }

    /// Statement and values of an EXECUTE.
    pub(crate) async fn executed(
        &self,
        name: &str,
        arguments: Option<&Prepared>,
    ) -> Result<(Arc<Statement>, Vec<Value>), Failure> {
        let statement = self.names().statement(name)?;
        let mut values = Vec::new();
        if let Some(arguments) = arguments {
            values = self.run_prepared(arguments, "", &[]).await?.rows.pop().unwrap_or_default();
        }
        let wanted = statement.parameters.len();
        if values.len() != wanted {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            let detail = format!("Expected {wanted} parameters but got {}.", values.len());
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_detail(detail).into());
        }
        Ok((statement, values))
    }

    /// Outside of a transaction a statement that was bound to a schema version that is over is bound again, however it runs.
    pub(crate) async fn run_prepared(
        &self,
        prepared: &Prepared,
        tag: &'static str,
        values: &[Value],
    ) -> Result<Done, Failure> {
        if self.open_name().is_some() {
            return self.run_bound(prepared, tag, values).await;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let bound = self.bound(prepared)?;
            match self.run_bound(&bound, tag, values).await {
                Err(failure) if Instant::now() < until => self.meet(failure).await?,
                done => return done,
            }
        }
    }

    async fn run_bound(
        &self,
        prepared: &Prepared,
        tag: &'static str,
        values: &[Value],
    ) -> Result<Done, Failure> {
        let values = &*self.with_current_values(prepared, values)?;
        let filled = match &prepared.volatile()[..] {
            [] => None,
            tables => Some(self.fill(prepared, tables).await?),
        };
        let prepared = filled.as_ref().unwrap_or(prepared);
        if prepared.writes() {
            self.refuse_write(if tag.is_empty() { "SELECT" } else { tag.split(' ').next().unwrap_or(tag) })?;
        }
        if prepared.pieces().is_some() {
            return self.run_pieces(prepared, tag, values).await;
        }
        let snapshot = self.snapshot_for(prepared).await?;
        let lock_timeout = self.values().time("lock_timeout");
        let (result, prepared) = match self.open_name() {
            Some(name) if snapshot.is_some() => {
                let bound = self.bound(prepared)?;
                let (_, begun) = self.begun.of(name);
                let at = (snapshot.map_or(0, |snapshot| snapshot.name()), begun);
                (self.wait_for(|client| client.begin_at_snapshot(at, &bound, values)).await?, bound)
            }
            _ if prepared.has_batches() => self.run_batches(prepared, values, lock_timeout).await?,
            Some(name) => {
                let bound = self.bound(prepared)?;
                self.limit_waits(name, lock_timeout).await?;
                let begun = self.begun.of(name);
                (self.wait_for(|client| client.begin_within_at(begun, &bound, values)).await?, bound)
            }
            // Open transactions alone have a lock time-out.
            None if lock_timeout.is_some() && !prepared.reads_only() => {
                let bound = self.bound(prepared)?;
                let own = self.by_itself();
                self.limit_waits(own.name(), lock_timeout).await?;
                let result = self.wait_for(|client| client.begin_within(own.name(), &bound, values)).await;
                let ended = own.end(result.is_ok()).await.map_err(sql_error);
                let result = result?;
                ended?;
                (result, bound)
            }
            None => {
                let bound = self.bound(prepared)?;
                (self.wait_for(|client| client.begin_prepared(&bound, values)).await?, bound)
            }
        };
        self.note_given(&prepared, &result);
        let count = prepared.verb().filter(|verb| *verb != Verb::Do).map(|_| prepared.count(&result));
        Ok(Done { count, columns: prepared.columns().into(), rows: prepared.rows(result), ..Done::tag(tag) })
    }

    /// Sets the lock time-out of a transaction. Default is no limit; once set, it is sent with every statement.
    pub(crate) async fn limit_waits(&self, name: u64, most: Option<Duration>) -> Result<(), Failure> {
        let is_news = self.in_flight.limits(name, most.is_some());
        if is_news {
            self.client.begin_lock_timeout(name, most).await.map_err(sql_error)?;
        }
        Ok(())
    }

    /// Ends the transaction of that name, with what it has defined.
    async fn end_named(&self, name: u64, commit: bool) -> Result<(), Failure> {
        let own = self.own_schema_version.set(None);
        let ended = self.in_flight.end(self.client.end_transaction(name, commit)).await.map(drop);
        match own.filter(|_| commit) {
            Some(schema_version) => self.adopt(&schema_version, ended).await,
            None => ended.map_err(sql_error),
        }
    }

    fn begin(&self, wished: Characteristics) -> Result<Done, SqlError> {
        let is_new = !matches!(*self.transaction(), Transaction::Open { .. });
        self.check_level(wished, is_new)?;
        let done = self.open_block();
        self.be_like(wished)?;
        Ok(done)
    }

    /// Characteristics of the open transaction, until its end.
    fn be_like(&self, wished: Characteristics) -> Result<(), SqlError> {
        if let Some(isolation) = wished.isolation {
            self.be_still(isolation)?;
        }
        if let Some(read_only) = wished.read_only {
            self.set("transaction_read_only", Some(if read_only { "on" } else { "off" }), true)?;
        }
        Ok(())
    }

    /// SET TRANSACTION.
    fn set_transaction(&self, wished: Characteristics) -> Result<(), SqlError> {
        self.check_level(wished, false)?;
        let is_alone = *self.transaction() == Transaction::None;
        if is_alone {
            self.mention(Severity::Warning, only_in_transactions("SET TRANSACTION"));
        }
        self.be_like(wished)
    }

    /// SET SESSION CHARACTERISTICS. What it wishes for together is wished for in the order in which it is granted.
    fn set_session(&self, wished: Characteristics) -> Result<Done, SqlError> {
        let level = wished.isolation.map(Isolation::name);
        let read_only = wished.read_only.map(|read_only| if read_only { "on" } else { "off" });
        let mut all =
            [("default_transaction_isolation", level), ("default_transaction_read_only", read_only)];
        if wished.read_only == Some(true) {
            all.reverse();
        }
        let changed = self.change(false, &|values| {
            let mut set = all.iter().filter(|(_, value)| value.is_some());
            set.try_for_each(|(name, value)| values.set(name, *value))
        })?;
        Ok(Done { changed, ..Done::tag("SET") })
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

    fn open_block(&self) -> Done {
        let mut transaction = self.transaction();
        let is_open = matches!(*transaction, Transaction::Open { is_implicit: false, .. });
        if is_open {
            let message = "there is already a transaction in progress";
            self.mention(Severity::Warning, SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let name = match *transaction {
            Transaction::Open { name, .. } => name,
            _ => self.client.new_transaction(),
        };
        *transaction = Transaction::Open { name, is_implicit: false };
        self.begun.of(name);
        Done::tag("BEGIN")
    }

    /// Runs a bound portal, unless it has run already.
    ///
    /// # Errors
    /// An error of PostgreSQL, or an unsupported feature.
    pub async fn start(&self, name: &str) -> Result<Option<Done>, Failure> {
        let portal = self.names().portal(name)?.clone();
        if !matches!(portal.state, PortalState::Bound) {
            self.refuse_after_failure(portal.statement.command())?;
            return Ok(None);
        }
        let mut done = self.run(&portal.statement, &portal.values).await?;
        let state = match done.columns.is_empty() {
            true => PortalState::Over,
            false => {
                let rows = std::mem::take(&mut done.rows);
                PortalState::Open(Cursor::new(done.columns.clone(), done.tag.clone(), rows, Some(false)))
            }
        };
        // Its end may have taken the portal along.
        if let Ok(portal) = self.names().portal(name) {
            portal.state = state;
        }
        Ok(Some(done))
    }

    /// Binds the values of its parameters to a statement.
    ///
    /// # Errors
    /// There is no such statement, or a portal of that name.
    pub fn bind_portal(
        &self,
        name: &str,
        bound: (Arc<Statement>, Vec<Value>, Formats),
    ) -> Result<(), Failure> {
        self.refuse_after_failure(bound.0.command())?;
        let born_in = self.open_name();
        Ok(self.names().bind(name, bound, born_in)?)
    }

    /// Ends the transaction that is open. One that has failed is rolled back, whatever is wished.
    async fn end(&self, commit: bool) -> Result<Done, Failure> {
        let transaction = std::mem::take(&mut *self.transaction());
        self.savepoints.clear();
        if matches!(transaction, Transaction::None | Transaction::Open { is_implicit: true, .. }) {
            self.mention(Severity::Warning, no_transaction());
        }
        let (name, commits) = match transaction {
            Transaction::None => return Ok(Done::tag(if commit { "COMMIT" } else { "ROLLBACK" })),
            Transaction::Open { name, .. } => (name, commit),
            Transaction::Failed { name } => (name, false),
        };
        let ended = self.end_named(name, commits).await;
        self.end_advice();
        self.names().end_transaction(commits && ended.is_ok());
        let changed = self.end_scope(commits && ended.is_ok());
        ended?;
        Ok(Done { changed, ..Done::tag(if commits { "COMMIT" } else { "ROLLBACK" }) })
    }

    fn obey(&self, command: &Command) -> Result<Done, SqlError> {
        match command {
            Command::Begin(_)
            | Command::Commit
            | Command::RollBack
            | Command::Savepoint(_)
            | Command::Release(_)
            | Command::RollBackTo(_)
            | Command::Constraints { .. } => {
                Err(SqlError::new(SqlState::INTERNAL_ERROR, "it is obeyed elsewhere"))
            }
            Command::SetTransaction(wished) => {
                self.set_transaction(*wished)?;
                Ok(Done::tag("SET"))
            }
            Command::Snapshot(name) => {
                self.import_snapshot(name)?;
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
                let value = self.values().get(name).ok_or_else(|| {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                })?;
                Ok(Done { rows: vec![vec![Value::text(value)]], ..Done::tag("SHOW") })
            }
            Command::Show(None) => {
                let row =
                    |(name, value): (&str, String)| [name.into(), value.as_str().into(), "".into()].to_vec();
                Ok(Done { rows: self.values().all().map(row).collect(), ..Done::tag("SHOW") })
            }
            Command::Unlisten => Ok(Done::tag("UNLISTEN")),
            Command::Discard { all: false, sequences, temporary } => {
                if *sequences {
                    self.forget_given();
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
                if self.open_name().is_some() {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
                }
                let changed = self.reset()?;
                self.give_all_advice_back();
                self.forget_given();
                self.temporary.clear();
                let mut names = self.names();
                names.clear_statements();
                names.clear_portals();
                Ok(Done { changed, ..Done::tag("DISCARD ALL") })
            }
            Command::Deallocate(None) => {
                self.names().clear_statements();
                Ok(Done::tag("DEALLOCATE ALL"))
            }
            Command::Deallocate(Some(name)) => match self.names().remove_statement(name) {
                true => Ok(Done::tag("DEALLOCATE")),
                false => {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    Err(SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message))
                }
            },
            Command::Fetch { name, way, moves } => {
                let rows = self.names().cursor(name)?.fetch(*way)?;
                Ok(match moves {
                    true => Done { count: Some(rows.len() as u64), ..Done::tag("MOVE") },
                    false => Done { rows, ..Done::tag("FETCH") },
                })
            }
            Command::CloseCursor(None) => {
                self.names().clear_portals();
                Ok(Done::tag("CLOSE CURSOR ALL"))
            }
            Command::CloseCursor(Some(name)) => match self.names().remove_portal(name) {
                true => Ok(Done::tag("CLOSE CURSOR")),
                false => Err(no_portal(name, "cursor")),
            },
            Command::Nothing(what) => Ok(Done::tag(*what)),
            Command::Chore(chore) => {
                let is_open = matches!(*self.transaction(), Transaction::Open { is_implicit: false, .. });
                let schema_version = self.schema_version().map_err(|failure| failure.error)?;
                schema_version.check_chore(chore, is_open)?;
                Ok(Done::tag(chore.tag))
            }
            Command::Refresh(name) => {
                self.refuse_write("REFRESH MATERIALIZED VIEW")?;
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

    fn reset(&self) -> Result<Vec<(&'static str, String)>, SqlError> {
        self.change(false, &|values| {
            values.reset();
            Ok(())
        })
    }
}

impl Drop for Session {
    /// A connection that ends rolls back.
    fn drop(&mut self) {
        self.give_all_advice_back();
        let transaction = std::mem::take(&mut *self.transaction());
        if let Transaction::Open { name, .. } | Transaction::Failed { name } = transaction {
            // The result is not needed.
            drop(self.client.end_transaction(name, false));
            self.count_transaction(false);
        }
        if let (Some(Origin { address, since }), Some(facts)) = (self.origin.get(), self.facts.get()) {
            let seconds = since.elapsed().unwrap_or_default().as_secs_f64();
            tracing::debug!(process = facts.process, %address, seconds, "connection ended");
        }
    }
}

pub(crate) fn not_yet(what: &str) -> SqlError {
    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported yet: {what}"));
    let names_any = |words: &[&str]| what.split(' ').any(|word| words.contains(&word));
    match () {
        () if names_any(&["ROLE", "USER", "GROUP", "GRANT", "REVOKE", "POLICY", "REASSIGN", "OWNED"]) => {
            error.with_hint("There is one role, whoever asks, who may do everything: leave it away.")
        }
        () if names_any(&["DATABASE", "TABLESPACE", "SYSTEM"]) => error.with_hint(
            "A cluster is one database; its settings are options of weir serve and of the session (SET).",
        ),
        () => error,
    }
}

fn no_transaction() -> SqlError {
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
}

pub(crate) fn only_in_transactions(what: &str) -> SqlError {
    SqlError::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}

/// Whether it has happened is in the SQLSTATE: 08007 may have.
pub(crate) fn sql_error(error: Error) -> Failure {
    let (state, hint) = match &error {
        Error::Sql(error) => return error.clone().into(),
        Error::Aborted | Error::Restart => (SqlState::SERIALIZATION_FAILURE, "try again"),
        Error::Deadline(_) => (SqlState::QUERY_CANCELED, "nothing has happened; see whether all nodes run"),
        Error::Unknown(_) => (
            SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            "look whether it has happened before it is tried again",
        ),
        Error::Unfit(_) => (SqlState::PROGRAM_LIMIT_EXCEEDED, "ask for less at once"),
        Error::Refused(_) | Error::Closed(_) => (SqlState::CANNOT_CONNECT_NOW, "connect again"),
    };
    SqlError::new(state, error.to_string()).with_hint(hint).into()
}
