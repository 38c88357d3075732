//! Writing of a snapshot by a separate thread, while the shard and its log continue.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use serde::Serialize;
use weir_core::ids::ShardId;

use super::error::LogError;
use super::files::{Files, finish, snapshot_path, unfinished};
use super::format::{HEAD_BYTES, Kind, Preamble, seal};
use super::{begin_batch, new_salt};

/// Largest number of parts waiting to be written.
const WAITING_MAX: usize = 4;

/// Where a shard puts the parts of its snapshot. None: that was all. If it goes without that word, there will be no snapshot.
pub struct Parts<R>(SyncSender<Option<R>>);

impl<R> Clone for Parts<R> {
    fn clone(&self) -> Parts<R> {
        Parts(self.0.clone())
    }
}

impl<R> Parts<R> {
    /// And where they come out.
    pub fn new() -> (Parts<R>, Receiver<Option<R>>) {
        let (put, taken) = sync_channel(WAITING_MAX);
        (Parts(put), taken)
    }

    /// Hands the next part on; if the disk takes no more for now, it comes back.
    pub fn put(&self, part: Option<R>) -> Result<(), Option<R>> {
        match self.0.try_send(part) {
            Err(TrySendError::Full(part)) => Err(part),
            // If the receiver is gone, the log reports the reason.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

/// Writes what comes, up to the word that it is all, and gives how long that is; then what came before that segment is needed no
/// more. None: that word never came. `taken`: a part has been taken.
pub(super) fn write<R: Serialize>(
    directory: &Path,
    (number, shard): (u64, ShardId),
    parts: &Receiver<Option<R>>,
    taken: &impl Fn(),
) -> Result<Option<u64>, LogError> {
    let path = snapshot_path(directory, number);
    let unfinished = unfinished(&path);
    let write = || -> io::Result<Option<u64>> {
        let salt = new_salt()?;
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&unfinished)?);
        let (_, preamble) = Preamble::new(Kind::Snapshot, shard, salt);
        file.write_all(&preamble)?;
        let (mut length, mut batch) = (preamble.len() as u64, Vec::new());
        loop {
            let Ok(part) = parts.recv() else { return Ok(None) };
            taken();
            batch = match &part {
                Some(part) => begin_batch(std::slice::from_ref(part), batch)?,
                None => vec![0; HEAD_BYTES],
            };
            seal(&mut batch, (length, salt), 0);
            file.write_all(&batch)?;
            length += batch.len() as u64;
            if part.is_none() {
                break;
            }
        }
        file.into_inner()?.sync_all()?;
        finish(&path)?;
        Ok(Some(length))
    };
    let written = write();
    match &written {
        Ok(Some(_)) => Files::remove_before(directory, number)?,
        // It is removed at the next start otherwise.
        _ => drop(fs::remove_file(&unfinished)),
    }
    written.map_err(|error| LogError::Io(path, error))
}
