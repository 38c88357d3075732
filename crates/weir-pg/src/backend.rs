//! The part of a session that other tasks and threads may read and change. Its connection owns everything else.
//!
//! Readers: queries of pg_stat_activity and pg_locks of any session, the watchdog thread, cancel requests, and the server that ends.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use weir_client::Client;
use weir_sql::system::Facts;
use weir_types::{SqlError, SqlState};

use crate::ending::{Ending, terminated};
use crate::in_flight::InFlight;
use crate::watch::{Activity, Phase};
use crate::watchdog::{Peer, TICK};

/// Stands for no transaction: the client library gives no transaction this name.
const NONE: u64 = u64::MAX;

pub(crate) struct Backend {
    client: Arc<Client>,
    /// The user, the database and the process number; set once, by the startup packet.
    pub facts: OnceLock<Facts>,
    /// Set with `facts`.
    pub origin: OnceLock<Origin>,
    /// Socket of its client, for the watchdog; set once, when the connection begins.
    pub peer: OnceLock<Peer>,
    pub activity: Activity,
    pub in_flight: Arc<InFlight>,
    pub ending: Ending,
    /// Name of the transaction that is open and has not failed, for pg_locks. `CurrentTransaction` alone writes it.
    open_transaction: AtomicU64,
}

/// From where a client has come, and when.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub address: SocketAddr,
    pub since: SystemTime,
}

impl Backend {
    pub fn new(client: Arc<Client>) -> Backend {
        Backend {
            client,
            facts: OnceLock::new(),
            origin: OnceLock::new(),
            peer: OnceLock::new(),
            activity: Activity::default(),
            in_flight: Arc::default(),
            ending: Ending::default(),
            open_transaction: AtomicU64::new(NONE),
        }
    }

    pub fn note_open_transaction(&self, name: Option<u64>) {
        self.open_transaction.store(name.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// Name of its open transaction, as pg_locks has it.
    pub fn open_transaction(&self) -> Option<i64> {
        let name = self.open_transaction.load(Ordering::Relaxed);
        (name != NONE).then_some(name as i64)
    }

    /// User and process number, for the log.
    pub fn who(&self) -> (&str, i32) {
        self.facts.get().map_or(("", 0), |facts| (facts.user.as_str(), facts.process))
    }

    /// Cancels the statement in progress with 57014, if possible: one that computes, or waits for a lock or for the network, can be
    /// cancelled; a commit can until its deferred constraints have been checked. The statement reports the error.
    pub fn cancel(&self) {
        self.cancel_with("canceling statement due to user request", None);
    }

    /// The time of its statement of that number is over.
    pub fn time_out(&self, statement: u64) {
        self.cancel_with("canceling statement due to statement timeout", Some(statement));
    }

    fn cancel_with(&self, message: &str, statement: Option<u64>) {
        let error = SqlError::new(SqlState::QUERY_CANCELED, message);
        self.in_flight.wish(&self.client, error, statement);
    }

    /// Ends the session as soon as what it does can be ended.
    pub fn terminate(&self) {
        self.ending.wish();
        self.in_flight.end();
        self.in_flight.wish(&self.client, terminated(), None);
        self.ending.tell();
    }

    /// The same where the client is gone. Like PostgreSQL, the session says nothing more: what looks busy may have ended, with a client that
    /// has said so and still reads.
    pub fn lose_client(&self) {
        self.ending.lose_client();
        self.terminate();
    }

    /// Name of its statement among those that wait.
    pub fn statement_tag(&self) -> Option<i64> {
        self.in_flight.tag().map(|tag| tag as i64)
    }

    /// It has been at its statement for a while, or takes what a COPY sends.
    pub fn is_busy(&self, now: Instant) -> bool {
        let activity = self.activity.now();
        let is_long = |since: Instant| now.saturating_duration_since(since) >= TICK;
        self.in_flight.copies()
            || activity.phase == Phase::Active && activity.phase_since.is_some_and(is_long)
    }
}
