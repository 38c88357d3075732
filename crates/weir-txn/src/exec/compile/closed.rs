//! Closed-world assumptions: changes that no statement of a set makes. Compiled code is valid only while no other statement makes them
//! either.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use weir_sql::Application;
use weir_sql::bound::{Expr, InsertSource, Statement};
use weir_sql::catalog::{Catalog, ColumnIndex, ForeignKey, Table, TableId};

use super::each_statement;
use crate::exec::routing::inserted;
use crate::exec::sequences::generates_id;

/// Changes that some statements make and that others must take into account.
#[derive(Clone, Debug)]
pub struct Closed {
    /// Tables from which they delete, or whose keys they change, including through foreign-key actions. Open tables need not be here.
    deleted: BTreeSet<TableId>,
    /// Columns that they set to a value other than a newly generated id. Those of open tables need not be here.
    chosen: BTreeSet<(TableId, ColumnIndex)>,
    /// Tables declared in this source or a later one are open: they may lose rows and hold any values.
    open_from: usize,
}

impl Closed {
    fn nothing(open_from: usize) -> Closed {
        Closed { deleted: BTreeSet::new(), chosen: BTreeSet::new(), open_from }
    }

    /// Any statement may come: all tables are open.
    pub fn everything() -> Closed {
        Closed::nothing(0)
    }

    /// Changes made by all procedures. Tables declared in this source or a later one may lose rows and hold any values, whatever the
    /// procedures do: no plan assumes otherwise.
    pub fn open_from(application: &Application, source: usize) -> Closed {
        let mut closed = Closed::nothing(source);
        if closed.is_everything() {
            return closed;
        }
        for procedure in &application.procedures {
            each_statement(&procedure.body, &mut |statement, _| {
                closed.note(&application.catalog, statement);
            });
        }
        closed.follow(&application.catalog);
        closed
    }

    pub fn of_statement(catalog: &Catalog, statement: &Statement) -> Closed {
        let mut closed = Closed::nothing(usize::MAX);
        closed.note(catalog, statement);
        closed.follow(catalog);
        closed
    }

    /// No change is excluded.
    pub fn is_everything(&self) -> bool {
        self.open_from == 0
    }

    pub fn is_open(&self, table: &Table) -> bool {
        table.span.file as usize >= self.open_from
    }

    /// Without open tables.
    pub fn deleted(&self) -> &BTreeSet<TableId> {
        &self.deleted
    }

    /// Without those of open tables.
    pub fn chosen(&self) -> &BTreeSet<(TableId, ColumnIndex)> {
        &self.chosen
    }

    pub fn may_lose_rows(&self, table: &Table) -> bool {
        self.is_open(table) || self.deleted.contains(&table.id)
    }

    pub fn may_be_chosen(&self, table: &Table, column: ColumnIndex) -> bool {
        self.is_open(table) || self.chosen.contains(&(table.id, column))
    }

    fn note(&mut self, catalog: &Catalog, statement: &Statement) {
        match statement {
            Statement::Insert(insert) => {
                for column in 0..catalog.table(insert.table).columns.len() {
                    let is_new = |row: &Vec<Expr>| inserted(insert, row, column).is_some_and(generates_id);
                    let all_new = match &insert.source {
                        InsertSource::Values(rows) => rows.iter().all(is_new),
                        InsertSource::Query(_) => !insert.columns.contains(&column),
                    };
                    if !all_new {
                        self.chosen.insert((insert.table, column));
                    }
                }
                let update = insert.on_conflict.iter().flat_map(|conflict| &conflict.update);
                update.for_each(|(assignments, _)| self.note_assigned(catalog, insert.table, assignments));
            }
            Statement::Update(update) => {
                self.note_assigned(catalog, update.table, &update.assignments);
            }
            Statement::Delete(delete) => {
                self.deleted.insert(delete.table);
            }
            Statement::Query(_) => {}
        }
    }

    fn note_assigned(&mut self, catalog: &Catalog, table: TableId, assignments: &[(ColumnIndex, Expr)]) {
        self.chosen.extend(assignments.iter().map(|(column, _)| (table, *column)));
        let keys = catalog.tables.iter().flat_map(|table| &table.foreign_keys);
        let referenced = |column: &ColumnIndex| {
            keys.clone().any(|key| key.parent == table && key.parent_columns.contains(column))
        };
        if assignments.iter().any(|(column, _)| referenced(column)) {
            self.deleted.insert(table);
        }
    }

    /// Adds children that foreign-key actions may delete.
    fn follow(&mut self, catalog: &Catalog) {
        let open: Vec<TableId> =
            catalog.tables.iter().filter(|table| self.is_open(table)).map(|table| table.id).collect();
        if self.deleted.is_empty() && open.is_empty() {
            return;
        }
        let acts = |key: &&ForeignKey| [key.on_delete, key.on_update].iter().any(|action| !action.refuses());
        let mut children: FxHashMap<TableId, Vec<TableId>> = FxHashMap::default();
        for child in &catalog.tables {
            for key in child.foreign_keys.iter().filter(acts) {
                children.entry(key.parent).or_default().push(child.id);
            }
        }
        let mut reached: Vec<TableId> = self.deleted.iter().copied().chain(open).collect();
        while let Some(parent) = reached.pop() {
            for &child in children.get(&parent).into_iter().flatten() {
                if !self.is_open(catalog.table(child)) && self.deleted.insert(child) {
                    reached.push(child);
                }
            }
        }
    }
}
