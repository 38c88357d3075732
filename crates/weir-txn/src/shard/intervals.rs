//! Interval locks of serializable transactions: who takes one looks for others' writes in it first (docs/internals/serializable.md).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use weir_core::ids::TxnId;
use weir_sql::catalog::TableId;
use weir_types::SqlError;

use super::node::{Effects, Node};
use super::open::{Open, StepResult};
use super::participant::Prepared;
use super::reads::read_rows;
use crate::claims::{Claim, Holders, Interval};
use crate::exec::call::{Ran, Stop};
use crate::exec::reads::{Reads, RecordedRows};
use crate::faults::Faults;
use crate::message::{Begun, QueryReads, ReadQuery, Request, Work};
use crate::storage::{MergedRows, Operation, Rows as _, Storage, Write};

/// Number of intervals that a transaction takes one by one; then its statements take tables.
const INTERVALS_MAX: usize = 16_384;

/// Intervals that a run has read, in the order of tables.
type ReadIntervals = [(TableId, Interval)];

/// Returns whether a prepared write may put a row into the interval, take one out of it, or change one in it. An update may be folded with
/// others, so the key that it makes is not known.
fn writes_in(storage: &Storage, write: &Write, interval: &Interval) -> bool {
    let Write { table, row, operation } = write;
    if *interval == Interval::Table {
        return true;
    }
    let is_of_index = |column| {
        let index = interval.index().map(|index| &storage.schema().table(*table).indexes[index]);
        index.is_some_and(|index| index.columns.iter().any(|of| of.column == Some(column)))
    };
    match (row, operation) {
        (None, Operation::Insert(packed)) => {
            interval.contains(|index| storage.index_key_of(*table, index, packed))
        }
        (Some(row), operation) if storage.packed(*table, *row).is_some() => {
            let is_there = interval.contains(|index| storage.index_key(*table, index, *row));
            is_there || !matches!(operation, Operation::Delete) && operation.takes(&is_of_index)
        }
        _ => true,
    }
}

impl Prepared {
    fn writes_in(&self, storage: &Storage, read: &ReadIntervals) -> bool {
        let is_in = |(table, interval): &(TableId, Interval)| {
            let mut writes = self.writes.iter().filter(|write| write.table == *table);
            writes.any(|write| writes_in(storage, write, interval))
        };
        self.definitions.is_some() || read.iter().any(is_in)
    }
}

impl Open {
    fn writes_in(&self, storage: &Storage, read: &ReadIntervals) -> bool {
        let is_in = |(table, interval): &(TableId, Interval)| {
            self.own.any_written(storage, *table, &|key| interval.contains(key))
        };
        self.defines() || read.iter().any(is_in)
    }
}

impl<F: Faults> Node<F> {
    /// Other transactions that have written in one of the intervals and have not ended here.
    fn writers_in(&self, txn: TxnId, read: &ReadIntervals) -> Holders {
        let mut writers: Vec<TxnId> =
            read.iter().filter_map(|(table, _)| self.claims.holder_of_table(*table, txn)).collect();
        let others = self.open.iter().filter(|(other, _)| **other != txn);
        // A worker has the write set of its transaction.
        let has_written = |(other, open): &(&TxnId, &Open)| {
            self.workers.runs_for(**other) || open.writes_in(&self.storage, read)
        };
        writers.extend(others.filter(has_written).map(|(other, _)| *other));
        if !self.bugs.intervals_pass_prepared() {
            let prepared = self.participant.prepared().iter();
            let prepared =
                prepared.filter(|(other, one)| **other != txn && one.writes_in(&self.storage, read));
            writers.extend(prepared.map(|(other, _)| *other));
        }
        writers.sort_unstable();
        writers.dedup();
        writers.into()
    }

    /// Takes interval locks for an open transaction, all of them or none.
    ///
    /// # Errors
    /// Transactions that have written in one of the intervals.
    fn take_intervals(
        &mut self,
        txn: TxnId,
        open: &mut Open,
        mut read: Vec<(TableId, Interval)>,
    ) -> Result<(), Holders> {
        if self.bugs.forgets_intervals() {
            read.retain(|(_, interval)| matches!(interval, Interval::Key(..)));
        }
        if open.intervals.len() + read.len() > INTERVALS_MAX {
            read.iter_mut().for_each(|(_, interval)| *interval = Interval::Table);
            read.dedup();
        }
        let writers = self.writers_in(txn, &read);
        if !writers.is_empty() {
            return Err(writers);
        }
        let claims = read.into_iter().map(|(table, interval)| Claim::Interval(table, interval));
        open.intervals.extend(claims.filter(|claim| self.claims.take(claim, txn)));
        Ok(())
    }

    /// Takes the intervals that a statement has read before its result, which may be an error, is told. A statement that has to wait is
    /// rolled back by the caller.
    #[cold]
    pub(super) fn hold_reads(
        &mut self,
        txn: TxnId,
        open: &mut Open,
        result: Result<Ran, Stop>,
        reads: &Reads,
    ) -> Result<Ran, Stop> {
        let read = match &result {
            Ok(_) | Err(Stop::Error(_)) => reads.take(),
            Err(Stop::Held(_) | Stop::Pinned { .. } | Stop::Elsewhere { .. }) => return result,
            // A worker runs it on tables that nobody else changes.
            Err(Stop::Long) => self.all_tables(),
        };
        self.take_intervals(txn, open, read).map_or_else(|writers| Err(Stop::Held(writers)), |()| result)
    }

    fn all_tables(&self) -> Vec<(TableId, Interval)> {
        let tables = 0..self.program.schema.tables.len() as u32;
        tables.map(|table| (TableId(table), Interval::Table)).collect()
    }

    /// Takes the interval locks of a query that follows.
    pub(super) fn on_reads(
        &mut self,
        (txn, begun): (TxnId, Begun),
        work: Box<Work>,
        asked: &Arc<QueryReads>,
        out: &mut Effects,
    ) {
        let number = work.number;
        let mut open = self.open.remove(&txn).unwrap_or_else(|| Open::new(txn, self.shard, begun.age));
        let read = match asked.query_of(self.shard, &work.call) {
            Some(query) => self.reads_of(&mut open, &query),
            None => Ok(Vec::new()),
        };
        let result = match read.map(|read| self.take_intervals(txn, &mut open, read)) {
            Ok(Ok(())) => Ok(StepResult::default()),
            Ok(Err(writers)) => {
                if open.has_worked() {
                    self.open.insert(txn, open);
                }
                (self.scratch.met, self.scratch.stopped_at) = (None, None);
                return self.wait_for(writers, Request::Work { txn, begun, work }, out);
            }
            Err(error) => Err(error),
        };
        self.worked(txn, open, (number, result), out);
    }

    /// The intervals that the query reads; whole tables where a run of it does not tell: it fails, takes long, or would read other rows the
    /// next time.
    fn reads_of(&mut self, open: &mut Open, query: &ReadQuery) -> Result<Vec<(TableId, Interval)>, SqlError> {
        self.put_versions(open);
        let read = self.run_recorded(open, query);
        self.take_versions(open);
        read
    }

    fn run_recorded(&self, open: &Open, query: &ReadQuery) -> Result<Vec<(TableId, Interval)>, SqlError> {
        self.check_schema_version(query.schema_version)?;
        let (tables, is_volatile) = match query.parts.as_deref() {
            None => (query.tables.iter().map(|read| read.table).collect(), false),
            Some(read) => {
                let gather = self.program.query(&read.text).map_err(|wrong| wrong.error)?;
                (gather.tables().collect::<Vec<_>>(), gather.is_volatile())
            }
        };
        let reads = Reads::default();
        let is_complete = !is_volatile && {
            let watch = self.interrupts.watch_within(self.statement, self.workers.budget());
            let base = MergedRows { base: &self.storage, own: &open.own };
            let ran = read_rows(&self.program, &RecordedRows { rows: &base, reads: &reads }, query);
            ran.is_ok() && !watch.has_spent_its_budget()
        };
        if !is_complete {
            tables.into_iter().for_each(|table| reads.add(table, Interval::Table));
        }
        Ok(reads.take())
    }
}
