//! Where the records of a shard become durable: on the disk of its node, or in the log of its replica group.

use std::sync::Arc;

use serde::Serialize;

use super::group::log::{GroupLog, GroupParts};
use super::log::{LogError, LogFigures, Parts};
use super::writer::{Writer, WriterHere, Written};

pub(super) enum ShardLog<R> {
    Disk(Writer<R>),
    Group(GroupLog<R>),
}

/// Where the parts of a snapshot go. None: that was all.
pub(super) enum PartsTo<R> {
    Disk(Parts<R>),
    Group(GroupParts),
}

impl<R: Serialize> PartsTo<R> {
    /// Hands the next part on; if no more is taken for now, it comes back.
    pub(super) fn put(&mut self, part: Option<R>) -> Result<(), Option<R>> {
        match self {
            PartsTo::Disk(parts) => parts.put(part),
            PartsTo::Group(parts) => parts.put(part),
        }
    }
}

impl<R: Serialize + Send + 'static> ShardLog<R> {
    pub(super) fn append(&self, records: Vec<R>) {
        match self {
            ShardLog::Disk(writer) => writer.append(records),
            ShardLog::Group(log) => log.append(&records),
        }
    }

    /// For threads that write their records themselves, if that is quick now.
    pub(super) fn quick(&self) -> Option<&Writer<R>> {
        match self {
            ShardLog::Disk(writer) => writer.is_quick().then_some(writer),
            ShardLog::Group(_) => None,
        }
    }

    pub(super) fn here(&self) -> Option<WriterHere<R>> {
        match self {
            ShardLog::Disk(writer) => Some(writer.here()),
            ShardLog::Group(_) => None,
        }
    }

    pub(super) fn figures(&self) -> Arc<LogFigures> {
        match self {
            ShardLog::Disk(writer) => writer.figures(),
            ShardLog::Group(log) => log.figures(),
        }
    }

    /// Begins a snapshot of the earlier records.
    pub(super) fn begin_snapshot(&self) -> PartsTo<R> {
        match self {
            ShardLog::Disk(writer) => {
                let (parts, taken) = Parts::new();
                writer.begin_snapshot(taken);
                PartsTo::Disk(parts)
            }
            ShardLog::Group(log) => PartsTo::Group(log.begin_snapshot()),
        }
    }

    pub(super) fn look_for_room(&self) {
        if let ShardLog::Disk(writer) = self {
            writer.look_for_room();
        }
    }

    pub(super) fn note_down(&self) {
        if let ShardLog::Disk(writer) = self {
            writer.note_down();
        }
    }

    /// Returns whether the shard may tell anything: a leader may within its lease.
    pub(super) fn may_tell(&self) -> bool {
        match self {
            ShardLog::Disk(_) => true,
            ShardLog::Group(log) => log.may_tell(),
        }
    }

    /// # Errors
    /// Nothing more will become durable.
    pub(super) fn written(&self) -> Result<Written, LogError> {
        match self {
            ShardLog::Disk(writer) => writer.written(),
            ShardLog::Group(log) => Ok(log.written()),
        }
    }

    /// Writes what has been given. The records of a group that are not committed by then may be lost, and nobody was told of them.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(self) -> Result<(), LogError> {
        match self {
            ShardLog::Disk(writer) => writer.finish(),
            ShardLog::Group(_) => Ok(()),
        }
    }
}
