//! A condition on one row as a formula over the row's columns.
//!
//! Every column that counts is NOT NULL, so three-valued logic is two-valued here. A part that reads only columns
//! which never change, and that is no arithmetic, is the same in every state: a truth that may be either.

use std::collections::BTreeMap;

use weir_sql::bound::{BinaryOp, Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, Table};
use weir_sql::walk;
use weir_types::numeric::Numeric;
use weir_types::operator::Comparison;
use weir_types::{SqlType, Value as Literal};

use super::formula::{Formula, Quantity, Question, Sort, Value, Variable};

/// The columns of one row in one state.
pub type Row = BTreeMap<ColumnIndex, Value>;

/// Truths that are the same in every state, by the place of the expression.
#[derive(Default)]
pub struct Fixed(BTreeMap<*const Expr, Variable>);

/// Whether a column can be computed with: exact, and finite but for NaN.
pub fn sort_of(ty: &SqlType) -> Option<Sort> {
    match ty {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => Some(Sort::Integer),
        SqlType::Numeric(Some(_)) => Some(Sort::Real),
        _ => None,
    }
}

/// Translation of a condition on a row's columns.
pub struct Translation<'a> {
    pub table: &'a Table,
    /// Returns whether some transaction updates the column.
    pub is_mutable: &'a dyn Fn(ColumnIndex) -> bool,
}

impl Translation<'_> {
    /// `None` where the condition has a part that is not understood.
    pub fn formula(
        &self,
        expr: &Expr,
        row: &Row,
        fixed: &mut Fixed,
        question: &mut Question,
    ) -> Option<Formula> {
        let mut each = |list: &[Expr]| -> Option<Vec<Formula>> {
            list.iter().map(|item| self.formula(item, row, fixed, question)).collect()
        };
        let understood = match &expr.kind {
            ExprKind::And(list) => each(list).map(Formula::all),
            ExprKind::Or(list) => each(list).map(Formula::any),
            ExprKind::Not(inner) => self.formula(inner, row, fixed, question).map(Formula::negated),
            ExprKind::Literal(Literal::Bool(truth)) => Some(Formula::Constant(*truth)),
            ExprKind::Binary { op, left, right } => {
                let op = Comparison::of(*op);
                let sides = (self.value(left, row), self.value(right, row));
                match (op, sides) {
                    (Some(op), (Some(left), Some(right))) => Some(compare(op, &left, &right)),
                    _ => None,
                }
            }
            ExprKind::InList { operand, list, negated } => self.value(operand, row).and_then(|operand| {
                let equal = |item: &Expr| Some(operand.equal(&self.value(item, row)?));
                let any = Formula::any(list.iter().map(equal).collect::<Option<Vec<_>>>()?);
                Some(if *negated { Formula::negated(any) } else { any })
            }),
            _ => None,
        };
        understood.or_else(|| {
            let mut may_change = walk::first_subquery(expr).is_some();
            walk::columns(expr, &mut |_, column| {
                may_change |= (self.is_mutable)(column) || !self.table.columns[column].not_null;
            });
            (!may_change).then(|| {
                let truth = fixed.0.entry(expr as *const Expr);
                Formula::Variable(*truth.or_insert_with(|| question.variable(Sort::Truth)))
            })
        })
    }

    fn value(&self, expr: &Expr, row: &Row) -> Option<Value> {
        match &expr.kind {
            ExprKind::Column { column, .. } => row.get(column).cloned(),
            ExprKind::Literal(Literal::Int(n)) => Some(Value::of(Quantity::integer(*n))),
            ExprKind::Literal(Literal::Numeric(Numeric::Small { mantissa, scale })) => {
                (*scale <= 18).then(|| Value::of(Quantity::Number { mantissa: *mantissa, scale: *scale }))
            }
            // To a type that holds every value of the other.
            ExprKind::Cast { operand, .. } if widens(&operand.ty, &expr.ty) => self.value(operand, row),
            ExprKind::Negate(inner) => Some(self.value(inner, row)?.times(-1)),
            ExprKind::Binary { op: BinaryOp::Add, left, right } => {
                Some(self.value(left, row)?.plus(self.value(right, row)?))
            }
            ExprKind::Binary { op: BinaryOp::Subtract, left, right } => {
                Some(self.value(left, row)?.plus(self.value(right, row)?.times(-1)))
            }
            ExprKind::Binary { op: BinaryOp::Multiply, left, right } => {
                match (crate::effects::integer(left), crate::effects::integer(right)) {
                    (Some(factor), _) => Some(self.value(right, row)?.times(factor)),
                    (_, Some(factor)) => Some(self.value(left, row)?.times(factor)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn widens(from: &SqlType, to: &SqlType) -> bool {
    let rank = |ty: &SqlType| match ty {
        SqlType::Int2 => Some(0),
        SqlType::Int4 => Some(1),
        SqlType::Int8 => Some(2),
        SqlType::Numeric(None) => Some(4),
        _ => None,
    };
    match (from, to) {
        (SqlType::Numeric(Some(_)), SqlType::Numeric(None)) => true,
        _ => from == to || rank(from).zip(rank(to)).is_some_and(|(from, to)| from <= to),
    }
}

pub fn compare(op: Comparison, left: &Value, right: &Value) -> Formula {
    match op {
        Comparison::Less => left.less(right),
        Comparison::LessOrEqual => left.less_or_equal(right),
        Comparison::Greater => right.less(left),
        Comparison::GreaterOrEqual => right.less_or_equal(left),
        Comparison::Equal => left.equal(right),
        Comparison::NotEqual => Formula::negated(left.equal(right)),
    }
}
