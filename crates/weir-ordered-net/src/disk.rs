//! The disk of a party: its log, and the messages that wait for it.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::ids::ShardId;
use weir_core::lsn::{HeldMessages, Outgoing};
use weir_ordered::message::Party;
use weir_server::serve::Durability;
use weir_server::serve::log::{Log, LogError, Parts, Reading};
use weir_server::serve::writer::Writer;

use crate::wire::Message;

/// Shard of the log of a failure coordinator, which has none.
pub const COORDINATOR_LOG: ShardId = ShardId::MAX;

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
    /// The log is damaged where it was durable, or of another shard; or the system's.
    pub fn read<R: Serialize + DeserializeOwned>(&self, shard: ShardId) -> Result<(Vec<R>, Log), LogError> {
        let mut reading = Reading::begin(&self.directory, shard)?;
        let records = reading.by_ref().collect();
        let (log, torn) = reading.end(self.durability, self.snapshot_after)?;
        if torn > 0 {
            tracing::warn!(bytes = torn, log = %self.directory.display(), "cut off the end of the log, which was never durable");
        }
        Ok((records, log))
    }
}

/// A log that is written by a thread of its own, and the messages that wait for it.
pub struct Disk<R> {
    writer: Writer<R>,
    held: HeldMessages<(Party, Message)>,
    /// How many snapshots have been begun.
    snapshots: u64,
}

impl<R: Serialize + Send + 'static> Disk<R> {
    /// `tell`: called when something has become durable.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(
        name: String,
        log: Log,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Disk<R>> {
        let writer = Writer::start(name, (log, true), tell)?;
        Ok(Disk { writer, held: HeldMessages::default(), snapshots: 0 })
    }

    /// Takes the records of a turn, and its messages. Returns those that need not wait.
    pub fn take(
        &mut self,
        records: Vec<R>,
        messages: impl Iterator<Item = Outgoing<Party, Message>>,
    ) -> impl Iterator<Item = (Party, Message)> {
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
    ) -> Result<impl Iterator<Item = (Party, Message)> + use<R, F>, LogError> {
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
