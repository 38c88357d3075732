//! Walks over bound trees: an expression's parts, the columns that it reads, and a query's relations.

use crate::bound::{
    BinaryOp, Delete, Expr, ExprKind, FromItem, Insert, InsertSource, Query, QueryBody, RelationId,
    Statement, Step, StepKind, Update,
};
use crate::catalog::{ColumnIndex, TableId};
use crate::source::Span;

use weir_types::{SqlType, Value};

macro_rules! define_parts {
    ($parts:ident, $subqueries:ident, $iter:ident, $as_deref:ident, $offset:ident, $($mutable:tt)?) => {
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
                | ExprKind::Opaque(list)
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
                ExprKind::Window(window) => {
                    let window = &$($mutable)? **window;
                    let mut parts: Vec<_> = window.args.$iter().collect();
                    parts.extend(&$($mutable)? window.filter);
                    parts.extend(window.partition_by.$iter());
                    parts.extend(window.order_by.$iter().map(|(expr, _)| expr));
                    parts.extend(window.frame.start.$offset());
                    parts.extend(window.frame.end.$offset());
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

define_parts!(parts, subquery, iter, as_deref, offset,);
define_parts!(parts_mut, subquery_mut, iter_mut, as_deref_mut, offset_mut, mut);

/// A node of a statement's trees.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    Expr(&'a Expr),
    Query(&'a Query),
    /// A table, a derived table or a join in FROM.
    From(&'a FromItem),
}

/// The part and everything below it, subqueries and derived tables included, each before what it holds.
pub fn each_part<'a>(part: Part<'a>, visit: &mut dyn FnMut(Part<'a>)) {
    visit(part);
    match part {
        Part::Expr(expr) => {
            parts(expr).into_iter().for_each(|part| each_part(Part::Expr(part), visit));
            subquery(expr).into_iter().for_each(|query| each_part(Part::Query(query), visit));
        }
        Part::Query(query) => parts_of_query(query).into_iter().for_each(|part| each_part(part, visit)),
        Part::From(item) => parts_of_from(item).into_iter().for_each(|part| each_part(part, visit)),
    }
}

fn parts_of_query(query: &Query) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = query.ctes.iter().map(|cte| Part::Query(&cte.query)).collect();
    match &query.body {
        QueryBody::Select(select) => {
            parts.extend(select.from.iter().map(Part::From));
            let exprs = select.outputs.iter().chain(&select.filter).chain(&select.group_by);
            parts.extend(exprs.chain(&select.having).map(Part::Expr));
        }
        QueryBody::SetOperation { left, right, .. } => {
            parts.extend([Part::Query(left), Part::Query(right)]);
        }
        QueryBody::Values(rows) => parts.extend(rows.iter().flatten().map(Part::Expr)),
    }
    parts.extend(query.limit.iter().chain(&query.offset).map(Part::Expr));
    parts
}

fn parts_of_from(item: &FromItem) -> Vec<Part<'_>> {
    match item {
        FromItem::Table { .. } | FromItem::Cte { .. } => Vec::new(),
        FromItem::Subquery { query, .. } => vec![Part::Query(query)],
        FromItem::Function { calls, .. } => {
            calls.iter().flat_map(|call| &call.args).map(Part::Expr).collect()
        }
        FromItem::Values { rows, .. } => rows.iter().flatten().map(Part::Expr).collect(),
        FromItem::Join { left, right, on, .. } => {
            let sides = [Part::From(left), Part::From(right)];
            sides.into_iter().chain(on.iter().map(Part::Expr)).collect()
        }
    }
}

/// Every column that the expression reads, subqueries included (their own columns too).
pub fn columns(expr: &Expr, visit: &mut dyn FnMut(RelationId, ColumnIndex)) {
    each_expr(expr, &mut |expr| {
        if let ExprKind::Column { relation, column } = expr.kind {
            visit(relation, column);
        }
    });
}

/// The expression and every one below it, subqueries included.
pub fn each_expr<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    each_part(Part::Expr(expr), &mut |part| {
        if let Part::Expr(expr) = part {
            visit(expr);
        }
    });
}

/// Every expression of a query, subqueries included.
pub fn each_expr_of_query<'a>(query: &'a Query, visit: &mut dyn FnMut(&'a Expr)) {
    each_part(Part::Query(query), &mut |part| {
        if let Part::Expr(expr) = part {
            visit(expr);
        }
    });
}

/// Every expression of a FROM item, derived tables included.
pub fn each_from_expr<'a>(item: &'a FromItem, visit: &mut dyn FnMut(&'a Expr)) {
    each_part(Part::From(item), &mut |part| {
        if let Part::Expr(expr) = part {
            visit(expr);
        }
    });
}

/// Every expression of a statement, wherever it stands.
pub fn each_statement_expr<'a>(statement: &'a Statement, visit: &mut dyn FnMut(&'a Expr)) {
    match statement {
        Statement::Query(query) => each_expr_of_query(query, visit),
        Statement::Insert(insert) => each_insert_expr(insert, visit),
        Statement::Update(Update { assignments, from, filter, returning, .. }) => {
            assignments.iter().for_each(|(_, expr)| each_expr(expr, visit));
            from.iter().for_each(|item| each_from_expr(item, visit));
            filter.iter().for_each(|expr| each_expr(expr, visit));
            returning.iter().for_each(|(_, expr)| each_expr(expr, visit));
        }
        Statement::Delete(Delete { using, filter, returning, .. }) => {
            using.iter().for_each(|item| each_from_expr(item, visit));
            filter.iter().for_each(|expr| each_expr(expr, visit));
            returning.iter().for_each(|(_, expr)| each_expr(expr, visit));
        }
    }
}

fn each_insert_expr<'a>(insert: &'a Insert, visit: &mut dyn FnMut(&'a Expr)) {
    match &insert.source {
        InsertSource::Values(rows) => rows.iter().flatten().for_each(|expr| each_expr(expr, visit)),
        InsertSource::Query(query) => each_expr_of_query(query, visit),
    }
    insert.defaults.iter().for_each(|(_, expr)| each_expr(expr, visit));
    if let Some((assignments, filter)) =
        insert.on_conflict.as_ref().and_then(|conflict| conflict.update.as_ref())
    {
        assignments.iter().for_each(|(_, expr)| each_expr(expr, visit));
        filter.iter().for_each(|expr| each_expr(expr, visit));
    }
    insert.returning.iter().for_each(|(_, expr)| each_expr(expr, visit));
}

/// Whether the expression has a subquery in it.
pub fn has_subquery(expr: &Expr) -> bool {
    let mut found = false;
    each_expr(expr, &mut |part| found |= subquery(part).is_some());
    found
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

/// The place of the first subquery in it.
pub fn first_subquery(expr: &Expr) -> Option<Span> {
    let mut first = None;
    each_expr(expr, &mut |part| {
        if subquery(part).is_some() {
            first.get_or_insert(part.span);
        }
    });
    first
}

/// Every table that the query reads, subqueries and derived tables included.
pub fn tables(query: &Query) -> Vec<(RelationId, TableId)> {
    let mut tables = Vec::new();
    each_part(Part::Query(query), &mut |part| {
        if let Part::From(FromItem::Table { relation, table, .. }) = part {
            tables.push((*relation, *table));
        }
    });
    tables
}

/// The text of a literal whose value depends on the zone of the session that runs it.
pub fn local_literal(expr: &Expr) -> Option<&str> {
    let ExprKind::Cast { operand, .. } = &expr.kind else { return None };
    match &operand.kind {
        ExprKind::Literal(Value::Text(literal)) if operand.ty == SqlType::Unknown => Some(literal),
        _ => None,
    }
}

/// Whether the value of this part, given those of its own parts, depends on the session's zone. PostgreSQL calls such functions stable.
pub fn asks_zone(expr: &Expr) -> bool {
    let instants = |ty: &SqlType| match ty {
        SqlType::Timestamptz | SqlType::Record => true,
        SqlType::Array(element) => **element == SqlType::Timestamptz,
        _ => false,
    };
    match &expr.kind {
        ExprKind::Cast { operand, .. } => {
            operand.ty.base() != expr.ty.base() && (instants(&operand.ty) || instants(&expr.ty))
        }
        ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Subtract, left, right } => {
            let [left, right] = [&left.ty, &right.ty];
            [left, right].contains(&&SqlType::Timestamptz) && [left, right].contains(&&SqlType::Interval)
        }
        ExprKind::Binary { op: BinaryOp::Concat, left, right } => {
            expr.ty.is_string() && (instants(&left.ty) || instants(&right.ty))
        }
        ExprKind::Function { function, args } => {
            let takes = args.iter().any(|arg| instants(&arg.ty));
            let alone = ["isfinite", "age", "timezone", "timestamptz", "date_bin"];
            takes && !alone.contains(&function.name)
                || expr.ty == SqlType::Timestamptz
                    && (function.name == "make_timestamptz" && args.len() == 6
                        || function.name == "to_timestamp" && args.len() == 2)
        }
        _ => false,
    }
}

/// The first part whose value changes by itself: the time, a sequence, a random number, or with the session's zone.
pub fn changing(expr: &Expr) -> Option<Span> {
    let mut changing = None;
    each_expr(expr, &mut |part| {
        if part.kind.is_volatile() || matches!(part.kind, ExprKind::TransactionTime) || asks_zone(part) {
            changing.get_or_insert(part.span);
        }
    });
    changing
}

/// Whether a second evaluation in the same transaction could give another result, or has an effect.
pub fn is_volatile(expr: &Expr) -> bool {
    let mut volatile = false;
    each_expr(expr, &mut |part| volatile |= part.kind.is_volatile());
    volatile
}

pub fn query_is_volatile(query: &Query) -> bool {
    let mut volatile = false;
    each_expr_of_query(query, &mut |part| volatile |= part.kind.is_volatile());
    volatile
}

/// Does the expression hold an aggregate of its own query (not of a subquery)?
pub fn has_aggregate(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Aggregate(_)) || parts(expr).into_iter().any(has_aggregate)
}

/// Does the expression hold a window function of its own query?
pub fn has_window(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Window(_)) || parts(expr).into_iter().any(has_window)
}

/// Visits a bound tree to change it.
pub trait Change {
    fn expr(&mut self, _expr: &mut Expr) {}

    fn relation(&mut self, _item: &mut FromItem) {}

    /// The walk enters a query, and is within it until [`Change::leave_query`].
    fn enter_query(&mut self) {}

    fn leave_query(&mut self) {}
}

impl<F: FnMut(&mut Expr)> Change for F {
    fn expr(&mut self, expr: &mut Expr) {
        self(expr);
    }
}

/// The expression and everything below it, subqueries included.
pub fn each_expr_mut(expr: &mut Expr, change: &mut dyn Change) {
    change.expr(expr);
    for part in parts_mut(expr) {
        each_expr_mut(part, change);
    }
    if let Some(query) = subquery_mut(expr) {
        change_query(query, change);
    }
}

/// Every expression and every FROM item of a query, subqueries included.
pub fn change_query(query: &mut Query, change: &mut dyn Change) {
    change.enter_query();
    for cte in &mut query.ctes {
        change_query(&mut cte.query, change);
    }
    match &mut query.body {
        QueryBody::Select(select) => {
            for item in &mut select.from {
                change_from(item, change);
            }
            let rest = select.outputs.iter_mut().chain(&mut select.filter).chain(&mut select.group_by);
            for expr in rest.chain(&mut select.having) {
                each_expr_mut(expr, change);
            }
        }
        QueryBody::SetOperation { left, right, .. } => {
            change_query(left, change);
            change_query(right, change);
        }
        QueryBody::Values(rows) => {
            rows.iter_mut().flatten().for_each(|expr| each_expr_mut(expr, change));
        }
    }
    for expr in query.limit.iter_mut().chain(&mut query.offset) {
        each_expr_mut(expr, change);
    }
    change.leave_query();
}

fn change_from(item: &mut FromItem, change: &mut dyn Change) {
    change.relation(item);
    match item {
        FromItem::Table { .. } | FromItem::Cte { .. } => {}
        FromItem::Subquery { query, .. } => change_query(query, change),
        FromItem::Function { calls, .. } => {
            calls.iter_mut().flat_map(|call| &mut call.args).for_each(|arg| each_expr_mut(arg, change));
        }
        FromItem::Values { rows, .. } => {
            rows.iter_mut().flatten().for_each(|value| each_expr_mut(value, change));
        }
        FromItem::Join { left, right, on, .. } => {
            change_from(left, change);
            change_from(right, change);
            on.iter_mut().for_each(|on| each_expr_mut(on, change));
        }
    }
}

struct Renumber<'n>(&'n mut dyn FnMut(RelationId) -> RelationId);

impl Change for Renumber<'_> {
    fn expr(&mut self, expr: &mut Expr) {
        if let ExprKind::Column { relation, .. } = &mut expr.kind {
            *relation = (self.0)(*relation);
        }
    }

    fn relation(&mut self, item: &mut FromItem) {
        match item {
            FromItem::Table { relation, .. }
            | FromItem::Cte { relation, .. }
            | FromItem::Subquery { relation, .. }
            | FromItem::Function { relation, .. }
            | FromItem::Values { relation, .. } => *relation = (self.0)(*relation),
            FromItem::Join { .. } => {}
        }
    }
}

/// Gives every relation of a query another number, so that its copy can stand in another statement.
pub fn renumber(query: &mut Query, number: &mut dyn FnMut(RelationId) -> RelationId) {
    change_query(query, &mut Renumber(number));
}

struct Deepen {
    /// Number of queries around, from the one that is moved on.
    depth: usize,
    by: usize,
}

impl Change for Deepen {
    fn relation(&mut self, item: &mut FromItem) {
        if let FromItem::Cte { level, .. } = item
            && *level + 1 >= self.depth
        {
            *level += self.by;
        }
    }

    fn enter_query(&mut self) {
        self.depth += 1;
    }

    fn leave_query(&mut self) {
        self.depth -= 1;
    }
}

/// Moves a query without a WITH of its own so many queries deeper: what it refers to of a WITH around it is that much further away.
pub fn deepen(query: &mut Query, by: usize) {
    change_query(query, &mut Deepen { depth: 0, by });
}

/// Every step of a body, those of loops, branches and blocks included, each before what it holds.
pub fn each_step<'a>(steps: &'a [Step], visit: &mut dyn FnMut(&'a Step)) {
    for step in steps {
        visit(step);
        match &step.kind {
            StepKind::If { branches, otherwise } => {
                branches.iter().for_each(|(_, body)| each_step(body, visit));
                each_step(otherwise, visit);
            }
            StepKind::ForRange { body, .. }
            | StepKind::ForQuery { body, .. }
            | StepKind::ForEach { body, .. }
            | StepKind::While { body, .. }
            | StepKind::Loop { body, .. }
            | StepKind::Block { body, .. } => each_step(body, visit),
            _ => {}
        }
    }
}

/// Every list of steps, the whole body first, to change it.
pub fn change_bodies(steps: &mut Vec<Step>, change: &mut dyn FnMut(&mut Vec<Step>)) {
    change(steps);
    for step in steps {
        match &mut step.kind {
            StepKind::If { branches, otherwise } => {
                branches.iter_mut().for_each(|(_, body)| change_bodies(body, change));
                change_bodies(otherwise, change);
            }
            StepKind::ForRange { body, .. }
            | StepKind::ForQuery { body, .. }
            | StepKind::ForEach { body, .. }
            | StepKind::While { body, .. }
            | StepKind::Loop { body, .. }
            | StepKind::Block { body, .. } => change_bodies(body, change),
            _ => {}
        }
    }
}
