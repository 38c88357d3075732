//! A connection to a PostgreSQL server that does an agent's work: it runs the transactions of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use postgres::error::SqlState;
use postgres::types::{ToSql, Type};
use postgres::{CancelToken, Client, Error, IsolationLevel, NoTls, Row, Statement, Transaction};
use weir_conveyor::epochs::{Epoch, ServerId, StartNumber};
use weir_conveyor::faults::NoFaults;
use weir_conveyor::plan::{self, Capture, Isolation, Step, transactions};
use weir_conveyor::schema::{self, Column, RowChange, Sql, Table};
use weir_conveyor::work::{DatabaseState, EpochRow, License, Work};

use crate::batch::Batches;
use crate::operation::{Job, Rows, SqlDone, SqlError, SqlWork, StateUpdate};
use crate::{base_copy, batch_plan, map_change};

/// Tables that global operations may write, by the name in the outbox.
pub type Tables = BTreeMap<String, Table>;

type SqlTransaction = plan::Transaction<Job, StateUpdate>;

/// Statements by their text that a connection keeps prepared, at most.
const PREPARED_MAX: usize = 1_000;

/// Prepared statements by their text: those of the protocol and those that apply rows come again and again.
#[derive(Default)]
struct Prepared(BTreeMap<String, Statement>);

impl Prepared {
    /// The statement of that text. `types`: those of its parameters; the server infers the rest.
    fn statement(
        &mut self,
        running: &mut Transaction<'_>,
        text: &str,
        types: &[Type],
    ) -> Result<Statement, Error> {
        if let Some(statement) = self.0.get(text) {
            return Ok(statement.clone());
        }
        if self.0.len() >= PREPARED_MAX {
            self.0.clear();
        }
        let statement = running.prepare_typed(text, types)?;
        self.0.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// Settings of connections for steps of the protocol. The end of a visit makes everything before it durable, whatever the database's default is. An
/// agent that stands still inside of a step holds the epoch row, and nobody could fence its database: so the server ends the step. Steps are short,
/// and compiling one takes longer than running it.
const STEP_SETTINGS: &str =
    "SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '5s'; SET jit = off";
/// The same for batches, which apply visits, and write no other tables of the application. A batch that closes a visit fits into one packet; the
/// connection of an agent whose machine is gone ends all the same.
const BATCH_SETTINGS: &str = "SET jit = off; SET session_replication_role = replica; \
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2";

/// A connection.
pub struct Connection {
    client: Client,
    tables: Arc<Tables>,
    /// The server of which state updates are applied here.
    server: ServerId,
    prepared: Prepared,
    /// The session has the settings for applying visits.
    applies: bool,
    /// The connection string.
    config: String,
    /// For transactions that go in one exchange.
    batches: Option<Batches>,
    /// Why work was lost last.
    last_error: Option<String>,
}

/// Why a transaction ends without a commit.
enum Ends {
    /// With a result.
    With(SqlDone),
    /// The database is in another state than the step expects.
    Unchanged,
    Failed(Error),
}

impl From<Error> for Ends {
    fn from(error: Error) -> Ends {
        Ends::Failed(error)
    }
}

/// Installs the protocol's schema, and triggers on all tables that have a primary key. Returns these tables.
///
/// # Errors
/// The server's.
pub fn install(config: &str) -> Result<Tables, Error> {
    let mut client = Client::connect(config, NoTls)?;
    let mut transaction = client.transaction()?;
    let tables = install_in(&mut transaction)?;
    transaction.commit()?;
    Ok(tables)
}

/// The same within a transaction.
pub(crate) fn install_in(transaction: &mut Transaction<'_>) -> Result<Tables, Error> {
    transaction.batch_execute(schema::INSTALL)?;
    let mut tables = Tables::new();
    for row in transaction.query(schema::READ_TABLES, &[])? {
        let (schema, name, key): (String, String, Vec<String>) = (row.get(0), row.get(1), row.get(2));
        let columns = transaction.query(schema::READ_COLUMNS, &[&schema, &name])?;
        let column = |row: &Row| Column {
            name: row.get(0),
            type_name: row.get(1),
            is_generated: row.get(2),
            is_identity: row.get(3),
        };
        let columns: Vec<Column> = columns.iter().map(column).collect();
        let place = |key: &String| columns.iter().position(|column| column.name == *key);
        let key = key.iter().filter_map(place).collect();
        let table = Table { schema, name, columns, key };
        transaction.batch_execute(&table.capture())?;
        tables.insert(table.relation(), table);
    }
    Ok(tables)
}

/// The number of the next start of the agent beside a database.
///
/// # Errors
/// The server's.
pub fn next_start(config: &str) -> Result<StartNumber, Error> {
    let start: i64 = Client::connect(config, NoTls)?.query_one(schema::NEXT_START, &[])?.get(0);
    Ok(start as StartNumber)
}

impl Connection {
    /// # Errors
    /// The server's.
    pub fn open(config: &str, tables: Arc<Tables>) -> Result<Connection, Error> {
        let mut client = Client::connect(config, NoTls)?;
        client.batch_execute(STEP_SETTINGS)?;
        let prepared = Prepared::default();
        let config = config.to_owned();
        let (applies, batches, last_error) = (false, None, None);
        Ok(Connection { client, tables, server: 0, prepared, applies, config, batches, last_error })
    }

    /// The connection of the agent of that server.
    #[must_use]
    pub fn of_server(self, server: ServerId) -> Connection {
        Connection { server, ..self }
    }

    /// Takes everything of another server, whose connection string this is.
    pub fn copy(&mut self, source: &str) -> SqlDone {
        match base_copy::copy(&mut self.client, source, self.server) {
            Ok(done) => done,
            Err(error) => self.failed(&error),
        }
    }

    /// A handle by which another thread cancels the statement that runs.
    pub fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }

    /// Returns whether the connection can do more work.
    pub fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// Why work of this connection was lost last.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    fn failed(&mut self, error: &Error) -> SqlDone {
        let said = || format!("{error}: {:?}", error.as_db_error());
        match error.code() {
            Some(code) => self.failed_with(code, said),
            None => {
                self.last_error = Some(said());
                SqlDone::Lost
            }
        }
    }

    fn failed_with(&mut self, code: &SqlState, said: impl FnOnce() -> String) -> SqlDone {
        let done = failed(code);
        if done == SqlDone::Lost {
            self.last_error = Some(said());
        }
        done
    }

    /// Does a piece of work.
    pub fn run(&mut self, work: &SqlWork) -> SqlDone {
        let mut done = SqlDone::Lost;
        for transaction in transactions(work, &NoFaults) {
            let ended = match batch_plan::statements(work, &transaction, &self.tables) {
                Some(statements) => self.batch(work, &statements),
                None => self.transaction(&transaction),
            };
            match ended {
                Ok(result) => done = result,
                Err(Ends::With(result)) => return result,
                Err(Ends::Unchanged) => return self.run(&Work::Load),
                // A deferred constraint fails at COMMIT.
                Err(Ends::Failed(error)) if is_execute(work) && is_of_operation(&error) => {
                    return SqlDone::Executed(Err(sql_error(&error)));
                }
                Err(Ends::Failed(error)) => return self.failed(&error),
            }
        }
        done
    }

    /// Runs the statements of a transaction in one exchange.
    fn batch(&mut self, work: &SqlWork, statements: &[Sql]) -> Result<SqlDone, Ends> {
        let open = self.batches.take().filter(Batches::is_open);
        let ran = match open.map_or_else(|| Batches::open(&self.config, BATCH_SETTINGS), Ok) {
            Ok(mut batches) => batches.run(statements).inspect(|_| self.batches = Some(batches)),
            Err(error) => Err(error),
        };
        match ran {
            Ok(Ok(results)) => Ok(batch_plan::done(work, results.last().map_or(&[], Vec::as_slice))),
            Ok(Err(error)) if error.field(b'C') == Some(schema::UNCHANGED) => Err(Ends::Unchanged),
            Ok(Err(error)) => {
                let [code, said] = [b'C', b'M'].map(|field| error.field(field).unwrap_or_default());
                Err(Ends::With(self.failed_with(&SqlState::from_code(code), || format!("{code}: {said}"))))
            }
            Err(error) => {
                self.last_error = Some(error.to_string());
                Err(Ends::With(SqlDone::Lost))
            }
        }
    }

    fn set_session(&mut self, transaction: &SqlTransaction) -> Result<(), Error> {
        let Some(applies) = applies(transaction).filter(|applies| *applies != self.applies) else {
            return Ok(());
        };
        self.client.batch_execute(if applies { schema::APPLY_SETTINGS } else { schema::RUN_SETTINGS })?;
        self.applies = applies;
        Ok(())
    }

    /// Runs the steps of a transaction one by one: those of an operation, and visits with which rows move.
    fn transaction(&mut self, transaction: &SqlTransaction) -> Result<SqlDone, Ends> {
        let level = match transaction.isolation {
            Isolation::Serializable => IsolationLevel::Serializable,
            Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
        };
        self.set_session(transaction)?;
        let mut running = self.client.build_transaction().isolation_level(level).start()?;
        if changes_map(transaction) {
            running.batch_execute(schema::LOCK_MAP)?;
        }
        let mut done = None;
        let mut place = Place { server: self.server, tables: &self.tables, prepared: &mut self.prepared };
        let mut steps = transaction.steps.as_slice();
        if let [Step::LockEpoch(license), Step::CheckMap(map), rest @ ..] = steps {
            let License { epoch, visit } = *license;
            place.check(&mut running, schema::ENTER, &[epoch, visit, *map])?;
            steps = rest;
        }
        for step in steps {
            done = run_step(&mut running, &mut place, step)?.or(done);
        }
        let done = match done {
            Some(done) => done,
            None => SqlDone::State(place.state(&mut running)?),
        };
        running.commit()?;
        Ok(done)
    }
}

/// Settings of the session that the transaction needs. None: any will do.
fn applies(transaction: &SqlTransaction) -> Option<bool> {
    transaction.steps.iter().find_map(|step| match step {
        Step::Apply(_) => Some(true),
        Step::Run(..) => Some(false),
        _ => None,
    })
}

/// Returns whether the transaction makes a change of the map, or applies one.
fn changes_map(transaction: &SqlTransaction) -> bool {
    transaction.steps.iter().any(|step| match step {
        Step::Run(job, _) => matches!(job, Job::Map(_)),
        Step::Apply(update) => update.rows.iter().any(|(_, row)| row.change == RowChange::Map),
        _ => false,
    })
}

/// The connection's own state, as steps use it.
struct Place<'a> {
    server: ServerId,
    tables: &'a Tables,
    prepared: &'a mut Prepared,
}

impl Place<'_> {
    /// Runs a statement of the protocol whose parameters are numbers. Returns how many rows it has changed.
    fn execute(&mut self, running: &mut Transaction<'_>, text: &str, numbers: &[u64]) -> Result<u64, Error> {
        let statement = self.prepared.statement(running, text, &[])?;
        let numbers: Vec<i64> = numbers.iter().map(|number| *number as i64).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> =
            numbers.iter().map(|number| number as &(dyn ToSql + Sync)).collect();
        running.execute(&statement, &parameters)
    }

    fn state(&mut self, running: &mut Transaction<'_>) -> Result<DatabaseState, Error> {
        let statement = self.prepared.statement(running, schema::READ_STATE, &[])?;
        Ok(state_of(&running.query_one(&statement, &[])?))
    }

    /// Runs a statement that fails if the transaction may not go on.
    fn check(&mut self, running: &mut Transaction<'_>, text: &str, numbers: &[u64]) -> Result<(), Ends> {
        let Err(error) = self.execute(running, text, numbers) else { return Ok(()) };
        Err(match error.code().map(SqlState::code) {
            Some(schema::NOT_LICENSED) => Ends::With(SqlDone::NotLicensed),
            Some(schema::WRONG_MAP) => Ends::With(SqlDone::WrongMap),
            Some(schema::UNCHANGED) => Ends::Unchanged,
            _ => Ends::Failed(error),
        })
    }
}

/// Runs one step. `Some`: the result of the transaction, if it commits.
fn run_step(
    running: &mut Transaction<'_>,
    place: &mut Place<'_>,
    step: &Step<Job, StateUpdate>,
) -> Result<Option<SqlDone>, Ends> {
    match step {
        Step::LockEpoch(_) => unreachable!("the check of the map comes behind it"),
        Step::Run(Job::Statements(operation), capture) => {
            return run_operation(running, operation, *capture).map(Some);
        }
        Step::Run(Job::Session(_), _) => unreachable!("a session runs over a connection of its own"),
        Step::Run(Job::Map(job), Capture::Columns(visit)) => {
            let changed = map_change::run(running, (place.server, place.tables), job, *visit)?;
            return Ok(Some(SqlDone::Executed(changed)));
        }
        Step::Run(Job::Map(_), _) => unreachable!("the map changes by global operations"),
        Step::CheckMap(map) => place.check(running, schema::CHECK_MAP, &[*map])?,
        Step::Apply(update) => apply(running, place, update)?,
        Step::MovePosition { after, to } => {
            place.check(running, schema::MOVE_POSITION, &[*after, *to])?;
        }
        Step::ReadState
        | Step::Adopt(_)
        | Step::Close(_)
        | Step::Fence(..)
        | Step::ReadOutbox(_)
        | Step::DeleteOutbox { .. } => unreachable!("it goes in a batch"),
        Step::CopyBase(_) => unreachable!("it takes two connections"),
        Step::ReadEpoch(_) | Step::CaptureApart(_) | Step::CheckMapAtMost(_) | Step::CopyAnyBase(_) => {
            unreachable!("only planted bugs have such steps")
        }
    }
    Ok(None)
}

pub(crate) fn read_state(running: &mut Transaction<'_>) -> Result<DatabaseState, Error> {
    Ok(state_of(&running.query_one(schema::READ_STATE, &[])?))
}

/// A row of [`schema::READ_STATE`].
fn state_of(row: &Row) -> DatabaseState {
    let number = |index: usize| row.get::<_, i64>(index) as u64;
    let epoch: Epoch = number(0);
    let epoch_row = EpochRow { epoch, closed: number(1), closed_in: number(2) };
    let absent = row.get::<_, Vec<i16>>(5).into_iter().map(|server| server as ServerId).collect();
    DatabaseState { row: epoch_row, applied: number(3), map: number(4), absent }
}

fn run_operation(
    running: &mut Transaction<'_>,
    operation: &crate::operation::Operation,
    capture: Capture,
) -> Result<SqlDone, Ends> {
    assert!(!matches!(capture, Capture::Statements(_)), "only a planted bug captures statements");
    let mut results = Vec::new();
    for sql in &operation.statements {
        match query(running, sql) {
            Ok(rows) => results.push(rows.iter().map(texts).collect::<Result<Rows, Error>>()?),
            Err(error) => return Err(Ends::Failed(error)),
        }
    }
    Ok(SqlDone::Executed(Ok(results)))
}

fn apply(running: &mut Transaction<'_>, place: &mut Place<'_>, update: &StateUpdate) -> Result<(), Error> {
    let Place { server, tables, prepared } = place;
    // Rows that move are for one server, which the row before them names.
    let mut is_here = false;
    for (relation, row) in &update.rows {
        match row.change {
            RowChange::Map => {
                map_change::set_map(running, row)?;
                continue;
            }
            RowChange::Sequence => {
                map_change::follow(running, *server, (relation, row))?;
                continue;
            }
            RowChange::Clear => {
                is_here = map_change::clear(running, (*server, tables), relation, row)?;
                continue;
            }
            RowChange::Take | RowChange::Keep if !is_here => continue,
            _ => {}
        }
        let sql = tables.get(relation).and_then(|table| table.apply(row));
        let statements = sql.expect("all servers have the tables and columns that an outbox names");
        for sql in &statements {
            apply_row(running, prepared, sql)?;
        }
    }
    Ok(())
}

fn apply_row(running: &mut Transaction<'_>, prepared: &mut Prepared, sql: &Sql) -> Result<(), Error> {
    let statement = prepared.statement(running, &sql.text, &vec![Type::TEXT; sql.parameters.len()])?;
    let parameters: Vec<&(dyn ToSql + Sync)> =
        sql.parameters.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
    running.execute(&statement, &parameters).map(drop)
}

/// Runs a statement of an operation, whose parameters are texts.
///
/// # Errors
/// The server's.
pub fn query(running: &mut Transaction<'_>, sql: &Sql) -> Result<Vec<Row>, Error> {
    let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        sql.parameters.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
    running.query_typed(&sql.text, &parameters)
}

fn texts(row: &Row) -> Result<Vec<Option<String>>, Error> {
    (0..row.len()).map(|index| row.try_get(index)).collect()
}

/// Returns whether an error is the operation's own, and no reason to try it again or to give up the connection.
fn is_of_operation(error: &Error) -> bool {
    let code = error.code();
    code.is_some_and(|code| !is_serialization_failure(code) && !is_loss(code))
}

fn is_execute(work: &SqlWork) -> bool {
    matches!(work, Work::Execute { .. })
}

fn is_serialization_failure(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
}

/// Class 57P: the server or an administrator ends the connection.
fn is_loss(code: &SqlState) -> bool {
    code.code().starts_with("57")
}

fn sql_error(error: &Error) -> SqlError {
    let sqlstate = error.code().map_or_else(String::new, |code| code.code().to_owned());
    let message = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
    SqlError { sqlstate, message }
}

fn failed(code: &SqlState) -> SqlDone {
    // Others have the map of slots at the moment.
    let has_waited = *code == SqlState::LOCK_NOT_AVAILABLE;
    if is_serialization_failure(code) || has_waited {
        SqlDone::SerializationFailure
    } else if *code == SqlState::QUERY_CANCELED {
        SqlDone::Cancelled
    } else {
        SqlDone::Lost
    }
}
