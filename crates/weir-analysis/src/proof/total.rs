//! Can a transaction, as a whole, narrow the margin of an inequality between sums, or put the two sides of an equality apart?
//!
//! The rules look at each write by itself. Here all that a transaction adds on one path is summed, and a solver asked
//! whether the sum can narrow the margin. It is asked about one transaction and not about two, because what is summed
//! are *unconditional* amounts: rows that it inserts, and additions to columns that everybody only adds to, of rows
//! that nobody takes away. Such an amount is the same wherever in a merge the transaction stands. So if S, S + U and
//! S + T are valid (Definition 7 of coordination-avoidance.txt) and T never narrows, the margin of S + U + T is at
//! least that of S + U, whatever U is.
//!
//! Not followed, and so never proved: deletes, rows that the amounts belong to by more than equal keys, sums that are
//! NULL without rows, joins, HAVING, values that are not integers, code that may leave between two writes.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{AggregateFunction, Expr, ExprKind, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::{self, uncast};

use super::Prover;
use super::condition::sort_of;
use super::formula::{Formula, Quantity, Question, Sort};
use super::step::Step;
use crate::assertion::{Atom, Clause, Group, Shape};
use crate::effects::{ColumnOperation, Frame, Operation, TermId, Write};
use crate::rules::balance::{is_on_path, paths};
use crate::world::{World, has_one_row_at_most, unique_part};

/// Amount that one write adds to the margin of one row.
struct Amount<'w> {
    write: &'w Write,
    weight: i64,
    /// `None` is one.
    term: Option<TermId>,
    /// Terms of the row's columns that identify its groups.
    row: BTreeMap<ColumnIndex, TermId>,
    /// It is added whenever the write runs.
    certain: bool,
}

/// Change of the margin that a transaction must not cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwanted {
    /// The margin of an inequality decreases.
    Narrower,
    /// The difference of two equal sides changes.
    Another,
}

/// `Some(true)` if it comes of no run of the transaction.
pub fn never(
    unwanted: Unwanted,
    prover: &mut Prover<'_>,
    world: &World<'_>,
    shape: &Shape<'_>,
    clause: &Clause<'_>,
    atoms: &[(i64, Atom<'_>)],
    procedure: usize,
) -> Option<bool> {
    let effects = &world.effects[procedure];
    if effects.irregular || !effects.unknown.is_empty() {
        return None;
    }
    let margin = Margin::of(world, shape, clause, atoms)?;
    let mut amounts = Vec::new();
    for write in &effects.writes {
        if margin.moves_rows(write) {
            return None;
        }
        for (weight, atom) in atoms {
            amounts.extend(margin.amount(procedure, *weight, atom, write)?);
        }
    }
    for path in paths(amounts.iter().map(|amount| &amount.write.context))? {
        let mut together: BTreeMap<_, Vec<&Amount<'_>>> = BTreeMap::new();
        for amount in amounts.iter().filter(|amount| is_on_path(&amount.write.context, &path)) {
            let loops: Vec<&Frame> =
                amount.write.context.iter().filter(|frame| matches!(frame, Frame::Loop { .. })).collect();
            together.entry((loops, &amount.row)).or_default().push(amount);
        }
        // Each round of a loop, and each row, by itself: sums of what does not narrow do not narrow, sums of zeros are zero.
        for amounts in together.values() {
            if prover.ask(question(unwanted, world, procedure, amounts)?)? {
                return Some(false);
            }
        }
    }
    Some(true)
}

/// Can these amounts together be negative, or anything but zero?
fn question(
    unwanted: Unwanted,
    world: &World<'_>,
    procedure: usize,
    amounts: &[&Amount<'_>],
) -> Option<Question> {
    let mut question = Question::default();
    let mut step = Step::of_amounts(world, procedure);
    let mut sum = Vec::new();
    for amount in amounts {
        let quantity = match amount.term {
            Some(term) => step.amount(term, procedure, amount.certain, &mut question)?,
            None => Quantity::integer(1),
        };
        let quantity = quantity.times(amount.weight);
        sum.push(match amount.certain {
            true => quantity,
            false => {
                let counts = Formula::Variable(question.variable(Sort::Truth));
                Quantity::Choice(Box::new(counts), Box::new(quantity), Box::new(Quantity::integer(0)))
            }
        });
    }
    for amount in amounts {
        step.assume_at(procedure, amount.write, &mut question);
    }
    let zero = Quantity::integer(0);
    question.holds.push(match unwanted {
        Unwanted::Narrower => Formula::Less(Quantity::Sum(sum), zero),
        Unwanted::Another => Formula::negated(Formula::Equal(Quantity::Sum(sum), zero)),
    });
    question.holds.retain(|formula| *formula != Formula::Constant(true));
    Some(question)
}

/// An inequality for which the amounts of every transaction are known.
struct Margin<'w, 'a> {
    world: &'w World<'a>,
    /// The row whose margin it is; `None` if there is one for the whole database.
    outer: Option<(RelationId, TableId)>,
    /// Its columns that find its groups: a key.
    links: BTreeSet<ColumnIndex>,
    /// Columns of the clause's conditions.
    conditions: BTreeSet<ColumnIndex>,
    /// Every writer that adds to a group has found the row.
    is_there: bool,
}

impl<'w, 'a> Margin<'w, 'a> {
    fn of(
        world: &'w World<'a>,
        shape: &Shape<'_>,
        clause: &Clause<'_>,
        atoms: &[(i64, Atom<'_>)],
    ) -> Option<Margin<'w, 'a>> {
        let outer = match clause.scope.as_slice() {
            [] => None,
            &[relation] => Some((relation, shape.table(relation)?)),
            _ => return None,
        };
        let mut margin =
            Margin { world, outer, links: BTreeSet::new(), conditions: BTreeSet::new(), is_there: true };
        for condition in &clause.conditions {
            if walk::first_subquery(condition).is_some() {
                return None;
            }
            walk::columns(condition, &mut |_, column| {
                margin.conditions.insert(column);
            });
        }
        for (_, atom) in atoms {
            match atom {
                Atom::Column((relation, _)) => {
                    outer.filter(|(of, _)| of == relation)?;
                }
                Atom::Aggregate(group) => {
                    let links = margin.links_of(group)?;
                    if margin.links.is_empty() {
                        margin.links.extend(links.keys().copied());
                    }
                    if !links.keys().eq(margin.links.iter()) {
                        return None;
                    }
                    let (_, table) = group.tables[0];
                    margin.is_there &= outer.is_none_or(|(_, parent)| {
                        world.inserters(parent).next().is_none()
                            || world.table(table).foreign_keys.iter().any(|key| {
                                let pairs = key.parent_columns.iter().zip(&key.columns);
                                key.parent == parent
                                    && pairs.into_iter().all(|(theirs, own)| links.get(theirs) == Some(own))
                            })
                    });
                }
            }
        }
        let fixed = match outer {
            None => margin.links.is_empty(),
            Some((_, table)) => {
                has_one_row_at_most(world.table(table), &margin.links)
                    && margin.links.iter().all(|column| world.is_immutable(table, *column))
            }
        };
        (fixed && margin.is_there).then_some(margin)
    }

    /// The row's column, and the column of the group's rows that equals it. `None` where more selects them than what
    /// never changes.
    fn links_of(&self, group: &Group<'_>) -> Option<BTreeMap<ColumnIndex, ColumnIndex>> {
        let &[(relation, table)] = group.tables.as_slice() else { return None };
        let simple = match group.function? {
            AggregateFunction::Count => group.argument.is_none(),
            AggregateFunction::Sum => group.zero_if_none && self.summed(group).is_some(),
            _ => false,
        };
        if !simple || !group.keys.is_empty() {
            return None;
        }
        let mut links = BTreeMap::new();
        for filter in &group.filters {
            if let Some((own, theirs)) = self.link(filter, relation) {
                links.insert(theirs, own);
            }
            let mut known = walk::first_subquery(filter).is_none();
            walk::columns(filter, &mut |of, column| {
                known &= match self.outer {
                    _ if of == relation => self.world.keeps_its_value(table, column),
                    Some((outer, parent)) => of == outer && self.world.keeps_its_value(parent, column),
                    None => false,
                };
            });
            if !known {
                return None;
            }
        }
        Some(links)
    }

    /// A column of the group's rows and the row's column that it equals.
    fn link(&self, filter: &Expr, inner: RelationId) -> Option<(ColumnIndex, ColumnIndex)> {
        let ExprKind::Binary { op: weir_sql::bound::BinaryOp::Equal, left, right } = &filter.kind else {
            return None;
        };
        let place = |expr: &Expr| match uncast(expr).kind {
            ExprKind::Column { relation, column } => Some((relation, column)),
            _ => None,
        };
        let (outer, _) = self.outer?;
        match (place(left)?, place(right)?) {
            (own, theirs) if own.0 == inner && theirs.0 == outer => Some((own.1, theirs.1)),
            (theirs, own) if own.0 == inner && theirs.0 == outer => Some((own.1, theirs.1)),
            _ => None,
        }
    }

    /// The summed column: an integer that is never NULL.
    fn summed(&self, group: &Group<'_>) -> Option<ColumnIndex> {
        let &(relation, table) = group.tables.first()?;
        match uncast(group.argument?).kind {
            ExprKind::Column { relation: of, column } if of == relation => self.whole(table, column),
            _ => None,
        }
    }

    fn whole(&self, table: TableId, column: ColumnIndex) -> Option<ColumnIndex> {
        let definition = &self.world.table(table).columns[column];
        (definition.not_null && sort_of(&definition.ty) == Some(Sort::Integer)).then_some(column)
    }

    /// Returns whether the write adds or removes the row itself, or changes whether the clause covers it.
    fn moves_rows(&self, write: &Write) -> bool {
        self.outer.is_some_and(|(_, table)| {
            write.table == table
                && (write.is_insert()
                    || write.is_delete()
                    || write.updates().iter().any(|(column, _)| self.conditions.contains(column)))
        })
    }

    /// Amount that the write adds, if any; `None` if it makes another change.
    fn amount<'x>(
        &self,
        procedure: usize,
        weight: i64,
        atom: &Atom<'_>,
        write: &'x Write,
    ) -> Option<Option<Amount<'x>>> {
        match atom {
            Atom::Column((_, column)) => {
                let (_, table) = self.outer?;
                match write.update_of(*column) {
                    Some(operation) if write.table == table => {
                        self.added(procedure, weight, write, *column, operation).map(Some)
                    }
                    _ => Some(None),
                }
            }
            Atom::Aggregate(group) if group.tables[0].1 != write.table => Some(None),
            Atom::Aggregate(group) => self.in_group(procedure, weight, group, write),
        }
    }

    /// An addition to the row's own column.
    fn added<'x>(
        &self,
        procedure: usize,
        weight: i64,
        write: &'x Write,
        column: ColumnIndex,
        operation: ColumnOperation,
    ) -> Option<Amount<'x>> {
        let effects = &self.world.effects[procedure];
        let (Operation::Update { row, .. }, ColumnOperation::Add(term)) = (&write.operation, operation)
        else {
            return None;
        };
        self.whole(write.table, column)?;
        if !self.is_only_added_to(write.table, column) {
            return None;
        }
        let target = effects.read(*row);
        let value = |link: &ColumnIndex| target.key.iter().find(|(bound, _)| bound == link).copied();
        let row = self.links.iter().map(value).collect::<Option<BTreeMap<_, _>>>()?;
        let certain = target.by_key_alone && target.key.iter().all(|(column, _)| self.links.contains(column));
        Some(Amount { write, weight, term: Some(term), row, certain })
    }

    fn in_group<'x>(
        &self,
        procedure: usize,
        weight: i64,
        group: &Group<'_>,
        write: &'x Write,
    ) -> Option<Option<Amount<'x>>> {
        let key = self.world.effects[procedure].key_of(write);
        let links = self.links_of(group)?;
        let value = |(theirs, own): (&ColumnIndex, &ColumnIndex)| {
            key.iter().find(|(bound, _)| bound == own).map(|(_, term)| (*theirs, *term))
        };
        let row = || links.iter().map(value).collect::<Option<BTreeMap<_, _>>>();
        let summed = self.summed(group);
        match &write.operation {
            Operation::Insert { values, on_conflict: None } => {
                let term = summed.map(|column| values[column]);
                let certain = group.filters.len() == links.len();
                Some(Some(Amount { write, weight, term, row: row()?, certain }))
            }
            Operation::Update { columns, .. } => {
                let Some(column) = summed else { return Some(None) };
                match columns.iter().find(|(updated, _)| *updated == column) {
                    None => Some(None),
                    // One row, if it exists and is not deleted.
                    Some((_, ColumnOperation::Add(term))) => {
                        unique_part(self.world.table(write.table), &key)?;
                        let stays = self.world.deleters(write.table).next().is_none();
                        let counts = stays && self.is_only_added_to(write.table, column);
                        let term = Some(*term);
                        counts.then_some(Some(Amount { write, weight, term, row: row()?, certain: false }))
                    }
                    Some(_) => None,
                }
            }
            Operation::Insert { .. } | Operation::Delete { .. } => None,
        }
    }

    fn is_only_added_to(&self, table: TableId, column: ColumnIndex) -> bool {
        self.world.writes_of(table).all(|(_, write)| match write.update_of(column) {
            None => true,
            Some(ColumnOperation::Add(_)) => !write.is_insert(),
            Some(_) => false,
        })
    }
}
