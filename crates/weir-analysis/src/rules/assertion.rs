//! Assertions: each clause is judged by its shape.

use std::collections::BTreeSet;

use weir_sql::bound::AggregateFunction;

use super::extreme::{self, Extreme};
use super::{Outcome, combine, dense, fact, record, sum};
use crate::assertion::{Atom, Claim, Clause, Shape};
use crate::effects::Write;
use crate::world::World;

pub fn judge(world: &World<'_>, shape: &Shape<'_>, procedure: usize) -> Option<Outcome> {
    let touching: Vec<&Write> =
        world.effects[procedure].writes.iter().filter(|write| touches(shape, write)).collect();
    if touching.is_empty() {
        return None;
    }
    let outcomes: Vec<Outcome> = shape
        .clauses
        .iter()
        .filter_map(|clause| clause_outcome(world, shape, clause, procedure, &touching))
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
    match &clause.claim {
        Claim::Equality(atoms) if is_dense(atoms) => dense::judge(world, shape, clause, atoms, procedure),
        Claim::Equality(atoms) => sum::equality(world, shape, clause, atoms, procedure),
        Claim::Extreme(claim) => match Extreme::of(world, shape, claim) {
            Some(extreme) => extreme::judge(world, shape, &extreme, procedure),
            None => dense::judge(world, shape, clause, &claim.atoms, procedure),
        },
        Claim::AtLeast(atoms) => sum::at_least(world, shape, clause, atoms, procedure),
        Claim::NotTogether(facts) => fact::judge(world, shape, clause, facts, procedure),
        Claim::Row(relation, violation) => {
            let table = shape.table(*relation)?;
            record::condition(world, table, violation, true, procedure)
        }
        Claim::Opaque => Some(Outcome::undecided(
            operations(world, touching),
            "No rule knows an assertion of this shape; it is kept by running the transaction in order.",
        )),
    }
}

fn is_dense(atoms: &[(i64, Atom<'_>)]) -> bool {
    use AggregateFunction::{Maximum, Minimum};
    atoms.iter().any(|(_, atom)| {
        matches!(atom, Atom::Aggregate(group) if matches!(group.function, Some(Maximum | Minimum)))
    })
}

/// What the transaction does, in words, without repetition.
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
