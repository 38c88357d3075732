//! An INSERT of one row whose global keys follow from its arguments (docs/internals/global-keys.md, 3.19): the owners of the keys are participants
//! of the call, and add their entries in the message that prepares them.
//!
//! Invariant: the shard of the row commits only if each entry that follows from the row has been prepared at its owner. So it derives the
//! entries itself, and compares.

use weir_core::ids::ShardId;
use weir_sql::bound::{Insert, InsertSource};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

use super::by_key::is_same_key;
use super::call::{Run, Stop};
use super::program::value_of;
use super::routing::{Origins, Router, Source, inserted};
use crate::faults::Faults;
use crate::message::{Attempt, GlobalKey};
use crate::placement::shard_of;
use crate::storage::{EntriesSchema, IndexId, IndexSchema, Schema};

/// The global keys of the row that an ad-hoc INSERT gives.
#[derive(Debug)]
pub struct InsertedKeys {
    table: TableId,
    keys: Vec<KeySources>,
    /// The row is placed by an id that it draws, so any shard may be its home.
    is_own: bool,
}

#[derive(Debug)]
struct KeySources {
    index: IndexId,
    nulls_not_distinct: bool,
    columns: Vec<Source>,
}

impl InsertedKeys {
    /// None: the arguments do not say all of its keys. `is_owned`: of an index whose keys each shard owns that inserts them.
    pub(super) fn of(
        router: &Router<'_>,
        schema: &Schema,
        (origins, insert): (&Origins, &Insert),
        is_owned: &dyn Fn(&IndexSchema) -> bool,
    ) -> Option<InsertedKeys> {
        let InsertSource::Values(rows) = &insert.source else { return None };
        let ([row], None) = (&rows[..], &insert.on_conflict) else { return None };
        let (columns, of) = (&router.catalog.table(insert.table).columns, schema.table(insert.table));
        let source = |column: ColumnIndex| {
            // A column that is not given is NULL.
            let Some(value) = inserted(insert, row, column) else {
                return Some(Source::Constant(Value::Null));
            };
            if columns[column].generated.is_some() || !is_same_key(&columns[column].ty, &value.ty) {
                return None;
            }
            origins.only(value)
        };
        let key_of = |EntriesSchema { index, .. }: &EntriesSchema| {
            let schema = &of.indexes[*index];
            let known = schema.columns.iter().map(|column| source(column.column?));
            let nulls_not_distinct = schema.nulls_not_distinct;
            Some(KeySources { index: *index, nulls_not_distinct, columns: known.collect::<Option<_>>()? })
        };
        let asked = of.entries.iter().filter(|key| !is_owned(&of.indexes[key.index]));
        let keys: Vec<KeySources> = asked.map(key_of).collect::<Option<_>>()?;
        (!keys.is_empty()).then_some(InsertedKeys {
            table: insert.table,
            keys,
            is_own: router.is_own(insert, row),
        })
    }

    /// The keys of the row with their values; those that it has not for a NULL are left out.
    fn values(&self, args: &[Value]) -> Vec<(GlobalKey, Vec<Value>)> {
        let of = |key: &KeySources| {
            let values: Vec<Value> = key.columns.iter().map(|source| value_of(source, args)).collect();
            let is_key = key.nulls_not_distinct || !values.iter().any(Value::is_null);
            is_key.then_some((GlobalKey { table: self.table, index: key.index }, values))
        };
        self.keys.iter().filter_map(of).collect()
    }

    /// The participants of the call with the owners of its keys. `home`: its only participant without them. The last one decides: it is the
    /// row's home.
    pub(super) fn participants(&self, home: ShardId, args: &[Value], shards: ShardId) -> Vec<ShardId> {
        let mut owners: Vec<ShardId> =
            self.values(args).iter().map(|(_, values)| shard_of(values, shards)).collect();
        let home = owners.first().copied().filter(|_| self.is_own).unwrap_or(home);
        owners.retain(|shard| *shard != home);
        owners.sort_unstable();
        owners.dedup();
        owners.push(home);
        owners
    }
}

impl<F: Faults> Run<'_, F> {
    /// Adds the entries of the row that this shard owns, which another shard inserts.
    pub(super) fn add_named_entries(&mut self, args: &[Value]) -> Result<(), Stop> {
        let (Some(Attempt::WithKeys), Some(keys)) = (self.fragment.attempt, &self.procedure.inserted_keys)
        else {
            return Ok(());
        };
        let (here, shards) = (self.fragment.here, self.fragment.program.shards);
        self.named_keys = keys.values(args);
        let [home] = self.procedure.participants.of(args, shards)[..] else { return Ok(()) };
        let participants = keys.participants(home, args, shards);
        let home = *participants.last().expect("a call has a participant");
        if home == here || self.fragment.bugs.forgets_entries() {
            return Ok(());
        }
        for (key, values) in std::mem::take(&mut self.named_keys) {
            if shard_of(&values, shards) == here {
                self.add_entry(key, &values, home)?;
            }
        }
        Ok(())
    }

    /// Returns whether the owner of the key has added the entry in the same call.
    pub(super) fn is_named_key(&self, key: GlobalKey, values: &[Value]) -> bool {
        self.named_keys.iter().any(|(named, of)| *named == key && of == values)
    }
}
