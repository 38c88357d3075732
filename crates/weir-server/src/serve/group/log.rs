//! The log of a group, as the shard's thread at the leader sees it: records are durable there once a majority of the members has them.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use weir_core::lsn::Lsn;

use super::disk::{DiskRecord, encoded};
use super::{MemberArrival, MemberInbox, monotonic_ms};
use crate::serve::log::{LogFigures, Parts};
use crate::serve::writer::Written;

/// What the member tells the shard's thread, in one term.
#[derive(Debug, Default)]
pub(crate) struct Reign {
    state: Mutex<State>,
    /// The shard may tell what is durable until then.
    lease_until_ms: AtomicU64,
    /// The member leads no longer.
    is_over: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Records of the shard that are committed.
    pub committed: u64,
    /// A checkpoint is due.
    pub is_outgrown: bool,
    /// Checkpoints that were begun and have ended.
    pub snapshots: u64,
    pub is_full: bool,
}

impl Reign {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the shard may tell something again.
    pub(super) fn extend_lease(&self, now_ms: u64, until_ms: u64) -> bool {
        let before_ms = self.lease_until_ms.swap(until_ms, Ordering::AcqRel);
        before_ms <= now_ms && now_ms < until_ms
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.lease_until_ms.store(0, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

pub(crate) struct GroupLog<R> {
    term: u64,
    reign: Arc<Reign>,
    member: Arc<MemberInbox>,
    figures: Arc<LogFigures>,
    of: PhantomData<fn(R)>,
}

impl<R: Serialize> GroupLog<R> {
    pub(super) fn new(
        term: u64,
        reign: Arc<Reign>,
        member: Arc<MemberInbox>,
        figures: Arc<LogFigures>,
    ) -> GroupLog<R> {
        GroupLog { term, reign, member, figures, of: PhantomData }
    }

    /// The first state of a shard, before what [`GroupLog::append`] counts.
    pub(in crate::serve) fn begin_with(&self, state: R) {
        self.propose(&[state], 0);
    }

    pub(in crate::serve) fn append(&self, records: &[R]) {
        self.propose(records, records.len() as u64);
    }

    fn propose(&self, records: &[R], count: u64) {
        self.member.send(MemberArrival::Propose { term: self.term, count, data: encoded(&records) });
    }

    pub(in crate::serve) fn figures(&self) -> Arc<LogFigures> {
        self.figures.clone()
    }

    pub(in crate::serve) fn may_tell(&self) -> bool {
        monotonic_ms() < self.reign.lease_until_ms.load(Ordering::Acquire)
    }

    pub(in crate::serve) fn written(&self) -> Written {
        let State { committed, is_outgrown, snapshots, is_full } = *self.reign.lock();
        Written { durable: Lsn(committed), is_outgrown, snapshots, is_full }
    }

    pub(in crate::serve) fn begin_snapshot(&self) -> GroupParts {
        let (parts, taken) = Parts::new();
        let (term, member) = (self.term, self.member.clone());
        member.send(MemberArrival::Checkpoint { term, parts: parts.clone(), taken });
        GroupParts { term, parts, member, is_whole: false }
    }
}

/// The parts of a checkpoint on their way to the leader's disk.
pub(crate) struct GroupParts {
    term: u64,
    parts: Parts<DiskRecord>,
    member: Arc<MemberInbox>,
    is_whole: bool,
}

impl GroupParts {
    pub(in crate::serve) fn put<R: Serialize>(&mut self, part: Option<R>) -> Result<(), Option<R>> {
        let Some(record) = part else {
            // The member ends the file once what it has is committed.
            self.is_whole = true;
            self.member.send(MemberArrival::CheckpointTaken { term: self.term, is_whole: true });
            return Ok(());
        };
        let written = DiskRecord::Part(encoded(&record));
        self.parts.put(Some(written)).map_err(|_| Some(record))
    }
}

impl Drop for GroupParts {
    fn drop(&mut self) {
        if !self.is_whole {
            self.member.send(MemberArrival::CheckpointTaken { term: self.term, is_whole: false });
        }
    }
}
