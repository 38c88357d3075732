//! Visiting the columns and the parts of bound expressions and queries.

use weir_sql::bound::{Expr, ExprKind, FromItem, Query, QueryBody, RelationId};
use weir_sql::catalog::ColumnIndex;

/// What an expression or query consists of, one level down.
pub enum Part<'a> {
    Expr(&'a Expr),
    Query(&'a Query),
}

/// Every column reference below `expr`, those of its subqueries included.
pub fn columns_of(expr: &Expr, visit: &mut impl FnMut(RelationId, ColumnIndex)) {
    let mut todo = vec![Part::Expr(expr)];
    while let Some(part) = todo.pop() {
        match part {
            Part::Expr(expr) => {
                if let ExprKind::Column { relation, column } = expr.kind {
                    visit(relation, column);
                }
                parts_of_expr(expr, &mut |part| todo.push(part));
            }
            Part::Query(query) => parts_of_query(query, &mut |part| todo.push(part)),
        }
    }
}

/// The direct operands and subqueries of an expression.
pub fn parts_of_expr<'a>(expr: &'a Expr, visit: &mut impl FnMut(Part<'a>)) {
    let mut one = |expr: &'a Expr| visit(Part::Expr(expr));
    match &expr.kind {
        ExprKind::Literal(_)
        | ExprKind::Column { .. }
        | ExprKind::Variable(_)
        | ExprKind::NextValue(_)
        | ExprKind::CurrentValue(_)
        | ExprKind::TransactionTime
        | ExprKind::Volatile(_) => {}
        ExprKind::Binary { left, right, .. }
        | ExprKind::IsDistinct { left, right, .. }
        | ExprKind::ArrayCompare { left, array: right, .. }
        | ExprKind::NullIf(left, right)
        | ExprKind::Subscript { array: left, index: right } => {
            one(left);
            one(right);
        }
        ExprKind::Negate(inner) | ExprKind::Not(inner) => one(inner),
        ExprKind::IsNull { operand, .. }
        | ExprKind::IsBool { operand, .. }
        | ExprKind::Cast { operand, .. } => one(operand),
        ExprKind::And(list)
        | ExprKind::Or(list)
        | ExprKind::Coalesce(list)
        | ExprKind::Greatest(list)
        | ExprKind::Least(list)
        | ExprKind::Array(list)
        | ExprKind::Row(list)
        | ExprKind::Function { args: list, .. } => list.iter().for_each(one),
        ExprKind::Case { whens, otherwise } => {
            for (when, then) in whens {
                one(when);
                one(then);
            }
            otherwise.iter().for_each(|expr| one(expr));
        }
        ExprKind::Like { operand, pattern, escape, .. } => {
            one(operand);
            one(pattern);
            escape.iter().for_each(|expr| one(expr));
        }
        ExprKind::InList { operand, list, .. } => {
            one(operand);
            list.iter().for_each(one);
        }
        ExprKind::Slice { array, lower, upper } => {
            one(array);
            lower.iter().chain(upper).for_each(|expr| one(expr));
        }
        ExprKind::ScalarSubquery(query) | ExprKind::ArraySubquery(query) => visit(Part::Query(query)),
        ExprKind::Exists { query, .. } => visit(Part::Query(query)),
        ExprKind::QuantifiedSubquery { left, query, .. } => {
            left.iter().for_each(&mut one);
            visit(Part::Query(query));
        }
        ExprKind::Aggregate(aggregate) => {
            aggregate.args.iter().for_each(&mut one);
            aggregate.filter.iter().for_each(&mut one);
            aggregate.order_by.iter().for_each(|(expr, _)| one(expr));
        }
    }
}

/// The expressions and queries that a query consists of, FROM items included.
pub fn parts_of_query<'a>(query: &'a Query, visit: &mut impl FnMut(Part<'a>)) {
    query.ctes.iter().for_each(|cte| visit(Part::Query(&cte.query)));
    query.limit.iter().chain(&query.offset).for_each(|expr| visit(Part::Expr(expr)));
    match &query.body {
        QueryBody::Select(select) => {
            select.outputs.iter().for_each(|expr| visit(Part::Expr(expr)));
            select.from.iter().for_each(|item| parts_of_from(item, visit));
            select.filter.iter().for_each(|expr| visit(Part::Expr(expr)));
            select.group_by.iter().for_each(|expr| visit(Part::Expr(expr)));
            select.having.iter().for_each(|expr| visit(Part::Expr(expr)));
        }
        QueryBody::SetOperation { left, right, .. } => {
            visit(Part::Query(left));
            visit(Part::Query(right));
        }
        QueryBody::Values(rows) => rows.iter().flatten().for_each(|expr| visit(Part::Expr(expr))),
    }
}

fn parts_of_from<'a>(item: &'a FromItem, visit: &mut impl FnMut(Part<'a>)) {
    match item {
        FromItem::Table { .. } | FromItem::Cte { .. } => {}
        FromItem::Subquery { query, .. } => visit(Part::Query(query)),
        FromItem::Function { args, .. } => args.iter().for_each(|expr| visit(Part::Expr(expr))),
        FromItem::Values { rows, .. } => rows.iter().flatten().for_each(|expr| visit(Part::Expr(expr))),
        FromItem::Join { left, right, on, .. } => {
            parts_of_from(left, visit);
            parts_of_from(right, visit);
            on.iter().for_each(|expr| visit(Part::Expr(expr)));
        }
    }
}

/// The operands of a conjunction, flattened.
pub fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::And(list) => list.iter().flat_map(conjuncts).collect(),
        _ => vec![expr],
    }
}

/// The expression without casts around it.
pub fn uncast(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Cast { operand, .. } => uncast(operand),
        _ => expr,
    }
}
