//! A session runs one statement; a kind of statement that takes more than a few lines has a file here.

mod advisory;
mod copying;
mod create_as;
mod cursors;
mod definitions;
mod effects;
mod explain;
mod isolation;
mod lock;
mod many;
mod script;
mod snapshots;
mod sub_statements;
mod temporary;
mod volatile;

use std::borrow::Cow;
use std::sync::Arc;

use tokio::time::Instant;
use weir_client::{Client, CurrentValue, Prepared, RowStream, Verb};
use weir_net::clock::time_of_day;
use weir_sql::session::Command;
use weir_types::{SqlError, SqlState, Value};

use crate::by_itself::ByItself;
use crate::portals::{Cursor, Formats, Portal, PortalState};
use crate::receiver::Receiver;
use crate::session::{Session, sql_error};
use crate::statement::{Done, Failure, Kind, Statement};
use crate::transaction::TransactionState;
use crate::watch::Phase;
use crate::watchdog::Armed;
pub(crate) use advisory::AdvisoryLocks;
use cursors::Declared;
use definitions::PATIENCE;
pub(crate) use effects::columns as effect_columns;
pub(crate) use isolation::{before_any_query, set_isolation};
pub(crate) use snapshots::{Exported, Snapshot, import_snapshot};
pub(crate) use temporary::{TemporaryFunctions, temporary_columns};

/// Returns whether the cluster is asked for something in the name of the open transaction, whatever the statement is; or may be.
/// Statements that are run decide it themselves.
fn asks_cluster(kind: &Kind) -> bool {
    match kind {
        Kind::Empty | Kind::Prepare(..) | Kind::Run(..) | Kind::Execute(..) => false,
        Kind::Command(command) => {
            !matches!(command, Command::Begin(..) | Command::Commit | Command::RollBack | Command::Set { .. })
        }
        _ => true,
    }
}

/// A statement under way.
struct Watched {
    begun: std::time::Instant,
    was_open: bool,
}

impl Session {
    /// The statement would be better by itself if nothing else belongs to its transaction: it writes, and none is open.
    pub fn may_be_alone(&self, portal: &str) -> bool {
        let is_written = |portal: &Portal| {
            matches!(portal.state, PortalState::Bound)
                && match &portal.statement.kind {
                    Kind::Run(prepared, _) => !prepared.reads_only(),
                    Kind::Execute(..) | Kind::Define(..) => true,
                    Kind::Explain(explain, _) => explain.analyze,
                    _ => false,
                }
        };
        self.transaction.is_none() && self.names.known_portal(portal).is_some_and(is_written)
    }

    /// In which formats a client that says none gets what the statement gives: a cursor may have been declared BINARY.
    pub fn formats_of(&self, statement: &Statement) -> Formats {
        match &statement.kind {
            Kind::Command(Command::Fetch { name, .. }) => {
                self.names.known_portal(name).map(|portal| portal.formats.clone()).unwrap_or_default()
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
        if ends || !matches!(self.transaction.state(), TransactionState::Failed { .. }) {
            return Ok(());
        }
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message).into())
    }

    /// # Errors
    /// An error of PostgreSQL, or an unsupported feature.
    pub async fn run(
        &mut self,
        statement: &Statement,
        values: &[Value],
        receiver: &mut Receiver<'_>,
    ) -> Result<Done, Failure> {
        let watched = Watched { begun: std::time::Instant::now(), was_open: !self.transaction.is_none() };
        if !watched.was_open {
            self.recording = self.front.contention.begin();
        }
        let armed = self.begin_statement(&statement.text)?;
        let result = self.run_now(statement, values, receiver).await;
        drop(armed);
        self.end_statement();
        if self.recording.is_some() {
            self.record(statement, values, &watched, &result);
        }
        self.end_watch(statement, watched, &result);
        self.watch_idle();
        result
    }

    /// A statement begins: others see it, and its time is limited until what this gives is dropped.
    ///
    /// # Errors
    /// The session was idle for too long, and its transaction is over.
    pub(crate) fn begin_statement(&mut self, text: &Arc<str>) -> Result<Option<Armed>, Failure> {
        self.idle.stop()?;
        self.backend.activity.begin(std::time::Instant::now(), text);
        let number = self.backend.in_flight.begin_statement();
        Ok(self.limit_time(number))
    }

    pub(crate) fn end_statement(&mut self) {
        self.backend.in_flight.end_statement();
    }

    /// Limits the time for which nothing is asked of the session while its transaction is open.
    pub(crate) fn watch_idle(&mut self) {
        if let Some(name) = self.transaction.block_name()
            && let Some(most) = self.settings.in_effect().idle_in_transaction_session_timeout
        {
            self.idle.start(Instant::now() + most, name, &self.client);
        }
    }

    pub(crate) async fn run_now(
        &mut self,
        statement: &Statement,
        values: &[Value],
        receiver: &mut Receiver<'_>,
    ) -> Result<Done, Failure> {
        self.refuse_after_failure(statement.command())?;
        if asks_cluster(&statement.kind) {
            self.transaction.note_asked();
        }
        let runs = match &statement.kind {
            Kind::Empty | Kind::Prepare(..) => false,
            Kind::Command(command) => matches!(command, Command::Temporary(_)),
            _ => true,
        };
        if runs {
            self.begin_isolated(&statement.kind).await?;
            self.transaction.note_run();
        }
        // Large futures are boxed: that of a look-up, which is made and moved for each of them, is to be small.
        match &statement.kind {
            Kind::Empty => Ok(Done::tag("")),
            Kind::Command(Command::Commit) => self.end(true).await,
            Kind::Command(Command::RollBack) => self.end(false).await,
            Kind::Command(Command::Savepoint(name)) => Box::pin(self.savepoint(name)).await,
            Kind::Command(Command::Release(name)) => Box::pin(self.release(name)).await,
            Kind::Command(Command::RollBackTo(name)) => Box::pin(self.roll_back_to(name)).await,
            Kind::Command(Command::Constraints { names, deferred }) => {
                Box::pin(self.set_constraints(names.as_deref(), *deferred)).await
            }
            Kind::Command(Command::Begin(wished, tag)) => Ok(self.begin(*wished, tag)?),
            Kind::Command(Command::Lock(lock)) => Box::pin(lock::lock_tables(self, lock)).await,
            Kind::Command(Command::Fetch { name, way, moves }) => {
                let columns = self.columns_of(statement);
                Box::pin(cursors::fetch(self, (name, *way, *moves), columns, receiver)).await
            }
            Kind::Command(Command::Temporary(temporary)) => {
                Box::pin(temporary::run_temporary(self, temporary, statement.columns.clone())).await
            }
            Kind::Command(command) => Ok(Done { columns: self.columns_of(statement), ..self.obey(command)? }),
            Kind::Run(prepared, tag) => self.run_prepared_into(prepared, tag, values, receiver).await,
            Kind::Define(text, tag) => {
                self.settings.refuse_write(tag)?;
                Box::pin(self.define(text, tag, self.transaction.open_name())).await
            }
            Kind::Prepare(name, statement) => {
                self.names.put_statement(name, statement.clone())?;
                Ok(Done::tag("PREPARE"))
            }
            Kind::Execute(name, arguments) => {
                let (statement, values) = Box::pin(self.executed(name, arguments.as_ref())).await?;
                match &statement.kind {
                    Kind::Run(prepared, tag) => {
                        self.run_prepared_into(prepared, tag, &values, receiver).await
                    }
                    _ => Ok(Done::tag("")),
                }
            }
            Kind::Script(steps) => Box::pin(script::run_script(self, steps)).await,
            Kind::Effects(calls, query) => Box::pin(effects::run_effects(self, calls, query, values)).await,
            Kind::Copy(copy, query) => Box::pin(copying::copy(self, copy, query.as_ref(), receiver)).await,
            Kind::Signal(signals, query) => {
                let mut done = Box::pin(self.run_prepared(query, "SELECT", values)).await?;
                self.front.signal(signals, &mut done.rows);
                Ok(Done { columns: statement.columns.clone(), ..done })
            }
            Kind::CreateAs(create, query) => Box::pin(create_as::create_as(self, create, query)).await,
            Kind::CreateMaterialized(text, name, quoted) => {
                Box::pin(create_as::create_materialized(self, text, name, quoted)).await
            }
            Kind::Explain(explain, of) => {
                let lines = Box::pin(explain::explain(self, *explain, of, values)).await?;
                let rows = lines.into_iter().map(|line| vec![Value::text(line)]).collect();
                Ok(Done { rows, columns: statement.columns.clone(), ..Done::tag("EXPLAIN") })
            }
            Kind::Declare { name, scroll, hold, binary, query } => {
                let declared = Declared { name, scroll: *scroll, hold: *hold, binary: *binary };
                Box::pin(cursors::declare(self, declared, query, values)).await
            }
        }
    }

    /// Statement and values of an EXECUTE.
    pub(crate) async fn executed(
        &mut self,
        name: &str,
        arguments: Option<&Prepared>,
    ) -> Result<(Arc<Statement>, Vec<Value>), Failure> {
        let statement = self.names.statement(name)?;
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

    /// Runs a statement whose rows are in its result.
    pub(crate) async fn run_prepared(
        &mut self,
        prepared: &Prepared,
        tag: &'static str,
        values: &[Value],
    ) -> Result<Done, Failure> {
        self.run_prepared_into(prepared, tag, values, &mut Receiver::Result).await
    }

    /// Outside of a transaction a statement that was bound to a schema version that is over is bound again, however it runs.
    pub(crate) async fn run_prepared_into(
        &mut self,
        prepared: &Prepared,
        tag: &'static str,
        values: &[Value],
        receiver: &mut Receiver<'_>,
    ) -> Result<Done, Failure> {
        if self.transaction.open_name().is_some() {
            return self.run_bound(prepared, tag, values, receiver).await;
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let bound = self.bound(prepared)?;
            match self.run_bound(&bound, tag, values, receiver).await {
                Err(failure) if Instant::now() < until && receiver.sent().is_none() => {
                    self.meet(failure).await?;
                }
                done => return done,
            }
        }
    }

    /// Runs a look-up of committed rows that needs no message to its shard. `None`: it must be run as any other statement.
    fn look_up(
        &mut self,
        prepared: &Prepared,
        tag: &'static str,
        values: &[Value],
    ) -> Result<Option<Done>, Failure> {
        let name = self.transaction.open_name();
        let sees_committed_rows = name.is_none_or(|name| !self.transaction.has_asked(name))
            && self.transaction.snapshot.is_none()
            && !self.settings.is_repeatable_read();
        if !prepared.is_look_up() || !sees_committed_rows {
            return Ok(None);
        }
        let bound = self.bound(prepared)?;
        let begun = name.map_or_else(time_of_day, |name| self.transaction.begun(name).1);
        let looked_up = self.client.look_up(begun, &bound, values);
        Ok(looked_up.map(|result| {
            let columns = bound.columns_shared();
            Done { columns, rows: bound.rows(result), ..Done::tag(tag) }
        }))
    }

    async fn run_bound(
        &mut self,
        prepared: &Prepared,
        tag: &'static str,
        values: &[Value],
        receiver: &mut Receiver<'_>,
    ) -> Result<Done, Failure> {
        let values = &*self.with_current_values(prepared, values)?;
        if let Some(done) = self.look_up(prepared, tag, values)? {
            return Ok(done);
        }
        self.transaction.note_asked();
        let filled = match &prepared.volatile()[..] {
            [] => None,
            tables => Some(Box::pin(volatile::fill(self, prepared, tables)).await?),
        };
        let prepared = filled.as_ref().unwrap_or(prepared);
        if prepared.writes() {
            self.settings.refuse_write(if tag.is_empty() {
                "SELECT"
            } else {
                tag.split(' ').next().unwrap_or(tag)
            })?;
        }
        if prepared.pieces().is_some() {
            return Box::pin(sub_statements::run_pieces(self, prepared, tag, values)).await;
        }
        let stream = (receiver.takes_rows() && prepared.may_stream()).then(Arc::<RowStream>::default);
        let streaming = stream.as_ref().map(|stream| prepared.streaming(stream));
        let prepared = streaming.as_ref().unwrap_or(prepared);
        let rows = (stream, prepared.columns());
        let snapshot = snapshots::snapshot_for(self, prepared).await?;
        let lock_timeout = self.settings.in_effect().lock_timeout;
        let (result, prepared) = match self.transaction.open_name() {
            Some(name) if snapshot.is_some() => {
                let bound = self.bound(prepared)?;
                let (_, begun) = self.transaction.begun(name);
                let at = (snapshot.map_or(0, |snapshot| snapshot.name()), begun);
                let begin = |client: &Client| client.begin_at_snapshot(at, &bound, values);
                (self.wait_for_rows(rows, receiver, begin).await?, bound)
            }
            _ if prepared.has_batches() => {
                Box::pin(many::run_batches(self, prepared, values, lock_timeout)).await?
            }
            Some(name) => {
                let bound = self.bound(prepared)?;
                self.limit_waits(name, lock_timeout).await?;
                let begun = self.transaction.begun(name);
                let begin = |client: &Client| client.begin_within_at(begun, &bound, values);
                (self.wait_for_rows(rows, receiver, begin).await?, bound)
            }
            // Open transactions alone have a lock time-out.
            None if lock_timeout.is_some() && !prepared.reads_only() => {
                let bound = self.bound(prepared)?;
                let own = ByItself::begin(&self.client);
                self.limit_waits(own.name(), lock_timeout).await?;
                let result = self.wait_for(|client| client.begin_within(own.name(), &bound, values)).await;
                let ended = own.end(result.is_ok()).await.map_err(sql_error);
                let result = result?;
                ended?;
                (result, bound)
            }
            None => {
                let bound = self.bound(prepared)?;
                let begin = |client: &Client| client.begin_prepared(&bound, values);
                (self.wait_for_rows(rows, receiver, begin).await?, bound)
            }
        };
        self.sequence_values.note(&prepared, &result);
        let count = prepared.verb().filter(|verb| *verb != Verb::Do).map(|_| prepared.count(&result));
        let (columns, sent) = (prepared.columns_shared(), receiver.sent());
        Ok(Done { count, columns, rows: prepared.rows(result), sent, ..Done::tag(tag) })
    }

    /// Runs a bound portal, unless it has run already.
    ///
    /// # Errors
    /// An error of PostgreSQL, or an unsupported feature.
    pub async fn start(&mut self, name: &str, receiver: &mut Receiver<'_>) -> Result<Option<Done>, Failure> {
        let portal = self.names.portal(name)?;
        let (statement, state) = (portal.statement.clone(), &portal.state);
        if !matches!(state, PortalState::Bound) {
            self.refuse_after_failure(statement.command())?;
            return Ok(None);
        }
        // Nobody needs them again: a portal that fails goes with its transaction.
        let values = std::mem::take(&mut portal.values);
        let mut done = self.run(&statement, &values, receiver).await?;
        let state = match done.gives_rows() {
            false => PortalState::Over,
            true => {
                let rows = (receiver.take_running(), std::mem::take(&mut done.rows));
                PortalState::Open(Cursor::of(done.columns.clone(), done.tag.clone(), rows, Some(false)))
            }
        };
        // Its end may have taken the portal along.
        if let Ok(portal) = self.names.portal(name) {
            portal.state = state;
        }
        Ok(Some(done))
    }

    /// Binds the values of its parameters to a statement.
    ///
    /// # Errors
    /// There is no such statement, or a portal of that name.
    pub fn bind_portal(
        &mut self,
        name: &str,
        bound: (Arc<Statement>, Vec<Value>, Formats),
    ) -> Result<(), Failure> {
        self.refuse_after_failure(bound.0.command())?;
        let born = (self.transaction.open_name(), self.transaction.depth());
        Ok(self.names.bind(name, bound, born)?)
    }

    /// The statement ends when `statement_timeout` says so, until this is dropped.
    pub(crate) fn limit_time(&self, statement: u64) -> Option<Armed> {
        let most = self.settings.in_effect().statement_timeout?;
        let process = self.backend.facts.get()?.process;
        Some(Armed::new(&self.front, std::time::Instant::now() + most, (process, statement)))
    }

    /// The values of a statement, with those that the session has been given behind them.
    pub(crate) fn with_current_values<'v>(
        &self,
        prepared: &Prepared,
        values: &'v [Value],
    ) -> Result<Cow<'v, [Value]>, Failure> {
        if prepared.current_values().is_empty() {
            return Ok(Cow::Borrowed(values));
        }
        let mut all = values.to_vec();
        for asked in prepared.current_values() {
            all.push(Value::Int(self.current_value(asked)?));
        }
        Ok(Cow::Owned(all))
    }

    /// # Errors
    /// There is no such sequence (42P01), or it has given nothing yet (55000).
    pub(crate) fn current_value(&self, asked: &CurrentValue) -> Result<i64, Failure> {
        if let CurrentValue::Of(sequence) = asked {
            self.schema_version()?.check_sequence(sequence)?;
        }
        Ok(self.sequence_values.get(asked)?)
    }

    /// Gives the phase that follows.
    pub(crate) fn note_activity_ended(&self, at: std::time::Instant) -> Phase {
        let phase = match self.transaction.state() {
            TransactionState::None => Phase::Idle,
            TransactionState::Open { .. } => Phase::IdleInTransaction,
            TransactionState::Failed { .. } => Phase::IdleInFailed,
        };
        self.backend.activity.end(at, phase);
        phase
    }

    /// Contention is measured by the transaction of the statement that has just run.
    #[cold]
    fn record(
        &mut self,
        statement: &Statement,
        values: &[Value],
        watched: &Watched,
        result: &Result<Done, Failure>,
    ) {
        let Some(mut recording) = self.recording.take() else { return };
        let is_over = self.transaction.is_none();
        if let Kind::Run(prepared, _) = &statement.kind {
            let is_alone = !watched.was_open && is_over;
            self.front.contention.note(&mut recording, prepared, values, is_alone);
        }
        if !is_over {
            self.recording = Some(recording);
            return;
        }
        let is_rolled_back = result.as_ref().map_or(true, |done| done.tag == "ROLLBACK");
        self.front.contention.end(*recording, is_rolled_back);
    }

    fn end_watch(
        &self,
        statement: &Statement,
        Watched { begun, was_open }: Watched,
        result: &Result<Done, Failure>,
    ) {
        let took = begun.elapsed();
        let phase = self.note_activity_ended(begun + took);
        if phase == Phase::Idle {
            let is_rolled_back = match (was_open, result) {
                (true, Ok(done)) => done.tag == "ROLLBACK",
                (_, result) => result.is_err(),
            };
            self.front.transactions.count(!is_rolled_back);
        }
        let executed = match &statement.kind {
            Kind::Execute(name, _) => self.names.statement(name).ok().and_then(|one| one.figures.clone()),
            _ => None,
        };
        if let Some(figures) = executed.as_ref().or(statement.figures.as_ref()) {
            figures.add(took, result);
        }
        let slow = self.settings.in_effect().log_slow.unwrap_or(self.front.log_slow);
        if slow.is_some_and(|slow| took >= slow) {
            self.front.log_slow(&self.backend, statement, took, result);
        }
    }
}
