//! The thread that writes a shard's log: whatever has been noted while the disk was busy becomes durable together (group commit).
//!
//! The shard goes on meanwhile; which messages may leave is decided elsewhere (`outbox.rs`; for ordered transactions `weir-ordered-net/src/disk.rs`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde::Serialize;
use tracing::{debug, info, warn};
use weir_core::lsn::Lsn;
use weir_core::nearby::hurry;

use super::log::{Log, LogError, LogFigures};

enum Job<R> {
    Records(Vec<R>),
    /// Write a snapshot of the earlier records, whose parts come through this channel.
    Snapshot(Receiver<Option<R>>),
    /// A snapshot has been written, or has failed.
    HasSnapshot(Result<Option<u64>, LogError>),
    /// Retry after a full disk.
    LookForRoom,
    /// Write notes on histories, with or without records.
    NoteDown,
}

struct State<R> {
    jobs: Vec<Job<R>>,
    /// Nothing more comes.
    is_over: bool,
    /// Number of durable records since the start.
    durable: u64,
    /// A snapshot is due.
    is_outgrown: bool,
    /// Number of snapshots begun and finished.
    snapshots: u64,
    is_full: bool,
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

    fn give(&self, job: Job<R>) {
        let is_idle = {
            let mut state = self.lock();
            state.jobs.push(job);
            state.jobs.len() == 1
        };
        if is_idle {
            self.has_jobs.notify_one();
        }
    }
}

/// The thread that writes a log, as seen by those who append to it.
pub struct Writer<R> {
    desk: Arc<Desk<R>>,
    figures: Arc<LogFigures>,
    thread: Option<JoinHandle<()>>,
}

/// The end of the log.
pub struct Written {
    /// Position up to which the log is durable.
    pub durable: Lsn,
    /// A snapshot is due.
    pub is_outgrown: bool,
    /// Number of snapshots begun and finished.
    pub snapshots: u64,
    /// The disk may have no space.
    pub is_full: bool,
}

impl<R: Serialize + Send + 'static> Writer<R> {
    /// `waits_for_room`: if the disk is full, records are written once there is room, since the shard rejects further writes until then;
    /// otherwise a full disk is an error. `tell`: called when there is news.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        name: String,
        (log, waits_for_room): (Log, bool),
        tell: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Writer<R>> {
        let state = State {
            jobs: Vec::new(),
            is_over: false,
            durable: 0,
            is_outgrown: false,
            snapshots: 0,
            is_full: log.is_full(),
            failed: None,
        };
        let desk = Arc::new(Desk { state: Mutex::new(state), has_jobs: Condvar::new() });
        let (at, figures, tell) = (desk.clone(), log.figures(), Arc::new(tell));
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            hurry();
            let directory = log.directory().to_path_buf();
            let written = catch_unwind(AssertUnwindSafe(|| write(&at, (log, waits_for_room), &tell)));
            let failed = written.unwrap_or_else(|_| Err(unwritten(directory)));
            at.lock().failed = failed.err();
            tell();
        })?;
        Ok(Writer { desk, figures, thread: Some(thread) })
    }

    pub fn figures(&self) -> Arc<LogFigures> {
        self.figures.clone()
    }

    pub fn append(&self, records: Vec<R>) {
        self.desk.give(Job::Records(records));
    }

    /// Begins a snapshot of the earlier records; its parts come through the channel.
    pub fn begin_snapshot(&self, parts: Receiver<Option<R>>) {
        self.desk.give(Job::Snapshot(parts));
    }

    pub fn look_for_room(&self) {
        self.desk.give(Job::LookForRoom);
    }

    pub fn note_down(&self) {
        self.desk.give(Job::NoteDown);
    }

    /// # Errors
    /// Error that ended the thread: nothing more will become durable.
    pub fn written(&self) -> Result<Written, LogError> {
        let mut state = self.desk.lock();
        match state.failed.take() {
            Some(error) => Err(error),
            None => Ok(Written {
                durable: Lsn(state.durable),
                is_outgrown: state.is_outgrown,
                snapshots: state.snapshots,
                is_full: state.is_full,
            }),
        }
    }

    /// Writes what has been given.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<(), LogError> {
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

/// State of the writing thread: records are written in order, and all pending ones are synced together.
struct Writing<'d, R, T> {
    desk: &'d Arc<Desk<R>>,
    log: Log,
    tell: &'d Arc<T>,
    waits_for_room: bool,
    /// Pending records, and whether they wait for disk space; more may be added.
    records: Vec<R>,
    is_waiting: bool,
    /// Number of records written, and number of snapshots begun.
    count: u64,
    snapshots: u64,
}

impl<R: Serialize + Send + 'static, T: Fn() + Send + Sync + 'static> Writing<'_, R, T> {
    /// Says whether nothing is left that waits for room.
    fn append(&mut self) -> Result<bool, LogError> {
        if self.records.is_empty() {
            return Ok(true);
        }
        // To ask for room is quicker than to make a batch of them again.
        if self.is_waiting && !self.log.look_for_room()? {
            return Ok(false);
        }
        match self.log.append_if_room(&self.records)? {
            Some(no_room) if self.waits_for_room => {
                debug!(%no_room, records = self.records.len(), "records wait for room");
                self.is_waiting = true;
                Ok(false)
            }
            Some(no_room) => Err(no_room),
            None => {
                self.count += self.records.len() as u64;
                self.records.clear();
                self.is_waiting = false;
                Ok(true)
            }
        }
    }

    fn take(&mut self, job: Job<R>) -> Result<(), LogError> {
        match job {
            Job::Records(more) => self.records.extend(more),
            Job::Snapshot(parts) => {
                // It is of what is written before it.
                if !self.append()? {
                    self.snapshots += 1;
                    return Ok(());
                }
                let (tell, desk) = (self.tell.clone(), self.desk.clone());
                let ended = move |ended| desk.give(Job::HasSnapshot(ended));
                let log = self.log.directory().to_path_buf();
                match self.log.begin_checkpoint(parts, move || tell(), ended)? {
                    true => info!(log = %log.display(), "a snapshot begins"),
                    false => {
                        warn!(log = %log.display(), "no room for a snapshot: the log is kept");
                        self.snapshots += 1;
                    }
                }
            }
            Job::HasSnapshot(ended) => {
                self.snapshots += 1;
                let (is_whole, log) = (matches!(ended, Ok(Some(_))), self.log.directory().to_path_buf());
                match self.log.end_checkpoint(ended)? {
                    Some(error) => warn!(%error, "no room for a snapshot: the log is kept"),
                    None if is_whole => {
                        info!(log = %log.display(), "a snapshot is durable: what was before it is removed")
                    }
                    None => info!(log = %log.display(), "a snapshot is given up: the schema has changed"),
                }
            }
            // It is looked for after every write.
            Job::LookForRoom => {}
            Job::NoteDown if self.records.is_empty() => self.log.note_down()?,
            // Notes are written with the records.
            Job::NoteDown => {}
        }
        Ok(())
    }
}

fn write<R, T>(desk: &Arc<Desk<R>>, (log, waits_for_room): (Log, bool), tell: &Arc<T>) -> Result<(), LogError>
where
    R: Serialize + Send + 'static,
    T: Fn() + Send + Sync + 'static,
{
    let (records, is_waiting) = (Vec::new(), false);
    let mut writing =
        Writing { desk, log, tell, waits_for_room, records, is_waiting, count: 0, snapshots: 0 };
    loop {
        let jobs = {
            let mut state = desk.lock();
            while state.jobs.is_empty() {
                if state.is_over {
                    if writing.is_waiting {
                        warn!("what waited for room in the log is gone: nobody has been told of it");
                    }
                    return Ok(());
                }
                state = desk.has_jobs.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::take(&mut state.jobs)
        };
        jobs.into_iter().try_for_each(|job| writing.take(job))?;
        let is_written = writing.append()?;
        // Waiting records are retried when room is looked for.
        let has_room = writing.log.look_for_room()? && is_written;
        let mut state = desk.lock();
        (state.durable, state.snapshots) = (writing.count, writing.snapshots);
        (state.is_outgrown, state.is_full) = (writing.log.is_outgrown(), !has_room);
        drop(state);
        tell();
        writing.log.write_ahead()?;
    }
}
