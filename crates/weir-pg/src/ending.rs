//! Termination of sessions from outside: `pg_terminate_backend`, and server shutdown.
//!
//! The statement in progress is cancelled if possible; a commit in flight is awaited and reported. Then the client receives the reason
//! (FATAL, 57P01), and the connection ends.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use weir_types::{SqlError, SqlState};

/// Whether termination of the session has been requested.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    is_wished: AtomicBool,
    /// The client has closed its side of the connection: nobody is to be told.
    is_gone: AtomicBool,
    told: Notify,
}

impl Ending {
    pub fn is_wished(&self) -> bool {
        self.is_wished.load(Ordering::SeqCst)
    }

    pub fn client_is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Waits for the request.
    pub async fn wished(&self) {
        if !self.is_wished() {
            // A permit is kept for who comes late, and one alone waits here.
            self.told.notified().await;
        }
    }

    /// Requests it. Who waits is woken by `tell`.
    pub fn wish(&self) {
        self.is_wished.store(true, Ordering::SeqCst);
    }

    pub fn tell(&self) {
        self.told.notify_one();
    }

    /// The client is gone.
    pub fn lose_client(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

/// Error of the cancelled statement, and final message to the client.
pub(crate) fn terminated() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}
