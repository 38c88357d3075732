//! Why a log cannot be used, with what can be done about it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use weir_core::ids::ShardId;

use super::format::VERSION;

#[derive(Debug)]
pub enum LogError {
    Io(PathBuf, io::Error),
    /// Durable data cannot be read any more.
    Damaged {
        file: PathBuf,
        offset: u64,
        why: String,
        is_snapshot: bool,
    },
    /// A file is missing.
    Missing(PathBuf, String),
    /// A later version of Weir has written it.
    Newer(PathBuf, u8),
    /// It is the log of that shard, and was taken for another's.
    Misplaced(PathBuf, ShardId),
    /// Others have seen newer data than the log contains; with the reason.
    Outdated(String),
}

impl LogError {
    pub(super) fn damaged(file: &Path, offset: u64, why: impl Into<String>) -> LogError {
        LogError::Damaged { file: file.into(), offset, why: why.into(), is_snapshot: false }
    }

    /// The disk is full, or the file may not grow.
    pub fn is_no_room(&self) -> bool {
        let kinds = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
        matches!(self, LogError::Io(_, error) if kinds.contains(&error.kind()))
    }
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogError::Io(path, error) => {
                write!(f, "{}: {error}", path.display())?;
                if self.is_no_room() {
                    write!(
                        f,
                        ". The node ends, because it must not answer from what it cannot write down. Make room and start it \
                         again: all that it has acknowledged is in its log"
                    )?;
                }
                Ok(())
            }
            LogError::Outdated(why) => write!(f, "{why}"),
            LogError::Newer(file, version) => write!(
                f,
                "{}: a later Weir has written it (log version {version}, and this one reads 1 to {VERSION}). Start that one \
                 again",
                file.display(),
            ),
            LogError::Misplaced(file, shard) => write!(
                f,
                "{}: it is of the log of shard {shard}. Put it back into shard-{shard}, and give this shard its own",
                file.display()
            ),
            LogError::Missing(file, why) => write!(
                f,
                "{}: is missing: {why}. The node does not start, because it would forget what it has acknowledged. Restore the \
                 file from a copy of the disk",
                file.display()
            ),
            LogError::Damaged { file, offset, why, is_snapshot: true } => write!(
                f,
                "{}: damaged at byte {offset}: {why}. The node does not start, because it would forget what it has \
                 acknowledged. Restore the file from a copy of the disk",
                file.display()
            ),
            LogError::Damaged { file, offset, why, is_snapshot: false } => write!(
                f,
                "{}: damaged at byte {offset}: {why}. The node does not start, because it would forget what it has \
                 acknowledged. Restore the file from a copy of the disk; or, to give up everything from this byte on, remove the \
                 later segments and cut this one there (truncate --size={offset} FILE, then truncate --size=%1M FILE)",
                file.display()
            ),
        }
    }
}

impl std::error::Error for LogError {}
