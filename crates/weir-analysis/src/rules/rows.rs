//! Conditions on several rows at once: `NOT EXISTS (SELECT … FROM item JOIN owner … WHERE amount > cap)`, and
//! `max(amount) <= cap`, which says the same of each row.
//!
//! Where all rows but one are *settled* by that one, it is a condition on that one record (§5.1 of
//! coordination-avoidance.txt): whoever writes it sees the others as they are in every branch. A row is settled
//! if what the condition reads of it never changes after the insert, and it is either there from the beginning
//! (nobody inserts into its table) or the parent that a settled or the changing row refers to.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{AggregateFunction, BinaryOp, Expr, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};

use super::bound::{self, Bound};
use super::record::{self, Form};
use super::{Outcome, assertion, settled};
use crate::assertion::{Atom, Shape};
use crate::effects::Write;
use crate::verdict::{Alone, Rule};
use crate::world::World;

/// One row of each relation; no such rows meet all conditions.
pub struct Rows<'e> {
    tables: BTreeMap<RelationId, TableId>,
    conditions: Vec<&'e Expr>,
    columns: BTreeMap<RelationId, BTreeSet<ColumnIndex>>,
    /// The value that is compared with what the other rows say, and how.
    extreme: Option<(&'e Expr, Bound)>,
}

impl<'e> Rows<'e> {
    /// `None` if a part of it is not about these rows' columns.
    pub fn of(
        shape: &Shape<'_>,
        relations: impl IntoIterator<Item = RelationId>,
        conditions: Vec<&'e Expr>,
    ) -> Option<Rows<'e>> {
        let mut tables = BTreeMap::new();
        for relation in relations {
            tables.insert(relation, shape.table(relation)?);
        }
        let mut columns: BTreeMap<RelationId, BTreeSet<ColumnIndex>> = BTreeMap::new();
        for condition in &conditions {
            if walk::first_subquery(condition).is_some() || walk::has_aggregate(condition) {
                return None;
            }
            walk::columns(condition, &mut |relation, column| {
                columns.entry(relation).or_default().insert(column);
            });
        }
        let known = columns.keys().all(|relation| tables.contains_key(relation));
        known.then_some(Rows { tables, conditions, columns, extreme: None })
    }

    /// The rows that `max(argument) <= …` (or `min(argument) >= …`) speaks of one by one, and the argument.
    pub fn of_extreme(
        shape: &Shape<'_>,
        scope: &[RelationId],
        conditions: &[&'e Expr],
        atoms: &[(i64, Atom<'e>)],
    ) -> Option<Rows<'e>> {
        let mut group = None;
        let mut rows: Vec<RelationId> = scope.to_vec();
        for (weight, atom) in atoms {
            match atom {
                Atom::Column((relation, _)) => rows.push(*relation),
                Atom::Aggregate(one) => match (one.function, *weight) {
                    (Some(AggregateFunction::Maximum), -1) | (Some(AggregateFunction::Minimum), 1)
                        if group.is_none() && !one.zero_if_none =>
                    {
                        group = Some(one);
                    }
                    _ => return None,
                },
            }
        }
        let group = group?;
        rows.extend(group.tables.iter().map(|(relation, _)| *relation));
        let parts = conditions.iter().chain(&group.filters).copied().chain(group.argument);
        let mut found = Rows::of(shape, rows, parts.collect())?;
        let bound = match group.function {
            Some(AggregateFunction::Maximum) => Bound::Below,
            _ => Bound::Above,
        };
        found.extreme = group.argument.map(|argument| (argument, bound));
        for (_, atom) in atoms {
            if let Atom::Column((relation, column)) = atom {
                found.columns.entry(*relation).or_default().insert(*column);
            }
        }
        Some(found)
    }

    fn table(&self, relation: RelationId) -> TableId {
        self.tables[&relation]
    }

    fn columns(&self, relation: RelationId) -> BTreeSet<ColumnIndex> {
        self.columns.get(&relation).cloned().unwrap_or_default()
    }

    /// Nothing that the conditions read of its rows changes after the insert.
    fn stays(&self, world: &World<'_>, relation: RelationId) -> bool {
        let table = self.table(relation);
        self.columns(relation).into_iter().all(|column| world.keeps_its_value(table, column))
    }

    /// The row whose changes are the only ones that matter.
    pub fn driver(&self, world: &World<'_>) -> Option<RelationId> {
        let changing = |relation: &RelationId| {
            world.inserters(self.table(*relation)).next().is_some() || !self.stays(world, *relation)
        };
        let candidates: Vec<RelationId> = self.tables.keys().copied().filter(changing).collect();
        let any = self.tables.keys().next().copied().filter(|_| candidates.is_empty());
        any.or_else(|| candidates.iter().copied().find(|driver| self.is_settled_by(world, *driver)))
    }

    fn is_settled_by(&self, world: &World<'_>, driver: RelationId) -> bool {
        let mut settled = BTreeSet::from([driver]);
        loop {
            let next = self.tables.keys().copied().find(|relation| {
                let static_rows = world.inserters(self.table(*relation)).next().is_none();
                !settled.contains(relation)
                    && self.stays(world, *relation)
                    && (static_rows || settled.iter().any(|child| self.refers(world, *child, *relation)))
            });
            match next {
                Some(relation) => settled.insert(relation),
                None => return settled.len() == self.tables.len(),
            };
        }
    }

    /// The conditions demand that the child's row refers to the parent's by a foreign key.
    fn refers(&self, world: &World<'_>, child: RelationId, parent: RelationId) -> bool {
        let parent_table = self.table(parent);
        world.table(self.table(child)).foreign_keys.iter().any(|key| {
            key.parent == parent_table
                && key.columns.iter().zip(&key.parent_columns).all(|(own, theirs)| {
                    self.conditions.iter().any(|condition| {
                        is_equality(condition, (child, *own), (parent, *theirs))
                            || is_equality(condition, (parent, *theirs), (child, *own))
                    })
                })
        })
    }

    /// The verdict on a transaction, of which these writes touch the assertion.
    pub fn judge(&self, world: &World<'_>, procedure: usize, touching: &[&Write]) -> Option<Outcome> {
        let concerns = |write: &&Write| {
            self.tables.iter().any(|(relation, table)| {
                let columns = self.columns(*relation);
                *table == write.table
                    && (write.is_insert() || columns.iter().any(|column| write.update_of(*column).is_some()))
            })
        };
        let concerned: Vec<&Write> = touching.iter().copied().filter(concerns).collect();
        if concerned.is_empty() {
            let goes = touching.iter().any(|write| self.tables.values().any(|table| *table == write.table));
            let because = "Rows that go break no condition on rows that are there.";
            let operation = assertion::operations(world, touching);
            return goes.then(|| Outcome::yes(Rule::PerRecord, operation, because).proved());
        }
        let operation = assertion::operations(world, &concerned);
        let Some(driver) = self.driver(world) else {
            let because = "It compares rows that come or change in one branch with rows that come or change in \
                           the other; no rule says that they fit.";
            return Some(Outcome::undecided(operation, because));
        };
        let form = Form { bound: self.bound(world, driver), ..Form::default() };
        let judged = record::of_columns(world, self.table(driver), &self.columns(driver), &form, procedure);
        let because = "The rows that it writes are there before any row that refers to them.";
        let outcome = judged.unwrap_or_else(|| Outcome::yes(Rule::PerRecord, operation, because));
        // Nothing checks an assertion before the commit.
        let is_proved = outcome.alone == Alone::Proved || self.are_kept_apart(world, procedure, &concerned);
        let alone = if is_proved { Alone::Proved } else { Alone::No };
        let guards = Vec::new();
        Some(Outcome { alone, guards, ..outcome })
    }

    /// It is about one row at a time, and constants say that none which is written meets the conditions.
    fn are_kept_apart(&self, world: &World<'_>, procedure: usize, concerned: &[&Write]) -> bool {
        let misses = |write: &Write, condition: &Expr| {
            settled::after(world, procedure, write, condition) == Some(false)
        };
        self.tables.len() == 1
            && self.extreme.is_none()
            && concerned.iter().all(|write| self.conditions.iter().any(|condition| misses(write, condition)))
    }

    /// The conditions' bounds of the driver's only changing column.
    fn bound(&self, world: &World<'_>, driver: RelationId) -> Option<Bound> {
        let table = self.table(driver);
        let mutable = record::mutable(world, table, &self.columns(driver));
        let &[column] = mutable.as_slice() else { return None };
        let reads = |expr: &Expr| {
            let mut reads = false;
            walk::columns(expr, &mut |relation, of| reads |= relation == driver && of == column);
            reads
        };
        let reading: Vec<&Expr> = self.conditions.iter().copied().filter(|expr| reads(expr)).collect();
        match (reading.as_slice(), self.extreme) {
            ([one], Some((argument, bound))) if std::ptr::eq(*one, argument) => {
                let plain = matches!(uncast(argument).kind, ExprKind::Column { .. });
                Some(if plain { bound } else { Bound::Other })
            }
            ([one], None) => bound::of(one, true, &mutable),
            _ => Some(Bound::Other),
        }
    }
}

fn is_equality(condition: &Expr, left: (RelationId, ColumnIndex), right: (RelationId, ColumnIndex)) -> bool {
    let place = |expr: &Expr| match uncast(expr).kind {
        ExprKind::Column { relation, column } => Some((relation, column)),
        _ => None,
    };
    match &condition.kind {
        ExprKind::Binary { op: BinaryOp::Equal, left: a, right: b } => {
            place(a) == Some(left) && place(b) == Some(right)
        }
        _ => false,
    }
}
