//! Entries of global keys (docs/internals/global-keys.md). At the home of a row the writes of its entries are derived from the row's, at the
//! owner of a key they are carried out.
//!
//! Invariants. An entry (key, home) is at the key's owner if and only if a row with the key is at `home`, and `home` is not the owner: of a
//! row at the owner the table's own index says enough. Who adds or removes a key holds the claim of the key at its owner until the end, a row's
//! own as well as an entry's: so of two writers of one key one waits.

use weir_core::ids::ShardId;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, Value};

use super::CompiledInsert;
use super::claim::key_of;
use crate::claims::Claim;
use crate::entries::entries_id;
use crate::exec::call::{Run, Stop};
use crate::exec::global::Columns;
use crate::exec::remake::duplicated;
use crate::faults::Faults;
use crate::message::{Attempt, Derived, GlobalKey, forgotten};
use crate::placement::shard_of;
use crate::storage::{EntriesSchema, KeyBytes, Operation, RowRef, Rows as _, Write};

/// Limits of one step that derives the entries of rows that are there: rows that it looks at, and bytes of the entries.
const FILLED_ROWS_MAX: u32 = 4_096;
const FILLED_BYTES_MAX: usize = 256 << 10;

impl<F: Faults> Run<'_, F> {
    /// Derives what becomes of entries when a row of this shard is inserted, changes or goes. A new key that this shard owns itself is looked
    /// for among its entries.
    pub(super) fn derive(
        &mut self,
        table: TableId,
        (old, new): (Option<Columns<'_>>, Option<Columns<'_>>),
    ) -> Result<(), Stop> {
        let schema = self.fragment.program.schema.table(table);
        let (here, shards) = (self.fragment.here, self.fragment.program.shards);
        for (at, EntriesSchema { index, .. }) in schema.entries.iter().enumerate() {
            let key = GlobalKey { table, index: *index };
            let index = &schema.indexes[*index];
            let [before, after] =
                [old, new].map(|of| of.and_then(|of| Some((key_of(index, of)?, index.values(of)))));
            if before.as_ref().map(|(key, _)| key) == after.as_ref().map(|(key, _)| key) {
                continue;
            }
            if self.fragment.bugs.forgets_entries() {
                continue;
            }
            if let Some((_, values)) = before.filter(|(_, values)| shard_of(values, shards) != here) {
                self.ran.derived.push(Derived::Remove { key, values, home: here });
            }
            match after {
                Some((bytes, values)) if shard_of(&values, shards) == here => {
                    self.check_entry(entries_id(table, at), &bytes, &values)?;
                }
                Some((_, values)) if self.is_named_key(key, &values) => {}
                Some((_, values)) => self.ran.derived.push(Derived::Add { key, values, home: here }),
                None => {}
            }
        }
        Ok(())
    }

    /// Derives the entries of a row that is about to be inserted. Gives the home of a row that it conflicts with, if this shard owns the key.
    pub(super) fn derive_new(
        &mut self,
        insert: &CompiledInsert,
        values: &[Value],
    ) -> Result<Option<ShardId>, Stop> {
        let (table, row): (_, Columns<'_>) = (insert.table, &|column| values[column].clone());
        if !insert.may_begin_again {
            return self.derive(table, (None, Some(row))).map(|()| None);
        }
        let schema = self.fragment.program.schema.table(table);
        for EntriesSchema { index: at, .. } in
            schema.entries.iter().filter(|key| insert.arbitrates(key.index))
        {
            let (key, index) = (GlobalKey { table, index: *at }, &schema.indexes[*at]);
            let Some(bytes) = key_of(index, row) else { continue };
            if shard_of(&index.values(row), self.fragment.program.shards) == self.fragment.here
                && let Some(home) = self.home_of_key(key, &bytes)?
            {
                return Ok(Some(home));
            }
        }
        let before = self.ran.derived.len();
        self.derive(table, (None, Some(row)))?;
        for one in &mut self.ran.derived[before..] {
            if let Derived::Add { key, values, home } = one
                && insert.arbitrates(key.index)
            {
                *one = Derived::Propose { key: *key, values: std::mem::take(values), home: *home };
            }
        }
        Ok(None)
    }

    /// Derives what becomes of entries when a row of this shard changes, or goes if there are no changes. Its old values are still there.
    pub(super) fn derive_change(
        &mut self,
        table: TableId,
        row: u32,
        changes: Option<&[(ColumnIndex, Value)]>,
    ) -> Result<(), Stop> {
        let schema = self.fragment.program.schema.table(table);
        let is_key_of = |column: ColumnIndex| {
            let mut keys = schema.entries.iter().flat_map(|key| &schema.indexes[key.index].columns);
            keys.any(|of| of.column == Some(column))
        };
        if schema.entries.is_empty()
            || changes.is_some_and(|changes| !changes.iter().any(|(column, _)| is_key_of(*column)))
        {
            return Ok(());
        }
        let storage = &self.fragment.storage;
        let read = |column| storage.value(table, RowRef { shard: 0, row }, column);
        let old: Vec<Value> = (0..schema.types.len()).map(read).collect();
        let before: Columns<'_> = &|column| old[column].clone();
        let Some(changes) = changes else { return self.derive(table, (Some(before), None)) };
        let after: Columns<'_> = &|column| match changes.iter().find(|(changed, _)| *changed == column) {
            Some((_, value)) => value.clone(),
            None => old[column].clone(),
        };
        self.derive(table, (Some(before), Some(after)))
    }

    /// Checks that no row elsewhere has a key that a row of this shard, its owner, is about to have.
    fn check_entry(&mut self, entries: TableId, bytes: &KeyBytes, values: &[Value]) -> Result<(), Stop> {
        self.settle(entries)?;
        match self.fragment.storage.get(entries, 0, bytes) {
            Some(entry) => {
                self.wait_for_key(entries, entry.row)?;
                Err(self.taken_key(entries, values))
            }
            None => Ok(()),
        }
    }

    fn taken_key(&self, entries: TableId, values: &[Value]) -> Stop {
        self.fragment.storage.with_committed(|base| base.unique_violation(entries, 0, values)).into()
    }

    /// Derives the entries of the rows of this shard from slot `from` on: as many as one step does, and then a request for the others. The
    /// table has got the key by a definition, which keeps all writers out.
    pub(super) fn fill_entries(&mut self, key: GlobalKey, from: u32) -> Result<(), Stop> {
        let program = self.fragment.program;
        let (here, index) = (self.fragment.here, &program.schema.table(key.table).indexes[key.index]);
        let slots = self.fragment.storage.with_committed(|base| base.slots(key.table));
        let end = slots.min(from.saturating_add(FILLED_ROWS_MAX));
        let mut bytes = 0;
        for row in from..end {
            check()?;
            if bytes > FILLED_BYTES_MAX {
                self.ran.derived.push(Derived::Entries { at: here, key, from: row });
                return Ok(());
            }
            if !self.fragment.storage.exists(key.table, row) {
                continue;
            }
            let storage = &self.fragment.storage;
            let value: Columns<'_> = &|column| storage.value(key.table, RowRef { shard: 0, row }, column);
            if key_of(index, value).is_none() {
                continue;
            }
            let values = index.values(value);
            if shard_of(&values, program.shards) != here {
                let fill = Derived::Fill { key, values, home: here };
                bytes += fill.bytes();
                self.ran.derived.push(fill);
            }
        }
        if end < slots {
            self.ran.derived.push(Derived::Entries { at: here, key, from: end });
        }
        Ok(())
    }

    /// Adds the entry of a row that was there before the key. Nobody else writes, so that it claims nothing.
    pub(super) fn fill_entry(&mut self, key: GlobalKey, values: &[Value], home: ShardId) -> Result<(), Stop> {
        let program = self.fragment.program;
        let (entries, bytes) = self.entry_of(key, values)?;
        let filled = match self.fragment.storage.get(key.table, key.index, &bytes) {
            Some(_) => Err(self.taken_key(entries, values)),
            None => self.put_entry(entries, values, home),
        };
        filled.map_err(|stop| match stop {
            Stop::Error(error) => duplicated(error, program.schema.table(key.table)).into(),
            stop => stop,
        })
    }

    /// The entries of the key, and the bytes of these values in it, which are claimed. The claim comes before any look: of a transaction
    /// that has committed at the home and not yet here, the claim is the only sign.
    fn claim_entry(&mut self, key: GlobalKey, values: &[Value]) -> Result<(TableId, KeyBytes), Stop> {
        let (entries, bytes) = self.entry_of(key, values)?;
        self.claim_table(key.table)?;
        self.claim_table(entries)?;
        if !self.fragment.bugs.adds_unclaimed() {
            self.claim(|| Claim::Key(key.table, key.index, bytes.clone()))?;
        }
        Ok((entries, bytes))
    }

    fn entry_of(&self, key: GlobalKey, values: &[Value]) -> Result<(TableId, KeyBytes), SqlError> {
        let schema = &self.fragment.program.schema;
        let entries =
            schema.entries_of(key.table, key.index).ok_or_else(|| internal("there is no such global key"))?;
        let value = |column: ColumnIndex| values[column].clone();
        let bytes = key_of(&schema.table(entries).indexes[0], &value);
        let bytes = bytes.ok_or_else(|| internal("a key with NULL has no entry"))?;
        Ok((entries, bytes))
    }

    pub(in crate::exec) fn add_entry(
        &mut self,
        key: GlobalKey,
        values: &[Value],
        home: ShardId,
    ) -> Result<(), Stop> {
        let (entries, bytes) = self.claim_entry(key, values)?;
        let own = self.fragment.storage.get(key.table, key.index, &bytes);
        if let Some(row) = own.filter(|_| !self.fragment.bugs.looks_in_entries_alone()) {
            self.wait_for_key(key.table, row.row)?;
            return Err(self.taken_key(entries, values));
        }
        self.put_entry(entries, values, home)
    }

    /// Adds the entry of a row that is about to be inserted, or reports where a row with the key lives.
    pub(super) fn propose_entry(
        &mut self,
        key: GlobalKey,
        values: &[Value],
        home: ShardId,
    ) -> Result<(), Stop> {
        let (entries, bytes) = self.claim_entry(key, values)?;
        match self.home_of_key(key, &bytes)? {
            Some(at) => {
                let attempt = Attempt::AtConflict(at);
                self.ran.derived.push(Derived::BeginAgain { table: key.table, attempt });
                Ok(())
            }
            None => self.put_entry(entries, values, home),
        }
    }

    fn put_entry(&mut self, entries: TableId, values: &[Value], home: ShardId) -> Result<(), Stop> {
        let mut row = values.to_vec();
        row.push(Value::Int(i64::from(home)));
        match self.fragment.storage.insert(entries, &row, self.fragment.timestamp) {
            Err(error) if error.state() == SqlState::UNIQUE_VIOLATION => {
                self.wait_for_keys(entries, &|column| row[column].clone())?;
                Err(error.into())
            }
            inserted => Ok(inserted.map(drop)?),
        }
    }

    pub(super) fn remove_entry(
        &mut self,
        key: GlobalKey,
        values: &[Value],
        home: ShardId,
    ) -> Result<(), Stop> {
        let (entries, bytes) = self.claim_entry(key, values)?;
        // The home is behind the key's columns.
        let is_of_home = |entry: &RowRef| {
            self.fragment.storage.value(entries, *entry, values.len()) == Value::Int(i64::from(home))
        };
        let entry = self.fragment.storage.get(entries, 0, &bytes).filter(is_of_home);
        let Some(entry) = entry else {
            if self.fragment.bugs.ignores_missing_entry() {
                return Ok(());
            }
            // Its shard has started again since the statement ran there, and another transaction has changed the row.
            return Err(forgotten().into());
        };
        self.claim_row(entries, entry.row, LockStrength::Update)?;
        if self.fragment.keep_writes && !self.is_own(entries, entry.row) {
            self.ran.writes.push(Write {
                table: entries,
                row: Some(entry.row),
                operation: Operation::Delete,
            });
        }
        Ok(self.fragment.storage.delete(entries, entry.row, self.fragment.timestamp)?)
    }
}

fn internal(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, what)
}
