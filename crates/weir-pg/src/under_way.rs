//! What the cluster does for a session at the moment, and how that is cancelled.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use weir_client::{CallResult, Error, Pending};
use weir_types::{SqlError, SqlState};

use crate::ending::terminated;
use crate::session::{Session, sql_error};
use crate::statement::Failure;

#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// Its name at the client, while there is something.
    tag: Mutex<Option<u64>>,
    /// Wakes a session that sleeps, with an error.
    sleep: Mutex<Option<oneshot::Sender<SqlError>>>,
    /// The open transaction whose waits for locks are limited.
    limited: Mutex<Option<u64>>,
}

impl UnderWay {
    fn set(&self, tag: Option<u64>) {
        *self.tag.lock().unwrap_or_else(PoisonError::into_inner) = tag;
    }

    fn sleep(&self) -> MutexGuard<'_, Option<oneshot::Sender<SqlError>>> {
        self.sleep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cluster must be told that waits of that transaction are limited, or no longer are.
    pub(crate) fn limits(&self, transaction: u64, is_limited: bool) -> bool {
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let was_limited = *limited == Some(transaction);
        *limited = is_limited.then_some(transaction);
        is_limited || was_limited
    }

    fn tag(&self) -> Option<u64> {
        *self.tag.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Ends the statement that is under way with 57014, if one is and it can still be kept from happening: what waits for a lock or
    /// for the network can, a commit cannot. Whoever runs it is told. May be called at any time, from anywhere.
    pub fn cancel(&self) {
        let message = "canceling statement due to user request";
        self.cancel_with(SqlError::new(SqlState::QUERY_CANCELED, message));
    }

    /// The same, with that error.
    pub(crate) fn cancel_with(&self, error: SqlError) {
        if let Some(sleep) = self.under_way.sleep().take() {
            // It may just have ended.
            let _ = sleep.send(error);
            return;
        }
        if let Some(tag) = self.under_way.tag() {
            self.client.cancel(tag, error);
        }
    }

    /// Nothing happens for so long, or until the statement is cancelled or its time is over.
    pub(crate) async fn doze(&self, most: Duration) -> Result<(), Failure> {
        let timeout = self.values().time("statement_timeout").filter(|timeout| *timeout < most);
        let (wakes, woken) = oneshot::channel();
        *self.under_way.sleep() = Some(wakes);
        // Whoever ends the session cancels what is under way; this may have come behind that.
        if self.ending.is_wished() {
            self.cancel_with(terminated());
        }
        let slept = tokio::time::timeout(timeout.unwrap_or(most), woken).await;
        *self.under_way.sleep() = None;
        match slept {
            Ok(Ok(error)) => Err(error.into()),
            _ if timeout.is_some() => {
                let message = "canceling statement due to statement timeout";
                Err(SqlError::new(SqlState::QUERY_CANCELED, message).into())
            }
            _ => Ok(()),
        }
    }

    /// Everything that the session asks of the cluster goes through here, so that it can be cancelled.
    pub(crate) async fn wait_for(&self, pending: Pending<CallResult>) -> Result<CallResult, Failure> {
        self.answer_of(pending).await.map_err(sql_error)
    }

    /// The same, with what the client calls the error.
    pub(crate) async fn answer_of(&self, pending: Pending<CallResult>) -> Result<CallResult, Error> {
        let tag = pending.tag();
        let most = self.values().time("statement_timeout");
        let mut pending = std::pin::pin!(pending);
        self.under_way.set(Some(tag));
        // Whoever ends the session cancels what is under way; this may have come behind that.
        if self.ending.is_wished() {
            self.client.cancel(tag, terminated());
        }
        let in_time = match most {
            Some(most) => tokio::time::timeout(most, pending.as_mut()).await.ok(),
            None => Some(pending.as_mut().await),
        };
        let mut result = match in_time {
            Some(result) => result,
            None => {
                let message = "canceling statement due to statement timeout";
                self.client.cancel(tag, SqlError::new(SqlState::QUERY_CANCELED, message));
                // What cannot be cancelled any more is waited for.
                pending.await
            }
        };
        self.under_way.set(None);
        self.mention_all(match &mut result {
            Ok(result) => std::mem::take(&mut result.notices),
            Err(Error::Sql(error)) => std::mem::take(error.notices_mut()),
            Err(_) => Vec::new(),
        });
        result
    }
}
