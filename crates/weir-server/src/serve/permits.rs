//! Permits to run for the workers of a node (docs/internals/steps.md, "How many run").
//!
//! A worker that the system has taken off its processor may hold its shard's lock, and a step would wait until it runs again: with twice as
//! many workers as processors, several milliseconds. So no more workers run than there are processors. The others wait, without a
//! lock, and take turns.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use weir_core::machine::{Pace, TemporaryFile};

/// A worker keeps its permit for so long while others wait for one.
const QUANTUM: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct Permits {
    state: Mutex<State>,
    /// Whether somebody waits.
    is_wanted: AtomicBool,
    /// Where workers have their temporary files.
    directory: PathBuf,
}

/// Invariant: nobody waits while a permit is free.
#[derive(Debug)]
struct State {
    free: usize,
    waiting: VecDeque<Arc<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    thread: Thread,
    has_permit: AtomicBool,
}

impl Permits {
    pub(super) fn new(count: usize, directory: PathBuf) -> Permits {
        let state = State { free: count.max(1), waiting: VecDeque::new() };
        Permits { state: Mutex::new(state), is_wanted: AtomicBool::new(false), directory }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit, in order of arrival. It is returned when the value is dropped.
    pub(super) fn take(self: &Arc<Permits>) -> Arc<Permit> {
        self.obtain();
        Arc::new(Permit { of: self.clone(), base: Instant::now(), since_us: AtomicU64::new(0) })
    }

    fn obtain(&self) {
        let mut state = self.state();
        match state.free.checked_sub(1) {
            Some(left) => state.free = left,
            None => self.wait(state),
        }
    }

    fn put_back(&self) {
        let mut state = self.state();
        if !self.give(&mut state) {
            state.free += 1;
        }
    }

    fn wait(&self, mut state: MutexGuard<'_, State>) {
        let own = Arc::new(Waiting { thread: std::thread::current(), has_permit: AtomicBool::new(false) });
        state.waiting.push_back(own.clone());
        self.is_wanted.store(true, Ordering::Relaxed);
        drop(state);
        while !own.has_permit.load(Ordering::Acquire) {
            std::thread::park();
        }
    }

    /// Gives a permit to the first who waits. Returns whether somebody has waited.
    fn give(&self, state: &mut State) -> bool {
        let next = state.waiting.pop_front();
        self.is_wanted.store(!state.waiting.is_empty(), Ordering::Relaxed);
        let Some(next) = next else { return false };
        next.has_permit.store(true, Ordering::Release);
        next.thread.unpark();
        true
    }
}

/// A permit of a worker, which sets its pace: it pauses when its time is over and another one waits.
#[derive(Debug)]
pub(super) struct Permit {
    of: Arc<Permits>,
    base: Instant,
    /// Since when it runs, in microseconds after `base`.
    since_us: AtomicU64,
}

impl Permit {
    fn now_us(&self) -> u64 {
        self.base.elapsed().as_micros() as u64
    }
}

impl Pace for Permit {
    fn wants_pause(&self) -> bool {
        self.of.is_wanted.load(Ordering::Relaxed)
            && self.now_us() - self.since_us.load(Ordering::Relaxed) >= QUANTUM.as_micros() as u64
    }

    fn pause(&self) {
        let mut state = self.of.state();
        if self.of.give(&mut state) {
            self.of.wait(state);
        }
        self.since_us.store(self.now_us(), Ordering::Relaxed);
    }

    fn rest(&self, wait: &mut dyn FnMut()) {
        self.of.put_back();
        wait();
        self.of.obtain();
        self.since_us.store(self.now_us(), Ordering::Relaxed);
    }

    fn temporary_file(&self) -> io::Result<Box<dyn TemporaryFile>> {
        let file = tempfile::tempfile_in(&self.of.directory)?;
        Ok(Box::new(Unnamed { file, length: 0 }))
    }
}

/// A file without a name, which the system drops once it is closed.
struct Unnamed {
    file: File,
    length: u64,
}

impl TemporaryFile for Unnamed {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.put_back();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Of eight workers never more than two run, and each comes to its end.
    #[test]
    fn no_more_run_than_there_are_permits() {
        let permits = Arc::new(Permits::new(2, std::env::temp_dir()));
        let (running, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let permit = permits.take();
                    assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
                    for _ in 0..200 {
                        running.fetch_sub(1, Ordering::SeqCst);
                        permit.pause();
                        assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(ended.load(Ordering::SeqCst), 8);
        assert_eq!(permits.state().free, 2);
        assert!(!permits.take().wants_pause(), "nobody waits");
    }

    #[test]
    fn a_temporary_file_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let permits = Arc::new(Permits::new(1, directory.path().to_owned()));
        let mut file = permits.take().temporary_file().unwrap();
        file.append(b"some ").unwrap();
        file.append(b"rows").unwrap();
        let mut rows = [0; 4];
        file.read(5, &mut rows).unwrap();
        assert_eq!(&rows, b"rows");
        assert!(file.read(7, &mut rows).is_err(), "it ends before");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
