//! Messages between the parties, and what a step of a party sends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, TxnId};
use weir_core::lsn::{Lsn, Outgoing};

use crate::cluster::ReplicaId;
use crate::few;
use crate::packet::{Cut, Epoch, Index, Outcome, Packet, Sequence, Slot, Transaction, View};
use crate::raft_message::RaftMessage;
use crate::replica::checkpoint::Checkpoint;
use crate::replica::log::Log;
use crate::replica::records::Shared;

/// Identifies a start of a sequencer. No two starts have the same one, so that no epoch is given to both.
pub type SequencerId = u64;

/// Number of a client, which ascends with its registration, from 1.
pub type Registration = u64;

/// A party that sends or receives messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Party {
    Client(CoordinatorId),
    Sequencer(SequencerId),
    Replica(ReplicaId),
    FailureCoordinator,
    /// A node of the failure coordinator, by its number. Only nodes address each other so: to everybody else the node that leads is the
    /// failure coordinator.
    CoordinatorNode(u8),
}

/// A message. `O` is the operation of a transaction, `R` the answer of a shard, `S` the snapshot of its state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message<O, R, S> {
    /// Client to sequencer: stamp it and send it on. Replica to sequencer: the same of an abort.
    Submit(#[serde(deserialize_with = "few::shared")] Arc<Transaction<O>>),
    /// Sequencer to all replicas of all participants.
    Packet(Packet<O>),
    /// Replica to client: the packet is at that index of its durable log.
    Reply(Reply<R>),
    /// Client to failure coordinator, also its heartbeat. Registration 0: it has none yet.
    SequencerRequest {
        registration: Registration,
    },
    /// Failure coordinator to client.
    Registered {
        registration: Registration,
    },
    /// Failure coordinator to clients, and to the sequencer itself. Clients with lower registrations than the floor are gone.
    NewSequencer {
        epoch: Epoch,
        sequencer: SequencerId,
        client_floor: Registration,
    },
    /// Sequencer to client: it was thought gone, and nothing of it is stamped any more.
    Retired {
        registration: Registration,
    },
    /// Sequencer to failure coordinator and all replicas: a heartbeat. Epoch 0: it has none yet. The counters are those of its last packets.
    SequencerAlive {
        epoch: Epoch,
        counters: Cut,
        client_floor: Registration,
    },

    /// Replica to its peers: who has the packet of that slot?
    SlotRequest {
        slot: Slot,
    },
    SlotFound(Packet<O>),
    /// The failure coordinator has dropped the packet of that slot.
    SlotDropped {
        slot: Slot,
    },
    /// Replica to failure coordinator: it needs the packet of that slot, or the decision on it.
    FindTxn {
        slot: Slot,
    },
    /// Failure coordinator to all replicas of all shards.
    TxnRequest {
        slot: Slot,
    },
    HasTxn(Packet<O>),
    /// The sender, which was in that view, logs no packet with that slot until it hears the decision.
    TempDropped {
        slot: Slot,
        view: View,
    },
    /// Failure coordinator to the replicas of all participants.
    TxnFound(Packet<O>),
    /// Failure coordinator to all replicas.
    TxnDropped {
        slot: Slot,
    },

    /// Replica to its peers: it takes no packet in earlier views, and this is its state.
    ViewChange {
        epoch: Epoch,
        view: View,
        state: Box<Shared<O>>,
    },
    /// Learner to its followers.
    StartView {
        epoch: Epoch,
        view: View,
        state: Box<Shared<O>>,
    },

    /// Learner to a follower, also its heartbeat: its log reaches the index; the NO-OPs are those that the follower has not acknowledged. If
    /// the learner has forgotten some of these entries, a follower must know its log to be right up to `complete_from`.
    SyncPrepare {
        epoch: Epoch,
        view: View,
        index: Index,
        no_ops: Vec<Slot>,
        complete_from: Index,
    },
    /// The follower's durable log is that of the learner up to the index, and ends at `end`: a learner that has restarted may lack entries
    /// which were not durable.
    SyncAck {
        epoch: Epoch,
        view: View,
        index: Index,
        end: Index,
    },
    /// A majority has the log up to the index.
    SyncCommit {
        epoch: Epoch,
        view: View,
        index: Index,
    },

    /// Replica to failure coordinator: it lacks the start of that epoch.
    EpochChangeRequest {
        epoch: Epoch,
    },
    /// Failure coordinator to all replicas.
    EpochStateRequest {
        epoch: Epoch,
    },
    /// The sender does nothing more in earlier epochs, and this is what it has of the last that it has started.
    EpochState {
        epoch: Epoch,
        started: Epoch,
        view: View,
        log: Log<O>,
    },
    StartEpoch {
        epoch: Epoch,
        view: View,
        log: Log<O>,
    },
    EpochStarted {
        epoch: Epoch,
    },

    /// Replica to failure coordinator: it has begun with an empty disk, which has that number, and now has the state after that index.
    JoinRequest {
        disk: u64,
        synchronized: Index,
    },
    /// Failure coordinator to replica: it lacks the state after that index.
    Behind {
        disk: u64,
        index: Index,
    },
    /// Failure coordinator to replica: it takes part from that epoch on.
    Joined {
        disk: u64,
        epoch: Epoch,
    },
    /// Replica to failure coordinator: its durable log is that of its shard for good up to the sequence, and it will know so.
    Synchronized {
        epoch: Epoch,
        sequence: Sequence,
    },
    /// Failure coordinator to replica: a majority of each shard is synchronized up to the cut.
    Stable {
        epoch: Epoch,
        cut: Cut,
    },
    /// Replica to a peer which lacks a slot: the entries up to the index are forgotten here.
    Truncated {
        epoch: Epoch,
        index: Index,
    },
    /// Replica to a peer: it lacks the state of the shard after that index, or after any later one.
    StateRequest {
        index: Index,
    },
    /// The state of the shard, and the entries before it that other shards may need. The sender is in that epoch.
    State {
        epoch: Epoch,
        checkpoint: Arc<Checkpoint<O, R, S>>,
        log: Log<O>,
    },

    /// Learner to client: a majority has the log up to where the transaction, which had waited for locks, was executed.
    Settled {
        txn: TxnId,
        outcome: Outcome<R>,
    },
    /// Client to a replica: a read of what that has executed, in no order and without locks.
    Reconnaissance {
        number: u64,
        operation: O,
    },
    /// Replica to client. None: its application cannot answer.
    Reconnoitred {
        number: u64,
        answer: Option<R>,
    },

    /// Between the nodes of the failure coordinator.
    Raft(Box<RaftMessage>),
}

/// Answer of one replica. Replies with the same epoch, view and index speak of the same entry of the same log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply<R> {
    pub txn: TxnId,
    pub epoch: Epoch,
    pub view: View,
    pub index: Index,
    /// Only the learner has one, and only if it follows from the log up to the index: not while the transaction waits for locks.
    pub answer: Option<Outcome<R>>,
}

/// Messages that a step sends.
#[derive(Clone, Debug)]
pub struct Effects<O, R, S> {
    pub messages: Vec<Outgoing<Party, Message<O, R, S>>>,
}

impl<O, R, S> Default for Effects<O, R, S> {
    fn default() -> Self {
        Effects { messages: Vec::new() }
    }
}

impl<O: Clone, R: Clone, S: Clone> Effects<O, R, S> {
    /// Sends a message that depends on no record.
    pub fn send(&mut self, to: Party, message: Message<O, R, S>) {
        self.send_after(to, message, Lsn::START);
    }

    /// Sends a message once the sender's records are durable up to that position.
    pub fn send_after(&mut self, to: Party, message: Message<O, R, S>, after: Lsn) {
        self.messages.push(Outgoing { to, message, after });
    }

    pub fn send_to_all(
        &mut self,
        replicas: impl Iterator<Item = ReplicaId>,
        message: &Message<O, R, S>,
        after: Lsn,
    ) {
        for replica in replicas {
            self.send_after(Party::Replica(replica), message.clone(), after);
        }
    }
}
