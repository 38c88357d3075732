//! The threads that carry connections. Each has its own sockets, tasks and timers, so nothing of a connection goes from one thread to another,
//! and none wakes another (docs/internals/postgres-session.md, "Threads").

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use weir_client::set_patient;

use crate::watchdog::TICK;

/// Numbers of threads that carry connections: with fewer, one long statement meets all others; with more, a few busy connections are
/// spread so thin that each thread reads one of them at a time.
const EVENT_LOOPS_MIN: usize = 2;
const EVENT_LOOPS_MAX: usize = 8;

/// Stack of each thread: memory is used only as far as needed. Deeply nested statements are parsed, bound and evaluated recursively.
const STACK_BYTES: usize = 64 << 20;

/// An event loop that has answered its only busy client looks for the next message for so long before it sleeps: to be woken takes longer than a
/// client takes to ask again.
const LOOKS_FOR: Duration = Duration::from_micros(50);

/// State of an event loop that its thread and other threads share.
#[derive(Debug, Default)]
struct State {
    /// Its connections wait for it.
    is_crowded: AtomicBool,
    /// Number of connections that run a message, or look for the next.
    busy: AtomicUsize,
    /// The connection that has begun a message last.
    last: AtomicUsize,
}

thread_local! {
    /// The event loop of this thread.
    static STATE: RefCell<Option<Arc<State>>> = const { RefCell::new(None) };
}

/// A connection is busy until this is dropped.
pub(crate) struct Busy {
    event_loop: Option<Arc<State>>,
    /// No other connection of the event loop has begun a message since the connection's last.
    is_again: bool,
}

impl Busy {
    /// `connection`: a number that no other connection has.
    pub fn begin(connection: usize) -> Busy {
        let event_loop = STATE.with_borrow(Clone::clone);
        let mut is_again = false;
        if let Some(state) = &event_loop {
            state.busy.fetch_add(1, Ordering::Relaxed);
            is_again = state.last.swap(connection, Ordering::Relaxed) == connection;
        }
        let busy = Busy { event_loop, is_again };
        set_patient(busy.is_only());
        busy
    }

    fn is_only(&self) -> bool {
        let is_only = |state: &State| state.busy.load(Ordering::Relaxed) == 1;
        self.is_again && self.event_loop.as_deref().is_some_and(is_only)
    }

    /// Looks for what comes next, for a moment, if no other connection of the event loop has anything to do. `look` gives it if it is there.
    pub async fn look_for<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let until = Instant::now() + LOOKS_FOR;
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if !self.is_only() || Instant::now() >= until {
                return None;
            }
            // The event loop looks at its sockets, without waiting.
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        set_patient(false);
        if let Some(state) = &self.event_loop {
            state.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// One thread for connections. While a statement on it computes for long, another thread takes its place.
struct EventLoop {
    runtime: Runtime,
    /// Number of its connections.
    open: Arc<AtomicUsize>,
    pulse: Pulse,
}

/// Tells whether an event loop runs: a task is spawned on it, and has run or not when it is looked at again.
#[derive(Clone)]
pub(crate) struct Pulse {
    runtime: Handle,
    has_not_run: Arc<AtomicBool>,
    state: Arc<State>,
}

impl Pulse {
    /// Looks whether the task has run since the last look, and spawns the next. Returns whether connections wait.
    pub fn beat(&self) -> bool {
        let is_crowded = self.has_not_run.swap(true, Ordering::AcqRel);
        self.state.is_crowded.store(is_crowded, Ordering::Relaxed);
        if !is_crowded {
            let has_not_run = self.has_not_run.clone();
            self.runtime.spawn(async move { has_not_run.store(false, Ordering::Release) });
        }
        is_crowded
    }
}

/// The threads of one server.
pub(crate) struct EventLoops(Vec<EventLoop>);

impl EventLoops {
    /// # Errors
    /// The system's.
    pub fn start() -> io::Result<EventLoops> {
        let processors = available_parallelism().map_or(EVENT_LOOPS_MIN, usize::from);
        (0..processors.clamp(EVENT_LOOPS_MIN, EVENT_LOOPS_MAX))
            .map(|_| EventLoop::start())
            .collect::<io::Result<_>>()
            .map(EventLoops)
    }

    pub fn pulses(&self) -> Vec<Pulse> {
        self.0.iter().map(|event_loop| event_loop.pulse.clone()).collect()
    }

    /// Carries a connection to its end, on the thread that carries fewest, of those that no long statement keeps.
    pub fn carry(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let burden = |event_loop: &&EventLoop| {
            (
                event_loop.pulse.state.is_crowded.load(Ordering::Relaxed),
                event_loop.open.load(Ordering::Relaxed),
            )
        };
        let Some(EventLoop { runtime, open, .. }) = self.0.iter().min_by_key(burden) else { return };
        open.fetch_add(1, Ordering::Relaxed);
        let open = open.clone();
        runtime.spawn(async move {
            connection.await;
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Ends the threads. Connections that are not over are not waited for.
    pub fn shut_down(self) {
        self.0.into_iter().for_each(|event_loop| event_loop.runtime.shutdown_background());
    }
}

impl EventLoop {
    fn start() -> io::Result<EventLoop> {
        let state = Arc::<State>::default();
        let own = state.clone();
        // A runtime of several threads with one thread: only these let another thread take the place of one that computes.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_stack_size(STACK_BYTES)
            .thread_name("weir-pg")
            .on_thread_start(move || STATE.set(Some(own.clone())))
            .enable_all()
            .build()?;
        let pulse = Pulse { runtime: runtime.handle().clone(), has_not_run: Arc::default(), state };
        Ok(EventLoop { runtime, open: Arc::default(), pulse })
    }
}

/// An event loop's thread that computes for long while connections wait for it yields its place to another thread, and goes on outside of the
/// runtime. Returns when that thread carries them; false: this thread keeps nobody waiting.
pub(crate) fn make_room() -> bool {
    let is_crowded = |state: &State| state.is_crowded.load(Ordering::Relaxed);
    if !STATE.with_borrow(|own| own.as_deref().is_some_and(is_crowded)) {
        return false;
    }
    let Ok(runtime) = Handle::try_current() else { return false };
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return false;
    }
    tokio::task::block_in_place(|| {
        // The place is taken back at the end of this unless another thread has it by then.
        let (runs, is_run) = std::sync::mpsc::channel();
        runtime.spawn(async move { runs.send(()) });
        is_run.recv_timeout(TICK).is_ok()
    })
}
