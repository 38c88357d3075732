//! A replica of a shard. The leader locks, prepares, and finishes what clients have left.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::{ShardId, TxnId};
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::{Index, View};

use super::super::application::{Application, OneShot};
use super::super::faults::Faults;
use super::super::machine::{self, Effects};
use super::super::operation::{Placement, Reads, Registers};
use super::super::vr::Vr;
use super::super::vr::leader::Leader;
use super::locks::{Admission, Locks};
use super::state::{Phase, State, TxnState};
use super::{Age, Entry, Message, Record, Request, Vote};

/// A prepared transaction whose client says nothing for so many intervals between repetitions is finished by its participants.
const SILENT_INTERVALS: u64 = 20;

/// A replica of a shard.
#[derive(Clone, Debug)]
pub struct Server<F, A: Application = Registers> {
    id: ReplicaId,
    cluster: Cluster,
    placement: Placement,
    faults: F,
    vr: Vr<Entry<A::Operation>, F>,
    state: State<A>,
    /// The rest is the leader's, and begins anew with each view.
    leader: Leader<Message<A::Operation>>,
    locks: Locks<A::Operation>,
    /// Attempts refused in this view, but for those in the state.
    refused: BTreeMap<TxnId, u32>,
    votes: BTreeMap<TxnId, BTreeMap<ShardId, Reads>>,
}

type Out<O> = Effects<Message<O>>;

impl<F: Faults, A: Application> Server<F, A> {
    /// `start`: how often it has started.
    pub fn new(
        (now_ms, start): (u64, u64),
        id: ReplicaId,
        cluster: Cluster,
        faults: F,
        application: A,
        records: &[Record<A::Operation>],
    ) -> Self {
        let placement = Placement { shards: cluster.shards };
        Server {
            id,
            cluster,
            placement,
            faults,
            vr: Vr::new(now_ms, id, cluster, faults, start, records.iter().cloned()),
            state: State::new(application),
            leader: Leader::default(),
            locks: Locks::default(),
            refused: BTreeMap::new(),
            votes: BTreeMap::new(),
        }
    }

    fn on_request(
        &mut self,
        from: Party,
        view: View,
        request: &Arc<Request<A::Operation>>,
        out: &mut Out<A::Operation>,
    ) {
        if view != self.vr.view() || !self.vr.is_leader() {
            if view < self.vr.view() {
                out.send(from, Message::NewView { view: self.vr.view() });
            }
            return;
        }
        if self.state.is_over(request.txn) {
            return;
        }
        let known = self.state.txn(request.txn).cloned();
        match known {
            Some(TxnState { phase: Phase::Committed { answer, reads }, index, .. }) => {
                return self.tell(index, from, Message::Committed { txn: request.txn, answer, reads }, out);
            }
            Some(TxnState { attempt, .. }) if attempt > request.attempt => return,
            Some(TxnState { attempt, phase: Phase::Refused, index }) if attempt == request.attempt => {
                return self.tell(index, from, self.refusal(request), out);
            }
            Some(TxnState { attempt, index, phase: Phase::Prepared { answer, reads, .. } }) => {
                if attempt == request.attempt {
                    let message = Message::Prepared { txn: request.txn, attempt, answer, reads };
                    return self.tell(index, from, message, out);
                }
                // The client goes on with the next attempt, so it has given this one up.
                self.finish(request.txn, attempt, None, out);
            }
            _ => {}
        }
        if self.refused.get(&request.txn).is_some_and(|attempt| *attempt >= request.attempt) {
            return out.send(from, self.refusal(request));
        }
        match self.locks.waiting_attempt(request.age()) {
            Some(attempt) if attempt >= request.attempt => return,
            Some(_) => self.locks.stop_waiting(request.age()),
            None => {}
        }
        self.admit(request, out);
    }

    fn refusal(&self, request: &Request<A::Operation>) -> Message<A::Operation> {
        Message::Refused { txn: request.txn, attempt: request.attempt, view: self.vr.view() }
    }

    /// Prepares or executes a request, or lets it wait, or refuses it.
    fn admit(&mut self, request: &Arc<Request<A::Operation>>, out: &mut Out<A::Operation>) {
        let accesses = request.operation.accesses_at(self.id.shard, self.placement).collect();
        let is_single = request.operation.participants(self.placement).len() == 1;
        match self.locks.admit(request, &accesses, is_single) {
            Admission::Granted if is_single => self.propose(Entry::Executed(request.clone()), out),
            Admission::Granted => self.propose(Entry::Prepared(request.clone()), out),
            Admission::Refused => self.refuse(request, out),
            Admission::Waits => {}
        }
    }

    fn refuse(&mut self, request: &Request<A::Operation>, out: &mut Out<A::Operation>) {
        self.refused.insert(request.txn, request.attempt);
        out.send(Party::Client(request.txn.coordinator), self.refusal(request));
    }

    /// Appends an entry, executes it, and does what a leader does with it.
    fn propose(&mut self, entry: Entry<A::Operation>, out: &mut Out<A::Operation>) {
        let index = self.vr.propose(entry.clone());
        self.state.execute(&entry);
        assert_eq!(self.state.executed(), index, "a leader has executed its log");
        match entry {
            Entry::Executed(request) => {
                self.refused.remove(&request.txn);
                if let Some(TxnState { phase: Phase::Committed { answer, .. }, .. }) =
                    self.state.txn(request.txn)
                {
                    let message =
                        Message::Committed { txn: request.txn, answer: answer.clone(), reads: Vec::new() };
                    self.tell(index, Party::Client(request.txn.coordinator), message, out);
                }
            }
            Entry::Prepared(request) => self.on_prepared(index, &request, out),
            Entry::Finished { txn, .. } => {
                self.leader.forget(txn);
                self.votes.remove(&txn);
                for woken in self.locks.release(txn) {
                    self.admit(&woken, out);
                }
            }
            Entry::Refused(_) => {}
        }
    }

    fn on_prepared(
        &mut self,
        index: Index,
        request: &Arc<Request<A::Operation>>,
        out: &mut Out<A::Operation>,
    ) {
        let (txn, attempt) = (request.txn, request.attempt);
        self.refused.remove(&txn);
        if !self.faults.releases_at_prepare() {
            self.lock(request, out);
        }
        if let Some(TxnState { phase: Phase::Prepared { answer, reads, .. }, .. }) = self.state.txn(txn) {
            let message = Message::Prepared { txn, attempt, answer: answer.clone(), reads: reads.clone() };
            self.tell(index, Party::Client(txn.coordinator), message, out);
        }
    }

    fn lock(&mut self, request: &Arc<Request<A::Operation>>, out: &mut Out<A::Operation>) {
        let accesses = request.operation.accesses_at(self.id.shard, self.placement).collect();
        for younger in self.locks.hold(request, accesses) {
            self.refuse(&younger, out);
        }
    }

    fn finish(&mut self, txn: TxnId, attempt: u32, commit: Option<Reads>, out: &mut Out<A::Operation>) {
        self.propose(Entry::Finished { txn, attempt, commit }, out);
    }

    fn tell(&mut self, index: Index, to: Party, message: Message<A::Operation>, out: &mut Out<A::Operation>) {
        self.leader.tell(&self.vr, index, to, message, out);
    }

    fn on_decision(
        &mut self,
        from: Party,
        (age, attempt): (Age, u32),
        commit: Option<Reads>,
        out: &mut Out<A::Operation>,
    ) {
        if !self.vr.is_leader() {
            return;
        }
        let txn = age.1;
        let is_commit = commit.is_some();
        match self.state.txn(txn).map(|state| (state.attempt, &state.phase)) {
            Some((prepared, Phase::Prepared { .. })) if prepared == attempt => {
                self.finish(txn, attempt, commit, out);
            }
            _ if !is_commit && self.locks.waiting_attempt(age) == Some(attempt) => {
                self.locks.stop_waiting(age)
            }
            _ => {}
        }
        let committed = self.state.txn(txn).filter(|state| matches!(state.phase, Phase::Committed { .. }));
        match committed.map(|state| state.index) {
            Some(index) if is_commit => self.tell(index, from, Message::Finished { txn }, out),
            None if is_commit && self.state.is_over(txn) => out.send(from, Message::Finished { txn }),
            _ => {}
        }
    }

    /// Another participant is prepared and wants to know what becomes of the attempt.
    fn on_query(&mut self, from: Party, request: &Arc<Request<A::Operation>>, out: &mut Out<A::Operation>) {
        if !self.vr.is_leader() || self.state.is_over(request.txn) {
            return;
        }
        let (txn, attempt) = (request.txn, request.attempt);
        let known = self.state.txn(txn).cloned();
        let (index, vote) = match known {
            Some(TxnState { phase: Phase::Committed { reads, .. }, index, .. }) => {
                (index, Vote::Prepared(reads))
            }
            Some(TxnState { attempt: known, index, phase: Phase::Prepared { reads, .. } })
                if known == attempt =>
            {
                (index, Vote::Prepared(reads))
            }
            Some(TxnState { attempt: known, index, phase }) if known >= attempt => {
                debug_assert!(known > attempt || matches!(phase, Phase::Refused));
                (index, Vote::Refused)
            }
            known => {
                if let Some(TxnState { attempt, phase: Phase::Prepared { .. }, .. }) = known {
                    self.finish(txn, attempt, None, out);
                }
                self.locks.stop_waiting(request.age());
                self.propose(Entry::Refused(request.clone()), out);
                (self.state.executed(), Vote::Refused)
            }
        };
        self.tell(index, from, Message::Vote { txn, attempt, vote }, out);
    }

    fn on_vote(
        &mut self,
        from: ReplicaId,
        (txn, attempt): (TxnId, u32),
        vote: Vote,
        out: &mut Out<A::Operation>,
    ) {
        let Some(TxnState { attempt: prepared, phase: Phase::Prepared { request, reads, .. }, .. }) =
            self.state.txn(txn)
        else {
            return;
        };
        if *prepared != attempt || !self.vr.is_leader() {
            return;
        }
        let participants = request.operation.participants(self.placement);
        match vote {
            Vote::Refused => self.finish(txn, attempt, None, out),
            Vote::Prepared(others) => {
                let own = reads.clone();
                let votes = self.votes.entry(txn).or_default();
                votes.insert(from.shard, others);
                if participants.iter().all(|shard| *shard == self.id.shard || votes.contains_key(shard)) {
                    let all = votes.values().flatten().copied().chain(own).collect();
                    self.finish(txn, attempt, Some(all), out);
                }
            }
        }
    }

    /// Asks the other participants about prepared transactions whose clients are silent.
    fn ask_about_silent(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        let silent_ms = SILENT_INTERVALS * self.cluster.timeouts.resend_ms;
        let prepared: Vec<_> = self.state.prepared().cloned().collect();
        for request in prepared {
            if !self.leader.is_due(request.txn, now_ms, silent_ms) {
                continue;
            }
            if self.faults.terminates_alone() {
                self.finish(request.txn, request.attempt, Some(Vec::new()), out);
                continue;
            }
            let participants = request.operation.participants(self.placement).into_iter();
            let others = participants.filter(|shard| *shard != self.id.shard);
            for replica in others.flat_map(|shard| self.cluster.group(shard)) {
                out.send(Party::Replica(replica), Message::Query(request.clone()));
            }
        }
    }

    /// Executes what may be executed, and sends what has waited for it.
    fn settle(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        if let Some(to) = self.vr.take_replaced() {
            self.state.roll_back(to);
        }
        let up_to = if self.vr.is_leader() { self.vr.log().end() } else { self.vr.commit() };
        while self.state.executed() < up_to {
            let Some(entry) = self.vr.log().get(self.state.executed() + 1) else { break };
            self.state.execute(entry);
        }
        if self.leader.changes(&self.vr) {
            self.begin_view(out);
        }
        self.vr.flush(now_ms, out);
        let commit = self.vr.commit();
        self.state.forget(commit);
        self.vr.forget(self.state.executed());
        self.leader.release(&self.vr, out);
    }

    /// Forgets what it knew as a leader. A new leader holds the locks of all prepared transactions.
    fn begin_view(&mut self, out: &mut Out<A::Operation>) {
        self.locks.clear();
        self.refused.clear();
        self.votes.clear();
        if self.leader.view().is_some() && !self.faults.forgets_prepared() {
            let prepared: Vec<_> = self.state.prepared().cloned().collect();
            prepared.iter().for_each(|request| self.lock(request, out));
        }
    }
}

impl<F: Faults, A: Application> machine::Server for Server<F, A> {
    type Message = Message<A::Operation>;
    type Record = Record<A::Operation>;
    type Values = A::Snapshot;

    fn step(
        &mut self,
        now_ms: u64,
        from: Party,
        message: Message<A::Operation>,
        out: &mut Out<A::Operation>,
    ) {
        if self.vr.is_leader() && self.leader.view().is_none() {
            self.settle(now_ms, out);
        }
        match (from, message) {
            (Party::Replica(id), Message::Replication(message)) => self.vr.step(now_ms, id, message, out),
            (Party::Client(_), Message::Request { view, request }) => {
                self.on_request(from, view, &request, out)
            }
            (Party::Client(_), Message::Decision { age, attempt, commit }) => {
                self.on_decision(from, (age, attempt), commit, out);
            }
            (Party::Replica(_), Message::Query(request)) => self.on_query(from, &request, out),
            (Party::Replica(id), Message::Vote { txn, attempt, vote }) => {
                self.on_vote(id, (txn, attempt), vote, out);
            }
            _ => {}
        }
        self.settle(now_ms, out);
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        self.vr.on_timer(now_ms, out);
        if self.vr.is_leader() && self.leader.view() == Some(self.vr.view()) {
            self.ask_about_silent(now_ms, out);
        }
        self.settle(now_ms, out);
    }

    fn take_records(&mut self) -> Vec<Record<A::Operation>> {
        self.vr.take_records()
    }

    fn is_leader(&self) -> bool {
        self.vr.is_leader()
    }

    fn at_rest(&self) -> Option<Index> {
        self.vr.at_rest(self.state.executed()).filter(|_| self.state.prepared().count() == 0)
    }

    fn values(&self) -> Option<A::Snapshot> {
        Some(self.state.application.snapshot())
    }
}
