//! Replaces the tables of one schema by those of another, and back. An uncommitted definition is put in place and taken out for each
//! statement of its transaction, so either direction moves only what differs.
//!
//! `exec/remake.rs` computes the rows of the new tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_sql::catalog::TableId;
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use super::Storage;
use super::building::Building;
use super::index::IndexTree;
use super::layout::{Layout, Packed};
use super::logged::LoggedRow;
use super::schema::{IndexId, Schema, TableSchema};
use super::table::TableStore;
use super::write_set::MergedRows;
use crate::entries::{EntriesId, entries_id};

/// Tables of a schema that is not in place, or those that it has replaced.
#[derive(Debug)]
pub struct Remade {
    schema: Arc<Schema>,
    /// For each table of the new schema: the old table that it takes over unchanged.
    same: Vec<Option<TableId>>,
    /// Tables that are not in place, by table: those of the new schema that are not in `same`; or those of the old one that it has
    /// replaced, once the new one is in place.
    aside: BTreeMap<u32, TableStore>,
    place: Place,
    /// Indexes that tables in `same` get.
    added: Vec<Added>,
    /// Global keys, each by table and index, of tables with rows that have no entries for them yet.
    unfilled: Vec<(TableId, IndexId)>,
}

/// An index that an old table gets, which otherwise stays as it is.
#[derive(Debug)]
struct Added {
    /// Number of the table in the new schema.
    table: u32,
    index: IndexId,
    /// None while the new schema is in place: the table has it.
    tree: Option<IndexTree>,
    /// Position of its entries, if it is a global key.
    entries: Option<usize>,
    /// As `tree`.
    store: Option<TableStore>,
}

impl Added {
    fn exchange(&mut self, table: &mut TableStore) {
        match self.tree.take() {
            Some(tree) => {
                table.indexes.insert(self.index, tree);
                if let (Some(at), Some(store)) = (self.entries, self.store.take()) {
                    table.entries.insert(at, store);
                }
            }
            None => {
                self.tree = Some(table.indexes.remove(self.index));
                self.store = self.entries.map(|at| table.entries.remove(at));
            }
        }
    }
}

/// An index that a definition adds to a table whose rows stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedIndex {
    /// Number of the table before, and after.
    pub was: TableId,
    pub table: TableId,
    /// Position among the indexes of the table after.
    pub index: IndexId,
    /// Position among the entries of the table after, if it is a global key.
    pub entries: Option<usize>,
}

/// Where the new schema's tables are, and how they came there.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Not in place.
    Aside,
    /// In place of an old schema with that many tables, each of which has kept its number or has been replaced.
    Replaced { old: usize },
    /// In place, and all tables have moved.
    Renumbered,
}

/// Origin of a table of the new schema.
#[derive(Clone, Copy, Debug)]
pub enum Remake {
    /// The old table, unchanged.
    Same(TableId),
    Empty,
}

/// Computes the values of a new row from those of the old one.
pub type MakeRow<'a> = &'a mut dyn FnMut(&[Value]) -> Result<Vec<Value>, SqlError>;

impl Remade {
    /// Starts with no tables; the caller pushes all of them in order.
    pub fn new(schema: Arc<Schema>) -> Remade {
        let (same, aside, added, unfilled) = (Vec::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Remade { schema, same, aside, place: Place::Aside, added, unfilled }
    }

    /// Global keys, each by table and index, that have got no entries although their tables have rows.
    pub fn unfilled(&self) -> &[(TableId, IndexId)] {
        &self.unfilled
    }

    /// Table of the new schema that takes over that old table unchanged, and with it the entries of its global keys.
    pub fn becomes(&self, was: TableId) -> Option<TableId> {
        if let Some(EntriesId { table, at }) = EntriesId::of(was) {
            return Some(entries_id(self.becomes(table)?, at));
        }
        let at = self.same.iter().position(|same| *same == Some(was))?;
        Some(TableId(at as u32))
    }

    /// Of the `old` tables in place, those that stay keep their numbers, and there is another table for each of the others.
    fn keeps_numbers(&self, old: usize) -> bool {
        let keeps = |(now, was): (u32, &Option<TableId>)| was.is_none_or(|was| was.0 == now);
        old <= self.same.len() && (0..).zip(&self.same).all(keeps)
    }

    fn next(&self) -> &TableSchema {
        &self.schema.tables[self.same.len()]
    }

    pub fn push(&mut self, table: Remake) {
        match table {
            Remake::Same(was) => self.same.push(Some(was)),
            Remake::Empty => self.push_store(TableStore::new(self.next())),
        }
    }

    fn push_store(&mut self, store: TableStore) {
        self.aside.insert(self.same.len() as u32, store);
        self.same.push(None);
    }

    /// Pushes an old table, which gets one more index. `built`: that index, over all its rows; none: it is built now. Of a global key whose
    /// entries are staged two rows may have one key, which is told when these are put in place.
    ///
    /// # Errors
    /// Two rows have the same key (23505), or the statement is interrupted.
    pub fn push_indexed(
        &mut self,
        base: &Storage,
        added: AddedIndex,
        built: Option<Building>,
    ) -> Result<(), SqlError> {
        let at = self.same.len();
        let (schema, old) = (self.schema.tables[at].clone(), &base.tables[added.was]);
        let AddedIndex { was, table, index, entries } = added;
        assert_eq!(table.0 as usize, at, "tables come in order");
        let built = built.filter(|built| built.is_of(&schema, index));
        let built = built.map_or_else(|| Building::complete(old, schema.clone(), index), Ok)?;
        if !built.is_staged() {
            built.check_unique(old)?;
        }
        let store = entries.map(|at| TableStore::new(&schema.entries[at].schema));
        if store.is_some() && old.row_count() > 0 {
            self.unfilled.push((table, index));
        }
        let tree = Some(built.into_tree());
        self.added.push(Added { table: table.0, index, tree, entries, store });
        self.same.push(Some(was));
        Ok(())
    }

    /// Images of the entries of the global key that an old table gets.
    pub fn added_entries(&self) -> Vec<LoggedRow> {
        let mut rows = Vec::new();
        for Added { table, entries, store, .. } in &self.added {
            let (Some(at), Some(store)) = (entries, store) else { continue };
            let id = entries_id(TableId(*table), *at);
            let image = |row| Some(LoggedRow::whole(id, row, Some(store.row(row)?.into())));
            rows.extend((0..store.slots()).filter_map(image));
        }
        rows
    }

    /// Pushes a table with the rows of an old one, each converted by `make`, in the same slots. `entries`: of each of its global keys, the
    /// old entries, which stay as they are.
    ///
    /// # Errors
    /// Those of `make`, or two rows have the same key (23505).
    pub fn push_rows(
        &mut self,
        rows: MergedRows<'_>,
        (was, entries): (TableId, &[Option<TableId>]),
        make: MakeRow<'_>,
    ) -> Result<(), SqlError> {
        let (schema, old) = (self.next(), &rows.base.tables[was]);
        let old_schema = rows.base.schema.table(was);
        let columns = old_schema.types.len();
        let has_same_bytes = old_schema.types == schema.types;
        let mut store = TableStore::new(schema);
        let mut values = Vec::with_capacity(columns);
        for row in 0..old.slots() {
            check()?;
            let Some(bytes) = rows.packed(was, row) else { continue };
            values.clear();
            values.extend((0..columns).map(|column| old.layout.read(bytes, column)));
            let made = make(&values)?;
            let packed: Packed = match has_same_bytes && made == values {
                true => bytes.into(),
                false => store.layout.pack(Layout::timestamp(bytes), &made),
            };
            store
                .try_restore(schema, row, packed)
                .map_err(|index| store.unique_violation(schema, index, &|column| made[column].clone()))?;
        }
        store.free_all(|_| true);
        let (table, has_rows) = (TableId(self.same.len() as u32), store.row_count() > 0);
        let mut unfilled = Vec::new();
        for (at, from) in entries.iter().enumerate() {
            match *from {
                Some(from) => {
                    store.entries[at] = entries_as_they_are(rows, from, &schema.entries[at].schema);
                }
                None if has_rows => unfilled.push((table, schema.entries[at].index)),
                None => {}
            }
        }
        self.push_store(store);
        self.unfilled.extend(unfilled);
        Ok(())
    }
}

/// The entries of a global key that stays.
fn entries_as_they_are(rows: MergedRows<'_>, was: TableId, schema: &TableSchema) -> TableStore {
    let mut store = TableStore::new(schema);
    for row in 0..rows.base.tables[was].slots() {
        if let Some(packed) = rows.packed(was, row) {
            store.restore(schema, row, packed.into());
        }
    }
    store.free_all(|_| true);
    store
}

impl Storage {
    /// The tables of the same schema, of which the named ones are empty.
    pub fn emptied(&self, tables: &[TableId]) -> Remade {
        let mut remade = Remade::new(self.schema.clone());
        for at in 0..self.tables.of_tables().len() as u32 {
            let id = TableId(at);
            remade.push(if tables.contains(&id) { Remake::Empty } else { Remake::Same(id) });
        }
        remade
    }

    /// Swaps the tables in place with those in `remade`. The history from before must not be traversed in between.
    pub fn exchange(&mut self, remade: &mut Remade) {
        let is_coming = matches!(remade.place, Place::Aside);
        if !is_coming {
            self.exchange_added(remade);
        }
        self.exchange_tables(remade);
        if is_coming {
            self.exchange_added(remade);
        }
    }

    /// Gives its indexes to the tables of the new schema, which are in place, or takes them back.
    fn exchange_added(&mut self, remade: &mut Remade) {
        let tables = self.tables.of_tables_mut();
        remade.added.iter_mut().for_each(|added| added.exchange(&mut tables[added.table as usize]));
    }

    fn exchange_tables(&mut self, remade: &mut Remade) {
        std::mem::swap(&mut self.schema, &mut remade.schema);
        remade.place = match remade.place {
            Place::Aside if remade.keeps_numbers(self.tables.of_tables().len()) => {
                let old = self.tables.of_tables().len();
                self.exchange_replaced(remade, old);
                Place::Replaced { old }
            }
            Place::Aside => {
                self.exchange_all(remade);
                Place::Renumbered
            }
            Place::Replaced { old } => {
                self.exchange_replaced(remade, old);
                Place::Aside
            }
            Place::Renumbered => {
                self.exchange_all(remade);
                Place::Aside
            }
        };
    }

    /// Swaps the tables that are not the same, and adds or removes those that the old schema with `old` tables lacks.
    fn exchange_replaced(&mut self, remade: &mut Remade, old: usize) {
        let tables = self.tables.of_tables_mut();
        let added = tables.split_off(old).into_iter().zip(old as u32..);
        let added: Vec<(u32, TableStore)> = added.map(|(store, at)| (at, store)).collect();
        for (at, store) in std::mem::take(&mut remade.aside) {
            match tables.get_mut(at as usize) {
                Some(here) if (at as usize) < old => {
                    remade.aside.insert(at, std::mem::replace(here, store));
                }
                _ => tables.push(store),
            }
        }
        remade.aside.extend(added);
    }

    /// Moves every table, because they get other numbers.
    fn exchange_all(&mut self, remade: &mut Remade) {
        let mut here: Vec<Option<TableStore>> =
            std::mem::take(self.tables.of_tables_mut()).into_iter().map(Some).collect();
        let mut there: BTreeMap<u32, TableStore> = std::mem::take(&mut remade.aside);
        for (now, was) in (0..).zip(&remade.same) {
            let Some(TableId(was)) = *was else { continue };
            let (from, to) = match remade.place {
                Place::Aside => (was, now),
                Place::Replaced { .. } | Place::Renumbered => (now, was),
            };
            let store = here[from as usize].take().expect("a table is in one place or the other");
            there.insert(to, store);
        }
        *self.tables.of_tables_mut() = there.into_values().collect();
        remade.aside = (0..).zip(here).filter_map(|(at, store)| Some((at, store?))).collect();
    }
}
