//! TAPIR over IR (Zhang et al., "Building Consistent Transactions with Inconsistent Replication", SOSP 2015, with its extended version): optimistic
//! concurrency control by timestamps over replicas that agree on single results, not on an order (docs/internals/ordered-baselines.md).
//!
//! The client reads at any replica, proposes a timestamp to all replicas of all participants, and is answered after one round trip if enough
//! of them say the same.

mod client;
mod operations;
mod replayed;
mod server;
mod store;
mod tally;
mod termination;
mod view_change;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, TxnId};
use weir_ordered::carried::Carried;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::packet::View;

use super::application::{Application, OneShot, Origin};
use super::faults::{Faults, NoFaults};
use super::machine;
use super::operation::{Empty, Key, Operation, Placement, Value};
pub use client::Client;
pub use operations::Entry;
pub use server::Server;

/// TAPIR.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tapir<F = NoFaults, O = Empty> {
    pub faults: F,
    pub origin: O,
}

/// A timestamp's clock is milliseconds above a counter of so many bits.
const COUNTER_BITS: u32 = 16;

/// Orders transactions. It is also the version of the values that a transaction writes. No two attempts have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp {
    pub clock: u64,
    pub client: CoordinatorId,
}

/// An attempt of a transaction: what an operation of IR is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptId {
    pub txn: TxnId,
    pub attempt: u32,
}

/// Values of keys, with their versions.
pub type Versioned = Vec<(Key, Value, Timestamp)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Request<O: OneShot = Operation> {
    pub id: AttemptId,
    /// Transactions of the client with lower sequences are committed at all replicas of all their participants.
    pub floor: u64,
    pub at: Timestamp,
    pub operation: O,
    /// Values that the client has read, with their versions. Every version is below `at`.
    pub reads: Versioned,
}

/// Result of a Prepare at a replica, or of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Prepared,
    /// An attempt with the same reads could be prepared with a timestamp above that one. The paper's RETRY; without one its ABORT and ABSTAIN.
    Refused {
        retry_above: Option<Timestamp>,
    },
}

impl Verdict {
    /// Refused, whatever comes.
    pub const REFUSED: Verdict = Verdict::Refused { retry_above: None };

    pub fn is_prepared(self) -> bool {
        self == Verdict::Prepared
    }
}

/// A verdict of a replica in a view.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Vote {
    pub view: View,
    /// The verdict was proposed as that of the shard. In one view no two verdicts of an attempt are.
    pub is_final: bool,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Message<O: OneShot = Operation> {
    /// Client to one replica of a shard. `operation`: one that replicas execute themselves.
    Read {
        id: AttemptId,
        keys: Vec<Key>,
        operation: Option<O>,
    },
    /// Committed values with their versions, and what the operation answers there.
    ReadReply {
        id: AttemptId,
        values: Versioned,
        answer: Option<O::Answer>,
    },
    /// Client to all replicas of all participants.
    Prepare(Arc<Request<O>>),
    /// Replica to client, or to a backup coordinator.
    Vote {
        id: AttemptId,
        vote: Vote,
    },
    /// Client to all replicas of a shard, the slow path: that verdict is the shard's if a majority accepts it in that view.
    Finalize {
        request: Arc<Request<O>>,
        view: View,
        verdict: Verdict,
    },
    /// Client or backup coordinator to all replicas of all participants.
    Decide {
        request: Arc<Request<O>>,
        commits: bool,
    },
    /// Replica to client: it has the outcome.
    Decided {
        id: AttemptId,
        commits: bool,
    },
    /// Client to replicas: the floor of its transactions.
    Floor(u64),
    /// Backup coordinator to all replicas of undecided participants. `unclear_in`: their votes of that view decide nothing, so a view change
    /// must; a client asks for that, too.
    Query {
        request: Arc<Request<O>>,
        unclear_in: Option<View>,
    },
    /// Replica to its peers: join.
    StartViewChange {
        view: View,
    },
    /// Replica to the leader of the view: it votes in no earlier view, and this is its record.
    DoViewChange {
        view: View,
        normal_view: View,
        entries: Vec<Entry<O>>,
    },
    /// Leader to its peers, until they answer: the merged record.
    StartView {
        view: View,
        entries: Vec<Entry<O>>,
    },
    ViewStarted {
        view: View,
    },
}

impl<O: OneShot> Carried for Message<O> {}

/// A change of the durable state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Record<O: OneShot = Operation> {
    Voted(Arc<Request<O>>, Verdict),
    Finalized(Arc<Request<O>>, Verdict),
    Decided(Arc<Request<O>>, bool),
    Floor(CoordinatorId, u64),
    /// The replica votes in no earlier view.
    Promised(View),
    /// The view has started with that merged record.
    Started(View, Vec<Entry<O>>),
}

type OperationOf<O> = <<O as Origin>::Application as Application>::Operation;

impl<F: Faults, O: Origin> machine::Protocol for Tapir<F, O> {
    type Server = Server<F, O::Application>;
    type Client = Client<F, OperationOf<O>>;

    fn name(self) -> &'static str {
        "tapir"
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
        Client::new(id, cluster, self.faults)
    }
}
