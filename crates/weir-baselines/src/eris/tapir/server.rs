//! A replica of a shard: votes, accepts verdicts, and takes outcomes. All replicas do the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ids::CoordinatorId;
use weir_core::lsn::Lsn;
use weir_ordered::cluster::{Cluster, ReplicaId};
use weir_ordered::message::Party;
use weir_ordered::packet::{Index, View};

use super::super::application::Application;
use super::super::faults::Faults;
use super::super::machine::{self, Effects};
use super::super::operation::{Key, Placement, Registers};
use super::operations::State;
use super::tally::Quorums;
use super::termination::Termination;
use super::view_change::ViewChange;
use super::{AttemptId, Message, Record, Request, Verdict};

/// A replica of a shard.
#[derive(Clone, Debug)]
pub struct Server<F, A: Application = Registers> {
    pub(super) id: ReplicaId,
    pub(super) cluster: Cluster,
    pub(super) placement: Placement,
    pub(super) quorums: Quorums,
    pub(super) state: State<F, A>,
    records: Vec<Record<A::Operation>>,
    /// Position after the last record.
    pub(super) noted: Lsn,
    pub(super) view_change: ViewChange<A::Operation>,
    /// It has been down, so it may lack what its peers have: the next view begins with a merged record.
    recovers: bool,
    pub(super) terminations: BTreeMap<AttemptId, Termination<F, A::Operation>>,
    /// Since when attempts are as they are: without an outcome, or with one that some replica may lack.
    pub(super) open_since: BTreeMap<(AttemptId, bool), u64>,
}

pub(super) type Out<O> = Effects<Message<O>>;

impl<F: Faults, A: Application> Server<F, A> {
    /// `start`: how often it has started.
    pub fn new(
        (now_ms, start): (u64, u64),
        id: ReplicaId,
        cluster: Cluster,
        faults: F,
        application: A,
        records: &[Record<A::Operation>],
    ) -> Server<F, A> {
        let placement = Placement { shards: cluster.shards };
        let mut state = State::new(application, faults);
        records.iter().for_each(|record| state.apply(record.clone()));
        Server {
            id,
            cluster,
            placement,
            quorums: Quorums { replicas: usize::from(cluster.replicas) },
            state,
            records: Vec::new(),
            noted: Lsn::START,
            view_change: ViewChange::new(now_ms),
            recovers: start > 1,
            terminations: BTreeMap::new(),
            open_since: BTreeMap::new(),
        }
    }

    pub(super) fn note(&mut self, record: Record<A::Operation>) {
        self.state.apply(record.clone());
        self.records.push(record);
        self.noted = self.noted.plus(1);
    }

    /// Tells the outcome of an attempt if it is known, and else the own vote, if the replica may vote.
    pub(super) fn tell(&self, to: Party, request: &Request<A::Operation>, out: &mut Out<A::Operation>) {
        let id = request.id;
        if let Some(commits) = self.state.outcome(id) {
            match to {
                Party::Replica(_) => {
                    let request = self
                        .state
                        .entry(id)
                        .map_or_else(|| Arc::new(request.clone()), |each| each.request.clone());
                    out.send_after(to, Message::Decide { request, commits }, self.noted);
                }
                _ => out.send_after(to, Message::Decided { id, commits }, self.noted),
            }
        } else if let Some(vote) = self.state.vote(id).filter(|_| self.state.is_normal()) {
            let after = if self.state.faults().votes_before_record() { Lsn::START } else { self.noted };
            out.send_after(to, Message::Vote { id, vote }, after);
        }
    }

    fn on_read(
        &self,
        from: Party,
        id: AttemptId,
        (keys, operation): (&[Key], Option<&A::Operation>),
        out: &mut Out<A::Operation>,
    ) {
        let (values, answer) = match operation {
            Some(operation) => {
                let (versions, answer) = self.state.replayed.read(keys, operation);
                (versions, Some(answer))
            }
            None => (keys.iter().map(|key| self.state.store.read(*key)).collect(), None),
        };
        out.send_after(from, Message::ReadReply { id, values, answer }, self.noted);
    }

    fn on_prepare(&mut self, from: Party, request: &Arc<Request<A::Operation>>, out: &mut Out<A::Operation>) {
        let id = request.id;
        if self.state.is_forgotten(id.txn) {
            return;
        }
        let is_new = self.state.outcome(id).is_none() && self.state.entry(id).is_none();
        if is_new && self.state.is_normal() {
            let verdict = self.state.store.check(request);
            self.note(Record::Voted(request.clone(), verdict));
        }
        self.tell(from, request, out);
    }

    /// The verdict is accepted in its view only. One that a view has started with stays.
    fn on_finalize(
        &mut self,
        from: Party,
        request: &Arc<Request<A::Operation>>,
        (view, verdict): (View, Verdict),
        out: &mut Out<A::Operation>,
    ) {
        let id = request.id;
        if self.state.is_forgotten(id.txn) {
            return;
        }
        let is_open =
            self.state.outcome(id).is_none() && self.state.entry(id).is_none_or(|entry| !entry.is_final);
        if is_open && self.state.is_normal() && view == self.state.view {
            self.note(Record::Finalized(request.clone(), verdict));
        }
        self.tell(from, request, out);
    }

    /// An outcome follows from what is decided for ever, so it is taken in any view, and between views.
    fn on_decide(
        &mut self,
        from: Party,
        request: &Arc<Request<A::Operation>>,
        commits: bool,
        out: &mut Out<A::Operation>,
    ) {
        let id = request.id;
        if !self.state.is_forgotten(id.txn)
            && self.state.entry(id).is_none_or(|entry| entry.outcome.is_none())
        {
            self.note(Record::Decided(request.clone(), commits));
        }
        if let Party::Client(_) = from {
            out.send_after(from, Message::Decided { id, commits }, self.noted);
        }
    }

    fn on_floor(&mut self, client: CoordinatorId, floor: u64) {
        if self.state.is_floor_useful(client, floor) {
            self.note(Record::Floor(client, floor));
        }
    }

    fn on_message_of_replica(
        &mut self,
        now_ms: u64,
        from: ReplicaId,
        message: Message<A::Operation>,
        out: &mut Out<A::Operation>,
    ) {
        match message {
            Message::Vote { id, vote } => self.on_vote(from, id, vote, out),
            Message::Query { request, unclear_in } => {
                self.on_query(now_ms, Party::Replica(from), &request, unclear_in, out);
            }
            Message::Decide { request, commits } => {
                self.on_decide(Party::Replica(from), &request, commits, out)
            }
            _ if from.shard != self.id.shard || from == self.id => {}
            Message::StartViewChange { view } => self.on_start_view_change(now_ms, view, out),
            Message::DoViewChange { view, normal_view, entries } => {
                self.on_do_view_change(now_ms, from, view, (normal_view, entries), out);
            }
            Message::StartView { view, entries } => self.on_start_view(now_ms, from, view, entries, out),
            Message::ViewStarted { view } => self.on_view_started(from, view),
            _ => {}
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
        match (from, message) {
            (Party::Client(_), Message::Read { id, keys, operation }) => {
                self.on_read(from, id, (&keys, operation.as_ref()), out);
            }
            (Party::Client(_), Message::Prepare(request)) => self.on_prepare(from, &request, out),
            (Party::Client(_), Message::Finalize { request, view, verdict }) => {
                self.on_finalize(from, &request, (view, verdict), out);
            }
            (Party::Client(_), Message::Decide { request, commits }) => {
                self.on_decide(from, &request, commits, out);
            }
            (Party::Client(_), Message::Query { request, unclear_in }) => {
                self.on_query(now_ms, from, &request, unclear_in, out);
            }
            (Party::Client(client), Message::Floor(floor)) => self.on_floor(client, floor),
            (Party::Replica(id), message) => self.on_message_of_replica(now_ms, id, message, out),
            _ => {}
        }
    }

    fn on_timer(&mut self, now_ms: u64, out: &mut Out<A::Operation>) {
        if std::mem::replace(&mut self.recovers, false) && self.state.is_normal() {
            self.begin_view_change(now_ms, self.state.view + 1, out);
        }
        self.repeat_view_change(now_ms, out);
        self.terminate(now_ms, out);
    }

    fn take_records(&mut self) -> Vec<Record<A::Operation>> {
        std::mem::take(&mut self.records)
    }

    fn is_leader(&self) -> bool {
        self.state.is_normal() && self.leader() == self.id
    }

    fn at_rest(&self) -> Option<Index> {
        let mut entries = self.state.entries();
        let is_over = self.state.is_normal() && entries.all(|(_, entry)| entry.outcome.is_some());
        (is_over && self.state.store.is_free() && self.state.replayed.is_up_to_date())
            .then(|| self.state.committed())
    }

    fn values(&self) -> Option<A::Snapshot> {
        Some(self.state.snapshot())
    }
}
