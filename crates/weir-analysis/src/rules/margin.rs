//! Two or more columns of one row against each other: `sold <= capacity`.
//!
//! A comparison between sums of a row's columns says that a margin is not negative. As long as these columns
//! only change by amounts, the margin does, and it is one counter with one bound (§5.2 of
//! coordination-avoidance.txt).

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{BinaryOp, Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::uncast;
use weir_types::SqlType;

use super::{GuardDraft, Outcome, describe};
use crate::effects::{ColumnOperation, Sign, Term, TermId, Terms, Write, integer};
use crate::plan::GuardKind;
use crate::verdict::Rule;
use crate::world::World;

/// The columns that make up the margin, each with its weight; `None` if the condition has another form.
pub fn of(expr: &Expr, negated: bool) -> Option<Vec<(i64, ColumnIndex)>> {
    if let ExprKind::Not(inner) = &expr.kind {
        return of(inner, !negated);
    }
    let ExprKind::Binary { op, left, right } = &expr.kind else { return None };
    let sign = match op {
        BinaryOp::Greater | BinaryOp::GreaterOrEqual => 1,
        BinaryOp::Less | BinaryOp::LessOrEqual => -1,
        _ => return None,
    };
    let sign = if negated { -sign } else { sign };
    let mut weights = Vec::new();
    let linear = sum(left, sign, &mut weights) && sum(right, -sign, &mut weights);
    linear.then_some(weights)
}

fn sum(expr: &Expr, sign: i64, weights: &mut Vec<(i64, ColumnIndex)>) -> bool {
    let expr = uncast(expr);
    match &expr.kind {
        ExprKind::Column { column, .. } => {
            weights.push((sign, *column));
            true
        }
        ExprKind::Literal(_) => true,
        ExprKind::Negate(inner) => sum(inner, -sign, weights),
        ExprKind::Binary { op: BinaryOp::Add, left, right } => {
            sum(left, sign, weights) && sum(right, sign, weights)
        }
        ExprKind::Binary { op: BinaryOp::Subtract, left, right } => {
            sum(left, sign, weights) && sum(right, -sign, weights)
        }
        ExprKind::Binary { op: BinaryOp::Multiply, left, right } => match (integer(left), integer(right)) {
            (Some(factor), None) => factor.checked_mul(sign).is_some_and(|sign| sum(right, sign, weights)),
            (None, Some(factor)) => factor.checked_mul(sign).is_some_and(|sign| sum(left, sign, weights)),
            _ => false,
        },
        _ => false,
    }
}

/// The verdict on an update; `None` where one of the columns is changed in another way than by amounts, and set otherwise than beside
/// what only widens the margin.
pub fn judge(
    world: &World<'_>,
    table: TableId,
    weights: &[(i64, ColumnIndex)],
    procedure: usize,
    write: &Write,
) -> Option<Outcome> {
    let counts = |candidate: &Write| {
        weights
            .iter()
            .all(|(_, column)| matches!(candidate.update_of(*column), None | Some(ColumnOperation::Add(_))))
    };
    let operation = describe(world, write);
    if !world.writes_of(table).all(|(_, candidate)| counts(candidate)) {
        let because =
            "What is set was checked, and all that the other columns change by only widens the margin.";
        return is_set_beside_widening(world, table, weights)
            .then(|| Outcome::yes(Rule::MarginWider, operation, because));
    }
    if !narrows(world, table, weights, procedure, write) {
        let because = "It can only widen the margin, and merged changes widen it further.";
        return Some(Outcome::yes(Rule::MarginWider, operation, because).proved());
    }
    let because = "Each branch uses up what is left of the margin; together they use more than there is.";
    let outcome = Outcome::no(Rule::MarginUsed, procedure, operation, because);
    Some(outcome.guarded(escrow(world, table, weights, write)))
}

/// Its amounts, which all change one row, may come to less than nothing: one by one, or in all.
fn narrows(
    world: &World<'_>,
    table: TableId,
    weights: &[(i64, ColumnIndex)],
    procedure: usize,
    write: &Write,
) -> bool {
    let terms = &world.effects[procedure].terms;
    let amounts = || {
        weights.iter().filter_map(|&(weight, column)| match write.update_of(column) {
            Some(ColumnOperation::Add(delta)) => Some((weight, delta)),
            _ => None,
        })
    };
    let each = amounts().any(|(weight, delta)| may_lower(weight, terms.sign(delta)));
    each && (weights.iter().any(|(_, column)| rounds(world, table, *column)) || {
        let mut total = Linear::default();
        let is_linear = amounts().all(|(weight, delta)| total.add(terms, delta, weight).is_some());
        !is_linear || total.may_be_negative(terms)
    })
}

/// Returns whether `(a + q) - (b + q)` may differ from `a - b` because of rounding.
fn rounds(world: &World<'_>, table: TableId, column: ColumnIndex) -> bool {
    let ty = world.table(table).columns[column].ty.base();
    !(ty.is_integer() || matches!(ty, SqlType::Numeric(_)))
}

/// A linear sum of terms and a constant. Amounts added to one column and subtracted from the other cancel.
#[derive(Default)]
struct Linear {
    constant: i64,
    parts: BTreeMap<TermId, i64>,
}

impl Linear {
    /// `None` if the numbers become too large.
    fn add(&mut self, terms: &Terms, term: TermId, times: i64) -> Option<()> {
        match terms.get(term) {
            Term::Integer(n) => self.constant = self.constant.checked_add(n.checked_mul(times)?)?,
            Term::Sum { base, offset } => {
                self.constant = self.constant.checked_add(offset.checked_mul(times)?)?;
                self.add(terms, *base, times)?;
            }
            Term::Call { name, arguments } => match (name.as_str(), arguments.as_slice()) {
                ("-", &[inner]) => self.add(terms, inner, times.checked_neg()?)?,
                ("+", &[left, right]) => {
                    self.add(terms, left, times)?;
                    self.add(terms, right, times)?;
                }
                _ => self.part(term, times)?,
            },
            _ => self.part(term, times)?,
        }
        Some(())
    }

    fn part(&mut self, term: TermId, times: i64) -> Option<()> {
        let part = self.parts.entry(term).or_default();
        *part = part.checked_add(times)?;
        Some(())
    }

    fn may_be_negative(&self, terms: &Terms) -> bool {
        self.constant < 0 || self.parts.iter().any(|(&term, &times)| may_lower(times, terms.sign(term)))
    }
}

/// Checks a margin that is set and widened. Every transaction that sets any of the columns sets the same ones, and only by values; the
/// others are never set. All amounts by which columns change only widen the margin, each by itself: an amount added to one column may be
/// overwritten while one added to another is not. A value in a merge was checked by its writer against the other columns of that branch,
/// which have only widened the margin since. A NULL among the columns satisfies every comparison.
fn is_set_beside_widening(world: &World<'_>, table: TableId, weights: &[(i64, ColumnIndex)]) -> bool {
    let mut total: BTreeMap<ColumnIndex, i64> = BTreeMap::new();
    for &(weight, column) in weights {
        *total.entry(column).or_default() += weight;
    }
    let weights: Vec<(i64, ColumnIndex)> =
        total.into_iter().map(|(column, weight)| (weight, column)).collect();
    let (mut set, mut widens): (Option<BTreeSet<ColumnIndex>>, bool) = (None, false);
    for (other, candidate) in world.writes_of(table) {
        let changed =
            || weights.iter().filter_map(|&(_, column)| Some((column, candidate.update_of(column)?)));
        let assigned: BTreeSet<ColumnIndex> = changed()
            .filter(|(_, change)| matches!(change, ColumnOperation::Assign(_)))
            .map(|(column, _)| column)
            .collect();
        if assigned.is_empty() {
            let terms = &world.effects[other].terms;
            let only_widens = |&(weight, column): &(i64, ColumnIndex)| match candidate.update_of(column) {
                None => true,
                Some(ColumnOperation::Add(delta)) => !may_lower(weight, terms.sign(delta)),
                Some(_) => false,
            };
            if !weights.iter().all(only_widens) {
                return false;
            }
            widens |= changed().next().is_some();
        } else if changed().count() != assigned.len() || set.get_or_insert(assigned.clone()) != &assigned {
            return false;
        }
    }
    set.is_some() && widens
}

fn may_lower(weight: i64, delta: Sign) -> bool {
    match weight.signum() {
        1 => delta.negative,
        -1 => delta.positive,
        _ => false,
    }
}

fn escrow(world: &World<'_>, table: TableId, weights: &[(i64, ColumnIndex)], write: &Write) -> GuardDraft {
    let mut columns: Vec<ColumnIndex> = weights.iter().map(|(_, column)| *column).collect();
    columns.sort();
    columns.dedup();
    let names: Vec<String> = columns.iter().map(|&column| world.column_name(table, column)).collect();
    GuardDraft {
        kind: GuardKind::Escrow,
        table,
        columns,
        shared: false,
        statement: write.span,
        why: format!("draws on a share of what {} may still change by together", names.join(" and ")),
    }
}
