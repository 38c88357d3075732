//! The log of a node in memory, which the crate `raft` reads, and the records from which a restart makes it again.

use raft::prelude as pb;
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use serde::{Deserialize, Serialize};
use weir_ordered::raft_message::{RaftEntry, RaftSnapshot};

use crate::conversion::{entry_into_raft, snapshot_into_raft, voters};

/// One change of the durable state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// These take the place of all entries from the first of them on.
    Entries(Vec<RaftEntry>),
    HardState(HardState),
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
    /// Entries behind the snapshot, in order, without a gap.
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
    nodes: u8,
    pub state: State,
}

impl Store {
    /// A log that begins with a snapshot of that data, as all nodes begin, and goes on with these records.
    pub fn new(nodes: u8, data: Vec<u8>, records: &[Record]) -> Store {
        let snapshot = RaftSnapshot { term: 1, index: 1, data };
        let hard_state = HardState { term: 1, vote: 0, commit: 1 };
        let mut store = Store { nodes, state: State { hard_state, snapshot, entries: Vec::new() } };
        records.iter().for_each(|record| store.apply(record));
        store
    }

    /// # Panics
    /// The record leaves a gap in the log.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Entries(entries) => {
                let Some(first) = entries.first() else { return };
                let State { snapshot, entries: kept, .. } = &mut self.state;
                let position = first.index.checked_sub(snapshot.index + 1).map(|position| position as usize);
                let position = position.filter(|position| *position <= kept.len());
                kept.truncate(position.expect("entries follow those that are there"));
                kept.extend_from_slice(entries);
            }
            Record::HardState(hard_state) => self.state.hard_state = *hard_state,
            Record::State(state) => self.state = (**state).clone(),
        }
    }

    /// The state once it has that snapshot, which is not older than its own. Its entries behind the snapshot are kept if they follow it.
    pub fn with_snapshot(&self, snapshot: RaftSnapshot) -> State {
        assert!(snapshot.index >= self.state.snapshot.index, "snapshots ascend");
        let follows = self.term_at(snapshot.index) == Some(snapshot.term);
        let behind = self.state.entries.iter().filter(|entry| follows && entry.index > snapshot.index);
        let entries = behind.cloned().collect();
        let HardState { term, vote, commit } = self.state.hard_state;
        // A later term has not had a vote of this node yet.
        let vote = if snapshot.term > term { 0 } else { vote };
        let hard_state =
            HardState { term: term.max(snapshot.term), vote, commit: commit.max(snapshot.index) };
        State { hard_state, snapshot, entries }
    }

    fn term_at(&self, index: u64) -> Option<u64> {
        let snapshot = &self.state.snapshot;
        if index == snapshot.index {
            return Some(snapshot.term);
        }
        let position = index.checked_sub(snapshot.index + 1)?;
        self.state.entries.get(position as usize).map(|entry| entry.term)
    }
}

impl Storage for Store {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let HardState { term, vote, commit } = self.state.hard_state;
        let hard_state = pb::HardState { term, vote, commit, ..pb::HardState::default() };
        Ok(RaftState::new(hard_state, voters(self.nodes)))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<pb::Entry>> {
        let base = self.state.snapshot.index + 1;
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
        let is_old = index < self.state.snapshot.index;
        let missing = if is_old { StorageError::Compacted } else { StorageError::Unavailable };
        self.term_at(index).ok_or(Error::Store(missing))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.state.snapshot.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.state.snapshot.index + self.state.entries.len() as u64)
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<pb::Snapshot> {
        if self.state.snapshot.index < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        Ok(snapshot_into_raft(self.state.snapshot.clone(), self.nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> RaftEntry {
        RaftEntry { term, index, data: vec![index as u8] }
    }

    fn terms(store: &Store) -> Vec<(u64, u64)> {
        store.state.entries.iter().map(|entry| (entry.index, entry.term)).collect()
    }

    fn with_entries(last: u64) -> Store {
        let entries = (2..=last).map(|index| entry(index, 1)).collect();
        Store::new(3, Vec::new(), &[Record::Entries(entries)])
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
        let snapshot = |index, term| RaftSnapshot { term, index, data: Vec::new() };
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
        let snapshot = |term| RaftSnapshot { term, index: 4, data: Vec::new() };
        assert_eq!(store.with_snapshot(snapshot(1)).hard_state, HardState { term: 2, vote: 3, commit: 4 });
        assert_eq!(store.with_snapshot(snapshot(3)).hard_state, HardState { term: 3, vote: 0, commit: 4 });
    }
}
