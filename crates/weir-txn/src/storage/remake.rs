//! Replaces the tables of one schema by those of another, and back. An uncommitted definition is put in place and taken out for each
//! statement of its transaction, so either direction costs only the number of tables.
//!
//! `exec/remake.rs` computes the rows of the new tables.

use std::sync::Arc;

use weir_sql::catalog::TableId;
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use super::Storage;
use super::layout::{Layout, Packed};
use super::schema::{Schema, TableSchema};
use super::table::TableStore;
use super::write_set::MergedRows;

/// Tables of a schema that is not in place, or those that it has replaced.
#[derive(Debug)]
pub struct Remade {
    schema: Arc<Schema>,
    /// For each table of the new schema: the old table that it takes over unchanged.
    same: Vec<Option<TableId>>,
    /// Tables that are not in place, by table: the new schema's; or the old one's once the new one is in place.
    aside: Vec<Option<TableStore>>,
    is_in_place: bool,
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
        Remade { schema, same: Vec::new(), aside: Vec::new(), is_in_place: false }
    }

    /// Table of the new schema that takes over that old table unchanged.
    pub fn becomes(&self, was: TableId) -> Option<TableId> {
        let at = self.same.iter().position(|same| *same == Some(was))?;
        Some(TableId(at as u32))
    }

    fn next(&self) -> &TableSchema {
        &self.schema.tables[self.same.len()]
    }

    pub fn push(&mut self, table: Remake) {
        let (same, store) = match table {
            Remake::Same(was) => (Some(was), None),
            Remake::Empty => (None, Some(TableStore::new(self.next()))),
        };
        self.same.push(same);
        self.aside.push(store);
    }

    /// Pushes a table with the rows of an old one, each converted by `make`, in the same slots.
    ///
    /// # Errors
    /// Those of `make`, or two rows have the same key (23505).
    pub fn push_rows(
        &mut self,
        rows: MergedRows<'_>,
        was: TableId,
        make: MakeRow<'_>,
    ) -> Result<(), SqlError> {
        let (schema, old) = (self.next(), &rows.base.tables[was.0 as usize]);
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
        self.same.push(None);
        self.aside.push(Some(store));
        Ok(())
    }
}

impl Storage {
    /// The tables of the same schema, of which the named ones are empty.
    pub fn emptied(&self, tables: &[TableId]) -> Remade {
        let mut remade = Remade::new(self.schema.clone());
        for at in 0..self.tables.len() as u32 {
            let id = TableId(at);
            remade.push(if tables.contains(&id) { Remake::Empty } else { Remake::Same(id) });
        }
        remade
    }

    /// Swaps the tables in place with those in `remade`. The history from before must not be traversed in between.
    pub fn exchange(&mut self, remade: &mut Remade) {
        std::mem::swap(&mut self.schema, &mut remade.schema);
        let mut here: Vec<Option<TableStore>> =
            std::mem::take(&mut self.tables).into_iter().map(Some).collect();
        let mut there = std::mem::take(&mut remade.aside);
        if remade.is_in_place {
            // `there` holds the old tables; unchanged ones move to their new numbers.
            for (now, was) in remade.same.iter().enumerate() {
                if let Some(was) = was {
                    there[was.0 as usize] = here[now].take();
                }
            }
        } else {
            for (now, was) in remade.same.iter().enumerate() {
                if let Some(was) = was {
                    there[now] = here[was.0 as usize].take();
                }
            }
        }
        let whole = |store: Option<TableStore>| store.expect("a table is in one place or the other");
        self.tables = there.into_iter().map(whole).collect();
        remade.aside = here;
        remade.is_in_place = !remade.is_in_place;
    }
}
