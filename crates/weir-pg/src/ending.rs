//! Termination of sessions from outside: `pg_terminate_backend`, and server shutdown.
//!
//! The statement in progress is cancelled if possible; a commit in flight is awaited and reported. Then the client receives the reason
//! (FATAL, 57P01), and the connection ends.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use weir_types::{SqlError, SqlState};

use crate::session::Session;

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
}

impl Session {
    /// Ends the session as soon as what it does can be ended. May be called at any time, from anywhere.
    pub(crate) fn terminate(&self) {
        self.ending.is_wished.store(true, Ordering::SeqCst);
        self.end_all();
        self.ending.told.notify_one();
    }

    /// The same where the client is gone. Like PostgreSQL, the session says nothing more: what looks busy may have ended, with a client that
    /// has said so and still reads.
    pub(crate) fn lose_client(&self) {
        self.ending.is_gone.store(true, Ordering::SeqCst);
        self.terminate();
    }
}

/// Error of the cancelled statement, and final message to the client.
pub(crate) fn terminated() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}
