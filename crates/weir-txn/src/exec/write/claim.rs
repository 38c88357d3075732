//! What a write may not do to other shards and other transactions: rows stay at home, and guarded rows and
//! new keys are taken by one transaction at a time (S7).

use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, SqlState, Value};

use crate::exec::call::{Role, Run, Stop};
use crate::ramp::participant::Claim;
use crate::storage::{IndexSchema, KeyBytes, RowRef, Rows, key::push_key};

impl Run<'_> {
    /// An inserted row must live here: its route said so before its values were known.
    pub(super) fn check_home(&self, table: TableId, values: &[Value]) -> Result<(), Stop> {
        if self.fragment.program.shards == 1 {
            return Ok(());
        }
        match self.fragment.program.home(table, &|column| values[column].clone()) {
            Some(home) if home != self.fragment.here => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!(
                    "inserting rows of several shards into \"{}\" with one statement is not supported",
                    self.fragment.program.schema.table(table).name
                ),
            )
            .with_hint("Insert them one by one in a loop.")
            .into()),
            _ => Ok(()),
        }
    }

    /// An update must not move a row to another shard.
    pub(super) fn check_moved(&self, table: TableId, row: u32, new: &[Value]) -> Result<(), Stop> {
        let old = |column| self.fragment.storage.value(table, RowRef { shard: 0, row }, column);
        let program = self.fragment.program;
        if program.shards > 1
            && program.home(table, &|column| new[column].clone()) != program.home(table, &old)
        {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!(
                    "moving a row of \"{}\" to another shard is not supported",
                    program.schema.table(table).name
                ),
            )
            .with_hint("Delete the row and insert it anew.")
            .into());
        }
        Ok(())
    }

    /// Takes a row for this transaction alone, or stops at who has it.
    pub(super) fn claim_row(&mut self, table: TableId, row: u32) -> Result<(), Stop> {
        self.claim(|| Claim::Row(table, row))
    }

    /// The unique keys of a row that is about to be inserted.
    pub(super) fn claim_keys(&mut self, table: TableId, values: &[Value]) -> Result<(), Stop> {
        let holds = self.fragment.keep_writes && !matches!(self.fragment.role, Role::Last(_));
        if !holds && self.fragment.claims.is_empty() {
            return Ok(());
        }
        for (index, schema) in self.fragment.program.schema.table(table).indexes.iter().enumerate() {
            if schema.unique
                && let Some(key) = key_of(schema, &|column| values[column].clone())
            {
                self.claim(|| Claim::Key(table, index, key))?;
            }
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, claim: impl FnOnce() -> Claim) -> Result<(), Stop> {
        if self.fragment.bugs.no_guards {
            return Ok(());
        }
        // Only a part that waits for its COMMIT holds claims; the others are over before anybody looks.
        let holds = self.fragment.role.is_prepared();
        if !holds && self.fragment.claims.is_empty() {
            return Ok(());
        }
        let claim = claim();
        match self.fragment.claims.get(&claim) {
            Some(&holder) if holder != self.fragment.txn => return Err(Stop::Held { holder }),
            _ => {}
        }
        if holds && !self.ran.claims.contains(&claim) {
            self.ran.claims.push(claim);
        }
        Ok(())
    }
}

/// The key of a row in an index; `None` if a NULL keeps it out of uniqueness.
pub(super) fn key_of(schema: &IndexSchema, value: &dyn Fn(ColumnIndex) -> Value) -> Option<KeyBytes> {
    let mut key = KeyBytes::new();
    for column in &schema.columns {
        let value = value(column.column?);
        if value.is_null() && !schema.nulls_not_distinct {
            return None;
        }
        push_key(&mut key, &value, column);
    }
    Some(key)
}
