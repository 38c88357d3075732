//! Assertions: each clause is judged by its shape.

use std::collections::BTreeSet;

use weir_sql::bound::{AggregateFunction, Expr, RelationId};

use super::extreme::{self, Extreme};
use super::rows::Rows;
use super::{Outcome, apart, combine, dense, fact, record, sum, total};
use crate::assertion::{Atom, Claim, Clause, Group, Shape};
use crate::effects::Write;
use crate::world::World;

/// `decide` may change what the rules say of one clause.
pub fn judge(
    world: &World<'_>,
    shape: &Shape<'_>,
    procedure: usize,
    decide: &mut dyn FnMut(&Clause<'_>, Outcome) -> Outcome,
) -> Option<Outcome> {
    let touching: Vec<&Write> =
        world.effects[procedure].writes.iter().filter(|write| touches(shape, write)).collect();
    if touching.is_empty() {
        return None;
    }
    let outcomes: Vec<Outcome> = shape
        .clauses
        .iter()
        .filter_map(|clause| {
            let outcome = clause_outcome(world, shape, clause, procedure, &touching)?;
            Some(decide(clause, outcome))
        })
        .collect();
    combine(outcomes)
}

/// It changes which rows there are, or a column that the assertion reads.
pub fn touches(shape: &Shape<'_>, write: &Write) -> bool {
    let tables: BTreeSet<_> = shape.tables.values().collect();
    let existence = write.is_insert() || write.is_delete();
    tables.contains(&write.table)
        && (existence
            || write.updates().iter().any(|(column, _)| shape.columns.contains(&(write.table, *column))))
}

fn clause_outcome(
    world: &World<'_>,
    shape: &Shape<'_>,
    clause: &Clause<'_>,
    procedure: usize,
    touching: &[&Write],
) -> Option<Outcome> {
    let moves = |atoms: &[(i64, Atom<'_>)], write: &Write| sum::moves(shape, atoms, write);
    match &clause.claim {
        Claim::Equality(atoms) => {
            let outcome = match is_dense(atoms) {
                true => dense::judge(world, shape, clause, atoms, procedure),
                false => sum::equality(world, shape, clause, atoms, procedure),
            };
            and_apart(world, shape, clause, atoms, procedure, outcome, &|_, write| moves(atoms, write))
        }
        Claim::Extreme(claim) => {
            let atoms = &claim.atoms;
            let outcome = match Extreme::of(world, shape, claim) {
                Some(extreme) => extreme::judge(world, shape, &extreme, procedure),
                None => dense::judge(world, shape, clause, atoms, procedure),
            };
            and_apart(world, shape, clause, atoms, procedure, outcome, &|_, write| moves(atoms, write))
        }
        Claim::AtLeast(atoms) => match Rows::of_extreme(shape, &clause.scope, &clause.conditions, atoms) {
            Some(rows) => rows.judge(world, procedure, touching),
            None => {
                let outcome = total::judge(world, shape, atoms, procedure);
                let moves = |procedure: usize, write: &Write| {
                    total::lowers(world, shape, atoms, procedure, write) || total::may_be_first(atoms, write)
                };
                and_apart(world, shape, clause, atoms, procedure, outcome, &moves)
            }
        },
        Claim::NotTogether(facts) => fact::judge(world, shape, clause, facts, procedure),
        Claim::Row(relation, violation) => {
            let table = shape.table(*relation)?;
            match clause.conditions.is_empty() && clause.scope == [*relation] {
                true => record::condition(world, table, violation, true, procedure),
                false => several_rows(world, shape, clause, &[*relation], &[violation], procedure, touching),
            }
        }
        Claim::Rows(relations, violation) => {
            several_rows(world, shape, clause, relations, violation, procedure, touching)
        }
        Claim::Opaque => Some(Outcome::undecided(operations(world, touching), NO_RULE)),
    }
}

fn several_rows(
    world: &World<'_>,
    shape: &Shape<'_>,
    clause: &Clause<'_>,
    relations: &[RelationId],
    violation: &[&Expr],
    procedure: usize,
    touching: &[&Write],
) -> Option<Outcome> {
    let relations = clause.scope.iter().chain(relations).copied();
    let conditions = clause.conditions.iter().chain(violation).copied();
    match Rows::of(shape, relations, conditions.collect()) {
        Some(rows) => rows.judge(world, procedure, touching),
        None => Some(Outcome::undecided(operations(world, touching), NO_RULE)),
    }
}

const NO_RULE: &str =
    "No rule knows an assertion of this shape; it is kept by running the transaction in order.";

/// The rule's outcome, and that of halves that come apart, if they may.
fn and_apart<'a>(
    world: &World<'a>,
    shape: &Shape<'_>,
    clause: &Clause<'a>,
    atoms: &[(i64, Atom<'a>)],
    procedure: usize,
    outcome: Option<Outcome>,
    moves: &dyn Fn(usize, &Write) -> bool,
) -> Option<Outcome> {
    let groups: Vec<&Group<'a>> = atoms
        .iter()
        .filter_map(|(_, atom)| match atom {
            Atom::Aggregate(group) => Some(group),
            Atom::Column(_) => None,
        })
        .collect();
    let apart = apart::judge(world, shape, clause, &groups, procedure, moves);
    combine(outcome.into_iter().chain(apart).collect())
}

fn is_dense(atoms: &[(i64, Atom<'_>)]) -> bool {
    use AggregateFunction::{Maximum, Minimum};
    atoms.iter().any(|(_, atom)| {
        matches!(atom, Atom::Aggregate(group) if matches!(group.function, Some(Maximum | Minimum)))
    })
}

/// Operations of the transaction, in words, without repetition.
pub fn operations(world: &World<'_>, writes: &[&Write]) -> String {
    let mut words: Vec<String> = Vec::new();
    for write in writes {
        let word = super::describe(world, write);
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}
