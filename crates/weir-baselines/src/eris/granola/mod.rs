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

use super::application::{Application, OneShot, Origin};
use super::faults::{Faults, NoFaults};
use super::machine;
use super::operation::{Empty, Operation, Placement, Reads};
use super::vr;
pub use client::Client;
pub use server::Server;

/// Granola.
#[derive(Clone, Copy, Debug, Default)]
pub struct Granola<F = NoFaults, O = Empty> {
    pub faults: F,
    pub origin: O,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Request<O: OneShot = Operation> {
    pub txn: TxnId,
    /// The client has the answers of all its transactions with lower sequences.
    pub floor: u64,
    /// Highest timestamp that the client has heard of.
    pub seen: Timestamp,
    pub operation: O,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Message<O: OneShot = Operation> {
    /// Client to the leader of each participant.
    Request(Arc<Request<O>>),
    Reply {
        txn: TxnId,
        at: Timestamp,
        answer: O::Answer,
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
        request: Arc<Request<O>>,
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
    Replication(vr::Message<Entry<O>>),
}

impl<O: OneShot> Carried for Message<O> {}

impl<O: OneShot> From<vr::Message<Entry<O>>> for Message<O> {
    fn from(message: vr::Message<Entry<O>>) -> Message<O> {
        Message::Replication(message)
    }
}

/// An entry of a shard's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Entry<O: OneShot = Operation> {
    /// The shard proposes a timestamp.
    Proposed(Arc<Request<O>>, Timestamp),
    /// The transaction has its turn: all with lower timestamps have had it.
    Final { txn: TxnId, at: Timestamp },
    /// Reads of the other participants of a coordinated transaction.
    Reads { txn: TxnId, reads: Reads },
    /// Transactions that no participant will ask about, and whose clients have their answers.
    Forgotten(Vec<TxnId>),
}

pub type Record<O = Operation> = vr::Record<Entry<O>>;
type OperationOf<O> = <<O as Origin>::Application as Application>::Operation;

impl<F: Faults, O: Origin> machine::Protocol for Granola<F, O> {
    type Server = Server<F, O::Application>;
    type Client = Client<OperationOf<O>>;

    fn name(self) -> &'static str {
        "granola"
    }

    fn server(
        self,
        now_ms: u64,
        id: ReplicaId,
        cluster: Cluster,
        start: u64,
        records: &[Record<OperationOf<O>>],
    ) -> Self::Server {
        let application = self.origin.shard(id.shard, Placement { shards: cluster.shards });
        Server::new((now_ms, start), id, cluster, self.faults, application, records)
    }

    fn client(self, id: CoordinatorId, cluster: Cluster) -> Self::Client {
        Client::new(id, cluster)
    }
}
