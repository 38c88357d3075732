//! Deferred checks of a run, and their execution.

use smallvec::SmallVec;
use weir_sql::catalog::{Deferral, TableId};
use weir_types::Value;

use crate::exec::call::{Run, Stop};
use crate::exec::deferred::{Later, is_batch, waits};
use crate::faults::Faults;
use crate::message::{ParentChange, Setting, WhyParent};
use crate::storage::{RowRef, Rows};

/// Foreign keys that could not be checked for a row about to be written, by number.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// Deferred to the end of the transaction.
    pub later: SmallVec<[usize; 2]>,
    /// The parent is missing but may exist at the end of the statement.
    pub unmet: SmallVec<[usize; 2]>,
    /// The parent is to be looked for at another shard.
    pub elsewhere: SmallVec<[usize; 2]>,
}

impl Unseen {
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        self.later.retain(|rule| stays(*rule));
        self.unmet.retain(|rule| stays(*rule));
        self.elsewhere.retain(|rule| stays(*rule));
    }
}

impl<F: Faults> Run<'_, F> {
    /// Returns whether the coordinator carries out what the run derives.
    fn carries(&self) -> bool {
        self.fragment.program.shards > 1 && self.fragment.open.is_some()
    }

    /// SET CONSTRAINTS of the transaction so far.
    fn said(&self) -> &[&Setting] {
        self.fragment.open.map_or(&[], |open| open.said)
    }

    /// Returns whether further batches of the same statement may follow.
    pub(in crate::exec) fn is_batch(&self) -> bool {
        is_batch(self.said().iter().copied())
    }

    /// Returns whether the constraint is deferred.
    pub(super) fn waits(&self, deferral: Deferral, name: &str) -> bool {
        deferral != Deferral::Never && waits(deferral, name, self.said().iter().copied())
    }

    pub(super) fn look_later(&mut self, table: TableId, row: u32, unseen: &Unseen) {
        let child = |&rule: &usize| Later::Child { table, row, rule };
        self.later.extend(unseen.later.iter().map(child));
        self.unmet.extend(unseen.unmet.iter().map(child));
        self.elsewhere.extend(unseen.elsewhere.iter().map(child));
    }

    /// Runs at the end of the statement: checks that failed during the statement must hold now.
    pub(in crate::exec) fn look_at_unmet(&mut self) -> Result<(), Stop> {
        if self.unmet.is_empty() {
            return Ok(());
        }
        let all = std::mem::take(&mut self.unmet);
        if self.is_batch() {
            self.later.extend(all);
            return Ok(());
        }
        self.look(&all)
    }

    /// Runs at the end of the run: parents at other shards are asked for. A row that has gone again refers to none.
    pub(in crate::exec) fn ask_elsewhere(&mut self) -> Result<(), Stop> {
        let all = std::mem::take(&mut self.elsewhere);
        if self.is_batch() {
            self.later.extend(all);
            return Ok(());
        }
        self.look(&all)
    }

    /// Runs the checks.
    ///
    /// # Errors
    /// 23503; or the holders of a parent that is needed.
    pub(in crate::exec) fn look(&mut self, all: &[Later]) -> Result<(), Stop> {
        all.iter().try_for_each(|one| match one {
            Later::Child { table, row, rule } => self.look_for_parent(*table, *row, *rule),
            Later::Parent { table, reference, key, is_asked } => {
                self.look_for_children((*table, *reference), key, *is_asked)
            }
            Later::Distant { table, rule, key } => {
                self.look_for_parent_with((*table, *rule), key, WhyParent::IsReferred)
            }
        })
    }

    fn look_for_parent(&mut self, table: TableId, row: u32, rule: usize) -> Result<(), Stop> {
        let (program, storage) = (self.fragment.program, &self.fragment.storage);
        if !storage.exists(table, row) {
            // The row has been deleted since.
            return Ok(());
        }
        let columns = program.schema.table(table).types.len();
        let values: Vec<Value> =
            (0..columns).map(|column| storage.value(table, RowRef { shard: 0, row }, column)).collect();
        let (at, rule) = (rule, &program.rules[table.0 as usize].foreign_keys[rule]);
        let key = || rule.key_columns.iter().map(|&column| values[column].clone()).collect();
        if let Some(shard) = self.shard_of_parent(rule, &values).filter(|shard| *shard != self.fragment.here)
        {
            self.ask_for_parent(shard, (table, at), key(), WhyParent::IsReferred);
            return Ok(());
        }
        match self.check_parent(rule, &values)? {
            true => Ok(()),
            // The entry of a parent that another part of the call inserts comes when the call has run.
            false if rule.by_key && self.carries() && !self.fragment.bugs.asks_no_parent_again() => {
                self.ask_for_parent(self.fragment.here, (table, at), key(), WhyParent::IsReferred);
                Ok(())
            }
            false => Err(self.parent_missing(table, rule, &|at| values[rule.key_columns[at]].clone()).into()),
        }
    }

    /// A new row with the same key satisfies the children. `is_asked`: other shards have been asked for children already.
    fn look_for_children(
        &mut self,
        (table, at): (TableId, usize),
        key: &[Value],
        is_asked: bool,
    ) -> Result<(), Stop> {
        let reference = &self.fragment.program.rules[table.0 as usize].referenced_by[at];
        if !is_asked && !self.ask_for_children((table, at), key, &ParentChange::HasGone) {
            return Ok(());
        }
        match self.children_that_stay(reference, key)? {
            true => self.look_for_another_parent((table, at), key),
            false => Ok(()),
        }
    }
}
