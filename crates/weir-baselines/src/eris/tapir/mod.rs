//! TAPIR over IR (Zhang et al., "Building Consistent Transactions with Inconsistent Replication", SOSP 2015, with its extended version): optimistic
//! concurrency control by timestamps over replicas that agree on single results, not on an order (docs/internals/ordered-baselines.md).
//!
//! The client reads at any replica, proposes a timestamp to all replicas of all participants, and is answered after one round trip if enough
//! of them say the same.

mod client;
mod operations;
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

use super::faults::{Faults, NoFaults};
use super::machine;
use super::operation::{Key, Operation, Value};
pub use client::Client;
pub use operations::Entry;
pub use server::Server;

/// TAPIR.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tapir<F = NoFaults> {
    pub faults: F,
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

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub id: AttemptId,
    /// Transactions of the client with lower sequences are committed at all replicas of all their participants.
    pub floor: u64,
    pub at: Timestamp,
    pub operation: Operation,
    /// Values that the client has read, with their versions. Every version is below `at`.
    pub reads: Vec<(Key, Value, Timestamp)>,
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
pub enum Message {
    /// Client to one replica of a shard.
    Read {
        id: AttemptId,
        keys: Vec<Key>,
    },
    /// Committed values with their versions.
    ReadReply {
        id: AttemptId,
        values: Vec<(Key, Value, Timestamp)>,
    },
    /// Client to all replicas of all participants.
    Prepare(Arc<Request>),
    /// Replica to client, or to a backup coordinator.
    Vote {
        id: AttemptId,
        vote: Vote,
    },
    /// Client to all replicas of a shard, the slow path: that verdict is the shard's if a majority accepts it in that view.
    Finalize {
        request: Arc<Request>,
        view: View,
        verdict: Verdict,
    },
    /// Client or backup coordinator to all replicas of all participants.
    Decide {
        request: Arc<Request>,
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
        request: Arc<Request>,
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
        entries: Vec<Entry>,
    },
    /// Leader to its peers, until they answer: the merged record.
    StartView {
        view: View,
        entries: Vec<Entry>,
    },
    ViewStarted {
        view: View,
    },
}

impl Carried for Message {}

/// A change of the durable state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    Voted(Arc<Request>, Verdict),
    Finalized(Arc<Request>, Verdict),
    Decided(Arc<Request>, bool),
    Floor(CoordinatorId, u64),
    /// The replica votes in no earlier view.
    Promised(View),
    /// The view has started with that merged record.
    Started(View, Vec<Entry>),
}

impl<F: Faults> machine::Protocol for Tapir<F> {
    type Server = Server<F>;
    type Client = Client<F>;

    fn name(self) -> &'static str {
        "tapir"
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

    fn client(self, id: CoordinatorId, cluster: Cluster) -> Client<F> {
        Client::new(id, cluster, self.faults)
    }
}
