//! Granola (Cowling and Liskov, USENIX ATC 2012): transactions are executed in the order of timestamps on which their participants vote, every
//! shard replicated by Viewstamped Replication (docs/internals/ordered-baselines.md).
//!
//! Independent transactions take no locks and never abort. Coordinated ones, whose parts need each other's data, lock in their turn.

mod client;
mod server;
mod state;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, Timestamp, TxnId};
use weir_ordered::carried::Carried;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::packet::View;

use super::faults::{Faults, NoFaults};
use super::machine;
use super::operation::{Answer, Operation, Reads};
use super::vr;
pub use client::Client;
pub use server::Server;

/// Granola.
#[derive(Clone, Copy, Debug, Default)]
pub struct Granola<F = NoFaults> {
    pub faults: F,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub txn: TxnId,
    /// The client has the answers of all its transactions with lower sequences.
    pub floor: u64,
    /// Highest timestamp that the client has heard of.
    pub seen: Timestamp,
    pub operation: Operation,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Client to the leader of each participant.
    Request(Arc<Request>),
    Reply {
        txn: TxnId,
        at: Timestamp,
        answer: Answer,
    },
    /// Replica to client, or to the leader of another shard: the sender is in that view.
    NewView {
        view: View,
    },
    /// Leader to leaders of other participants: the timestamp that its shard proposes, for good.
    Vote {
        txn: TxnId,
        proposal: Timestamp,
    },
    /// Leader to the replicas of other participants: it lacks a vote or reads. `view` is its own.
    Ask {
        view: View,
        request: Arc<Request>,
    },
    /// Leader to leader: when the question came, it had not voted.
    NotVoted {
        txn: TxnId,
        view: View,
    },
    /// Leader to leaders of other participants: what a coordinated transaction has read in its turn.
    Reads {
        txn: TxnId,
        reads: Reads,
    },
    /// Leader to the replicas of other shards: it will never ask again about transactions up to that timestamp.
    Stable {
        at: Timestamp,
    },
    Replication(vr::Message<Entry>),
}

impl Carried for Message {}

impl From<vr::Message<Entry>> for Message {
    fn from(message: vr::Message<Entry>) -> Message {
        Message::Replication(message)
    }
}

/// An entry of a shard's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Entry {
    /// The shard proposes a timestamp.
    Proposed(Arc<Request>, Timestamp),
    /// The transaction has its turn: all with lower timestamps have had it.
    Final { txn: TxnId, at: Timestamp },
    /// Reads of the other participants of a coordinated transaction.
    Reads { txn: TxnId, reads: Reads },
    /// Transactions that no participant will ask about, and whose clients have their answers.
    Forgotten(Vec<TxnId>),
}

pub type Record = vr::Record<Entry>;

impl<F: Faults> machine::Protocol for Granola<F> {
    type Server = Server<F>;
    type Client = Client;

    fn name(self) -> &'static str {
        "granola"
    }

    fn server(
        self,
        now_ms: u64,
        id: ReplicaId,
        cluster: Cluster,
        start: u64,
        records: &[Record],
    ) -> Server<F> {
        Server::new(now_ms, id, cluster, self.faults, start, records)
    }

    fn client(self, id: CoordinatorId, cluster: Cluster) -> Client {
        Client::new(id, cluster)
    }
}
