//! The transaction of a session: its state, and what is remembered for as long as it is open. Asks the cluster for nothing but names.

use std::sync::Arc;

use weir_client::{Client, SchemaVersion};
use weir_net::clock::time_of_day;
use weir_types::{SqlError, SqlState};

use crate::backend::Backend;
use crate::run::Snapshot;
use crate::settings::Saved;

/// Transaction status, as in PostgreSQL: I, T and E.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransactionState {
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

/// A savepoint, with the settings at it, and the schema that the transaction had made.
#[derive(Clone)]
pub(crate) struct Savepoint {
    pub name: String,
    pub settings: Saved,
    pub schema_version: Option<SchemaVersion>,
}

pub(crate) struct CurrentTransaction {
    /// Changed by `become_state` alone, which tells `backend`.
    state: TransactionState,
    backend: Arc<Backend>,
    /// The transaction that was asked about last, and when that was first, in microseconds since 2000: `now()` is the same in all of its
    /// statements.
    begun: Option<(u64, i64)>,
    /// The innermost is the last; the cluster knows them by their places. None are left when the transaction ends.
    savepoints: Vec<Savepoint>,
    /// The schema version that the transaction has made; none outside of one.
    pub own_schema_version: Option<SchemaVersion>,
    /// Snapshot that a repeatable transaction reads from, since its first query; none outside of one.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Name of the transaction that has run a statement last.
    ran: Option<u64>,
    /// Name of the transaction that was made serializable last.
    serializable: Option<u64>,
    /// The transaction whose waits for locks the cluster limits.
    limited: Option<u64>,
    /// Name of the transaction that the cluster was asked for last, or may have been.
    asked: Option<u64>,
}

impl CurrentTransaction {
    pub fn new(backend: Arc<Backend>) -> CurrentTransaction {
        CurrentTransaction {
            state: TransactionState::None,
            backend,
            begun: None,
            savepoints: Vec::new(),
            own_schema_version: None,
            snapshot: None,
            ran: None,
            serializable: None,
            limited: None,
            asked: None,
        }
    }

    fn become_state(&mut self, state: TransactionState) {
        self.state = state;
        self.backend.note_open_transaction(self.open_name());
    }

    pub fn state(&self) -> TransactionState {
        self.state
    }

    pub fn status(&self) -> Status {
        match self.state {
            TransactionState::None | TransactionState::Open { is_implicit: true, .. } => Status::Idle,
            TransactionState::Open { .. } => Status::InTransaction,
            TransactionState::Failed { .. } => Status::Failed,
        }
    }

    /// There is none, not even an implicit one or one that has failed.
    pub fn is_none(&self) -> bool {
        self.state == TransactionState::None
    }

    /// The name of the transaction that is open.
    pub fn open_name(&self) -> Option<u64> {
        match self.state {
            TransactionState::Open { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The name of the transaction block that is open, failed or not.
    pub fn block_name(&self) -> Option<u64> {
        match self.state {
            TransactionState::Open { name, is_implicit: false } | TransactionState::Failed { name } => {
                Some(name)
            }
            _ => None,
        }
    }

    /// A transaction block is open, and has not failed.
    pub fn is_block_open(&self) -> bool {
        matches!(self.state, TransactionState::Open { is_implicit: false, .. })
    }

    /// Begins an implicit transaction, unless one is open. Returns its name.
    pub fn begin_implicit(&mut self, client: &Client) -> u64 {
        match self.state {
            TransactionState::Open { name, .. } | TransactionState::Failed { name } => name,
            TransactionState::None => {
                let name = client.new_transaction();
                self.become_state(TransactionState::Open { name, is_implicit: true });
                self.note_asked();
                name
            }
        }
    }

    /// Begins a block; an open transaction becomes one.
    pub fn begin_block(&mut self, client: &Client) {
        let name = self.open_name().unwrap_or_else(|| client.new_transaction());
        self.become_state(TransactionState::Open { name, is_implicit: false });
        self.begun(name);
    }

    /// A statement of it has failed. An implicit one ends with its message.
    pub fn fail(&mut self) {
        if let TransactionState::Open { name, is_implicit: false } = self.state {
            self.become_state(TransactionState::Failed { name });
        }
    }

    /// It is over: gives what it was.
    pub fn take(&mut self) -> TransactionState {
        let was = self.state;
        self.become_state(TransactionState::None);
        self.savepoints.clear();
        was
    }

    /// The transaction of that name with the time of its beginning, which is now if it is another one than before.
    pub fn begun(&mut self, name: u64) -> (u64, i64) {
        match self.begun {
            Some(begun) if begun.0 == name => begun,
            _ => *self.begun.insert((name, time_of_day())),
        }
    }

    /// The cluster is about to be asked for something in the name of the open transaction.
    pub fn note_asked(&mut self) {
        self.asked = self.open_name().or(self.asked);
    }

    /// Returns whether the cluster may know the transaction of that name. One that it does not know has written nothing, and needs no end.
    pub fn has_asked(&self, name: u64) -> bool {
        self.asked == Some(name)
    }

    /// The open transaction is about to run something.
    pub fn note_run(&mut self) {
        self.ran = self.open_name().or(self.ran);
    }

    /// It has run something, or has a snapshot already.
    pub fn has_run(&self) -> bool {
        self.open_name().is_some_and(|name| self.ran == Some(name)) || self.snapshot.is_some()
    }

    /// Notes that the transaction of that name locks what it reads, until its end.
    pub fn become_serializable(&mut self, name: u64) {
        self.serializable = Some(name);
    }

    /// Returns whether the open transaction locks what it reads.
    pub fn is_serializable(&self) -> bool {
        self.open_name().is_some_and(|name| self.serializable == Some(name))
    }

    /// Returns whether the cluster must be told a changed lock time-out of that transaction.
    pub fn limits(&mut self, name: u64, is_limited: bool) -> bool {
        let was_limited = self.limited == Some(name);
        self.limited = is_limited.then_some(name);
        is_limited || was_limited
    }

    /// The schema that it reads, if it is not that of all sessions.
    pub fn schema_version(&self) -> Option<&SchemaVersion> {
        self.own_schema_version.as_ref().or_else(|| self.snapshot.as_ref().map(|one| one.schema_version()))
    }

    /// Gives the place of the new savepoint.
    pub fn push_savepoint(&mut self, name: String, settings: Saved) -> usize {
        let schema_version = self.own_schema_version.clone();
        self.savepoints.push(Savepoint { name, settings, schema_version });
        self.savepoints.len() - 1
    }

    /// Where the innermost savepoint of that name is.
    ///
    /// # Errors
    /// There is none.
    pub fn savepoint_named(&self, name: &str) -> Result<usize, SqlError> {
        self.savepoints.iter().rposition(|one| one.name == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }

    /// Number of savepoints.
    pub fn depth(&self) -> usize {
        self.savepoints.len()
    }

    /// Forgets that savepoint and those within.
    pub fn release(&mut self, at: usize) {
        self.savepoints.truncate(at);
    }

    /// Takes the schema back to that savepoint, and forgets those within. Gives the settings at it.
    pub fn take_back_to(&mut self, at: usize) -> Option<Saved> {
        self.savepoints.truncate(at + 1);
        let Savepoint { settings, schema_version, .. } = self.savepoints.last().cloned()?;
        self.own_schema_version = schema_version;
        Some(settings)
    }

    /// A block that had failed goes on.
    pub fn resume_block(&mut self, name: u64) {
        self.become_state(TransactionState::Open { name, is_implicit: false });
    }
}

pub(crate) fn only_in_transactions(what: &str) -> SqlError {
    SqlError::new(
        SqlState::NO_ACTIVE_SQL_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}
