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

    /// The member votes, and needs no votes of members that it replaces: in a joint configuration, it has been a voter before.
    pub fn is_joined(&self, id: u64) -> bool {
        let was = self.voters_outgoing.is_empty() || self.voters_outgoing.contains(&id);
        self.voters.contains(&id) && was
    }

    /// The number of members that are not joined yet.
    pub fn joining(&self) -> usize {
        let voters = self.voters.iter().filter(|id| !self.is_joined(**id));
        self.learners.len() + voters.count()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_disk_has_joined_once_the_members_before_are_not_needed() {
        // 31 is filled, and takes the place of 3.
        let of_voters = RaftConfiguration::of_voters;
        let filled = RaftConfiguration { learners: vec![31], ..of_voters([1, 2, 3]) };
        let joint = RaftConfiguration { voters_outgoing: vec![1, 2, 3], ..of_voters([1, 2, 31]) };
        let joined = of_voters([1, 2, 31]);
        let of = |configuration: &RaftConfiguration| (configuration.is_joined(31), configuration.joining());
        assert_eq!([filled, joint.clone(), joined].each_ref().map(of), [(false, 1), (false, 1), (true, 0)]);
        assert!(joint.is_joined(1) && !joint.is_joined(3));
    }
}
