//! Where rows live, and which partitions a transaction reaches.
//!
//! The partition columns are the user's (`COMMENT ON TABLE … 'weir: partition by (…)'`); without one a table
//! that nobody writes is copied to every shard, and any other is partitioned by the column that Operation
//! Partitioning gives it, or, where no call finds its rows by what routes it, by the first of its primary key.

use std::collections::BTreeSet;

use weir_sql::catalog::TableId;

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
    world.app.catalog.tables.iter().map(|table| place(world, partitioning, table.id, findings)).collect()
}

fn place(
    world: &World<'_>,
    partitioning: &Partitioning,
    id: TableId,
    findings: &mut Vec<Finding>,
) -> Placement {
    let table = world.table(id);
    if table.replicated {
        return Placement::Replicated;
    }
    if let Some(columns) = table.partition_by.clone().filter(|columns| !columns.is_empty()) {
        return Placement::Partitioned { columns: columns.into() };
    }
    if !world.is_written(id) {
        return Placement::Replicated;
    }
    if let Some(column) = partitioning.column(id) {
        return Placement::Partitioned { columns: [column].into() };
    }
    let column = table.primary_key.as_ref().and_then(|key| key.columns.first().copied()).unwrap_or(0);
    findings.push(Finding {
        id: "default-placement",
        severity: Severity::Note,
        message: format!(
            "{0} says nothing about its placement and is partitioned by its column {1}; \
             COMMENT ON TABLE {0} IS 'weir: partition by (…)' chooses another",
            table.name, table.columns[column].name
        ),
        span: table.span,
    });
    Placement::Partitioned { columns: [column].into() }
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
