//! NT-UR: no transactions, no replicas (eris.txt §8): the most that any system with as many shards could do.
//!
//! A shard executes its part of a request on arrival. Nothing is remembered of a request, so a repeated one has its effect again. A swap over
//! two shards reads in one round and writes in the next.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_ordered::carried::Carried;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::Index;

use super::application::{Application, OneShot, Origin};
use super::machine::{self, Completed, Effects};
use super::operation::{Empty, Operation, Placement, Reads, Registers};

/// NT-UR.
#[derive(Clone, Copy, Debug, Default)]
pub struct NtUr<O = Empty> {
    pub origin: O,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Message<O: OneShot = Operation> {
    /// Client to shard: what do others need of its keys?
    Read {
        txn: TxnId,
        operation: O,
    },
    Reads {
        txn: TxnId,
        reads: Reads,
    },
    /// Client to shard: execute your part, with these values of others.
    Execute {
        txn: TxnId,
        operation: O,
        reads: Reads,
    },
    Executed {
        txn: TxnId,
        answer: O::Answer,
    },
}

impl<O: OneShot> Carried for Message<O> {}

/// A shard.
#[derive(Clone, Debug)]
pub struct Server<A = Registers> {
    application: A,
}

impl<A: Application> machine::Server for Server<A> {
    type Message = Message<A::Operation>;
    type Record = ();
    type Values = A::Snapshot;

    fn step(
        &mut self,
        _now_ms: u64,
        from: Party,
        message: Message<A::Operation>,
        out: &mut Effects<Message<A::Operation>>,
    ) {
        match message {
            Message::Read { txn, operation } => {
                out.send(from, Message::Reads { txn, reads: self.application.export(&operation) });
            }
            Message::Execute { txn, operation, reads } => {
                let answer = self.application.execute_for_good(&operation, &reads);
                out.send(from, Message::Executed { txn, answer });
            }
            Message::Reads { .. } | Message::Executed { .. } => {}
        }
    }

    fn on_timer(&mut self, _now_ms: u64, _out: &mut Effects<Message<A::Operation>>) {}

    fn take_records(&mut self) -> Vec<()> {
        Vec::new()
    }

    fn is_leader(&self) -> bool {
        true
    }

    fn at_rest(&self) -> Option<Index> {
        Some(0)
    }

    fn values(&self) -> Option<A::Snapshot> {
        Some(self.application.snapshot())
    }
}

#[derive(Clone, Debug)]
struct InFlight<O: OneShot> {
    operation: O,
    participants: Vec<ShardId>,
    /// In the first round of a swap, the values that participants have told.
    reads: BTreeMap<ShardId, Reads>,
    is_reading: bool,
    answers: BTreeMap<ShardId, O::Answer>,
    sent_ms: u64,
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client<O: OneShot = Operation> {
    id: CoordinatorId,
    cluster: Cluster,
    next_sequence: u64,
    in_flight: BTreeMap<u64, InFlight<O>>,
}

impl<O: OneShot> Client<O> {
    fn send(&self, txn: TxnId, in_flight: &InFlight<O>, out: &mut Effects<Message<O>>) {
        let operation = &in_flight.operation;
        for &shard in &in_flight.participants {
            let is_answered = if in_flight.is_reading {
                in_flight.reads.contains_key(&shard)
            } else {
                in_flight.answers.contains_key(&shard)
            };
            if is_answered {
                continue;
            }
            let message = if in_flight.is_reading {
                Message::Read { txn, operation: operation.clone() }
            } else {
                let reads = in_flight.reads.values().flatten().copied().collect();
                Message::Execute { txn, operation: operation.clone(), reads }
            };
            out.send(Party::Replica(ReplicaId { shard, number: 0 }), message);
        }
    }
}

impl<O: OneShot> machine::Client for Client<O> {
    type Message = Message<O>;
    type Operation = O;

    fn begin(&mut self, now_ms: u64, operation: O, out: &mut Effects<Message<O>>) -> TxnId {
        let txn = TxnId { coordinator: self.id, sequence: self.next_sequence };
        self.next_sequence += 1;
        let placement = Placement { shards: self.cluster.shards };
        let in_flight = InFlight {
            participants: operation.participants(placement),
            is_reading: !operation.is_independent(placement),
            operation,
            reads: BTreeMap::new(),
            answers: BTreeMap::new(),
            sent_ms: now_ms,
        };
        self.send(txn, &in_flight, out);
        self.in_flight.insert(txn.sequence, in_flight);
        txn
    }

    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Message<O>,
        out: &mut Effects<Message<O>>,
    ) -> Option<Completed<O>> {
        let Party::Replica(ReplicaId { shard, .. }) = from else { return None };
        match message {
            Message::Reads { txn, reads } => {
                let in_flight = self.in_flight.get_mut(&txn.sequence).filter(|each| each.is_reading)?;
                in_flight.reads.insert(shard, reads);
                if in_flight.reads.len() == in_flight.participants.len() {
                    (in_flight.is_reading, in_flight.sent_ms) = (false, now_ms);
                    let in_flight = in_flight.clone();
                    self.send(txn, &in_flight, out);
                }
                None
            }
            Message::Executed { txn, answer } => {
                let in_flight = self.in_flight.get_mut(&txn.sequence)?;
                in_flight.answers.entry(shard).or_insert(answer);
                if in_flight.answers.len() < in_flight.participants.len() {
                    return None;
                }
                let answers = self.in_flight.remove(&txn.sequence)?.answers;
                Some(Completed { txn, begun: txn, answers, aborts: 0 })
            }
            Message::Read { .. } | Message::Execute { .. } => None,
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Effects<Message<O>>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        let mut late = Vec::new();
        for (sequence, in_flight) in &mut self.in_flight {
            if now_ms >= in_flight.sent_ms + resend_ms {
                in_flight.sent_ms = now_ms;
                late.push((TxnId { coordinator: self.id, sequence: *sequence }, in_flight.clone()));
            }
        }
        late.iter().for_each(|(txn, in_flight)| self.send(*txn, in_flight, out));
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
}

impl<O: Origin> machine::Protocol for NtUr<O> {
    type Server = Server<O::Application>;
    type Client = Client<<O::Application as Application>::Operation>;

    fn name(self) -> &'static str {
        "nt-ur"
    }

    fn replicas(self, _cluster: Cluster) -> u16 {
        1
    }

    fn server(
        self,
        _now_ms: u64,
        id: ReplicaId,
        cluster: Cluster,
        _start: u64,
        _records: &[()],
    ) -> Self::Server {
        Server { application: self.origin.shard(id.shard, Placement { shards: cluster.shards }) }
    }

    fn client(self, id: CoordinatorId, cluster: Cluster) -> Self::Client {
        Client { id, cluster, next_sequence: 1, in_flight: BTreeMap::new() }
    }
}
