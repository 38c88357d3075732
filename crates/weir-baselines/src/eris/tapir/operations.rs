//! The durable state of a replica: the record of IR (operations with their verdicts and outcomes), and the values that it makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::ids::{CoordinatorId, TxnId};
use weir_ordered::packet::{Index, View};

use super::super::application::{Application, OneShot};
use super::super::faults::Faults;
use super::super::operation::Operation;
use super::replayed::Replayed;
use super::store::Store;
use super::{AttemptId, Record, Request, Verdict};

/// An operation in the record of a replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Entry<O: OneShot = Operation> {
    pub request: Arc<Request<O>>,
    pub verdict: Verdict,
    /// The verdict was proposed as that of the shard, or a view has started with it.
    pub is_final: bool,
    /// Whether the attempt is committed, once that is known.
    pub outcome: Option<bool>,
    /// The outcome was in the record that a view has started with, so every replica gets it.
    pub is_merged: bool,
}

/// The state that records make.
#[derive(Clone, Debug)]
pub struct State<F, A: Application> {
    faults: F,
    pub view: View,
    /// The last view that has started here; never above `view`.
    pub normal_view: View,
    pub store: Store<F>,
    pub replayed: Replayed<A>,
    entries: BTreeMap<AttemptId, Entry<A::Operation>>,
    /// Transactions of a client below its floor are committed at all replicas, and forgotten.
    floors: BTreeMap<CoordinatorId, u64>,
    /// Transactions that are committed here.
    committed: Index,
}

impl<F: Faults, A: Application> State<F, A> {
    pub fn new(application: A, faults: F) -> State<F, A> {
        let (shard, placement) = application.place();
        State {
            faults,
            view: 0,
            normal_view: 0,
            store: Store::new(shard, placement, faults),
            replayed: Replayed::new(application),
            entries: BTreeMap::new(),
            floors: BTreeMap::new(),
            committed: 0,
        }
    }

    pub fn is_normal(&self) -> bool {
        self.view == self.normal_view
    }

    pub fn committed(&self) -> Index {
        self.committed
    }

    pub fn entry(&self, id: AttemptId) -> Option<&Entry<A::Operation>> {
        self.entries.get(&id)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&AttemptId, &Entry<A::Operation>)> {
        self.entries.iter()
    }

    pub fn is_forgotten(&self, txn: TxnId) -> bool {
        self.floors.get(&txn.coordinator).is_some_and(|floor| txn.sequence < *floor)
    }

    /// Returns whether a floor lets entries be forgotten. One that does not is not worth a record: a replica has an entry or a floor of every
    /// committed transaction.
    pub fn is_floor_useful(&self, client: CoordinatorId, floor: u64) -> bool {
        let first = AttemptId { txn: TxnId { coordinator: client, sequence: 0 }, attempt: 0 };
        self.entries
            .range(first..)
            .next()
            .is_some_and(|(id, _)| id.txn < TxnId { coordinator: client, sequence: floor })
    }

    fn attempts(&self, txn: TxnId) -> impl DoubleEndedIterator<Item = (&AttemptId, &Entry<A::Operation>)> {
        self.entries.range(AttemptId { txn, attempt: 0 }..=AttemptId { txn, attempt: u32::MAX })
    }

    /// The outcome of an attempt. One with a successor is aborted: its client has gone on because a shard had refused it for ever.
    pub fn outcome(&self, id: AttemptId) -> Option<bool> {
        let has_successor =
            self.attempts(id.txn).next_back().is_some_and(|(last, _)| last.attempt > id.attempt);
        self.entry(id).and_then(|entry| entry.outcome).or(has_successor.then_some(false))
    }

    pub fn apply(&mut self, record: Record<A::Operation>) {
        match record {
            Record::Voted(request, verdict) => self.set_verdict(&request, verdict, false),
            Record::Finalized(request, verdict) => self.set_verdict(&request, verdict, true),
            Record::Decided(request, commits) => self.decide(&request, commits),
            Record::Floor(client, floor) => self.raise_floor(client, floor),
            Record::Promised(view) => self.view = view,
            Record::Started(view, entries) => self.start_view(view, entries),
        }
    }

    fn set_verdict(&mut self, request: &Arc<Request<A::Operation>>, verdict: Verdict, is_final: bool) {
        self.store.release(request);
        if verdict.is_prepared() {
            self.store.prepare(request);
        }
        let (client, floor) = (request.id.txn.coordinator, request.floor);
        if self.is_floor_useful(client, floor) {
            self.raise_floor(client, floor);
        }
        let entry = Entry { request: request.clone(), verdict, is_final, outcome: None, is_merged: false };
        self.entries.insert(request.id, entry);
        self.abort_predecessors(request.id);
    }

    fn abort_predecessors(&mut self, id: AttemptId) {
        let before = self.attempts(id.txn).take_while(|(each, _)| each.attempt < id.attempt);
        let open = before.filter(|(_, entry)| entry.outcome.is_none());
        let open: Vec<_> = open.map(|(_, entry)| entry.request.clone()).collect();
        open.iter().for_each(|request| self.decide(request, false));
    }

    fn decide(&mut self, request: &Arc<Request<A::Operation>>, commits: bool) {
        let new = Entry {
            request: request.clone(),
            verdict: Verdict::REFUSED,
            is_final: true,
            outcome: None,
            is_merged: false,
        };
        let entry = self.entries.entry(request.id).or_insert(new);
        if entry.outcome.is_some() {
            return;
        }
        entry.outcome = Some(commits);
        self.store.release(request);
        if commits {
            self.store.commit(request);
            if A::Operation::IS_REPLAYED {
                self.replayed.commit(request);
            }
            self.committed += 1;
            self.refuse_conflicting(request);
        }
        self.abort_predecessors(request.id);
    }

    /// An attempt that conflicts with a committed one has a majority nowhere, although this replica has said that it is prepared. It must not
    /// count for [`super::tally::Quorums::possible`] once the committed one is forgotten.
    fn refuse_conflicting(&mut self, request: &Request<A::Operation>) {
        for id in self.store.conflicting(request) {
            if let Some(entry) = self.entries.get_mut(&id).filter(|entry| !entry.is_final) {
                entry.verdict = Verdict::REFUSED;
                let request = entry.request.clone();
                self.store.release(&request);
            }
        }
    }

    fn raise_floor(&mut self, client: CoordinatorId, floor: u64) {
        self.floors.insert(client, floor);
        let from = AttemptId { txn: TxnId { coordinator: client, sequence: 0 }, attempt: 0 };
        let to = AttemptId { txn: TxnId { coordinator: client, sequence: floor }, attempt: 0 };
        let over: Vec<_> = self.entries.range(from..to).map(|(id, _)| *id).collect();
        for id in over {
            if let Some(entry) = self.entries.remove(&id) {
                self.store.release(&entry.request);
            }
        }
    }

    /// TAPIR-SYNC: takes the merged record in the place of the own one. Outcomes stay, as they are those of all replicas.
    fn start_view(&mut self, view: View, merged: Vec<Entry<A::Operation>>) {
        (self.view, self.normal_view) = (view, view);
        let mut old = std::mem::take(&mut self.entries);
        old.values().for_each(|entry| self.store.release(&entry.request));
        old.retain(|_, entry| entry.outcome.is_some());
        self.entries = old;
        for entry in merged {
            let id = entry.request.id;
            if self.is_forgotten(id.txn) {
                continue;
            }
            match entry.outcome {
                Some(commits) => {
                    self.decide(&entry.request, commits);
                    if let Some(own) = self.entries.get_mut(&id) {
                        own.is_merged = true;
                    }
                }
                None if self.outcome(id).is_none() => self.set_verdict(&entry.request, entry.verdict, true),
                None => {}
            }
        }
    }

    /// Entries with an outcome or a final verdict: a replica that has not started the view yet may take them, since nothing changes them.
    pub fn settled(&self) -> Vec<Entry<A::Operation>> {
        let is_settled = |entry: &&Entry<A::Operation>| entry.outcome.is_some() || entry.is_final;
        self.entries.values().filter(is_settled).cloned().collect()
    }

    /// Its vote, if no outcome is known.
    pub fn vote(&self, id: AttemptId) -> Option<super::Vote> {
        let Entry { verdict, is_final, .. } = *self.entry(id)?;
        Some(super::Vote { view: self.view, is_final, verdict })
    }

    /// The data at rest.
    pub fn snapshot(&self) -> A::Snapshot {
        if A::Operation::IS_REPLAYED {
            return self.replayed.application().snapshot();
        }
        let mut application = self.replayed.application().clone();
        application.write_for_good(&self.store.values());
        application.snapshot()
    }

    pub fn faults(&self) -> F {
        self.faults
    }
}
