//! Messages between the nodes of the failure coordinator, in the form in which they travel: weir-ordered-raft converts them from and to those
//! of its Raft crate.
//!
//! Fields have the names of that crate. Those that never differ from zero among our nodes are left out.

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

/// An entry of the log that the nodes replicate. Without data, it begins a term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftEntry {
    pub term: u64,
    pub index: u64,
    pub data: Vec<u8>,
}

/// The state after the entry with that index, which is of that term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaftSnapshot {
    pub term: u64,
    pub index: u64,
    pub data: Vec<u8>,
}

/// A message of Raft. The id of a node is its number plus one.
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
