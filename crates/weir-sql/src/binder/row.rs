//! Comparisons of rows, rewritten to comparisons of their columns (SQL-92 8.2).

use weir_types::SqlState;
use weir_types::operator::BinaryOp;

use super::Binder;
use super::expr::{boolean, union};
use crate::bound::{Expr, ExprKind};
use crate::source::{Diagnostic, Span};

pub(super) fn all_of(mut tests: Vec<Expr>, span: Span) -> Expr {
    match tests.len() {
        1 => tests.remove(0),
        _ => boolean(ExprKind::And(tests), span),
    }
}

pub(super) fn any_of(mut tests: Vec<Expr>, span: Span) -> Expr {
    match tests.len() {
        1 => tests.remove(0),
        _ => boolean(ExprKind::Or(tests), span),
    }
}

pub(super) fn same_length(left: &[Expr], right: &[Expr], place: Span) -> Result<(), Diagnostic> {
    if left.len() == right.len() && !left.is_empty() {
        return Ok(());
    }
    Err(Diagnostic::new(SqlState::SYNTAX_ERROR, place, "unequal number of entries in row expressions"))
}

impl<'a> Binder<'a> {
    pub(super) fn compare_rows(
        &mut self,
        op: BinaryOp,
        left: Vec<Expr>,
        right: Vec<Expr>,
        place: Span,
    ) -> Result<Expr, Diagnostic> {
        same_length(&left, &right, place)?;
        let span = union(left[0].span, right[right.len() - 1].span);
        let strict = match op {
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let tests = left
                    .into_iter()
                    .zip(right)
                    .map(|(left, right)| self.compare(op, left, right, place))
                    .collect::<Result<Vec<_>, _>>()?;
                return Ok(if op == BinaryOp::Equal { all_of(tests, span) } else { any_of(tests, span) });
            }
            BinaryOp::Less | BinaryOp::LessOrEqual => BinaryOp::Less,
            BinaryOp::Greater | BinaryOp::GreaterOrEqual => BinaryOp::Greater,
            _ => {
                return Err(Diagnostic::unsupported(
                    place,
                    "this operator between rows",
                    "=, <>, <, <=, > and >= compare rows",
                ));
            }
        };
        // (a, b) < (c, d) is a < c OR a = c AND b < d.
        let mut pairs: Vec<(Expr, Expr)> = left.into_iter().zip(right).collect();
        let Some((left, right)) = pairs.pop() else {
            return Err(Diagnostic::new(SqlState::SYNTAX_ERROR, place, "an empty row"));
        };
        let mut result = self.compare(op, left, right, place)?;
        while let Some((left, right)) = pairs.pop() {
            let less = self.compare(strict, left.clone(), right.clone(), place)?;
            let equal = self.compare(BinaryOp::Equal, left, right, place)?;
            result = any_of(vec![less, all_of(vec![equal, result], span)], span);
        }
        Ok(result)
    }
}
