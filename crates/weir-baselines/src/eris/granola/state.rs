//! The replicated state of a shard: what executing its log makes of it.
//!
//! Transactions have their turns in the order of timestamps. One that conflicts with a coordinated one before it waits for that; everything
//! else is executed in its turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_core::ids::{CoordinatorId, ShardId, Timestamp, TxnId};
use weir_ordered::packet::Index;

use super::super::application::{Application, OneShot};
use super::super::journal::Journal;
use super::super::operation::{Access, Key, Placement, Reads};
use super::{Entry, Request};

/// A transaction at this shard.
#[derive(Clone, Debug)]
pub struct TxnState<O: OneShot> {
    pub request: Arc<Request<O>>,
    pub proposal: Timestamp,
    /// Index of the proposal.
    pub proposed: Index,
    pub phase: Phase<O>,
}

#[derive(Clone, Debug)]
pub enum Phase<O: OneShot> {
    Proposed,
    /// It has had its turn, and waits for a coordinated one before it.
    Queued,
    /// A coordinated one that has read, and waits for the reads of others.
    Reading {
        reads: Reads,
    },
    /// `index`: of the entry with which it was executed.
    Executed {
        at: Timestamp,
        answer: O::Answer,
        reads: Reads,
        index: Index,
    },
}

/// Changes of transactions that an entry has made.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub executed: Vec<TxnId>,
    /// Coordinated ones that have read.
    pub reading: Vec<TxnId>,
}

/// The state after the execution of a prefix of the log.
#[derive(Clone, Debug)]
pub struct State<A: Application> {
    shard: ShardId,
    placement: Placement,
    pub application: A,
    txns: Journal<TxnId, TxnState<A::Operation>>,
    /// Transactions that have had their turns, and are not executed.
    queue: Journal<Timestamp, TxnId>,
    /// Transactions of a client below its floor are answered.
    floors: Journal<CoordinatorId, u64>,
    /// Highest timestamp that was proposed or executed.
    highest: Journal<(), Timestamp>,
    executed: Index,
}

impl<A: Application> State<A> {
    pub fn new(application: A) -> State<A> {
        let (shard, placement) = application.place();
        State {
            shard,
            placement,
            application,
            txns: Journal::default(),
            queue: Journal::default(),
            floors: Journal::default(),
            highest: Journal::default(),
            executed: 0,
        }
    }

    pub fn executed(&self) -> Index {
        self.executed
    }

    pub fn txn(&self, txn: TxnId) -> Option<&TxnState<A::Operation>> {
        self.txns.get(&txn)
    }

    pub fn txns(&self) -> impl Iterator<Item = (&TxnId, &TxnState<A::Operation>)> {
        self.txns.entries().iter()
    }

    /// Highest timestamp that was proposed or executed.
    pub fn highest(&self) -> Timestamp {
        self.highest.get(&()).copied().unwrap_or_default()
    }

    /// Transactions that have had their turns and are not executed, ascending.
    pub fn queued(&self) -> impl Iterator<Item = (Timestamp, TxnId)> + '_ {
        self.queue.entries().iter().map(|(at, txn)| (*at, *txn))
    }

    /// Returns whether the client has the answer.
    pub fn is_answered(&self, txn: TxnId) -> bool {
        self.floors.get(&txn.coordinator).is_some_and(|floor| txn.sequence < *floor)
    }

    /// Executes the next entry.
    pub fn execute(&mut self, entry: &Entry<A::Operation>) -> Progress {
        self.executed += 1;
        let mut progress = Progress::default();
        match entry {
            Entry::Proposed(request, proposal) => self.propose(request, *proposal),
            Entry::Final { txn, at } => {
                self.raise(*at);
                self.set(*txn, Phase::Queued);
                self.queue.insert(self.executed, *at, *txn);
                self.run_queue(*at, &mut progress);
            }
            Entry::Reads { txn, reads } => {
                let queued = self.queued().find(|(_, queued)| queued == txn);
                if let Some((at, _)) = queued {
                    self.run(*txn, at, Some(reads), &mut progress);
                    self.run_queue(at, &mut progress);
                }
            }
            Entry::Forgotten(txns) => txns.iter().for_each(|txn| self.txns.remove(self.executed, txn)),
        }
        progress
    }

    fn propose(&mut self, request: &Arc<Request<A::Operation>>, proposal: Timestamp) {
        let client = request.txn.coordinator;
        if self.floors.get(&client).is_none_or(|floor| request.floor > *floor) {
            self.floors.insert(self.executed, client, request.floor);
        }
        self.raise(proposal);
        let state =
            TxnState { request: request.clone(), proposal, proposed: self.executed, phase: Phase::Proposed };
        self.txns.insert(self.executed, request.txn, state);
    }

    fn raise(&mut self, at: Timestamp) {
        if at > self.highest() {
            self.highest.insert(self.executed, (), at);
        }
    }

    fn set(&mut self, txn: TxnId, phase: Phase<A::Operation>) {
        if let Some(state) = self.txns.get(&txn).cloned() {
            self.txns.insert(self.executed, txn, TxnState { phase, ..state });
        }
    }

    /// Runs what has waited for one of that timestamp, and that one: whatever conflicts with none before it in the queue.
    fn run_queue(&mut self, from: Timestamp, progress: &mut Progress) {
        let mut written: BTreeSet<Key> = BTreeSet::new();
        let mut read: BTreeSet<Key> = BTreeSet::new();
        let queued: Vec<_> = self.queued().collect();
        for (at, txn) in queued {
            let Some(TxnState { request, phase, .. }) = self.txns.get(&txn) else { continue };
            let accesses: Vec<_> = request.operation.accesses_at(self.shard, self.placement).collect();
            let is_blocked = accesses
                .iter()
                .any(|(key, access)| written.contains(key) || *access == Access::Write && read.contains(key));
            let is_reading = matches!(phase, Phase::Reading { .. });
            if !is_blocked && !is_reading && at >= from && self.run(txn, at, None, progress) {
                continue;
            }
            for (key, access) in accesses {
                if access == Access::Write {
                    written.insert(key)
                } else {
                    read.insert(key)
                };
            }
        }
    }

    /// Executes a transaction, or only reads if it is a coordinated one without the reads of others. Returns whether it is executed.
    fn run(&mut self, txn: TxnId, at: Timestamp, reads: Option<&Reads>, progress: &mut Progress) -> bool {
        let Some(TxnState { request, .. }) = self.txns.get(&txn).cloned() else { return false };
        let operation = &request.operation;
        let own = self.application.export(operation);
        if reads.is_none() && !operation.is_independent(self.placement) {
            self.set(txn, Phase::Reading { reads: own });
            progress.reading.push(txn);
            return false;
        }
        let reads = reads.map_or(&[][..], Vec::as_slice);
        let answer = self.application.execute(self.executed, operation, reads);
        self.queue.remove(self.executed, &at);
        self.set(txn, Phase::Executed { at, answer, reads: own, index: self.executed });
        progress.executed.push(txn);
        true
    }

    /// Undoes the execution of all entries behind that index.
    pub fn roll_back(&mut self, to: Index) {
        if to < self.executed {
            self.application.roll_back(to);
            self.txns.roll_back(to);
            self.queue.roll_back(to);
            self.floors.roll_back(to);
            self.highest.roll_back(to);
            self.executed = to;
        }
    }

    /// Entries up to that index will never be undone.
    pub fn forget(&mut self, up_to: Index) {
        let up_to = up_to.min(self.executed);
        self.application.forget(up_to);
        self.txns.forget(up_to);
        self.queue.forget(up_to);
        self.floors.forget(up_to);
        self.highest.forget(up_to);
    }
}
