//! The client: coordinates two-phase commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::View;

use super::super::application::OneShot;
use super::super::machine::{self, Completed, Effects};
use super::super::operation::{Key, Operation, Placement, Reads, Value};
use super::super::retry::{Resend, pause_ms};
use super::{Age, Message, Request};

/// A client.
#[derive(Clone, Debug)]
pub struct Client<O: OneShot = Operation> {
    id: CoordinatorId,
    cluster: Cluster,
    placement: Placement,
    next_sequence: u64,
    /// Latest view of each shard that it has heard of.
    views: BTreeMap<ShardId, View>,
    in_flight: BTreeMap<u64, InFlight<O>>,
    /// Committed transactions whose participants have not all said that they know.
    finishing: BTreeMap<u64, Finishing>,
}

#[derive(Clone, Debug)]
struct InFlight<O: OneShot> {
    request: Arc<Request<O>>,
    participants: Vec<ShardId>,
    /// View of each shard that the attempt was last sent to.
    sent_to: BTreeMap<ShardId, View>,
    prepared: BTreeMap<ShardId, (O::Answer, Reads)>,
    /// When the attempt begins, if it has not; else when it is repeated.
    resend: Resend,
    is_pausing: bool,
}

#[derive(Clone, Debug)]
struct Finishing {
    age: Age,
    attempt: u32,
    reads: Reads,
    unaware: BTreeSet<ShardId>,
    resend: Resend,
}

type Out<O> = Effects<Message<O>>;

impl<O: OneShot> Client<O> {
    pub fn new(id: CoordinatorId, cluster: Cluster) -> Self {
        Client {
            id,
            cluster,
            placement: Placement { shards: cluster.shards },
            next_sequence: 1,
            views: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            finishing: BTreeMap::new(),
        }
    }

    fn view(&self, shard: ShardId) -> View {
        self.views.get(&shard).copied().unwrap_or(0)
    }

    fn leader(&self, shard: ShardId) -> Party {
        Party::Replica(self.cluster.learner(shard, self.view(shard)))
    }

    /// Transactions with lower sequences are over at all their participants.
    fn floor(&self) -> u64 {
        let first = |keys: Option<&u64>| keys.copied().unwrap_or(self.next_sequence);
        first(self.in_flight.keys().next()).min(first(self.finishing.keys().next()))
    }

    /// Sends the attempt to a participant: to the leader, or to all of its replicas.
    fn send(&mut self, sequence: u64, shard: ShardId, is_to_all: bool, out: &mut Out<O>) {
        let view = self.view(shard);
        let leader = self.leader(shard);
        let cluster = self.cluster;
        let Some(in_flight) = self.in_flight.get_mut(&sequence) else { return };
        in_flight.sent_to.insert(shard, view);
        let message = Message::Request { view, request: in_flight.request.clone() };
        if is_to_all {
            cluster.group(shard).for_each(|replica| out.send(Party::Replica(replica), message.clone()));
        } else {
            out.send(leader, message);
        }
    }

    fn send_unanswered(&mut self, sequence: u64, is_to_all: bool, out: &mut Out<O>) {
        let Some(in_flight) = self.in_flight.get(&sequence) else { return };
        let participants = in_flight.participants.iter().copied();
        let unanswered: Vec<_> =
            participants.filter(|shard| !in_flight.prepared.contains_key(shard)).collect();
        unanswered.into_iter().for_each(|shard| self.send(sequence, shard, is_to_all, out));
    }

    fn on_new_view(&mut self, shard: ShardId, view: View, out: &mut Out<O>) {
        if view <= self.view(shard) {
            return;
        }
        self.views.insert(shard, view);
        let is_waiting = |each: &InFlight<O>| {
            !each.is_pausing && each.participants.contains(&shard) && !each.prepared.contains_key(&shard)
        };
        let waiting: Vec<_> = self
            .in_flight
            .iter()
            .filter(|(_, each)| is_waiting(each))
            .map(|(sequence, _)| *sequence)
            .collect();
        waiting.into_iter().for_each(|sequence| self.send(sequence, shard, false, out));
    }

    fn on_refused(
        &mut self,
        now_ms: u64,
        shard: ShardId,
        (sequence, attempt): (u64, u32),
        view: View,
        out: &mut Out<O>,
    ) {
        let Some(in_flight) = self.in_flight.get_mut(&sequence) else { return };
        let is_of_latest = in_flight.sent_to.get(&shard) == Some(&view);
        if in_flight.request.attempt != attempt || in_flight.is_pausing || !is_of_latest {
            return;
        }
        let age = in_flight.request.age();
        let request = Request { attempt: attempt + 1, ..Request::clone(&in_flight.request) };
        in_flight.request = Arc::new(request);
        in_flight.prepared.clear();
        in_flight.sent_to.clear();
        in_flight.is_pausing = true;
        let begins_ms = now_ms + pause_ms(age.1, attempt);
        in_flight.resend = Resend::after_pause(begins_ms, self.cluster.timeouts.resend_ms);
        let others = in_flight.participants.iter().copied().filter(|other| *other != shard);
        for other in others.collect::<Vec<_>>() {
            out.send(self.leader(other), Message::Decision { age, attempt, commit: None });
        }
    }

    /// A participant is prepared or has committed: if all are, the transaction is committed.
    fn on_prepared(
        &mut self,
        now_ms: u64,
        shard: ShardId,
        sequence: u64,
        prepared: (O::Answer, Reads),
        out: &mut Out<O>,
    ) -> Option<Completed<O>> {
        let in_flight = self.in_flight.get_mut(&sequence)?;
        if in_flight.is_pausing || !in_flight.participants.contains(&shard) {
            return None;
        }
        in_flight.prepared.insert(shard, prepared);
        if in_flight.prepared.len() < in_flight.participants.len() {
            return None;
        }
        let in_flight = self.in_flight.remove(&sequence)?;
        let reads: Reads = in_flight.prepared.values().flat_map(|(_, reads)| reads).copied().collect();
        if in_flight.participants.len() > 1 {
            self.begin_finishing(now_ms, &in_flight, &reads, out);
        }
        let operation = &in_flight.request.operation;
        let is_independent = operation.is_independent(self.placement);
        let read =
            |key: Key| -> Value { reads.iter().find(|(of, _)| *of == key).map_or(0, |(_, value)| *value) };
        let answers = in_flight.prepared.into_iter().map(|(shard, (answer, _))| {
            let part = if is_independent { None } else { operation.part_from(shard, self.placement, &read) };
            (shard, part.map_or(answer, |part| part.answer))
        });
        let answers = answers.collect();
        let txn = in_flight.request.txn;
        Some(Completed { txn, begun: txn, answers, aborts: in_flight.request.attempt })
    }

    fn begin_finishing(&mut self, now_ms: u64, in_flight: &InFlight<O>, reads: &Reads, out: &mut Out<O>) {
        let finishing = Finishing {
            age: in_flight.request.age(),
            attempt: in_flight.request.attempt,
            reads: reads.clone(),
            unaware: in_flight.participants.iter().copied().collect(),
            resend: Resend::sent(now_ms, self.cluster.timeouts.resend_ms),
        };
        for shard in &in_flight.participants {
            out.send(self.leader(*shard), decision(&finishing));
        }
        self.finishing.insert(in_flight.request.txn.sequence, finishing);
    }

    fn repeat_decisions(&mut self, now_ms: u64, out: &mut Out<O>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        for finishing in self.finishing.values_mut() {
            if !finishing.resend.is_due(now_ms, resend_ms) {
                continue;
            }
            for replica in finishing.unaware.iter().flat_map(|shard| self.cluster.group(*shard)) {
                out.send(Party::Replica(replica), decision(finishing));
            }
        }
    }
}

fn decision<O: OneShot>(finishing: &Finishing) -> Message<O> {
    Message::Decision {
        age: finishing.age,
        attempt: finishing.attempt,
        commit: Some(finishing.reads.clone()),
    }
}

impl<O: OneShot> machine::Client for Client<O> {
    type Message = Message<O>;
    type Operation = O;

    fn begin(&mut self, now_ms: u64, operation: O, out: &mut Out<O>) -> TxnId {
        let txn = TxnId { coordinator: self.id, sequence: self.next_sequence };
        let floor = self.floor();
        self.next_sequence += 1;
        let participants = operation.participants(self.placement);
        let in_flight = InFlight {
            request: Arc::new(Request { txn, attempt: 0, begun_ms: now_ms, floor, operation }),
            participants,
            sent_to: BTreeMap::new(),
            prepared: BTreeMap::new(),
            resend: Resend::sent(now_ms, self.cluster.timeouts.resend_ms),
            is_pausing: false,
        };
        self.in_flight.insert(txn.sequence, in_flight);
        self.send_unanswered(txn.sequence, false, out);
        txn
    }

    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Message<O>,
        out: &mut Out<O>,
    ) -> Option<Completed<O>> {
        let Party::Replica(ReplicaId { shard, .. }) = from else { return None };
        match message {
            Message::Prepared { txn, attempt, answer, reads } => {
                let is_current = |each: &InFlight<O>| each.request.attempt == attempt;
                self.in_flight.get(&txn.sequence).filter(|each| is_current(each))?;
                return self.on_prepared(now_ms, shard, txn.sequence, (answer, reads), out);
            }
            Message::Committed { txn, answer, reads } => {
                return self.on_prepared(now_ms, shard, txn.sequence, (answer, reads), out);
            }
            Message::Refused { txn, attempt, view } => {
                self.on_refused(now_ms, shard, (txn.sequence, attempt), view, out);
            }
            Message::NewView { view } => self.on_new_view(shard, view, out),
            Message::Finished { txn } => {
                if let Some(finishing) = self.finishing.get_mut(&txn.sequence) {
                    finishing.unaware.remove(&shard);
                    if finishing.unaware.is_empty() {
                        self.finishing.remove(&txn.sequence);
                    }
                }
            }
            _ => {}
        }
        None
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out<O>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        let mut due = Vec::new();
        for (sequence, each) in &mut self.in_flight {
            if each.resend.is_due(now_ms, resend_ms) {
                let is_first = std::mem::replace(&mut each.is_pausing, false);
                due.push((*sequence, !is_first));
            }
        }
        due.into_iter().for_each(|(sequence, is_to_all)| self.send_unanswered(sequence, is_to_all, out));
        self.repeat_decisions(now_ms, out);
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
}
