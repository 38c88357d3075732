//! Does a transaction, run alone, move both sides of an equality between sums by the same amount?
//!
//! Every write contributes an amount to a group; groups are told apart by the terms that the outer row's
//! columns have. On every path through the branches the weighted contributions must cancel. A proof over
//! terms: what it cannot see, it does not claim.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{AggregateFunction, BinaryOp, Expr, ExprKind, RelationId};
use weir_sql::catalog::ColumnIndex;
use weir_sql::walk::{self, uncast};

use crate::assertion::{Atom, Clause, Group, Shape};
use crate::effects::{ColumnOperation, Context, Frame, Key, Operation, Term, TermId, Write};
use crate::world::{World, unique_part};

/// More ways through the branches than this are not followed one by one.
const PATHS_MAX: u32 = 1 << 14;

struct Contribution {
    context: Context,
    /// The group's columns of the outer row, as far as the write tells them.
    group: BTreeMap<ColumnIndex, TermId>,
    weight: i64,
    amount: Amount,
}

#[derive(Clone, Copy)]
enum Amount {
    Term(TermId),
    One,
}

pub fn is_balanced(
    world: &World<'_>,
    shape: &Shape<'_>,
    _clause: &Clause<'_>,
    atoms: &[(i64, Atom<'_>)],
    procedure: usize,
) -> bool {
    let effects = &world.effects[procedure];
    if effects.irregular || !effects.unknown.is_empty() {
        return false;
    }
    let Some(outer) = outer_columns(atoms) else { return false };
    let mut contributions = Vec::new();
    for write in &effects.writes {
        for (weight, atom) in atoms {
            match of_atom(world, shape, &outer, *weight, atom, procedure, write) {
                Some(Some(contribution)) => contributions.push(contribution),
                Some(None) => {}
                None => return false,
            }
        }
    }
    on_all_paths(world, procedure, &contributions)
}

/// The outer relation and those of its columns that link it to the groups.
struct Outer {
    relation: RelationId,
    links: BTreeSet<ColumnIndex>,
}

fn outer_columns(atoms: &[(i64, Atom<'_>)]) -> Option<Outer> {
    let inner: BTreeSet<RelationId> = atoms
        .iter()
        .filter_map(|(_, atom)| match atom {
            Atom::Aggregate(group) => Some(group.tables.iter().map(|(relation, _)| *relation)),
            Atom::Column(_) => None,
        })
        .flatten()
        .collect();
    let mut mentioned: BTreeSet<(RelationId, ColumnIndex)> = BTreeSet::new();
    for (_, atom) in atoms {
        match atom {
            Atom::Column(place) => {
                mentioned.insert((place.0, usize::MAX));
            }
            Atom::Aggregate(group) => {
                for filter in &group.filters {
                    walk::columns(filter, &mut |relation, column| {
                        if !inner.contains(&relation) {
                            mentioned.insert((relation, column));
                        }
                    });
                }
            }
        }
    }
    let relations: BTreeSet<RelationId> = mentioned.iter().map(|(relation, _)| *relation).collect();
    let &relation = relations.first()?;
    let links = mentioned.iter().map(|(_, column)| *column).filter(|&column| column != usize::MAX).collect();
    (relations.len() == 1).then_some(Outer { relation, links })
}

/// Amount that one write adds to one atom: `Some(None)` for nothing, `None` if unknown.
fn of_atom(
    world: &World<'_>,
    shape: &Shape<'_>,
    outer: &Outer,
    weight: i64,
    atom: &Atom<'_>,
    procedure: usize,
    write: &Write,
) -> Option<Option<Contribution>> {
    match atom {
        Atom::Column((relation, column)) => {
            if shape.table(*relation) != Some(write.table) {
                return Some(None);
            }
            counter(world, outer, weight, *column, procedure, write)
        }
        Atom::Aggregate(group) => in_group(world, outer, weight, group, procedure, write),
    }
}

fn counter(
    world: &World<'_>,
    outer: &Outer,
    weight: i64,
    column: ColumnIndex,
    procedure: usize,
    write: &Write,
) -> Option<Option<Contribution>> {
    let key = world.effects[procedure].key_of(write);
    let amount = match &write.operation {
        Operation::Insert { values, on_conflict: None } => values[column],
        Operation::Update { .. } => match write.update_of(column) {
            None => return Some(None),
            Some(ColumnOperation::Add(delta)) => delta,
            Some(_) => return None,
        },
        _ => return None,
    };
    let group: BTreeMap<ColumnIndex, TermId> =
        outer.links.iter().map(|&link| Some((link, value_of(&key, link)?))).collect::<Option<_>>()?;
    let context = write.context.clone();
    Some(Some(Contribution { context, group, weight, amount: Amount::Term(amount) }))
}

fn in_group(
    world: &World<'_>,
    outer: &Outer,
    weight: i64,
    group: &Group<'_>,
    procedure: usize,
    write: &Write,
) -> Option<Option<Contribution>> {
    let Some(&(relation, _)) = group.tables.iter().find(|(_, table)| *table == write.table) else {
        return Some(None);
    };
    let mut relevant = BTreeSet::new();
    let mut note = |of: RelationId, column| {
        if of == relation {
            relevant.insert(column);
        }
    };
    group.filters.iter().for_each(|filter| walk::columns(filter, &mut note));
    group.argument.iter().for_each(|argument| walk::columns(argument, &mut note));
    match &write.operation {
        Operation::Update { columns, .. } if !columns.iter().any(|(column, _)| relevant.contains(column)) => {
            return Some(None);
        }
        Operation::Insert { on_conflict: None, .. } | Operation::Update { .. } | Operation::Delete { .. } => {
        }
        Operation::Insert { .. } => return None,
    }
    let key = world.effects[procedure].key_of(write);
    if let Operation::Insert { .. } = write.operation
        && excluded(world, procedure, group, relation, &key)
    {
        return Some(None);
    }
    if group.tables.len() != 1 {
        return partners_excluded(world, procedure, group, write).then_some(None);
    }
    let mut weight = weight;
    let amount = match (&write.operation, group.function) {
        (_, Some(AggregateFunction::Count)) if !counts_all(world, group) => return None,
        (Operation::Insert { .. }, Some(AggregateFunction::Count)) => Amount::One,
        (Operation::Delete { .. }, Some(AggregateFunction::Count)) => {
            unique_part(world.table(write.table), &key)?;
            weight = -weight;
            Amount::One
        }
        (Operation::Insert { values, .. }, Some(AggregateFunction::Sum)) => {
            Amount::Term(values[plain_argument(group, relation)?])
        }
        (Operation::Update { .. }, Some(AggregateFunction::Sum)) => {
            match write.update_of(plain_argument(group, relation)?) {
                Some(ColumnOperation::Add(delta)) => Amount::Term(delta),
                _ => return None,
            }
        }
        _ => return None,
    };
    let links = linked(outer, group, relation, &key)?;
    Some(Some(Contribution { context: write.context.clone(), group: links, weight, amount }))
}

/// A condition that the new row does not meet by its form: `x IS NOT NULL` of a NULL.
fn excluded(world: &World<'_>, procedure: usize, group: &Group<'_>, relation: RelationId, key: &Key) -> bool {
    let terms = &world.effects[procedure].terms;
    group.filters.iter().any(|filter| match &filter.kind {
        ExprKind::IsNull { operand, negated: true } => match uncast(operand).kind {
            ExprKind::Column { relation: of, column } if of == relation => {
                value_of(key, column).is_some_and(|term| *terms.get(term) == Term::Null)
            }
            _ => false,
        },
        _ => false,
    })
}

/// A new row joins only with rows of the other tables that refer to it, so with new ones; none of these counts.
fn partners_excluded(world: &World<'_>, procedure: usize, group: &Group<'_>, write: &Write) -> bool {
    let effects = &world.effects[procedure];
    write.is_insert()
        && group.tables.iter().filter(|(_, table)| *table != write.table).all(|&(relation, table)| {
            world.table(table).foreign_keys.iter().any(|key| key.parent == write.table)
                && effects.writes.iter().filter(|other| other.table == table).all(|other| {
                    other.is_insert() && excluded(world, procedure, group, relation, &effects.key_of(other))
                })
        })
}

/// `count(*)`, or of a column that is never NULL.
fn counts_all(world: &World<'_>, group: &Group<'_>) -> bool {
    group.argument.is_none_or(|argument| match uncast(argument).kind {
        ExprKind::Column { relation, column } => group
            .tables
            .iter()
            .any(|(of, table)| *of == relation && world.table(*table).columns[column].not_null),
        _ => false,
    })
}

fn plain_argument(group: &Group<'_>, relation: RelationId) -> Option<ColumnIndex> {
    match uncast(group.argument?).kind {
        ExprKind::Column { relation: of, column } if of == relation => Some(column),
        _ => None,
    }
}

/// The outer row's link columns in terms of the inner row; `None` if a filter is anything but a link.
fn linked(
    outer: &Outer,
    group: &Group<'_>,
    relation: RelationId,
    key: &Key,
) -> Option<BTreeMap<ColumnIndex, TermId>> {
    let mut links = BTreeMap::new();
    for filter in &group.filters {
        let ExprKind::Binary { op: BinaryOp::Equal, left, right } = &filter.kind else { return None };
        let (inner, outside) = match (place(left)?, place(right)?) {
            (inner, outside) if inner.0 == relation && outside.0 == outer.relation => (inner, outside),
            (outside, inner) if inner.0 == relation && outside.0 == outer.relation => (inner, outside),
            _ => return None,
        };
        links.insert(outside.1, value_of(key, inner.1)?);
    }
    Some(links)
}

fn place(expr: &Expr) -> Option<(RelationId, ColumnIndex)> {
    match uncast(expr).kind {
        ExprKind::Column { relation, column } => Some((relation, column)),
        _ => None,
    }
}

fn value_of(key: &Key, column: ColumnIndex) -> Option<TermId> {
    key.iter().find(|(bound, _)| *bound == column).map(|(_, term)| *term)
}

/// Enumerates the choices at all branches that matter; on each, contributions to a group must cancel.
fn on_all_paths(world: &World<'_>, procedure: usize, contributions: &[Contribution]) -> bool {
    let Some(paths) = paths(contributions.iter().map(|contribution| &contribution.context)) else {
        return false;
    };
    paths.iter().all(|path| {
        let on_path = contributions.iter().filter(|contribution| is_on_path(&contribution.context, path));
        cancels(world, procedure, &on_path.collect::<Vec<_>>())
    })
}

/// The branch that is taken at each site.
pub type Path = BTreeMap<u32, u32>;

/// All choices at the branches of these contexts; `None` if they are too many.
pub fn paths<'c>(contexts: impl Iterator<Item = &'c Context>) -> Option<Vec<Path>> {
    let mut sites: BTreeMap<u32, u32> = BTreeMap::new();
    for frame in contexts.flatten() {
        if let Frame::Branch { site, branches, .. } = frame {
            sites.insert(*site, *branches);
        }
    }
    let count = sites.values().try_fold(1u32, |count, branches| count.checked_mul(*branches));
    if count.is_none_or(|count| count > PATHS_MAX) {
        return None;
    }
    let mut paths = vec![Path::new()];
    for (site, branches) in sites {
        let with = |path: &Path, branch| {
            let mut path = path.clone();
            path.insert(site, branch);
            path
        };
        paths = paths.iter().flat_map(|path| (0..branches).map(move |branch| with(path, branch))).collect();
    }
    Some(paths)
}

pub fn is_on_path(context: &Context, path: &Path) -> bool {
    context.iter().all(|frame| match frame {
        Frame::Branch { site, branch, .. } => path.get(site) == Some(branch),
        Frame::Loop { .. } => true,
    })
}

/// Loops with known counts turn "one each time" into their count; then equal amounts cancel.
fn cancels(world: &World<'_>, procedure: usize, contributions: &[&Contribution]) -> bool {
    type Bucket = (Vec<u32>, Vec<(ColumnIndex, TermId)>);
    let terms = &world.effects[procedure].terms;
    let mut sums: BTreeMap<Bucket, BTreeMap<TermId, i64>> = BTreeMap::new();
    let mut constants: BTreeMap<Bucket, i64> = BTreeMap::new();
    for contribution in contributions {
        let mut loops: Vec<(u32, Option<TermId>)> = contribution
            .context
            .iter()
            .filter_map(|frame| match frame {
                Frame::Loop { site, count } => Some((*site, *count)),
                Frame::Branch { .. } => None,
            })
            .collect();
        let mut amount = contribution.amount;
        let mut weight = contribution.weight;
        // One each time around a loop whose group does not change in it: as many as the loop's count.
        if let (Amount::One, Some(&(site, Some(count)))) = (amount, loops.last()) {
            let varies =
                contribution.group.values().any(|&term| depends_on_loop(world, procedure, term, site));
            if !varies {
                loops.pop();
                amount = Amount::Term(count);
            }
        }
        if let Amount::Term(term) = amount
            && let Term::Call { name, arguments } = terms.get(term)
            && name == "-"
            && arguments.len() == 1
        {
            weight = -weight;
            amount = Amount::Term(arguments[0]);
        }
        let bucket: Bucket = (
            loops.into_iter().map(|(site, _)| site).collect(),
            contribution.group.iter().map(|(&column, &term)| (column, term)).collect(),
        );
        match amount {
            Amount::One => *constants.entry(bucket).or_default() += weight,
            Amount::Term(term) => match terms.get(term) {
                Term::Integer(n) => *constants.entry(bucket).or_default() += weight * n,
                _ => *sums.entry(bucket).or_default().entry(term).or_default() += weight,
            },
        }
    }
    sums.values().flat_map(BTreeMap::values).chain(constants.values()).all(|&sum| sum == 0)
}

fn depends_on_loop(world: &World<'_>, procedure: usize, term: TermId, site: u32) -> bool {
    let terms = &world.effects[procedure].terms;
    terms.leaves(term).into_iter().any(|leaf| match terms.get(leaf) {
        Term::Index(index) => *index == site,
        Term::Carried(_) | Term::Unknown(_) => true,
        _ => false,
    })
}
