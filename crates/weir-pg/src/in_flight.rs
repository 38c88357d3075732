//! Operation of a session at the cluster, and its cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_client::{Begun, CallResult, Client, Error, Pending, noting};
use weir_types::{SqlError, SqlState};

use crate::ending::terminated;
use crate::session::{Session, sql_error};
use crate::statement::Failure;
use crate::watchdog::Armed;

#[derive(Debug, Default)]
struct State {
    /// Its name at the client, while there is something.
    tag: Option<u64>,
    /// Name of a COMMIT or ROLLBACK in flight, which is not cancelled.
    ending: Option<u64>,
    /// Wakes a session that sleeps, with an error.
    sleep: Option<oneshot::Sender<SqlError>>,
    /// How many statements there have been; the last one is under way if `runs`.
    statement: u64,
    runs: bool,
    /// Error with which the statement must end; also effective between two operations at the cluster.
    wished: Option<SqlError>,
    /// The session ends: no further operation may begin.
    ends: bool,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    /// The open transaction whose waits for locks are limited.
    limited: Mutex<Option<u64>>,
    /// The client sends rows, or has last done so.
    copies: AtomicBool,
}

impl Begun for InFlight {
    fn begun(&self, tag: u64) -> Result<(), SqlError> {
        let mut state = self.lock();
        if state.ends {
            return Err(terminated());
        }
        if let Some(error) = state.wished.take() {
            return Err(error);
        }
        state.tag = Some(tag);
        Ok(())
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the cluster must be told a changed lock time-out of that transaction.
    pub(crate) fn limits(&self, transaction: u64, is_limited: bool) -> bool {
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let was_limited = *limited == Some(transaction);
        *limited = is_limited.then_some(transaction);
        is_limited || was_limited
    }

    pub(crate) fn set_copies(&self, copies: bool) {
        self.copies.store(copies, Ordering::Relaxed);
    }

    pub(crate) fn copies(&self) -> bool {
        self.copies.load(Ordering::Relaxed)
    }

    /// A statement begins: gives its number.
    pub(crate) fn begin_statement(&self) -> u64 {
        let mut state = self.lock();
        state.statement += 1;
        (state.runs, state.wished) = (true, None);
        state.statement
    }

    pub(crate) fn end_statement(&self) {
        let mut state = self.lock();
        (state.runs, state.wished) = (false, None);
    }

    /// The client's name of what is in flight.
    pub(crate) fn tag(&self) -> Option<u64> {
        let state = self.lock();
        state.tag.or(state.ending)
    }

    /// Waits for a COMMIT or ROLLBACK.
    pub(crate) async fn end(&self, pending: Pending<CallResult>) -> Result<CallResult, Error> {
        self.lock().ending = Some(pending.tag());
        let ended = pending.await;
        self.lock().ending = None;
        ended
    }

    /// Records that the operation in flight has ended.
    fn ended(&self, has_failed: bool) {
        let mut state = self.lock();
        state.tag = None;
        if has_failed {
            // The error has been reported.
            state.wished = None;
        }
    }

    fn wish(&self, client: &Client, error: SqlError, of: Option<u64>) {
        let mut state = self.lock();
        if of.is_some_and(|statement| !state.runs || statement != state.statement) {
            return;
        }
        if state.runs {
            state.wished = Some(error.clone());
        }
        if let Some(sleep) = state.sleep.take() {
            // It may just have ended.
            let _ = sleep.send(error);
        } else if let Some(tag) = state.tag {
            client.cancel(tag, error);
        }
    }
}

impl Session {
    /// Cancels the statement in progress with 57014, if possible: one that computes, or waits for a lock or for the network, can be
    /// cancelled; a commit cannot. The statement reports the error. May be called at any time, from any thread.
    pub fn cancel(&self) {
        let message = "canceling statement due to user request";
        self.cancel_with(SqlError::new(SqlState::QUERY_CANCELED, message));
    }

    /// Cancels the statement with that error.
    pub(crate) fn cancel_with(&self, error: SqlError) {
        self.in_flight.wish(&self.client, error, None);
    }

    /// The time of its statement of that number is over.
    pub(crate) fn time_out(&self, statement: u64) {
        let message = "canceling statement due to statement timeout";
        let error = SqlError::new(SqlState::QUERY_CANCELED, message);
        self.in_flight.wish(&self.client, error, Some(statement));
    }

    /// Nothing more of the session's is begun, and what is under way ends.
    pub(crate) fn end_all(&self) {
        self.in_flight.lock().ends = true;
        self.cancel_with(terminated());
    }

    /// The statement ends when `statement_timeout` says so, until this is dropped.
    pub(crate) fn limit_time(&self, statement: u64) -> Option<Armed<'_>> {
        let most = self.values().time("statement_timeout")?;
        let process = self.facts.get()?.process;
        Some(self.front.timeouts.arm(std::time::Instant::now() + most, (process, statement)))
    }

    /// Nothing happens for so long, or until the statement is cancelled or its time is over.
    pub(crate) async fn doze(&self, most: Duration) -> Result<(), Failure> {
        let (wakes, woken) = oneshot::channel();
        {
            let mut state = self.in_flight.lock();
            if state.ends {
                return Err(terminated().into());
            }
            if let Some(error) = state.wished.take() {
                return Err(error.into());
            }
            state.sleep = Some(wakes);
        }
        let slept = tokio::time::timeout(most, woken).await;
        let mut state = self.in_flight.lock();
        state.sleep = None;
        match slept {
            Ok(Ok(error)) => {
                // The error has been reported.
                state.wished = None;
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Everything that the session asks of the cluster goes through here, so that it can be cancelled.
    pub(crate) async fn wait_for(
        &self,
        begin: impl FnOnce(&Client) -> Pending<CallResult>,
    ) -> Result<CallResult, Failure> {
        self.answer_of(begin).await.map_err(sql_error)
    }

    /// Waits for the answer; errors are the client library's.
    pub(crate) async fn answer_of(
        &self,
        begin: impl FnOnce(&Client) -> Pending<CallResult>,
    ) -> Result<CallResult, Error> {
        // This thread may be at it before there is anything to wait for.
        let pending = noting(self.in_flight.clone(), || begin(&self.client));
        let mut result = pending.await;
        self.in_flight.ended(result.is_err());
        self.mention_all(match &mut result {
            Ok(result) => std::mem::take(&mut result.notices),
            Err(Error::Sql(error)) => std::mem::take(error.notices_mut()),
            Err(_) => Vec::new(),
        });
        result
    }
}
