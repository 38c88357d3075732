//! Weir's own ordered transactions in the frame of the comparators, and Eris-OUM (eris.txt §5.1, §8.1): the same machines with one sequence for
//! everybody, so that every replica of every shard receives every packet, and skips what is not its own.

mod client;
mod work;

use std::collections::BTreeMap;
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

use super::machine::{self, Effects};
use super::operation::{Answer, Key, Placement, Registers, Value};
pub use client::Client;
pub use work::Work;

/// Ordered transactions: swaps over two shards are general ones, everything else is independent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ordered {
    /// One sequence for all shards.
    pub is_global: bool,
}

type Snapshot = BTreeMap<Key, Value>;
pub type Message = OrderedMessage<Work, Answer, Snapshot>;
type Out = OrderedEffects<Work, Answer, Snapshot>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    Replica(RecordOf<Registers>),
    Coordinator(Box<failure_coordinator::Record<Work>>),
}

/// The only sequencer: in this frame none dies.
const SEQUENCER: SequencerId = 1;

/// A party that is no client.
#[derive(Debug)]
pub enum Server {
    Replica { replica: Box<Replica<Registers>>, placement: Placement, is_global: bool },
    Sequencer { sequencer: Sequencer, all: Option<Shards> },
    Coordinator(Box<FailureCoordinator<Work>>),
}

impl Server {
    fn run(&mut self, now_ms: u64, input: Option<(Party, Message)>, effects: &mut Effects<Message>) {
        let before = effects.messages.len();
        with_effects(effects, |out| self.run_machine(now_ms, input, out));
        if matches!(self, Server::Replica { is_global: true, .. }) {
            let new = effects.messages.split_off(before);
            effects.messages.extend(new.into_iter().filter(|each| self.is_own(&each.message)));
        }
    }

    fn run_machine(&mut self, now_ms: u64, input: Option<(Party, Message)>, out: &mut Out) {
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
    fn is_own(&self, message: &Message) -> bool {
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
fn with_effects<T>(effects: &mut Effects<Message>, run: impl FnOnce(&mut Out) -> T) -> T {
    let mut out = Out { messages: std::mem::take(&mut effects.messages) };
    let result = run(&mut out);
    effects.messages = out.messages;
    result
}

/// A transaction for one sequence of all shards is stamped for all of them.
fn to_all(message: Message, all: Option<&Shards>) -> Message {
    match (message, all) {
        (OrderedMessage::Submit(transaction), Some(all)) => {
            let transaction = Transaction { destinations: all.clone(), ..Transaction::clone(&transaction) };
            OrderedMessage::Submit(Arc::new(transaction))
        }
        (message, _) => message,
    }
}

impl machine::Server for Server {
    type Message = Message;
    type Record = Record;

    fn step(&mut self, now_ms: u64, from: Party, message: Message, out: &mut Effects<Message>) {
        self.run(now_ms, Some((from, message)), out);
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Message>) {
        self.run(now_ms, None, out);
    }

    fn take_records(&mut self) -> Vec<Record> {
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

    fn values(&self) -> Snapshot {
        match self {
            Server::Replica { replica, .. } => replica.application().values(),
            _ => Snapshot::new(),
        }
    }
}

/// The records of a replica among those of a disk.
pub fn records_of_replica(records: &[Record]) -> Vec<RecordOf<Registers>> {
    let of_replica = records.iter().filter_map(|record| match record {
        Record::Replica(record) => Some(RecordOf::<Registers>::clone(record)),
        Record::Coordinator(_) => None,
    });
    of_replica.collect()
}

impl machine::Protocol for Ordered {
    type Server = Server;
    type Client = Client;

    fn name(self) -> &'static str {
        if self.is_global { "ordered-global" } else { "ordered" }
    }

    fn server(self, now_ms: u64, id: ReplicaId, cluster: Cluster, start: u64, records: &[Record]) -> Server {
        let placement = Placement { shards: cluster.shards };
        let records = records_of_replica(records);
        let registers = Registers::new(id.shard, placement);
        let replica = Replica::new(now_ms, id, cluster, NoFaults, registers, (start, &records));
        Server::Replica { replica: Box::new(replica), placement, is_global: self.is_global }
    }

    fn services(self, _cluster: Cluster) -> Vec<Party> {
        vec![Party::Sequencer(SEQUENCER), Party::FailureCoordinator]
    }

    fn service(self, now_ms: u64, party: Party, cluster: Cluster, records: &[Record]) -> Option<Server> {
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

    fn client(self, id: CoordinatorId, cluster: Cluster) -> Client {
        Client::new(id, cluster)
    }
}
