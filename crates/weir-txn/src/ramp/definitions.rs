//! Definitions at a shard (docs/server.md, "Definitions"): a transaction that changes the schema keeps out everybody else who writes, from
//! its definition to its end; until it commits, what it has defined is there for its own statements alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::smallvec;
use weir_types::SqlError;

use super::message::{Age, Callee, Reply, Request, TxnId};
use super::open::Done;
use crate::exec::definition::{self, Definition, Edition};
use crate::exec::program::Program;
use crate::node::{Effects, Node};
use crate::storage::{LoggedRow, Timestamp};

/// A definition that has been made, and the edition that is not in place: the next one or, while that is, the one before.
#[derive(Debug)]
pub(crate) struct Defined {
    definition: Arc<Definition>,
    transaction_time: i64,
    edition: Edition,
}

impl Defined {
    /// Of the edition that is not in place.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.edition.program
    }
}

/// What a transaction that changes the schema has done, one after the other, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    Rows(Vec<LoggedRow>),
    Define { definition: Arc<Definition>, transaction_time: i64 },
}

/// The same of one that has been bound.
#[derive(Debug)]
pub struct Definitions {
    pub(crate) done: Vec<Done>,
    pub(crate) steps: Vec<Step>,
}

/// Whom everybody else has to wait for, or withdraws for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) txn: TxnId,
    age: Age,
}

impl Node {
    /// Hands back what may go on; anything else waits, or withdraws.
    pub(crate) fn pass_barrier(&mut self, request: Request, out: &mut Effects) -> Option<Request> {
        let Some(Barrier { txn: holder, age }) = self.barrier else { return Some(request) };
        let (txn, shard) = (request.txn(), self.shard);
        if txn == holder || self.bugs.ignores_definitions {
            return Some(request);
        }
        match &request {
            // It holds nothing elsewhere.
            Request::Execute { .. } => self.waiting.entry(holder).or_default().push(request),
            Request::Prepare { .. } | Request::Decide { .. } | Request::Apply { .. } => {
                self.answer(txn, Reply::Busy { txn, shard }, out);
            }
            // A lock that has nothing to do with tables.
            Request::Work { work, .. } if matches!(work.call.callee, Callee::AdvisoryLock { .. }) => {
                return Some(request);
            }
            Request::Work { begun, .. } => {
                let is_open = self.open.get(&txn).is_some_and(|open| !open.only_advises());
                let has_defined = self.open.get(&holder).is_some_and(|open| open.defines())
                    || self.participant.prepared.contains_key(&holder);
                if is_open || begun.age < age && !has_defined {
                    return Some(request);
                }
                self.wait_with_work(smallvec![holder], request, out);
            }
            // It is bound to what is to come.
            Request::Read { query, within: None, .. }
                if query.edition != self.program.edition
                    && self.participant.prepared.contains_key(&holder) =>
            {
                self.waiting.entry(holder).or_default().push(request);
            }
            _ => return Some(request),
        }
        None
    }

    /// Keeps others out for a definition; gives whom it has to wait for itself.
    pub(crate) fn raise_barrier(&mut self, txn: TxnId, age: Age) -> Option<TxnId> {
        match self.barrier {
            Some(barrier) if barrier.txn != txn => return Some(barrier.txn),
            _ => self.barrier = Some(Barrier { txn, age }),
        }
        let open = self.open.iter().filter(|(_, open)| !open.only_advises()).map(|(txn, _)| txn);
        let under_way = open.chain(self.participant.prepared.keys());
        under_way.copied().find(|other| *other != txn && !self.bugs.ignores_definitions)
    }

    pub(crate) fn lower_barrier(&mut self, txn: TxnId) {
        if self.barrier.is_some_and(|barrier| barrier.txn == txn) {
            self.barrier = None;
            self.ended.push(txn);
        }
    }

    /// Makes the definition and puts it in place.
    pub(crate) fn define(
        &mut self,
        definition: &Arc<Definition>,
        transaction_time: i64,
    ) -> Result<Defined, SqlError> {
        let _watch = self.interrupts.watch(self.statement);
        let own = (&self.program, &self.storage, &self.sequences);
        let edition = definition::apply(definition, own, self.shard, transaction_time)?;
        let mut defined = Defined { definition: definition.clone(), transaction_time, edition };
        self.exchange(&mut defined);
        match definition::check(&defined.edition.program, &self.program, &self.storage, self.shard) {
            Ok(()) => Ok(defined),
            Err(error) => {
                self.exchange(&mut defined);
                Err(error)
            }
        }
    }

    /// Puts the edition in place, or the one before back.
    pub(crate) fn exchange(&mut self, defined: &mut Defined) {
        let Edition { program, tables, sequences } = &mut defined.edition;
        self.storage.exchange(tables);
        std::mem::swap(&mut self.program, program);
        std::mem::swap(&mut self.sequences, sequences);
    }

    /// What the transaction has done, to be written down.
    pub(crate) fn steps_of(&mut self, done: &mut [Done]) -> Vec<Step> {
        let mut begins = Vec::with_capacity(done.len());
        let mut steps = Vec::with_capacity(done.len());
        for one in &mut *done {
            let begin = self.replay_done(one);
            begins.push(begin);
            steps.push(match &one.defined {
                Some(defined) => Step::Define {
                    definition: defined.definition.clone(),
                    transaction_time: defined.transaction_time,
                },
                None => Step::Rows(self.storage.logged_since(begin)),
            });
        }
        self.take_back(done, begins);
        steps
    }

    /// Does for good what a transaction with definitions has done. Nobody else has anything under way but reads: these begin again.
    pub(crate) fn commit_definitions(&mut self, done: Vec<Done>, timestamp: Timestamp) {
        for Done { undone, defined, .. } in done {
            match defined {
                Some(mut defined) => {
                    self.forget_all();
                    self.exchange(&mut defined);
                }
                None => self.storage.redo(undone, &[], timestamp),
            }
        }
        self.forget_all();
        self.snapshot_is_void = self.storage.is_saving();
        self.storage.end_saving();
        // Slots of what has been taken back are nobody's.
        self.storage.end_replay();
        self.has_new_description = true;
    }

    /// The same from a log.
    pub(crate) fn replay_steps(&mut self, steps: Vec<Step>, timestamp: Timestamp) -> Result<(), SqlError> {
        if steps.is_empty() {
            return Ok(());
        }
        for step in steps {
            self.forget_all();
            match step {
                Step::Rows(rows) => {
                    let program = self.program.clone();
                    self.storage.replay_logged(rows, timestamp, &*program);
                }
                Step::Define { definition, transaction_time } => {
                    self.define(&definition, transaction_time)?;
                }
            }
        }
        self.forget_all();
        self.has_new_description = true;
        Ok(())
    }

    /// What was bound when the shard ended, as it was.
    pub(crate) fn bind_again(
        &mut self,
        steps: Vec<Step>,
        timestamp: Timestamp,
    ) -> Result<Definitions, SqlError> {
        let (mut done, mut begins) = (Vec::new(), Vec::new());
        for step in &steps {
            begins.push(self.storage.position());
            done.push(match step.clone() {
                Step::Rows(rows) => {
                    self.storage.replay_as_changes(rows, timestamp);
                    Done::default()
                }
                Step::Define { definition, transaction_time } => {
                    Done::of(0, self.define(&definition, transaction_time)?)
                }
            });
        }
        self.take_back(&mut done, begins);
        Ok(Definitions { done, steps })
    }

    /// Nobody who reads may go back to what was before.
    fn forget_all(&mut self) {
        self.readers.clear();
        for one in self.participant.unsettled.values_mut() {
            one.writes = None;
        }
        self.storage.forget(self.storage.position());
    }
}

/// Whether a request defines something.
pub(crate) fn definition_of(callee: &Callee) -> Option<&Arc<Definition>> {
    match callee {
        Callee::Definition(definition) => Some(definition),
        Callee::Procedure(_)
        | Callee::Text(_)
        | Callee::AdvisoryLock { .. }
        | Callee::Sequences
        | Callee::SetSequence { .. }
        | Callee::Constraints(_) => None,
    }
}
