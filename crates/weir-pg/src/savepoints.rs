//! A session's savepoints: their names, which nest and may be given twice. What is taken back is the cluster's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_client::SchemaVersion;
use weir_types::{Severity, SqlError, SqlState};

use crate::scope::Scope;
use crate::session::{Session, Transaction, only_in_transactions};
use crate::settings::Values;
use crate::statement::{Done, Failure};

/// One of the open transaction, with the settings at it, and the schema that the transaction had made.
#[derive(Clone)]
struct Savepoint {
    name: String,
    settings: (Values, Option<Scope>),
    schema_version: Option<SchemaVersion>,
}

/// The innermost at the end; the cluster knows them by their places.
#[derive(Default)]
pub(crate) struct Savepoints(Mutex<Vec<Savepoint>>);

impl Savepoints {
    fn lock(&self) -> MutexGuard<'_, Vec<Savepoint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transaction is over.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

impl Session {
    /// The name of the transaction block that is open, failed or not.
    fn block(&self, what: &str) -> Result<u64, SqlError> {
        match *self.transaction() {
            Transaction::Open { name, is_implicit: false } | Transaction::Failed { name } => Ok(name),
            _ => Err(only_in_transactions(what)),
        }
    }

    /// Where the innermost savepoint of that name is.
    fn savepoint_named(&self, name: &str) -> Result<usize, SqlError> {
        self.savepoints.lock().iter().rposition(|one| one.name == name).ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
        })
    }

    /// SET CONSTRAINTS, which takes back what a roll-back to a savepoint before it takes back.
    pub(crate) async fn set_constraints(
        &self,
        names: Option<&[String]>,
        deferred: bool,
    ) -> Result<Done, Failure> {
        self.current_schema_version().await?.check_deferrable(names.unwrap_or_default())?;
        let done = Done::tag("SET CONSTRAINTS");
        match self.open_name() {
            Some(name) => {
                let names = names.map(<[String]>::to_vec);
                self.wait_for(|client| client.begin_constraints(name, names, deferred)).await?;
                Ok(done)
            }
            None => {
                self.mention(Severity::Warning, only_in_transactions("SET CONSTRAINTS"));
                Ok(done)
            }
        }
    }

    pub(crate) async fn savepoint(&self, savepoint: &str) -> Result<Done, Failure> {
        let name = self.block("SAVEPOINT")?;
        self.set_savepoint(name, savepoint).await?;
        Ok(Done::tag("SAVEPOINT"))
    }

    /// In the transaction of that name. Gives its place.
    pub(crate) async fn set_savepoint(&self, transaction: u64, savepoint: &str) -> Result<usize, Failure> {
        self.wait_for(|client| client.begin_savepoint(transaction)).await?;
        let (name, settings, schema_version) =
            (savepoint.to_owned(), self.settings_now(), self.own_schema_version.get());
        let mut savepoints = self.savepoints.lock();
        savepoints.push(Savepoint { name, settings, schema_version });
        Ok(savepoints.len() - 1)
    }

    pub(crate) async fn release(&self, savepoint: &str) -> Result<Done, Failure> {
        let name = self.block("RELEASE SAVEPOINT")?;
        let at = self.savepoint_named(savepoint)?;
        self.release_at(name, at).await?;
        Ok(Done::tag("RELEASE"))
    }

    pub(crate) async fn release_at(&self, transaction: u64, at: usize) -> Result<(), Failure> {
        self.wait_for(|client| client.begin_release(transaction, at)).await?;
        self.savepoints.lock().truncate(at);
        Ok(())
    }

    pub(crate) async fn roll_back_to(&self, savepoint: &str) -> Result<Done, Failure> {
        let name = self.block("ROLLBACK TO SAVEPOINT")?;
        let at = self.savepoint_named(savepoint)?;
        let changed = self.take_back_to(name, at).await?;
        *self.transaction() = Transaction::Open { name, is_implicit: false };
        Ok(Done { changed, ..Done::tag("ROLLBACK") })
    }

    /// Gives the settings that are not what they were.
    pub(crate) async fn take_back_to(
        &self,
        transaction: u64,
        at: usize,
    ) -> Result<Vec<(&'static str, String)>, Failure> {
        self.wait_for(|client| client.begin_roll_back_to(transaction, at)).await?;
        let last = {
            let mut savepoints = self.savepoints.lock();
            savepoints.truncate(at + 1);
            savepoints.last().cloned()
        };
        let mut changed = Vec::new();
        if let Some(Savepoint { settings, schema_version, .. }) = last {
            changed = self.settings_again(settings);
            self.own_schema_version.set(schema_version);
        }
        Ok(changed)
    }
}
