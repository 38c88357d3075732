//! `a AND b OR a AND c` as `a AND (b OR c)`: what every alternative of a condition wants is wanted of all rows, so that a join or an
//! index can use it. The same in three-valued logic. It never moves what is volatile or has a subquery.

use weir_types::Value;

use super::expr::boolean;
use crate::bound::{Expr, ExprKind};
use crate::print;
use crate::source::Span;
use crate::walk;

pub(super) fn factored(expr: Expr) -> Expr {
    let span = expr.span;
    match expr.kind {
        ExprKind::And(list) => boolean(ExprKind::And(list.into_iter().map(factored).collect()), span),
        ExprKind::Or(list) => {
            let alternatives = list.into_iter().map(|one| conjuncts(factored(one))).collect();
            of_alternatives(alternatives, span)
        }
        kind => Expr { kind, ..expr },
    }
}

fn conjuncts(expr: Expr) -> Vec<Expr> {
    match expr.kind {
        ExprKind::And(list) => list.into_iter().flat_map(conjuncts).collect(),
        _ => vec![expr],
    }
}

fn of_alternatives(mut alternatives: Vec<Vec<Expr>>, span: Span) -> Expr {
    let (first, others) = alternatives.split_first_mut().expect("a disjunction has alternatives");
    let is_movable = |expr: &Expr| !walk::is_volatile(expr) && !walk::has_subquery(expr);
    let mut common: Vec<Expr> = first.iter().filter(|expr| is_movable(expr)).cloned().collect();
    for other in others {
        if common.is_empty() {
            break;
        }
        common.retain(|expr| other.iter().any(|own| print::same(own, expr)));
    }
    if !common.is_empty() {
        let is_common = |expr: &Expr| common.iter().any(|of| print::same(of, expr));
        alternatives.iter_mut().for_each(|one| one.retain(|expr| !is_common(expr)));
    }
    let all = |mut list: Vec<Expr>| match list.len() {
        0 => boolean(ExprKind::Literal(Value::Bool(true)), span),
        1 => list.remove(0),
        _ => {
            let span = Span { end: list[list.len() - 1].span.end, ..list[0].span };
            boolean(ExprKind::And(list), span)
        }
    };
    // An alternative of which nothing is left holds wherever the common part does.
    if !alternatives.iter().any(Vec::is_empty) {
        common.push(boolean(ExprKind::Or(alternatives.into_iter().map(all).collect()), span));
    }
    all(common)
}
