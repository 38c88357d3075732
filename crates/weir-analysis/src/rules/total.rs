//! Inequalities between counters, sums and counts: `sum(amount) <= capacity`, `count(*) <= 5`.
//!
//! The difference between the two sides is the margin. A transaction of which every write can only widen it is
//! confluent whatever else happens, overwriting included: what of it is still there in the merge widens. One
//! thing is no question of margins: a sum over no rows is NULL, which breaks nothing, so the first row may meet
//! in the merge what nobody has compared with any.

use weir_sql::bound::{AggregateFunction, Expr, RelationId};
use weir_sql::walk;

use super::apart::Spoken;
use super::{Outcome, assertion, settled, sum};
use crate::assertion::{Atom, Group, Shape};
use crate::effects::{ColumnOperation, Operation, Sign, Write};
use crate::verdict::{Alone, Rule};
use crate::world::World;

pub fn judge<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    atoms: &[(i64, Atom<'a>)],
    procedure: usize,
) -> Option<Outcome> {
    let touching = sum::touching(world, shape, atoms, procedure);
    if touching.is_empty() {
        return None;
    }
    let operation = assertion::operations(world, &touching);
    let narrows = touching.iter().any(|write| lowers(world, shape, atoms, procedure, write));
    if narrows {
        let because = "Each branch uses up what is left of the margin; together they use more than there is.";
        return Some(Outcome::no(Rule::MarginUsed, procedure, operation, because).alone(Alone::No));
    }
    let begins = touching.iter().any(|write| begins(shape, atoms, write));
    if let Some(with) = begins_in_the_merge(world, atoms, procedure) {
        let because = format!(
            "{} may bring in the other branch what this one's row is joined with; an aggregate over no rows is NULL and breaks \
             nothing, beside its first row it might.",
            world.name(with)
        );
        return Some(Outcome::no(Rule::SumJoinApart, with, operation, because).alone(Alone::No));
    }
    if begins && let Some(with) = may_begin(world, shape, atoms) {
        let because = "A sum over no rows is NULL and breaks nothing; beside the first row it might. With \
                       coalesce(…, 0) it would be a number from the beginning.";
        return Some(Outcome { with: Some(with), ..Outcome::undecided(operation, because) });
    }
    let because = "It can only widen the margin, and merged changes widen it further.";
    let outcome = Outcome::yes(Rule::MarginWider, operation, because);
    Some(if begins { outcome.alone(Alone::No) } else { outcome.proved() })
}

/// It may bring the first row of a sum, or a row that has a margin of its own.
fn begins(shape: &Shape<'_>, atoms: &[(i64, Atom<'_>)], write: &Write) -> bool {
    let is_its_row = |atom: &Atom<'_>| match atom {
        Atom::Column((relation, _)) => write.is_insert() && shape.table(*relation) == Some(write.table),
        Atom::Aggregate(_) => false,
    };
    may_be_first(atoms, write) || atoms.iter().any(|(_, atom)| is_its_row(atom))
}

/// It may bring the first row of an aggregate that is NULL without any: before it nothing is compared.
pub fn may_be_first(atoms: &[(i64, Atom<'_>)], write: &Write) -> bool {
    atoms.iter().any(|(_, atom)| match atom {
        Atom::Aggregate(group) => may_be_none(group) && moves(group, write, Write::is_insert),
        Atom::Column(_) => false,
    })
}

/// Rows of two branches that only together are the first of an aggregate that is NULL without any. The other one's procedure.
fn begins_in_the_merge<'a>(world: &World<'a>, atoms: &[(i64, Atom<'a>)], procedure: usize) -> Option<usize> {
    atoms.iter().find_map(|(_, atom)| match atom {
        Atom::Aggregate(group) if may_be_none(group) && group.tables.len() > 1 => {
            let joined = Spoken::within(group);
            joined.parted_arrivals(world, &joined.arrivals(world), procedure)
        }
        _ => None,
    })
}

/// A transaction that removes rows of a sum that is NULL without rows, or changes the value that it is compared with.
fn may_begin(world: &World<'_>, shape: &Shape<'_>, atoms: &[(i64, Atom<'_>)]) -> Option<usize> {
    let changes = |atom: &Atom<'_>, write: &Write| match atom {
        Atom::Column((relation, column)) => {
            shape.table(*relation) == Some(write.table) && write.update_of(*column).is_some()
        }
        Atom::Aggregate(group) if may_be_none(group) && atoms.len() == 1 => {
            moves(group, write, Write::is_delete)
        }
        Atom::Aggregate(group) => group.tables.iter().any(|(_, table)| *table == write.table),
    };
    if !atoms.iter().any(|(_, atom)| matches!(atom, Atom::Aggregate(group) if may_be_none(group))) {
        return None;
    }
    let mut found = world
        .writes_to(shape.tables.values().copied())
        .filter(|(_, write)| atoms.iter().any(|(_, atom)| changes(atom, write)));
    found.next().map(|(procedure, _)| procedure)
}

/// Without rows nothing is compared with it: an aggregate without coalesce around it, or a group of GROUP BY.
pub(super) fn may_be_none(group: &Group<'_>) -> bool {
    group.function != Some(AggregateFunction::Count) && !group.zero_if_none || !group.keys.is_empty()
}

/// Returns whether the write adds a row to the group or removes one, by existence or by the selecting columns.
fn moves(group: &Group<'_>, write: &Write, existence: impl Fn(&Write) -> bool) -> bool {
    group.tables.iter().filter(|(_, table)| *table == write.table).any(|&(relation, _)| {
        let summed = sum::summed_column(group, relation);
        let mut selecting = sum::columns_in(group, relation);
        selecting.retain(|column| Some(*column) != summed);
        existence(write) || selecting.iter().any(|column| write.update_of(*column).is_some())
    })
}

/// The write may use up the margin.
pub fn lowers(
    world: &World<'_>,
    shape: &Shape<'_>,
    atoms: &[(i64, Atom<'_>)],
    procedure: usize,
    write: &Write,
) -> bool {
    atoms.iter().any(|(weight, atom)| may_lower(world, shape, procedure, *weight, atom, write))
}

fn may_lower(
    world: &World<'_>,
    shape: &Shape<'_>,
    procedure: usize,
    weight: i64,
    atom: &Atom<'_>,
    write: &Write,
) -> bool {
    let effects = &world.effects[procedure];
    let lowers = |sign: Sign| if weight > 0 { sign.negative } else { sign.positive };
    match atom {
        Atom::Column((relation, column)) if shape.table(*relation) == Some(write.table) => {
            match write.update_of(*column) {
                None => false,
                Some(ColumnOperation::Add(delta)) => lowers(effects.terms.sign(delta)),
                Some(ColumnOperation::Max(_)) => weight < 0,
                Some(ColumnOperation::Min(_)) => weight > 0,
                Some(_) => true,
            }
        }
        Atom::Column(_) => false,
        Atom::Aggregate(group) => {
            let tables = group.tables.iter().filter(|(_, table)| *table == write.table);
            tables.map(|&(relation, _)| change(world, procedure, group, relation, write)).any(lowers)
        }
    }
}

/// The change that one write may make to an aggregate.
fn change(
    world: &World<'_>,
    procedure: usize,
    group: &Group<'_>,
    relation: RelationId,
    write: &Write,
) -> Sign {
    use AggregateFunction::{Count, Maximum, Minimum};
    let terms = &world.effects[procedure].terms;
    let summed = sum::summed_column(group, relation);
    let existence = match (&write.operation, group.function, summed) {
        (Operation::Insert { values, .. }, _, Some(column)) => terms.sign(values[column]),
        (Operation::Insert { .. }, Some(Count | Maximum), _) => Sign::NOT_NEGATIVE,
        (Operation::Insert { .. }, Some(Minimum), _) => Sign::NOT_POSITIVE,
        (Operation::Delete { .. }, Some(Count | Maximum), _) => Sign::NOT_POSITIVE,
        (Operation::Delete { .. }, Some(Minimum), _) => Sign::NOT_NEGATIVE,
        (Operation::Update { .. }, ..) => Sign::of_integer(0),
        _ => Sign::ANY,
    };
    if let Some(sign) = selected(world, procedure, group, relation, write) {
        return sign;
    }
    // An upsert may do both.
    let changed = sum::columns_in(group, relation).into_iter().filter_map(|column| {
        Some(match write.update_of(column)? {
            ColumnOperation::Add(delta) if summed == Some(column) => terms.sign(delta),
            _ => Sign::ANY,
        })
    });
    changed.fold(existence, Sign::or)
}

/// For an update that only sets selecting columns to constants: whether all rows that it writes are in the group afterwards, or none.
fn selected(
    world: &World<'_>,
    procedure: usize,
    group: &Group<'_>,
    relation: RelationId,
    write: &Write,
) -> Option<Sign> {
    use AggregateFunction::{Count, Maximum, Minimum};
    let written = |expr: &&Expr| {
        let mut written = false;
        walk::columns(expr, &mut |of, column| {
            written |= of == relation && write.update_of(column).is_some();
        });
        written
    };
    if group.argument.iter().chain(&group.keys).any(written) {
        return None;
    }
    let filters: Vec<&Expr> = group.filters.iter().copied().filter(written).collect();
    let mut of_others = false;
    filters.iter().for_each(|filter| walk::columns(filter, &mut |of, _| of_others |= of != relation));
    if filters.is_empty() || of_others {
        return None;
    }
    let after: Vec<Option<bool>> =
        filters.iter().map(|filter| settled::after(world, procedure, write, filter)).collect();
    let comes = after.iter().all(|after| *after == Some(true));
    if !comes && !after.contains(&Some(false)) {
        return None;
    }
    match group.function? {
        Count | Maximum if comes => Some(Sign::NOT_NEGATIVE),
        Count | Maximum => Some(Sign::NOT_POSITIVE),
        Minimum if comes => Some(Sign::NOT_POSITIVE),
        Minimum => Some(Sign::NOT_NEGATIVE),
        _ => None,
    }
}
