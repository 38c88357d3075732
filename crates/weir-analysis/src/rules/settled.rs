//! Effect of a write of constants on a condition: true, false, or unknown.
//!
//! `SET cancelled = true` takes a row out of `WHERE NOT cancelled`, whatever else the row is, and a new row with
//! `role = 'member'` is none `WHERE role = 'owner'`. Anything but constants is not known; nothing is guessed.

use weir_sql::bound::{Expr, ExprKind};
use weir_sql::catalog::ColumnIndex;
use weir_sql::walk::uncast;
use weir_types::Value;
use weir_types::operator::BinaryOp;

use crate::effects::{ColumnOperation, Operation, Term, Write};
use crate::world::World;

/// The condition of a row after the write; its columns are those of the written table.
pub fn after(world: &World<'_>, procedure: usize, write: &Write, condition: &Expr) -> Option<bool> {
    let terms = &world.effects[procedure].terms;
    let set = |column: ColumnIndex| match &write.operation {
        Operation::Insert { values, on_conflict }
            if on_conflict.as_ref().is_none_or(|conflict| conflict.update.is_empty()) =>
        {
            values.get(column).map(|&term| terms.get(term))
        }
        Operation::Update { .. } => match write.update_of(column)? {
            ColumnOperation::Assign(term) => Some(terms.get(term)),
            _ => None,
        },
        _ => None,
    };
    holds(condition, &set)
}

fn holds<'t>(condition: &Expr, set: &dyn Fn(ColumnIndex) -> Option<&'t Term>) -> Option<bool> {
    match &condition.kind {
        ExprKind::Literal(Value::Bool(value)) => Some(*value),
        ExprKind::Column { .. } => equals(condition, &Value::Bool(true), set),
        ExprKind::Not(operand) => holds(operand, set).map(|value| !value),
        ExprKind::And(parts) => all(parts.iter().map(|part| holds(part, set))),
        ExprKind::Or(parts) => {
            all(parts.iter().map(|part| holds(part, set).map(|value| !value))).map(|none| !none)
        }
        ExprKind::IsNull { operand, negated } => {
            let term = column(operand).and_then(set)?;
            let never_null =
                matches!(term, Term::Integer(_) | Term::Literal(..) | Term::Generated(_) | Term::Time);
            (never_null || *term == Term::Null).then_some((*term == Term::Null) != *negated)
        }
        ExprKind::IsBool { operand, value, negated } => {
            Some(equals(operand, &Value::Bool(*value), set)? != *negated)
        }
        ExprKind::Binary { op: op @ (BinaryOp::Equal | BinaryOp::NotEqual), left, right } => {
            let of = |operand: &Expr, other: &Expr| match &uncast(other).kind {
                ExprKind::Literal(value) => equals(operand, value, set),
                _ => None,
            };
            let equal = of(left, right).or_else(|| of(right, left))?;
            Some(equal == (*op == BinaryOp::Equal))
        }
        ExprKind::Binary { op, left, right } => {
            let (left, right) = (integer(left, set)?, integer(right, set)?);
            match op {
                BinaryOp::Less => Some(left < right),
                BinaryOp::LessOrEqual => Some(left <= right),
                BinaryOp::Greater => Some(left > right),
                BinaryOp::GreaterOrEqual => Some(left >= right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// All of them true; false as soon as one is.
fn all(parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let parts: Vec<Option<bool>> = parts.collect();
    match parts.contains(&Some(false)) {
        true => Some(false),
        false => parts.into_iter().collect::<Option<Vec<bool>>>().map(|_| true),
    }
}

fn column(expr: &Expr) -> Option<ColumnIndex> {
    match uncast(expr).kind {
        ExprKind::Column { column, .. } => Some(column),
        _ => None,
    }
}

fn integer<'t>(operand: &Expr, set: &dyn Fn(ColumnIndex) -> Option<&'t Term>) -> Option<i64> {
    match &uncast(operand).kind {
        ExprKind::Literal(Value::Int(value)) => Some(*value),
        _ => match column(operand).and_then(set)? {
            Term::Integer(value) => Some(*value),
            _ => None,
        },
    }
}

/// NULL equals nothing. Only values of which equal text means an equal value are compared.
fn equals<'t>(operand: &Expr, value: &Value, set: &dyn Fn(ColumnIndex) -> Option<&'t Term>) -> Option<bool> {
    match (column(operand).and_then(set)?, value) {
        (Term::Integer(term), Value::Int(value)) => Some(term == value),
        (Term::Literal(term, _), Value::Bool(_) | Value::Text(_)) => Some(*term == format!("{value:?}")),
        _ => None,
    }
}
