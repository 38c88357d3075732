//! INSERT … ON CONFLICT whose arbiter is a global key (docs/internals/global-keys.md, 3.10): the row that it conflicts with may live on any
//! shard.
//!
//! Invariants. A row is inserted only at its home, and only if the owner of each arbiter, which claims the key, has found no row with it. A row
//! that the statement conflicts with is looked up, waited for and held where it lives, as on a single shard. Reports of other shards only
//! decide where the statement is run next: they need not be true any more when it gets there.

use weir_core::ids::ShardId;
use weir_sql::catalog::TableId;
use weir_types::{SqlError, SqlState, Value};

use super::{CompiledInsert, key_of};
use crate::exec::call::{Run, Stop};
use crate::exec::foreseen::global_arbiter;
use crate::faults::Faults;
use crate::message::{Attempt, Derived, GlobalKey};
use crate::storage::{KeyBytes, RowRef, Rows as _};

impl<F: Faults> Run<'_, F> {
    /// Returns whether the statement was sent here because a row was seen here.
    pub(in crate::exec) fn is_at_conflict(&self) -> bool {
        matches!(self.fragment.attempt, Some(Attempt::AtConflict(_)))
    }

    /// Checks that the statement can begin again where a row of another shard may be in its way.
    pub(super) fn check_arbiter(&self, insert: &CompiledInsert) -> Result<(), SqlError> {
        let Some(conflict) = &insert.on_conflict else { return Ok(()) };
        let schema = self.fragment.program.schema.table(insert.table);
        match schema.may_arbitrate_globally(conflict.index) && !insert.may_begin_again {
            true => Err(global_arbiter(&schema.name)),
            false => Ok(()),
        }
    }

    /// Ends the run: the statement is undone, and begins again so.
    pub(super) fn begin_again(&mut self, table: TableId, attempt: Attempt) {
        self.ran.derived.clear();
        self.ran.derived.push(Derived::BeginAgain { table, attempt });
    }

    /// Ends the run of a statement whose row is elsewhere. Only of a transaction does the coordinator take what a run has derived.
    pub(in crate::exec) fn goes_elsewhere(
        &mut self,
        table: TableId,
        attempt: Attempt,
    ) -> Result<Vec<Value>, Stop> {
        match self.fragment.open.is_some() {
            true => {
                self.begin_again(table, attempt);
                Ok(Vec::new())
            }
            false => Err(Stop::Elsewhere { table, attempt }),
        }
    }

    /// The row that was seen here is not here. A transaction that has inserted it, and has committed at the owner of the key, may be prepared
    /// here.
    pub(super) fn return_home(&mut self, insert: &CompiledInsert, values: &[Value]) -> Result<(), Stop> {
        if self.fragment.bugs.trusts_conflict() {
            return Ok(());
        }
        let program = self.fragment.program;
        let schema = program.schema.table(insert.table);
        let of = |key: &KeyBytes, index| self.wait_for_prepared_key(insert.table, index, key);
        for (index, schema) in schema.indexes.iter().enumerate().filter(|(at, _)| insert.arbitrates(*at)) {
            if let Some(key) = key_of(schema, &|column| values[column].clone()) {
                of(&key, index)?;
            }
        }
        self.begin_again(insert.table, Attempt::AtHome);
        Ok(())
    }

    /// Where a row with one of the keys lives: this shard is the owner of the key, and holds its claim.
    pub(super) fn home_of_key(&mut self, key: GlobalKey, bytes: &KeyBytes) -> Result<Option<ShardId>, Stop> {
        let entries = self.fragment.program.schema.entries_of(key.table, key.index);
        self.settle(key.table)?;
        if let Some(row) = self.fragment.storage.get(key.table, key.index, bytes) {
            self.wait_for_key(key.table, row.row)?;
            return Ok(Some(self.fragment.here));
        }
        let Some(entries) = entries else { return Ok(None) };
        self.settle(entries)?;
        let Some(entry) = self.fragment.storage.get(entries, 0, bytes) else { return Ok(None) };
        self.wait_for_key(entries, entry.row)?;
        Ok(self.home_in(entries, entry))
    }

    /// Where the entry of a key says that its row lives. Nobody has to wait for it: whether the row is there is seen there.
    pub(in crate::exec) fn home_by_entry(
        &mut self,
        key: GlobalKey,
        bytes: &KeyBytes,
    ) -> Result<Option<ShardId>, Stop> {
        let Some(entries) = self.fragment.program.schema.entries_of(key.table, key.index) else {
            return Ok(None);
        };
        self.settle(entries)?;
        let entry = self.fragment.storage.get(entries, 0, bytes);
        Ok(entry.and_then(|entry| self.home_in(entries, entry)))
    }

    /// The home that the entry names, behind the columns of its key.
    fn home_in(&self, entries: TableId, entry: RowRef) -> Option<ShardId> {
        let home = self.fragment.program.schema.table(entries).types.len() - 1;
        match self.fragment.storage.value(entries, entry, home) {
            Value::Int(home) => ShardId::try_from(home).ok(),
            _ => None,
        }
    }

    /// An error of the insertion stands only if no other shard has a row that the statement conflicts with: then nothing would have been
    /// inserted. The owners are asked first.
    pub(in crate::exec) fn ask_before_error(
        &mut self,
        result: Result<Vec<Value>, Stop>,
    ) -> Result<Vec<Value>, Stop> {
        let proposes = |one: &Derived| match one {
            Derived::Propose { key, .. } => Some(key.table),
            _ => None,
        };
        let is_of_row = |error: &SqlError| {
            [SqlState::UNIQUE_VIOLATION, SqlState::FOREIGN_KEY_VIOLATION].contains(&error.state())
        };
        match result {
            Err(Stop::Error(error))
                if is_of_row(&error) && self.fragment.attempt != Some(Attempt::Unopposed) =>
            {
                let Some(table) = self.ran.derived.iter().find_map(proposes) else {
                    return Err(Stop::Error(error));
                };
                self.ran.derived.retain(|one| proposes(one).is_some());
                self.ran.derived.push(Derived::BeginAgain { table, attempt: Attempt::Unopposed });
                Ok(Vec::new())
            }
            result => result,
        }
    }
}

impl CompiledInsert {
    /// Returns whether a conflict at that unique index is not an error.
    pub(super) fn arbitrates(&self, index: usize) -> bool {
        self.on_conflict
            .as_ref()
            .is_some_and(|conflict| conflict.index.is_none_or(|arbiter| arbiter == index))
    }
}
