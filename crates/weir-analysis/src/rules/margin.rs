//! Two or more columns of one row against each other: `sold <= capacity`.
//!
//! A comparison between sums of a row's columns says that a margin is not negative. As long as these columns
//! only change by amounts, the margin does, and it is one counter with one bound (§5.2 of
//! coordination-avoidance.txt).

use weir_sql::bound::{BinaryOp, Expr, ExprKind};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_sql::walk::uncast;

use super::{GuardDraft, Outcome, describe};
use crate::effects::{ColumnOperation, Sign, Write, integer};
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

/// The verdict on an update; `None` where somebody sets one of the columns, so that it is no counter.
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
    if !world.writes_of(table).all(|(_, candidate)| counts(candidate)) {
        return None;
    }
    let terms = &world.effects[procedure].terms;
    let narrows = weights.iter().any(|(weight, column)| match write.update_of(*column) {
        Some(ColumnOperation::Add(delta)) => may_lower(*weight, terms.sign(delta)),
        _ => false,
    });
    let operation = describe(world, write);
    if !narrows {
        let because = "It can only widen the margin, and merged changes widen it further.";
        return Some(Outcome::yes(Rule::MarginWider, operation, because).proved());
    }
    let because = "Each branch uses up what is left of the margin; together they use more than there is.";
    let outcome = Outcome::no(Rule::MarginUsed, procedure, operation, because);
    Some(outcome.guarded(escrow(world, table, weights, write)))
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
