//! A column that is bounded by a number, and expressions of it that lead from each value within the bound to one within.
//!
//! For `n >= 0` such expressions are `n * 2`, `n / 2`, `greatest(n - 1, 0)`: applied to any valid value of `n` they yield a valid one. If
//! every change of the column is of that kind, every order of changes is valid, by induction over the order. Integers only:
//! floating-point numbers round, and NaN is greater than every number.

use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::uncast;
use weir_types::operator::Comparison;

use crate::effects::{ColumnOperation, Operation, ReadId, Term, TermId, Terms, Write, integer};
use crate::world::World;

/// Values from the first to the second; without one, there is no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    low: Option<i128>,
    high: Option<i128>,
}

const ALL: Range = Range { low: None, high: None };

/// The condition's form `column <= 10`; `None` if it has another one, or the column holds other numbers than integers.
pub fn of(
    world: &World<'_>,
    table: TableId,
    column: ColumnIndex,
    expr: &Expr,
    negated: bool,
) -> Option<Range> {
    if let ExprKind::Not(inner) = &expr.kind {
        return of(world, table, column, inner, !negated);
    }
    if !world.table(table).columns[column].ty.base().is_integer() {
        return None;
    }
    let ExprKind::Binary { op, left, right } = &expr.kind else { return None };
    let is_column =
        |expr: &Expr| matches!(uncast(expr).kind, ExprKind::Column { column: of, .. } if of == column);
    let op = Comparison::of(*op)?;
    let (op, limit) = match (is_column(left), is_column(right)) {
        (true, false) => (op, integer(right)?),
        (false, true) => (op.mirrored(), integer(left)?),
        _ => return None,
    };
    let limit = i128::from(limit);
    Some(match if negated { op.negated() } else { op } {
        Comparison::Greater => Range { low: Some(limit + 1), high: None },
        Comparison::GreaterOrEqual => Range { low: Some(limit), high: None },
        Comparison::Less => Range { low: None, high: Some(limit - 1) },
        Comparison::LessOrEqual => Range { low: None, high: Some(limit) },
        Comparison::Equal | Comparison::NotEqual => return None,
    })
}

/// Returns whether the write maps every valid value to a valid one.
pub fn keeps(world: &World<'_>, column: ColumnIndex, valid: Range, procedure: usize, write: &Write) -> bool {
    let terms = &world.effects[procedure].terms;
    match (write.update_of(column), &write.operation) {
        (None, _) => true,
        // It was checked where it was set, and the replaced value is irrelevant.
        (Some(ColumnOperation::Assign(_)), _) => true,
        (Some(ColumnOperation::Add(delta)), _) => {
            let sign = terms.sign(delta);
            (valid.low.is_none() || !sign.negative) && (valid.high.is_none() || !sign.positive)
        }
        // The greater (lesser) of a valid value and another that a branch has checked: `rules/bound.rs` has the argument.
        (Some(ColumnOperation::Max(_) | ColumnOperation::Min(_)), _) => {
            world.table(write.table).columns[column].not_null
        }
        (Some(ColumnOperation::Apply(term)), Operation::Update { row, .. }) => {
            Computed { terms, row: *row, column, valid }.range(term, DEPTH_MAX).is_within(valid)
        }
        (Some(ColumnOperation::Apply(_)), _) => false,
    }
}

const DEPTH_MAX: u32 = 16;

impl Range {
    fn is_within(self, other: Range) -> bool {
        let low = other.low.is_none_or(|limit| self.low.is_some_and(|low| low >= limit));
        low && other.high.is_none_or(|limit| self.high.is_some_and(|high| high <= limit))
    }

    fn plus(self, other: Range) -> Range {
        let sum = |a: Option<i128>, b: Option<i128>| a?.checked_add(b?);
        Range { low: sum(self.low, other.low), high: sum(self.high, other.high) }
    }

    fn negated(self) -> Range {
        let negated = |limit: Option<i128>| limit.and_then(i128::checked_neg);
        Range { low: negated(self.high), high: negated(self.low) }
    }

    /// The range multiplied by a non-negative factor.
    fn times(self, factor: i128) -> Range {
        let times = |limit: Option<i128>| limit.and_then(|limit| limit.checked_mul(factor));
        Range { low: times(self.low), high: times(self.high) }
    }

    /// By a number above 0. Of integers what is left over goes; rounded outwards it holds of any number.
    fn divided(self, by: i128) -> Range {
        let down = |limit: i128| limit.div_euclid(by);
        let up = |limit: i128| -((-limit).div_euclid(by));
        Range { low: self.low.map(down), high: self.high.map(up) }
    }
}

struct Computed<'t> {
    terms: &'t Terms,
    row: ReadId,
    column: ColumnIndex,
    valid: Range,
}

impl Computed<'_> {
    /// Where the term's values lie on any row whose column has a valid value. Other columns of the row may have become anything.
    fn range(&self, term: TermId, depth: u32) -> Range {
        let Some(depth) = depth.checked_sub(1) else { return ALL };
        let deeper = |term: &TermId| self.range(*term, depth);
        match self.terms.get(term) {
            Term::Integer(n) => Range { low: Some(i128::from(*n)), high: Some(i128::from(*n)) },
            Term::Field { row, column } if *row == self.row => match *column == self.column {
                true => self.valid,
                false => ALL,
            },
            Term::Sum { base, offset } => {
                let offset = Some(i128::from(*offset));
                deeper(base).plus(Range { low: offset, high: offset })
            }
            Term::Call { name, arguments } => self.call(name, arguments, depth),
            Term::Parameter(_) | Term::Index(_) => {
                let sign = self.terms.sign(term);
                Range { low: (!sign.negative).then_some(0), high: (!sign.positive).then_some(0) }
            }
            _ => ALL,
        }
    }

    fn call(&self, name: &str, arguments: &[TermId], depth: u32) -> Range {
        let range = |term: TermId| self.range(term, depth);
        let number = |term: TermId| match self.terms.get(term) {
            Term::Integer(n) => Some(i128::from(*n)),
            _ => None,
        };
        match (name, arguments) {
            ("+", [left, right]) => range(*left).plus(range(*right)),
            ("-", [inner]) => range(*inner).negated(),
            ("*", &[left, right]) => match (number(left), number(right)) {
                (Some(factor), _) if factor >= 0 => range(right).times(factor),
                (_, Some(factor)) if factor >= 0 => range(left).times(factor),
                _ => ALL,
            },
            ("Divide", &[left, right]) => match number(right) {
                Some(by) if by > 0 => range(left).divided(by),
                _ => ALL,
            },
            ("Modulo", &[left, right]) => match (number(right), range(left).low) {
                (Some(by), Some(0..)) if by > 0 => Range { low: Some(0), high: Some(by) },
                (Some(by), _) if by > 0 => Range { low: Some(-by), high: Some(by) },
                _ => ALL,
            },
            ("abs", _) => Range { low: Some(0), high: None },
            ("greatest", list) => self.greatest(list, depth),
            ("least", list) => {
                let list: Vec<Range> = list.iter().map(|term| range(*term).negated()).collect();
                self.highest(&list, arguments).negated()
            }
            _ => ALL,
        }
    }

    fn greatest(&self, list: &[TermId], depth: u32) -> Range {
        let ranges: Vec<Range> = list.iter().map(|term| self.range(*term, depth)).collect();
        self.highest(&ranges, list)
    }

    /// NULLs are passed over: only a number that is surely there lifts the others.
    fn highest(&self, ranges: &[Range], list: &[TermId]) -> Range {
        let low = |range: &Range| range.low;
        let surely =
            ranges.iter().zip(list).filter(|(_, term)| matches!(self.terms.get(**term), Term::Integer(_)));
        let all: Option<Vec<i128>> = ranges.iter().map(low).collect();
        let lowest = all.and_then(|all| all.into_iter().min());
        let highs: Option<Vec<i128>> = ranges.iter().map(|range| range.high).collect();
        Range {
            low: surely.filter_map(|(range, _)| range.low).max().or(lowest),
            high: highs.and_then(|all| all.into_iter().max()),
        }
    }
}
