//! The thread that writes a shard's log: whatever has been noted while the disk was busy becomes durable together (group commit).
//!
//! The shard goes on meanwhile; which messages may leave is decided elsewhere (`outbox.rs`; for ordered transactions `weir-ordered-net/src/disk.rs`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    /// Take a checkpoint that was fetched in the place of everything before, and go on with these records.
    Install(PathBuf, Vec<R>),
    /// Look for room, and prepare the blocks that later writes need, as after every write.
    LookAhead,
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
    /// Whoever holds it takes jobs and writes them. None: writing has failed, or is over. Invariant: jobs are taken only by who holds it, so
    /// records are written in order; who has let go of it looks for jobs once more.
    writing: Mutex<Option<Writing<R>>>,
    /// The last write was so quick that a thread with other work may do the next.
    is_quick: AtomicBool,
    tell: Box<dyn Fn() + Send + Sync>,
}

impl<R> Desk<R> {
    fn new((log, waits_for_room): (Log, bool), tell: impl Fn() + Send + Sync + 'static) -> Desk<R> {
        let state = State {
            jobs: Vec::new(),
            is_over: false,
            durable: 0,
            is_outgrown: false,
            snapshots: 0,
            is_full: log.is_full(),
            failed: None,
        };
        let (records, is_waiting) = (Vec::new(), false);
        let writing = Writing { log, waits_for_room, records, is_waiting, count: 0, snapshots: 0 };
        Desk {
            state: Mutex::new(state),
            has_jobs: Condvar::new(),
            writing: Mutex::new(Some(writing)),
            is_quick: AtomicBool::new(false),
            tell: Box::new(tell),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_writing(&self) -> MutexGuard<'_, Option<Writing<R>>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a job. Returns whether it is the only one.
    fn leave(&self, job: Job<R>) -> bool {
        let mut state = self.lock();
        state.jobs.push(job);
        state.jobs.len() == 1
    }

    fn give(&self, job: Job<R>) {
        if self.leave(job) {
            self.has_jobs.notify_one();
        }
    }

    /// Waits for jobs. Returns whether there will be more.
    fn wait_for_jobs(&self) -> bool {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.is_over {
                return false;
            }
            state = self.has_jobs.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        true
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

/// A write that takes longer is left to the thread of the log.
const QUICK_MAX: Duration = Duration::from_micros(500);

/// For a thread that has nothing to do until its records are durable: it writes them itself, and neither is woken.
pub struct WriterHere<R>(Arc<Desk<R>>);

impl<R: Serialize + Send + 'static> WriterHere<R> {
    /// Writes the records that were left by [`Writer::leave`], unless another thread is about to. Returns whether there is news.
    pub fn write(&self) -> bool {
        let desk = &self.0;
        let Ok(mut writing) = desk.writing.try_lock() else {
            // Who holds it looks for jobs afterwards.
            return false;
        };
        let of_thread = |job: &Job<R>| !matches!(job, Job::Records(_));
        let jobs = {
            let mut state = desk.lock();
            match state.jobs.iter().any(of_thread) {
                true => Vec::new(),
                false => std::mem::take(&mut state.jobs),
            }
        };
        let has_written = !jobs.is_empty() && write_once(desk, &mut writing, jobs);
        let wants_thread = writing.as_ref().is_some_and(|writing| writing.log.wants_write_ahead());
        drop(writing);
        if wants_thread {
            desk.leave(Job::LookAhead);
        }
        // Whoever left the first of these may have meant to write it here, and has woken nobody.
        if !desk.lock().jobs.is_empty() {
            desk.has_jobs.notify_one();
        }
        has_written
    }
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
        let figures = log.figures();
        let desk = Arc::new(Desk::new((log, waits_for_room), tell));
        let at = desk.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            hurry();
            // `tell` takes a turn of the shard, which may fail an assertion.
            if catch_unwind(AssertUnwindSafe(|| write(&at))).is_err() {
                let mut writing = at.lock_writing();
                let directory = writing.as_ref().map(|at| at.log.directory().to_path_buf());
                end(&at, &mut writing, unwritten(directory.unwrap_or_default()));
                drop(writing);
                (at.tell)();
            }
        })?;
        Ok(Writer { desk, figures, thread: Some(thread) })
    }

    /// For threads that write their records themselves.
    pub fn here(&self) -> WriterHere<R> {
        WriterHere(self.desk.clone())
    }

    /// Returns whether a thread with other work may write.
    pub fn is_quick(&self) -> bool {
        self.desk.is_quick.load(Ordering::Relaxed)
    }

    /// Leaves records to be written by [`WriterHere::write`], which the caller has to call.
    pub fn leave(&self, records: Vec<R>) {
        self.desk.leave(Job::Records(records));
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

    /// Takes a checkpoint that was fetched in the place of everything before, and goes on with these records; it counts as one record.
    pub fn install(&self, fetched: PathBuf, records: Vec<R>) {
        self.desk.give(Job::Install(fetched, records));
    }

    pub fn look_for_room(&self) {
        self.desk.give(Job::LookAhead);
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

/// What writes the log: records are written in order, and all pending ones are synced together.
struct Writing<R> {
    log: Log,
    waits_for_room: bool,
    /// Pending records, and whether they wait for disk space; more may be added.
    records: Vec<R>,
    is_waiting: bool,
    /// Number of records written, and number of snapshots begun.
    count: u64,
    snapshots: u64,
}

impl<R: Serialize + Send + 'static> Writing<R> {
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

    fn take(&mut self, desk: &Arc<Desk<R>>, job: Job<R>) -> Result<(), LogError> {
        match job {
            Job::Records(more) => self.records.extend(more),
            Job::Snapshot(parts) => {
                // It is of what is written before it.
                if !self.append()? {
                    self.snapshots += 1;
                    return Ok(());
                }
                let (telling, desk) = (desk.clone(), desk.clone());
                let ended = move |ended| desk.give(Job::HasSnapshot(ended));
                let log = self.log.directory().to_path_buf();
                match self.log.begin_checkpoint(parts, move || (telling.tell)(), ended)? {
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
            Job::Install(fetched, records) => {
                self.append()?;
                let log = self.log.directory().to_path_buf();
                if self.is_waiting || !self.log.install(&fetched, &records)? {
                    let why =
                        io::Error::new(io::ErrorKind::StorageFull, "no room for a checkpoint that has come");
                    return Err(LogError::Io(log, why));
                }
                self.count += 1;
                info!(log = %log.display(), "a checkpoint of the group is durable: what was before it is removed");
            }
            // It is done after every write.
            Job::LookAhead => {}
            Job::NoteDown if self.records.is_empty() => self.log.note_down()?,
            // Notes are written with the records.
            Job::NoteDown => {}
        }
        Ok(())
    }

    /// Does the jobs, and says how far the log is durable.
    fn go_on(&mut self, desk: &Arc<Desk<R>>, jobs: Vec<Job<R>>) -> Result<(), LogError> {
        jobs.into_iter().try_for_each(|job| self.take(desk, job))?;
        let begun = Instant::now();
        let is_written = self.append()?;
        desk.is_quick.store(is_written && begun.elapsed() <= QUICK_MAX, Ordering::Relaxed);
        // Waiting records are retried when room is looked for.
        let has_room = self.log.look_for_room()? && is_written;
        let mut state = desk.lock();
        (state.durable, state.snapshots) = (self.count, self.snapshots);
        (state.is_outgrown, state.is_full) = (self.log.is_outgrown(), !has_room);
        Ok(())
    }
}

/// Does the jobs. Returns whether there is news; an error, or a failed assertion, is news, too, and nothing is written after it.
fn write_once<R>(desk: &Arc<Desk<R>>, writing: &mut Option<Writing<R>>, jobs: Vec<Job<R>>) -> bool
where
    R: Serialize + Send + 'static,
{
    let Some(at) = writing else { return false };
    let directory = at.log.directory().to_path_buf();
    let written = catch_unwind(AssertUnwindSafe(|| at.go_on(desk, jobs)));
    if let Err(error) = written.unwrap_or_else(|_| Err(unwritten(directory))) {
        end(desk, writing, error);
    }
    true
}

/// Nothing more will become durable.
fn end<R>(desk: &Desk<R>, writing: &mut Option<Writing<R>>, error: LogError) {
    *writing = None;
    desk.lock().failed = Some(error);
}

/// The thread of the log.
fn write<R: Serialize + Send + 'static>(desk: &Arc<Desk<R>>) {
    while desk.wait_for_jobs() {
        let mut writing = desk.lock_writing();
        let jobs = std::mem::take(&mut desk.lock().jobs);
        if jobs.is_empty() && writing.is_some() {
            // Another thread has written them.
            continue;
        }
        let has_news = write_once(desk, &mut writing, jobs);
        drop(writing);
        if !has_news {
            return;
        }
        (desk.tell)();
        let mut writing = desk.lock_writing();
        if let Some(at) = &mut *writing
            && let Err(error) = at.log.write_ahead()
        {
            end(desk, &mut writing, error);
            drop(writing);
            return (desk.tell)();
        }
    }
    let writing = desk.lock_writing().take();
    if writing.is_some_and(|writing| writing.is_waiting) {
        warn!("what waited for room in the log is gone: nobody has been told of it");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc::{Sender, channel};

    use super::super::Durability;
    use super::super::log::Reading;
    use super::*;

    const THREADS: usize = 4;
    const RECORDS: usize = 300;

    /// Appends records, the even ones by the thread of the log, the odd ones itself.
    fn append(writer: &Writer<(usize, usize)>, thread: usize, news: &Sender<()>) {
        let here = writer.here();
        for number in 0..RECORDS {
            match number % 2 {
                0 => writer.append(vec![(thread, number)]),
                _ => {
                    writer.leave(vec![(thread, number)]);
                    if here.write() {
                        news.send(()).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn records_are_written_once_and_in_order_whoever_writes_them() {
        let place = tempfile::tempdir().unwrap();
        let open = || {
            let mut reading = Reading::begin(place.path(), 0).unwrap();
            let records: Vec<(usize, usize)> = reading.by_ref().collect();
            (reading.end(Durability::Relaxed, 4 << 10).unwrap().0, records)
        };
        let (news, told) = channel();
        let tells = news.clone();
        let tell = move || {
            let _ = tells.send(());
        };
        let writer = Writer::start("log".to_owned(), (open().0, false), tell).unwrap();
        let begin = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (writer, begin, news) = (&writer, &begin, news.clone());
                scope.spawn(move || {
                    begin.wait();
                    append(writer, thread, &news);
                });
            }
            // Each record becomes durable without anything that comes later.
            while writer.written().unwrap().durable < Lsn((THREADS * RECORDS) as u64) {
                told.recv().unwrap();
            }
        });
        writer.finish().unwrap();
        let records = open().1;
        assert_eq!(records.len(), THREADS * RECORDS);
        for thread in 0..THREADS {
            let own: Vec<usize> = records.iter().filter(|(of, _)| *of == thread).map(|(_, n)| *n).collect();
            assert!(own.is_sorted(), "{own:?}");
        }
    }

    /// Jobs that a thread leaves behind, which came while it was to write, wake the thread of the log: nobody else does.
    #[test]
    fn jobs_that_are_left_behind_wake_the_thread() {
        let place = tempfile::tempdir().unwrap();
        for wants_write_ahead in [false, true] {
            let directory = place.path().join(wants_write_ahead.to_string());
            let log = Reading::<(usize, usize)>::begin(&directory, 0).unwrap();
            let durability = if wants_write_ahead { Durability::Sync } else { Durability::Relaxed };
            let log = log.end(durability, 4 << 20).unwrap().0;
            assert_eq!(log.wants_write_ahead(), wants_write_ahead);
            let desk = Arc::new(Desk::new((log, false), || {}));
            let (waits, begin) = channel();
            let at = desk.clone();
            let thread = std::thread::spawn(move || {
                let state = at.lock();
                waits.send(()).unwrap();
                at.has_jobs.wait(state).map(|state| state.jobs.len()).unwrap()
            });
            begin.recv().unwrap();
            // Once this thread has the lock, that one waits.
            assert!(desk.leave(Job::Records(vec![(0, 0)])));
            desk.give(Job::NoteDown);
            assert!(!WriterHere(desk).write());
            assert!(thread.join().unwrap() >= 2);
        }
    }
}
