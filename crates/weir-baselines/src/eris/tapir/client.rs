//! The client: reads, proposes a timestamp, and coordinates two-phase commit. It learns the outcome from the votes of all replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, TxnId};
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::View;

use super::super::application::OneShot;
use super::super::faults::Faults;
use super::super::machine::{self, Completed, Effects};
use super::super::operation::{Key, Operation, Placement, Value};
use super::super::retry::{Resend, pause_ms};
use super::tally::{Quorums, Tally};
use super::{AttemptId, COUNTER_BITS, Message, Request, Timestamp, Verdict, Versioned, Vote};

/// The client waits for a fast quorum this part of an interval between repetitions, and then takes the slow path.
const FAST_PARTS: u64 = 5;

/// A client.
#[derive(Clone, Debug)]
pub struct Client<F, O: OneShot = Operation> {
    id: CoordinatorId,
    cluster: Cluster,
    placement: Placement,
    faults: F,
    next_sequence: u64,
    /// The last clock that it has proposed.
    clock: u64,
    in_flight: BTreeMap<u64, InFlight<F, O>>,
    /// Committed transactions that some replicas have not acknowledged.
    finishing: BTreeMap<u64, Finishing<O>>,
    /// Shards that have entries of transactions below the floor, which was not told to them yet.
    floor_untold: BTreeMap<ShardId, u64>,
    floor_sent_ms: u64,
}

#[derive(Clone, Debug)]
struct InFlight<F, O: OneShot> {
    operation: O,
    attempt: u32,
    /// Answers of replicas that execute the operation themselves, with the versions that were read.
    answers: BTreeMap<ShardId, O::Answer>,
    phase: Phase<F, O>,
    resend: Resend,
}

#[derive(Clone, Debug)]
enum Phase<F, O: OneShot> {
    /// The next attempt begins when the transaction is due.
    Pausing,
    Reading {
        values: BTreeMap<Key, (Value, Timestamp)>,
        /// How often reads were sent: each time to another replica.
        rounds: u64,
    },
    Preparing {
        request: Arc<Request<O>>,
        sent_ms: u64,
        tallies: BTreeMap<ShardId, Tally<F>>,
        /// Shards that are asked to accept a verdict, with the view.
        proposed: BTreeMap<ShardId, (View, Verdict)>,
    },
    /// Committed, and answered once the clock has reached the timestamp.
    Waiting { request: Arc<Request<O>> },
}

#[derive(Clone, Debug)]
struct Finishing<O: OneShot> {
    request: Arc<Request<O>>,
    unaware: BTreeSet<ReplicaId>,
    resend: Resend,
}

type Out<O> = Effects<Message<O>>;

/// Keys that an operation reads, by their shards; none that reads nothing.
fn keys_read<O: OneShot>(operation: &O, placement: Placement) -> BTreeMap<ShardId, Vec<Key>> {
    let participants = operation.participants(placement).into_iter();
    let keys = participants.map(|shard| (shard, operation.keys_read_at(shard, placement)));
    keys.filter(|(_, keys)| !keys.is_empty()).collect()
}

impl<F: Faults, O: OneShot> Client<F, O> {
    pub fn new(id: CoordinatorId, cluster: Cluster, faults: F) -> Self {
        Client {
            id,
            cluster,
            placement: Placement { shards: cluster.shards },
            faults,
            next_sequence: 1,
            clock: 0,
            in_flight: BTreeMap::new(),
            finishing: BTreeMap::new(),
            floor_untold: BTreeMap::new(),
            floor_sent_ms: 0,
        }
    }

    fn attempt_id(&self, sequence: u64, attempt: u32) -> AttemptId {
        AttemptId { txn: TxnId { coordinator: self.id, sequence }, attempt }
    }

    /// Transactions with lower sequences are committed at all replicas of all their participants.
    fn floor(&self) -> u64 {
        let first = |keys: Option<&u64>| keys.copied().unwrap_or(self.next_sequence);
        first(self.in_flight.keys().next()).min(first(self.finishing.keys().next()))
    }

    fn replicas_of(&self, operation: &O) -> Vec<ReplicaId> {
        let participants = operation.participants(self.placement).into_iter();
        participants.flat_map(|shard| self.cluster.group(shard)).collect()
    }

    /// Begins an attempt: reads, if there is anything to be read.
    fn begin_attempt(&mut self, now_ms: u64, sequence: u64, out: &mut Out<O>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        let Some(in_flight) = self.in_flight.get_mut(&sequence) else { return };
        in_flight.resend = Resend::sent(now_ms, resend_ms);
        in_flight.phase = Phase::Reading { values: BTreeMap::new(), rounds: 0 };
        in_flight.answers.clear();
        if keys_read(&in_flight.operation, self.placement).is_empty() {
            self.prepare(now_ms, sequence, Vec::new(), None, out);
        } else {
            self.send_reads(sequence, out);
        }
    }

    /// Asks one replica of each shard for what is missing, and another one the next time: one that is behind has old values until it hears of
    /// the new ones.
    fn send_reads(&mut self, sequence: u64, out: &mut Out<O>) {
        let id = self.id;
        let Some(in_flight) = self.in_flight.get_mut(&sequence) else { return };
        let Phase::Reading { values, rounds } = &mut in_flight.phase else { return };
        let number =
            (id + sequence + u64::from(in_flight.attempt) + *rounds) % u64::from(self.cluster.replicas);
        *rounds += 1;
        let mut missing = keys_read(&in_flight.operation, self.placement);
        missing.values_mut().for_each(|keys| keys.retain(|key| !values.contains_key(key)));
        let attempt = in_flight.attempt;
        let operation = O::IS_REPLAYED.then(|| in_flight.operation.clone());
        for (shard, keys) in missing.into_iter().filter(|(_, keys)| !keys.is_empty()) {
            let replica = ReplicaId { shard, number: number as u16 };
            let id = self.attempt_id(sequence, attempt);
            out.send(Party::Replica(replica), Message::Read { id, keys, operation: operation.clone() });
        }
    }

    fn on_read_reply(
        &mut self,
        now_ms: u64,
        (shard, id): (ShardId, AttemptId),
        (read, answer): (Versioned, Option<O::Answer>),
        out: &mut Out<O>,
    ) {
        let sequence = id.txn.sequence;
        let Some(in_flight) = self.in_flight.get_mut(&sequence).filter(|each| each.attempt == id.attempt)
        else {
            return;
        };
        let Phase::Reading { values, .. } = &mut in_flight.phase else { return };
        if read.iter().any(|(key, ..)| values.contains_key(key)) {
            return;
        }
        values.extend(read.into_iter().map(|(key, value, version)| (key, (value, version))));
        in_flight.answers.extend(answer.map(|answer| (shard, answer)));
        let all = keys_read(&in_flight.operation, self.placement);
        if all.values().flatten().all(|key| values.contains_key(key)) {
            let reads = values.iter().map(|(key, (value, version))| (*key, *value, *version)).collect();
            self.prepare(now_ms, sequence, reads, None, out);
        }
    }

    /// Proposes a timestamp above everything that was read and all that it has proposed, not behind the clock.
    fn prepare(
        &mut self,
        now_ms: u64,
        sequence: u64,
        reads: Versioned,
        above: Option<Timestamp>,
        out: &mut Out<O>,
    ) {
        let versions = reads.iter().map(|(.., version)| *version).chain(above);
        let highest = versions.map(|version| version.clock).max().unwrap_or(0).max(self.clock);
        self.clock = (now_ms << COUNTER_BITS).max(highest + 1);
        let (floor, at) = (self.floor(), Timestamp { clock: self.clock, client: self.id });
        let (quorums, faults) = (Quorums { replicas: usize::from(self.cluster.replicas) }, self.faults);
        let (client, resend_ms) = (self.id, self.cluster.timeouts.resend_ms);
        let Some(in_flight) = self.in_flight.get_mut(&sequence) else { return };
        let id = AttemptId { txn: TxnId { coordinator: client, sequence }, attempt: in_flight.attempt };
        let operation = in_flight.operation.clone();
        let participants = operation.participants(self.placement);
        let request = Arc::new(Request { id, floor, at, operation, reads });
        let tally = |shard| (shard, Tally::new(quorums, faults));
        in_flight.phase = Phase::Preparing {
            request: request.clone(),
            sent_ms: now_ms,
            tallies: participants.into_iter().map(tally).collect(),
            proposed: BTreeMap::new(),
        };
        in_flight.resend = Resend::sent(now_ms, resend_ms);
        for replica in self.replicas_of(&request.operation) {
            out.send(Party::Replica(replica), Message::Prepare(request.clone()));
        }
    }

    fn on_vote(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        id: AttemptId,
        vote: Vote,
        out: &mut Out<O>,
    ) -> Option<Completed<O>> {
        let sequence = id.txn.sequence;
        let in_flight = self.in_flight.get_mut(&sequence).filter(|each| each.attempt == id.attempt)?;
        let Phase::Preparing { tallies, .. } = &mut in_flight.phase else { return None };
        tallies.get_mut(&from.shard)?.note(from.number, vote);
        self.try_decide(now_ms, sequence, false, out)
    }

    /// Commits once all shards are prepared for ever, and aborts once one has refused for ever; else takes the slow path where it must.
    fn try_decide(
        &mut self,
        now_ms: u64,
        sequence: u64,
        is_late: bool,
        out: &mut Out<O>,
    ) -> Option<Completed<O>> {
        let in_flight = self.in_flight.get_mut(&sequence)?;
        let Phase::Preparing { request, tallies, proposed, .. } = &mut in_flight.phase else { return None };
        let decided: Vec<_> = tallies.values().map(Tally::decided).collect();
        let request = request.clone();
        if decided.contains(&Some(false)) {
            self.abort(now_ms, &request, out);
        } else if decided.iter().all(|shard| *shard == Some(true)) {
            return self.commit(now_ms, &request, out);
        } else {
            for (shard, tally) in tallies.iter().filter(|(_, tally)| tally.decided().is_none()) {
                let Some((view, verdict)) = tally.proposal(is_late) else { continue };
                let is_new = proposed.get(shard).is_none_or(|(before, _)| *before < view);
                if is_new {
                    proposed.insert(*shard, (view, verdict));
                    send_finalize(self.cluster, *shard, &request, (view, verdict), out);
                }
            }
        }
        None
    }

    /// The attempt has failed. What it has read is proposed again above a higher timestamp if that is all that a shard objects to (RETRY).
    fn abort(&mut self, now_ms: u64, request: &Arc<Request<O>>, out: &mut Out<O>) {
        let AttemptId { txn, attempt } = request.id;
        let resend_ms = self.cluster.timeouts.resend_ms;
        let Some(in_flight) = self.in_flight.get_mut(&txn.sequence) else { return };
        let mut retry_above = None;
        if let Phase::Preparing { tallies, .. } = &in_flight.phase {
            let refused: Vec<_> = tallies.values().filter(|tally| tally.decided() != Some(true)).collect();
            if refused.iter().all(|tally| tally.retry_above().is_some()) {
                retry_above = refused.iter().filter_map(|tally| tally.retry_above()).max();
            }
        }
        in_flight.attempt = attempt + 1;
        in_flight.phase = Phase::Pausing;
        in_flight.resend = Resend::after_pause(now_ms + pause_ms(txn, attempt), resend_ms);
        if retry_above.is_some() {
            // A Prepare of the next attempt aborts this one.
            return self.prepare(now_ms, txn.sequence, request.reads.clone(), retry_above, out);
        }
        for replica in self.replicas_of(&request.operation) {
            out.send(Party::Replica(replica), Message::Decide { request: request.clone(), commits: false });
        }
    }

    fn commit(&mut self, now_ms: u64, request: &Arc<Request<O>>, out: &mut Out<O>) -> Option<Completed<O>> {
        let sequence = request.id.txn.sequence;
        let replicas = self.replicas_of(&request.operation);
        for replica in &replicas {
            out.send(Party::Replica(*replica), Message::Decide { request: request.clone(), commits: true });
        }
        let resend = Resend::sent(now_ms, self.cluster.timeouts.resend_ms);
        let finishing =
            Finishing { request: request.clone(), unaware: replicas.into_iter().collect(), resend };
        self.finishing.insert(sequence, finishing);
        if let Some(in_flight) = self.in_flight.get_mut(&sequence) {
            in_flight.phase = Phase::Waiting { request: request.clone() };
        }
        self.try_answer(now_ms, sequence)
    }

    /// The answer waits until no transaction that begins afterwards can have a lower timestamp, if clocks agree.
    fn try_answer(&mut self, now_ms: u64, sequence: u64) -> Option<Completed<O>> {
        let Phase::Waiting { request } = &self.in_flight.get(&sequence)?.phase else { return None };
        if request.at.clock >> COUNTER_BITS > now_ms {
            return None;
        }
        let request = request.clone();
        let mut told = self.in_flight.remove(&sequence)?.answers;
        let read = |key| request.reads.iter().find(|(of, ..)| *of == key).map_or(0, |(_, value, _)| *value);
        let answer = |shard| {
            let part = request.operation.part_from(shard, self.placement, &read);
            Some((shard, part.map(|part| part.answer).or_else(|| told.remove(&shard))?))
        };
        let answers = request.operation.participants(self.placement).into_iter().filter_map(answer).collect();
        Some(Completed { txn: request.id.txn, begun: request.id.txn, answers, aborts: request.id.attempt })
    }

    /// A replica has an outcome: it acknowledges that of the client, or tells what a backup coordinator has found.
    fn on_decided(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        id: AttemptId,
        commits: bool,
        out: &mut Out<O>,
    ) -> Option<Completed<O>> {
        let sequence = id.txn.sequence;
        if commits && let Some(finishing) = self.finishing.get_mut(&sequence) {
            finishing.unaware.remove(&from);
            if finishing.unaware.is_empty() {
                self.forget(sequence);
            }
            return self.try_answer(now_ms, sequence);
        }
        let in_flight = self.in_flight.get(&sequence).filter(|each| each.attempt == id.attempt)?;
        let Phase::Preparing { request, .. } = &in_flight.phase else {
            return self.try_answer(now_ms, sequence);
        };
        let request = request.clone();
        if commits {
            return self.commit(now_ms, &request, out);
        }
        self.abort(now_ms, &request, out);
        None
    }

    fn forget(&mut self, sequence: u64) {
        if let Some(finishing) = self.finishing.remove(&sequence) {
            for shard in finishing.request.operation.participants(self.placement) {
                self.floor_untold.insert(shard, sequence);
            }
        }
    }

    /// Shards that hear nothing else of the client hear its floor.
    fn tell_floor(&mut self, now_ms: u64, out: &mut Out<O>) {
        if now_ms < self.floor_sent_ms + self.cluster.timeouts.resend_ms {
            return;
        }
        self.floor_sent_ms = now_ms;
        let floor = self.floor();
        let (told, untold) =
            std::mem::take(&mut self.floor_untold).into_iter().partition(|(_, last)| *last < floor);
        self.floor_untold = untold;
        let told: BTreeMap<ShardId, u64> = told;
        for replica in told.into_keys().flat_map(|shard| self.cluster.group(shard)) {
            out.send(Party::Replica(replica), Message::Floor(floor));
        }
    }

    /// Sends again what is not answered.
    fn repeat(&mut self, now_ms: u64, sequence: u64, out: &mut Out<O>) {
        let Some(in_flight) = self.in_flight.get(&sequence) else { return };
        match &in_flight.phase {
            Phase::Pausing => self.begin_attempt(now_ms, sequence, out),
            Phase::Reading { .. } => self.send_reads(sequence, out),
            Phase::Preparing { request, tallies, proposed, .. } => {
                for (shard, tally) in tallies.iter().filter(|(_, tally)| tally.decided().is_none()) {
                    for replica in self.cluster.group(*shard) {
                        out.send(Party::Replica(replica), Message::Prepare(request.clone()));
                    }
                    match proposed.get(shard).filter(|(view, _)| Some(*view) == tally.view()) {
                        Some(proposal) => send_finalize(self.cluster, *shard, request, *proposal, out),
                        None => send_query(self.cluster, *shard, request, tally.unclear(), out),
                    }
                }
            }
            // The acknowledgement answers the transaction.
            Phase::Waiting { request } => {
                for replica in self.replicas_of(&request.operation) {
                    let decide = Message::Decide { request: request.clone(), commits: true };
                    out.send(Party::Replica(replica), decide);
                }
            }
        }
    }

    fn repeat_outcomes(&mut self, now_ms: u64, out: &mut Out<O>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        for finishing in self.finishing.values_mut() {
            if finishing.resend.is_due(now_ms, resend_ms) {
                for replica in &finishing.unaware {
                    let decide = Message::Decide { request: finishing.request.clone(), commits: true };
                    out.send(Party::Replica(*replica), decide);
                }
            }
        }
    }
}

/// Asks for a view change if votes decide nothing, and no verdict may be proposed.
fn send_query<O: OneShot>(
    cluster: Cluster,
    shard: ShardId,
    request: &Arc<Request<O>>,
    unclear_in: Option<View>,
    out: &mut Out<O>,
) {
    if unclear_in.is_some() {
        for replica in cluster.group(shard) {
            out.send(Party::Replica(replica), Message::Query { request: request.clone(), unclear_in });
        }
    }
}

fn send_finalize<O: OneShot>(
    cluster: Cluster,
    shard: ShardId,
    request: &Arc<Request<O>>,
    (view, verdict): (View, Verdict),
    out: &mut Out<O>,
) {
    for replica in cluster.group(shard) {
        out.send(Party::Replica(replica), Message::Finalize { request: request.clone(), view, verdict });
    }
}

impl<F: Faults, O: OneShot> machine::Client for Client<F, O> {
    type Message = Message<O>;
    type Operation = O;

    fn begin(&mut self, now_ms: u64, operation: O, out: &mut Out<O>) -> TxnId {
        let txn = TxnId { coordinator: self.id, sequence: self.next_sequence };
        self.next_sequence += 1;
        let resend = Resend::sent(now_ms, self.cluster.timeouts.resend_ms);
        let in_flight =
            InFlight { operation, attempt: 0, answers: BTreeMap::new(), phase: Phase::Pausing, resend };
        self.in_flight.insert(txn.sequence, in_flight);
        self.begin_attempt(now_ms, txn.sequence, out);
        txn
    }

    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Message<O>,
        out: &mut Out<O>,
    ) -> Option<Completed<O>> {
        let Party::Replica(from) = from else { return None };
        match message {
            Message::ReadReply { id, values, answer } => {
                self.on_read_reply(now_ms, (from.shard, id), (values, answer), out);
            }
            Message::Vote { id, vote } => return self.on_vote(now_ms, from, id, vote, out),
            Message::Decided { id, commits } => return self.on_decided(now_ms, from, id, commits, out),
            _ => {}
        }
        None
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out<O>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        let sequences: Vec<_> = self.in_flight.keys().copied().collect();
        for sequence in sequences {
            let Some(in_flight) = self.in_flight.get_mut(&sequence) else { continue };
            if let Phase::Preparing { sent_ms, .. } = in_flight.phase
                && now_ms >= sent_ms + resend_ms / FAST_PARTS
            {
                self.try_decide(now_ms, sequence, true, out);
            }
            let Some(in_flight) = self.in_flight.get_mut(&sequence) else { continue };
            if in_flight.resend.is_due(now_ms, resend_ms) {
                self.repeat(now_ms, sequence, out);
            }
        }
        self.repeat_outcomes(now_ms, out);
        self.tell_floor(now_ms, out);
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
}
