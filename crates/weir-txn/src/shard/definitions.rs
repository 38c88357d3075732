//! Definitions at a shard (docs/internals/server.md, "Definitions"): a transaction that changes the schema keeps out all other writers from its
//! definition to its end. Until it commits, only its own statements see the new schema.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::smallvec;
use weir_core::ids::{Timestamp, TxnId};
use weir_sql::catalog::TableId;
use weir_types::SqlError;
use weir_types::datetime::TransactionTime;

use super::open::{Open, StepResult, Version, Versions};
use crate::exec::definition::{self, Built, SchemaVersion};
use crate::exec::program::Program;
use crate::faults::Faults;
use crate::message::{Age, Begun, Callee, Change, Definition, Reply, Request, Work};
use crate::shard::node::{Effects, Node};
use crate::storage::{IndexId, LoggedRow, MergedRows, WriteSet};

/// A definition made by an open transaction. `schema_version` is the version that is not in place: the new one, or the previous one while
/// the new one is in place.
#[derive(Debug)]
pub(crate) struct Defined {
    definition: Arc<Definition>,
    transaction_time: TransactionTime,
    schema_version: SchemaVersion,
}

impl Defined {
    /// Program of the schema version that is not in place.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.schema_version.program
    }

    /// Global keys without entries, by table and index, of tables that have rows.
    pub(crate) fn unfilled(&self) -> &[(TableId, IndexId)] {
        self.schema_version.tables.unfilled()
    }

    /// Returns whether it is more than the barrier (LOCK TABLE).
    fn changes_tables(&self) -> bool {
        match &self.definition.change {
            Change::Schema { .. } => true,
            Change::Truncate { tables, .. } => !tables.is_empty(),
        }
    }

    /// Entries of a global key that were staged before the definition.
    pub(crate) fn staged_entries(&self) -> Vec<LoggedRow> {
        self.schema_version.tables.added_entries()
    }

    pub(crate) fn step(&self) -> Step {
        Step::Define { definition: self.definition.clone(), transaction_time: self.transaction_time }
    }
}

/// One step of a transaction that changes the schema, as it is logged; steps are in execution order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    Rows(Vec<LoggedRow>),
    Define { definition: Arc<Definition>, transaction_time: TransactionTime },
}

/// Schema versions made by a transaction, and the same changes in their logged form.
#[derive(Debug)]
pub struct Definitions {
    pub(crate) versions: Versions,
    pub(crate) steps: Vec<Step>,
}

/// A transaction that other writers wait for, or withdraw from: it changes the schema, runs by itself, or is in doubt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) txn: TxnId,
    pub(crate) age: Age,
}

impl<F: Faults> Node<F> {
    /// Returns the request if it may proceed; otherwise it is queued, or answered with a withdrawal: a definition is in flight, or a
    /// transaction is in doubt since the restart.
    #[cold]
    pub(crate) fn pass_barrier(
        &mut self,
        now_ms: u64,
        request: Request,
        out: &mut Effects,
    ) -> Option<Request> {
        let of_definition = self.barrier.filter(|_| !self.bugs.ignores_definitions());
        let barrier = of_definition.or_else(|| self.in_doubt(now_ms));
        let Some(Barrier { txn: holder, age }) = barrier else { return Some(request) };
        let (txn, shard) = (request.txn(), self.shard);
        if txn == holder {
            return Some(request);
        }
        match &request {
            // Such a request holds nothing on other shards, so it may wait.
            Request::Execute { .. } => self.wait_with_call(holder, request.into(), out),
            Request::Prepare { .. }
            | Request::Decide { .. }
            | Request::Apply { .. }
            | Request::WorkAndBind { .. } => {
                self.answer(txn, Reply::Busy { txn, shard }, out);
            }
            // Advisory locks are independent of tables, and so are places in the order.
            Request::Work { work, .. }
                if matches!(work.call.callee, Callee::AdvisoryLock { .. } | Callee::Enter) =>
            {
                return Some(request);
            }
            Request::Work { begun, .. } => {
                let is_open = self.open.get(&txn).is_some_and(|open| !open.lets_definitions_pass());
                let has_defined = self.open.get(&holder).is_some_and(|open| open.defines() || open.excludes)
                    || self.participant.prepared().contains_key(&holder);
                if is_open || begun.age < age && !has_defined {
                    return Some(request);
                }
                self.wait_with_work(smallvec![holder], request, out);
            }
            // Bound to a schema version that is not committed yet.
            Request::Read { query, within: None, .. }
                if query.schema_version != self.program.schema_version
                    && self.participant.prepared().contains_key(&holder) =>
            {
                self.waiting.entry(holder).or_default().push(request.into());
            }
            _ => return Some(request),
        }
        None
    }

    /// Raises the barrier for a definition. Returns a transaction that it has to wait for first.
    pub(crate) fn raise_barrier(&mut self, txn: TxnId, age: Age) -> Option<TxnId> {
        match self.barrier {
            Some(barrier) if barrier.txn != txn => return Some(barrier.txn),
            _ => self.barrier = Some(Barrier { txn, age }),
        }
        let open = self.open.iter().filter(|(_, open)| !open.lets_definitions_pass()).map(|(txn, _)| txn);
        let mut in_flight =
            open.chain(self.participant.prepared().keys()).copied().chain(self.workers.writers());
        in_flight.find(|other| *other != txn && !self.bugs.ignores_definitions())
    }

    /// Raises the barrier for a statement that runs by itself. It stays until the transaction ends, also behind a roll-back to a savepoint.
    pub(crate) fn on_barrier(&mut self, (txn, begun): (TxnId, Begun), work: Box<Work>, out: &mut Effects) {
        if let Some(holder) = self.raise_barrier(txn, begun.age) {
            return self.wait_with_work(smallvec![holder], Request::Work { txn, begun, work }, out);
        }
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, self.shard, begun.age));
        open.excludes = true;
        self.worked(txn, open, (work.number, Ok(StepResult::default())), out);
    }

    pub(crate) fn lower_barrier(&mut self, txn: TxnId) {
        if self.barrier.is_some_and(|barrier| barrier.txn == txn) {
            self.barrier = None;
            self.ended.push(txn);
        }
    }

    /// Applies the definition and puts the new schema version in place. Returns the part of the write set that remains uncommitted on top
    /// of it. `built`: what has been built of it beforehand.
    pub(crate) fn define(
        &mut self,
        definition: &Arc<Definition>,
        transaction_time: TransactionTime,
        own: &WriteSet,
        built: Option<Built>,
    ) -> Result<(Defined, WriteSet), SqlError> {
        let _watch = self.interrupts.watch(self.statement);
        let _zone = transaction_time.zone.enter();
        let rows = MergedRows { base: &self.storage, own };
        let schema_version = definition::apply(
            definition,
            (&self.program, rows, &self.sequences),
            self.shard,
            transaction_time,
            built,
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

    /// Swaps the schema version in place with the one kept in `defined`.
    pub(crate) fn exchange(&mut self, defined: &mut Defined) {
        let SchemaVersion { program, tables, sequences } = &mut defined.schema_version;
        self.storage.exchange(tables);
        std::mem::swap(&mut self.program, program);
        std::mem::swap(&mut *self.sequences, sequences);
    }

    /// Commits a transaction with definitions. Only reads, and calls that write nothing, can be in flight then; they begin again.
    pub(crate) fn commit_definitions(&mut self, versions: Versions, timestamp: Timestamp) {
        let Versions { all, own } = versions;
        if all.iter().any(|version| version.defined.changes_tables()) {
            self.end_builds();
        }
        for Version { mut defined, below } in all {
            // Its rows are in the rebuilt tables, or in the write set on top of them.
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

    /// Replays the logged steps of a committed transaction with definitions.
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
                    self.define(&definition, transaction_time, &WriteSet::default(), None)?;
                }
            }
        }
        self.forget_all();
        self.has_new_description = true;
        Ok(())
    }

    /// Rebuilds the definitions of a transaction that was prepared when the shard ended.
    pub(crate) fn prepare_again(&mut self, steps: Vec<Step>) -> Result<Definitions, SqlError> {
        let mut versions = Versions::default();
        for step in &steps {
            match step.clone() {
                Step::Rows(rows) => versions.own.take_logged(&mut self.storage, rows),
                Step::Define { definition, transaction_time } => {
                    let (defined, carried) =
                        self.define(&definition, transaction_time, &versions.own, None)?;
                    let below = std::mem::replace(&mut versions.own, carried);
                    versions.all.push(Version { defined, below });
                }
            }
        }
        versions.all.iter_mut().rev().for_each(|version| self.exchange(&mut version.defined));
        Ok(Definitions { versions, steps })
    }

    /// Drops all history: no reader may go back to a state before the schema change.
    fn forget_all(&mut self) {
        self.readers.clear();
        self.snapshots.on_definition();
        self.workers.on_definition();
        for one in self.participant.committed_mut().values_mut() {
            one.writes = None;
        }
        let position = self.storage.position();
        self.storage.forget(position);
    }
}

/// Returns the definition that a request carries.
pub(crate) fn definition_of(callee: &Callee) -> Option<&Arc<Definition>> {
    match callee {
        Callee::Definition(definition) => Some(definition),
        Callee::Procedure(_)
        | Callee::Text(_)
        | Callee::AdvisoryLock { .. }
        | Callee::Sequences
        | Callee::SetSequence { .. }
        | Callee::Constraints(_)
        | Callee::Derived(_)
        | Callee::Serializable(_)
        | Callee::Attempt(..)
        | Callee::Reads(_)
        | Callee::Build(_)
        | Callee::Enter
        | Callee::Barrier => None,
    }
}
