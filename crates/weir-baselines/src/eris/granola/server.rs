//! A replica of a shard. The leader proposes timestamps, collects votes, and gives transactions their turns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_core::ids::{ShardId, Timestamp, TxnId};
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::{Index, View};

use super::super::application::{Application, OneShot};
use super::super::faults::Faults;
use super::super::machine::{self, Effects};
use super::super::operation::{Placement, Reads, Registers};
use super::super::vr::Vr;
use super::super::vr::leader::Leader;
use super::state::{Phase, Progress, State, TxnState};
use super::{Entry, Message, Record, Request};

/// A timestamp's clock is milliseconds above a counter of so many bits.
const COUNTER_BITS: u32 = 16;
/// Leaders tell each other after so many intervals between repetitions what they will not ask about.
const STABLE_INTERVALS: u64 = 4;

/// A replica of a shard.
#[derive(Clone, Debug)]
pub struct Server<F, A: Application = Registers> {
    id: ReplicaId,
    cluster: Cluster,
    placement: Placement,
    faults: F,
    vr: Vr<Entry<A::Operation>, F>,
    state: State<A>,
    /// Views of other shards, as far as it has heard.
    views: BTreeMap<ShardId, View>,
    /// The rest is the leader's, and begins anew with each view.
    leader: Leader<Message<A::Operation>>,
    /// Transactions that have not had their turns, by their final timestamps, or by the proposals of this shard while votes are missing.
    pending: BTreeMap<Timestamp, TxnId>,
    /// Votes of other participants of transactions that have not had their turns, or are not known here yet.
    votes: BTreeMap<TxnId, BTreeMap<ShardId, Timestamp>>,
    reads: BTreeMap<TxnId, BTreeMap<ShardId, Reads>>,
    /// Highest timestamp that was seen in a vote.
    highest_vote: Timestamp,
    /// Transactions that an earlier leader may have executed, and the participants that have not said whether they had voted.
    unresolved: BTreeMap<TxnId, BTreeSet<ShardId>>,
    /// Requests that wait until nothing is unresolved.
    waiting: BTreeMap<TxnId, Arc<Request<A::Operation>>>,
    /// Executed transactions whose answers wait for a lease.
    untold: Vec<TxnId>,
    /// Entries with which transactions had their turns or were executed, which are not committed.
    uncommitted: BTreeMap<Index, Timestamp>,
    /// Other shards ask nothing about transactions below.
    stable: BTreeMap<ShardId, Timestamp>,
    stable_sent_ms: u64,
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
        let vr = Vr::new(now_ms, id, cluster, faults, start, records.iter().cloned());
        Server {
            id,
            cluster,
            placement,
            faults,
            vr: vr.with_lease(cluster.timeouts.learner_ms),
            state: State::new(application),
            views: BTreeMap::new(),
            leader: Leader::default(),
            pending: BTreeMap::new(),
            votes: BTreeMap::new(),
            reads: BTreeMap::new(),
            highest_vote: Timestamp::default(),
            unresolved: BTreeMap::new(),
            waiting: BTreeMap::new(),
            untold: Vec::new(),
            uncommitted: BTreeMap::new(),
            stable: BTreeMap::new(),
            stable_sent_ms: now_ms,
        }
    }

    fn others(&self, request: &Request<A::Operation>) -> Vec<ShardId> {
        let participants = request.operation.participants(self.placement).into_iter();
        participants.filter(|shard| *shard != self.id.shard).collect()
    }

    fn leader_of(&self, shard: ShardId) -> Party {
        let view = self.views.get(&shard).copied().unwrap_or(0);
        Party::Replica(self.cluster.learner(shard, view))
    }

    fn on_request(&mut self, now_ms: u64, request: &Arc<Request<A::Operation>>, out: &mut Out<A::Operation>) {
        if self.is_forgotten(request.txn) {
            return;
        }
        match self.state.txn(request.txn).map(|state| &state.phase) {
            Some(Phase::Executed { .. }) => self.tell_client(now_ms, request.txn, out),
            Some(_) => {}
            None if self.unresolved.is_empty() => {
                self.propose_timestamp(now_ms, request, out);
            }
            None => _ = self.waiting.insert(request.txn, request.clone()),
        }
    }

    /// Proposes a timestamp that is higher than those of all transactions which have had their turns here, and votes once it is replicated.
    fn propose_timestamp(
        &mut self,
        now_ms: u64,
        request: &Arc<Request<A::Operation>>,
        out: &mut Out<A::Operation>,
    ) {
        let highest = self.state.highest().max(self.highest_vote).max(request.seen);
        let clock = (now_ms << COUNTER_BITS).max(highest.clock + 1);
        let proposal = Timestamp { clock, node: self.id.shard };
        let txn = request.txn;
        self.propose(now_ms, Entry::Proposed(request.clone(), proposal), out);
        self.pending.insert(proposal, txn);
        self.leader.note_asked(txn, now_ms);
        let index = self.state.executed();
        for shard in self.others(request) {
            let (leader, vote) = (self.leader_of(shard), Message::Vote { txn, proposal });
            if self.faults.votes_early() {
                out.send(leader, vote);
            } else {
                self.tell(index, leader, vote, out);
            }
        }
        self.try_final(txn);
    }

    /// Appends an entry, executes it, and does what a leader does with it.
    fn propose(&mut self, now_ms: u64, entry: Entry<A::Operation>, out: &mut Out<A::Operation>) {
        let index = self.vr.propose(entry.clone());
        let Progress { executed, reading } = self.state.execute(&entry);
        assert_eq!(self.state.executed(), index, "a leader has executed its log");
        if let Entry::Final { at, .. } = entry {
            self.uncommitted.insert(index, at);
        }
        for txn in executed {
            if let Some(Phase::Executed { at, .. }) = self.state.txn(txn).map(|state| &state.phase) {
                let first = self.uncommitted.get(&index).copied().unwrap_or(*at).min(*at);
                self.uncommitted.insert(index, first);
            }
            self.leader.forget(txn);
            self.tell_client(now_ms, txn, out);
        }
        for txn in reading {
            self.tell_reads(txn, out);
            self.try_reads(now_ms, txn, out);
        }
    }

    /// Tells the other participants what a coordinated transaction has read. It is the same whoever leads, so it waits for nothing.
    fn tell_reads(&mut self, txn: TxnId, out: &mut Out<A::Operation>) {
        let Some(TxnState { request, phase: Phase::Reading { reads }, .. }) = self.state.txn(txn) else {
            return;
        };
        for shard in self.others(request) {
            out.send_after(
                self.leader_of(shard),
                Message::Reads { txn, reads: reads.clone() },
                self.committed_lsn(),
            );
        }
    }

    fn committed_lsn(&self) -> weir_core::lsn::Lsn {
        self.vr.lsn_of(self.vr.commit())
    }

    /// Whether all participants have executed it for good, and the client has its answers. A client may have them of an earlier leader.
    fn is_forgotten(&self, txn: TxnId) -> bool {
        self.state.is_answered(txn) && self.state.txn(txn).is_none()
    }

    /// The final timestamp is the highest proposal, once all are known.
    fn final_of(&self, txn: TxnId) -> Option<Timestamp> {
        let state = self.state.txn(txn)?;
        let votes = self.votes.get(&txn);
        let mut at = state.proposal;
        for shard in self.others(&state.request) {
            match votes.and_then(|votes| votes.get(&shard)) {
                Some(vote) => at = at.max(*vote),
                None if self.faults.executes_before_votes() => {}
                None => return None,
            }
        }
        Some(at)
    }

    fn try_final(&mut self, txn: TxnId) {
        let Some(TxnState { proposal, phase: Phase::Proposed, .. }) = self.state.txn(txn) else { return };
        let proposal = *proposal;
        if let Some(at) = self.final_of(txn).filter(|_| self.pending.remove(&proposal).is_some()) {
            self.pending.insert(at, txn);
        }
    }

    /// Gives turns, in the order of timestamps, to transactions whose timestamps are final and not ahead of the clock, and that a majority has.
    fn advance(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        while let Some((at, txn)) = self.pending.first_key_value().map(|(at, txn)| (*at, *txn)) {
            let is_replicated = self.state.txn(txn).is_some_and(|state| state.proposed <= self.vr.commit());
            let is_final = self.final_of(txn) == Some(at);
            if !is_replicated || !is_final || at.clock >> COUNTER_BITS > now_ms {
                return;
            }
            self.pending.remove(&at);
            self.votes.remove(&txn);
            self.propose(now_ms, Entry::Final { txn, at }, out);
        }
    }

    fn on_vote(
        &mut self,
        shard: ShardId,
        txn: TxnId,
        proposal: Timestamp,
        out: &mut Out<A::Operation>,
        now_ms: u64,
    ) {
        if !self.vr.is_leader() || self.is_forgotten(txn) {
            return;
        }
        self.highest_vote = self.highest_vote.max(proposal);
        let phase = self.state.txn(txn).map(|state| &state.phase);
        if matches!(phase, None | Some(Phase::Proposed)) {
            self.votes.entry(txn).or_default().insert(shard, proposal);
            self.try_final(txn);
        }
        self.resolve(now_ms, shard, txn, out);
    }

    /// A participant has said whether it had voted.
    fn resolve(&mut self, now_ms: u64, shard: ShardId, txn: TxnId, out: &mut Out<A::Operation>) {
        let Some(shards) = self.unresolved.get_mut(&txn) else { return };
        shards.remove(&shard);
        if shards.is_empty() {
            self.unresolved.remove(&txn);
        }
        if self.unresolved.is_empty() {
            let waiting = std::mem::take(&mut self.waiting);
            waiting.into_values().for_each(|request| self.on_request(now_ms, &request, out));
        }
    }

    fn on_ask(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        view: View,
        request: &Arc<Request<A::Operation>>,
        out: &mut Out<A::Operation>,
    ) {
        let txn = request.txn;
        if !self.vr.has_lease(now_ms) || self.is_forgotten(txn) {
            return;
        }
        let to = Party::Replica(from);
        let Some(TxnState { proposal, proposed, phase, request: known }) = self.state.txn(txn).cloned()
        else {
            out.send_after(to, Message::NotVoted { txn, view }, self.committed_lsn());
            self.on_request(now_ms, request, out);
            return;
        };
        self.tell(proposed, to, Message::Vote { txn, proposal }, out);
        if !known.operation.is_independent(self.placement)
            && let Phase::Reading { reads } | Phase::Executed { reads, .. } = phase
        {
            out.send_after(to, Message::Reads { txn, reads }, self.committed_lsn());
        }
    }

    fn on_reads(
        &mut self,
        now_ms: u64,
        shard: ShardId,
        txn: TxnId,
        reads: Reads,
        out: &mut Out<A::Operation>,
    ) {
        let is_executed =
            self.state.txn(txn).is_some_and(|state| matches!(state.phase, Phase::Executed { .. }));
        if self.vr.is_leader() && !self.is_forgotten(txn) && !is_executed {
            self.reads.entry(txn).or_default().insert(shard, reads);
            self.try_reads(now_ms, txn, out);
        }
    }

    /// Executes a coordinated transaction that has had its turn once all participants have told what they have read.
    fn try_reads(&mut self, now_ms: u64, txn: TxnId, out: &mut Out<A::Operation>) {
        let Some(TxnState { request, phase: Phase::Reading { .. }, .. }) = self.state.txn(txn) else {
            return;
        };
        let Some(reads) = self.reads.get(&txn) else { return };
        if self.others(request).iter().all(|shard| reads.contains_key(shard)) {
            let reads = self.reads.remove(&txn).unwrap_or_default().into_values().flatten().collect();
            self.propose(now_ms, Entry::Reads { txn, reads }, out);
        }
    }

    /// Answers the client: the order of a leader that cannot have been replaced is that of its successors, too.
    fn tell_client(&mut self, now_ms: u64, txn: TxnId, out: &mut Out<A::Operation>) {
        let Some(TxnState { phase: Phase::Executed { at, answer, index, .. }, .. }) = self.state.txn(txn)
        else {
            return;
        };
        let is_committed = *index <= self.vr.commit();
        if !is_committed && !self.vr.has_lease(now_ms) {
            self.untold.push(txn);
            return;
        }
        let message = Message::Reply { txn, at: *at, answer: answer.clone() };
        out.send_after(Party::Client(txn.coordinator), message, self.committed_lsn());
    }

    fn tell(&mut self, index: Index, to: Party, message: Message<A::Operation>, out: &mut Out<A::Operation>) {
        self.leader.tell(&self.vr, index, to, message, out);
    }

    /// Asks other participants for the votes and reads that are missing.
    fn ask(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        let resend_ms = self.cluster.timeouts.resend_ms;
        let incomplete = self.pending.values().copied().chain(self.state.queued().map(|(_, txn)| txn));
        for txn in incomplete.collect::<Vec<_>>() {
            let Some(TxnState { request, phase, .. }) = self.state.txn(txn).cloned() else { continue };
            let is_missing = |shard: &ShardId| match phase {
                Phase::Proposed => self.votes.get(&txn).is_none_or(|votes| !votes.contains_key(shard)),
                Phase::Reading { .. } => self.reads.get(&txn).is_none_or(|reads| !reads.contains_key(shard)),
                Phase::Queued | Phase::Executed { .. } => false,
            };
            let missing: Vec<_> = self.others(&request).into_iter().filter(is_missing).collect();
            if missing.is_empty() || !self.leader.is_due(txn, now_ms, resend_ms) {
                continue;
            }
            let message = Message::Ask { view: self.vr.view(), request };
            for replica in missing.into_iter().flat_map(|shard| self.cluster.group(shard)) {
                out.send(Party::Replica(replica), message.clone());
            }
        }
    }

    /// Tells other shards about which transactions this one will never ask, and forgets those that nobody asks about.
    fn tell_stable(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        if now_ms < self.stable_sent_ms + STABLE_INTERVALS * self.cluster.timeouts.resend_ms {
            return;
        }
        self.stable_sent_ms = now_ms;
        let next = Timestamp { clock: self.state.highest().clock + 1, node: 0 };
        let pending = self.pending.keys().next().copied();
        let queued = self.state.queued().next().map(|(at, _)| at);
        let first = self.uncommitted.values().copied().chain(pending).chain(queued).min();
        let at = first.unwrap_or(next);
        for shard in (0..self.cluster.shards).filter(|shard| *shard != self.id.shard) {
            for replica in self.cluster.group(shard) {
                out.send_after(Party::Replica(replica), Message::Stable { at }, self.committed_lsn());
            }
        }
        self.forget(now_ms, out);
    }

    fn forget(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        let commit = self.vr.commit();
        let is_over = |txn: &TxnId, state: &TxnState<A::Operation>| {
            let Phase::Executed { at, index, .. } = &state.phase else { return false };
            let is_below = |shard: &ShardId| self.stable.get(shard).is_some_and(|stable| at < stable);
            self.state.is_answered(*txn)
                && *index <= commit
                && self.others(&state.request).iter().all(is_below)
        };
        let over = self.state.txns().filter(|(txn, state)| is_over(txn, state)).map(|(txn, _)| *txn);
        let over: Vec<_> = over.collect();
        if !over.is_empty() {
            over.iter().for_each(|txn| _ = (self.votes.remove(txn), self.reads.remove(txn)));
            self.propose(now_ms, Entry::Forgotten(over), out);
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
            self.begin_view(now_ms, out);
        }
        // A group of one replica commits what it sends, and then may go on.
        loop {
            self.vr.flush(now_ms, out);
            let end = self.vr.log().end();
            if self.vr.is_leader() {
                self.advance(now_ms, out);
            }
            if self.vr.log().end() == end {
                break;
            }
        }
        let commit = self.vr.commit();
        self.state.forget(commit);
        self.vr.forget(self.state.executed());
        self.uncommitted = self.uncommitted.split_off(&(commit + 1));
        self.leader.release(&self.vr, out);
        for txn in std::mem::take(&mut self.untold) {
            self.tell_client(now_ms, txn, out);
        }
    }

    /// Forgets what it knew as a leader. A new leader first asks about all transactions that its predecessor may have executed.
    fn begin_view(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        self.pending.clear();
        self.votes.clear();
        self.reads.clear();
        self.unresolved.clear();
        self.waiting.clear();
        self.untold.clear();
        self.uncommitted.clear();
        if self.leader.view().is_none() {
            return;
        }
        let (commit, mut reading) = (self.vr.commit(), Vec::new());
        for (txn, state) in self.state.txns() {
            match &state.phase {
                Phase::Proposed => {
                    self.pending.insert(state.proposal, *txn);
                    let others: BTreeSet<_> = self.others(&state.request).into_iter().collect();
                    if !others.is_empty() {
                        self.unresolved.insert(*txn, others);
                    }
                    self.leader.note_asked(*txn, 0);
                }
                Phase::Reading { .. } => reading.push(*txn),
                Phase::Executed { at, index, .. } if *index > commit => {
                    _ = self.uncommitted.insert(*index, *at)
                }
                Phase::Queued | Phase::Executed { .. } => {}
            }
        }
        reading.into_iter().for_each(|txn| self.tell_reads(txn, out));
        self.ask(now_ms, out);
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
            (_, Message::Request(_) | Message::Ask { .. }) if !self.vr.is_leader() => {
                out.send(from, Message::NewView { view: self.vr.view() });
            }
            (Party::Client(_), Message::Request(request)) => self.on_request(now_ms, &request, out),
            (Party::Replica(id), Message::Ask { view, request }) => {
                self.on_ask(now_ms, id, view, &request, out)
            }
            (Party::Replica(id), Message::Vote { txn, proposal }) => {
                self.on_vote(id.shard, txn, proposal, out, now_ms);
            }
            (Party::Replica(id), Message::NotVoted { txn, view }) if view == self.vr.view() => {
                self.resolve(now_ms, id.shard, txn, out);
            }
            (Party::Replica(id), Message::Reads { txn, reads }) => {
                self.on_reads(now_ms, id.shard, txn, reads, out);
            }
            (Party::Replica(id), Message::NewView { view }) => {
                let known = self.views.entry(id.shard).or_default();
                *known = view.max(*known);
            }
            (Party::Replica(id), Message::Stable { at }) => {
                let known = self.stable.entry(id.shard).or_default();
                *known = at.max(*known);
            }
            _ => {}
        }
        self.settle(now_ms, out);
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        self.vr.on_timer(now_ms, out);
        if self.vr.is_leader() && self.leader.view() == Some(self.vr.view()) {
            self.ask(now_ms, out);
            self.tell_stable(now_ms, out);
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
        let is_executed = |state: &TxnState<A::Operation>| matches!(state.phase, Phase::Executed { .. });
        let is_over = self.state.txns().all(|(_, state)| is_executed(state));
        self.vr.at_rest(self.state.executed()).filter(|_| is_over)
    }

    fn values(&self) -> Option<A::Snapshot> {
        Some(self.state.application.snapshot())
    }
}
