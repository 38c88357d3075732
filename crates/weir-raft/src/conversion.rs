//! Messages, entries and snapshots, from and to those of the crate `raft`, which are protobuf.
//!
//! No bytes are read as protobuf (docs/decisions/0018-consensus-by-the-crate-raft.md).

use raft::prelude as pb;
use raft::prelude::MessageType;
use weir_ordered::raft_message::{RaftEntry, RaftKind, RaftMessage, RaftSnapshot};

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

/// Id of a node in the crate `raft`, which has no node 0.
pub fn id_of(number: u8) -> u64 {
    u64::from(number) + 1
}

/// All nodes vote, for ever.
pub fn voters(nodes: u8) -> pb::ConfState {
    let ids: Vec<u64> = (0..nodes).map(id_of).collect();
    (ids, Vec::new()).into()
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

/// The message for a cluster of that many nodes.
pub fn into_raft(message: RaftMessage, nodes: u8) -> pb::Message {
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
        written.set_snapshot(snapshot_into_raft(snapshot, nodes));
    }
    written
}

pub fn entry_from_raft(entry: &pb::Entry) -> RaftEntry {
    RaftEntry { term: entry.term, index: entry.index, data: entry.data.to_vec() }
}

pub fn entry_into_raft(entry: RaftEntry) -> pb::Entry {
    pb::Entry { term: entry.term, index: entry.index, data: entry.data.into(), ..pb::Entry::default() }
}

pub fn snapshot_from_raft(snapshot: &pb::Snapshot) -> RaftSnapshot {
    let metadata = snapshot.get_metadata();
    RaftSnapshot { term: metadata.term, index: metadata.index, data: snapshot.data.to_vec() }
}

pub fn snapshot_into_raft(snapshot: RaftSnapshot, nodes: u8) -> pb::Snapshot {
    let mut metadata =
        pb::SnapshotMetadata { term: snapshot.term, index: snapshot.index, ..Default::default() };
    metadata.set_conf_state(voters(nodes));
    let mut written = pb::Snapshot { data: snapshot.data.into(), ..pb::Snapshot::default() };
    written.set_metadata(metadata);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_each_kind_comes_back_as_it_was() {
        for (kind, _) in KINDS {
            let entry = RaftEntry { term: 3, index: 8, data: vec![1, 2] };
            let snapshot = RaftSnapshot { term: 2, index: 5, data: vec![3] };
            let message = RaftMessage {
                kind,
                from: 1,
                to: 2,
                term: 4,
                log_term: 3,
                index: 7,
                entries: vec![entry],
                commit: 6,
                commit_term: 2,
                snapshot: (kind == RaftKind::Snapshot).then_some(snapshot),
                reject: true,
                reject_hint: 9,
            };
            assert_eq!(from_raft(into_raft(message.clone(), 3)), Some(message));
        }
    }

    #[test]
    fn what_a_node_tells_itself_goes_nowhere() {
        let message = pb::Message { msg_type: MessageType::MsgHup, ..pb::Message::default() };
        assert_eq!(from_raft(message), None);
    }
}
