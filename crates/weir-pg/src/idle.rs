//! Time-out of idle transactions, which hold locks that others wait for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use weir_client::Client;
use weir_types::{SqlError, SqlState};

#[derive(Debug, Default)]
struct State {
    /// When the open transaction of that name ends if nothing is said.
    ends: Option<(Instant, u64)>,
    /// When the task looks that is meant to.
    looks_at: Option<Instant>,
    has_ended: bool,
}

/// Since when a session has been idle in a transaction. At most one task waits for each session, whatever it does meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle(Arc<Mutex<State>>);

impl Idle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session is asked for something.
    ///
    /// # Errors
    /// It was idle for too long, and its transaction is over.
    pub(crate) fn stop(&self) -> Result<(), SqlError> {
        let mut state = self.lock();
        state.ends = None;
        if !state.has_ended {
            return Ok(());
        }
        let message = "terminating connection due to idle-in-transaction timeout";
        Err(SqlError::new(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, message)
            .with_hint("Its transaction was rolled back. Connect again."))
    }

    /// Nothing is asked of it, and its transaction is open.
    pub(crate) fn start(&self, ends_at: Instant, transaction: u64, client: &Arc<Client>) {
        let mut state = self.lock();
        state.ends = Some((ends_at, transaction));
        if state.looks_at.is_none_or(|looks_at| looks_at > ends_at) {
            state.looks_at = Some(ends_at);
            tokio::spawn(self.clone().look(ends_at, client.clone()));
        }
    }

    async fn look(self, mut at: Instant, client: Arc<Client>) {
        loop {
            tokio::time::sleep_until(at).await;
            let mut state = self.lock();
            if state.looks_at != Some(at) {
                return;
            }
            state.looks_at = state.ends.map(|(ends_at, _)| ends_at);
            match state.ends {
                Some((ends_at, transaction)) if ends_at <= at => {
                    (state.looks_at, state.has_ended) = (None, true);
                    // The result is not needed.
                    drop(client.end_transaction(transaction, false));
                    return;
                }
                Some((ends_at, _)) => at = ends_at,
                None => return,
            }
        }
    }
}
