//! The stores of a shard by table: those of the schema's tables, and in each the stores of the entries of its global keys.

use std::ops::{Index, IndexMut};

use weir_sql::catalog::TableId;

use super::table::TableStore;
use crate::entries::{EntriesId, entries_id};

#[derive(Debug, Default)]
pub(super) struct Stores(Vec<TableStore>);

impl Stores {
    pub fn new(of_tables: Vec<TableStore>) -> Stores {
        Stores(of_tables)
    }

    /// Those of the schema's tables, by number.
    pub fn of_tables(&self) -> &[TableStore] {
        &self.0
    }

    pub fn of_tables_mut(&mut self) -> &mut Vec<TableStore> {
        &mut self.0
    }

    /// All stores: those of the tables in their order, then those of entries in theirs.
    pub fn all(&self) -> impl Iterator<Item = (TableId, &TableStore)> {
        let tables = || (0..).map(TableId).zip(&self.0);
        let entries = tables().flat_map(|(table, store)| {
            store.entries.iter().enumerate().map(move |(at, entries)| (entries_id(table, at), entries))
        });
        tables().chain(entries)
    }

    /// All stores, each before those of its entries.
    pub fn for_each(&mut self, f: &mut dyn FnMut(TableId, &mut TableStore)) {
        for (table, store) in (0..).map(TableId).zip(&mut self.0) {
            f(table, store);
            for (at, entries) in store.entries.iter_mut().enumerate() {
                f(entries_id(table, at), entries);
            }
        }
    }
}

impl Index<TableId> for Stores {
    type Output = TableStore;

    #[inline]
    fn index(&self, table: TableId) -> &TableStore {
        match EntriesId::of(table) {
            None => &self.0[table.0 as usize],
            Some(EntriesId { table, at }) => &self.0[table.0 as usize].entries[at],
        }
    }
}

impl IndexMut<TableId> for Stores {
    #[inline]
    fn index_mut(&mut self, table: TableId) -> &mut TableStore {
        match EntriesId::of(table) {
            None => &mut self.0[table.0 as usize],
            Some(EntriesId { table, at }) => &mut self.0[table.0 as usize].entries[at],
        }
    }
}
