//! Where a transaction of a session begins and ends: BEGIN, COMMIT, ROLLBACK, savepoints, and the end of a message.

use weir_sql::session::Characteristics;
use weir_types::{Severity, SqlError, SqlState};

use crate::run::{before_any_query, set_isolation};
use crate::session::{Session, sql_error};
use crate::settings::Changed;
use crate::statement::{Done, Failure};
use crate::transaction::{TransactionState, only_in_transactions};
use crate::watch::Phase;

impl Session {
    pub(crate) fn begin(&mut self, wished: Characteristics, tag: &str) -> Result<Done, SqlError> {
        if self.transaction.is_block_open() {
            let message = "there is already a transaction in progress";
            self.mention(Severity::Warning, SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.transaction.begin_block(&self.client);
        self.be_like(wished)?;
        Ok(Done::tag(tag))
    }

    /// Characteristics of the open transaction, until its end.
    fn be_like(&mut self, wished: Characteristics) -> Result<(), SqlError> {
        if let Some(isolation) = wished.isolation {
            set_isolation(self, isolation)?;
        }
        if let Some(read_only) = wished.read_only {
            if !read_only && self.settings.in_effect().is_read_only && self.transaction.has_run() {
                return Err(before_any_query("transaction read-write mode", "set"));
            }
            self.set("transaction_read_only", Some(if read_only { "on" } else { "off" }), true)?;
        }
        Ok(())
    }

    /// SET TRANSACTION.
    pub(crate) fn set_transaction(&mut self, wished: Characteristics) -> Result<(), SqlError> {
        if self.transaction.is_none() {
            self.mention(Severity::Warning, only_in_transactions("SET TRANSACTION"));
        }
        self.be_like(wished)
    }

    /// Ends the transaction that is open. One that has failed is rolled back, whatever is wished.
    pub(crate) async fn end(&mut self, commit: bool) -> Result<Done, Failure> {
        let transaction = self.transaction.take();
        if matches!(transaction, TransactionState::None | TransactionState::Open { is_implicit: true, .. }) {
            self.mention(Severity::Warning, no_transaction());
        }
        let (name, commits) = match transaction {
            TransactionState::None => return Ok(Done::tag(if commit { "COMMIT" } else { "ROLLBACK" })),
            TransactionState::Open { name, .. } => (name, commit),
            TransactionState::Failed { name } => (name, false),
        };
        let ended = self.end_with_cursors(name, commits).await;
        let changed = self.let_go(commits && ended.is_ok());
        ended?;
        Ok(Done { changed, ..Done::tag(if commits { "COMMIT" } else { "ROLLBACK" }) })
    }

    /// Ends the implicit transaction after its last statement, or the first that failed. Returns the settings that it has changed.
    ///
    /// # Errors
    /// Their transaction cannot commit.
    pub async fn end_together(&mut self, has_failed: bool) -> (Changed, Result<(), Failure>) {
        let ended = match self.transaction.state() {
            TransactionState::Open { name, is_implicit: true } => {
                self.transaction.take();
                // Deferred constraints are checked: this takes time as a statement does, and ends as one.
                let number = self.backend.in_flight.begin_statement();
                let armed = self.limit_time(number);
                let ended = self.end_with_cursors(name, !has_failed).await;
                drop(armed);
                self.backend.in_flight.end_statement();
                self.front.transactions.count(!has_failed && ended.is_ok());
                self.backend.activity.end(std::time::Instant::now(), Phase::Idle);
                ended
            }
            _ => Ok(()),
        };
        let mut changed = Changed::new();
        if self.transaction.is_none() {
            changed = self.let_go(!has_failed && ended.is_ok());
        }
        (changed, ended)
    }

    /// Ends the transaction of that name, and before it the queries of its cursors. It is rolled back if a cursor WITH HOLD cannot be kept.
    async fn end_with_cursors(&mut self, name: u64, commit: bool) -> Result<(), Failure> {
        let stored = if commit { self.store_held_cursors().await } else { Ok(()) };
        self.names.end_queries();
        let ended = self.end_named(name, commit && stored.is_ok()).await;
        stored.and(ended)
    }

    /// Ends the transaction of that name, with what it has defined.
    async fn end_named(&mut self, name: u64, commit: bool) -> Result<(), Failure> {
        if !self.transaction.has_asked(name) {
            return Ok(());
        }
        let own = self.transaction.own_schema_version.take();
        let ending = self.client.end_transaction(name, commit);
        let ended = self.backend.in_flight.end_with(&self.client, ending).await.map(drop);
        match own.filter(|_| commit) {
            Some(schema_version) => self.adopt(&schema_version, ended).await,
            None => ended.map_err(sql_error),
        }
    }

    /// The transaction is over: every part lets go of what was its own. Returns the settings that have changed.
    fn let_go(&mut self, has_committed: bool) -> Changed {
        self.advisory.end_transaction(&self.client);
        self.names.end_transaction(has_committed);
        self.transaction.snapshot = None;
        self.settings.end_transaction(has_committed)
    }

    /// SET CONSTRAINTS, which takes back what a roll-back to a savepoint before it takes back.
    pub(crate) async fn set_constraints(
        &mut self,
        names: Option<&[String]>,
        deferred: bool,
    ) -> Result<Done, Failure> {
        self.current_schema_version().await?.check_constraints_named(names.unwrap_or_default(), deferred)?;
        match self.transaction.open_name() {
            Some(name) => {
                let names = names.map(<[String]>::to_vec);
                self.wait_for(|client| client.begin_constraints(name, names, deferred)).await?;
            }
            None => self.mention(Severity::Warning, only_in_transactions("SET CONSTRAINTS")),
        }
        Ok(Done::tag("SET CONSTRAINTS"))
    }

    fn block(&self, what: &str) -> Result<u64, SqlError> {
        self.transaction.block_name().ok_or_else(|| only_in_transactions(what))
    }

    pub(crate) async fn savepoint(&mut self, savepoint: &str) -> Result<Done, Failure> {
        let name = self.block("SAVEPOINT")?;
        self.set_savepoint(name, savepoint).await?;
        Ok(Done::tag("SAVEPOINT"))
    }

    /// In the transaction of that name. Gives its place.
    pub(crate) async fn set_savepoint(
        &mut self,
        transaction: u64,
        savepoint: &str,
    ) -> Result<usize, Failure> {
        self.wait_for(|client| client.begin_savepoint(transaction)).await?;
        Ok(self.transaction.push_savepoint(savepoint.to_owned(), self.settings.saved()))
    }

    pub(crate) async fn release(&mut self, savepoint: &str) -> Result<Done, Failure> {
        let name = self.block("RELEASE SAVEPOINT")?;
        let at = self.transaction.savepoint_named(savepoint)?;
        self.release_at(name, at).await?;
        Ok(Done::tag("RELEASE"))
    }

    pub(crate) async fn release_at(&mut self, transaction: u64, at: usize) -> Result<(), Failure> {
        self.wait_for(|client| client.begin_release(transaction, at)).await?;
        self.transaction.release(at);
        self.names.release(at);
        Ok(())
    }

    pub(crate) async fn roll_back_to(&mut self, savepoint: &str) -> Result<Done, Failure> {
        let name = self.block("ROLLBACK TO SAVEPOINT")?;
        let at = self.transaction.savepoint_named(savepoint)?;
        let changed = self.take_back_to(name, at).await?;
        self.transaction.resume_block(name);
        Ok(Done { changed, ..Done::tag("ROLLBACK") })
    }

    /// Gives the settings that are not what they were.
    pub(crate) async fn take_back_to(&mut self, transaction: u64, at: usize) -> Result<Changed, Failure> {
        self.names.roll_back_to(at);
        self.wait_for(|client| client.begin_roll_back_to(transaction, at)).await?;
        let settings = self.transaction.take_back_to(at);
        Ok(settings.map_or_else(Changed::new, |settings| self.settings.restore(settings)))
    }
}

fn no_transaction() -> SqlError {
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
}
