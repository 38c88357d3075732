//! Walks over bound statements: which columns are used, which relations are defined, what depends on what.
//!
//! Only the compiler uses it; nothing here runs while a statement runs.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{Expr, ExprKind, FromItem, Query, QueryBody, RelationId};
use weir_sql::catalog::ColumnIndex;
pub use weir_sql::walk::{
    conjuncts, each_expr, each_expr_of_query, each_from_expr, each_statement_expr, has_subquery, has_window,
    is_volatile, parts, query_is_volatile, subquery, uncast,
};

/// Relations of a statement.
pub type Relations = BTreeSet<RelationId>;

/// The columns that a walk meets, by relation.
pub type UsedColumns = BTreeMap<RelationId, BTreeSet<ColumnIndex>>;

pub fn note_column(used: &mut UsedColumns, expr: &Expr) {
    if let ExprKind::Column { relation, column } = expr.kind {
        used.entry(relation).or_default().insert(column);
    }
}

/// All relations whose columns the expression reads, those of its own subqueries included.
pub fn relations_read(expr: &Expr) -> Relations {
    let mut relations = Relations::new();
    each_expr(expr, &mut |expr| {
        if let ExprKind::Column { relation, .. } = expr.kind {
            relations.insert(relation);
        }
    });
    relations
}

/// The relations outside the query whose columns it reads.
pub fn outer_relations(query: &Query) -> Relations {
    let mut read = Relations::new();
    each_expr_of_query(query, &mut |expr| {
        if let ExprKind::Column { relation, .. } = expr.kind {
            read.insert(relation);
        }
    });
    let mut defined = Relations::new();
    relations_defined(query, &mut defined);
    read.difference(&defined).copied().collect()
}

/// The relations that the query defines at any depth.
pub fn relations_defined(query: &Query, defined: &mut Relations) {
    query.ctes.iter().for_each(|cte| relations_defined(&cte.query, defined));
    match &query.body {
        QueryBody::Select(select) => {
            select.from.iter().for_each(|item| from_relations_deep(item, defined));
            let exprs =
                select.outputs.iter().chain(&select.filter).chain(&select.group_by).chain(&select.having);
            exprs.for_each(|expr| subquery_relations(expr, defined));
        }
        QueryBody::SetOperation { left, right, .. } => {
            relations_defined(left, defined);
            relations_defined(right, defined);
        }
        QueryBody::Values(rows) => {
            rows.iter().flatten().for_each(|expr| subquery_relations(expr, defined));
        }
    }
    query.limit.iter().chain(&query.offset).for_each(|expr| subquery_relations(expr, defined));
}

pub fn subquery_relations(expr: &Expr, defined: &mut Relations) {
    parts(expr).into_iter().for_each(|part| subquery_relations(part, defined));
    subquery(expr).into_iter().for_each(|query| relations_defined(query, defined));
}

pub fn from_relations_deep(item: &FromItem, defined: &mut Relations) {
    defined.extend(item_relations(item));
    match item {
        FromItem::Subquery { query, .. } => relations_defined(query, defined),
        FromItem::Function { calls, .. } => {
            calls.iter().flat_map(|call| &call.args).for_each(|expr| subquery_relations(expr, defined));
        }
        FromItem::Values { rows, .. } => {
            rows.iter().flatten().for_each(|expr| subquery_relations(expr, defined));
        }
        FromItem::Join { left, right, on, .. } => {
            from_relations_deep(left, defined);
            from_relations_deep(right, defined);
            on.iter().for_each(|expr| subquery_relations(expr, defined));
        }
        FromItem::Table { .. } | FromItem::Cte { .. } => {}
    }
}

/// The relations that a FROM item makes visible.
pub fn item_relations(item: &FromItem) -> Relations {
    match item {
        FromItem::Table { relation, .. }
        | FromItem::Subquery { relation, .. }
        | FromItem::Cte { relation, .. }
        | FromItem::Function { relation, .. }
        | FromItem::Values { relation, .. } => Relations::from([*relation]),
        FromItem::Join { left, right, .. } => {
            let mut relations = item_relations(left);
            relations.extend(item_relations(right));
            relations
        }
    }
}
