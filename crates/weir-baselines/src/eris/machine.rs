//! The shape of all comparators of eris.txt §8, as a driver sees it: servers, clients, what they send and what they record.
//!
//! Time and messages are arguments. A message leaves once the records that it depends on are durable.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_core::lsn::{Lsn, Outgoing};
use weir_ordered::carried::Carried;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::Index;

use super::application::OneShot;
use super::operation::Operation;

/// Messages that a step sends.
#[derive(Clone, Debug)]
pub struct Effects<M> {
    pub messages: Vec<Outgoing<Party, M>>,
}

impl<M> Default for Effects<M> {
    fn default() -> Self {
        Effects { messages: Vec::new() }
    }
}

impl<M> Effects<M> {
    /// Sends a message that depends on no record.
    pub fn send(&mut self, to: Party, message: M) {
        self.send_after(to, message, Lsn::START);
    }

    /// Sends a message once the sender's records are durable up to that position.
    pub fn send_after(&mut self, to: Party, message: M, after: Lsn) {
        self.messages.push(Outgoing { to, message, after });
    }
}

/// A replica of a shard.
pub trait Server: Sized + Debug + Send + 'static {
    type Message: Carried + Clone + Debug;
    /// A change of its durable state.
    type Record: Clone + Debug + Serialize + DeserializeOwned + Send + 'static;
    /// The data of a shard.
    type Values: Clone + Debug + PartialEq + Send + 'static;

    fn step(&mut self, now_ms: u64, from: Party, message: Self::Message, out: &mut Effects<Self::Message>);
    /// Called every few milliseconds.
    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Self::Message>);
    /// Takes the records of the steps since the last call, in order.
    fn take_records(&mut self) -> Vec<Self::Record>;
    /// Whether it has the part of a leader now. A driver that looks for one to stop asks so.
    fn is_leader(&self) -> bool;
    /// Length of its log, if it serves, has executed everything, and holds nothing of a transaction.
    fn at_rest(&self) -> Option<Index>;
    /// All data that transactions change. A party that is no replica has none.
    fn values(&self) -> Option<Self::Values>;
}

/// A transaction that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed<O: OneShot = Operation> {
    /// Id of the attempt that has committed.
    pub txn: TxnId,
    /// Id under which it was begun.
    pub begun: TxnId,
    pub answers: BTreeMap<ShardId, O::Answer>,
    /// How often it was begun anew, because it was aborted.
    pub aborts: u32,
}

/// A client. It repeats what is aborted until it commits.
pub trait Client: Send + 'static {
    type Message: Carried + Clone + Debug;
    type Operation: OneShot;

    fn begin(&mut self, now_ms: u64, operation: Self::Operation, out: &mut Effects<Self::Message>) -> TxnId;
    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Self::Message,
        out: &mut Effects<Self::Message>,
    ) -> Option<Completed<Self::Operation>>;
    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Self::Message>);
    /// Whether what is begun is sent at once.
    fn is_ready(&self) -> bool {
        true
    }
    /// Whether no transaction waits for an answer.
    fn is_idle(&self) -> bool;
}

/// A comparator: makes the machines of a cluster.
pub trait Protocol: Copy {
    type Server: Server;
    type Client: Client<Message = <Self::Server as Server>::Message>;

    fn name(self) -> &'static str;
    /// Replicas of a shard that the cluster needs for its `replicas`.
    fn replicas(self, cluster: Cluster) -> u16 {
        cluster.replicas
    }
    /// A replica with the records that were durable when it stopped. `start`: how often it has started, from 1.
    fn server(
        self,
        now_ms: u64,
        id: ReplicaId,
        cluster: Cluster,
        start: u64,
        records: &[<Self::Server as Server>::Record],
    ) -> Self::Server;
    /// Parties of the cluster that are neither replicas nor clients.
    fn services(self, _cluster: Cluster) -> Vec<Party> {
        Vec::new()
    }
    /// One of these parties.
    fn service(
        self,
        _now_ms: u64,
        _party: Party,
        _cluster: Cluster,
        _records: &[<Self::Server as Server>::Record],
    ) -> Option<Self::Server> {
        None
    }
    fn client(self, id: CoordinatorId, cluster: Cluster) -> Self::Client;
}
