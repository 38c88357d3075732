//! Messages of Raft, in the form in which they travel and are kept: weir-raft converts them from and to those of its Raft crate.
//!
//! Fields have the names of that crate. Those that never differ from zero among our members are left out.

use serde::{Deserialize, Serialize};

/// Kind of a message of Raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RaftKind {
    Append,
    AppendResponse,
    RequestVote,
    RequestVoteResponse,
    RequestPreVote,
    RequestPreVoteResponse,
    Heartbeat,
    HeartbeatResponse,
    Snapshot,
}

/// What becomes of one id in a change of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RaftChange {
    AddVoter(u64),
    AddLearner(u64),
    Remove(u64),
}

/// An entry of the log. Without data and changes, it begins a term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftEntry {
    pub term: u64,
    pub index: u64,
    pub data: Vec<u8>,
    /// A change of the configuration; such an entry has no data. Of two or more changes, it begins a joint configuration; of none, it
    /// ends one.
    pub changes: Option<Vec<RaftChange>>,
}

/// Ids of those that vote and of those that only take entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftConfiguration {
    pub voters: Vec<u64>,
    pub learners: Vec<u64>,
    /// Voters of the configuration that a joint one leaves. Empty: it is not joint.
    pub voters_outgoing: Vec<u64>,
    pub learners_next: Vec<u64>,
    pub auto_leave: bool,
}

impl RaftConfiguration {
    pub fn of_voters(voters: impl IntoIterator<Item = u64>) -> RaftConfiguration {
        RaftConfiguration { voters: voters.into_iter().collect(), ..RaftConfiguration::default() }
    }

    /// All ids, some of them twice.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        let all = [&self.voters, &self.learners, &self.voters_outgoing, &self.learners_next];
        all.into_iter().flatten().copied()
    }
}

/// The state after the entry with that index, which is of that term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftSnapshot {
    pub term: u64,
    pub index: u64,
    pub configuration: RaftConfiguration,
    pub data: Vec<u8>,
}

/// A message of Raft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftMessage {
    pub kind: RaftKind,
    pub from: u64,
    pub to: u64,
    pub term: u64,
    pub log_term: u64,
    pub index: u64,
    /// Their indices are those behind `index`, in order.
    pub entries: Vec<RaftEntry>,
    pub commit: u64,
    pub commit_term: u64,
    /// Only of kind `Snapshot`.
    pub snapshot: Option<RaftSnapshot>,
    pub reject: bool,
    pub reject_hint: u64,
}
