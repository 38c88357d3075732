//! Walks over bound trees: an expression's parts, the columns that it reads, and a query's relations.

use crate::bound::{Expr, ExprKind, FromItem, Query, QueryBody, RelationId};
use crate::catalog::ColumnIndex;

macro_rules! define_parts {
    ($parts:ident, $subqueries:ident, $iter:ident, $as_deref:ident, $($mutable:tt)?) => {
        /// The direct operands of an expression, in order; not what stands in its subqueries.
        pub fn $parts(expr: &$($mutable)? Expr) -> Vec<&$($mutable)? Expr> {
            match &$($mutable)? expr.kind {
                ExprKind::Literal(_)
                | ExprKind::Column { .. }
                | ExprKind::Variable(_)
                | ExprKind::NextValue(_)
                | ExprKind::CurrentValue(_)
                | ExprKind::TransactionTime
                | ExprKind::Volatile(_)
                | ExprKind::ScalarSubquery(_)
                | ExprKind::Exists { .. }
                | ExprKind::ArraySubquery(_) => Vec::new(),
                ExprKind::Negate(operand)
                | ExprKind::Not(operand)
                | ExprKind::IsNull { operand, .. }
                | ExprKind::IsBool { operand, .. }
                | ExprKind::Cast { operand, .. } => vec![operand],
                ExprKind::Binary { left, right, .. }
                | ExprKind::IsDistinct { left, right, .. }
                | ExprKind::NullIf(left, right)
                | ExprKind::ArrayCompare { left, array: right, .. }
                | ExprKind::Subscript { array: left, index: right } => vec![left, right],
                ExprKind::And(list)
                | ExprKind::Or(list)
                | ExprKind::Function { args: list, .. }
                | ExprKind::Coalesce(list)
                | ExprKind::Greatest(list)
                | ExprKind::Least(list)
                | ExprKind::Array(list)
                | ExprKind::Row(list)
                | ExprKind::QuantifiedSubquery { left: list, .. } => list.$iter().collect(),
                ExprKind::Case { whens, otherwise } => {
                    let mut parts: Vec<_> =
                        whens.$iter().flat_map(|(condition, result)| [condition, result]).collect();
                    parts.extend(otherwise.$as_deref());
                    parts
                }
                ExprKind::Like { operand, pattern, escape, .. } => {
                    let mut parts = vec![&$($mutable)? **operand, pattern];
                    parts.extend(escape.$as_deref());
                    parts
                }
                ExprKind::InList { operand, list, .. } => {
                    let mut parts = vec![&$($mutable)? **operand];
                    parts.extend(list);
                    parts
                }
                ExprKind::Slice { array, lower, upper } => {
                    let mut parts = vec![&$($mutable)? **array];
                    parts.extend(lower.$as_deref());
                    parts.extend(upper.$as_deref());
                    parts
                }
                ExprKind::Aggregate(aggregate) => {
                    let aggregate = &$($mutable)? **aggregate;
                    let mut parts: Vec<_> = aggregate.args.$iter().collect();
                    parts.extend(&$($mutable)? aggregate.filter);
                    parts.extend(aggregate.order_by.$iter().map(|(expr, _)| expr));
                    parts
                }
            }
        }

        /// The subquery that an expression itself is, if it is one.
        pub fn $subqueries(expr: &$($mutable)? Expr) -> Option<&$($mutable)? Query> {
            match &$($mutable)? expr.kind {
                ExprKind::ScalarSubquery(query)
                | ExprKind::ArraySubquery(query)
                | ExprKind::Exists { query, .. }
                | ExprKind::QuantifiedSubquery { query, .. } => Some(query),
                _ => None,
            }
        }
    };
}

define_parts!(parts, subquery, iter, as_deref,);
define_parts!(parts_mut, subquery_mut, iter_mut, as_deref_mut, mut);

/// Every column that the expression reads, subqueries included (their own columns too).
pub fn columns(expr: &Expr, visit: &mut dyn FnMut(RelationId, ColumnIndex)) {
    each_expr(expr, &mut |expr| {
        if let ExprKind::Column { relation, column } = expr.kind {
            visit(relation, column);
        }
    });
}

/// The expression and everything below it, subqueries included.
pub fn each_expr(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(expr);
    for part in parts(expr) {
        each_expr(part, visit);
    }
    if let Some(query) = subquery(expr) {
        each_expr_of_query(query, visit);
    }
}

/// Every expression of a query, subqueries included.
pub fn each_expr_of_query(query: &Query, visit: &mut dyn FnMut(&Expr)) {
    for cte in &query.ctes {
        each_expr_of_query(&cte.query, visit);
    }
    match &query.body {
        QueryBody::Select(select) => {
            for item in &select.from {
                each_expr_of_from(item, visit);
            }
            let rest = select.outputs.iter().chain(&select.filter).chain(&select.group_by);
            for expr in rest.chain(&select.having) {
                each_expr(expr, visit);
            }
        }
        QueryBody::SetOperation { left, right, .. } => {
            each_expr_of_query(left, visit);
            each_expr_of_query(right, visit);
        }
        QueryBody::Values(rows) => {
            for expr in rows.iter().flatten() {
                each_expr(expr, visit);
            }
        }
    }
    for expr in query.limit.iter().chain(&query.offset) {
        each_expr(expr, visit);
    }
}

/// Every expression of a FROM item, subqueries included.
pub fn each_expr_of_from(item: &FromItem, visit: &mut dyn FnMut(&Expr)) {
    match item {
        FromItem::Table { .. } | FromItem::Cte { .. } => {}
        FromItem::Subquery { query, .. } => each_expr_of_query(query, visit),
        FromItem::Function { args, .. } => args.iter().for_each(|arg| each_expr(arg, visit)),
        FromItem::Values { rows, .. } => {
            rows.iter().flatten().for_each(|value| each_expr(value, visit));
        }
        FromItem::Join { left, right, on, .. } => {
            each_expr_of_from(left, visit);
            each_expr_of_from(right, visit);
            on.iter().for_each(|on| each_expr(on, visit));
        }
    }
}

/// Does the expression hold an aggregate of its own query (not of a subquery)?
pub fn has_aggregate(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Aggregate(_)) || parts(expr).into_iter().any(has_aggregate)
}

/// Gives every relation of a query another number, so that its copy can stand in another statement.
pub fn renumber(query: &mut Query, number: &mut dyn FnMut(RelationId) -> RelationId) {
    for cte in &mut query.ctes {
        renumber(&mut cte.query, number);
    }
    match &mut query.body {
        QueryBody::Select(select) => {
            for item in &mut select.from {
                renumber_from(item, number);
            }
            let rest = select.outputs.iter_mut().chain(&mut select.filter).chain(&mut select.group_by);
            for expr in rest.chain(&mut select.having) {
                renumber_expr(expr, number);
            }
        }
        QueryBody::SetOperation { left, right, .. } => {
            renumber(left, number);
            renumber(right, number);
        }
        QueryBody::Values(rows) => {
            rows.iter_mut().flatten().for_each(|expr| renumber_expr(expr, number));
        }
    }
    for expr in query.limit.iter_mut().chain(&mut query.offset) {
        renumber_expr(expr, number);
    }
}

fn renumber_from(item: &mut FromItem, number: &mut dyn FnMut(RelationId) -> RelationId) {
    match item {
        FromItem::Table { relation, .. } | FromItem::Cte { relation, .. } => *relation = number(*relation),
        FromItem::Subquery { relation, query, .. } => {
            *relation = number(*relation);
            renumber(query, number);
        }
        FromItem::Function { relation, args, .. } => {
            *relation = number(*relation);
            args.iter_mut().for_each(|arg| renumber_expr(arg, number));
        }
        FromItem::Values { relation, rows, .. } => {
            *relation = number(*relation);
            rows.iter_mut().flatten().for_each(|value| renumber_expr(value, number));
        }
        FromItem::Join { left, right, on, .. } => {
            renumber_from(left, number);
            renumber_from(right, number);
            on.iter_mut().for_each(|on| renumber_expr(on, number));
        }
    }
}

fn renumber_expr(expr: &mut Expr, number: &mut dyn FnMut(RelationId) -> RelationId) {
    if let ExprKind::Column { relation, .. } = &mut expr.kind {
        *relation = number(*relation);
    }
    for part in parts_mut(expr) {
        renumber_expr(part, number);
    }
    if let Some(query) = subquery_mut(expr) {
        renumber(query, number);
    }
}
