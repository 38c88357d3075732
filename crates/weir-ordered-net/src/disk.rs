//! The disk of a party: its log, and the messages that wait for it.

use std::fs::{DirEntry, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::ids::ShardId;
use weir_core::lsn::{HeldMessages, Lsn, Outgoing};
use weir_ordered::message::Party;
use weir_server::serve::Durability;
use weir_server::serve::log::{Log, LogError, Parts, Reading};
use weir_server::serve::writer::Writer;

use crate::wire::Message;

/// Shard of the log of a failure coordinator, which has none.
pub const COORDINATOR_LOG: ShardId = ShardId::MAX;

/// Version of the records in a log, which its file [`RECORDS_FILE`] says.
const RECORDS_VERSION: &str = "4";
const RECORDS_FILE: &str = "records-version";

/// Where a party keeps its log, and how.
#[derive(Clone, Debug)]
pub struct DiskSettings {
    pub directory: PathBuf,
    pub durability: Durability,
    /// Size of the log before a snapshot takes its place.
    pub snapshot_after: u64,
}

impl DiskSettings {
    /// Reads the durable records. `shard`: of the log, so that a party never takes the log of another.
    ///
    /// # Errors
    /// The log is damaged where it was durable, of another shard, or of another version; or the system's.
    pub fn read<R: Serialize + DeserializeOwned>(&self, shard: ShardId) -> Result<(Vec<R>, Log), LogError> {
        self.check_version()?;
        let mut reading = Reading::begin(&self.directory, shard)?;
        let records = reading.by_ref().collect();
        let (log, torn) = reading.end(self.durability, self.snapshot_after)?;
        if torn > 0 {
            tracing::warn!(bytes = torn, log = %self.directory.display(), "cut off the end of the log, which was never durable");
        }
        Ok((records, log))
    }

    /// Says the version of a log before it begins, and refuses one of another version.
    fn check_version(&self) -> Result<(), LogError> {
        let file = self.directory.join(RECORDS_FILE);
        let system = |error| LogError::Io(file.clone(), error);
        let version = match std::fs::read_to_string(&file) {
            Ok(version) if !(version.is_empty() && self.is_empty()) => version,
            Ok(_) => return self.begin_version(&file).map_err(system),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_empty() => {
                return self.begin_version(&file).map_err(system);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => "1".to_owned(),
            Err(error) => return Err(system(error)),
        };
        if version == RECORDS_VERSION {
            return Ok(());
        }
        let why = format!("its records are of version {version}, and {RECORDS_VERSION} is read");
        Err(LogError::Damaged { file, offset: 0, why, is_snapshot: false })
    }

    fn begin_version(&self, file: &Path) -> io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let mut begun = File::create(file)?;
        begun.write_all(RECORDS_VERSION.as_bytes())?;
        begun.sync_all()?;
        File::open(&self.directory)?.sync_all()
    }

    /// Returns whether no log is in the directory.
    fn is_empty(&self) -> bool {
        let is_version = |file: io::Result<DirEntry>| file.is_ok_and(|file| file.file_name() == RECORDS_FILE);
        std::fs::read_dir(&self.directory).map_or(true, |mut files| files.all(is_version))
    }
}

/// A log that is written by a thread of its own, and the messages that wait for it.
pub struct Disk<R, M = Message> {
    writer: Writer<R>,
    held: HeldMessages<(Party, M)>,
    /// How many snapshots have been begun.
    snapshots: u64,
}

impl<R: Serialize + Send + 'static, M> Disk<R, M> {
    /// `tell`: called when something has become durable.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        name: String,
        log: Log,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Disk<R, M>> {
        let writer = Writer::start(name, (log, true), tell)?;
        Ok(Disk { writer, held: HeldMessages::default(), snapshots: 0 })
    }

    /// Takes the records of a turn, and its messages. Returns those that need not wait.
    pub fn take(
        &mut self,
        records: Vec<R>,
        messages: impl Iterator<Item = Outgoing<Party, M>>,
    ) -> impl Iterator<Item = (Party, M)> {
        if !records.is_empty() {
            self.held.note(records.len());
            self.writer.append(records);
        }
        let held = &mut self.held;
        messages.filter_map(move |each| held.hold(each.after, (each.to, each.message)))
    }

    /// Returns the messages whose records have become durable. If the log has grown, a snapshot takes its place.
    ///
    /// # Errors
    /// The log cannot be written. Nothing more will become durable.
    pub fn on_written<F: FnOnce() -> R>(
        &mut self,
        snapshot: F,
    ) -> Result<impl Iterator<Item = (Party, M)> + use<R, M, F>, LogError> {
        let written = self.writer.written()?;
        if written.is_outgrown && written.snapshots == self.snapshots {
            self.snapshots += 1;
            let (parts, taken) = Parts::new();
            self.writer.begin_snapshot(taken);
            for part in [Some(snapshot()), None] {
                assert!(parts.put(part).is_ok(), "a snapshot of one part is taken at once");
            }
        }
        Ok(self.held.on_durable(written.durable.max(self.held.durable())))
    }

    /// Position up to which the records are durable.
    pub fn durable(&self) -> Lsn {
        self.held.durable()
    }

    /// Returns whether everything is durable.
    pub fn is_durable(&self) -> bool {
        self.held.is_durable()
    }

    /// Makes everything durable that has been taken.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Result<(), LogError> {
        self.writer.finish()
    }
}
