//! Statistics of a front end, counted with relaxed atomics and without locks shared by statements.

mod activity;
mod kinds;
mod statements;
mod views;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use weir_observe::{Counter, Page, Source};
use weir_types::{SqlError, SqlState};

use crate::known_texts::KnownTexts;
use crate::repeatable_catalog::Exported;
use crate::session::{Session, Transaction};
use crate::session_registry::SessionRegistry;
use crate::statement::{Done, Failure, Kind, Statement};
use crate::watchdog::Timeouts;

pub(crate) use activity::{Activity, Phase};
pub(crate) use kinds::Kinds;
pub(crate) use statements::{StatementFigures, Statements};

/// State shared by all sessions of a front end, besides the cluster.
pub(crate) struct FrontEnd {
    pub sessions: SessionRegistry,
    pub known_texts: KnownTexts,
    pub kinds: Kinds,
    pub statements: Statements,
    pub transactions: Transactions,
    pub exported: Exported,
    /// Since then it counts.
    pub since: SystemTime,
    /// Statements that take as long are logged, where their session says nothing else.
    pub log_slow: Option<Duration>,
    pub connections_max: usize,
    pub timeouts: Timeouts,
}

/// How often transactions have ended, of one statement or of several.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    pub commits: Counter,
    pub rollbacks: Counter,
}

impl FrontEnd {
    pub fn new(connections_max: usize, log_slow: Option<Duration>) -> FrontEnd {
        FrontEnd {
            sessions: SessionRegistry::default(),
            known_texts: KnownTexts::default(),
            kinds: Kinds::default(),
            statements: Statements::default(),
            transactions: Transactions::default(),
            exported: Exported::default(),
            since: SystemTime::now(),
            log_slow,
            connections_max,
            timeouts: Timeouts::default(),
        }
    }
}

/// A statement under way.
pub(crate) struct Watched {
    begun: Instant,
    was_open: bool,
}

impl Session {
    pub(crate) fn begin_watch(&self, statement: &Statement) -> Watched {
        let begun = Instant::now();
        let was_open = *self.transaction() != Transaction::None;
        self.activity.begin(begun, &statement.text);
        Watched { begun, was_open }
    }

    pub(crate) fn end_watch(
        &self,
        statement: &Statement,
        Watched { begun, was_open }: Watched,
        result: &Result<Done, Failure>,
    ) {
        let took = begun.elapsed();
        let phase = match *self.transaction() {
            Transaction::None => Phase::Idle,
            Transaction::Open { .. } => Phase::IdleInTransaction,
            Transaction::Failed { .. } => Phase::IdleInFailed,
        };
        self.activity.end(begun + took, phase);
        if phase == Phase::Idle {
            let is_rolled_back = match (was_open, result) {
                (true, Ok(done)) => done.tag == "ROLLBACK",
                (_, result) => result.is_err(),
            };
            self.count_transaction(!is_rolled_back);
        }
        let executed = match &statement.kind {
            Kind::Execute(name, _) => self.names().statement(name).ok().and_then(|one| one.figures.clone()),
            _ => None,
        };
        if let Some(figures) = executed.as_ref().or(statement.figures.as_ref()) {
            figures.add(took, result);
        }
        let slow = self.values().log_slow(self.front.log_slow);
        if slow.is_some_and(|slow| took >= slow) {
            self.log_slow(statement, took, result);
        }
    }

    /// One has ended.
    pub(crate) fn count_transaction(&self, has_committed: bool) {
        let Transactions { commits, rollbacks } = &self.front.transactions;
        if has_committed { commits.add(1) } else { rollbacks.add(1) }
    }

    fn log_slow(&self, statement: &Statement, took: Duration, result: &Result<Done, Failure>) {
        let (user, process) = self.facts.get().map_or(("", 0), |facts| (facts.user.as_str(), facts.process));
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
    pub(crate) fn log_error(&self, error: &SqlError) {
        self.front.kinds.count_error(error.state());
        let (user, process) = self.facts.get().map_or(("", 0), |facts| (facts.user.as_str(), facts.process));
        let (state, message) = (error.state(), error.message());
        let state = state.as_str();
        match &state[..2] {
            // What a user cannot have done.
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
    }
}
