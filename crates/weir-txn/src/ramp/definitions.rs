//! Definitions at a shard (docs/internals/server.md, "Definitions"): a transaction that changes the schema keeps out everybody else who writes, from
//! its definition to its end; until it commits, what it has defined is there for its own statements alone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::smallvec;
use weir_types::SqlError;
use weir_types::datetime::TransactionTime;

use super::message::{Age, Callee, Reply, Request, TxnId};
use super::open::{Version, Versions};
use crate::exec::definition::{self, Definition, SchemaVersion};
use crate::exec::program::Program;
use crate::node::{Effects, Node};
use crate::storage::{LoggedRow, MergedRows, Timestamp, WriteSet};

/// A definition that has been made, and the schema version that is not in place: the next one or, while that is, the one before.
#[derive(Debug)]
pub(crate) struct Defined {
    definition: Arc<Definition>,
    transaction_time: TransactionTime,
    schema_version: SchemaVersion,
}

impl Defined {
    /// Of the schema version that is not in place.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.schema_version.program
    }

    pub(crate) fn step(&self) -> Step {
        Step::Define { definition: self.definition.clone(), transaction_time: self.transaction_time }
    }
}

/// What a transaction that changes the schema has done, one after the other, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    Rows(Vec<LoggedRow>),
    Define { definition: Arc<Definition>, transaction_time: TransactionTime },
}

/// What a transaction that changes the schema has made, and the same as it is written down.
#[derive(Debug)]
pub struct Definitions {
    pub(crate) versions: Versions,
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
                if query.schema_version != self.program.schema_version
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
        let in_flight = open.chain(self.participant.prepared.keys());
        in_flight.copied().find(|other| *other != txn && !self.bugs.ignores_definitions)
    }

    pub(crate) fn lower_barrier(&mut self, txn: TxnId) {
        if self.barrier.is_some_and(|barrier| barrier.txn == txn) {
            self.barrier = None;
            self.ended.push(txn);
        }
    }

    /// Makes the definition and puts it in place; gives what is left of the write set then.
    pub(crate) fn define(
        &mut self,
        definition: &Arc<Definition>,
        transaction_time: TransactionTime,
        own: &WriteSet,
    ) -> Result<(Defined, WriteSet), SqlError> {
        let _watch = self.interrupts.watch(self.statement);
        let _zone = transaction_time.zone.enter();
        let rows = MergedRows { base: &self.storage, own };
        let schema_version = definition::apply(
            definition,
            (&self.program, rows, &self.sequences),
            self.shard,
            transaction_time,
        )?;
        let carried = own.carried_over(|table| schema_version.tables.becomes(table));
        let mut defined = Defined { definition: definition.clone(), transaction_time, schema_version };
        self.exchange(&mut defined);
        let rows = MergedRows { base: &self.storage, own: &carried };
        match definition::check(&defined.schema_version.program, &self.program, rows, self.shard) {
            Ok(()) => Ok((defined, carried)),
            Err(error) => {
                self.exchange(&mut defined);
                Err(error)
            }
        }
    }

    /// Puts the schema version in place, or the one before back.
    pub(crate) fn exchange(&mut self, defined: &mut Defined) {
        let SchemaVersion { program, tables, sequences } = &mut defined.schema_version;
        self.storage.exchange(tables);
        std::mem::swap(&mut self.program, program);
        std::mem::swap(&mut self.sequences, sequences);
    }

    /// Does for good what a transaction with definitions has done. Nobody else has anything under way but reads: these begin again.
    pub(crate) fn commit_definitions(&mut self, versions: Versions, timestamp: Timestamp) {
        let Versions { all, own } = versions;
        for Version { mut defined, below } in all {
            // Its rows are in the tables that have been made anew, or in the write set on top.
            drop(below);
            self.forget_all();
            self.exchange(&mut defined);
        }
        self.storage.apply_write_set(own, &[], timestamp);
        self.forget_all();
        self.snapshot_is_void = self.storage.is_saving();
        self.storage.end_saving();
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
                    self.define(&definition, transaction_time, &WriteSet::default())?;
                }
            }
        }
        self.forget_all();
        self.has_new_description = true;
        Ok(())
    }

    /// What was prepared when the shard ended, as it was.
    pub(crate) fn prepare_again(&mut self, steps: Vec<Step>) -> Result<Definitions, SqlError> {
        let mut versions = Versions::default();
        for step in &steps {
            match step.clone() {
                Step::Rows(rows) => versions.own.take_logged(&mut self.storage, rows),
                Step::Define { definition, transaction_time } => {
                    let (defined, carried) = self.define(&definition, transaction_time, &versions.own)?;
                    let below = std::mem::replace(&mut versions.own, carried);
                    versions.all.push(Version { defined, below });
                }
            }
        }
        versions.all.iter_mut().rev().for_each(|version| self.exchange(&mut version.defined));
        Ok(Definitions { versions, steps })
    }

    /// Nobody who reads may go back to what was before.
    fn forget_all(&mut self) {
        self.readers.clear();
        self.snapshots.on_definition();
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
