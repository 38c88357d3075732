//! Sessions that are ended by somebody else: `pg_terminate_backend`, and a server that is told to end.
//!
//! What is under way is cancelled if it still can be; a commit that is on its way is waited for and told. Then the client is told why
//! (FATAL, 57P01), and the connection ends.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use weir_types::{SqlError, SqlState};

use crate::session::Session;

/// Whether somebody wishes that the session ends.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    is_wished: AtomicBool,
    told: Notify,
}

impl Ending {
    pub fn is_wished(&self) -> bool {
        self.is_wished.load(Ordering::SeqCst)
    }

    /// Waits until somebody wishes it.
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
}

/// What a statement is told that is cancelled for it, and the client last.
pub(crate) fn terminated() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}
