//! Messages, entries and snapshots, from and to those of the crate `raft`, which are protobuf.
//!
//! No bytes that have come or were kept are read as protobuf (docs/decisions/0018-consensus-by-the-crate-raft.md).

use protobuf::Message as _;
use raft::prelude as pb;
use raft::prelude::{ConfChangeType, EntryType, MessageType};
use weir_core::raft_message::{
    RaftChange, RaftConfiguration, RaftEntry, RaftKind, RaftMessage, RaftSnapshot,
};

/// The kinds of messages that nodes send each other.
const KINDS: [(RaftKind, MessageType); 9] = [
    (RaftKind::Append, MessageType::MsgAppend),
    (RaftKind::AppendResponse, MessageType::MsgAppendResponse),
    (RaftKind::RequestVote, MessageType::MsgRequestVote),
    (RaftKind::RequestVoteResponse, MessageType::MsgRequestVoteResponse),
    (RaftKind::RequestPreVote, MessageType::MsgRequestPreVote),
    (RaftKind::RequestPreVoteResponse, MessageType::MsgRequestPreVoteResponse),
    (RaftKind::Heartbeat, MessageType::MsgHeartbeat),
    (RaftKind::HeartbeatResponse, MessageType::MsgHeartbeatResponse),
    (RaftKind::Snapshot, MessageType::MsgSnapshot),
];

pub fn configuration_into_raft(configuration: &RaftConfiguration) -> pb::ConfState {
    let RaftConfiguration { voters, learners, voters_outgoing, learners_next, auto_leave } =
        configuration.clone();
    pb::ConfState { voters, learners, voters_outgoing, learners_next, auto_leave, ..pb::ConfState::default() }
}

pub fn configuration_from_raft(state: &pb::ConfState) -> RaftConfiguration {
    let mut configuration = RaftConfiguration {
        voters: state.voters.clone(),
        learners: state.learners.clone(),
        voters_outgoing: state.voters_outgoing.clone(),
        learners_next: state.learners_next.clone(),
        auto_leave: state.auto_leave,
    };
    // The crate keeps them in sets without an order.
    let RaftConfiguration { voters, learners, voters_outgoing, learners_next, .. } = &mut configuration;
    [voters, learners, voters_outgoing, learners_next].into_iter().for_each(|ids| ids.sort_unstable());
    configuration
}

pub fn changes_into_raft(changes: &[RaftChange]) -> pb::ConfChangeV2 {
    let single = |change: &RaftChange| {
        let (kind, node_id) = match *change {
            RaftChange::AddVoter(id) => (ConfChangeType::AddNode, id),
            RaftChange::AddLearner(id) => (ConfChangeType::AddLearnerNode, id),
            RaftChange::Remove(id) => (ConfChangeType::RemoveNode, id),
        };
        pb::ConfChangeSingle { change_type: kind, node_id, ..pb::ConfChangeSingle::default() }
    };
    let changes: Vec<_> = changes.iter().map(single).collect();
    pb::ConfChangeV2 { changes: changes.into(), ..pb::ConfChangeV2::default() }
}

fn changes_from_raft(change: &pb::ConfChangeV2) -> Vec<RaftChange> {
    let single = |single: &pb::ConfChangeSingle| match single.change_type {
        ConfChangeType::AddNode => RaftChange::AddVoter(single.node_id),
        ConfChangeType::AddLearnerNode => RaftChange::AddLearner(single.node_id),
        ConfChangeType::RemoveNode => RaftChange::Remove(single.node_id),
    };
    change.changes.iter().map(single).collect()
}

/// None: nodes do not send each other messages of that kind.
pub fn from_raft(mut message: pb::Message) -> Option<RaftMessage> {
    let (kind, _) = KINDS.into_iter().find(|(_, kind)| *kind == message.msg_type)?;
    let has_snapshot = !message.get_snapshot().is_empty();
    Some(RaftMessage {
        kind,
        from: message.from,
        to: message.to,
        term: message.term,
        log_term: message.log_term,
        index: message.index,
        entries: message.entries.iter().map(entry_from_raft).collect(),
        commit: message.commit,
        commit_term: message.commit_term,
        snapshot: has_snapshot.then(|| snapshot_from_raft(&message.take_snapshot())),
        reject: message.reject,
        reject_hint: message.reject_hint,
    })
}

pub fn into_raft(message: RaftMessage) -> pb::Message {
    let kind = KINDS.into_iter().find(|(kind, _)| *kind == message.kind);
    let (_, msg_type) = kind.expect("each kind has one in the crate `raft`");
    let mut written = pb::Message {
        msg_type,
        from: message.from,
        to: message.to,
        term: message.term,
        log_term: message.log_term,
        index: message.index,
        entries: message.entries.into_iter().map(entry_into_raft).collect::<Vec<_>>().into(),
        commit: message.commit,
        commit_term: message.commit_term,
        reject: message.reject,
        reject_hint: message.reject_hint,
        ..pb::Message::default()
    };
    if let Some(snapshot) = message.snapshot {
        written.set_snapshot(snapshot_into_raft(snapshot));
    }
    written
}

pub fn entry_from_raft(entry: &pb::Entry) -> RaftEntry {
    let pb::Entry { term, index, .. } = *entry;
    match entry.entry_type {
        EntryType::EntryNormal => RaftEntry { term, index, data: entry.data.to_vec(), changes: None },
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
            // The crate, or `entry_into_raft`, has written it in this process.
            let change = pb::ConfChangeV2::parse_from_bytes(&entry.data).expect("a change that is our own");
            RaftEntry { term, index, data: Vec::new(), changes: Some(changes_from_raft(&change)) }
        }
    }
}

pub fn entry_into_raft(entry: RaftEntry) -> pb::Entry {
    let RaftEntry { term, index, data, changes } = entry;
    let (entry_type, data) = match changes {
        None => (EntryType::EntryNormal, data),
        Some(changes) => {
            let written = changes_into_raft(&changes).write_to_bytes();
            (EntryType::EntryConfChangeV2, written.expect("memory takes all"))
        }
    };
    pb::Entry { entry_type, term, index, data: data.into(), ..pb::Entry::default() }
}

pub fn snapshot_from_raft(snapshot: &pb::Snapshot) -> RaftSnapshot {
    let metadata = snapshot.get_metadata();
    let configuration = configuration_from_raft(metadata.get_conf_state());
    let pb::SnapshotMetadata { term, index, .. } = *metadata;
    RaftSnapshot { term, index, configuration, data: snapshot.data.to_vec() }
}

pub fn snapshot_into_raft(snapshot: RaftSnapshot) -> pb::Snapshot {
    let RaftSnapshot { term, index, configuration, data } = snapshot;
    let mut metadata = pb::SnapshotMetadata { term, index, ..Default::default() };
    metadata.set_conf_state(configuration_into_raft(&configuration));
    let mut written = pb::Snapshot { data: data.into(), ..pb::Snapshot::default() };
    written.set_metadata(metadata);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_each_kind_comes_back_as_it_was() {
        for (kind, _) in KINDS {
            let entries = [
                RaftEntry { term: 3, index: 8, data: vec![1, 2], changes: None },
                RaftEntry {
                    term: 3,
                    index: 9,
                    data: Vec::new(),
                    changes: Some(vec![RaftChange::AddVoter(5), RaftChange::Remove(2)]),
                },
                RaftEntry { term: 3, index: 10, data: Vec::new(), changes: Some(Vec::new()) },
            ];
            let configuration = RaftConfiguration {
                voters: vec![1, 5],
                learners: vec![7],
                voters_outgoing: vec![1, 2],
                learners_next: vec![2],
                auto_leave: true,
            };
            let snapshot = RaftSnapshot { term: 2, index: 5, configuration, data: vec![3] };
            let message = RaftMessage {
                kind,
                from: 1,
                to: 2,
                term: 4,
                log_term: 3,
                index: 7,
                entries: entries.to_vec(),
                commit: 6,
                commit_term: 2,
                snapshot: (kind == RaftKind::Snapshot).then_some(snapshot),
                reject: true,
                reject_hint: 9,
            };
            assert_eq!(from_raft(into_raft(message.clone())), Some(message));
        }
    }

    #[test]
    fn what_a_node_tells_itself_goes_nowhere() {
        let message = pb::Message { msg_type: MessageType::MsgHup, ..pb::Message::default() };
        assert_eq!(from_raft(message), None);
    }
}
