//! Transactions of sessions that need no token: each runs as a task beside its session, on the thread that carries the session.
//!
//! The agent's machine does not hear of them. They have no licence, and nothing of them is captured, so the protocol does not depend on when they
//! run (docs/internals/conveyor.md, "The front").

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use weir_conveyor::message::Lacks;
use weir_conveyor::settings::Settings;

use crate::connections::Connections;
use crate::operation::{SqlDone, SqlError};
use crate::relay::Here;
use crate::session_worker;
use crate::sessions::{Ending, Replies, SessionPort, SessionReply, SessionStart};

/// Transactions of one server.
#[derive(Clone)]
pub(crate) struct Locals(Arc<State>);

struct State {
    connections: Arc<Connections>,
    /// A transaction that runs has one.
    permits: Semaphore,
    attempts_max: AtomicU32,
    wait_ms: AtomicU64,
    waiting: AtomicUsize,
    running: AtomicUsize,
    answered: AtomicU64,
    starved: AtomicU64,
    unknown: AtomicU64,
}

/// Numbers of transactions that are under way, and of those that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalFigures {
    pub waiting: usize,
    pub running: usize,
    pub answered: u64,
    pub starved: u64,
    pub unknown: u64,
}

/// Counts a transaction while it waits or runs.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn begin(figure: &'a AtomicUsize) -> Counted<'a> {
        figure.fetch_add(1, Ordering::Relaxed);
        Counted(figure)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Locals {
    /// `config`: of the server. `connections`: at most so many. `keeps_isolation`: transactions run at the level that their client or the server
    /// says.
    pub fn new(config: String, connections: usize, keeps_isolation: bool) -> Locals {
        Locals(Arc::new(State {
            connections: Connections::new(config, keeps_isolation, connections),
            permits: Semaphore::new(connections),
            attempts_max: AtomicU32::new(1),
            wait_ms: AtomicU64::new(Settings::default().wait_ms),
            waiting: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            starved: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
        }))
    }

    pub fn set_settings(&self, settings: &Settings) {
        self.0.attempts_max.store(settings.attempts_max, Ordering::Relaxed);
        self.0.wait_ms.store(settings.wait_ms, Ordering::Relaxed);
    }

    pub fn figures(&self) -> LocalFigures {
        let state = &*self.0;
        LocalFigures {
            waiting: state.waiting.load(Ordering::Relaxed),
            running: state.running.load(Ordering::Relaxed),
            answered: state.answered.load(Ordering::Relaxed),
            starved: state.starved.load(Ordering::Relaxed),
            unknown: state.unknown.load(Ordering::Relaxed),
        }
    }

    /// Opens a transaction. It is called on a thread that carries sessions.
    pub fn open(&self, start: SessionStart, replies: Replies) -> Here {
        self.begin(SessionPort::new(start, replies))
    }

    /// The same. If it fails nothing is run again.
    pub fn open_once(&self, start: SessionStart, replies: Replies) -> Here {
        self.begin(SessionPort { is_partial: true, ..SessionPort::new(start, replies) })
    }

    fn begin(&self, mut port: SessionPort) -> Here {
        let control = port.control.clone();
        let state = self.0.clone();
        tokio::spawn(async move { state.run(&mut port).await });
        Here::beside(control)
    }

    /// Runs a transaction of another agent's session once, on the thread of a worker, which may wait.
    pub async fn attempt(&self, port: &mut SessionPort) -> SqlDone {
        let Ok(_permit) = self.0.permits.acquire().await else { return SqlDone::Lost };
        session_worker::run(&self.0.connections, port, None).await
    }
}

impl State {
    async fn run(&self, port: &mut SessionPort) {
        let Some(_permit) = self.permit(port).await else { return };
        let _running = Counted::begin(&self.running);
        for _ in 0..self.attempts_max.load(Ordering::Relaxed).max(1) {
            match session_worker::run(&self.connections, port, None).await {
                SqlDone::SerializationFailure => {}
                SqlDone::Lost => {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                _ => {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
        self.starved.fetch_add(1, Ordering::Relaxed);
        port.replies.say(SessionReply::Over(Ending::Starved)).await;
    }

    /// Waits for room. None: the session does not wait any more.
    async fn permit(&self, port: &SessionPort) -> Option<SemaphorePermit<'_>> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(permit);
        }
        let _waiting = Counted::begin(&self.waiting);
        tokio::select! {
            permit = self.permits.acquire() => permit.ok(),
            () = tokio::time::sleep(Duration::from_millis(self.wait_ms.load(Ordering::Relaxed))) => {
                port.replies.say(SessionReply::Over(Ending::NotBegun(Lacks::Connection))).await;
                None
            }
            () = port.control.is_not_to_wait() => {
                let message = "canceling statement due to user request".to_owned();
                let error = SqlError { sqlstate: "57014".to_owned(), message };
                port.replies.say(SessionReply::Over(Ending::Failed(error))).await;
                None
            }
        }
    }
}
