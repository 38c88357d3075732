//! The log of one shard on disk: batches of records in segments, each batch synced before anything that depends on it
//! leaves (soundness S16); and snapshots, written beside it, from which a node starts again (docs/internals/server.md, "Durability").
//!
//! Knows nothing of what is in a record.

mod checkpoint;
mod error;
mod files;
mod format;
mod reading;

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use serde::Serialize;
use weir_core::history::{Note, OFFSET_BITS, Past, Seen, Written};
use weir_core::ids::ShardId;
use weir_observe::{Counter, Histogram};

pub use checkpoint::Parts;
pub use error::LogError;
use files::{
    Files, at, finish, reserve, segment_path, snapshot_path, unfinished, whole_steps, write_durably,
    write_zeros,
};
pub(super) use files::{make_directory, sync_directory};
use format::{HEAD_BYTES, Kind, Preamble, VERSION, seal};
pub use reading::Reading;
use reading::Segment;

/// Unless it is said: so much log is written before the next snapshot. A segment has no more than that.
pub const SNAPSHOT_AFTER: u64 = 64 << 20;

/// Disk space reserved ahead of the end, so that admitted writes find room.
const RESERVE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// And twice the largest batch so far, up to this.
const RESERVE_BYTES_MAX: u64 = 256 << 20;

/// At least half of this ahead of what is written there are blocks that have been written before.
const ZEROS_BYTES: u64 = if cfg!(test) { 8 << 10 } else { 512 << 10 };

/// When a batch counts as written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once the disk has it.
    Sync,
    /// Once the operating system has it: a crash of the process loses nothing, a loss of power the last moments.
    Relaxed,
}

#[derive(Debug)]
pub struct Log {
    directory: PathBuf,
    path: PathBuf,
    file: File,
    number: u64,
    shard: ShardId,
    salt: u64,
    length: u64,
    /// Length of the file; none: no longer than its contents.
    capacity: Option<u64>,
    /// Up to there its blocks have been written before.
    zeroed: u64,
    synced: u64,
    durability: Durability,
    batch: Vec<u8>,
    batch_bytes_max: u64,
    /// Length of a segment, and minimal size of the log before a snapshot.
    snapshot_after: u64,
    /// Length at which the next segment is begun.
    length_max: u64,
    /// Size of the newest snapshot.
    snapshot_bytes: u64,
    /// Size of the earlier segments since that snapshot.
    log_bytes: u64,
    /// There has to be so much log before the next snapshot: the last one failed.
    log_bytes_min: u64,
    /// Size of the segments that the snapshot in progress will replace.
    log_bytes_before: u64,
    /// Nothing may be let in that has to be written down.
    is_full: bool,
    /// Notes on histories: those to be written, and those read when it was opened.
    notes: Notes,
    past: Past,
    figures: Arc<LogFigures>,
}

/// State of the notes that a log contains in addition to records.
#[derive(Debug, Default)]
struct Notes {
    /// None: it contains no notes.
    seen: Option<Arc<Seen>>,
    written: Written,
    /// Position of the note that the run has begun, and end of the newest batch of records.
    begun: u64,
    end: u64,
}

impl Notes {
    fn due(&mut self, shard: ShardId) -> Vec<Note> {
        self.seen.as_ref().map_or_else(Vec::new, |seen| seen.notes(shard, &mut self.written))
    }

    fn all(&mut self, shard: ShardId) -> Vec<Note> {
        self.seen.as_ref().map_or_else(Vec::new, |seen| seen.all_notes(shard, &mut self.written))
    }
}

/// Counters of a log since it was opened.
#[derive(Debug, Default)]
pub struct LogFigures {
    /// Bytes of batches, without snapshots.
    pub bytes: Counter,
    pub batches: Counter,
    pub syncs: Histogram,
    pub snapshots: Counter,
}

impl Log {
    /// Continues at the end of an existing log.
    fn go_on<R>(
        reading: &Reading<R>,
        last: &Segment,
        file: File,
        (durability, snapshot_after): (Durability, u64),
    ) -> Result<Log, LogError> {
        let mut log = Log {
            directory: reading.directory.clone(),
            path: last.path.clone(),
            file,
            number: last.number,
            shard: reading.shard,
            salt: last.preamble.salt,
            length: last.length,
            capacity: (!last.preamble.stands_alone()).then_some(last.length),
            zeroed: last.length,
            synced: last.length,
            durability,
            batch: Vec::new(),
            batch_bytes_max: 0,
            snapshot_after,
            length_max: snapshot_after,
            snapshot_bytes: reading.snapshot_bytes,
            log_bytes: reading.log_bytes - last.length,
            log_bytes_min: 0,
            log_bytes_before: 0,
            is_full: false,
            notes: Notes::default(),
            past: reading.past.clone(),
            figures: Arc::default(),
        };
        log.past.history.end_at(log.position(last.length));
        // Room that was reserved before is there still, and at once, or the disk is full.
        if let Err(error) = log.make_room(last.size) {
            log.capacity = Some(last.size);
            if !error.is_no_room() {
                return Err(error);
            }
        }
        log.look_for_room()?;
        // A build of the version before reads that segment to its end, and must not take what it does not know for damage.
        if last.preamble.version < VERSION {
            log.begin_next()?;
        }
        Ok(log)
    }

    /// Begins a segment.
    fn begin(
        directory: &Path,
        number: u64,
        shard: ShardId,
        (durability, snapshot_after): (Durability, u64),
        notes: &[Note],
    ) -> Result<Log, LogError> {
        let path = segment_path(directory, number);
        let unfinished = unfinished(&path);
        let failed = at(&unfinished);
        let salt = new_salt().map_err(&failed)?;
        let mut file = File::create(&unfinished).map_err(&failed)?;
        let (_, mut preamble) = Preamble::new(Kind::Segment, shard, salt);
        if !notes.is_empty() {
            let mut batch = add_notes(begin_batch::<()>(&[], Vec::new()).map_err(&failed)?, notes);
            seal(&mut batch, (preamble.len() as u64, salt), 0);
            preamble.extend(batch);
        }
        let length = preamble.len() as u64;
        let capacity = whole_steps(RESERVE_BYTES + length);
        reserve(&file, 0, capacity).and_then(|()| file.write_all(&preamble)).map_err(&failed)?;
        file.sync_all().and_then(|()| finish(&path)).map_err(&failed)?;
        Ok(Log {
            directory: directory.into(),
            path,
            file,
            number,
            shard,
            salt,
            length,
            capacity: Some(capacity),
            zeroed: length,
            synced: length,
            durability,
            batch: Vec::new(),
            batch_bytes_max: 0,
            snapshot_after,
            length_max: snapshot_after,
            snapshot_bytes: 0,
            log_bytes: 0,
            log_bytes_min: 0,
            log_bytes_before: 0,
            is_full: false,
            notes: Notes::default(),
            past: Past::default(),
            figures: Arc::default(),
        })
    }

    /// Notes on histories that it contained when it was opened.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// From here on it says of histories what is known there, and tells there how far it is durable.
    pub fn compare(&mut self, seen: Arc<Seen>) {
        let written = Written::beginning(self.position(self.length));
        self.notes = Notes { seen: Some(seen), written, ..Notes::default() };
    }

    /// A place of the segment as one of the log.
    fn position(&self, offset: u64) -> u64 {
        self.number << OFFSET_BITS | offset
    }

    /// Writes pending notes on histories, if there is room. Does not change the mark reported to others.
    ///
    /// # Errors
    /// The system's, but for a full disk.
    pub fn note_down(&mut self) -> Result<(), LogError> {
        if !self.notes.written.has_begun || self.is_full {
            return Ok(());
        }
        let notes = self.notes.due(self.shard);
        if notes.is_empty() {
            return Ok(());
        }
        let batch = begin_batch::<()>(&[], std::mem::take(&mut self.batch)).map_err(at(&self.path))?;
        match self.write(add_notes(batch, &notes)) {
            Ok(batch) => {
                self.batch = batch;
                Ok(())
            }
            Err(error) if error.is_no_room() => {
                Seen::forget(&mut self.notes.written);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reports the durable position after a batch of records.
    fn tell(&mut self) {
        let Some(seen) = &self.notes.seen else { return };
        let durable = self.position(self.synced);
        if durable >= self.notes.begun {
            seen.tell(self.shard, durable.min(self.notes.end));
        }
    }

    /// Writes records down. When it comes back, they count as written down.
    ///
    /// # Errors
    /// An error of the system. The shard must not answer any more after it.
    pub fn append<R: Serialize>(&mut self, records: &[R]) -> Result<(), LogError> {
        match self.append_if_room(records)? {
            None => Ok(()),
            Some(no_room) => Err(no_room),
        }
    }

    /// The same, but where there is no room for them it gives why, and nothing of them is written: they may be appended again.
    ///
    /// # Errors
    /// The system's, but for a full disk.
    pub fn append_if_room<R: Serialize>(&mut self, records: &[R]) -> Result<Option<LogError>, LogError> {
        let mut batch = begin_batch(records, std::mem::take(&mut self.batch)).map_err(at(&self.path))?;
        let notes = self.notes.due(self.shard);
        if !notes.is_empty() {
            batch = add_notes(batch, &notes);
        }
        self.batch_bytes_max = self.batch_bytes_max.max(batch.len() as u64);
        match self.make_room_for(&batch) {
            Err(error) if error.is_no_room() => {
                self.is_full = true;
                Seen::forget(&mut self.notes.written);
                return Ok(Some(error));
            }
            made => made?,
        }
        let written = self.write(batch);
        self.batch = written?;
        self.notes.end = self.position(self.length);
        if !std::mem::replace(&mut self.notes.written.has_begun, true) {
            self.notes.begun = self.notes.end;
        }
        self.tell();
        if self.length > self.length_max {
            self.begin_next()?;
        }
        Ok(None)
    }

    fn write(&mut self, mut batch: Vec<u8>) -> Result<Vec<u8>, LogError> {
        self.make_room_for(&batch)?;
        let length = self.length + batch.len() as u64;
        seal(&mut batch, (self.length, self.salt), self.synced);
        match self.durability {
            Durability::Sync => {
                let begun = Instant::now();
                write_durably(&mut self.file, &batch).map_err(at(&self.path))?;
                self.figures.syncs.add(begun.elapsed());
                self.synced = length;
            }
            Durability::Relaxed => self.file.write_all(&batch).map_err(at(&self.path))?,
        }
        self.length = length;
        self.figures.bytes.add(batch.len() as u64);
        self.figures.batches.add(1);
        Ok(batch)
    }

    /// Begins the next segment; without disk space for it continues in the current one. Returns whether it has begun one.
    fn begin_next(&mut self) -> Result<bool, LogError> {
        let notes = self.notes.all(self.shard);
        let next = match Log::begin(
            &self.directory,
            self.number + 1,
            self.shard,
            (self.durability, self.snapshot_after),
            &notes,
        ) {
            Err(error) if error.is_no_room() => {
                Seen::forget(&mut self.notes.written);
                let _ = std::fs::remove_file(unfinished(&segment_path(&self.directory, self.number + 1)));
                self.length_max = self.length + self.snapshot_after / 16;
                return Ok(false);
            }
            next => next?,
        };
        // Everything in this segment is durable now, and it records that another one follows.
        self.file.sync_data().map_err(at(&self.path))?;
        self.synced = self.length;
        self.write(vec![0; HEAD_BYTES])?;
        let capacity = whole_steps(self.length);
        self.file.set_len(capacity).and_then(|()| self.file.sync_all()).map_err(at(&self.path))?;
        let old = std::mem::replace(self, next);
        self.batch = old.batch;
        self.batch_bytes_max = old.batch_bytes_max;
        self.snapshot_bytes = old.snapshot_bytes;
        self.log_bytes = old.log_bytes + old.length;
        self.log_bytes_min = old.log_bytes_min;
        self.log_bytes_before = old.log_bytes_before;
        self.notes = old.notes;
        self.past = old.past;
        self.figures = old.figures;
        self.tell();
        Ok(true)
    }

    fn make_room_for(&mut self, batch: &[u8]) -> Result<(), LogError> {
        let length = self.length + batch.len() as u64;
        match self.capacity.is_some_and(|capacity| capacity < length) {
            true => self.make_room(length),
            false => Ok(()),
        }
    }

    /// The segment is to be so long.
    fn make_room(&mut self, until: u64) -> Result<(), LogError> {
        let until = whole_steps(until);
        if let Some(capacity) = self.capacity.filter(|capacity| *capacity < until) {
            reserve(&self.file, capacity, until).map_err(at(&self.path))?;
            self.capacity = Some(until);
        }
        Ok(())
    }

    /// Whether there is room for what may come; asks the disk for it where it gets short.
    ///
    /// # Errors
    /// The system's, but for a full disk.
    pub fn look_for_room(&mut self) -> Result<bool, LogError> {
        let ahead = RESERVE_BYTES.max(2 * self.batch_bytes_max).min(RESERVE_BYTES_MAX);
        let Some(capacity) = self.capacity else { return Ok(true) };
        if self.is_full || capacity < self.length + ahead {
            match self.make_room(self.length + 2 * ahead) {
                Err(error) if !error.is_no_room() => return Err(error),
                made => self.is_full = made.is_err(),
            }
        }
        Ok(!self.is_full)
    }

    /// Where zeros are to be written before they are needed.
    fn to_write_ahead(&self) -> Option<Range<u64>> {
        let capacity = self.capacity.filter(|_| self.durability == Durability::Sync)?;
        let from = self.zeroed.max(self.length);
        let until = (from + ZEROS_BYTES / 2).min(capacity);
        (from - self.length <= ZEROS_BYTES / 2 && from < until).then_some(from..until)
    }

    pub fn wants_write_ahead(&self) -> bool {
        self.to_write_ahead().is_some()
    }

    /// Prepares later writes to become durable quickly; never waited for.
    ///
    /// # Errors
    /// The system's, but for a full disk.
    pub fn write_ahead(&mut self) -> Result<(), LogError> {
        let Some(Range { start, end }) = self.to_write_ahead() else { return Ok(()) };
        match write_zeros(&self.file, start, end).map_err(at(&self.path)) {
            Err(error) if !error.is_no_room() => return Err(error),
            _ => self.zeroed = end,
        }
        Ok(())
    }

    pub fn figures(&self) -> Arc<LogFigures> {
        self.figures.clone()
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// It is time for a snapshot.
    pub fn is_outgrown(&self) -> bool {
        let least = self.snapshot_after.max(2 * self.snapshot_bytes).max(self.log_bytes_min);
        !self.is_full && self.log_bytes + self.length > least
    }

    /// Begins a snapshot of this moment: what comes from here on is in a segment of its own, and the snapshot is written beside it,
    /// by a thread of its own. Says whether it does. `taken`: a part has been taken; `ended`: for [`Log::end_checkpoint`].
    ///
    /// # Errors
    /// The system's, but that there is no room.
    pub fn begin_checkpoint<R: Serialize + Send + 'static>(
        &mut self,
        parts: Receiver<Option<R>>,
        taken: impl Fn() + Send + 'static,
        ended: impl FnOnce(Result<Option<u64>, LogError>) + Send + 'static,
    ) -> Result<bool, LogError> {
        if !self.begin_next()? {
            self.log_bytes_min = self.log_bytes + self.length + self.snapshot_after / 16;
            return Ok(false);
        }
        self.log_bytes_before = std::mem::take(&mut self.log_bytes);
        let (directory, number, shard) = (self.directory.clone(), self.number, self.shard);
        let thread = std::thread::Builder::new().name(format!("snapshot-{shard}"));
        let run = move || {
            let place = directory.clone();
            let write = AssertUnwindSafe(|| checkpoint::write(&directory, (number, shard), &parts, &taken));
            let failed =
                |_| Err(LogError::Io(place, io::Error::other("an assertion of Weir failed; see above")));
            ended(catch_unwind(write).unwrap_or_else(failed));
            taken();
        };
        thread.spawn(run).map_err(at(&self.directory))?;
        Ok(true)
    }

    /// A snapshot has been written or given up, or there was no room for it, which is said.
    ///
    /// # Errors
    /// The system's, but for a full disk: it goes on with what it has.
    pub fn end_checkpoint(
        &mut self,
        ended: Result<Option<u64>, LogError>,
    ) -> Result<Option<LogError>, LogError> {
        let before = std::mem::take(&mut self.log_bytes_before);
        match ended {
            Ok(Some(bytes)) => {
                (self.snapshot_bytes, self.log_bytes_min) = (bytes, 0);
                self.figures.snapshots.add(1);
                Ok(None)
            }
            Ok(None) => {
                self.log_bytes += before;
                Ok(None)
            }
            Err(error) if error.is_no_room() => {
                self.log_bytes += before;
                self.log_bytes_min = self.log_bytes + self.length + self.snapshot_after;
                Ok(Some(error))
            }
            Err(error) => Err(error),
        }
    }
}

impl Log {
    /// Takes a checkpoint that was fetched from elsewhere in the place of everything before, and goes on with these records in a segment of
    /// its own. The file has to be durable, and in the directory of the log. Returns whether there was room for it.
    ///
    /// # Errors
    /// The system's.
    pub fn install<R: Serialize>(&mut self, fetched: &Path, records: &[R]) -> Result<bool, LogError> {
        if !self.begin_next()? {
            return Ok(false);
        }
        let number = self.number;
        self.log_bytes = 0;
        self.append(records)?;
        self.file.sync_data().map_err(at(&self.path))?;
        let path = snapshot_path(&self.directory, number);
        let install = || {
            let bytes = std::fs::metadata(fetched)?.len();
            std::fs::rename(fetched, &path)?;
            sync_directory(&self.directory)?;
            Ok(bytes)
        };
        self.snapshot_bytes = install().map_err(at(&path))?;
        self.log_bytes_min = 0;
        self.figures.snapshots.add(1);
        Files::remove_before(&self.directory, number)?;
        Ok(true)
    }

    /// The newest checkpoint in that directory, and its length.
    ///
    /// # Errors
    /// The system's.
    pub fn newest_checkpoint(directory: &Path) -> Result<Option<(PathBuf, u64)>, LogError> {
        let files = Files::find(directory)?;
        let Some(path) = files.snapshots.last().map(|number| snapshot_path(directory, *number)) else {
            return Ok(None);
        };
        let length = std::fs::metadata(&path).map_err(at(&path))?.len();
        Ok(Some((path, length)))
    }
}

fn new_salt() -> io::Result<u64> {
    let mut salt = [0; 8];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(salt))
}

/// A batch of these records, but for what its head says.
fn begin_batch<R: Serialize>(records: &[R], mut batch: Vec<u8>) -> io::Result<Vec<u8>> {
    batch.clear();
    batch.resize(HEAD_BYTES, 0);
    let batch = postcard::to_extend(records, batch).expect("memory takes all");
    match u32::try_from(batch.len()) {
        Ok(_) => Ok(batch),
        Err(_) => Err(io::Error::other("a batch of more than 4 GiB")),
    }
}

/// Behind the records of a batch; builds before this one read no further than these.
fn add_notes(batch: Vec<u8>, notes: &[Note]) -> Vec<u8> {
    postcard::to_extend(notes, batch).expect("memory takes all")
}

#[cfg(test)]
mod tests;
