//! Entries of global keys outside of transactions: of rows that are loaded, and whether entries and rows agree when a system rests
//! (docs/internals/global-keys.md).

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use weir_core::ids::ShardId;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

use super::program::Program;
use super::write::key_of;
use crate::entries::entries_id;
use crate::placement::shard_of;
use crate::storage::{Rows, Storage};

/// Reads the columns of a row.
pub type Columns<'c> = &'c dyn Fn(ColumnIndex) -> Value;

/// An entry as a row of its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryRow {
    pub owner: ShardId,
    pub entries: TableId,
    /// The key's values, and the home of the row.
    pub values: Vec<Value>,
}

impl Program {
    /// Entries of a row that lives at `home`.
    pub fn entries_of_row(&self, table: TableId, home: ShardId, value: Columns<'_>) -> Vec<EntryRow> {
        let schema = self.schema.table(table);
        let entry = |at: usize| {
            let index = &schema.indexes[schema.entries[at].index];
            key_of(index, value)?;
            let mut values = index.values(value);
            let owner = shard_of(&values, self.shards);
            values.push(Value::Int(i64::from(home)));
            (owner != home).then(|| EntryRow { owner, entries: entries_id(table, at), values })
        };
        (0..schema.entries.len()).filter_map(entry).collect()
    }

    /// Checks at rest that every row has its entries, and every entry its row. `shards`: all of them, in order.
    ///
    /// # Errors
    /// Names an entry that is missing, or is of no row.
    pub fn check_entries(&self, shards: &[&Storage]) -> Result<(), String> {
        let (mut wanted, mut found) = (BTreeSet::new(), BTreeSet::new());
        for (shard, storage) in (0..).zip(shards) {
            let with_keys = |table: &TableId| !self.schema.table(*table).entries.is_empty();
            for table in (0..self.placement.len() as u32).map(TableId).filter(with_keys) {
                each_row(storage, table, &mut |value| {
                    wanted.extend(self.entries_of_row(table, shard, value))
                });
            }
            for entries in self.schema.all_entries() {
                let width = self.schema.table(entries).types.len();
                each_row(storage, entries, &mut |value| {
                    let values = (0..width).map(value).collect();
                    found.insert(EntryRow { owner: shard, entries, values });
                });
            }
        }
        let name = |entry: &EntryRow| {
            format!("{} {:?} at {}", self.schema.table(entry.entries).name, entry.values, entry.owner)
        };
        if let Some(missing) = wanted.difference(&found).next() {
            return Err(format!("an entry is missing: {}", name(missing)));
        }
        match found.difference(&wanted).next() {
            Some(stale) => Err(format!("an entry is of no row: {}", name(stale))),
            None => Ok(()),
        }
    }
}

impl Program {
    /// Checks at rest that each index has every row of its shard, and that no two rows of one or several shards have the same key in a unique one.
    ///
    /// # Errors
    /// Names an index.
    pub fn check_keys(&self, shards: &[&Storage]) -> Result<(), String> {
        for table in (0..self.placement.len() as u32).map(TableId) {
            let mut keys = BTreeSet::new();
            let is_copied = self.partition(table).is_none();
            let schema = self.schema.table(table);
            for (shard, storage) in (0..).zip(shards) {
                let of = if is_copied { shard } else { 0 };
                let mut twice = None;
                each_row(storage, table, &mut |value| {
                    for (at, index) in schema.indexes.iter().enumerate().filter(|(_, index)| index.unique) {
                        if let Some(key) = key_of(index, value)
                            && !keys.insert((of, at, key.to_vec()))
                        {
                            twice =
                                Some(format!("two rows have {:?} in {}", index.values(value), index.name));
                        }
                    }
                });
                twice.map_or(Ok(()), Err)?;
            }
        }
        shards.iter().try_for_each(|storage| storage.check_indexes())
    }
}

fn each_row(storage: &Storage, table: TableId, visit: &mut dyn FnMut(Columns<'_>)) {
    let _ = storage.scan(table, &mut |row| {
        visit(&|column| storage.value(table, row, column));
        Ok(ControlFlow::Continue(()))
    });
}
