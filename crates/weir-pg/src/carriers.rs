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

use crate::watchdog::TICK;

/// Numbers of threads that carry connections: with fewer, one long statement meets all others; with more, a few busy connections are
/// spread so thin that each thread reads one of them at a time.
const CARRIERS_MIN: usize = 2;
const CARRIERS_MAX: usize = 8;

/// Stack of each thread; memory is used only as far as needed. Deeply nested statements are parsed, bound and evaluated recursively.
const STACK_BYTES: usize = 64 << 20;

/// A carrier that has answered its only busy client looks for the next message for so long before it sleeps: to be woken takes longer than a
/// client takes to ask again.
const LOOKS_FOR: Duration = Duration::from_micros(50);

/// What the thread of a carrier and others know of it.
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
    /// The carrier of this thread.
    static STATE: RefCell<Option<Arc<State>>> = const { RefCell::new(None) };
}

/// A connection is busy until this is dropped.
pub(crate) struct Busy {
    carrier: Option<Arc<State>>,
    /// No other connection of the carrier has begun a message since the connection's last.
    is_again: bool,
}

impl Busy {
    /// `connection`: a number that no other connection has.
    pub fn begin(connection: usize) -> Busy {
        let carrier = STATE.with_borrow(Clone::clone);
        let mut is_again = false;
        if let Some(state) = &carrier {
            state.busy.fetch_add(1, Ordering::Relaxed);
            is_again = state.last.swap(connection, Ordering::Relaxed) == connection;
        }
        Busy { carrier, is_again }
    }

    fn is_only(&self) -> bool {
        let is_only = |state: &State| state.busy.load(Ordering::Relaxed) == 1;
        self.is_again && self.carrier.as_deref().is_some_and(is_only)
    }

    /// Looks for what comes next, for a moment, if no other connection of the carrier has anything to do. `look` gives it if it is there.
    pub async fn look_for<T>(self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let until = Instant::now() + LOOKS_FOR;
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if !self.is_only() || Instant::now() >= until {
                return None;
            }
            // The carrier looks at its sockets, without waiting.
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(state) = &self.carrier {
            state.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// One thread for connections. While a statement on it computes for long, another thread takes its place.
struct Carrier {
    runtime: Runtime,
    /// Number of its connections.
    open: Arc<AtomicUsize>,
    pulse: Pulse,
}

/// Tells whether a carrier carries: a task is spawned on it, and has run or not when it is looked at again.
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
pub(crate) struct Carriers(Vec<Carrier>);

impl Carriers {
    /// # Errors
    /// The system's.
    pub fn start() -> io::Result<Carriers> {
        let processors = available_parallelism().map_or(CARRIERS_MIN, usize::from);
        (0..processors.clamp(CARRIERS_MIN, CARRIERS_MAX))
            .map(|_| Carrier::start())
            .collect::<io::Result<_>>()
            .map(Carriers)
    }

    pub fn pulses(&self) -> Vec<Pulse> {
        self.0.iter().map(|carrier| carrier.pulse.clone()).collect()
    }

    /// Carries a connection to its end, on the thread that carries fewest, of those that no long statement keeps.
    pub fn carry(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let burden = |carrier: &&Carrier| {
            (carrier.pulse.state.is_crowded.load(Ordering::Relaxed), carrier.open.load(Ordering::Relaxed))
        };
        let Some(Carrier { runtime, open, .. }) = self.0.iter().min_by_key(burden) else { return };
        open.fetch_add(1, Ordering::Relaxed);
        let open = open.clone();
        runtime.spawn(async move {
            connection.await;
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Ends the threads. Connections that are not over are not waited for.
    pub fn shut_down(self) {
        self.0.into_iter().for_each(|carrier| carrier.runtime.shutdown_background());
    }
}

impl Carrier {
    fn start() -> io::Result<Carrier> {
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
        Ok(Carrier { runtime, open: Arc::default(), pulse })
    }
}

/// A carrier's thread that computes for long while connections wait for it yields its place to another thread, and goes on outside of the
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
