//! Subqueries in expressions.
//!
//! An uncorrelated subquery is computed once per statement. A correlated one runs for each outer row, by an index; if no index serves it
//! and it runs more than a few times, it is computed once for all keys (decorrelated), so that a check over a large table stays linear.

use std::ops::ControlFlow;
use std::sync::Arc;

use weir_sql::bound::{Distinct, Expr, ExprKind, OutputColumn, Query, QueryBody, Select};
use weir_types::operator::{BinaryOp, Comparison};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::CompiledQuery;
use super::hash::{ValueMap, ValueSet};
use super::tuplestore::Tuplestore;
use crate::exec::compiler::Compiler;
use crate::exec::context::{Cell, Cx};
use crate::exec::expr::compile::{binary_test, compile_list};
use crate::exec::expr::eval::quantified;
use crate::exec::expr::{BinaryTest, CompiledExpr, Truth};
use crate::exec::slots::CellId;
use crate::exec::walk::{self, Relations};

/// Number of row-by-row runs before a correlated subquery is computed for all keys.
const RUNS_BEFORE_HASH: u32 = 3;

/// A correlated subquery that can be computed for all keys at once.
#[derive(Debug)]
struct Decorrelated {
    cell: CellId,
    /// Key expressions over the outer row.
    outer: Vec<CompiledExpr>,
    /// Query that returns the key columns, then the value.
    grouped: CompiledQuery,
    /// Query for the value of a key without rows.
    empty: Option<CompiledQuery>,
}

/// Conditions `inner = outer`, separated from the others.
struct Correlation<'a> {
    inner: Vec<&'a Expr>,
    outer: Vec<&'a Expr>,
    conditions: Vec<&'a Expr>,
    rest: Vec<&'a Expr>,
}

#[derive(Debug)]
pub struct ScalarSubquery {
    query: CompiledQuery,
    /// Cell of an uncorrelated subquery.
    cell: Option<CellId>,
    decorrelated: Option<Decorrelated>,
}

#[derive(Debug)]
pub struct ExistsSubquery {
    query: CompiledQuery,
    negated: bool,
    cell: Option<CellId>,
    decorrelated: Option<Decorrelated>,
}

#[derive(Debug)]
pub struct ArraySubquery {
    query: CompiledQuery,
    element: SqlType,
    cell: Option<CellId>,
}

pub struct QuantifiedSubquery {
    left: Vec<CompiledExpr>,
    query: CompiledQuery,
    test: BinaryTest,
    all: bool,
    /// `IN` or `NOT IN`, evaluated by a hash set.
    membership: bool,
    cell: Option<CellId>,
}

impl std::fmt::Debug for QuantifiedSubquery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuantifiedSubquery").field("left", &self.left).field("query", &self.query).finish()
    }
}

/// Cell for a subquery that returns the same rows throughout the statement.
fn constant_cell(query: &Query, compiler: &mut Compiler<'_>) -> Option<CellId> {
    let constant = walk::outer_relations(query).is_empty() && !walk::query_is_volatile(query);
    constant.then(|| compiler.slots.fresh_cell())
}

/// Separates the correlation, if it consists only of equalities in the WHERE clause.
fn correlation(query: &Query) -> Option<Correlation<'_>> {
    let outer_relations = walk::outer_relations(query);
    let QueryBody::Select(select) = &query.body else { return None };
    let plain = query.limit.is_none()
        && !select.outputs.iter().any(walk::has_window)
        && query.offset.is_none()
        && query.ctes.is_empty()
        && !outer_relations.is_empty()
        && !walk::query_is_volatile(query);
    if !plain {
        return None;
    }
    let mut elsewhere = Relations::new();
    let mut note = |expr: &Expr| {
        if let ExprKind::Column { relation, .. } = expr.kind {
            elsewhere.insert(relation);
        }
    };
    select.from.iter().for_each(|item| walk::each_from_expr(item, &mut |expr| note(expr)));
    select
        .outputs
        .iter()
        .chain(&select.group_by)
        .chain(&select.having)
        .for_each(|expr| walk::each_expr(expr, &mut |expr| note(expr)));
    if !elsewhere.is_disjoint(&outer_relations) {
        return None;
    }
    let conditions: Vec<&Expr> = select.filter.iter().flat_map(walk::conjuncts).collect();
    let mut correlation = Correlation { inner: vec![], outer: vec![], conditions: vec![], rest: vec![] };
    for condition in conditions {
        if walk::relations_read(condition).is_disjoint(&outer_relations) {
            correlation.rest.push(condition);
            continue;
        }
        let ExprKind::Binary { op: BinaryOp::Equal, left, right } = &condition.kind else { return None };
        let (left_reads, right_reads) = (walk::relations_read(left), walk::relations_read(right));
        let (inner, outer) = match (
            left_reads.is_disjoint(&outer_relations) && right_reads.is_subset(&outer_relations),
            right_reads.is_disjoint(&outer_relations) && left_reads.is_subset(&outer_relations),
        ) {
            (true, _) => (left, right),
            (_, true) => (right, left),
            _ => return None,
        };
        correlation.inner.push(inner);
        correlation.outer.push(outer);
        correlation.conditions.push(condition);
    }
    Some(correlation)
}

/// The query over all keys: key columns first, then `outputs`.
fn grouped_query(query: &Query, correlation: &Correlation<'_>, outputs: &[Expr], group: bool) -> Query {
    let keys: Vec<Expr> = correlation.inner.iter().map(|&expr| expr.clone()).collect();
    let rest: Vec<Expr> = correlation.rest.iter().map(|&expr| expr.clone()).collect();
    let columns: Vec<Expr> = keys.iter().chain(outputs).cloned().collect();
    let from = match &query.body {
        QueryBody::Select(select) => select.from.clone(),
        _ => Vec::new(),
    };
    let filter = conjunction(rest);
    select_query(
        Select {
            distinct: Distinct::All,
            outputs: columns,
            from,
            filter,
            group_by: if group { keys } else { Vec::new() },
            having: None,
            aggregates: group,
        },
        query,
    )
}

fn conjunction(mut list: Vec<Expr>) -> Option<Expr> {
    match list.len() {
        0 => None,
        1 => list.pop(),
        _ => Some(Expr { ty: SqlType::Bool, span: list[0].span, kind: ExprKind::And(list) }),
    }
}

fn select_query(select: Select, like: &Query) -> Query {
    let columns =
        select.outputs.iter().map(|output| OutputColumn::new(String::new(), output.ty.clone())).collect();
    Query::of_select(select, columns, like.span)
}

/// Query for the outputs over no rows: `count(*)` is 0, `sum(x)` NULL.
fn empty_query(query: &Query, select: &Select) -> Query {
    let never = Expr { kind: ExprKind::Literal(Value::Bool(false)), ty: SqlType::Bool, span: query.span };
    let select = Select::plain(select.outputs.clone(), Vec::new(), Some(never));
    select_query(Select { aggregates: true, ..select }, query)
}

impl Decorrelated {
    /// Computes keys and values of all rows (or groups).
    fn fill(&self, cx: &mut Cx<'_>) -> Result<Arc<ValueMap>, SqlError> {
        let mut map = ValueMap::default();
        let keys = self.outer.len();
        let _ = self.grouped.execute(cx, &mut |_, row| {
            let value = row.get_mut(keys).map_or(Value::Bool(true), std::mem::take);
            if !row[..keys].iter().any(Value::is_null) {
                map.insert(&row[..keys], value);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(Arc::new(map))
    }

    /// The map, once computing it pays; before that `None`, and the subquery runs row by row.
    fn map(&self, cx: &mut Cx<'_>) -> Option<Arc<ValueMap>> {
        match cx.cell(self.cell) {
            Cell::Map(map) => return Some(map.clone()),
            Cell::Runs(u32::MAX) => return None,
            Cell::Runs(runs) if *runs >= RUNS_BEFORE_HASH => {}
            Cell::Runs(runs) => {
                *runs += 1;
                return None;
            }
            cell => {
                *cell = Cell::Runs(1);
                return None;
            }
        }
        // An error may occur in a group that is never asked for: then evaluation stays row by row.
        match self.fill(cx) {
            Ok(map) => {
                *cx.cell(self.cell) = Cell::Map(map.clone());
                Some(map)
            }
            Err(_) => {
                *cx.cell(self.cell) = Cell::Runs(u32::MAX);
                None
            }
        }
    }

    /// Key of the outer row; `None` if it cannot match.
    fn key(&self, cx: &mut Cx<'_>) -> Result<Option<Vec<Value>>, SqlError> {
        let mut key = Vec::with_capacity(self.outer.len());
        for expr in &self.outer {
            let value = expr.eval(cx)?;
            if value.is_null() || value.is_deferred() {
                return Ok(None);
            }
            key.push(value);
        }
        Ok(Some(key))
    }
}

impl ScalarSubquery {
    pub fn compile(query: &Query, compiler: &mut Compiler<'_>) -> Result<ScalarSubquery, SqlError> {
        let cell = constant_cell(query, compiler);
        let aggregate = match &query.body {
            QueryBody::Select(select)
                if select.aggregates && select.group_by.is_empty() && select.having.is_none() =>
            {
                correlation(query).map(|correlation| (select, correlation))
            }
            _ => None,
        };
        let Some((select, correlation)) = aggregate else {
            let query = compile_again(query, compiler)?;
            return Ok(ScalarSubquery { query, cell, decorrelated: None });
        };
        let (compiled, indexed) =
            compiler.watch_consumed(&correlation.conditions, |compiler| compile_again(query, compiler))?;
        let mut decorrelated = None;
        if !indexed {
            let outputs = &select.outputs[..1.min(select.outputs.len())];
            let grouped = grouped_query(query, &correlation, outputs, true);
            decorrelated = Some(Decorrelated {
                cell: compiler.slots.fresh_cell(),
                outer: compile_refs(&correlation.outer, compiler)?,
                grouped: compile_again(&grouped, compiler)?,
                empty: Some(compile_again(&empty_query(query, select), compiler)?),
            });
        }
        Ok(ScalarSubquery { query: compiled, cell, decorrelated })
    }

    pub fn eval(&self, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
        if let Some(cell) = self.cell {
            if let Cell::Scalar(value) = cx.cell(cell) {
                return Ok(value.clone());
            }
            let value = single_value(&self.query, cx)?;
            *cx.cell(cell) = Cell::Scalar(value.clone());
            return Ok(value);
        }
        if let Some(decorrelated) = &self.decorrelated
            && let Some(map) = decorrelated.map(cx)
        {
            if let Some(key) = decorrelated.key(cx)?
                && let Some(value) = map.get(&key)
            {
                return Ok(value.clone());
            }
            return match &decorrelated.empty {
                Some(empty) => single_value(empty, cx),
                None => Ok(Value::Null),
            };
        }
        single_value(&self.query, cx)
    }
}

fn compile_refs(list: &[&Expr], compiler: &mut Compiler<'_>) -> Result<Vec<CompiledExpr>, SqlError> {
    list.iter().map(|expr| CompiledExpr::compile(expr, compiler)).collect()
}

fn single_value(query: &CompiledQuery, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
    let mut found = None;
    let _ = query.execute(cx, &mut |_, row| {
        if found.is_some() {
            return Err(SqlError::new(
                SqlState::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            ));
        }
        found = Some(row.first_mut().map(std::mem::take).unwrap_or_default());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found.unwrap_or_default())
}

impl ExistsSubquery {
    pub fn compile(
        query: &Query,
        negated: bool,
        compiler: &mut Compiler<'_>,
    ) -> Result<ExistsSubquery, SqlError> {
        let mut query = query.clone();
        let mut plain = false;
        query.order_by.clear();
        if let QueryBody::Select(select) = &mut query.body
            && !select.aggregates
            && (matches!(select.distinct, Distinct::All) || query.offset.is_none())
        {
            // Only the existence of a row matters; an OFFSET counts those that are distinct.
            select.outputs.clear();
            select.distinct = Distinct::All;
            query.columns.clear();
            plain = true;
        }
        let cell = constant_cell(&query, compiler);
        let Some(correlation) = correlation(&query).filter(|_| plain) else {
            let query = compile_again(&query, compiler)?;
            return Ok(ExistsSubquery { query, negated, cell, decorrelated: None });
        };
        let (compiled, indexed) =
            compiler.watch_consumed(&correlation.conditions, |compiler| compile_again(&query, compiler))?;
        let mut decorrelated = None;
        if !indexed {
            let grouped = grouped_query(&query, &correlation, &[], false);
            decorrelated = Some(Decorrelated {
                cell: compiler.slots.fresh_cell(),
                outer: compile_refs(&correlation.outer, compiler)?,
                grouped: compile_again(&grouped, compiler)?,
                empty: None,
            });
        }
        Ok(ExistsSubquery { query: compiled, negated, cell, decorrelated })
    }

    pub fn eval(&self, cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
        if let Some(cell) = self.cell
            && let Cell::Scalar(value) = cx.cell(cell)
        {
            return Ok(Truth::of(value));
        }
        if let Some(decorrelated) = &self.decorrelated
            && let Some(map) = decorrelated.map(cx)
        {
            let key = decorrelated.key(cx)?;
            let found = key.is_some_and(|key| map.get(&key).is_some());
            return Ok(Truth::from(found != self.negated));
        }
        let mut found = false;
        let _ = self.query.execute(cx, &mut |_, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        let truth = Truth::from(found != self.negated);
        if let Some(cell) = self.cell {
            *cx.cell(cell) = Cell::Scalar(truth.into_value());
        }
        Ok(truth)
    }
}

impl ArraySubquery {
    pub fn compile(
        query: &Query,
        element: SqlType,
        compiler: &mut Compiler<'_>,
    ) -> Result<ArraySubquery, SqlError> {
        let cell = constant_cell(query, compiler);
        Ok(ArraySubquery { query: compile_again(query, compiler)?, element, cell })
    }

    pub fn eval(&self, cx: &mut Cx<'_>) -> Result<Value, SqlError> {
        if let Some(cell) = self.cell
            && let Cell::Scalar(value) = cx.cell(cell)
        {
            return Ok(value.clone());
        }
        let mut values = Vec::new();
        let _ = self.query.execute(cx, &mut |_, row| {
            values.push(row.first_mut().map(std::mem::take).unwrap_or_default());
            Ok(ControlFlow::Continue(()))
        })?;
        let value = Value::array(self.element.clone(), values);
        if let Some(cell) = self.cell {
            *cx.cell(cell) = Cell::Scalar(value.clone());
        }
        Ok(value)
    }
}

impl QuantifiedSubquery {
    pub fn compile(
        op: BinaryOp,
        left: &[Expr],
        query: &Query,
        all: bool,
        compiler: &mut Compiler<'_>,
    ) -> Result<QuantifiedSubquery, SqlError> {
        let membership = matches!((op, all), (BinaryOp::Equal, false) | (BinaryOp::NotEqual, true));
        if left.len() != 1 && !membership {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "rows can be compared with a subquery only by IN and NOT IN",
            ));
        }
        let right = query.columns.first().map_or(SqlType::Unknown, |column| column.ty.clone());
        let test = match left {
            [left] => binary_test(op, &left.ty, &right)?,
            _ => BinaryTest::Compare(Comparison::Equal),
        };
        Ok(QuantifiedSubquery {
            left: compile_list(left, compiler)?,
            query: compile_again(query, compiler)?,
            test,
            all,
            membership,
            cell: constant_cell(query, compiler),
        })
    }

    pub fn eval(&self, cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
        let mut left = Vec::with_capacity(self.left.len());
        for expr in &self.left {
            left.push(expr.eval(cx)?);
        }
        if self.membership {
            return Ok(self.is_member(&left, cx)?.not_if(self.all));
        }
        let left = left.pop().unwrap_or_default();
        let mut truth = Truth::from(self.all);
        let mut compare = |row: &[Value]| {
            let holds = quantified(self.test, &left, row.iter().take(1), self.all)?;
            truth = if self.all { truth.and(holds) } else { truth.or(holds) };
            let decided = truth == Truth::from(!self.all);
            Ok(if decided { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let _ = match self.cell {
            None => self.query.execute(cx, &mut |_, row| compare(row))?,
            Some(cell) => self.rows(cell, cx)?.each(cx.rows.temporary_files(), &mut compare)?,
        };
        Ok(truth)
    }

    /// The rows of a query that gives the same ones throughout the statement.
    fn rows(&self, cell: CellId, cx: &mut Cx<'_>) -> Result<Arc<Tuplestore>, SqlError> {
        if let Cell::Rows(rows) = cx.cell(cell) {
            return Ok(rows.clone());
        }
        let rows = Arc::new(self.query.collect(cx)?);
        *cx.cell(cell) = Cell::Rows(rows.clone());
        Ok(rows)
    }

    /// Evaluates `left IN (query)`.
    fn is_member(&self, left: &[Value], cx: &mut Cx<'_>) -> Result<Truth, SqlError> {
        if left.iter().any(Value::is_deferred) {
            return Ok(Truth::Deferred);
        }
        let Some(cell) = self.cell else {
            let mut truth = Truth::False;
            let _ = self.query.execute(cx, &mut |_, row| {
                truth = truth.or(row_equals(left, row));
                Ok(if truth.is_true() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            return Ok(truth);
        };
        let set = match cx.cell(cell) {
            Cell::Set(set) => set.clone(),
            _ => {
                let mut set = ValueSet::default();
                let _ = self.query.execute(cx, &mut |_, row| {
                    set.insert(row);
                    Ok(ControlFlow::Continue(()))
                })?;
                let set = Arc::new(set);
                *cx.cell(cell) = Cell::Set(set.clone());
                set
            }
        };
        if !left.iter().any(Value::is_null) {
            if set.contains(left) {
                return Ok(Truth::True);
            }
            return Ok(set.with_null().fold(Truth::False, |truth, row| truth.or(row_equals(left, row))));
        }
        Ok(set.iter().fold(Truth::False, |truth, row| truth.or(row_equals(left, row))))
    }
}

/// Compares `(a, b) = (c, d)`: false if one pair differs, whatever the others are.
fn row_equals(left: &[Value], right: &[Value]) -> Truth {
    left.iter().zip(right).fold(Truth::True, |truth, (left, right)| {
        truth.and(match (left, right) {
            (Value::Deferred, _) | (_, Value::Deferred) => Truth::Deferred,
            (Value::Null, _) | (_, Value::Null) => Truth::Unknown,
            (left, right) => Truth::from(weir_types::compare::equal(left, right)),
        })
    })
}

/// Compiles a subquery that may run for each outer row.
fn compile_again(query: &Query, compiler: &mut Compiler<'_>) -> Result<CompiledQuery, SqlError> {
    compiler.again(|compiler| CompiledQuery::compile_in(query, compiler))
}
