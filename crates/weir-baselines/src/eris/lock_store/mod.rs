//! Lock-Store (eris.txt §8): two-phase commit, strict two-phase locking, every shard replicated by Viewstamped Replication
//! (docs/internals/ordered-baselines.md).
//!
//! A transaction is committed once all its participants have replicated that they are prepared. The client coordinates; participants finish
//! what it has left.

mod client;
mod locks;
mod server;
mod state;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, TxnId};
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

/// Lock-Store.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockStore<F = NoFaults, O = Empty> {
    pub faults: F,
    pub origin: O,
}

/// The older of two transactions is the lesser.
pub type Age = (u64, TxnId);

/// One attempt at a transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Request<O: OneShot = Operation> {
    pub txn: TxnId,
    /// From 0. An attempt follows only an aborted one.
    pub attempt: u32,
    /// When the client began its first attempt, by its clock.
    pub begun_ms: u64,
    /// The client's transactions with lower sequences are over at all their participants.
    pub floor: u64,
    pub operation: O,
}

impl<O: OneShot> Request<O> {
    pub fn age(&self) -> Age {
        (self.begun_ms, self.txn)
    }
}

/// Answer of a participant to another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Vote {
    /// Prepared or committed. With what the other participants need of its keys.
    Prepared(Reads),
    Refused,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Message<O: OneShot = Operation> {
    /// Client to leader. The leader serves requests that name its own view.
    Request {
        view: View,
        request: Arc<Request<O>>,
    },
    /// Leader to client. `answer` has no meaning if it follows from the reads of all participants.
    Prepared {
        txn: TxnId,
        attempt: u32,
        answer: O::Answer,
        reads: Reads,
    },
    Committed {
        txn: TxnId,
        answer: O::Answer,
        reads: Reads,
    },
    Refused {
        txn: TxnId,
        attempt: u32,
        view: View,
    },
    /// Replica to client: the sender is in that view.
    NewView {
        view: View,
    },
    /// Client to leader: commit, with what all participants have read, or abort.
    Decision {
        age: Age,
        attempt: u32,
        commit: Option<Reads>,
    },
    /// Leader to client: it has committed.
    Finished {
        txn: TxnId,
    },
    /// Leader to the replicas of other participants: it is prepared, and does not hear of the client.
    Query(Arc<Request<O>>),
    Vote {
        txn: TxnId,
        attempt: u32,
        vote: Vote,
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
    /// A transaction of this shard alone.
    Executed(Arc<Request<O>>),
    Prepared(Arc<Request<O>>),
    /// A prepared attempt is over. `commit`: what all participants have read; none: it is aborted.
    Finished {
        txn: TxnId,
        attempt: u32,
        commit: Option<Reads>,
    },
    /// This attempt will never be prepared.
    Refused(Arc<Request<O>>),
}

pub type Record<O = Operation> = vr::Record<Entry<O>>;
type OperationOf<O> = <<O as Origin>::Application as Application>::Operation;

impl<F: Faults, O: Origin> machine::Protocol for LockStore<F, O> {
    type Server = Server<F, O::Application>;
    type Client = Client<OperationOf<O>>;

    fn name(self) -> &'static str {
        "lock-store"
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
