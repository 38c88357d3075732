//! Where the records of a shard become durable: on the disk of its node, or in the log of its replica group.

use std::sync::Arc;

use serde::Serialize;

use super::group::log::{GroupLog, GroupParts};
use super::log::{LogError, LogFigures, Parts};
use super::writer::{Writer, WriterHere, Written};

pub(super) enum Keeper<R> {
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

impl<R: Serialize + Send + 'static> Keeper<R> {
    pub(super) fn append(&self, records: Vec<R>) {
        match self {
            Keeper::Disk(writer) => writer.append(records),
            Keeper::Group(log) => log.append(&records),
        }
    }

    /// For threads that write their records themselves, if that is quick now.
    pub(super) fn quick(&self) -> Option<&Writer<R>> {
        match self {
            Keeper::Disk(writer) => writer.is_quick().then_some(writer),
            Keeper::Group(_) => None,
        }
    }

    pub(super) fn here(&self) -> Option<WriterHere<R>> {
        match self {
            Keeper::Disk(writer) => Some(writer.here()),
            Keeper::Group(_) => None,
        }
    }

    pub(super) fn figures(&self) -> Arc<LogFigures> {
        match self {
            Keeper::Disk(writer) => writer.figures(),
            Keeper::Group(log) => log.figures(),
        }
    }

    /// Begins a snapshot of the earlier records.
    pub(super) fn begin_snapshot(&self) -> PartsTo<R> {
        match self {
            Keeper::Disk(writer) => {
                let (parts, taken) = Parts::new();
                writer.begin_snapshot(taken);
                PartsTo::Disk(parts)
            }
            Keeper::Group(log) => PartsTo::Group(log.begin_snapshot()),
        }
    }

    pub(super) fn look_for_room(&self) {
        if let Keeper::Disk(writer) = self {
            writer.look_for_room();
        }
    }

    pub(super) fn note_down(&self) {
        if let Keeper::Disk(writer) = self {
            writer.note_down();
        }
    }

    /// Returns whether the shard may tell anything: a leader may within its lease.
    pub(super) fn may_tell(&self) -> bool {
        match self {
            Keeper::Disk(_) => true,
            Keeper::Group(log) => log.may_tell(),
        }
    }

    /// # Errors
    /// Nothing more will become durable.
    pub(super) fn written(&self) -> Result<Written, LogError> {
        match self {
            Keeper::Disk(writer) => writer.written(),
            Keeper::Group(log) => Ok(log.written()),
        }
    }

    /// Writes what has been given. The records of a group that are not committed by then may be lost, and nobody was told of them.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(self) -> Result<(), LogError> {
        match self {
            Keeper::Disk(writer) => writer.finish(),
            Keeper::Group(_) => Ok(()),
        }
    }
}
