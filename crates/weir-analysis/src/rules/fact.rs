//! "Null, or absent, exactly when": facts that must not be true together.
//!
//! Let each fact be moved by all transactions together. A fact that nobody makes true is true in the merge
//! only if it is true in both branches; one that somebody makes true is true in the merge only if it is in
//! one of them. So if at most one of the facts is ever made true (but by transactions that create the whole
//! group), a violation in the merge would be a violation in the branch in which that one is true.
//!
//! That is said of rows that both branches hold together. Where an update or an insert brings them together in one
//! branch ([`super::apart`]), nobody may make a fact of them true in the other, or bring another part of them there.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{BinaryOp, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk;

use super::apart::{Mover, Spoken};
use super::counterpart::{self, Counterparts};
use super::{Outcome, assertion, record};
use crate::assertion::{Clause, Fact, Group, Shape};
use crate::effects::{ColumnOperation, Context, Operation, Term, TermId, Write};
use crate::verdict::{Alone, Rule};
use crate::world::{self, World};

pub fn judge(
    world: &World<'_>,
    shape: &Shape<'_>,
    clause: &Clause<'_>,
    facts: &[Fact<'_>],
    procedure: usize,
) -> Option<Outcome> {
    if let Some(counterparts) = Counterparts::of(shape, clause, facts) {
        return counterpart::judge(world, shape, &counterparts, procedure);
    }
    let tables = tables_of(shape, clause, facts);
    let touching: Vec<&Write> =
        world.effects[procedure].writes.iter().filter(|write| assertion::touches(shape, write)).collect();
    let operation = assertion::operations(world, &touching);
    let movers: Vec<Movers<'_>> = facts.iter().map(|fact| movers(world, shape, &tables, fact)).collect();
    let mut assumes = BTreeSet::new();
    for moved in &movers {
        assumes.extend(moved.assumes.get(&procedure).into_iter().flatten().cloned());
    }
    let conflicting = conflict(world, &tables, &movers, procedure);
    let parted = || parted(world, shape, clause, facts, &movers, procedure);
    let outcome = if let Some(with) = conflicting {
        let because = format!(
            "{} makes one of the facts true in one branch, this transaction the other in the other branch.",
            world.name(with)
        );
        Outcome::no(Rule::FactsBothWays, with, operation, because)
    } else if takes_some(world, facts, procedure) {
        let because = "Of several rows of a group each branch may take another one; the merge has none.";
        Outcome::no(Rule::FactsBothWays, procedure, operation, because)
    } else if let Some(with) = parted() {
        let because = format!(
            "What the condition compares comes together in one branch, and {} changes one half of it, or brings it, \
             in the other, which does not see that.",
            world.name(with)
        );
        Outcome::no(Rule::FactsBothWays, with, operation, because)
    } else {
        let because = "Each fact is moved in one direction only, and new groups come whole: a fact has changed \
                       in the merge exactly if it has in a branch, and there both have.";
        Outcome::yes(Rule::OneWayFacts, operation, because)
    };
    let proved = moves_together(world, facts, &movers, procedure);
    let alone = match (proved, assumes.is_empty()) {
        (true, true) => Alone::Proved,
        (true, false) => Alone::Checked,
        (false, _) => Alone::No,
    };
    Some(assumes.into_iter().fold(outcome.alone(alone), Outcome::assuming))
}

/// Who moves one fact.
#[derive(Default)]
struct Movers<'a> {
    to_true: BTreeSet<usize>,
    /// The writes that do.
    writes: Vec<Mover<'a>>,
    to_false: BTreeSet<usize>,
    assumes: BTreeMap<usize, BTreeSet<String>>,
    /// The loops and branches in which each moves it.
    contexts: BTreeMap<usize, BTreeSet<Context>>,
}

fn tables_of(shape: &Shape<'_>, clause: &Clause<'_>, facts: &[Fact<'_>]) -> BTreeMap<RelationId, TableId> {
    let mut tables = BTreeMap::new();
    for relation in &clause.scope {
        if let Some(table) = shape.table(*relation) {
            tables.insert(*relation, table);
        }
    }
    for fact in facts {
        if let Fact::Exists { group, .. } = fact {
            tables.extend(group.tables.iter().copied());
        }
    }
    tables
}

fn movers<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    tables: &BTreeMap<RelationId, TableId>,
    fact: &Fact<'_>,
) -> Movers<'a> {
    let mut movers = Movers::default();
    let relations: Vec<(RelationId, TableId)> = match fact {
        Fact::Null { place, .. } => shape.table(place.0).map(|table| (place.0, table)).into_iter().collect(),
        Fact::Exists { group, .. } => group.tables.clone(),
    };
    for (procedure, write) in world.writes() {
        let (makes_true, makes_false) = match fact {
            Fact::Null { place, negated } => {
                if shape.table(place.0) != Some(write.table) {
                    continue;
                }
                let Some(change) = write.update_of(place.1) else { continue };
                let (to_null, assumed) = nullness(world, procedure, change, write.table, place.1);
                if let Some(assumption) = assumed {
                    movers.assumes.entry(procedure).or_default().insert(assumption);
                }
                match (to_null, negated) {
                    (None, _) => (true, true),
                    (Some(to_null), negated) => (to_null != *negated, to_null == *negated),
                }
            }
            Fact::Exists { group, negated } => {
                let (appears, disappears) = existence(world, tables, group, procedure, write);
                if *negated { (disappears, appears) } else { (appears, disappears) }
            }
        };
        if makes_true || makes_false {
            movers.contexts.entry(procedure).or_default().insert(write.context.clone());
        }
        if makes_true {
            movers.to_true.insert(procedure);
            let moved = relations.iter().filter(|(_, table)| *table == write.table);
            movers.writes.extend(moved.map(|&relation| Mover { procedure, relation, write }));
        }
        if makes_false {
            movers.to_false.insert(procedure);
        }
    }
    movers
}

/// Does the update make the column NULL (`None`: either), and what does that assume?
fn nullness(
    world: &World<'_>,
    procedure: usize,
    change: ColumnOperation,
    table: TableId,
    column: usize,
) -> (Option<bool>, Option<String>) {
    let ColumnOperation::Assign(term) = change else { return (None, None) };
    if record::never_null(world, procedure, term) {
        return (Some(false), None);
    }
    match world.effects[procedure].terms.get(term) {
        Term::Null => (Some(true), None),
        Term::Parameter(variable) => {
            let parameter = &world.app.procedures[procedure].variables[variable.0 as usize].name;
            let column = world.column_name(table, column);
            (Some(false), Some(format!("{parameter}, which becomes {column}, is not NULL")))
        }
        _ => (None, None),
    }
}

/// Does the write make a row of the group appear, or disappear? New groups do not count.
fn existence(
    world: &World<'_>,
    tables: &BTreeMap<RelationId, TableId>,
    group: &Group<'_>,
    procedure: usize,
    write: &Write,
) -> (bool, bool) {
    let mut moves = (false, false);
    for &(relation, table) in group.tables.iter().filter(|(_, table)| *table == write.table) {
        match write.operation {
            Operation::Insert { .. } => moves.0 |= !comes_whole(world, tables, procedure, write),
            Operation::Delete { .. } => moves.1 = true,
            Operation::Update { .. } => {}
        }
        let mut selected = false;
        for filter in &group.filters {
            walk::columns(filter, &mut |of, column| {
                selected |= of == relation && write.update_of(column).is_some()
            });
        }
        if selected && table == write.table {
            moves = (true, true);
        }
    }
    moves
}

/// The transaction inserts the rows of every other table of the clause that belong to this one as well.
fn comes_whole(
    world: &World<'_>,
    tables: &BTreeMap<RelationId, TableId>,
    procedure: usize,
    write: &Write,
) -> bool {
    let others: BTreeSet<TableId> = tables.values().copied().filter(|&table| table != write.table).collect();
    others.into_iter().all(|table| {
        world.effects[procedure]
            .writes
            .iter()
            .any(|other| other.table == table && is_new(other) && belong_together(world, write, other))
    })
}

/// It inserts a row, whatever is there.
fn is_new(write: &Write) -> bool {
    matches!(write.operation, Operation::Insert { on_conflict: None, .. })
}

/// The key of one of two new rows is part of the other.
fn belong_together(world: &World<'_>, a: &Write, b: &Write) -> bool {
    let (Operation::Insert { values: of_a, .. }, Operation::Insert { values: of_b, .. }) =
        (&a.operation, &b.operation)
    else {
        return false;
    };
    let contained = |table: TableId, values: &[TermId], within: &[TermId]| {
        let key = world.table(table).primary_key.as_ref();
        key.is_some_and(|key| key.columns.iter().all(|&column| within.contains(&values[column])))
    };
    contained(a.table, of_a, of_b) || contained(b.table, of_b, of_a)
}

/// Another procedure (or this one) with which the facts may become true together.
fn conflict(
    world: &World<'_>,
    tables: &BTreeMap<RelationId, TableId>,
    movers: &[Movers<'_>],
    procedure: usize,
) -> Option<usize> {
    for (own, moved) in movers.iter().enumerate() {
        if moved.to_true.contains(&procedure) {
            for (other, with) in movers.iter().enumerate() {
                if other != own
                    && let Some(&with) = with.to_true.iter().next()
                {
                    return Some(with);
                }
            }
        }
    }
    // A new row in a group that exists: the other branch may have made its facts true.
    let adds_to_group = world.effects[procedure].writes.iter().any(|write| {
        write.is_insert()
            && tables.values().any(|&table| table == write.table)
            && !comes_whole(world, tables, procedure, write)
    });
    adds_to_group.then(|| movers.iter().flat_map(|moved| &moved.to_true).copied().next()).flatten()
}

/// What is compared comes together in one branch, and the other brings its other half, or makes a fact of it true.
fn parted<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    clause: &Clause<'a>,
    facts: &[Fact<'a>],
    movers: &[Movers<'a>],
    procedure: usize,
) -> Option<usize> {
    let groups: Vec<&Group<'a>> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Exists { group, .. } => Some(group),
            Fact::Null { .. } => None,
        })
        .collect();
    let spoken = Spoken::of(shape, clause, &groups);
    let arrivals = spoken.arrivals(world);
    let apart = arrivals
        .iter()
        .flat_map(|arrival| movers.iter().flat_map(|moved| &moved.writes).map(move |mover| (arrival, mover)));
    for (arrival, mover) in apart.filter(|(arrival, mover)| spoken.may_part(world, arrival, mover)) {
        if arrival.procedure == procedure {
            return Some(mover.procedure);
        }
        if mover.procedure == procedure {
            return Some(arrival.procedure);
        }
    }
    let joined = facts.iter().filter_map(|fact| match fact {
        Fact::Exists { group, negated: false } if group.tables.len() > 1 => Some(Spoken::within(group)),
        _ => None,
    });
    joined
        .chain([spoken])
        .find_map(|spoken| spoken.parted_arrivals(world, &spoken.arrivals(world), procedure))
}

/// The transaction takes rows of a group that may have others, of which the other branch may take the rest.
fn takes_some(world: &World<'_>, facts: &[Fact<'_>], procedure: usize) -> bool {
    facts.iter().any(|fact| {
        let Fact::Exists { group, .. } = fact else { return false };
        group.tables.iter().any(|&(relation, table)| {
            let takes = |write: &Write| write.table == table && write.is_delete();
            world.effects[procedure].writes.iter().any(takes)
                && !world::has_one_row_at_most(world.table(table), &equal_columns(group, relation))
        })
    })
}

/// Columns of the relation that the group's filters bind to something else.
fn equal_columns(group: &Group<'_>, relation: RelationId) -> BTreeSet<ColumnIndex> {
    let equalities = group.filters.iter().filter_map(|filter| match &filter.kind {
        ExprKind::Binary { op: BinaryOp::Equal, left, right } => {
            Some([walk::uncast(left), walk::uncast(right)])
        }
        _ => None,
    });
    let columns = equalities.flatten().filter_map(|side| match side.kind {
        ExprKind::Column { relation: of, column } if of == relation => Some(column),
        _ => None,
    });
    columns.collect()
}

/// Alone: it moves all of the facts, in one place, or none, and what it creates it creates whole.
fn moves_together(world: &World<'_>, facts: &[Fact<'_>], movers: &[Movers<'_>], procedure: usize) -> bool {
    let moved = movers
        .iter()
        .filter(|moved| moved.to_true.contains(&procedure) || moved.to_false.contains(&procedure))
        .count();
    let contexts: BTreeSet<&Context> =
        movers.iter().flat_map(|moved| moved.contexts.get(&procedure)).flatten().collect();
    !world.effects[procedure].irregular && contexts.len() <= 1 && (moved == 0 || moved == facts.len())
}
