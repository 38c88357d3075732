//! The client: sends a transaction to all its participants, and waits for their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, Timestamp, TxnId};
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::View;

use super::super::application::OneShot;
use super::super::machine::{self, Completed, Effects};
use super::super::operation::{Operation, Placement};
use super::super::retry::Resend;
use super::{Message, Request};

/// A client.
#[derive(Clone, Debug)]
pub struct Client<O: OneShot = Operation> {
    id: CoordinatorId,
    cluster: Cluster,
    next_sequence: u64,
    /// Highest timestamp that it has heard of.
    seen: Timestamp,
    views: BTreeMap<ShardId, View>,
    in_flight: BTreeMap<u64, InFlight<O>>,
}

#[derive(Clone, Debug)]
struct InFlight<O: OneShot> {
    request: Arc<Request<O>>,
    participants: Vec<ShardId>,
    answers: BTreeMap<ShardId, O::Answer>,
    resend: Resend,
}

impl<O: OneShot> InFlight<O> {
    fn unanswered(&self) -> Vec<ShardId> {
        let participants = self.participants.iter().copied();
        participants.filter(|shard| !self.answers.contains_key(shard)).collect()
    }
}

type Out<O> = Effects<Message<O>>;

impl<O: OneShot> Client<O> {
    pub fn new(id: CoordinatorId, cluster: Cluster) -> Self {
        Client {
            id,
            cluster,
            next_sequence: 1,
            seen: Timestamp::default(),
            views: BTreeMap::new(),
            in_flight: BTreeMap::new(),
        }
    }

    fn leader(&self, shard: ShardId) -> Party {
        let view = self.views.get(&shard).copied().unwrap_or(0);
        Party::Replica(self.cluster.learner(shard, view))
    }

    fn on_new_view(&mut self, shard: ShardId, view: View, out: &mut Out<O>) {
        let known = self.views.entry(shard).or_default();
        if view <= *known {
            return;
        }
        *known = view;
        let leader = self.leader(shard);
        for in_flight in self.in_flight.values().filter(|each| each.unanswered().contains(&shard)) {
            out.send(leader, Message::Request(in_flight.request.clone()));
        }
    }

    fn on_reply(
        &mut self,
        shard: ShardId,
        txn: TxnId,
        at: Timestamp,
        answer: O::Answer,
    ) -> Option<Completed<O>> {
        self.seen = self.seen.max(at);
        let in_flight =
            self.in_flight.get_mut(&txn.sequence).filter(|each| each.participants.contains(&shard))?;
        in_flight.answers.entry(shard).or_insert(answer);
        if in_flight.answers.len() < in_flight.participants.len() {
            return None;
        }
        let answers = self.in_flight.remove(&txn.sequence)?.answers;
        Some(Completed { txn, begun: txn, answers, aborts: 0 })
    }
}

impl<O: OneShot> machine::Client for Client<O> {
    type Message = Message<O>;
    type Operation = O;

    fn begin(&mut self, now_ms: u64, operation: O, out: &mut Out<O>) -> TxnId {
        let txn = TxnId { coordinator: self.id, sequence: self.next_sequence };
        self.next_sequence += 1;
        let floor = self.in_flight.keys().next().copied().unwrap_or(txn.sequence);
        let participants = operation.participants(Placement { shards: self.cluster.shards });
        let request = Arc::new(Request { txn, floor, seen: self.seen, operation });
        for shard in &participants {
            out.send(self.leader(*shard), Message::Request(request.clone()));
        }
        let resend = Resend::sent(now_ms, self.cluster.timeouts.resend_ms);
        let in_flight = InFlight { request, participants, answers: BTreeMap::new(), resend };
        self.in_flight.insert(txn.sequence, in_flight);
        txn
    }

    fn step(
        &mut self,
        _now_ms: u64,
        from: Party,
        message: Message<O>,
        out: &mut Out<O>,
    ) -> Option<Completed<O>> {
        let Party::Replica(ReplicaId { shard, .. }) = from else { return None };
        match message {
            Message::Reply { txn, at, answer } => return self.on_reply(shard, txn, at, answer),
            Message::NewView { view } => self.on_new_view(shard, view, out),
            _ => {}
        }
        None
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out<O>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        for in_flight in self.in_flight.values_mut() {
            if !in_flight.resend.is_due(now_ms, resend_ms) {
                continue;
            }
            for replica in in_flight.unanswered().into_iter().flat_map(|shard| self.cluster.group(shard)) {
                out.send(Party::Replica(replica), Message::Request(in_flight.request.clone()));
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
}
