//! What a member keeps in `DATA/group-N`: its records and, in checkpoints, those of the machine (docs/internals/replica-groups.md, "The log
//! on disk"); and how both are read again.

use std::collections::VecDeque;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_core::ids::ShardId;
use weir_core::raft_message::{RaftEntry, RaftSnapshot};
use weir_raft::{CheckpointHead, MemberRecord, Record};

use crate::serve::log::{LogError, Reading};

/// A record of the log of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DiskRecord {
    Member(MemberRecord),
    /// A record of the machine's state, in a checkpoint.
    Part(Vec<u8>),
    /// The last record of a checkpoint.
    Head(CheckpointHead),
}

/// Bytes of a value in an entry or a checkpoint.
pub(super) fn encoded(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("memory takes all")
}

pub(super) fn snapshot_of(head: CheckpointHead) -> RaftSnapshot {
    let CheckpointHead { index, term, configuration } = head;
    RaftSnapshot { term, index, configuration, data: Vec::new() }
}

pub(super) fn head_of(snapshot: &RaftSnapshot) -> CheckpointHead {
    let RaftSnapshot { index, term, configuration, .. } = snapshot.clone();
    CheckpointHead { index, term, configuration }
}

/// What a member starts from.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub records: Vec<MemberRecord>,
    /// The newest checkpoint.
    pub head: Option<CheckpointHead>,
    /// The log has something of the machine.
    pub has_machine: bool,
}

impl Found {
    pub fn read(reading: &mut Reading<DiskRecord>) -> Found {
        let mut found = Found::default();
        for record in reading {
            match record {
                DiskRecord::Part(_) => {}
                DiskRecord::Head(head) => {
                    found.has_machine = true;
                    found.records.push(MemberRecord::Log(Record::Snapshot(snapshot_of(head.clone()))));
                    found.head = Some(head);
                }
                DiskRecord::Member(record) => {
                    if let MemberRecord::Log(Record::Entries(entries)) = &record {
                        found.has_machine |= entries.iter().any(|entry| !entry.data.is_empty());
                    }
                    found.records.push(record);
                }
            }
        }
        found
    }
}

/// The records of the machine up to a committed entry, from the log of a member that goes on writing it.
pub(in crate::serve) struct MachineRecords<R> {
    reading: Reading<DiskRecord>,
    /// Index and term of the last entry that is wanted.
    until: (u64, u64),
    /// Index of the checkpoint, or of the last entry whose records have been given.
    given: u64,
    /// Entries behind, which later ones may replace.
    tail: VecDeque<RaftEntry>,
    /// All that is wanted is in `tail`.
    is_whole: bool,
    records: std::vec::IntoIter<R>,
    failed: Option<String>,
}

impl<R: DeserializeOwned> MachineRecords<R> {
    /// # Errors
    /// Those of the log.
    pub fn begin(directory: &Path, shard: ShardId, until: (u64, u64)) -> Result<MachineRecords<R>, LogError> {
        Ok(MachineRecords {
            reading: Reading::beside_writer(directory, shard)?,
            until,
            given: 0,
            tail: VecDeque::new(),
            is_whole: false,
            records: Vec::new().into_iter(),
            failed: None,
        })
    }

    /// Why the records have ended too early. `to_end`: all that were given have been taken.
    pub fn failed(self, to_end: bool) -> Option<String> {
        let (index, _) = self.until;
        let is_short = to_end && self.given < index;
        let unread = self.reading.why_failed().map(|error| error.to_string());
        self.failed.or(unread).or(is_short.then(|| format!("the log ends before entry {index}")))
    }

    fn fail(&mut self, error: &postcard::Error) {
        self.failed = Some(format!("a record of the machine cannot be read: {error}"));
    }

    /// Takes the next record of the log. Returns whether there is more.
    fn read_on(&mut self) -> bool {
        match self.reading.next() {
            None => return false,
            Some(DiskRecord::Part(bytes)) => match postcard::from_bytes(&bytes) {
                Ok(record) => self.records = vec![record].into_iter(),
                Err(error) => self.fail(&error),
            },
            Some(DiskRecord::Head(head)) => {
                self.given = head.index;
                self.is_whole = head.index >= self.until.0;
            }
            Some(DiskRecord::Member(MemberRecord::Log(Record::Entries(entries)))) => self.take(entries),
            Some(DiskRecord::Member(MemberRecord::Log(Record::HardState(state)))) => self.give(state.commit),
            Some(DiskRecord::Member(_)) => {}
        }
        true
    }

    fn take(&mut self, entries: Vec<RaftEntry>) {
        let Some(first) = entries.first() else { return };
        while self.tail.back().is_some_and(|last| last.index >= first.index) {
            self.tail.pop_back();
        }
        let given = self.given;
        self.tail.extend(entries.into_iter().filter(|entry| entry.index > given));
        let (index, term) = self.until;
        self.is_whole = self.tail.iter().rev().any(|entry| (entry.index, entry.term) == (index, term));
    }

    /// Gives the records of entries up to that index, at most to the last one that is wanted.
    fn give(&mut self, up_to: u64) {
        let mut records: Vec<R> = std::mem::take(&mut self.records).collect();
        let up_to = up_to.min(self.until.0);
        while let Some(entry) = self.tail.pop_front_if(|entry| entry.index <= up_to) {
            self.given = entry.index;
            if entry.data.is_empty() {
                continue;
            }
            match postcard::from_bytes::<Vec<R>>(&entry.data) {
                Ok(more) => records.extend(more),
                Err(error) => self.fail(&error),
            }
        }
        self.records = records.into_iter();
    }
}

impl<R: DeserializeOwned> Iterator for MachineRecords<R> {
    type Item = R;

    /// None: that is all, or it cannot be read.
    fn next(&mut self) -> Option<R> {
        loop {
            if let Some(record) = self.records.next() {
                return Some(record);
            }
            if self.failed.is_some() || self.given >= self.until.0 {
                return None;
            }
            if self.is_whole {
                self.give(self.until.0);
            } else if !self.read_on() {
                return None;
            }
        }
    }
}
