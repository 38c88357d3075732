//! Operation of a session at the cluster, and its cancellation: shared by the session, the threads that begin its operations, and whoever
//! cancels it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_client::{Begun, CallResult, Client, Error, Pending};
use weir_types::SqlError;

use crate::ending::terminated;

#[derive(Debug, Default)]
struct State {
    /// Its name at the client, while there is something.
    tag: Option<u64>,
    /// Name of a COMMIT or ROLLBACK in flight. A COMMIT is cancelled until its deferred constraints have been checked; afterwards the
    /// coordinator ignores it.
    ending: Option<u64>,
    /// Wakes a session that sleeps, with an error.
    sleep: Option<oneshot::Sender<SqlError>>,
    /// Number of statements so far; the last one is under way if `runs`.
    statement: u64,
    runs: bool,
    /// Error with which the statement must end; also effective between two operations at the cluster.
    wished: Option<SqlError>,
    /// The session ends: no further operation may begin.
    ends: bool,
}

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Written by the session and the thread that begins its operation; read and written by who cancels.
    state: Mutex<State>,
    /// Read by the watchdog. The client sends rows: there is a [`Copying`].
    copies: AtomicBool,
    /// Read when the session is ended. Rows go to the client while their query runs.
    sends_rows: AtomicBool,
}

/// A COPY that takes rows of the client; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Copying(Arc<InFlight>);

impl Copying {
    pub(crate) fn begin(of: Arc<InFlight>) -> Copying {
        of.copies.store(true, Ordering::Relaxed);
        Copying(of)
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.0.copies.store(false, Ordering::Relaxed);
    }
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

    pub(crate) fn set_sends_rows(&self, sends: bool) {
        self.sends_rows.store(sends, Ordering::Relaxed);
    }

    pub(crate) fn sends_rows(&self) -> bool {
        self.sends_rows.load(Ordering::Relaxed)
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

    /// Waits for a COMMIT or ROLLBACK. A cancellation that came before it was in flight is passed on.
    pub(crate) async fn end_with(
        &self,
        client: &Client,
        pending: Pending<CallResult>,
    ) -> Result<CallResult, Error> {
        let wished = {
            let mut state = self.lock();
            state.ending = Some(pending.tag());
            state.wished.take()
        };
        if let Some(error) = wished {
            client.cancel(pending.tag(), error);
        }
        let ended = pending.await;
        self.lock().ending = None;
        ended
    }

    /// Records that the operation in flight has ended.
    pub(crate) fn ended(&self, has_failed: bool) {
        let mut state = self.lock();
        state.tag = None;
        if has_failed {
            // The error has been reported.
            state.wished = None;
        }
    }

    /// The statement must end with that error: the one under way, or only the one of that number.
    pub(crate) fn wish(&self, client: &Client, error: SqlError, of: Option<u64>) {
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
        } else if let Some(tag) = state.tag.or(state.ending) {
            client.cancel(tag, error);
        }
    }

    /// No further operation may begin.
    pub(crate) fn end(&self) {
        self.lock().ends = true;
    }

    /// Nothing happens for so long, or until the statement is cancelled or its time is over.
    pub(crate) async fn doze(&self, most: Duration) -> Result<(), SqlError> {
        let (wakes, woken) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.ends {
                return Err(terminated());
            }
            if let Some(error) = state.wished.take() {
                return Err(error);
            }
            state.sleep = Some(wakes);
        }
        let slept = tokio::time::timeout(most, woken).await;
        let mut state = self.lock();
        state.sleep = None;
        match slept {
            Ok(Ok(error)) => {
                // The error has been reported.
                state.wished = None;
                Err(error)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_over_when_nothing_takes_its_rows() {
        let in_flight = Arc::new(InFlight::default());
        let copying = Copying::begin(in_flight.clone());
        assert!(in_flight.copies());
        drop(copying);
        assert!(!in_flight.copies());
    }
}
