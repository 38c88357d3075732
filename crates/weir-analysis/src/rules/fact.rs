//! "Null, or absent, exactly when": facts that must not be true together.
//!
//! A state holds a clause if no rows of its FROM list that meet its conditions (t, the owner) have all facts true of
//! them. Let M be the merge of two valid branches, t an owner of M, and all facts true of t in M. Then one of the branches
//! is not valid, a contradiction, if these hold:
//!
//! 1. *The owner is as he was* ([`parted`]). Where a row of t is new in one branch, or an update makes it meet the
//!    conditions, nobody else changes a fact of t or brings another row of t; so that branch has t with the facts of M.
//!    For the rest let t be in the initial state, and so in both branches, and meet the conditions in both.
//! 2. *One fact is made true* ([`conflict`]). At most one of the facts is ever made true of t, by anybody. A fact
//!    that nobody makes true is true in M only if it is in both branches: a row whose presence makes EXISTS true was there
//!    before and nobody changes what selects it; a row whose presence makes NOT EXISTS false stays. Not counted is a row
//!    that comes in the same transaction as a row of its own t: nobody else sees this t, and 1 speaks of it.
//! 3. *The fact that is made true is true in a branch if it is in M.* This does not follow from 2.
//!    * NULL: the value in M is the value of the last assignment, which its branch has seen, or the initial one. Not so of
//!      a value that is computed from what is there, which is [`composed`].
//!    * EXISTS: a row that is selected in M is selected in a branch, unless each branch has set another column of it or
//!      computed one ([`composed`]), or it is a join's and each branch has brought one half ([`parted`]).
//!    * NOT EXISTS: that M has no row says only that *each* row that was there is gone in one of the branches. With
//!      several rows each branch may take another one and both still have one ([`takes_some`]). Where the
//!      conditions name one row at most, by a key that nobody updates, it is gone in the branch that took it.
//!
//! So all facts are true of t in that branch. Needed besides: what the groups range over are rows of tables, joined, and
//! no condition has a query within; [`crate::assertion`] makes everything else opaque.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{BinaryOp, Expr, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk;

use super::apart::{Arrival, Mover, Relation, Spoken};
use super::counterpart::{self, Counterparts};
use super::{Outcome, assertion, record};
use crate::assertion::{Clause, Fact, Group, Shape};
use crate::effects::{ColumnOperation, Context, Operation, Term, Write};
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
    let spoken = Spoken::of(shape, clause, &groups(facts));
    let touching: Vec<&Write> =
        world.effects[procedure].writes.iter().filter(|write| assertion::touches(shape, write)).collect();
    let operation = assertion::operations(world, &touching);
    let movers = trusted_movers(world, shape, &spoken, facts);
    let mut assumes = BTreeSet::new();
    for moved in &movers {
        assumes.extend(moved.assumes.get(&procedure).into_iter().flatten().cloned());
    }
    let conflicting = conflict(&movers, procedure);
    let parted = || parted(world, &spoken, facts, &movers, procedure);
    let outcome = if let Some(with) = conflicting {
        let because = format!(
            "{} makes one of the facts true in one branch, this transaction the other in the other branch.",
            world.name(with)
        );
        Outcome::no(Rule::FactsBothWays, with, operation, because)
    } else if takes_some(world, facts, procedure) {
        let because = "Of several rows of a group each branch may take another one; the merge has none.";
        Outcome::no(Rule::FactsBothWays, procedure, operation, because)
    } else if let Some(with) = composed(world, shape, facts, procedure) {
        let because = format!(
            "{} changes a part of what selects the rows, or computes it from what is there: in the merge a row may be \
             selected that is selected in neither branch.",
            world.name(with)
        );
        Outcome::no(Rule::FactsBothWays, with, operation, because)
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
    let proved = moves_together(world, facts, &movers, procedure)
        && new_rows_are_right(world, &spoken, facts, procedure);
    let alone = match (proved, assumes.is_empty()) {
        (true, true) => Alone::Proved,
        (true, false) => Alone::Checked,
        (false, _) => Alone::No,
    };
    Some(assumes.into_iter().fold(outcome.alone(alone), Outcome::assuming))
}

/// Transactions that change one fact.
#[derive(Default)]
struct Movers<'a> {
    to_true: BTreeSet<usize>,
    /// Writes that make it true.
    writes: Vec<Mover<'a>>,
    to_false: BTreeSet<usize>,
    assumes: BTreeMap<usize, BTreeSet<String>>,
    /// The loops and branches in which each moves it.
    contexts: BTreeMap<usize, BTreeSet<Context>>,
}

fn groups<'f, 'a>(facts: &'f [Fact<'a>]) -> Vec<&'f Group<'a>> {
    let group = |fact: &'f Fact<'a>| match fact {
        Fact::Exists { group, .. } => Some(group),
        Fact::Null { .. } => None,
    };
    facts.iter().filter_map(group).collect()
}

/// Transactions that change each fact. An argument that is assigned to a column is assumed not NULL only if no valid branch has NULL
/// there, or if it does not matter.
///
/// With NULL a transaction that also brings or takes the rows of another fact breaks the condition by itself. Where all that moves one of the
/// facts sets all of them at once, the last of two sets all of them in the merge, too. Any other one may write NULL where there is NULL,
/// which changes nothing in its branch, and in the merge undoes what the other branch has set.
fn trusted_movers<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    spoken: &Spoken<'_>,
    facts: &[Fact<'_>],
) -> Vec<Movers<'a>> {
    let of = |distrusted: &BTreeSet<usize>| -> Vec<Movers<'a>> {
        facts.iter().map(|fact| movers(world, shape, spoken, fact, distrusted)).collect()
    };
    let all = of(&BTreeSet::new());
    let assume: BTreeSet<usize> = all.iter().flat_map(|moved| moved.assumes.keys().copied()).collect();
    if assume.is_empty() {
        return all;
    }
    let moves = |moved: &Movers<'_>, procedure| {
        moved.to_true.contains(&procedure) || moved.to_false.contains(&procedure)
    };
    let together = |procedure| moves_together(world, facts, &all, procedure);
    let mut anybody = all.iter().flat_map(|moved| moved.to_true.iter().chain(&moved.to_false));
    if anybody.all(|&procedure| together(procedure)) {
        return all;
    }
    let brings_or_takes = |procedure| {
        let mut of_rows = facts.iter().zip(&all).filter(|(fact, _)| matches!(fact, Fact::Exists { .. }));
        of_rows.any(|(_, moved)| moves(moved, procedure))
    };
    let is_distrusted = |procedure: &usize| !(together(*procedure) && brings_or_takes(*procedure));
    of(&assume.into_iter().filter(is_distrusted).collect())
}

fn movers<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    spoken: &Spoken<'_>,
    fact: &Fact<'_>,
    distrusted: &BTreeSet<usize>,
) -> Movers<'a> {
    let mut movers = Movers::default();
    let relations: Vec<(RelationId, TableId)> = match fact {
        Fact::Null { place, .. } => shape.table(place.0).map(|table| (place.0, table)).into_iter().collect(),
        Fact::Exists { group, .. } => group.tables.clone(),
    };
    for (procedure, write) in world.writes_to(shape.tables.values().copied()) {
        let (makes_true, makes_false) = match fact {
            Fact::Null { place, negated } => {
                if shape.table(place.0) != Some(write.table) {
                    continue;
                }
                let Some(change) = write.update_of(place.1) else { continue };
                let (to_null, assumed) = match nullness(world, procedure, change, write.table, place.1) {
                    (_, Some(_)) if distrusted.contains(&procedure) => (None, None),
                    known => known,
                };
                if let Some(assumption) = assumed {
                    movers.assumes.entry(procedure).or_default().insert(assumption);
                }
                match (to_null, negated) {
                    (None, _) => (true, true),
                    (Some(to_null), negated) => (to_null != *negated, to_null == *negated),
                }
            }
            Fact::Exists { group, negated } => {
                let (appears, disappears) = existence(world, spoken, group, procedure, write);
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

/// Does the write make a row of the group appear, or disappear? One that comes with its owner does not count.
fn existence(
    world: &World<'_>,
    spoken: &Spoken<'_>,
    group: &Group<'_>,
    procedure: usize,
    write: &Write,
) -> (bool, bool) {
    let mut moves = (false, false);
    for &relation in group.tables.iter().filter(|(_, table)| *table == write.table) {
        match write.operation {
            Operation::Insert { .. } => {
                moves.0 |= !spoken.comes_whole(world, &Mover { procedure, relation, write })
            }
            Operation::Delete { .. } => moves.1 = true,
            Operation::Update { .. } => {}
        }
        if selecting(group, relation.0).into_iter().any(|column| write.update_of(column).is_some()) {
            moves = (true, true);
        }
    }
    moves
}

/// Columns of the relation in the group's conditions.
fn selecting(group: &Group<'_>, relation: RelationId) -> BTreeSet<ColumnIndex> {
    Spoken::within(group).selecting(relation)
}

/// Another procedure (or this one) with which the facts may become true together.
fn conflict(movers: &[Movers<'_>], procedure: usize) -> Option<usize> {
    let own = movers.iter().enumerate().filter(|(_, moved)| moved.to_true.contains(&procedure));
    own.flat_map(|(own, _)| movers.iter().enumerate().filter(move |(other, _)| *other != own))
        .find_map(|(_, with)| with.to_true.first().copied())
}

/// Both sides of the comparison arise in one branch, and the other branch changes the second side or makes a fact true.
fn parted<'a>(
    world: &World<'a>,
    spoken: &Spoken<'a>,
    facts: &[Fact<'a>],
    movers: &[Movers<'a>],
    procedure: usize,
) -> Option<usize> {
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
    let together = |spoken: &Spoken<'a>| spoken.parted_arrivals(world, &spoken.arrivals(world), procedure);
    together(spoken).or_else(|| joined.map(|within| together(&within)).find_map(|with| with))
}

/// The transaction takes rows of a group that may have others, of which the other branch may take the rest. It takes
/// a row by an update as well as by a delete.
fn takes_some(world: &World<'_>, facts: &[Fact<'_>], procedure: usize) -> bool {
    facts.iter().any(|fact| {
        let Fact::Exists { group, negated: true } = fact else { return false };
        let takes = |write: &Write| {
            let of_table = group.tables.iter().filter(|(_, table)| *table == write.table);
            of_table.into_iter().any(|&(relation, _)| {
                let mut selecting = selecting(group, relation).into_iter();
                write.is_delete()
                    || !world.flaws.one_row && selecting.any(|column| write.update_of(column).is_some())
            })
        };
        world.effects[procedure].writes.iter().any(takes) && !has_one_row_at_most(world, group)
    })
}

/// The group has one row at most at any time, and always the same: of each of its tables the conditions bind a key that
/// nobody updates, to values of the owner or of a table so bound.
fn has_one_row_at_most(world: &World<'_>, group: &Group<'_>) -> bool {
    let mut open = group.tables.clone();
    loop {
        let before = open.len();
        open = open
            .iter()
            .copied()
            .filter(|&(relation, table)| {
                let mut bound = bound_columns(group, relation, &open);
                bound.retain(|column| world.is_immutable(table, *column));
                !world::has_one_row_at_most(world.table(table), &bound)
            })
            .collect();
        if open.is_empty() || open.len() == before {
            return open.is_empty();
        }
    }
}

/// Columns of the relation that equal something which no row of an `open` relation decides.
fn bound_columns(group: &Group<'_>, relation: RelationId, open: &[Relation]) -> BTreeSet<ColumnIndex> {
    let decided = |expr: &Expr| {
        let mut decided = true;
        walk::columns(expr, &mut |of, _| decided &= open.iter().all(|(relation, _)| *relation != of));
        decided
    };
    let column = |expr: &Expr| match walk::uncast(expr).kind {
        ExprKind::Column { relation: of, column } if of == relation => Some(column),
        _ => None,
    };
    let sides = group.filters.iter().filter_map(|filter| match &filter.kind {
        ExprKind::Binary { op: BinaryOp::Equal, left, right } => Some([(left, right), (right, left)]),
        _ => None,
    });
    sides.flatten().filter(|(_, other)| decided(other)).filter_map(|(own, _)| column(own)).collect()
}

/// The procedure that makes, beside this transaction, a row that a fact selects (or a value that is NULL) in the merge and in neither branch.
fn composed(world: &World<'_>, shape: &Shape<'_>, facts: &[Fact<'_>], procedure: usize) -> Option<usize> {
    if world.flaws.nothing_composed {
        return None;
    }
    let changes = |table: TableId, columns: &[ColumnIndex]| {
        let mut writes = world.effects[procedure].writes.iter();
        writes.any(|write| {
            write.table == table && columns.iter().any(|&column| write.update_of(column).is_some())
        })
    };
    facts.iter().find_map(|fact| match fact {
        Fact::Null { place: (relation, column), .. } => {
            let table = shape.table(*relation).filter(|&table| changes(table, &[*column]))?;
            let applies = |write: &Write| matches!(write.update_of(*column), Some(ColumnOperation::Apply(_)));
            world.writes_of(table).find(|(_, write)| applies(write)).map(|(other, _)| other)
        }
        Fact::Exists { group, .. } => group.tables.iter().find_map(|&(relation, table)| {
            let columns: Vec<ColumnIndex> = selecting(group, relation).into_iter().collect();
            changes(table, &columns).then(|| world.composer(table, &columns, &|_, _| true)).flatten()
        }),
    })
}

/// Alone: of each row that it makes one that the clause speaks of, a fact is certainly false.
fn new_rows_are_right<'a>(
    world: &World<'a>,
    spoken: &Spoken<'a>,
    facts: &[Fact<'a>],
    procedure: usize,
) -> bool {
    let arrivals = spoken.arrivals(world);
    let mut own = arrivals.iter().filter(|arrival| arrival.procedure == procedure);
    own.all(|arrival| {
        !arrival.by_update && facts.iter().any(|fact| is_false_of_new(world, spoken, fact, arrival))
    })
}

/// The fact is false of the row that is inserted, with any row that the clause pairs with it.
fn is_false_of_new<'a>(
    world: &World<'a>,
    spoken: &Spoken<'a>,
    fact: &Fact<'a>,
    arrival: &Arrival<'a>,
) -> bool {
    let effects = &world.effects[arrival.procedure];
    let brings = |relation| spoken.brings(world, &arrival.as_mover(), relation);
    // A row that refers to this one was not there before it.
    let refers = |relation| spoken.refers(world, relation, arrival.relation);
    match fact {
        Fact::Null { place: (relation, column), negated } => {
            let is_false = |write: &Write| is_null_or_not(world, arrival.procedure, write, *column, *negated);
            if *relation == arrival.relation.0 {
                return is_false(arrival.write);
            }
            let other = spoken.relations.iter().find(|(of, _)| of == relation);
            other.is_some_and(|&other| {
                let mut writes = effects.writes.iter().filter(|write| write.table == other.1);
                (brings(other) || refers(other)) && writes.all(is_false)
            })
        }
        // It brings the row that has to be there.
        Fact::Exists { group, negated: true } => {
            let is_pair =
                |filter: &&Expr| matches!(filter.kind, ExprKind::Binary { op: BinaryOp::Equal, .. });
            let [relation] = group.tables[..] else { return false };
            group.filters.iter().all(is_pair) && brings(relation)
        }
        Fact::Exists { group, negated: false } => group.tables.iter().any(|&relation| {
            let has_others =
                effects.writes.iter().any(|write| write.table == relation.1 && !write.is_delete());
            !has_others && refers(relation)
        }),
    }
}

/// The write inserts a row whose column is certainly NULL (`is_null`), or certainly not.
fn is_null_or_not(
    world: &World<'_>,
    procedure: usize,
    write: &Write,
    column: ColumnIndex,
    is_null: bool,
) -> bool {
    let Operation::Insert { values, .. } = &write.operation else { return false };
    let Some(&value) = values.get(column) else { return false };
    match is_null {
        true => matches!(world.effects[procedure].terms.get(value), Term::Null),
        false => {
            world.table(write.table).columns[column].not_null || record::never_null(world, procedure, value)
        }
    }
}

/// Alone: it moves all of the facts, in one place, or none. If it makes some true, it makes another one false.
fn moves_together(world: &World<'_>, facts: &[Fact<'_>], movers: &[Movers<'_>], procedure: usize) -> bool {
    let makes_true = |moved: &&Movers<'_>| moved.to_true.contains(&procedure);
    let makes_false = |moved: &&Movers<'_>| moved.to_false.contains(&procedure);
    let moved = movers.iter().filter(|moved| makes_true(moved) || makes_false(moved)).count();
    let keeps_one_false = !movers.iter().any(|moved| makes_true(&moved))
        || movers.iter().any(|moved| makes_false(&moved) && !makes_true(&moved));
    let contexts: BTreeSet<&Context> =
        movers.iter().flat_map(|moved| moved.contexts.get(&procedure)).flatten().collect();
    let is_regular = !world.effects[procedure].irregular && contexts.len() <= 1;
    is_regular && (moved == 0 || moved == facts.len() && keeps_one_false)
}
