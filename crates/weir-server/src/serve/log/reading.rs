//! Reads a log record by record: the newest snapshot, and the segments after it.
//!
//! Validates while reading: unreadable data that was durable is an error, never skipped; data that was never durable is cut off.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use weir_core::history::{Note, Past};
use weir_core::ids::ShardId;

use super::error::LogError;
use super::files::{Files, at, make_directory, segment_path, snapshot_path};
use super::format::{HEAD_BYTES, Kind, Preamble, STEP_BYTES, batch_at, batch_length, durable_after, seal};
use super::{Durability, Log};

/// Reader of a shard's log in a directory.
#[derive(Debug)]
pub struct Reading<R> {
    pub(super) directory: PathBuf,
    pub(super) shard: ShardId,
    is_new: bool,
    /// Segments before this number are not needed.
    base: u64,
    /// Segments to be read.
    segments: VecDeque<u64>,
    snapshot: Option<SnapshotFile>,
    segment: Option<Segment>,
    /// Previous segment, if it lacks the record that another one follows: then the next one must be empty.
    unsealed: Option<Segment>,
    last: Option<Segment>,
    batch: std::vec::IntoIter<R>,
    failed: Option<LogError>,
    pub(super) past: Past,
    pub(super) snapshot_bytes: u64,
    pub(super) log_bytes: u64,
}

impl<R: DeserializeOwned> Reading<R> {
    /// The directory is made if there is none.
    ///
    /// # Errors
    /// The system's, or a file is missing, of a later version, or another shard's.
    pub fn begin(directory: &Path, shard: ShardId) -> Result<Reading<R>, LogError> {
        make_directory(directory).map_err(at(directory))?;
        let files = Files::find(directory)?;
        for path in &files.unfinished {
            fs::remove_file(path).map_err(at(path))?;
        }
        Reading::of(directory, shard, &files)
    }

    /// Reads a log that goes on being written. The caller reads no further than what was durable when this is called, and does not end
    /// the reading.
    ///
    /// # Errors
    /// As for [`Reading::begin`].
    pub fn beside_writer(directory: &Path, shard: ShardId) -> Result<Reading<R>, LogError> {
        Reading::of(directory, shard, &Files::find(directory)?)
    }

    fn of(directory: &Path, shard: ShardId, files: &Files) -> Result<Reading<R>, LogError> {
        let mut reading = Reading {
            directory: directory.into(),
            shard,
            is_new: files.segments.is_empty() && files.snapshots.is_empty(),
            base: 1,
            segments: VecDeque::new(),
            snapshot: None,
            segment: None,
            unsealed: None,
            last: None,
            batch: Vec::new().into_iter(),
            failed: None,
            past: Past::default(),
            snapshot_bytes: 0,
            log_bytes: 0,
        };
        let base = match files.snapshots.last() {
            Some(number) => {
                let snapshot = SnapshotFile::open(snapshot_path(directory, *number), shard)?;
                reading.snapshot_bytes = snapshot.size;
                reading.snapshot = Some(snapshot);
                *number
            }
            None => newest_that_stands_alone(directory, shard, files)?.unwrap_or(1),
        };
        reading.base = base;
        reading.segments = files.segments.range(base..).copied().collect();
        for (expected, number) in (base..).zip(&reading.segments) {
            if expected != *number {
                let why = format!("{} goes on from it", segment_path(directory, *number).display());
                return Err(LogError::Missing(segment_path(directory, expected), why));
            }
        }
        if reading.segments.is_empty() && !reading.is_new {
            let why = match files.snapshots.last() {
                Some(number) => {
                    format!("{} is what it goes on from", snapshot_path(directory, *number).display())
                }
                None => "there is nothing before it".to_owned(),
            };
            return Err(LogError::Missing(segment_path(directory, base), why));
        }
        Ok(reading)
    }

    /// There is no log yet.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether reading has failed; [`Reading::end`] returns the error.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Why reading has failed.
    pub fn why_failed(&self) -> Option<&LogError> {
        self.failed.as_ref()
    }

    /// Number of bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.snapshot_bytes + self.log_bytes
    }

    /// The next records, of one batch; none: that is all.
    fn next_batch(&mut self) -> Result<Option<Vec<R>>, LogError> {
        loop {
            if let Some(snapshot) = &mut self.snapshot {
                match snapshot.next_batch()? {
                    Some(records) => return Ok(Some(records)),
                    None => self.snapshot = None,
                }
            } else if let Some(segment) = &mut self.segment {
                let batch = segment.next_batch()?;
                segment.take_notes().for_each(|note| self.past.take(note));
                match batch {
                    Some(records) => {
                        // A segment is begun with notes before the one before it says so.
                        if let Some(before) = self.unsealed.as_ref().filter(|_| !records.is_empty()) {
                            let why = format!("it was cut short: {} goes on from it", segment.path.display());
                            return Err(LogError::damaged(&before.path, before.length, why));
                        }
                        return Ok(Some(records));
                    }
                    None => self.end_segment()?,
                }
            } else {
                let Some(number) = self.segments.pop_front() else { return Ok(None) };
                self.segment = Some(Segment::read(&self.directory, number, self.shard)?);
            }
        }
    }

    fn end_segment(&mut self) -> Result<(), LogError> {
        let Some(mut segment) = self.segment.take() else { return Ok(()) };
        self.log_bytes += segment.length;
        segment.bytes = Vec::new();
        match (self.segments.front(), segment.is_sealed) {
            (None, false) => self.last = Some(segment),
            (None, true) => {
                let why = format!("{} goes on there", segment.path.display());
                return Err(LogError::Missing(segment_path(&self.directory, segment.number + 1), why));
            }
            (Some(_), true) => {}
            (Some(_), false) => self.unsealed = Some(segment),
        }
        Ok(())
    }

    /// All has been read: the log, to go on with; and how many bytes at its end were never durable, and are cut off.
    ///
    /// # Errors
    /// The error that ended the reading, or one of the system.
    pub fn end(mut self, durability: Durability, snapshot_after: u64) -> Result<(Log, u64), LogError> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        if self.is_new {
            let how = (durability, snapshot_after);
            return Ok((Log::begin(&self.directory, 1, self.shard, how, &[])?, 0));
        }
        if let Some(before) = self.unsealed.take() {
            before.seal()?;
        }
        let last = self.last.take().expect("a log is read to its end before it is gone on with");
        Files::remove_before(&self.directory, self.base)?;
        let file = last.cut()?;
        let torn = last.torn;
        Ok((Log::go_on(&self, &last, file, (durability, snapshot_after))?, torn))
    }
}

impl<R: DeserializeOwned> Iterator for Reading<R> {
    type Item = R;

    /// None: that is all, or it cannot be read, which [`Reading::end`] says.
    fn next(&mut self) -> Option<R> {
        loop {
            if let Some(record) = self.batch.next() {
                return Some(record);
            }
            if self.failed.is_some() {
                return None;
            }
            match self.next_batch() {
                Ok(Some(records)) => self.batch = records.into_iter(),
                Ok(None) => return None,
                Err(failed) => self.failed = Some(failed),
            }
        }
    }
}

/// The newest segment of before there were snapshots in files of their own: it begins with one.
fn newest_that_stands_alone(
    directory: &Path,
    shard: ShardId,
    files: &Files,
) -> Result<Option<u64>, LogError> {
    for number in files.segments.iter().rev() {
        let path = segment_path(directory, *number);
        let mut begin = Vec::new();
        let read =
            File::open(&path).and_then(|file| file.take(HEAD_BYTES as u64 * 2).read_to_end(&mut begin));
        read.map_err(at(&path))?;
        if Preamble::of(Kind::Segment, &begin, shard, &path)?.stands_alone() {
            return Ok(Some(*number));
        }
    }
    Ok(None)
}

/// One that is read.
#[derive(Debug)]
pub(super) struct Segment {
    pub path: PathBuf,
    pub number: u64,
    pub preamble: Preamble,
    bytes: Vec<u8>,
    /// Notes of the last batch.
    notes: Vec<Note>,
    /// Length of the file.
    pub size: u64,
    /// Length of the intact part.
    pub length: u64,
    is_sealed: bool,
    torn: u64,
}

impl Segment {
    pub(super) fn read(directory: &Path, number: u64, shard: ShardId) -> Result<Segment, LogError> {
        let path = segment_path(directory, number);
        let bytes = fs::read(&path).map_err(at(&path))?;
        let preamble = Preamble::of(Kind::Segment, &bytes, shard, &path)?;
        let (size, length) = (bytes.len() as u64, preamble.length as u64);
        if !preamble.stands_alone() && !size.is_multiple_of(STEP_BYTES) {
            let why = "the file ends here, where no segment does: it was cut short";
            return Err(LogError::damaged(&path, size, why));
        }
        let notes = Vec::new();
        Ok(Segment { path, number, preamble, bytes, notes, size, length, is_sealed: false, torn: 0 })
    }

    /// Takes the notes of the last batch.
    pub(super) fn take_notes(&mut self) -> impl Iterator<Item = Note> {
        std::mem::take(&mut self.notes).into_iter()
    }

    pub(super) fn next_batch<R: DeserializeOwned>(&mut self) -> Result<Option<Vec<R>>, LogError> {
        if self.is_sealed {
            return Ok(None);
        }
        let rest = &self.bytes[self.length as usize..];
        let Some((body, taken, _)) = batch_at(rest, self.length, self.preamble.salt) else {
            return self.end().map(|()| None);
        };
        if body.is_empty() {
            (self.is_sealed, self.length) = (true, self.length + taken as u64);
            return Ok(None);
        }
        let unread = |error: postcard::Error| {
            LogError::damaged(&self.path, self.length, format!("its records cannot be read: {error}"))
        };
        let (records, rest) = postcard::take_from_bytes(body).map_err(unread)?;
        if !rest.is_empty() {
            self.notes = postcard::from_bytes(rest).map_err(unread)?;
        }
        self.length += taken as u64;
        Ok(Some(records))
    }

    /// No whole batch follows.
    fn end(&mut self) -> Result<(), LogError> {
        let (length, salt) = (self.length, self.preamble.salt);
        let rest = &self.bytes[length as usize..];
        let Some(end) = end_of_what_is_not_zero(rest) else { return Ok(()) };
        if let Some(later) = durable_after(&self.bytes, length, length + end as u64, salt) {
            let why = format!("a later batch, at byte {later}, says that it was whole once");
            return Err(LogError::damaged(&self.path, length, why));
        }
        if self.preamble.stands_alone() && self.number > 1 && length == self.preamble.length as u64 {
            return Err(LogError::damaged(
                &self.path,
                length,
                "the snapshot that it begins with is not whole",
            ));
        }
        self.torn = end as u64;
        Ok(())
    }

    /// The file, without what was never durable, at the end of what is whole.
    fn cut(&self) -> Result<File, LogError> {
        let failed = at(&self.path);
        let mut file = OpenOptions::new().read(true).write(true).open(&self.path).map_err(&failed)?;
        if self.torn > 0 {
            file.set_len(self.length).map_err(&failed)?;
            if !self.preamble.stands_alone() {
                // A file is extended by zeros.
                file.set_len(self.size).map_err(&failed)?;
            }
        }
        file.seek(SeekFrom::Start(self.length)).map_err(&failed)?;
        file.sync_all().map_err(&failed)?;
        Ok(file)
    }

    /// Says at its end that it goes on in the next one.
    fn seal(&self) -> Result<(), LogError> {
        let mut file = self.cut()?;
        let mut word = vec![0; HEAD_BYTES];
        seal(&mut word, (self.length, self.preamble.salt), self.length);
        file.write_all(&word).and_then(|()| file.sync_all()).map_err(at(&self.path))
    }
}

fn end_of_what_is_not_zero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let is_something = |chunk: &[u8]| *chunk != ZEROS[..chunk.len()];
    let at = bytes.chunks(ZEROS.len()).rposition(is_something)? * ZEROS.len();
    let chunk = &bytes[at..bytes.len().min(at + ZEROS.len())];
    chunk.iter().rposition(|byte| *byte != 0).map(|last| at + last + 1)
}

/// A snapshot that is read, part by part.
#[derive(Debug)]
struct SnapshotFile {
    path: PathBuf,
    file: BufReader<File>,
    salt: u64,
    offset: u64,
    size: u64,
}

impl SnapshotFile {
    fn open(path: PathBuf, shard: ShardId) -> Result<SnapshotFile, LogError> {
        let failed = at(&path);
        let mut file = File::open(&path).map_err(&failed)?;
        let size = file.metadata().map_err(&failed)?.len();
        let mut begin = Vec::new();
        (&mut file).take(HEAD_BYTES as u64 * 2).read_to_end(&mut begin).map_err(&failed)?;
        let Preamble { salt, length, .. } = Preamble::of(Kind::Snapshot, &begin, shard, &path)?;
        file.seek(SeekFrom::Start(length as u64)).map_err(&failed)?;
        Ok(SnapshotFile {
            file: BufReader::with_capacity(1 << 20, file),
            path,
            salt,
            offset: length as u64,
            size,
        })
    }

    /// None: it is over, and was whole.
    fn next_batch<R: DeserializeOwned>(&mut self) -> Result<Option<Vec<R>>, LogError> {
        let mut batch = vec![0; HEAD_BYTES];
        self.fill(&mut batch)?;
        let length = batch_length(&batch).ok_or_else(|| self.damaged("no part of a snapshot begins here"))?;
        if length as u64 > self.size - self.offset {
            return Err(self.damaged("this part is longer than the file"));
        }
        batch.resize(length, 0);
        self.fill(&mut batch[HEAD_BYTES..])?;
        let Some((body, taken, _)) = batch_at(&batch, self.offset, self.salt) else {
            return Err(self.damaged("the checksum of this part is not its own"));
        };
        if body.is_empty() {
            return Ok(None);
        }
        let records = postcard::from_bytes(body)
            .map_err(|error| self.damaged(&format!("its records cannot be read: {error}")))?;
        self.offset += taken as u64;
        Ok(Some(records))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), LogError> {
        self.file.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.damaged("the file ends within it: it was cut short"),
            _ => LogError::Io(self.path.clone(), error),
        })
    }

    fn damaged(&self, why: &str) -> LogError {
        let (file, why) = (self.path.clone(), why.to_owned());
        LogError::Damaged { file, offset: self.offset, why, is_snapshot: true }
    }
}
