//! A client's session: its parts, of which each keeps its own invariants, and how it asks the cluster. Independent of the protocol.
//!
//! It is owned by the task of its connection. What other tasks see of it is its [`Backend`] (docs/internals/postgres-session.md).

use std::sync::Arc;
use std::time::Duration;

use weir_client::{CallResult, Client, Error, Pending, RowStream, SchemaVersion, noting};
use weir_sql::bound::OutputColumn;
use weir_types::{Severity, SqlError, SqlState};

use crate::backend::{Backend, Origin};
use crate::copy::CopyIn;
use crate::idle::Idle;
use crate::notices::PendingNotices;
use crate::portals::Names;
use crate::receiver::Receiver;
use crate::run::{AdvisoryLocks, TemporaryFunctions};
use crate::sequence_values::SequenceValues;
use crate::settings::SessionSettings;
use crate::statement::Failure;
use crate::transaction::{CurrentTransaction, TransactionState};
use crate::watch::{FrontEnd, Recording};

pub struct Session {
    pub(crate) client: Arc<Client>,
    /// Shared by all sessions.
    pub(crate) front: Arc<FrontEnd>,
    /// Shared with whoever looks at this session, or ends it.
    pub(crate) backend: Arc<Backend>,
    pub(crate) settings: SessionSettings,
    pub(crate) transaction: CurrentTransaction,
    pub(crate) names: Names,
    pub(crate) notices: PendingNotices,
    pub(crate) advisory: AdvisoryLocks,
    pub(crate) sequence_values: SequenceValues,
    pub(crate) temporary: TemporaryFunctions,
    /// Ends its transaction while it says nothing.
    pub(crate) idle: Idle,
    /// The COPY that takes what the client sends.
    pub(crate) copying: Option<CopyIn>,
    /// The current transaction, if contention is measured by it.
    pub(crate) recording: Option<Box<Recording>>,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, front: Arc<FrontEnd>) -> Session {
        let backend = Arc::new(Backend::new(client.clone()));
        Session {
            client,
            front,
            settings: SessionSettings::new(backend.clone()),
            transaction: CurrentTransaction::new(backend.clone()),
            backend,
            names: Names::default(),
            notices: PendingNotices::default(),
            advisory: AdvisoryLocks::default(),
            sequence_values: SequenceValues::default(),
            temporary: TemporaryFunctions::default(),
            idle: Idle::default(),
            copying: None,
            recording: None,
        }
    }

    pub(crate) fn mention(&mut self, severity: Severity, said: SqlError) {
        self.notices.mention(self.settings.values(), severity, said);
    }

    /// Begins an implicit transaction until `end_together`, unless one is open. Returns its name.
    pub fn begin_together(&mut self) -> u64 {
        self.transaction.begin_implicit(&self.client)
    }

    /// The schema that the next statement meets.
    pub(crate) fn schema_version(&self) -> Result<SchemaVersion, Failure> {
        match self.transaction.schema_version() {
            Some(schema_version) => Ok(schema_version.clone()),
            None => self.client.schema_version().map_err(|wrong| Failure::of(wrong, "")),
        }
    }

    /// Everything that the session asks of the cluster goes through here, so that it can be cancelled.
    pub(crate) async fn wait_for(
        &mut self,
        begin: impl FnOnce(&Client) -> Pending<CallResult>,
    ) -> Result<CallResult, Failure> {
        self.answer_of(begin).await.map_err(sql_error)
    }

    /// The same for a query whose rows may come through a stream.
    pub(crate) async fn wait_for_rows(
        &mut self,
        (stream, columns): (Option<Arc<RowStream>>, &[OutputColumn]),
        receiver: &mut Receiver<'_>,
        begin: impl FnOnce(&Client) -> Pending<CallResult>,
    ) -> Result<CallResult, Failure> {
        let Some(stream) = stream else { return self.wait_for(begin).await };
        let style = self.settings.in_effect().interval_style;
        let pending = noting(self.backend.in_flight.clone(), || begin(&self.client));
        self.backend.in_flight.set_sends_rows(receiver.sends_rows());
        let result = receiver.forward((&self.client, &stream), (columns, style), pending).await;
        self.backend.in_flight.set_sends_rows(false);
        self.has_answer(result).map_err(sql_error)
    }

    /// Waits for the answer; errors are the client library's.
    pub(crate) async fn answer_of(
        &mut self,
        begin: impl FnOnce(&Client) -> Pending<CallResult>,
    ) -> Result<CallResult, Error> {
        // This thread may be at it before there is anything to wait for.
        let pending = noting(self.backend.in_flight.clone(), || begin(&self.client));
        let result = pending.await;
        self.has_answer(result)
    }

    /// The operation in flight has ended.
    fn has_answer(&mut self, mut result: Result<CallResult, Error>) -> Result<CallResult, Error> {
        self.backend.in_flight.ended(result.is_err());
        let notices = match &mut result {
            Ok(result) => std::mem::take(&mut result.notices),
            Err(Error::Sql(error)) => std::mem::take(error.notices_mut()),
            Err(_) => Vec::new(),
        };
        self.notices.mention_all(self.settings.values(), notices);
        result
    }

    /// Sets the lock time-out of a transaction. Default is no limit; once set, it is sent with every statement.
    pub(crate) async fn limit_waits(&mut self, name: u64, most: Option<Duration>) -> Result<(), Failure> {
        let is_news = self.transaction.limits(name, most.is_some());
        if is_news {
            self.client.begin_lock_timeout(name, most).await.map_err(sql_error)?;
        }
        Ok(())
    }
}

impl Drop for Session {
    /// A connection that ends rolls back.
    fn drop(&mut self) {
        self.names.clear_portals();
        self.advisory.give_all_back(&self.client);
        if let TransactionState::Open { name, .. } | TransactionState::Failed { name } =
            self.transaction.take()
        {
            // The result is not needed.
            drop(self.client.end_transaction(name, false));
            self.front.transactions.count(false);
        }
        if let (Some(Origin { address, since }), Some(facts)) =
            (self.backend.origin.get(), self.backend.facts.get())
        {
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
