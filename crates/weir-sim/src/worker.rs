//! Workers of shards in virtual time: threads of which only one runs at a time, from one pause to the next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use weir_core::machine::{Pace, Work};

/// A worker that stands at a pause, or has not begun.
pub struct Worker {
    /// None: abandoned.
    go: Option<Sender<()>>,
    /// A message for each pause; disconnected: the worker has finished.
    paused: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// The worker's side.
struct Stepped {
    go: Mutex<Receiver<()>>,
    paused: Mutex<Sender<()>>,
    is_abandoned: AtomicBool,
    /// Number of places at which it could have paused.
    places: AtomicU64,
    /// It pauses at each of so many places, and then at every [`EVERY_PLACE`]th.
    each_place: u64,
}

/// A worker pauses at each of so many places; later at every so many-th, so that a scan of thousands of rows ends in time.
const EACH_PLACE: u64 = 100;
const EVERY_PLACE: u64 = 64;

impl Stepped {
    fn wait(&self) {
        let go = self.go.lock().unwrap_or_else(PoisonError::into_inner);
        if go.recv().is_err() {
            self.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}

impl Pace for Stepped {
    fn wants_pause(&self) -> bool {
        let place = self.places.fetch_add(1, Ordering::Relaxed);
        let pauses = place < self.each_place || place.is_multiple_of(EVERY_PLACE);
        pauses && !self.is_abandoned.load(Ordering::Relaxed)
    }

    fn pause(&self) {
        // An abandoned worker runs to its end.
        let _ = self.paused.lock().unwrap_or_else(PoisonError::into_inner).send(());
        self.wait();
    }
}

impl Worker {
    /// The work begins at the first [`Worker::resume`].
    pub fn new(work: Work) -> Worker {
        Worker::pausing(work, EACH_PLACE)
    }

    /// As [`Worker::new`]; it pauses at every place.
    pub fn at_every_place(work: Work) -> Worker {
        Worker::pausing(work, u64::MAX)
    }

    fn pausing(work: Work, each_place: u64) -> Worker {
        let (go, gone) = channel();
        let (paused, pauses) = channel();
        let stepped = Arc::new(Stepped {
            go: Mutex::new(gone),
            paused: Mutex::new(paused),
            is_abandoned: AtomicBool::new(false),
            places: AtomicU64::new(0),
            each_place,
        });
        let thread = std::thread::spawn(move || {
            stepped.wait();
            work(stepped);
        });
        Worker { go: Some(go), paused: pauses, thread: Some(thread) }
    }

    /// Runs it up to its next pause. Returns whether it has finished.
    pub fn resume(&mut self) -> bool {
        if let Some(go) = &self.go {
            // A worker that has panicked is found out by the next line.
            let _ = go.send(());
        }
        self.paused.recv().is_err()
    }
}

impl Drop for Worker {
    /// The shard has crashed, or the work is done.
    fn drop(&mut self) {
        self.go = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("a worker has panicked");
        }
    }
}
