//! When a clause speaks of a row at all: its conditions, and the row's existence.
//!
//! The rules for sums and extremes compare what each branch does to a row's two sides. That is not enough where the
//! clause may come to speak of the row in one branch (its status becomes 'open', or it is inserted) while the other
//! changes its sums in a state in which nobody compares them.

use std::collections::BTreeSet;

use weir_sql::bound::{BinaryOp, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};

use super::{Outcome, assertion};
use crate::assertion::{Atom, Clause, Group, Shape};
use crate::effects::Write;
use crate::world::World;

/// The rule's outcome, unless the clause may begin to apply in one branch only.
///
/// `widens`: a yes of the rule holds from any state, compared or not.
pub fn judge(
    world: &World<'_>,
    shape: &Shape<'_>,
    clause: &Clause<'_>,
    atoms: &[(i64, Atom<'_>)],
    procedure: usize,
    outcome: Option<Outcome>,
    widens: bool,
) -> Option<Outcome> {
    if outcome.as_ref().is_some_and(|outcome| !outcome.confluent) {
        return outcome;
    }
    let effects = &world.effects[procedure];
    let begins = Begins::of(world, shape, clause, atoms);
    let own: Vec<&Write> = effects.writes.iter().filter(|write| begins.with(write)).collect();
    let because = "It may make the assertion speak of a row for the first time; beside it the other branch changes \
                   what nothing compares yet.";
    if !own.is_empty() {
        let with = begins.partner(world, atoms, shape);
        let Some(with) = with else { return outcome };
        let operation = assertion::operations(world, &own);
        return Some(Outcome { with: Some(with), ..Outcome::undecided(operation, because) });
    }
    let beginner = world.writes().find(|(_, write)| begins.with(write)).map(|(other, _)| other);
    match (outcome, beginner) {
        (Some(outcome), Some(beginner)) if !widens => {
            let because = format!(
                "{} may make the assertion speak of a row for the first time; in the other branch nothing compares \
                 what changes here.",
                world.name(beginner)
            );
            Some(Outcome { with: Some(beginner), ..Outcome::undecided(outcome.operation, because) })
        }
        (outcome, _) => outcome,
    }
}

/// What makes the clause speak of a row.
struct Begins {
    /// Columns of its conditions.
    columns: BTreeSet<(TableId, ColumnIndex)>,
    /// Tables whose new rows may find their group there.
    tables: BTreeSet<TableId>,
}

impl Begins {
    fn of(world: &World<'_>, shape: &Shape<'_>, clause: &Clause<'_>, atoms: &[(i64, Atom<'_>)]) -> Begins {
        let groups: Vec<&Group<'_>> = atoms
            .iter()
            .filter_map(|(_, atom)| match atom {
                Atom::Aggregate(group) => Some(group),
                Atom::Column(_) => None,
            })
            .collect();
        let inner: BTreeSet<RelationId> =
            groups.iter().flat_map(|group| &group.tables).map(|(relation, _)| *relation).collect();
        let mut columns = BTreeSet::new();
        for condition in &clause.conditions {
            walk::columns(condition, &mut |relation, column| {
                if let Some(table) = shape.table(relation)
                    && !inner.contains(&relation)
                {
                    columns.insert((table, column));
                }
            });
        }
        let outer = clause.scope.iter().filter(|relation| !inner.contains(relation));
        let alone = |relation: &&RelationId| {
            !groups.iter().all(|group| is_of_children(world, shape, group, **relation))
        };
        let tables = outer.filter(alone).filter_map(|relation| shape.table(*relation)).collect();
        Begins { columns, tables }
    }

    fn with(&self, write: &Write) -> bool {
        write.is_insert() && self.tables.contains(&write.table)
            || write.updates().iter().any(|(column, _)| self.columns.contains(&(write.table, *column)))
    }

    /// Somebody changes what the clause compares, beside one who makes it apply.
    fn partner(&self, world: &World<'_>, atoms: &[(i64, Atom<'_>)], shape: &Shape<'_>) -> Option<usize> {
        let count = world.effects.len();
        (0..count).find(|&other| !super::sum::touching(world, shape, atoms, other).is_empty())
    }
}

/// The group's rows refer to the row by a foreign key, so that none is there before it.
fn is_of_children(world: &World<'_>, shape: &Shape<'_>, group: &Group<'_>, outer: RelationId) -> bool {
    let Some(parent) = shape.table(outer) else { return false };
    let place = |expr: &weir_sql::bound::Expr| match uncast(expr).kind {
        ExprKind::Column { relation, column } => Some((relation, column)),
        _ => None,
    };
    let equal = |left: (RelationId, ColumnIndex), right: (RelationId, ColumnIndex)| {
        group.filters.iter().any(|filter| match &filter.kind {
            ExprKind::Binary { op: BinaryOp::Equal, left: a, right: b } => {
                let sides = (place(a), place(b));
                sides == (Some(left), Some(right)) || sides == (Some(right), Some(left))
            }
            _ => false,
        })
    };
    group.tables.iter().any(|&(relation, table)| {
        world.table(table).foreign_keys.iter().any(|key| {
            key.parent == parent
                && key
                    .columns
                    .iter()
                    .zip(&key.parent_columns)
                    .all(|(own, theirs)| equal((relation, *own), (outer, *theirs)))
        })
    })
}
