//! The log of one shard on disk: batches of records in segments, each batch synced before anything that depends on it
//! leaves (soundness S16).
//!
//! Knows nothing of what is in a record. A segment that is not the first begins with a snapshot, so the newest alone is enough.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_observe::{Counter, Histogram};
use weir_txn::ramp::ShardId;

/// What a segment begins with. The version follows; a salt; from version 2 on the shard whose log it is; and the checksum of it all.
const NAME: [u8; 7] = *b"WEIRLOG";
/// Of the segments that are begun. What this version and the one before have written is read.
const VERSION: u8 = 2;
/// By version, from 1 on.
const PREAMBLE_BYTES: [usize; 2] = [20, 22];
/// What a newer version is believed to be, and not damage.
const VERSION_MAX: u8 = 15;

/// Of a batch: `MARK`, the length of its body, the checksum, up to where the segment was durable when it was written.
const MARK: [u8; 4] = *b"wlb\x1e";
const HEAD_BYTES: usize = 20;

/// A new segment is begun above this, and above twice the snapshot that the segment began with.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Why a log cannot be used, with what can be done about it.
#[derive(Debug)]
pub enum LogError {
    Io(PathBuf, io::Error),
    /// What was durable cannot be read any more.
    Damaged {
        file: PathBuf,
        offset: u64,
        why: String,
    },
    /// A later version of Weir has written it.
    Newer(PathBuf, u8),
    /// It is the log of that shard, and was taken for another's.
    Misplaced(PathBuf, ShardId),
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogError::Io(path, error) => {
                write!(f, "{}: {error}", path.display())?;
                let is_full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
                if is_full.contains(&error.kind()) {
                    write!(
                        f,
                        ". The node ends, because it must not answer from what it cannot write down. Make room and start it \
                         again: all that it has acknowledged is in its log"
                    )?;
                }
                Ok(())
            }
            LogError::Newer(file, version) => write!(
                f,
                "{}: a later Weir has written it (log version {version}, and this one reads {} to {VERSION}). Start that one \
                 again",
                file.display(),
                VERSION - 1
            ),
            LogError::Misplaced(file, shard) => write!(
                f,
                "{}: it is the log of shard {shard}. Put it back into shard-{shard}, and give this shard its own",
                file.display()
            ),
            LogError::Damaged { file, offset, why } => write!(
                f,
                "{}: damaged at byte {offset}: {why}. The node does not start, because it would forget what it has \
                 acknowledged. Restore the file from a copy of the disk; or, to give up everything from this byte on, cut it there \
                 (truncate --size={offset} FILE)",
                file.display()
            ),
        }
    }
}

impl std::error::Error for LogError {}

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
    synced: u64,
    /// Of the snapshot that the segment began with.
    snapshot_length: u64,
    durability: Durability,
    batch: Vec<u8>,
    figures: Arc<LogFigures>,
}

/// What a log has done since it was opened.
#[derive(Debug, Default)]
pub struct LogFigures {
    /// Of batches, without snapshots.
    pub bytes: Counter,
    pub batches: Counter,
    pub syncs: Histogram,
    pub snapshots: Counter,
}

/// What a log has, for a shard to start from.
#[derive(Debug)]
pub struct Opened<R> {
    pub log: Log,
    pub records: Vec<R>,
    /// Bytes at its end that were never durable, and are cut off.
    pub torn: u64,
}

impl Log {
    /// Opens the log of a shard in this directory, which is made if there is none.
    ///
    /// # Errors
    /// The system's, or the log is damaged or another's.
    pub fn open<R: DeserializeOwned>(
        directory: &Path,
        shard: ShardId,
        durability: Durability,
    ) -> Result<Opened<R>, LogError> {
        make_directory(directory).map_err(at(directory))?;
        let Some(number) = newest_segment(directory)? else {
            let log = Log::begin_segment(directory, (1, shard), durability, None::<&()>)?;
            return Ok(Opened { log, records: Vec::new(), torn: 0 });
        };
        let path = path_of(directory, number);
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(at(&path))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(at(&path))?;
        let preamble = Preamble::of(&bytes, &path)?;
        if let Some(of) = preamble.shard.filter(|of| *of != shard) {
            return Err(LogError::Misplaced(path, of));
        }
        let Batches { records, length, first } = read_batches(&bytes, &preamble, &path)?;
        let snapshot_length = if number > 1 { first } else { 0 };
        if number > 1 && snapshot_length == 0 {
            let why = "the snapshot that it begins with is not whole".into();
            return Err(LogError::Damaged { file: path, offset: length, why });
        }
        let torn = bytes.len() as u64 - length;
        if torn > 0 {
            file.set_len(length).map_err(at(&path))?;
        }
        file.seek(SeekFrom::Start(length)).map_err(at(&path))?;
        file.sync_all().map_err(at(&path))?;
        let log = Log {
            directory: directory.into(),
            path,
            file,
            number,
            shard,
            salt: preamble.salt,
            length,
            synced: length,
            snapshot_length,
            durability,
            batch: Vec::new(),
            figures: Arc::default(),
        };
        Ok(Opened { log, records, torn })
    }

    /// A segment with a snapshot, or the first. It bears its name only once it is whole and durable.
    fn begin_segment<R: Serialize>(
        directory: &Path,
        (number, shard): (u64, ShardId),
        durability: Durability,
        snapshot: Option<&R>,
    ) -> Result<Log, LogError> {
        let path = path_of(directory, number);
        let unfinished = path.with_extension("new");
        let failed = |error| LogError::Io(unfinished.clone(), error);
        let mut salt = [0; 8];
        getrandom::fill(&mut salt).map_err(|error| failed(io::Error::other(error)))?;
        let mut file = File::create(&unfinished).map_err(failed)?;
        let preamble = Preamble { salt: u64::from_le_bytes(salt), shard: Some(shard), length: 0 }.to_bytes();
        file.write_all(&preamble).map_err(failed)?;
        let mut log = Log {
            directory: directory.into(),
            path: unfinished.clone(),
            file,
            number,
            shard,
            salt: u64::from_le_bytes(salt),
            length: preamble.len() as u64,
            synced: 0,
            snapshot_length: 0,
            durability,
            batch: Vec::new(),
            figures: Arc::default(),
        };
        if let Some(snapshot) = snapshot {
            log.append(std::slice::from_ref(snapshot))?;
            log.snapshot_length = log.length;
            log.batch = Vec::new();
        }
        log.file.sync_all().map_err(failed)?;
        log.synced = log.length;
        fs::rename(&unfinished, &path).map_err(failed)?;
        log.path = path;
        sync_directory(directory).map_err(|error| LogError::Io(directory.into(), error))?;
        Ok(log)
    }

    /// Writes records down. When it comes back, they count as written down.
    ///
    /// # Errors
    /// The system's. Then nobody may be answered from the shard any more.
    pub fn append<R: Serialize>(&mut self, records: &[R]) -> Result<(), LogError> {
        let failed = |error| LogError::Io(self.path.clone(), error);
        self.batch.clear();
        self.batch.resize(HEAD_BYTES, 0);
        self.batch = postcard::to_extend(records, std::mem::take(&mut self.batch)).expect("memory takes all");
        let body = u32::try_from(self.batch.len() - HEAD_BYTES)
            .map_err(|_| failed(io::Error::other("a batch of more than 4 GiB")))?;
        self.batch[..4].copy_from_slice(&MARK);
        self.batch[4..8].copy_from_slice(&body.to_le_bytes());
        self.batch[12..20].copy_from_slice(&self.synced.to_le_bytes());
        let sum = checksum(&self.batch, self.length, self.salt);
        self.batch[8..12].copy_from_slice(&sum.to_le_bytes());
        self.file.write_all(&self.batch).map_err(failed)?;
        self.length += self.batch.len() as u64;
        self.figures.bytes.add(self.batch.len() as u64);
        self.figures.batches.add(1);
        if self.durability == Durability::Sync {
            let begun = Instant::now();
            self.file.sync_data().map_err(failed)?;
            self.figures.syncs.add(begun.elapsed());
            self.synced = self.length;
        }
        Ok(())
    }

    pub fn figures(&self) -> Arc<LogFigures> {
        self.figures.clone()
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// It is time for a snapshot.
    pub fn is_outgrown(&self) -> bool {
        self.length > SEGMENT_BYTES.max(2 * self.snapshot_length)
    }

    /// Goes on in a new segment, from this snapshot.
    ///
    /// # Errors
    /// The system's. The old segment stands.
    pub fn begin_anew<R: Serialize>(&mut self, snapshot: &R) -> Result<(), LogError> {
        let mut next = {
            let numbers = (self.number + 1, self.shard);
            Log::begin_segment(&self.directory, numbers, self.durability, Some(snapshot))?
        };
        next.figures = self.figures.clone();
        next.figures.snapshots.add(1);
        let old = std::mem::replace(self, next);
        fs::remove_file(&old.path).map_err(|error| LogError::Io(old.path, error))
    }
}

/// Makes what there is not of a path. When it comes back, all of it is durable.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_directory(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => return Err(error),
        _ => {}
    }
    sync_directory(parent)
}

/// A name is durable with the directory that it stands in.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:06}.log"))
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_path_buf();
    move |error| LogError::Io(path, error)
}

/// The number of the newest segment. Those before it are not needed any more, nor is what a node left half made.
fn newest_segment(directory: &Path) -> Result<Option<u64>, LogError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let path = entry.map_err(at(directory))?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            // Of a node that was killed before it was whole.
            Some("new") => fs::remove_file(&path).map_err(at(&path))?,
            Some("log") => numbers.extend(number_of(&path)),
            _ => {}
        }
    }
    numbers.sort_unstable();
    let Some((newest, old)) = numbers.split_last() else { return Ok(None) };
    for old in old {
        let path = path_of(directory, *old);
        fs::remove_file(&path).map_err(at(&path))?;
    }
    Ok(Some(*newest))
}

/// What a segment begins with.
struct Preamble {
    salt: u64,
    /// Version 1 does not say.
    shard: Option<ShardId>,
    length: usize,
}

impl Preamble {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [&NAME[..], &[VERSION], &self.salt.to_le_bytes()].concat();
        bytes.extend(self.shard.unwrap_or_default().to_le_bytes());
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn of(segment: &[u8], file: &Path) -> Result<Preamble, LogError> {
        let version = segment.strip_prefix(&NAME).and_then(|rest| rest.first().copied());
        if let Some(newer) = version.filter(|version| (VERSION + 1..=VERSION_MAX).contains(version)) {
            return Err(LogError::Newer(file.into(), newer));
        }
        let read = || {
            let length = *PREAMBLE_BYTES.get(usize::from(version?.checked_sub(1)?))?;
            let (said, sum) = segment.get(..length)?.split_last_chunk::<4>()?;
            let (salt, rest) = said[8..].split_first_chunk::<8>()?;
            let shard = rest.first_chunk::<2>().map(|shard| ShardId::from_le_bytes(*shard));
            let is_whole = crc32c::crc32c(said).to_le_bytes() == *sum;
            is_whole.then(|| Preamble { salt: u64::from_le_bytes(*salt), shard, length })
        };
        let why = || "it does not begin as a log does".to_owned();
        read().ok_or_else(|| LogError::Damaged { file: file.into(), offset: 0, why: why() })
    }
}

/// What is whole in a segment.
struct Batches<R> {
    records: Vec<R>,
    /// Up to where.
    length: u64,
    /// Bytes of the first batch.
    first: u64,
}

fn read_batches<R: DeserializeOwned>(
    bytes: &[u8],
    preamble: &Preamble,
    file: &Path,
) -> Result<Batches<R>, LogError> {
    let damaged = |offset, why: String| LogError::Damaged { file: file.into(), offset, why };
    let mut found = Batches { records: Vec::new(), length: preamble.length as u64, first: 0 };
    loop {
        let rest = &bytes[found.length as usize..];
        let Some((body, taken, _)) = batch_at(rest, found.length, preamble.salt) else {
            if !rest.is_empty()
                && let Some(later) = durable_after(bytes, found.length, preamble.salt)
            {
                let why = format!("a later batch, at byte {later}, says that it was whole once");
                return Err(damaged(found.length, why));
            }
            return Ok(found);
        };
        let batch: Vec<R> = postcard::from_bytes(body)
            .map_err(|error| damaged(found.length, format!("its records cannot be read: {error}")))?;
        found.records.extend(batch);
        found.length += taken as u64;
        if found.first == 0 {
            found.first = taken as u64;
        }
    }
}

/// Of all of the batch but the sum itself, at that place of that segment: what was copied from elsewhere, as a value of a user's
/// may be, is no batch.
fn checksum(batch: &[u8], offset: u64, salt: u64) -> u32 {
    let seed = crc32c::crc32c_append(crc32c::crc32c(&offset.to_le_bytes()), &salt.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &batch[..8]), &batch[12..])
}

/// The batch that these bytes begin with: its body, its length, and how much of the segment it knows to be durable.
fn batch_at(bytes: &[u8], offset: u64, salt: u64) -> Option<(&[u8], usize, u64)> {
    let head = bytes.first_chunk::<HEAD_BYTES>()?;
    if head[..4] != MARK {
        return None;
    }
    let four = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let batch = bytes.get(..HEAD_BYTES + four(4) as usize)?;
    let synced = u64::from_le_bytes(head[12..].try_into().expect("eight bytes"));
    (checksum(batch, offset, salt) == four(8)).then_some((&batch[HEAD_BYTES..], batch.len(), synced))
}

/// A later batch that was written when what is at the offset was durable.
fn durable_after(bytes: &[u8], offset: u64, salt: u64) -> Option<u64> {
    (offset + 1..bytes.len() as u64).find(|later| {
        let batch = batch_at(&bytes[*later as usize..], *later, salt);
        batch.is_some_and(|(_, _, synced)| synced > offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path) -> Result<Opened<String>, LogError> {
        Log::open(directory, 3, Durability::Sync)
    }

    fn written(directory: &Path, batches: &[&[&str]]) -> PathBuf {
        let mut log = open(directory).unwrap().log;
        for batch in batches {
            log.append(batch).unwrap();
        }
        log.path
    }

    #[test]
    fn what_was_written_comes_back_and_goes_on() {
        let place = tempfile::tempdir().unwrap();
        written(place.path(), &[&["a", "b"], &[], &["c"]]);
        written(place.path(), &[&["d"]]);
        let opened = open(place.path()).unwrap();
        assert_eq!((opened.records.join(""), opened.torn), ("abcd".into(), 0));
    }

    #[test]
    fn a_new_segment_begins_with_its_snapshot_and_the_old_one_goes() {
        let place = tempfile::tempdir().unwrap();
        let mut log = open(place.path()).unwrap().log;
        log.append(&["a"]).unwrap();
        log.begin_anew(&"all until now").unwrap();
        log.append(&["b"]).unwrap();
        // As if it had been killed before the old one was removed, or in the middle of a third.
        fs::write(path_of(place.path(), 1), NAME).unwrap();
        fs::write(place.path().join("000003.new"), "half").unwrap();
        drop(log);
        assert_eq!(open(place.path()).unwrap().records, ["all until now", "b"]);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_torn_end_is_cut_wherever_it_is_torn() {
        let whole = tempfile::tempdir().unwrap();
        let path = written(whole.path(), &[&["first"], &["second"]]);
        let bytes = fs::read(&path).unwrap();
        let first = bytes.len() - (bytes.len() - PREAMBLE_BYTES[1]) / 2 - 1;
        for cut in first..bytes.len() {
            let place = tempfile::tempdir().unwrap();
            fs::write(path_of(place.path(), 1), &bytes[..cut]).unwrap();
            let opened = open(place.path()).unwrap();
            assert_eq!(opened.records, ["first"], "{cut} bytes");
            drop(opened);
            written(place.path(), &[&["third"]]);
            assert_eq!(open(place.path()).unwrap().records, ["first", "third"]);
        }
    }

    #[test]
    fn a_damaged_middle_is_named_and_never_passed_over() {
        let whole = tempfile::tempdir().unwrap();
        let path = written(whole.path(), &[&["first"], &["second"], &["third"]]);
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() - HEAD_BYTES - "third".len() - 2 {
            let place = tempfile::tempdir().unwrap();
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            fs::write(path_of(place.path(), 1), &damaged).unwrap();
            let said = open(place.path()).map(drop).unwrap_err().to_string();
            assert!(said.contains("000001.log: damaged at byte"), "byte {at}: {said}");
        }
    }

    #[test]
    fn the_version_before_is_read_and_goes_on_and_a_newer_one_is_named() {
        let place = tempfile::tempdir().unwrap();
        let path = path_of(place.path(), 1);
        // As version 1 wrote it: nothing of the shard, and one batch.
        let mut bytes = [&NAME[..], &[1], &77_u64.to_le_bytes()].concat();
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let body = postcard::to_extend(&["old"][..], Vec::new()).unwrap();
        let mut batch =
            [&MARK[..], &(body.len() as u32).to_le_bytes(), &[0; 4], &20_u64.to_le_bytes(), &body].concat();
        let sum = checksum(&batch, 20, 77);
        batch[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes.extend(batch);
        fs::write(&path, &bytes).unwrap();
        let mut opened = open(place.path()).unwrap();
        assert_eq!(opened.records, ["old"]);
        opened.log.append(&["new"]).unwrap();
        assert_eq!(open(place.path()).unwrap().records, ["old", "new"]);
        opened = open(place.path()).unwrap();
        opened.log.begin_anew(&"all").unwrap();
        let newest = path_of(place.path(), 2);
        assert_eq!(fs::read(&newest).unwrap()[7], VERSION);
        // Another shard's, and a later version's.
        let said = Log::open::<String>(place.path(), 4, Durability::Sync).map(drop).unwrap_err().to_string();
        assert!(said.contains("the log of shard 3"), "{said}");
        bytes[7] = VERSION + 1;
        fs::write(&newest, &bytes).unwrap();
        let said = open(place.path()).map(drop).unwrap_err().to_string();
        assert!(said.contains("a later Weir has written it (log version 3"), "{said}");
    }
}
