//! The log of a node in memory, which the crate `raft` reads, and the records from which a restart makes it again.

use std::cell::Cell;

use raft::prelude as pb;
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use serde::{Deserialize, Serialize};
use weir_core::raft_message::{RaftConfiguration, RaftEntry, RaftSnapshot};

use crate::conversion::{configuration_into_raft, entry_into_raft, snapshot_into_raft};

/// One change of the durable state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// These take the place of all entries from the first of them on.
    Entries(Vec<RaftEntry>),
    HardState(HardState),
    /// The state after an entry. Entries behind it stay if they follow it.
    Snapshot(RaftSnapshot),
    /// The whole state. Earlier records mean nothing any more.
    State(Box<State>),
}

/// The promise of a node, and how far it knows the log to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardState {
    pub term: u64,
    /// Id of the node that has its vote in this term. 0: none.
    pub vote: u64,
    /// Index of an entry that is in the log or the snapshot.
    pub commit: u64,
}

/// The durable state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub hard_state: HardState,
    pub snapshot: RaftSnapshot,
    /// Entries in order, without a gap: those behind the snapshot, as far as they are in memory, and some before.
    pub entries: Vec<RaftEntry>,
}

impl Record {
    /// Returns whether a restart needs no record before this one. A driver may forget them once this one is durable.
    pub fn is_complete(&self) -> bool {
        matches!(self, Record::State(_))
    }
}

/// The log of a node.
#[derive(Debug)]
pub struct Store {
    pub state: State,
    /// Index and term of the entry before the first one that is in memory. It may be before or behind that of the snapshot.
    base: (u64, u64),
    /// Bytes of the data of the entries in memory.
    bytes: usize,
    /// Somebody needs a snapshot that is newer than the last one.
    is_outdated: Cell<bool>,
}

impl Store {
    /// A log that begins with a snapshot of that data, as all nodes begin, and goes on with these records.
    pub fn new(configuration: RaftConfiguration, data: Vec<u8>, records: &[Record]) -> Store {
        let snapshot = RaftSnapshot { term: 1, index: 1, configuration, data };
        let hard_state = HardState { term: 1, vote: 0, commit: 1 };
        let mut store = Store::with(State { hard_state, snapshot, entries: Vec::new() });
        records.iter().for_each(|record| store.apply(record));
        store
    }

    /// A log with that state.
    pub fn with(state: State) -> Store {
        let base = (state.snapshot.index, state.snapshot.term);
        let bytes = bytes_of(&state.entries);
        Store { state, base, bytes, is_outdated: Cell::new(false) }
    }

    /// # Panics
    /// The record leaves a gap in the log.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Entries(entries) => self.append(entries),
            Record::HardState(hard_state) => self.state.hard_state = *hard_state,
            Record::Snapshot(snapshot) => self.take_snapshot(snapshot.clone()),
            Record::State(state) => *self = Store::with((**state).clone()),
        }
    }

    fn append(&mut self, entries: &[RaftEntry]) {
        let Some(first) = entries.first() else { return };
        // What is in a snapshot, or not in memory any more, is there already. Yet all that was behind it is replaced.
        let new = entries.partition_point(|entry| entry.index <= self.base.0);
        let position = first.index.saturating_sub(self.base.0 + 1) as usize;
        let kept = &mut self.state.entries;
        assert!(position <= kept.len(), "entries follow those that are there");
        self.bytes = self.bytes + bytes_of(&entries[new..]) - bytes_of(&kept[position..]);
        kept.truncate(position);
        kept.extend_from_slice(&entries[new..]);
    }

    /// Entries that the snapshot follows on stay in memory, for others.
    fn take_snapshot(&mut self, snapshot: RaftSnapshot) {
        if !self.is_followed_by(&snapshot) {
            let state = self.with_snapshot(snapshot);
            let is_outdated = self.is_outdated.clone();
            *self = Store { is_outdated, ..Store::with(state) };
            return;
        }
        let commit = &mut self.state.hard_state.commit;
        *commit = snapshot.index.max(*commit);
        self.state.snapshot = snapshot;
    }

    /// Returns whether the snapshot is of a state that this log leads to. What is no longer in memory was committed, as a snapshot is.
    fn is_followed_by(&self, snapshot: &RaftSnapshot) -> bool {
        snapshot.index < self.base.0 || self.term_at(snapshot.index) == Some(snapshot.term)
    }

    /// The state once it has that snapshot, which is not older than its own. Its entries behind the snapshot are kept if they follow it.
    pub fn with_snapshot(&self, snapshot: RaftSnapshot) -> State {
        assert!(snapshot.index >= self.state.snapshot.index, "snapshots ascend");
        let follows = self.is_followed_by(&snapshot);
        let behind = self.state.entries.iter().filter(|entry| follows && entry.index > snapshot.index);
        let entries = behind.cloned().collect();
        let HardState { term, vote, commit } = self.state.hard_state;
        // A later term has not had a vote of this node yet.
        let vote = if snapshot.term > term { 0 } else { vote };
        let hard_state =
            HardState { term: term.max(snapshot.term), vote, commit: commit.max(snapshot.index) };
        State { hard_state, snapshot, entries }
    }

    /// Forgets the oldest entries, up to that one, until those in memory have no more than so many bytes. Who needs them needs a snapshot.
    pub fn forget(&mut self, up_to: u64, bytes_max: usize) {
        let mut count = 0;
        let mut bytes = self.bytes;
        for entry in self.state.entries.iter().take_while(|entry| entry.index <= up_to) {
            if bytes <= bytes_max {
                break;
            }
            bytes -= bytes_of(std::slice::from_ref(entry));
            count += 1;
            self.base = (entry.index, entry.term);
        }
        self.state.entries.drain(..count);
        self.bytes = bytes;
    }

    /// The entries behind that index, if they are all in memory.
    pub fn entries_behind(&self, index: u64) -> Option<Vec<RaftEntry>> {
        let from = index.checked_sub(self.base.0)? as usize;
        Some(self.state.entries.get(from..).unwrap_or_default().to_vec())
    }

    /// Returns whether somebody has needed a newer snapshot since the last call.
    pub fn take_outdated(&self) -> bool {
        self.is_outdated.take()
    }

    /// Index of the last entry.
    pub fn last(&self) -> u64 {
        self.base.0 + self.state.entries.len() as u64
    }

    pub fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        if index == self.state.snapshot.index {
            return Some(self.state.snapshot.term);
        }
        let position = index.checked_sub(self.base.0 + 1)?;
        self.state.entries.get(position as usize).map(|entry| entry.term)
    }

    fn needs_newer(&self) -> Error {
        self.is_outdated.set(true);
        Error::Store(StorageError::SnapshotTemporarilyUnavailable)
    }
}

fn bytes_of(entries: &[RaftEntry]) -> usize {
    entries.iter().map(|entry| entry.data.len() + size_of::<RaftEntry>()).sum()
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let HardState { term, vote, commit } = self.state.hard_state;
        let hard_state = pb::HardState { term, vote, commit, ..pb::HardState::default() };
        Ok(RaftState::new(hard_state, configuration_into_raft(&self.state.snapshot.configuration)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<pb::Entry>> {
        let base = self.base.0 + 1;
        let Some(from) = low.checked_sub(base) else { return Err(Error::Store(StorageError::Compacted)) };
        let range = from as usize..high.saturating_sub(base) as usize;
        let Some(entries) = self.state.entries.get(range) else {
            return Err(Error::Store(StorageError::Unavailable));
        };
        let mut entries: Vec<_> = entries.iter().cloned().map(entry_into_raft).collect();
        raft::util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let is_old = index < self.base.0;
        let missing = if is_old { StorageError::Compacted } else { StorageError::Unavailable };
        self.term_at(index).ok_or(Error::Store(missing))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<pb::Snapshot> {
        let snapshot = &self.state.snapshot;
        // Behind it there have to be all entries, and its configuration has to have who gets it.
        let is_usable = snapshot.index >= self.base.0.max(request_index)
            && snapshot.configuration.ids().any(|id| id == to);
        if !is_usable {
            return Err(self.needs_newer());
        }
        Ok(snapshot_into_raft(snapshot.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> RaftEntry {
        RaftEntry { term, index, data: vec![index as u8], changes: None }
    }

    fn terms(store: &Store) -> Vec<(u64, u64)> {
        store.state.entries.iter().map(|entry| (entry.index, entry.term)).collect()
    }

    fn with_entries(last: u64) -> Store {
        let entries = (2..=last).map(|index| entry(index, 1)).collect();
        Store::new(RaftConfiguration::of_voters([1, 2, 3]), Vec::new(), &[Record::Entries(entries)])
    }

    #[test]
    fn later_entries_take_the_place_of_those_with_their_indices() {
        let mut store = with_entries(5);
        store.apply(&Record::Entries(vec![entry(4, 2)]));
        assert_eq!(terms(&store), [(2, 1), (3, 1), (4, 2)]);
    }

    #[test]
    #[should_panic(expected = "entries follow those that are there")]
    fn a_log_has_no_gap() {
        with_entries(3).apply(&Record::Entries(vec![entry(5, 1)]));
    }

    #[test]
    fn a_snapshot_keeps_the_entries_that_follow_it() {
        let store = with_entries(5);
        let snapshot = |index, term| RaftSnapshot {
            term,
            index,
            configuration: RaftConfiguration::default(),
            data: Vec::new(),
        };
        let kept = store.with_snapshot(snapshot(3, 1));
        assert_eq!(kept.entries, [entry(4, 1), entry(5, 1)]);
        assert_eq!(kept.hard_state.commit, 3);
        let other = store.with_snapshot(snapshot(3, 2));
        assert!(other.entries.is_empty());
        assert_eq!(other.hard_state.term, 2);
    }

    #[test]
    fn a_vote_is_forgotten_only_with_its_term() {
        let mut store = with_entries(5);
        store.apply(&Record::HardState(HardState { term: 2, vote: 3, commit: 2 }));
        let snapshot = |term| RaftSnapshot {
            term,
            index: 4,
            configuration: RaftConfiguration::default(),
            data: Vec::new(),
        };
        assert_eq!(store.with_snapshot(snapshot(1)).hard_state, HardState { term: 2, vote: 3, commit: 4 });
        assert_eq!(store.with_snapshot(snapshot(3)).hard_state, HardState { term: 3, vote: 0, commit: 4 });
    }

    #[test]
    fn who_needs_what_memory_has_forgotten_needs_a_newer_snapshot() {
        let mut store = with_entries(9);
        store.forget(6, 0);
        assert_eq!(terms(&store), [(7, 1), (8, 1), (9, 1)]);
        assert_eq!(store.first_index().unwrap(), 7);
        assert!(store.snapshot(0, 2).is_err() && store.take_outdated());
        let snapshot = |index| RaftSnapshot {
            term: 1,
            index,
            configuration: RaftConfiguration::of_voters([2]),
            data: Vec::new(),
        };
        store.apply(&Record::Snapshot(snapshot(4)));
        assert_eq!(
            (store.first_index().unwrap(), store.last()),
            (7, 9),
            "it is older than what is in memory"
        );
        assert!(store.snapshot(0, 2).is_err());
        store.apply(&Record::Snapshot(snapshot(8)));
        assert_eq!(terms(&store), [(7, 1), (8, 1), (9, 1)], "others may lag");
        assert!(store.snapshot(0, 2).is_ok());
        assert!(store.snapshot(0, 3).is_err(), "its configuration does not have that one");
        store.append(&[entry(6, 1), entry(7, 1), entry(8, 1), entry(9, 2)]);
        assert_eq!(terms(&store), [(7, 1), (8, 1), (9, 2)]);
        store.append(&[entry(5, 2), entry(6, 2)]);
        assert_eq!((terms(&store), store.last()), (Vec::new(), 6), "what was behind is replaced");
        let other = RaftSnapshot { term: 3, ..snapshot(9) };
        store.apply(&Record::Snapshot(other));
        assert_eq!((terms(&store), store.last()), (Vec::new(), 9));
    }
}
