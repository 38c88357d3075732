//! Weir's own ordered transactions in the frame of the comparators, and Eris-OUM (eris.txt §5.1, §8.1): the same machines with one sequence for
//! everybody, so that every replica of every shard receives every packet, and skips what is not its own.

mod client;
mod work;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::CoordinatorId;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::failure_coordinator::{self, FailureCoordinator};
use weir_ordered::faults::NoFaults;
use weir_ordered::message::{Effects as OrderedEffects, Message as OrderedMessage, Party, SequencerId};
use weir_ordered::packet::{Index, Shards, Transaction};
use weir_ordered::replica::log::Entry;
use weir_ordered::replica::{RecordOf, Replica, Status};
use weir_ordered::sequencer::Sequencer;

use super::application::{AnswerOf, Application, OneShot, Origin};
use super::machine::{self, Effects};
use super::operation::{Empty, Placement, Registers};
pub use client::Client;
pub use work::{Executor, Work};

/// Ordered transactions: swaps over two shards are general ones, everything else is independent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ordered<O = Empty> {
    /// One sequence for all shards.
    pub is_global: bool,
    pub origin: O,
}

type WorkOf<A> = Work<<A as Application>::Operation>;
pub type Message<A = Registers> = OrderedMessage<WorkOf<A>, AnswerOf<A>, <A as Application>::Snapshot>;
type Out<A> = OrderedEffects<WorkOf<A>, AnswerOf<A>, <A as Application>::Snapshot>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Record<A: Application = Registers> {
    Replica(RecordOf<Executor<A>>),
    Coordinator(Box<failure_coordinator::Record<WorkOf<A>>>),
}

/// The only sequencer: in this frame none dies.
const SEQUENCER: SequencerId = 1;

/// A party that is no client.
#[derive(Debug)]
pub enum Server<A: Application = Registers> {
    Replica { replica: Box<Replica<Executor<A>>>, placement: Placement, is_global: bool },
    Sequencer { sequencer: Sequencer, all: Option<Shards> },
    Coordinator(Box<FailureCoordinator<WorkOf<A>>>),
}

impl<A: Application> Server<A> {
    fn run(&mut self, now_ms: u64, input: Option<(Party, Message<A>)>, effects: &mut Effects<Message<A>>) {
        let before = effects.messages.len();
        with_effects(effects, |out| self.run_machine(now_ms, input, out));
        if matches!(self, Server::Replica { is_global: true, .. }) {
            let new = effects.messages.split_off(before);
            effects.messages.extend(new.into_iter().filter(|each| self.is_own(&each.message)));
        }
    }

    fn run_machine(&mut self, now_ms: u64, input: Option<(Party, Message<A>)>, out: &mut Out<A>) {
        match (self, input) {
            (Server::Replica { replica, .. }, Some((from, message))) => {
                replica.step(now_ms, from, message, out);
            }
            (Server::Replica { replica, .. }, None) => replica.on_timer(now_ms, out),
            (Server::Sequencer { sequencer, all }, Some((_, message))) => {
                sequencer.step(to_all(message, all.as_ref()), out);
            }
            (Server::Sequencer { sequencer, .. }, None) => sequencer.on_timer(now_ms, out),
            (Server::Coordinator(coordinator), Some((from, message))) => {
                coordinator.step(now_ms, from, message, out);
            }
            (Server::Coordinator(coordinator), None) => coordinator.on_timer(now_ms, out),
        }
    }

    /// Whether a reply is of a participant: others have the packet in their logs only.
    fn is_own(&self, message: &Message<A>) -> bool {
        let (Server::Replica { replica, placement, .. }, OrderedMessage::Reply(reply)) = (self, message)
        else {
            return true;
        };
        let packet = replica.log().get(reply.index).and_then(Entry::packet);
        packet.is_none_or(|packet| {
            packet.transaction.operation.operation().participants(*placement).contains(&replica.id().shard)
        })
    }
}

/// Runs a machine of weir-ordered, whose messages are added to the effects.
fn with_effects<O, R, S, T>(
    effects: &mut Effects<OrderedMessage<O, R, S>>,
    run: impl FnOnce(&mut OrderedEffects<O, R, S>) -> T,
) -> T {
    let mut out = OrderedEffects { messages: std::mem::take(&mut effects.messages) };
    let result = run(&mut out);
    effects.messages = out.messages;
    result
}

/// A transaction for one sequence of all shards is stamped for all of them.
fn to_all<O: Clone, R, S>(message: OrderedMessage<O, R, S>, all: Option<&Shards>) -> OrderedMessage<O, R, S> {
    match (message, all) {
        (OrderedMessage::Submit(transaction), Some(all)) => {
            let transaction = Transaction { destinations: all.clone(), ..Transaction::clone(&transaction) };
            OrderedMessage::Submit(Arc::new(transaction))
        }
        (message, _) => message,
    }
}

impl<A: Application> machine::Server for Server<A> {
    type Message = Message<A>;
    type Record = Record<A>;
    type Values = A::Snapshot;

    fn step(&mut self, now_ms: u64, from: Party, message: Message<A>, out: &mut Effects<Message<A>>) {
        self.run(now_ms, Some((from, message)), out);
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Message<A>>) {
        self.run(now_ms, None, out);
    }

    fn take_records(&mut self) -> Vec<Record<A>> {
        match self {
            Server::Replica { replica, .. } => {
                replica.take_records().into_iter().map(Record::Replica).collect()
            }
            Server::Coordinator(coordinator) => {
                let records = coordinator.take_records().into_iter();
                records.map(|record| Record::Coordinator(Box::new(record))).collect()
            }
            Server::Sequencer { .. } => Vec::new(),
        }
    }

    fn is_leader(&self) -> bool {
        matches!(self, Server::Replica { replica, .. } if replica.is_learner())
    }

    fn at_rest(&self) -> Option<Index> {
        let Server::Replica { replica, .. } = self else { return Some(0) };
        let end = replica.log().end();
        let is_at_rest = replica.status() == Status::Normal && replica.executed() == end;
        (is_at_rest && replica.locked() == (0, 0)).then_some(end)
    }

    fn values(&self) -> Option<A::Snapshot> {
        match self {
            Server::Replica { replica, .. } => Some(replica.application().0.snapshot()),
            _ => None,
        }
    }
}

/// The records of a replica among those of a disk.
pub fn records_of_replica<A: Application>(records: &[Record<A>]) -> Vec<RecordOf<Executor<A>>> {
    let of_replica = records.iter().filter_map(|record| match record {
        Record::Replica(record) => Some(RecordOf::<Executor<A>>::clone(record)),
        Record::Coordinator(_) => None,
    });
    of_replica.collect()
}

impl<O: Origin> machine::Protocol for Ordered<O> {
    type Server = Server<O::Application>;
    type Client = Client<O::Application>;

    fn name(self) -> &'static str {
        if self.is_global { "ordered-global" } else { "ordered" }
    }

    fn server(
        self,
        now_ms: u64,
        id: ReplicaId,
        cluster: Cluster,
        start: u64,
        records: &[Record<O::Application>],
    ) -> Self::Server {
        let placement = Placement { shards: cluster.shards };
        let records = records_of_replica(records);
        let application = Executor(self.origin.shard(id.shard, placement));
        let replica = Replica::new(now_ms, id, cluster, NoFaults, application, (start, &records));
        Server::Replica { replica: Box::new(replica), placement, is_global: self.is_global }
    }

    fn services(self, _cluster: Cluster) -> Vec<Party> {
        vec![Party::Sequencer(SEQUENCER), Party::FailureCoordinator]
    }

    fn service(
        self,
        now_ms: u64,
        party: Party,
        cluster: Cluster,
        records: &[Record<O::Application>],
    ) -> Option<Self::Server> {
        match party {
            Party::Sequencer(id) => {
                let all = self.is_global.then(|| (0..cluster.shards).collect());
                Some(Server::Sequencer { sequencer: Sequencer::new(id, cluster), all })
            }
            Party::FailureCoordinator => {
                let records = records.iter().filter_map(|record| match record {
                    Record::Coordinator(record) => Some(failure_coordinator::Record::clone(record)),
                    Record::Replica(_) => None,
                });
                let records: Vec<_> = records.collect();
                Some(Server::Coordinator(Box::new(FailureCoordinator::new(
                    now_ms, cluster, NoFaults, &records,
                ))))
            }
            Party::Client(_) | Party::Replica(_) | Party::CoordinatorNode(_) => None,
        }
    }

    fn client(self, id: CoordinatorId, cluster: Cluster) -> Self::Client {
        Client::new(id, cluster)
    }
}
