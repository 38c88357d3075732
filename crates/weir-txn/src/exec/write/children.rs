//! Foreign-key actions on the children of a row that is deleted or changes its key.

use std::ops::ControlFlow;

use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, ForeignKeyAction, TableId};
use weir_types::text::to_text;
use weir_types::{SqlError, SqlState, Value};

use super::{Children, Reference};
use crate::claims::Interval;
use crate::exec::call::{Run, Stop};
use crate::exec::deferred::Later;
use crate::faults::Faults;
use crate::message::ParentChange;
use crate::storage::{
    ColumnChange, ColumnOperation, KeyBytes, KeyRange, Operation, RowRef, Rows, key::push_key,
};

impl<F: Faults> Run<'_, F> {
    /// Applies the actions when a parent row is deleted (`new` is `None`) or changed. Children that go with it are noted, and deleted behind it.
    pub(super) fn on_parent_change(
        &mut self,
        table: TableId,
        row: u32,
        new: Option<&[Value]>,
    ) -> Result<(), Stop> {
        let program = self.fragment.program;
        for (at, reference) in program.rules[table.0 as usize].referenced_by.iter().enumerate() {
            // Copies of children come as such.
            if self.is_copying && matches!(reference.children, Children::Copied) {
                continue;
            }
            let old =
                |column: ColumnIndex| self.fragment.storage.value(table, RowRef { shard: 0, row }, column);
            let columns = &reference.parent_columns;
            let is_same =
                |&column: &ColumnIndex, new: &[Value]| weir_types::compare::equal(&old(column), &new[column]);
            if new.is_some_and(|new| columns.iter().all(|column| is_same(column, new))) {
                continue;
            }
            let old_key: Vec<Value> = columns.iter().map(|&column| old(column)).collect();
            if old_key.iter().any(Value::is_null) {
                continue;
            }
            let new_key: Option<Vec<Value>> =
                new.map(|new| columns.iter().map(|&column| new[column].clone()).collect());
            let change = new_key.clone().map_or(ParentChange::Goes, ParentChange::Gets);
            self.check_action(reference, &change)?;
            self.claim_row(table, row, LockStrength::Update)?;
            let action = if new.is_some() { reference.on_update } else { reference.on_delete };
            let waits = action == ForeignKeyAction::NoAction;
            // The statement may still remove or change children of its own table.
            let is_late = waits || action == ForeignKeyAction::Restrict && reference.child == table;
            if waits && self.waits(reference.deferral, &reference.name) {
                self.later.push(Later::Parent { table, reference: at, key: old_key, is_asked: false });
                continue;
            }
            if !self.ask_for_children((table, at), &old_key, &change) {
                continue;
            }
            let children = self.children(reference, &old_key)?;
            if is_late && !children.is_empty() {
                // The statement may still delete the children, or create another parent with that key.
                self.unmet.push(Later::Parent { table, reference: at, key: old_key, is_asked: true });
                continue;
            }
            for child in children {
                self.on_child(table, reference, child, &old_key, new_key.as_deref(), action)?;
            }
        }
        Ok(())
    }

    pub(super) fn on_child(
        &mut self,
        table: TableId,
        reference: &Reference,
        child: u32,
        old_key: &[Value],
        new_key: Option<&[Value]>,
        action: ForeignKeyAction,
    ) -> Result<(), Stop> {
        let assign = |values: Vec<Value>| -> Vec<(ColumnIndex, Value)> {
            reference.columns.iter().copied().zip(values).collect()
        };
        let changes = match (action, new_key) {
            (ForeignKeyAction::NoAction | ForeignKeyAction::Restrict, _) => {
                self.wait_for_going(reference, child)?;
                return Err(self.is_referenced(table, reference, old_key).into());
            }
            (ForeignKeyAction::Cascade, None) => {
                self.hold_to_delete(reference.child, child, self.holds_rows())?;
                self.cascaded.push((reference.child, child));
                return Ok(());
            }
            (ForeignKeyAction::Cascade, Some(new)) => assign(new.to_vec()),
            (ForeignKeyAction::SetNull, _) => assign(vec![Value::Null; reference.columns.len()]),
            (ForeignKeyAction::SetDefault, _) => {
                let defaults = reference.defaults.iter().map(|default| self.eval(default));
                assign(defaults.collect::<Result<_, _>>()?)
            }
        };
        if self.acting.contains(&(reference.child, child)) {
            return Ok(());
        }
        self.wait_to_write(reference.child)?;
        // A transaction that changes another part of the key locks the child too.
        self.claim_row(reference.child, child, LockStrength::NoKeyUpdate)?;
        let columns = 0..self.fragment.program.schema.table(reference.child).types.len();
        let new: Vec<Value> =
            columns.map(|column| self.changed(reference.child, child, &changes, column)).collect();
        if !self.note_move(reference.child, child, &new)? && action == ForeignKeyAction::SetDefault {
            let (table, row, rule) = (reference.child, child, reference.rule);
            self.unmet.push(Later::Child { table, row, rule });
        }
        self.acting.push((reference.child, child));
        self.on_parent_change(reference.child, child, Some(&new))?;
        self.acting.pop();
        let columns = changes.iter().map(|(column, value)| ColumnOperation {
            column: *column,
            change: ColumnChange::Assign(value.clone()),
        });
        let operation = Operation::Update(columns.collect());
        self.write_update(reference.child, child, &changes, Some(operation), false)
    }

    /// PostgreSQL's 23503 of a parent that has children.
    #[cold]
    pub(super) fn is_referenced(&self, table: TableId, reference: &Reference, key: &[Value]) -> SqlError {
        let program = self.fragment.program;
        let schema = program.schema.table(table);
        let names: Vec<&str> =
            reference.parent_columns.iter().map(|&column| schema.column_names[column].as_str()).collect();
        let text = |(&column, value): (&ColumnIndex, &Value)| to_text(value, &schema.types[column]);
        let texts: Vec<String> = reference.parent_columns.iter().zip(key).map(text).collect();
        let child = &program.schema.table(reference.child).name;
        SqlError::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{child}\"",
                schema.name, reference.name
            ),
        )
        .with_detail(format!(
            "Key ({})=({}) is still referenced from table \"{child}\".",
            names.join(", "),
            texts.join(", ")
        ))
        .with_constraint(reference.name.clone())
    }

    /// Rows of the child that refer to a parent with that key.
    ///
    /// # Errors
    /// Only of a worker, which must see them as they are.
    pub(super) fn children(&self, reference: &Reference, key_values: &[Value]) -> Result<Vec<u32>, Stop> {
        self.settle(reference.child)?;
        let storage = &self.fragment.storage;
        let mut rows = Vec::new();
        let mut matches = |row: RowRef| {
            let equal = |(&column, value): (&ColumnIndex, &Value)| {
                let own = storage.value(reference.child, row, column);
                !own.is_null() && weir_types::compare::equal(&own, value)
            };
            if reference.columns.iter().zip(key_values).all(equal) {
                rows.push(row.row);
            }
            Ok(ControlFlow::Continue(()))
        };
        let visited = match reference.child_index {
            Some(index) => {
                let columns = &self.fragment.program.schema.table(reference.child).indexes[index].columns;
                let mut key = KeyBytes::new();
                for (column, value) in columns.iter().zip(key_values) {
                    push_key(&mut key, value, column);
                }
                let range = KeyRange::prefix(key);
                self.note_read(reference.child, || Interval::Range(index, range.clone()));
                storage.range(reference.child, index, &range, false, &mut matches)
            }
            None => {
                self.note_read(reference.child, || Interval::Table);
                storage.scan(reference.child, &mut matches)
            }
        };
        let _ = visited?;
        Ok(rows)
    }
}
