//! A query whose rows live on several shards: the part that each shard runs, and the merge of the results.
//!
//! Every function here splits a query into a *part*, which shards run over their own rows, and the *whole*, which reads the parts' rows
//! as a CTE of a query around it.

use std::ops::ControlFlow;
use std::sync::Arc;

use weir_sql::bound::{
    Aggregate, AggregateFunction, BinaryOp, Distinct, Expr, ExprKind, FromItem, OutputColumn, Query,
    QueryBody, RelationId, Select,
};
use weir_sql::catalog::ColumnIndex;
use weir_sql::print;
use weir_types::{SqlError, SqlType, Value};

use super::compiler::Compiler;
use super::context::{Cell, Cx};
use super::query::CompiledQuery;
use super::slots::{CellId, SlotAllocator};
use super::walk;
use crate::storage::Schema;

/// Reference from the whole to the rows of a part.
#[derive(Clone, Copy)]
pub(super) struct PartSource {
    /// A relation number that the statement does not use.
    pub relation: RelationId,
    /// Number of queries around the reading one, that one included.
    pub level: usize,
    /// Index of the part.
    pub index: usize,
}

impl PartSource {
    fn item(self) -> FromItem {
        FromItem::Cte { relation: self.relation, level: self.level, index: self.index }
    }

    fn column(self, column: ColumnIndex, of: &Expr) -> Expr {
        let kind = ExprKind::Column { relation: self.relation, column };
        Expr { kind, ty: of.ty.clone(), span: of.span }
    }

    fn select(self, outputs: &[Expr]) -> Select {
        let outputs = outputs.iter().enumerate().map(|(at, output)| self.column(at, output)).collect();
        Select::plain(outputs, vec![self.item()], None)
    }

    /// The whole for a query that one shard has run completely.
    pub(super) fn query(self, query: &Query) -> Query {
        let output = |column: &OutputColumn| Expr {
            kind: ExprKind::Literal(Value::Null),
            ty: column.ty.clone(),
            span: query.span,
        };
        let outputs: Vec<Expr> = query.columns.iter().map(output).collect();
        Query::of_select(self.select(&outputs), query.columns.clone(), query.span)
    }
}

fn columns_of(outputs: &[Expr]) -> Vec<OutputColumn> {
    let column = |output: &Expr| OutputColumn::new("?column?".to_owned(), output.ty.clone());
    outputs.iter().map(column).collect()
}

/// Splits a query without grouping. DISTINCT, ORDER BY, OFFSET and LIMIT apply to the rows of all shards; each shard returns its first
/// rows, with their sort keys. `keeps_order`: in the order of the query, if it has no limit either.
pub(super) fn of_rows(query: &Query, given: PartSource, keeps_order: bool) -> Option<(Query, Query)> {
    let QueryBody::Select(select) = &query.body else { return None };
    let mut part = query.clone();
    part.columns = columns_of(&select.outputs);
    part.offset = None;
    part.limit = match (&query.limit, &query.offset) {
        (Some(limit), Some(offset)) => {
            let (left, right) = (Box::new(limit.clone()), Box::new(or_none(offset)));
            let kind = ExprKind::Binary { op: BinaryOp::Add, left, right };
            Some(Expr { kind, ty: SqlType::Int8, span: limit.span })
        }
        (limit, _) => limit.clone(),
    };
    let is_on = matches!(select.distinct, Distinct::On(_));
    if let (true, QueryBody::Select(select)) = (is_on, &mut part.body) {
        select.distinct = Distinct::All;
        part.limit = None;
    }
    if part.limit.is_none() && !keeps_order {
        part.order_by.clear();
        part.with_ties = false;
    }
    let whole = Select { distinct: select.distinct.clone(), ..given.select(&select.outputs) };
    let body = QueryBody::Select(Box::new(whole));
    Some((part, Query { body, locks: Vec::new(), ctes: Vec::new(), ..query.clone() }))
}

/// Replaces OFFSET NULL by 0.
fn or_none(offset: &Expr) -> Expr {
    let none = Expr { kind: ExprKind::Literal(Value::Int(0)), ty: SqlType::Int8, span: offset.span };
    let kind = ExprKind::Coalesce(vec![offset.clone(), none]);
    Expr { kind, ty: SqlType::Int8, span: offset.span }
}

/// Splits a grouped query: each shard aggregates its own rows. `None`: some aggregate cannot be computed from partial aggregates.
pub(super) fn of_groups(query: &Query, given: PartSource) -> Option<(Query, Query)> {
    let QueryBody::Select(select) = &query.body else { return None };
    if select.outputs.iter().any(walk::has_window) {
        return None;
    }
    let mut groups = Groups { given, keys: select.group_by.clone(), partial: Vec::new() };
    let mut outputs = Vec::with_capacity(select.outputs.len());
    for output in &select.outputs {
        outputs.push(groups.merged(output)?);
    }
    let mut having = match &select.having {
        Some(having) => Some(groups.merged(having)?),
        None => None,
    };
    let Groups { keys, partial, .. } = groups;
    // Keys come first in the part's outputs; their number is known only now.
    let mut place = |expr: &mut Expr| {
        if let ExprKind::Column { relation, column } = &mut expr.kind
            && *relation == given.relation
            && *column >= PARTIAL
        {
            *column = *column - PARTIAL + keys.len();
        }
    };
    for expr in outputs.iter_mut().chain(&mut having) {
        weir_sql::walk::each_expr_mut(expr, &mut place);
    }
    let group_by = keys.iter().enumerate().map(|(at, key)| given.column(at, key)).collect();
    let parts: Vec<Expr> = keys.iter().chain(&partial).cloned().collect();
    let columns = columns_of(&parts);
    let part = Select {
        distinct: Distinct::All,
        outputs: parts,
        group_by: keys,
        having: None,
        aggregates: true,
        ..(**select).clone()
    };
    let whole = Select {
        distinct: select.distinct.clone(),
        group_by,
        having,
        aggregates: true,
        ..Select::plain(outputs, vec![given.item()], None)
    };
    let part = Query::of_select(part, columns, query.span);
    let body = QueryBody::Select(Box::new(whole));
    Some((part, Query { body, locks: Vec::new(), ctes: Vec::new(), ..query.clone() }))
}

/// First provisional column number of partial aggregates, until the number of keys is known.
const PARTIAL: ColumnIndex = ColumnIndex::MAX / 2;

struct Groups {
    given: PartSource,
    /// Grouping expressions, and columns that depend on them.
    keys: Vec<Expr>,
    partial: Vec<Expr>,
}

impl Groups {
    /// Rewrites an expression over the part's outputs.
    fn merged(&mut self, expr: &Expr) -> Option<Expr> {
        if let Some(at) = self.keys.iter().position(|key| print::same(key, expr)) {
            return Some(self.given.column(at, expr));
        }
        match &expr.kind {
            ExprKind::Aggregate(aggregate) => self.aggregate(aggregate, expr),
            // Constant within a group.
            ExprKind::Column { .. } => {
                self.keys.push(expr.clone());
                Some(self.given.column(self.keys.len() - 1, expr))
            }
            _ if walk::subquery(expr).is_some() => None,
            _ => {
                let mut merged = expr.clone();
                for part in weir_sql::walk::parts_mut(&mut merged) {
                    *part = self.merged(part)?;
                }
                Some(merged)
            }
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate, whole: &Expr) -> Option<Expr> {
        use AggregateFunction::*;
        if aggregate.distinct || !aggregate.order_by.is_empty() {
            return None;
        }
        let ty = whole.ty.base();
        match aggregate.function {
            Count => {
                let counts = self.part(aggregate, Count, SqlType::Int8, whole);
                Some(cast(sum_of(counts), SqlType::Int8))
            }
            Sum => {
                let sums = self.part(aggregate, Sum, ty.clone(), whole);
                Some(cast(sum_of(sums), ty))
            }
            Average => {
                let [argument] = &aggregate.args[..] else { return None };
                let sum_type = match argument.ty.base() {
                    ty if ty.is_integer() || matches!(ty, SqlType::Numeric(_)) => SqlType::Numeric(None),
                    SqlType::Float4 | SqlType::Float8 => SqlType::Float8,
                    _ => return None,
                };
                let args = vec![cast(argument.clone(), sum_type.clone())];
                let summed = Aggregate { args, ..aggregate.clone() };
                let sums = sum_of(self.part(&summed, Sum, sum_type.clone(), whole));
                let counts = cast(sum_of(self.part(aggregate, Count, SqlType::Int8, whole)), sum_type);
                let (left, right) = (Box::new(sums), Box::new(counts));
                let kind = ExprKind::Binary { op: BinaryOp::Divide, left, right };
                Some(Expr { kind, ty: whole.ty.clone(), span: whole.span })
            }
            same @ (Minimum | Maximum | BoolAnd | BoolOr | BitAnd | BitOr | BitXor) => {
                let values = self.part(aggregate, same, whole.ty.clone(), whole);
                Some(aggregate_of(same, values, whole.ty.clone()))
            }
            _ => None,
        }
    }

    /// Column of the part's output with this expression.
    fn part(
        &mut self,
        aggregate: &Aggregate,
        function: AggregateFunction,
        ty: SqlType,
        whole: &Expr,
    ) -> Expr {
        let kind = ExprKind::Aggregate(Box::new(Aggregate { function, ..aggregate.clone() }));
        let part = Expr { kind, ty, span: whole.span };
        let at = self.partial.iter().position(|have| print::same(have, &part)).unwrap_or(self.partial.len());
        if at == self.partial.len() {
            self.partial.push(part.clone());
        }
        self.given.column(PARTIAL + at, &part)
    }
}

fn aggregate_of(function: AggregateFunction, of: Expr, ty: SqlType) -> Expr {
    let span = of.span;
    let aggregate =
        Aggregate { function, args: vec![of], distinct: false, filter: None, order_by: Vec::new() };
    Expr { kind: ExprKind::Aggregate(Box::new(aggregate)), ty, span }
}

/// Sum, with the type that PostgreSQL gives it.
fn sum_of(of: Expr) -> Expr {
    let ty = match of.ty.base() {
        SqlType::Int2 | SqlType::Int4 => SqlType::Int8,
        SqlType::Int8 | SqlType::Numeric(_) => SqlType::Numeric(None),
        other => other,
    };
    aggregate_of(AggregateFunction::Sum, of, ty)
}

fn cast(operand: Expr, to: SqlType) -> Expr {
    if operand.ty.base() == to {
        return operand;
    }
    let span = operand.span;
    Expr { kind: ExprKind::Cast { operand: Box::new(operand), explicit: false }, ty: to, span }
}

/// A query over rows that shards have returned.
#[derive(Debug)]
pub struct CompiledMerge {
    query: CompiledQuery,
    /// Cell of the rows of each part.
    rows: Vec<CellId>,
}

impl CompiledMerge {
    /// `query` reads the rows of that many parts as the CTEs of a query around it.
    pub(super) fn compile(
        query: &Query,
        parts: usize,
        schema: &Schema,
        slots: &mut SlotAllocator,
    ) -> Result<CompiledMerge, SqlError> {
        slots.begin_query(query);
        let rows: Vec<CellId> = (0..parts).map(|_| slots.fresh_cell()).collect();
        let mut compiler = Compiler::new(schema, slots);
        compiler.ctes.push(rows.clone());
        let mut query = CompiledQuery::compile_in(query, &mut compiler)?;
        query.prune(slots);
        Ok(CompiledMerge { query, rows })
    }

    /// `parts`: the rows of each part.
    pub(super) fn of(
        &self,
        parts: Vec<Vec<Vec<Value>>>,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        cx.frame.begin_statement();
        for (&cell, rows) in self.rows.iter().zip(parts) {
            *cx.cell(cell) = Cell::Rows(Arc::new(rows.into()));
        }
        let mut merged = Vec::new();
        let _ = self.query.execute(cx, &mut |_, row| {
            merged.push(std::mem::take(row));
            Ok(ControlFlow::Continue(()))
        })?;
        cx.frame.begin_statement();
        Ok(merged)
    }
}
