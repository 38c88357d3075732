//! Where rows live, and which partitions a transaction reaches.
//!
//! The partition columns are the user's (`COMMENT ON TABLE … 'weir: partition by (…)'`); without one a table
//! that nobody writes is copied to every shard, and any other is partitioned by the column that Operation
//! Partitioning gives it, or, where no call finds its rows by what routes it, as a table without procedures
//! ([`default_placement`]).

use std::collections::BTreeSet;

use weir_sql::Catalog;
use weir_sql::catalog::{ForeignKey, Table, TableId};

use crate::default_placement;
use crate::effects::{Key, ProcedureEffects, Term, TermId, Write};
use crate::finding::{Finding, Severity};
use crate::partitioning::Partitioning;
use crate::plan::Placement;
use crate::world::{KeySource, World};

pub fn placement(
    world: &World<'_>,
    partitioning: &Partitioning,
    findings: &mut Vec<Finding>,
) -> Vec<Placement> {
    let catalog = &world.app.catalog;
    let known: Vec<_> = catalog.tables.iter().map(|table| place(world, partitioning, table)).collect();
    let open: Vec<&Table> = catalog
        .tables
        .iter()
        .zip(&known)
        .filter(|(_, known)| known.is_none())
        .map(|(table, _)| table)
        .collect();
    let placement = default_placement::complete(catalog, known);
    findings.extend(open.into_iter().map(|table| Finding {
        id: "default-placement",
        severity: Severity::Note,
        message: format!(
            "nothing says where the rows of {0} live; they are placed {1}; \
             COMMENT ON TABLE {0} IS 'weir: partition by (…)' chooses other columns",
            table.name,
            lives(catalog, &placement, table.id)
        ),
        span: table.span,
    }));
    placement
}

/// None: neither a comment nor a procedure says it.
fn place(world: &World<'_>, partitioning: &Partitioning, table: &Table) -> Option<Placement> {
    if let Some(said) = said(table) {
        return Some(said);
    }
    if !world.is_written(table.id) {
        return Some(Placement::Replicated);
    }
    let column = partitioning.column(table.id)?;
    Some(Placement::Partitioned { columns: [column].into() })
}

/// Placement that the table's comment says.
pub fn said(table: &Table) -> Option<Placement> {
    if table.replicated {
        return Some(Placement::Replicated);
    }
    let columns = table.partition_by.clone().filter(|columns| !columns.is_empty())?;
    Some(Placement::Partitioned { columns: columns.into() })
}

/// Where the rows of a table live under this placement, in words, and why.
pub fn lives(catalog: &Catalog, placement: &[Placement], table: TableId) -> String {
    let (own, table) = (&placement[table.0 as usize], catalog.table(table));
    let by_comment = said(table).as_ref() == Some(own);
    let Some(columns) = own.columns() else {
        let why = if by_comment { "as its comment says" } else { "for no procedure writes it" };
        return format!("as a copy on every shard, {why}");
    };
    let others = || table.foreign_keys.iter().filter(|key| key.parent != table.id);
    let is_beside = |key: &&ForeignKey| {
        let parent = &placement[key.parent.0 as usize];
        default_placement::columns_beside(catalog, table, key, parent).as_deref() == Some(columns)
    };
    let is_beside_key = |key: &&ForeignKey| {
        let has_home = placement[key.parent.0 as usize].columns().is_some();
        has_home && default_placement::columns_beside_key(catalog, table, key).as_deref() == Some(columns)
    };
    let parent = |key: &ForeignKey| format!("{} by foreign key {}", catalog.table(key.parent).name, key.name);
    let beside = others().find(is_beside).map(|key| format!("beside {}", parent(key)));
    let beside =
        beside.or_else(|| Some(format!("beside the key of {}", parent(others().find(is_beside_key)?))));
    let why = match beside {
        _ if by_comment => "as its comment says".to_owned(),
        Some(beside) => beside,
        None if *own == default_placement::by_primary_key(table) => match table.primary_key {
            Some(_) => "the primary key".to_owned(),
            None => "its first column, since it has no primary key".to_owned(),
        },
        None => "chosen when it was planned".to_owned(),
    };
    let names: Vec<&str> = columns.iter().map(|column| table.columns[*column].name.as_str()).collect();
    format!("by ({}), {why}", names.join(", "))
}

/// The partitions that one procedure reaches.
pub struct Reach {
    /// One shard holds everything that any statement names.
    pub single: bool,
    /// Some statement does not say which partition it wants.
    pub scattered: bool,
    /// The partition of some statement is known only once mutable data has been read.
    pub dependent: bool,
}

pub fn reach(world: &World<'_>, placement: &[Placement], procedure: usize) -> Reach {
    let effects = &world.effects[procedure];
    let mut partitions: BTreeSet<Vec<TermId>> = BTreeSet::new();
    let mut reach = Reach { single: true, scattered: false, dependent: false };
    let reads = effects.reads.iter().map(|read| (read.table, read.key.clone(), false));
    let writes = effects.writes.iter().map(|write| (write.table, effects.key_of(write), true));
    let checks = effects.writes.iter().flat_map(|write| checked_rows(world, procedure, write));
    for (table, key, writes) in reads.chain(writes).chain(checks) {
        match &placement[table.0 as usize] {
            Placement::Replicated => reach.single &= !writes,
            Placement::Partitioned { columns } => match partition(columns, &key) {
                // An id that is generated where the call runs names that shard, so that it is no second one.
                Some(terms) if is_own(effects, &terms) => {}
                Some(terms) => {
                    partitions.insert(terms);
                }
                None => reach.scattered = true,
            },
        }
    }
    for &term in partitions.iter().flatten() {
        for leaf in effects.terms.leaves(term) {
            match effects.terms.get(leaf) {
                Term::Field { row, column } => {
                    reach.dependent |= !world.is_immutable(effects.read(*row).table, *column);
                }
                Term::Aggregate { .. } => reach.dependent = true,
                _ => {}
            }
        }
        // A partition that changes from one pass of a loop to the next is many partitions.
        let in_loop = |leaf: &TermId| matches!(effects.terms.get(*leaf), Term::Index(_) | Term::Carried(_));
        reach.single &= !effects.terms.leaves(term).iter().any(in_loop);
    }
    reach.single &= partitions.len() <= 1 && !reach.scattered;
    reach
}

/// Rows elsewhere that a constraint of the written row makes it look at: parents, children, and for a unique
/// key the owner of the value (where the key does not tell the partition, that is another shard).
fn checked_rows(world: &World<'_>, procedure: usize, write: &Write) -> Vec<(TableId, Key, bool)> {
    let table = world.table(write.table);
    let own = world.effects[procedure].key_of(write);
    let value = |column: usize| match write.update_of(column) {
        Some(operation) => Some(operation.term()),
        None => own.iter().find(|(bound, _)| *bound == column).map(|(_, term)| *term),
    };
    let writes = |columns: &[usize]| {
        write.is_insert() || columns.iter().any(|&column| write.update_of(column).is_some())
    };
    let mut rows = Vec::new();
    for key in table.foreign_keys.iter().filter(|key| writes(&key.columns)) {
        let parent = key.columns.iter().zip(&key.parent_columns);
        let known: Key = parent.filter_map(|(&child, &column)| Some((column, value(child)?))).collect();
        rows.push((key.parent, known, false));
    }
    let unique = table.primary_key.iter().chain(&table.unique_keys);
    for key in unique.filter(|key| writes(&key.columns)) {
        if write.is_insert()
            && matches!(world.key_source(procedure, write, &key.columns), KeySource::Generated)
        {
            continue;
        }
        let known: Key = key.columns.iter().filter_map(|&column| Some((column, value(column)?))).collect();
        rows.push((write.table, known, false));
    }
    if write.is_delete() {
        for (child, _, key) in world.dependents.children(&world.app.catalog, write.table) {
            let parent = key.columns.iter().zip(&key.parent_columns);
            let known: Key = parent.filter_map(|(&column, &own)| Some((column, value(own)?))).collect();
            rows.push((child.id, known, false));
        }
    }
    rows
}

/// operation-partitioning.txt §6, "server-specific unique ids".
fn is_own(effects: &ProcedureEffects, terms: &[TermId]) -> bool {
    matches!(terms, [term] if matches!(effects.terms.get(*term), Term::Generated(_)))
}

fn partition(columns: &[usize], key: &Key) -> Option<Vec<TermId>> {
    let value = |column: &usize| key.iter().find(|(bound, _)| bound == column).map(|(_, term)| *term);
    columns.iter().map(value).collect()
}
