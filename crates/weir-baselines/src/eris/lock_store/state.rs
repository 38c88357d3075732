//! The replicated state of a shard: what executing its log makes of it.

use std::sync::Arc;

use weir_core::ids::{CoordinatorId, TxnId};
use weir_ordered::packet::Index;

use super::super::application::{Application, OneShot};
use super::super::journal::Journal;
use super::super::operation::{Placement, Reads};
use super::{Entry, Request};

/// A transaction at this shard.
#[derive(Clone, Debug)]
pub struct TxnState<O: OneShot> {
    pub attempt: u32,
    pub phase: Phase<O>,
    /// Index of the entry that has made it so.
    pub index: Index,
}

#[derive(Clone, Debug)]
pub enum Phase<O: OneShot> {
    Prepared {
        request: Arc<Request<O>>,
        answer: O::Answer,
        reads: Reads,
    },
    Committed {
        answer: O::Answer,
        reads: Reads,
    },
    /// The attempt is aborted, or will never be prepared.
    Refused,
}

/// The state after the execution of a prefix of the log.
#[derive(Clone, Debug)]
pub struct State<A: Application> {
    placement: Placement,
    pub application: A,
    txns: Journal<TxnId, TxnState<A::Operation>>,
    /// Transactions of a client below its floor are over, and forgotten.
    floors: Journal<CoordinatorId, u64>,
    executed: Index,
}

impl<A: Application> State<A> {
    pub fn new(application: A) -> State<A> {
        let (_, placement) = application.place();
        State { placement, application, txns: Journal::default(), floors: Journal::default(), executed: 0 }
    }

    pub fn executed(&self) -> Index {
        self.executed
    }

    pub fn txn(&self, txn: TxnId) -> Option<&TxnState<A::Operation>> {
        self.txns.get(&txn)
    }

    /// Returns whether the transaction is over at all its participants.
    pub fn is_over(&self, txn: TxnId) -> bool {
        self.floors.get(&txn.coordinator).is_some_and(|floor| txn.sequence < *floor)
    }

    /// Requests that are prepared.
    pub fn prepared(&self) -> impl Iterator<Item = &Arc<Request<A::Operation>>> {
        self.txns.entries().values().filter_map(|state| match &state.phase {
            Phase::Prepared { request, .. } => Some(request),
            _ => None,
        })
    }

    /// Executes the next entry.
    pub fn execute(&mut self, entry: &Entry<A::Operation>) {
        self.executed += 1;
        match entry {
            Entry::Executed(request) => {
                self.note_floor(request);
                let answer = self.application.execute(self.executed, &request.operation, &[]);
                self.set(request.txn, request.attempt, Phase::Committed { answer, reads: Vec::new() });
            }
            Entry::Prepared(request) => {
                self.note_floor(request);
                let is_independent = request.operation.is_independent(self.placement);
                let answer = if is_independent {
                    self.application.answer(&request.operation, &[])
                } else {
                    A::Operation::answer_of_reads(Reads::new())
                };
                let reads = self.application.export(&request.operation);
                let phase = Phase::Prepared { request: request.clone(), answer, reads };
                self.set(request.txn, request.attempt, phase);
            }
            Entry::Finished { txn, attempt, commit } => self.finish(*txn, *attempt, commit.as_deref()),
            Entry::Refused(request) => {
                self.note_floor(request);
                self.set(request.txn, request.attempt, Phase::Refused);
            }
        }
    }

    fn finish(&mut self, txn: TxnId, attempt: u32, commit: Option<&[(u64, u64)]>) {
        let Some(TxnState { attempt: prepared, phase: Phase::Prepared { request, reads, .. }, .. }) =
            self.txns.get(&txn)
        else {
            return;
        };
        if *prepared != attempt {
            return;
        }
        let phase = match commit {
            None => Phase::Refused,
            Some(all_reads) => {
                let (request, reads) = (request.clone(), reads.clone());
                let answer = self.application.execute(self.executed, &request.operation, all_reads);
                Phase::Committed { answer, reads }
            }
        };
        self.set(txn, attempt, phase);
    }

    fn set(&mut self, txn: TxnId, attempt: u32, phase: Phase<A::Operation>) {
        self.txns.insert(self.executed, txn, TxnState { attempt, phase, index: self.executed });
    }

    fn note_floor(&mut self, request: &Request<A::Operation>) {
        let client = request.txn.coordinator;
        if self.floors.get(&client).is_some_and(|floor| request.floor <= *floor) {
            return;
        }
        self.floors.insert(self.executed, client, request.floor);
        let from = TxnId { coordinator: client, sequence: 0 };
        let over: Vec<_> =
            self.txns.entries().range(from..TxnId { sequence: request.floor, ..from }).collect();
        let is_over = |state: &TxnState<A::Operation>| !matches!(state.phase, Phase::Prepared { .. });
        let over: Vec<_> =
            over.into_iter().filter(|(_, state)| is_over(state)).map(|(txn, _)| *txn).collect();
        over.iter().for_each(|txn| self.txns.remove(self.executed, txn));
    }

    /// Undoes the execution of all entries behind that index.
    pub fn roll_back(&mut self, to: Index) {
        if to < self.executed {
            self.application.roll_back(to);
            self.txns.roll_back(to);
            self.floors.roll_back(to);
            self.executed = to;
        }
    }

    /// Entries up to that index will never be undone.
    pub fn forget(&mut self, up_to: Index) {
        let up_to = up_to.min(self.executed);
        self.application.forget(up_to);
        self.txns.forget(up_to);
        self.floors.forget(up_to);
    }
}
