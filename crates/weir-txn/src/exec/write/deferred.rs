//! Deferred checks of a run, and their execution.

use smallvec::SmallVec;
use weir_sql::catalog::{Deferral, TableId};
use weir_types::Value;

use crate::exec::call::{Run, Stop};
use crate::exec::deferred::{Later, is_batch, waits};
use crate::faults::Faults;
use crate::message::Setting;
use crate::storage::{KeyBytes, RowRef, Rows, key::push_key};

/// Foreign keys that could not be checked for a row about to be written, by number.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// Deferred to the end of the transaction.
    pub later: SmallVec<[usize; 2]>,
    /// The parent is missing but may exist at the end of the statement.
    pub unmet: SmallVec<[usize; 2]>,
}

impl Unseen {
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        self.later.retain(|rule| stays(*rule));
        self.unmet.retain(|rule| stays(*rule));
    }
}

impl<F: Faults> Run<'_, F> {
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

    /// Runs the checks.
    ///
    /// # Errors
    /// 23503; or the holders of a parent that is needed.
    pub(in crate::exec) fn look(&mut self, all: &[Later]) -> Result<(), Stop> {
        all.iter().try_for_each(|one| match one {
            Later::Child { table, row, rule } => self.look_for_parent(*table, *row, *rule),
            Later::Parent { table, reference, key } => self.look_for_children(*table, *reference, key),
            Later::Distant { table, rule, key } => self.look_for_distant_parent(*table, *rule, key),
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
        let rule = &program.rules[table.0 as usize].foreign_keys[rule];
        match self.check_parent(rule, &values)? {
            true => Ok(()),
            false => Err(self.parent_missing(table, rule, &|at| values[rule.key_columns[at]].clone()).into()),
        }
    }

    fn look_for_distant_parent(&mut self, table: TableId, rule: usize, key: &[Value]) -> Result<(), Stop> {
        let program = self.fragment.program;
        let rule = &program.rules[table.0 as usize].foreign_keys[rule];
        let mut bytes = KeyBytes::new();
        let columns = &program.schema.table(rule.parent).indexes[rule.parent_index].columns;
        columns.iter().zip(key).for_each(|(column, value)| push_key(&mut bytes, value, column));
        match self.has_parent(rule, bytes)? {
            true => Ok(()),
            false => Err(self.parent_missing(table, rule, &|at| key[at].clone()).into()),
        }
    }

    /// A new row with the same key satisfies the children.
    fn look_for_children(&mut self, table: TableId, reference: usize, key: &[Value]) -> Result<(), Stop> {
        let program = self.fragment.program;
        let reference = &program.rules[table.0 as usize].referenced_by[reference];
        if self.children(reference, key)?.is_empty() {
            return Ok(());
        }
        let rule = &program.rules[reference.child.0 as usize].foreign_keys[reference.rule];
        let index = &program.schema.table(table).indexes[rule.parent_index];
        let mut bytes = KeyBytes::new();
        for (index_column, child_column) in index.columns.iter().zip(&rule.key_columns) {
            let at = reference.columns.iter().position(|column| column == child_column);
            push_key(&mut bytes, &key[at.expect("both are of one foreign key")], index_column);
        }
        match self.has_parent(rule, bytes)? {
            true => Ok(()),
            false => Err(self.is_referenced(table, reference, key).into()),
        }
    }
}
