//! Current activity of one session, for pg_stat_activity.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    #[default]
    Idle,
    Active,
    IdleInTransaction,
    IdleInFailed,
}

impl Phase {
    pub const ALL: [Phase; 4] = [Phase::Idle, Phase::Active, Phase::IdleInTransaction, Phase::IdleInFailed];

    /// As PostgreSQL calls it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Active => "active",
            Phase::IdleInTransaction => "idle in transaction",
            Phase::IdleInFailed => "idle in transaction (aborted)",
        }
    }
}

/// The statement that it runs, or has run last.
#[derive(Clone, Debug, Default)]
pub struct Now {
    pub phase: Phase,
    pub statement: Option<Arc<str>>,
    pub statement_since: Option<Instant>,
    pub transaction_since: Option<Instant>,
    pub phase_since: Option<Instant>,
    /// `application_name`.
    pub application: Option<Arc<str>>,
}

/// Contended only by readers of the statistics.
#[derive(Debug, Default)]
pub struct Activity(Mutex<Now>);

impl Activity {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, at: Instant, statement: &Arc<str>) {
        let mut now = self.lock();
        now.phase = Phase::Active;
        now.statement = Some(statement.clone());
        (now.statement_since, now.phase_since) = (Some(at), Some(at));
        now.transaction_since.get_or_insert(at);
    }

    pub fn end(&self, at: Instant, phase: Phase) {
        let mut now = self.lock();
        (now.phase, now.phase_since) = (phase, Some(at));
        if phase == Phase::Idle {
            now.transaction_since = None;
        }
    }

    pub fn set_application(&self, name: &str) {
        self.lock().application = Some(name.into());
    }

    pub fn now(&self) -> Now {
        self.lock().clone()
    }
}
