//! Unique indexes over some of the rows, or over expressions. The engine does not keep them, so here they are asked as
//! assertions are: no two rows of one key. It decides nothing and runs nothing.

use weir_sql::Span;
use weir_sql::bound::{
    Aggregate, AggregateFunction, Expr, ExprKind, FromItem, OutputColumn, Query, QueryBody, RelationId,
    Select,
};
use weir_sql::catalog::{Assertion, Index, Table};
use weir_sql::walk::{each_expr, renumber};
use weir_types::operator::BinaryOp;
use weir_types::{SqlType, Value};

/// The row, and the rows that it is compared with.
const ROW: RelationId = RelationId(0);
const OTHER: RelationId = RelationId(1);

/// `NOT EXISTS (SELECT 1 FROM t WHERE p AND k IS NOT NULL AND (SELECT count(*) FROM t o WHERE o.p AND o.k = k) > 1)`.
pub fn assertion(table: &Table, index: &Index) -> Assertion {
    let keys = || index.keys.iter().map(|key| key.expr.clone());
    let mut equal: Vec<Expr> = index.predicate.clone().into_iter().collect();
    equal.extend(keys());
    // The other row's predicate and keys: the same expressions under another number.
    let mut others = select(table, ROW, None, equal);
    renumber(&mut others, &mut |_| OTHER);
    let QueryBody::Select(mut matching) = others.body.clone() else { unreachable!("it was made here") };
    let mut conditions = std::mem::take(&mut matching.outputs);
    let other_keys = conditions.split_off(conditions.len() - index.keys.len());
    let same = keys().zip(other_keys).map(|(key, other)| {
        boolean(match index.nulls_not_distinct {
            true => ExprKind::IsDistinct { left: other.into(), right: key.into(), negated: true },
            false => ExprKind::Binary { op: BinaryOp::Equal, left: other.into(), right: key.into() },
        })
    });
    conditions.extend(same);
    let aggregate = Aggregate {
        function: AggregateFunction::Count,
        args: Vec::new(),
        distinct: false,
        filter: None,
        order_by: Vec::new(),
    };
    let count = typed(ExprKind::Aggregate(Box::new(aggregate)), SqlType::Int8);
    let mut counted = select(table, OTHER, Some(conditions), vec![count]);
    if let QueryBody::Select(select) = &mut counted.body {
        select.aggregates = true;
    }
    let count = typed(ExprKind::ScalarSubquery(Box::new(counted)), SqlType::Int8);
    let one = typed(ExprKind::Literal(Value::Int(1)), SqlType::Int8);
    let twice = ExprKind::Binary { op: BinaryOp::Greater, left: count.into(), right: one.clone().into() };
    let mut violating: Vec<Expr> = index.predicate.clone().into_iter().collect();
    violating.push(boolean(twice));
    let query = Box::new(select(table, ROW, Some(violating), vec![one]));
    Assertion {
        name: index.name.clone(),
        expr: boolean(ExprKind::Exists { query, negated: true }),
        text: String::new(),
        comment_on: None,
        span: index.span,
    }
}

/// Does it hold nothing that Weir cannot compute?
pub fn is_understood(expr: &Expr) -> bool {
    let mut understood = true;
    each_expr(expr, &mut |part| {
        understood &= !matches!(part.kind, ExprKind::Opaque(_)) && !matches!(part.ty, SqlType::Opaque(_));
    });
    understood
}

fn select(table: &Table, relation: RelationId, filter: Option<Vec<Expr>>, outputs: Vec<Expr>) -> Query {
    let filter = filter.map(|mut all| match all.len() {
        1 => all.remove(0),
        _ => boolean(ExprKind::And(all)),
    });
    let column = |output: &Expr| OutputColumn::new("?column?".to_owned(), output.ty.clone());
    let columns = outputs.iter().map(column).collect();
    let span = Span::default();
    let from = FromItem::Table { relation, table: table.id, alias: table.name.clone(), span };
    Query::of_select(Select::plain(outputs, vec![from], filter), columns, span)
}

fn boolean(kind: ExprKind) -> Expr {
    typed(kind, SqlType::Bool)
}

fn typed(kind: ExprKind, ty: SqlType) -> Expr {
    Expr { kind, ty, span: Span::default() }
}
