//! Shards are recovered from their logs, all at once; a missing log is an error.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::{info, warn};
use weir_core::ids::ShardId;
use weir_core::machine::{Durable, Exposed};

use super::ServeError;
use super::log::{self, Durability, Log, LogError, Reading};

/// Stack size: definitions may be nested deeply, and are read recursively.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// Makes a shard from what its log has, or from what it begins with; and whether it has a log.
pub(super) type Recover<S> = dyn Fn(ShardId, &mut dyn Iterator<Item = <S as Durable>::Record>, bool) -> Result<S, ServeError>
    + Send
    + Sync;

/// The log of a shard, to be read.
///
/// # Errors
/// It is another's, or it is not there although it was.
pub(super) fn find_log<R: DeserializeOwned>(
    (data, _): &(PathBuf, Durability),
    shard: ShardId,
    known: &Known,
) -> Result<Reading<R>, ServeError> {
    let place = data.join(format!("shard-{shard}"));
    let reading = Reading::begin(&place, shard)?;
    if reading.is_new() && known.shards.contains(&shard) {
        let why = format!("{} says that this node has written a log there", known.file.display());
        return Err(LogError::Missing(place, why).into());
    }
    Ok(reading)
}

/// A shard that is to be made.
pub(super) struct ToMake<R> {
    pub shard: ShardId,
    /// Without, it keeps nothing.
    pub log: Option<(Reading<R>, Durability)>,
    /// If it has none yet.
    pub begins_with: Vec<R>,
}

impl<R: Serialize + DeserializeOwned> ToMake<R> {
    fn make<S>(self, snapshot_after: u64, recover: &Recover<S>) -> Result<(S, Option<Log>), ServeError>
    where
        S: Exposed<Record = R>,
    {
        let (since, shard) = (Instant::now(), self.shard);
        let mut begins_with = self.begins_with.into_iter();
        let Some((mut reading, durability)) = self.log else {
            return Ok((recover(shard, &mut begins_with, false)?, None));
        };
        let mut count = 0_u64;
        let made = recover(shard, &mut begins_with.chain(reading.by_ref().inspect(|_| count += 1)), true);
        if made.is_err() && !reading.has_failed() {
            return made.map(|made| (made, None));
        }
        let bytes = reading.bytes();
        let (mut log, torn) = reading.end(durability, snapshot_after)?;
        let mut machine = made?;
        if torn > 0 {
            warn!(shard, bytes = torn, log = %log.directory().display(), "cut off the end of the log, which was never durable");
        }
        if count == 0 {
            // Its first state is nowhere else.
            log.append(&[machine.snapshot()])?;
        }
        let seconds = since.elapsed().as_secs_f64();
        info!(shard, records = count, bytes, seconds, "recovered");
        machine.set_disk_full(log.is_full());
        Ok((machine, Some(log)))
    }
}

/// Makes all of them, each on a thread of its own.
pub(super) fn recover_all<S>(
    shards: Vec<ToMake<S::Record>>,
    snapshot_after: u64,
    recover: &Arc<Recover<S>>,
) -> Result<Vec<(ShardId, S, Option<Log>)>, ServeError>
where
    S: Exposed,
    S::Record: Serialize + DeserializeOwned,
{
    std::thread::scope(|threads| {
        let begun: Vec<_> = shards
            .into_iter()
            .map(|one| {
                let (shard, name) = (one.shard, format!("shard-{}", one.shard));
                let thread = std::thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
                (shard, name, thread.spawn_scoped(threads, || one.make(snapshot_after, &**recover)))
            })
            .collect();
        let made = begun.into_iter().map(|(shard, name, thread)| {
            let (machine, log) = thread?.join().unwrap_or(Err(ServeError::Failed(name)))?;
            Ok((shard, machine, log))
        });
        made.collect()
    })
}

/// The shards of which the node has logs: one that is missing is missed.
pub(super) struct Known {
    file: PathBuf,
    shards: BTreeSet<ShardId>,
    is_new: bool,
}

impl Known {
    pub(super) fn read(data: Option<&(PathBuf, Durability)>) -> Result<Known, ServeError> {
        let mut known = Known { file: PathBuf::new(), shards: BTreeSet::new(), is_new: false };
        let Some((directory, _)) = data else { return Ok(known) };
        known.file = directory.join("shards");
        match fs::read_to_string(&known.file) {
            Ok(text) => known.shards = text.lines().filter_map(|line| line.parse().ok()).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(ServeError::Data(known.file, error.to_string())),
        }
        Ok(known)
    }

    pub(super) fn add(&mut self, shard: ShardId) {
        self.is_new |= self.shards.insert(shard);
    }

    pub(super) fn write(&self) -> Result<(), ServeError> {
        let Some(directory) = self.file.parent().filter(|_| self.is_new) else { return Ok(()) };
        let text: String = self.shards.iter().map(|shard| format!("{shard}\n")).collect();
        let unfinished = self.file.with_extension("new");
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &self.file)?;
            log::sync_directory(directory)
        };
        write().map_err(|error| ServeError::Data(self.file.clone(), error.to_string()))
    }
}
