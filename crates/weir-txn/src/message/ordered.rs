//! Messages of ordered calls (docs/internals/ordered-calls.md): those of the Eris protocol, and what the product adds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{Sender, ShardId, TxnId};
use weir_ordered::cluster::{Cluster, Timeouts};
use weir_ordered::message::{Message, Party};
use weir_ordered::packet::Index;

use super::{Answers, Begun, Call};

/// The shard where the sequencer and the failure coordinator live.
pub const HOME: ShardId = 0;

/// What a shard executes in the order of the sequencer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Operation {
    pub txn: TxnId,
    pub begun: Begun,
    pub what: Ordered,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ordered {
    /// An independent transaction: each participant runs its part, and all of them decide alike.
    Call { call: Arc<Call>, participants: Arc<[ShardId]> },
    /// The place of a transaction that runs under locks: calls behind it wait until it has ended.
    Enter,
    /// An independent transaction of which one participant alone may refuse its part: each votes, and all decide alike by all votes.
    Voted { call: Arc<Call>, participants: Arc<[ShardId]> },
    /// An independent transaction whose last participant needs what the statements of the others have given. These vote, and their votes bring it;
    /// the last one then decides (the last agent optimisation of two-phase commit).
    Decided { call: Arc<Call>, participants: Arc<[ShardId]> },
}

impl Ordered {
    /// The call, and its participants in the order of the program.
    pub(crate) fn call(&self) -> Option<(&Arc<Call>, &Arc<[ShardId]>)> {
        match self {
            Ordered::Call { call, participants }
            | Ordered::Voted { call, participants }
            | Ordered::Decided { call, participants } => Some((call, participants)),
            Ordered::Enter => None,
        }
    }
}

/// Operations that are delivered and not executed yet.
pub type Pending = Vec<(Index, Operation)>;

/// A message of the protocol. The answers of shards travel in [`Reply::InOrder`](super::Reply::InOrder) instead.
pub type Protocol = Message<Operation, (), Pending>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OrderedMessage {
    Protocol {
        from: Party,
        to: Party,
        message: Protocol,
    },
    /// A coordinator asks for the answer to its call once more.
    Repeat {
        txn: TxnId,
    },
    /// A participant asks another one whether it has executed the call, whose coordinator is silent.
    HasExecuted {
        txn: TxnId,
    },
    /// Reply to `HasExecuted`, once it has.
    Executed {
        txn: TxnId,
    },
    /// A participant votes: its part of the call can be committed, or not. It keeps to that.
    Vote {
        txn: TxnId,
        commits: bool,
    },
    /// A participant that has voted asks another one for its vote, which may have been lost.
    AskVote {
        txn: TxnId,
    },
    /// A vote, with what the statements of the participant have given: for the one that decides. The vote is a no if there is an error.
    VoteWithAnswers {
        txn: TxnId,
        answers: Box<Answers>,
    },
}

impl OrderedMessage {
    /// The transaction that it is about; of those of the protocol, that of a submit.
    pub(crate) fn txn(&self) -> TxnId {
        match self {
            OrderedMessage::Protocol { message: Message::Submit(transaction), .. } => transaction.id,
            OrderedMessage::Protocol { .. } => TxnId { coordinator: 0, sequence: 0 },
            OrderedMessage::Repeat { txn }
            | OrderedMessage::HasExecuted { txn }
            | OrderedMessage::Executed { txn }
            | OrderedMessage::Vote { txn, .. }
            | OrderedMessage::VoteWithAnswers { txn, .. }
            | OrderedMessage::AskVote { txn } => *txn,
        }
    }

    /// The operation that is submitted.
    pub(crate) fn submitted(&self) -> Option<&Ordered> {
        match self {
            OrderedMessage::Protocol { message: Message::Submit(transaction), .. } => {
                Some(&transaction.operation.what)
            }
            _ => None,
        }
    }

    /// The call that is submitted, and its participants in the order of the program.
    pub(crate) fn call(&self) -> Option<(&Call, &Arc<[ShardId]>)> {
        let (call, participants) = self.submitted()?.call()?;
        Some((call, participants))
    }

    /// Reason to reject it, whoever the receiver is: its sender cannot be who it says, or it makes no sense.
    pub(crate) fn refused(&self, from: Sender, shards: ShardId) -> Option<&'static str> {
        let OrderedMessage::Protocol { from: party, message, .. } = self else {
            let is_of_shard = !matches!(self, OrderedMessage::Repeat { .. });
            return (is_of_shard != matches!(from, Sender::Shard(_)))
                .then_some("a message of another kind of party");
        };
        let cluster =
            Cluster { shards, replicas: 1, timeouts: Timeouts::DEFAULT, truncate_entries: 1, aside_max: 2 };
        let is_of_sender = match (from, *party) {
            (Sender::Coordinator(coordinator), Party::Client(client)) => {
                client == coordinator && matches!(message, Message::Submit(_))
            }
            (Sender::Coordinator(_), _) => false,
            // Shards ask for places, which are no calls.
            (Sender::Shard(_), Party::Client(_)) => {
                matches!(message, Message::Submit(one) if matches!(one.operation.what, Ordered::Enter))
            }
            (Sender::Shard(shard), Party::Replica(id)) => id.shard == shard,
            (Sender::Shard(shard), Party::Sequencer(_) | Party::FailureCoordinator) => shard == HOME,
            (Sender::Shard(_), Party::CoordinatorNode(_)) => false,
        };
        let checked = || cluster.check_party(*party).and_then(|()| cluster.check_message(message));
        match is_of_sender {
            true => checked().err().or_else(|| self.refused_operation(from)),
            false => Some("a message of another party"),
        }
    }

    /// What a coordinator submits is its own call, for these participants.
    fn refused_operation(&self, from: Sender) -> Option<&'static str> {
        let OrderedMessage::Protocol { message: Message::Submit(transaction), .. } = self else {
            return None;
        };
        let Sender::Coordinator(_) = from else { return None };
        let Some((_, participants)) = transaction.operation.what.call() else {
            return Some("a place in the order that a coordinator asks for");
        };
        let mut sorted = participants.to_vec();
        sorted.sort_unstable();
        let is_own = transaction.operation.txn == transaction.id && sorted == *transaction.destinations;
        (!is_own).then_some("a submitted call that is another one")
    }
}
