//! Statistics of a front end, counted with relaxed atomics and without locks shared by statements.

mod activity;
mod contention;
mod kinds;
mod statements;
mod views;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weir_observe::{Counter, Page, Source};
use weir_types::{SqlError, SqlState};

use crate::backend::Backend;
use crate::known_texts::KnownTexts;
use crate::run::Exported;
use crate::session_registry::SessionRegistry;
use crate::statement::{Done, Failure, Statement};
use crate::watchdog::Timeouts;

pub(crate) use activity::{Activity, Phase};
pub use contention::{Contention, Recording};
pub(crate) use kinds::Kinds;
pub(crate) use statements::{StatementFigures, Statements};
pub(crate) use views::Waits;

/// State shared by all sessions of a front end, besides the cluster.
pub(crate) struct FrontEnd {
    pub sessions: SessionRegistry,
    pub known_texts: KnownTexts,
    pub kinds: Kinds,
    pub statements: Statements,
    pub transactions: Transactions,
    pub contention: Contention,
    pub exported: Exported,
    /// Since then it counts.
    pub since: SystemTime,
    /// Statements that take as long are logged, where their session says nothing else.
    pub log_slow: Option<Duration>,
    pub connections_max: usize,
    pub timeouts: Timeouts,
}

/// Numbers of transactions that have ended, of one statement or of several.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    pub commits: Counter,
    pub rollbacks: Counter,
}

impl Transactions {
    /// One has ended.
    pub fn count(&self, has_committed: bool) {
        if has_committed { self.commits.add(1) } else { self.rollbacks.add(1) }
    }
}

impl FrontEnd {
    pub fn new(connections_max: usize, log_slow: Option<Duration>) -> FrontEnd {
        FrontEnd {
            sessions: SessionRegistry::default(),
            known_texts: KnownTexts::default(),
            kinds: Kinds::default(),
            statements: Statements::default(),
            transactions: Transactions::default(),
            contention: Contention::default(),
            exported: Exported::default(),
            since: SystemTime::now(),
            log_slow,
            connections_max,
            timeouts: Timeouts::default(),
        }
    }

    pub(crate) fn log_slow(
        &self,
        backend: &Backend,
        statement: &Statement,
        took: Duration,
        result: &Result<Done, Failure>,
    ) {
        let (user, process) = backend.who();
        let wrong = result.as_ref().err().map(|wrong| wrong.error.state());
        let state = wrong.unwrap_or(SqlState::SUCCESSFUL_COMPLETION);
        tracing::info!(
            duration_ms = took.as_secs_f64() * 1e3,
            process,
            user,
            state = state.as_str(),
            statement = &*statement.text,
            "slow statement"
        );
    }

    /// Logs an error that is sent to a client.
    pub(crate) fn log_error(&self, backend: &Backend, error: &SqlError) {
        self.kinds.count_error(error.state());
        let (user, process) = backend.who();
        let (state, message) = (error.state(), error.message());
        let state = state.as_str();
        match &state[..2] {
            // Errors that are no fault of the user.
            "XX" | "53" | "58" => tracing::error!(process, user, state, "{message}"),
            _ => tracing::debug!(process, user, state, "{message}"),
        }
    }
}

/// Tells what a front end has done, for as long as it runs.
pub struct Watch(pub(crate) Arc<FrontEnd>);

impl Source for Watch {
    fn tell(&self, page: &mut Page) {
        let front = &*self.0;
        for (phase, sessions) in front.sessions.by_phase() {
            let help = "Sessions of PostgreSQL's protocol, by what they do.";
            page.gauge("weir_sessions", help, &[("state", phase)], sessions as f64);
        }
        let since = front.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let help = "Since when the front end counts, in seconds of the Unix epoch.";
        page.gauge("weir_front_end_start_time_seconds", help, &[], since);
        let help = "Connections of PostgreSQL's protocol that there may be at once.";
        page.gauge("weir_connections_max", help, &[], front.connections_max as f64);
        for (name, help, counter) in [
            ("weir_connections_total", "Connections that were let in.", &front.sessions.entered),
            ("weir_commits_total", "Transactions that have committed.", &front.transactions.commits),
            ("weir_rollbacks_total", "Transactions that were rolled back.", &front.transactions.rollbacks),
        ] {
            page.counter(name, help, &[], counter.get() as f64);
        }
        front.kinds.tell(page);
        front.contention.tell(page);
    }

    fn html(&self) -> Option<&'static str> {
        Some(Contention::PAGE)
    }
}
