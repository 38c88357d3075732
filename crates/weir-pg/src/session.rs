//! What one client may say, and what comes of it. Knows nothing of the wire.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_client::{Client, Error, Prepared, Unprepared, Verb};
use weir_sql::bound::OutputColumn;
use weir_sql::session::{Characteristics, Command, Isolation, Said, statements};
use weir_types::{SqlError, SqlState, SqlType, Value};

use crate::settings::Values;

pub struct Session {
    client: Arc<Client>,
    values: Mutex<Values>,
    transaction: Mutex<Transaction>,
}

/// What PostgreSQL calls the status of a transaction: I, T and E.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Transaction {
    #[default]
    None,
    /// By its name. `is_implicit`: of the statements of one text.
    Open { name: u64, is_implicit: bool },
    /// Nothing but its end is to come.
    Failed { name: u64 },
}

/// What a statement has done to the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    #[default]
    Stays,
    Begins,
    Ends,
}

/// One statement, bound.
#[derive(Clone)]
pub struct Statement {
    kind: Kind,
    pub parameters: Arc<[SqlType]>,
    pub columns: Arc<[OutputColumn]>,
}

#[derive(Clone)]
enum Kind {
    Run(Prepared, &'static str),
    Command(Command),
}

/// What a statement has given.
#[derive(Clone, Debug)]
pub struct Done {
    /// What clients are told that it was, without a count.
    pub tag: String,
    pub turn: Turn,
    /// How many rows it has written; none: it is not told.
    pub count: Option<u64>,
    pub rows: Vec<Vec<Value>>,
    pub warning: Option<SqlError>,
}

impl Done {
    fn tag(tag: impl Into<String>) -> Done {
        Done { tag: tag.into(), turn: Turn::Stays, count: None, rows: Vec::new(), warning: None }
    }
}

/// Why there is no such statement, or it has failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub error: SqlError,
    /// Where in the text, in characters from 1.
    pub position: Option<usize>,
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        Failure { error, position: None }
    }
}

impl Failure {
    /// `before`: what stands before its text in the client's.
    fn of(Unprepared { error, position }: Unprepared, before: &str) -> Failure {
        Failure { error, position: Some(before.chars().count() + position) }
    }
}

impl Session {
    pub fn new(client: Arc<Client>) -> Session {
        Session { client, values: Mutex::default(), transaction: Mutex::default() }
    }

    pub fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transaction(&self) -> MutexGuard<'_, Transaction> {
        self.transaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statements of a text are one transaction, if none is open.
    pub fn begin_together(&self) {
        let mut transaction = self.transaction();
        if *transaction == Transaction::None {
            *transaction = Transaction::Open { name: self.client.new_transaction(), is_implicit: true };
        }
    }

    /// They have been run, up to the first that failed.
    ///
    /// # Errors
    /// Their transaction cannot commit.
    pub async fn end_together(&self, has_failed: bool) -> Result<(), Failure> {
        let transaction = *self.transaction();
        if let Transaction::Open { name, is_implicit: true } = transaction {
            *self.transaction() = Transaction::None;
            self.client.end_transaction(name, !has_failed).await.map_err(sql_error)?;
        }
        Ok(())
    }

    /// A statement has failed, be it before it ran.
    pub fn fail(&self) {
        let mut transaction = self.transaction();
        if let Transaction::Open { name, is_implicit: false } = *transaction {
            *transaction = Transaction::Failed { name };
        }
    }

    /// The statements of a text.
    ///
    /// # Errors
    /// It is no SQL.
    pub fn read(&self, text: &str) -> Result<Vec<Said>, Failure> {
        statements(text).map_err(|wrong| Failure::of(Unprepared::of(text, wrong), ""))
    }

    /// Binds one of them.
    ///
    /// # Errors
    /// What is wrong with it, or not supported.
    pub fn prepare(&self, text: &str, said: &Said, types: &[SqlType]) -> Result<Statement, Failure> {
        let (start, end) = (said.span.start as usize, said.span.end as usize);
        let own = text.get(start..end).unwrap_or_default();
        if said.what == Command::Run {
            let before = text.get(..start).unwrap_or_default();
            let prepared = self.client.prepare(own, types).map_err(|wrong| Failure::of(wrong, before))?;
            let is_call = own.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("call"));
            let tag = match prepared.verb() {
                // Of the rows that PostgreSQL once numbered.
                Some(Verb::Insert) => "INSERT 0",
                Some(Verb::Update) => "UPDATE",
                Some(Verb::Delete) => "DELETE",
                None if is_call => "CALL",
                None => "SELECT",
            };
            return Ok(Statement {
                parameters: prepared.parameters().into(),
                columns: prepared.columns().into(),
                kind: Kind::Run(prepared, tag),
            });
        }
        let column = |name: &str| OutputColumn { name: name.to_owned(), ty: SqlType::Text };
        let columns = match &said.what {
            Command::Show(Some(name)) => {
                let shown =
                    self.values().all().map(|(name, _)| name).find(|one| one.eq_ignore_ascii_case(name));
                vec![column(shown.unwrap_or(name))]
            }
            Command::Show(None) => vec![column("name"), column("setting"), column("description")],
            _ => Vec::new(),
        };
        Ok(Statement {
            kind: Kind::Command(said.what.clone()),
            parameters: [].into(),
            columns: columns.into(),
        })
    }

    /// # Errors
    /// What PostgreSQL would say, or that it is not supported.
    pub async fn run(&self, statement: &Statement, values: &[Value]) -> Result<Done, Failure> {
        let transaction = *self.transaction();
        match &statement.kind {
            Kind::Command(Command::Commit) => self.end(true).await,
            Kind::Command(Command::RollBack) => self.end(false).await,
            _ if matches!(transaction, Transaction::Failed { .. }) => {
                let message =
                    "current transaction is aborted, commands ignored until end of transaction block";
                Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message).into())
            }
            Kind::Command(Command::Begin(wished)) => {
                check(*wished)?;
                let mut transaction = self.transaction();
                let warning =
                    matches!(*transaction, Transaction::Open { is_implicit: false, .. }).then(|| {
                        SqlError::new(
                            SqlState::ACTIVE_SQL_TRANSACTION,
                            "there is already a transaction in progress",
                        )
                    });
                let name = match *transaction {
                    Transaction::Open { name, .. } => name,
                    _ => self.client.new_transaction(),
                };
                *transaction = Transaction::Open { name, is_implicit: false };
                Ok(Done { turn: Turn::Begins, warning, ..Done::tag("BEGIN") })
            }
            Kind::Command(command) => Ok(self.obey(command)?),
            Kind::Run(prepared, tag) => {
                let under_way = match transaction {
                    Transaction::Open { name, .. } => self.client.begin_within(name, prepared, values),
                    _ => self.client.begin_prepared(prepared, values),
                };
                let result = under_way.await.map_err(sql_error)?;
                let count = prepared.verb().map(|_| prepared.count(&result));
                Ok(Done { count, rows: prepared.rows(result), ..Done::tag(*tag) })
            }
        }
    }

    /// Ends the transaction that is open. One that has failed is rolled back, whatever is wished.
    async fn end(&self, commit: bool) -> Result<Done, Failure> {
        let transaction = std::mem::take(&mut *self.transaction());
        let (name, commits) = match transaction {
            Transaction::None => {
                let tag = if commit { "COMMIT" } else { "ROLLBACK" };
                return Ok(Done { turn: Turn::Ends, warning: Some(no_transaction()), ..Done::tag(tag) });
            }
            Transaction::Open { name, .. } => (name, commit),
            Transaction::Failed { name } => (name, false),
        };
        self.client.end_transaction(name, commits).await.map_err(sql_error)?;
        Ok(Done { turn: Turn::Ends, ..Done::tag(if commits { "COMMIT" } else { "ROLLBACK" }) })
    }

    fn in_transaction(&self, what: &str) -> SqlError {
        match *self.transaction() {
            Transaction::Open { is_implicit: false, .. } => not_yet(what),
            _ => only_in_transactions(what),
        }
    }

    fn obey(&self, command: &Command) -> Result<Done, SqlError> {
        match command {
            Command::Begin(_) | Command::Commit | Command::RollBack => {
                Err(SqlError::new(SqlState::INTERNAL_ERROR, "it is obeyed elsewhere"))
            }
            Command::Savepoint(_) => Err(self.in_transaction("SAVEPOINT")),
            Command::Release(_) => Err(self.in_transaction("RELEASE SAVEPOINT")),
            Command::RollBackTo(_) => Err(self.in_transaction("ROLLBACK TO SAVEPOINT")),
            Command::SetTransaction(wished) | Command::SetSession(wished) => {
                check(*wished)?;
                Ok(Done::tag("SET"))
            }
            Command::Set { name, value, local } => {
                let mut values = self.values();
                let mut changed = values.clone();
                changed.set(name, value.as_deref())?;
                // SET LOCAL is of the transaction, which is over with this statement.
                if !local {
                    *values = changed;
                }
                Ok(Done::tag(if value.is_some() { "SET" } else { "RESET" }))
            }
            Command::ResetAll => {
                self.values().reset();
                Ok(Done::tag("RESET"))
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
            Command::Discard { all } => {
                if *all {
                    self.values().reset();
                }
                Ok(Done::tag(if *all { "DISCARD ALL" } else { "DISCARD" }))
            }
            Command::Deallocate(None) => Ok(Done::tag("DEALLOCATE ALL")),
            Command::Deallocate(Some(name)) => {
                let message = format!("prepared statement \"{name}\" does not exist");
                Err(SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message))
            }
            Command::Copy => Err(not_yet("COPY")),
            Command::Define => Err(not_yet("changing the schema while nodes run")
                .with_hint("change schema.sql of the application, and start its nodes anew")),
            Command::Nothing(what) => Ok(Done::tag(*what)),
            Command::Unsupported(what) => Err(not_yet(what)),
            Command::Run => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement that was not bound")),
        }
    }
}

impl Drop for Session {
    /// A connection that ends rolls back.
    fn drop(&mut self) {
        let transaction = std::mem::take(&mut *self.transaction());
        if let Transaction::Open { name, .. } | Transaction::Failed { name } = transaction {
            // Nobody waits for it.
            drop(self.client.end_transaction(name, false));
        }
    }
}

fn check(wished: Characteristics) -> Result<(), SqlError> {
    let level = wished.isolation.unwrap_or(Isolation::ReadCommitted);
    if !matches!(level, Isolation::ReadCommitted | Isolation::ReadUncommitted) {
        return Err(
            not_yet(&format!("isolation level {}", level.name())).with_hint("it may be read committed")
        );
    }
    if wished.read_only == Some(true) {
        return Err(not_yet("read-only transactions"));
    }
    Ok(())
}

fn not_yet(what: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("not supported yet: {what}"))
}

fn no_transaction() -> SqlError {
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
}

fn only_in_transactions(what: &str) -> SqlError {
    SqlError::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}

/// Whether it has happened is in the SQLSTATE: 08007 may have.
fn sql_error(error: Error) -> Failure {
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
