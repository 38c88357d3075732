//! What a run leaves to be looked at when its transaction ends, and the look.

use weir_sql::catalog::{Deferral, TableId};
use weir_types::Value;

use crate::exec::call::{Run, Stop};
use crate::exec::deferred::{Later, waits};
use crate::storage::{KeyBytes, RowRef, Rows, key::push_key};

impl Run<'_> {
    /// Whether the constraint is to be looked at later.
    pub(super) fn waits(&self, deferral: Deferral, name: &str) -> bool {
        deferral != Deferral::Never && waits(deferral, name, self.fragment.said.iter().copied())
    }

    pub(super) fn look_later(&mut self, table: TableId, row: u32, rules: &[usize]) {
        self.later.extend(rules.iter().map(|&rule| Later::Child { table, row, rule }));
    }

    /// Looks now.
    ///
    /// # Errors
    /// 23503; or who holds a parent that is needed.
    pub(in crate::exec) fn look(&mut self, all: &[Later]) -> Result<(), Stop> {
        all.iter().try_for_each(|one| match one {
            Later::Child { table, row, rule } => self.look_for_parent(*table, *row, *rule),
            Later::Parent { table, reference, key } => self.look_for_children(*table, *reference, key),
        })
    }

    fn look_for_parent(&mut self, table: TableId, row: u32, rule: usize) -> Result<(), Stop> {
        let (program, storage) = (self.fragment.program, &*self.fragment.storage);
        if storage.packed(table, row).is_none() {
            // It has been deleted since.
            return Ok(());
        }
        let columns = program.schema.table(table).types.len();
        let values: Vec<Value> =
            (0..columns).map(|column| storage.value(table, RowRef { shard: 0, row }, column)).collect();
        self.check_parent(table, &program.rules[table.0 as usize].foreign_keys[rule], &values)
    }

    /// A row that has the key again is as good as the one that had it.
    fn look_for_children(&mut self, table: TableId, reference: usize, key: &[Value]) -> Result<(), Stop> {
        let program = self.fragment.program;
        let reference = &program.rules[table.0 as usize].referenced_by[reference];
        if self.children(reference, key).is_empty() {
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
