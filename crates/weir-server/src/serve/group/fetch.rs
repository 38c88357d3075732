//! A checkpoint on its way from the leader's disk to another member's.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use weir_raft::message::Message;
use weir_raft::{CheckpointHead, Place};

use super::wire::Wire;

/// Size of a part.
const PART_BYTES: usize = 512 << 10;
/// A part that has not come within this is asked for again.
const PATIENCE_MS: u64 = 1_000;
/// A checkpoint that stands still for so long is given up.
const GIVEN_UP_MS: u64 = 10_000;

/// Begins the names of files that are being fetched.
const NAME: &str = "fetched-";

/// Removes what was being fetched when the node ended.
pub(super) fn clean(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(NAME) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A checkpoint that is being fetched.
pub(super) struct Fetching {
    pub head: CheckpointHead,
    pub from: Place,
    /// The leader's message that the checkpoint belongs to. None: the member has all entries, and bounds its log.
    pub message: Option<Message>,
    path: PathBuf,
    file: File,
    offset: u64,
    asked_ms: u64,
    moved_ms: u64,
}

impl Fetching {
    /// # Errors
    /// The system's.
    pub(super) fn begin(
        directory: &Path,
        (head, from): (CheckpointHead, Place),
        message: Option<Message>,
        now_ms: u64,
    ) -> io::Result<Fetching> {
        let path = directory.join(format!("{NAME}{}-{now_ms}", head.index));
        let file = File::create(&path)?;
        Ok(Fetching { head, from, message, path, file, offset: 0, asked_ms: 0, moved_ms: now_ms })
    }

    /// The file, once [`Fetching::take`] has said that it is whole.
    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// What is to be asked for, if that is due.
    pub(super) fn asks(&mut self, now_ms: u64) -> Option<Wire> {
        if self.asked_ms != 0 && now_ms < self.asked_ms + PATIENCE_MS {
            return None;
        }
        self.asked_ms = now_ms;
        Some(Wire::Fetch { index: self.head.index, offset: self.offset })
    }

    pub(super) fn is_given_up(&self, now_ms: u64) -> bool {
        now_ms >= self.moved_ms + GIVEN_UP_MS
    }

    /// Takes a part. Returns whether the file is whole, and durable.
    ///
    /// # Errors
    /// The system's; or the sender has no such checkpoint any more.
    pub(super) fn take(&mut self, offset: u64, length: u64, bytes: &[u8], now_ms: u64) -> io::Result<bool> {
        if length == 0 {
            return Err(io::Error::other("the leader has a newer checkpoint"));
        }
        if offset != self.offset {
            return Ok(false);
        }
        self.file.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        (self.asked_ms, self.moved_ms) = (0, now_ms);
        if self.offset < length {
            return Ok(false);
        }
        self.file.sync_all()?;
        Ok(true)
    }
}

/// A part of a checkpoint's file.
pub(super) fn part_of(path: &Path, index: u64, offset: u64) -> io::Result<Wire> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(PART_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(Wire::Part { index, offset, length, bytes })
}

/// The answer of a member that does not have it.
pub(super) fn no_part(index: u64, offset: u64) -> Wire {
    Wire::Part { index, offset, length: 0, bytes: Vec::new() }
}
