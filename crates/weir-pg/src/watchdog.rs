//! A watchdog thread, independent of the session threads, which may all be busy: ends statements that exceed their time limit or whose
//! client is gone.
//!
//! It runs no statement and waits for none, so whatever a statement does, it is ended in time.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::TcpStream;
use weir_types::interrupt;

use crate::backend::Backend;
use crate::event_loops::Pulse;
use crate::watch::FrontEnd;

/// Interval at which it looks at clients, and at the threads that carry them.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Socket of a session's client, to detect a lost client while the session reads nothing.
pub(crate) type Peer = OwnedFd;

/// The socket once more; none where the system gives no more of them.
pub(crate) fn peer(socket: &TcpStream) -> Option<Peer> {
    socket.as_fd().try_clone_to_owned().ok()
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By time: the session's process number, and which of its statements is ended then.
    timeouts: BTreeMap<(Instant, u64), (i32, u64)>,
    is_over: bool,
}

/// When statements end, unless they have ended before.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    state: Mutex<State>,
    sooner: Condvar,
}

/// A statement that is to end at that time. Dropping it lets it go on.
pub(crate) struct Armed {
    front: Arc<FrontEnd>,
    key: (Instant, u64),
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.front.timeouts.lock().timeouts.remove(&self.key);
    }
}

impl Timeouts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next timeout, or a tick. Gives those whose time has come; none: it is over.
    fn wait(&self) -> Option<Vec<(i32, u64)>> {
        let mut state = self.lock();
        if state.is_over {
            return None;
        }
        let next = state.timeouts.first_key_value().map(|((at, _), _)| *at);
        let timeouts = next.map_or(TICK, |at| at.saturating_duration_since(Instant::now()).min(TICK));
        if !timeouts.is_zero() {
            (state, _) = self.sooner.wait_timeout(state, timeouts).unwrap_or_else(PoisonError::into_inner);
        }
        let later = state.timeouts.split_off(&(Instant::now(), u64::MAX));
        let due = std::mem::replace(&mut state.timeouts, later);
        (!state.is_over).then(|| due.into_values().collect())
    }
}

impl Armed {
    /// The statement of that session ends then.
    pub fn new(front: &Arc<FrontEnd>, at: Instant, (process, statement): (i32, u64)) -> Armed {
        let mut state = front.timeouts.lock();
        let key = (at, state.next);
        state.next += 1;
        let is_first = state.timeouts.first_key_value().is_none_or(|(first, _)| key < *first);
        state.timeouts.insert(key, (process, statement));
        if is_first {
            front.timeouts.sooner.notify_one();
        }
        Armed { front: front.clone(), key }
    }
}

/// The thread, until it is dropped.
pub(crate) struct Watchdog {
    front: Arc<FrontEnd>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// # Errors
    /// The system has no more threads.
    pub fn start(front: Arc<FrontEnd>, event_loops: Vec<Pulse>) -> std::io::Result<Watchdog> {
        let watched = front.clone();
        let thread = std::thread::Builder::new().name("weir-pg-watch".to_owned());
        let thread = thread.spawn(move || watch(&watched, &event_loops))?;
        Ok(Watchdog { front, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.front.timeouts.lock().is_over = true;
        self.front.timeouts.sooner.notify_one();
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
    }
}

fn watch(front: &FrontEnd, event_loops: &[Pulse]) {
    let mut looked = Instant::now();
    while let Some(due) = front.timeouts.wait() {
        for (process, statement) in due {
            if let Some(session) = front.sessions.get(process) {
                session.time_out(statement);
            }
        }
        if looked.elapsed() < TICK {
            continue;
        }
        looked = Instant::now();
        let crowded = event_loops.iter().filter(|event_loop| event_loop.beat()).count();
        interrupt::ask_for_room(crowded > 0);
        for session in front.sessions.busy(looked) {
            if is_gone(&session) {
                session.lose_client();
            }
        }
    }
}

/// It will take no answer: its side of the connection is closed.
fn is_gone(session: &Backend) -> bool {
    let Some(peer) = session.peer.get() else { return false };
    let mut asked = [PollFd::new(peer, PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
