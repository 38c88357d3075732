//! Tables that a definition has touched. A program that follows another shares with it the storage schema and the rules of every other
//! table: the cost of compiling follows the definition, beside copies of pointers.
//!
//! A table's rules depend on the table, its parents, and its children (by foreign keys); on where their rows live; and on whether a
//! parent may lose rows. So rules are compiled anew for the tables that differ in any of these, and for their parents and children before
//! and after the definition. Without a program before, every table is touched: there is no other way to compile a program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_analysis::plan::Placement;
use weir_sql::Application;
use weir_sql::catalog::{Catalog, Deferral, Sequence, Table, TableId};
use weir_types::SqlType;

use super::rules::{check_homes, check_indexes, global_keys, table_rules};
use super::{Closed, LookedUp};
use crate::exec::program::{CompileError, Program};
use crate::exec::write::TableRules;
use crate::storage::{IndexId, Schema};

#[cfg(test)]
thread_local! {
    /// Planted bug: a definition touches no neighbours of what it changes.
    pub(crate) static FORGETS_NEIGHBOURS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The inputs of compiling rules.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub catalog: &'a Catalog,
    pub placement: &'a [Placement],
    pub closed: &'a Closed,
    pub shards: u16,
}

/// Tables that have something of which a program asks whether any table has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TablesWith {
    /// Some foreign key is deferrable.
    pub deferrable_keys: BTreeSet<TableId>,
    /// Rows are placed by one UUID.
    pub uuid_placement: BTreeSet<TableId>,
}

pub(super) struct Touched<'a> {
    /// The program before, if it shares something.
    before: Option<&'a Program>,
    /// Tables that are new, or that differ in themselves, in their placement, in whether they may lose rows, or in the columns whose values
    /// may be chosen.
    changed: BTreeSet<TableId>,
    /// The changed tables, their parents and their children, before and after the definition.
    near: BTreeSet<TableId>,
    /// A condition of all tables may have changed without a change of the tables.
    checks_all: bool,
}

impl<'a> Touched<'a> {
    pub fn new(
        upon: Option<&'a Program>,
        application: &Application,
        placement: &[Placement],
        closed: &Closed,
    ) -> Touched<'a> {
        let after = &application.catalog;
        let upon = upon.and_then(|upon| Some((upon, &upon.described()?.0.catalog)));
        // Tables that go give others new ids.
        match upon.filter(|(_, before)| before.tables.len() <= after.tables.len()) {
            Some((program, before)) => Touched::upon((program, before), after, placement, closed),
            None => {
                let all: BTreeSet<TableId> = after.tables.iter().map(|table| table.id).collect();
                Touched { before: None, changed: all.clone(), near: all, checks_all: true }
            }
        }
    }

    fn upon(
        (program, before): (&'a Program, &Catalog),
        after: &Catalog,
        placement: &[Placement],
        closed: &Closed,
    ) -> Touched<'a> {
        let differs = |at: usize| {
            !before.tables.shares(at, &after.tables, at) || program.placement.get(at) != placement.get(at)
        };
        let changed = (0..after.tables.len()).filter(|&at| differs(at)).map(|at| TableId(at as u32));
        let mut changed: BTreeSet<TableId> = changed.collect();
        changed.extend(program.closed.deleted().symmetric_difference(closed.deleted()));
        // A key of generated values is global once others are chosen.
        let chosen = program.closed.chosen().symmetric_difference(closed.chosen());
        changed.extend(chosen.map(|(table, _)| table));
        // A key of generated values is global, too, while a foreign key refers to it.
        let parents = |table: &Table| table.foreign_keys.iter().map(|key| key.parent).collect::<Vec<_>>();
        let was = |table: TableId| before.tables.get(table.0 as usize).into_iter().flat_map(parents);
        let referred = |table: TableId| was(table).chain(parents(after.table(table)));
        let is_closed = |parent: &TableId| {
            after.tables.get(parent.0 as usize).is_some_and(|parent| !closed.is_open(parent))
        };
        let parents_of: Vec<TableId> = changed.iter().copied().flat_map(referred).filter(is_closed).collect();
        changed.extend(parents_of);
        let mut near = changed.clone();
        for &table in &changed {
            near.extend(parents(after.table(table)));
            near.extend(was(table));
            let rules = program.rules.get(table.0 as usize).into_iter();
            near.extend(rules.flat_map(|rules| &rules.referenced_by).map(|reference| reference.child));
        }
        #[cfg(test)]
        if FORGETS_NEIGHBOURS.get() {
            near.clone_from(&changed);
        }
        let checks_all =
            program.closed.chosen() != closed.chosen() || program.sequences[..] != after.sequences[..];
        Touched { before: Some(program), changed, near, checks_all }
    }

    /// The storage schema; which indexes are looked up is not marked yet.
    ///
    /// # Errors
    /// A table has too many global keys.
    pub fn schema(&self, parts: Parts<'_>) -> Result<Schema, CompileError> {
        let catalog = parts.catalog;
        let mut schema = match self.before {
            Some(before) => before.schema.with_changed(catalog, &self.changed),
            None => Schema::new(catalog),
        };
        if parts.shards > 1 {
            for &table in &self.changed {
                let keys = global_keys(parts, catalog.table(table), schema.table(table))?;
                schema.set_global_keys(table, &keys);
            }
        }
        Ok(schema)
    }

    /// Rejects what cannot be enforced.
    pub fn check(&self, parts: Parts<'_>) -> Result<(), CompileError> {
        let catalog = parts.catalog;
        let tables: Vec<&Table> = match self.checks_all {
            true => catalog.tables.iter().collect(),
            false => self.near.iter().map(|table| catalog.table(*table)).collect(),
        };
        if parts.shards > 1 {
            tables.iter().try_for_each(|table| check_homes(parts, table))?;
        }
        tables.iter().try_for_each(|table| check_indexes(table))
    }

    pub fn rules(&self, parts: Parts<'_>, schema: &Schema) -> Result<Vec<Arc<TableRules>>, CompileError> {
        let mut rules: Vec<Arc<TableRules>> = Vec::with_capacity(parts.catalog.tables.len());
        rules.extend(self.before.iter().flat_map(|before| before.rules.iter().cloned()));
        for (table, children) in self.children(parts.catalog) {
            let compiled = Arc::new(table_rules(parts, schema, (table, &children))?);
            match rules.get_mut(table.0 as usize) {
                Some(old) => *old = compiled,
                None => rules.push(compiled),
            }
        }
        Ok(rules)
    }

    /// Of the tables whose rules are compiled: each child with the index of its foreign key, in the catalog's order.
    fn children(&self, catalog: &Catalog) -> BTreeMap<TableId, Vec<(TableId, usize)>> {
        let mut children: BTreeMap<TableId, Vec<(TableId, usize)>> =
            self.near.iter().map(|table| (*table, self.unchanged_children(*table))).collect();
        for &child in &self.changed {
            for (index, key) in catalog.table(child).foreign_keys.iter().enumerate() {
                children.entry(key.parent).and_modify(|children| children.push((child, index)));
            }
        }
        children.values_mut().for_each(|children| children.sort_unstable());
        children
    }

    fn unchanged_children(&self, table: TableId) -> Vec<(TableId, usize)> {
        let rules = self.before.and_then(|before| before.rules.get(table.0 as usize));
        let references = rules.into_iter().flat_map(|rules| &rules.referenced_by);
        let unchanged = references.filter(|reference| !self.changed.contains(&reference.child));
        unchanged.map(|reference| (reference.child, reference.rule)).collect()
    }

    /// Marks the indexes that foreign keys or procedures look up by full keys.
    pub fn look_up(&self, mut schema: Schema, rules: &[Arc<TableRules>], looked_up: &LookedUp) -> Schema {
        let by_procedures = self.before.iter().flat_map(|before| &before.looked_up).chain(looked_up);
        let tables: BTreeSet<TableId> =
            self.near.iter().copied().chain(by_procedures.map(|(table, _)| *table)).collect();
        for table in tables {
            let references = rules[table.0 as usize].referenced_by.iter();
            let by_keys =
                references.map(|one| rules[one.child.0 as usize].foreign_keys[one.rule].parent_index);
            let by_procedures = looked_up.range((table, 0)..=(table, IndexId::MAX)).map(|(_, index)| *index);
            schema.look_up(table, &by_keys.chain(by_procedures).collect());
        }
        schema
    }

    pub fn tables_with(&self, parts: Parts<'_>) -> TablesWith {
        let mut with = self.before.map(|before| before.with.clone()).unwrap_or_default();
        let mark = |of: &mut BTreeSet<TableId>, table: TableId, has: bool| match has {
            true => of.insert(table),
            false => of.remove(&table),
        };
        for &id in &self.changed {
            let table = parts.catalog.table(id);
            let defers = table.foreign_keys.iter().any(|key| key.deferral != Deferral::Never);
            let is_uuid = match parts.placement[id.0 as usize].columns() {
                Some(&[column]) => table.columns[column].ty == SqlType::Uuid,
                _ => false,
            };
            mark(&mut with.deferrable_keys, id, defers);
            mark(&mut with.uuid_placement, id, is_uuid);
        }
        with
    }

    pub fn sequences(&self, catalog: &Catalog) -> Arc<[Sequence]> {
        match self.before.filter(|before| before.sequences[..] == catalog.sequences[..]) {
            Some(before) => before.sequences.clone(),
            None => catalog.sequences.clone().into(),
        }
    }
}
