//! The rules of a new or changed row: NOT NULL, CHECK, and the parents of its foreign keys.

use smallvec::SmallVec;
use weir_core::ids::ShardId;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::text::to_text;
use weir_types::{SqlError, SqlState, Value};

use super::deferred::Unseen;
use super::operation::eval_alone;
use super::{CompiledInsert, ForeignKeyRule};
use crate::claims::Interval;
use crate::entries::EntriesId;
use crate::exec::call::{Place, Run, Stop, internal};
use crate::exec::deferred::Later;
use crate::faults::Faults;
use crate::placement::shard_of;
use crate::storage::{KeyBytes, Rows, TableSchema, key::push_key};

impl<F: Faults> Run<'_, F> {
    /// NOT NULL, CHECK and FOREIGN KEY of a new or changed row; `touched` columns are new, and `insert` says which parents are looked up
    /// besides. Gives those that are to be looked at later, or when the statement has ended.
    pub(super) fn check_row(
        &mut self,
        table: TableId,
        values: &[Value],
        touched: &dyn Fn(ColumnIndex) -> bool,
        insert: Option<&CompiledInsert>,
    ) -> Result<Unseen, Stop> {
        let program = self.fragment.program;
        let schema = program.schema.table(table);
        for (column, not_null) in schema.not_null.iter().enumerate() {
            if *not_null && touched(column) && values[column].is_null() {
                return Err(self.not_null_violation(table, column, &|at| values[at].clone()).into());
            }
        }
        let rules = &program.rules[table.0 as usize];
        for check in &rules.checks {
            if !check.columns.iter().any(|(column, _)| touched(*column)) && !check.columns.is_empty() {
                continue;
            }
            self.rule_frame.grow(check.slots, check.cells);
            for &(column, slot) in &check.columns {
                self.rule_frame.set(slot, values[column].clone());
            }
            if let Value::Bool(false) = eval_alone(&check.expr, self.rule_frame, self.transaction_time)? {
                return Err(SqlError::new(
                    SqlState::CHECK_VIOLATION,
                    format!(
                        "new row for relation \"{}\" violates check constraint \"{}\"",
                        schema.name, check.name
                    ),
                )
                .with_detail(failing_row(schema, &|at| values[at].clone()))
                .with_constraint(check.name.clone())
                .into());
            }
        }
        let mut unseen = Unseen::default();
        for (at, rule) in rules.foreign_keys.iter().enumerate() {
            let is_seen = insert.is_some_and(|insert| insert.parents_seen.contains(&at));
            if is_seen || !rule.key_columns.iter().any(|&column| touched(column)) {
                continue;
            }
            let is_elsewhere = self.shard_of_parent(rule, values).is_some_and(|at| at != self.fragment.here);
            match self.waits(rule.deferral, &rule.name) {
                true => unseen.later.push(at),
                false if is_elsewhere => {
                    // The shard of the parent runs the statement, too, and looks it up.
                    if !insert.is_some_and(|insert| insert.looks_elsewhere(at)) {
                        unseen.elsewhere.push(at);
                    }
                }
                false if self.check_parent(rule, values)? => {}
                false => unseen.unmet.push(at),
            }
        }
        Ok(unseen)
    }

    pub(super) fn not_null_violation(
        &self,
        table: TableId,
        column: ColumnIndex,
        value: &dyn Fn(ColumnIndex) -> Value,
    ) -> SqlError {
        let schema = self.fragment.program.schema.table(table);
        SqlError::new(
            SqlState::NOT_NULL_VIOLATION,
            format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                schema.column_names[column], schema.name
            ),
        )
        .with_detail(failing_row(schema, value))
    }

    /// The shard where the parent of a row with these values is found; none: the row refers to none, or every shard has its parent.
    pub(super) fn shard_of_parent(&self, rule: &ForeignKeyRule, values: &[Value]) -> Option<ShardId> {
        let shards = self.fragment.program.shards;
        let columns = rule.parent_partition.as_ref().filter(|_| shards > 1 && rule.is_distant())?;
        if rule.key_columns.iter().any(|&column| values[column].is_null()) {
            return None;
        }
        let partition: SmallVec<[Value; 2]> = columns.iter().map(|&column| values[column].clone()).collect();
        Some(shard_of(&partition, shards))
    }

    /// Whether the parent, which is found here, is there.
    pub(super) fn check_parent(&mut self, rule: &ForeignKeyRule, values: &[Value]) -> Result<bool, Stop> {
        if rule.key_columns.iter().any(|&column| values[column].is_null()) {
            return Ok(true);
        }
        let index = &self.fragment.program.schema.table(rule.parent).indexes[rule.parent_index];
        let mut key = KeyBytes::new();
        for (index_column, &column) in index.columns.iter().zip(&rule.key_columns) {
            push_key(&mut key, &values[column], index_column);
        }
        self.has_parent(rule, key)
    }

    /// Whether the row that the foreign key names is here, and will stay.
    pub(super) fn has_parent(&mut self, rule: &ForeignKeyRule, key: KeyBytes) -> Result<bool, Stop> {
        // The lines of an order all have the same parent; if no procedure deletes parents, one check is enough.
        let last = self.parent_seen.as_ref();
        if last.is_some_and(|(table, index, seen)| {
            (*table, *index, seen) == (rule.parent, rule.parent_index, &key)
        }) {
            return Ok(true);
        }
        let Some((table, row)) = self.find_parent(rule, &key) else {
            self.wait_for_prepared_key(rule.parent, rule.parent_index, &key)?;
            self.note_read(rule.parent, || Interval::Key(rule.parent_index, key));
            return Ok(false);
        };
        if rule.parent_may_go {
            if !self.forgets_to_hold(table) {
                self.claim_row(table, row, LockStrength::KeyShare)?;
            }
        } else if rule.together {
            self.parent_seen = Some((rule.parent, rule.parent_index, key));
        }
        Ok(true)
    }

    /// The parent's row, or its entry.
    fn find_parent(&self, rule: &ForeignKeyRule, key: &KeyBytes) -> Option<(TableId, u32)> {
        let storage = &self.fragment.storage;
        if let Some(row) = storage.get(rule.parent, rule.parent_index, key) {
            return Some((rule.parent, row.row));
        }
        let entries = self.fragment.program.schema.entries_of(rule.parent, rule.parent_index);
        let entries = entries.filter(|_| rule.by_key)?;
        storage.get(entries, 0, key).map(|entry| (entries, entry.row))
    }

    /// Whether a deliberate bug lets the row, or entry, of a parent go that a child refers to.
    fn forgets_to_hold(&self, table: TableId) -> bool {
        let is_entry = EntriesId::of(table).is_some();
        let bugs = &self.fragment.bugs;
        bugs.shares_no_entry() && is_entry || bugs.holds_no_parent() && self.fragment.derived.is_some()
    }

    /// PostgreSQL's 23503; `value` is that of the key's n-th column.
    #[cold]
    pub(super) fn parent_missing(
        &self,
        table: TableId,
        rule: &ForeignKeyRule,
        value: &dyn Fn(usize) -> Value,
    ) -> SqlError {
        let schema = self.fragment.program.schema.table(table);
        let columns = || rule.declared.iter().map(|&at| (at, rule.key_columns[at]));
        let names: Vec<&str> = columns().map(|(_, column)| schema.column_names[column].as_str()).collect();
        let texts: Vec<String> =
            columns().map(|(at, column)| to_text(&value(at), &schema.types[column])).collect();
        SqlError::new(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                schema.name, rule.name
            ),
        )
        .with_detail(format!(
            "Key ({})=({}) is not present in table \"{}\".",
            names.join(", "),
            texts.join(", "),
            self.fragment.program.schema.table(rule.parent).name
        ))
        .with_constraint(rule.name.clone())
    }

    /// An INSERT runs elsewhere, but a parent that it refers to may live here.
    pub(in crate::exec) fn check_parents_for_others(&mut self, insert: &CompiledInsert) -> Result<(), Stop> {
        let program = self.fragment.program;
        for distant in &insert.distant_parents {
            let rule = &program.rules[insert.table.0 as usize].foreign_keys[distant.rule];
            for (partition, key) in &distant.rows {
                if self.place_of(partition)? != Place::Here {
                    continue;
                }
                let mut values: SmallVec<[Value; 6]> = SmallVec::new();
                for expr in key {
                    values.push(self.eval(expr)?);
                }
                if values.iter().any(Value::is_deferred) {
                    return Err(internal(format!(
                        "the parent of {} cannot be looked up before it is known",
                        rule.name
                    )));
                }
                if values.iter().any(Value::is_null) {
                    continue;
                }
                let index = &program.schema.table(rule.parent).indexes[rule.parent_index];
                let mut key = KeyBytes::new();
                for (column, value) in index.columns.iter().zip(&values) {
                    push_key(&mut key, value, column);
                }
                if !self.has_parent(rule, key)? {
                    let (table, rule, key) = (insert.table, distant.rule, values.to_vec());
                    self.unmet.push(Later::Distant { table, rule, key });
                }
            }
        }
        Ok(())
    }
}

/// PostgreSQL's DETAIL of a row that breaks a rule.
fn failing_row(schema: &TableSchema, value: &dyn Fn(ColumnIndex) -> Value) -> String {
    let texts: Vec<String> = schema
        .types
        .iter()
        .enumerate()
        .filter(|(column, _)| !schema.hidden[*column])
        .map(|(column, ty)| match value(column) {
            Value::Null => "null".to_string(),
            value => to_text(&value, ty),
        })
        .collect();
    format!("Failing row contains ({}).", texts.join(", "))
}
