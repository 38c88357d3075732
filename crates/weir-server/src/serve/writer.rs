//! The thread that writes a shard's log: whatever has been noted while the disk was busy becomes durable together (group commit).
//!
//! The shard goes on meanwhile; what may leave when is the [`Outbox`](super::outbox::Outbox)'s.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde::Serialize;

use super::log::{Log, LogError, LogFigures};

enum Job<R> {
    Records(Vec<R>),
    /// Goes on from here in a new segment.
    Snapshot(R),
}

struct State<R> {
    jobs: Vec<Job<R>>,
    /// Nothing more comes.
    is_over: bool,
    /// So many records since the start.
    durable: u64,
    /// It is time for a snapshot.
    is_outgrown: bool,
    /// So many snapshots have been written.
    snapshots: u64,
    failed: Option<LogError>,
}

struct Desk<R> {
    state: Mutex<State<R>>,
    has_jobs: Condvar,
}

impl<R> Desk<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Writer<R> {
    desk: Arc<Desk<R>>,
    figures: Arc<LogFigures>,
    thread: Option<JoinHandle<()>>,
}

/// How far the log has come.
pub(super) struct Written {
    /// So many records since the start are durable.
    pub durable: u64,
    /// It is time for a snapshot.
    pub is_outgrown: bool,
    /// So many have been written.
    pub snapshots: u64,
}

impl<R: Serialize + Send + 'static> Writer<R> {
    /// `tell`: there is news.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(name: String, log: Log, tell: impl Fn() + Send + 'static) -> io::Result<Writer<R>> {
        let state = State {
            jobs: Vec::new(),
            is_over: false,
            durable: 0,
            is_outgrown: false,
            snapshots: 0,
            failed: None,
        };
        let desk = Arc::new(Desk { state: Mutex::new(state), has_jobs: Condvar::new() });
        let (at, figures) = (desk.clone(), log.figures());
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let directory = log.directory().to_path_buf();
            let written = catch_unwind(AssertUnwindSafe(|| write(&at, log, &tell)));
            let failed = written.unwrap_or_else(|_| Err(unwritten(directory)));
            at.lock().failed = failed.err();
            tell();
        })?;
        Ok(Writer { desk, figures, thread: Some(thread) })
    }

    pub(super) fn figures(&self) -> Arc<LogFigures> {
        self.figures.clone()
    }

    pub(super) fn append(&self, records: Vec<R>) {
        self.give(Job::Records(records));
    }

    pub(super) fn begin_anew(&self, snapshot: R) {
        self.give(Job::Snapshot(snapshot));
    }

    fn give(&self, job: Job<R>) {
        let is_idle = {
            let mut state = self.desk.lock();
            state.jobs.push(job);
            state.jobs.len() == 1
        };
        if is_idle {
            self.desk.has_jobs.notify_one();
        }
    }

    /// # Errors
    /// What has ended the thread: nothing more will be durable.
    pub(super) fn written(&self) -> Result<Written, LogError> {
        let mut state = self.desk.lock();
        match state.failed.take() {
            Some(error) => Err(error),
            None => Ok(Written {
                durable: state.durable,
                is_outgrown: state.is_outgrown,
                snapshots: state.snapshots,
            }),
        }
    }

    /// Writes what has been given.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(mut self) -> Result<(), LogError> {
        self.end();
        self.written().map(drop)
    }
}

impl<R> Writer<R> {
    fn end(&mut self) {
        self.desk.lock().is_over = true;
        self.desk.has_jobs.notify_one();
        // It may be the last that knows of the shard.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_other) {
            // If it has panicked, that is what has failed.
            let _ = thread.join();
        }
    }
}

impl<R> Drop for Writer<R> {
    fn drop(&mut self) {
        self.end();
    }
}

fn unwritten(directory: PathBuf) -> LogError {
    LogError::Io(directory, io::Error::other("an assertion of Weir failed on the thread that writes the log"))
}

fn write<R: Serialize>(desk: &Desk<R>, mut log: Log, tell: &impl Fn()) -> Result<(), LogError> {
    let (mut count, mut snapshots) = (0, 0);
    loop {
        let jobs = {
            let mut state = desk.lock();
            while state.jobs.is_empty() {
                if state.is_over {
                    return Ok(());
                }
                state = desk.has_jobs.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::take(&mut state.jobs)
        };
        let mut records = Vec::new();
        let mut append = |log: &mut Log, records: &mut Vec<R>| {
            count += records.len() as u64;
            match records.is_empty() {
                true => Ok(()),
                false => log.append(&std::mem::take(records)),
            }
        };
        for job in jobs {
            match job {
                Job::Records(more) => records.extend(more),
                Job::Snapshot(snapshot) => {
                    append(&mut log, &mut records)?;
                    log.begin_anew(&snapshot)?;
                    snapshots += 1;
                }
            }
        }
        append(&mut log, &mut records)?;
        let mut state = desk.lock();
        (state.durable, state.is_outgrown, state.snapshots) = (count, log.is_outgrown(), snapshots);
        drop(state);
        tell();
    }
}
