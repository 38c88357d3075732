//! Queries, compiled and run push-style: every source calls its sink once per row, with the row's columns in the frame; the body pushes
//! finished rows on.

pub(crate) mod hash;
mod hash_join;
mod join;
mod merge;
mod node;
pub(crate) mod partitions;
mod select;
mod set;
mod set_operation;
pub(crate) mod sort;
mod source;
pub(crate) mod subquery;
#[cfg(test)]
mod tests;
pub(crate) mod tuplestore;
pub(crate) mod window;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use weir_sql::Span;
use weir_sql::bound::{Expr, ExprKind, LockWait, Query, QueryBody, RowLock, Select, SetOperator, SortOrder};
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, SqlType, Value};

pub(in crate::exec) use self::hash::ValueSet;
use self::select::CompiledSelect;
use self::sort::Sorter;
use self::tuplestore::Tuplestore;
use super::access::{TableAccess, unpack_row};
use super::compiler::Compiler;
use super::context::{Cell, Cx, Flow};
use super::expr::CompiledExpr;
use super::expr::compile::compile_list;
use super::slots::{CellId, ROW_IDENTITY, SlotAllocator};
use super::walk;
use crate::exec::counts::RowCounts;
use crate::storage::Schema;

/// Receives finished rows; it may move the values out of them.
pub type RowSink<'a> = &'a mut dyn FnMut(&mut Cx<'_>, &mut Vec<Value>) -> Flow;

#[derive(Debug)]
pub struct CompiledQuery {
    ctes: Vec<CompiledCte>,
    body: Body,
    /// Order of the rows. The columns of DISTINCT ON that ORDER BY does not name come last, so that equal rows follow each other.
    order: Vec<(usize, SortOrder)>,
    /// Number of columns of the order that ORDER BY names.
    named: usize,
    /// The source already delivers the rows in ORDER BY's order.
    presorted: bool,
    distinct_on: Option<Vec<usize>>,
    limit: Option<CompiledExpr>,
    offset: Option<CompiledExpr>,
    /// FETCH … WITH TIES: rows that sort equal to the last row within the limit are included.
    with_ties: bool,
    /// Cells computed once for each run of the query, and again when the rows of a CTE change.
    cells: Range<CellId>,
    /// Number of visible columns; hidden ones may follow.
    width: usize,
    /// Row locks of FOR UPDATE. The identities of the locked rows are the body's last outputs, from `identities` on.
    locks: Vec<RowLock>,
    identities: usize,
}

#[derive(Debug)]
struct CompiledCte {
    cell: CellId,
    query: CompiledQuery,
    /// The rows are the same throughout the statement.
    constant: bool,
    recursive: bool,
}

/// Limit on the rows of a recursive query; beyond it the recursion is assumed to be endless.
const RECURSION_ROWS_MAX: usize = 4_000_000;

#[derive(Debug)]
enum Body {
    Select(Box<CompiledSelect>),
    SetOperation { op: SetOperator, all: bool, left: Box<CompiledQuery>, right: Box<CompiledQuery> },
    Values(Vec<Vec<CompiledExpr>>),
}

impl CompiledQuery {
    /// Compiles a query that is a statement of its own, and registers its columns with the allocator.
    pub fn compile(
        query: &Query,
        schema: &Schema,
        slots: &mut SlotAllocator,
    ) -> Result<CompiledQuery, SqlError> {
        CompiledQuery::compile_counted(query, (schema, None), slots)
    }

    /// Compiles such a query for tables of about these sizes.
    pub(crate) fn compile_counted(
        query: &Query,
        (schema, counts): (&Schema, Option<&RowCounts>),
        slots: &mut SlotAllocator,
    ) -> Result<CompiledQuery, SqlError> {
        slots.note_query(query);
        let mut compiled =
            CompiledQuery::compile_in(query, &mut Compiler::new(schema, slots).with_counts(counts))?;
        compiled.prune(slots);
        Ok(compiled)
    }

    /// Ends the compilation of a query that is a statement of its own: drops unused columns.
    pub(crate) fn prune(&mut self, slots: &SlotAllocator) {
        self.ctes.iter_mut().for_each(|cte| cte.query.prune(slots));
        match &mut self.body {
            Body::Select(select) => select.source.prune(slots),
            Body::Values(_) => {}
            Body::SetOperation { left, right, .. } => {
                left.prune(slots);
                right.prune(slots);
            }
        }
    }

    /// Compiles a query inside a statement.
    pub(crate) fn compile_in(query: &Query, compiler: &mut Compiler<'_>) -> Result<CompiledQuery, SqlError> {
        compiler.ctes.push(Vec::new());
        let compiled = compile_scoped(query, compiler);
        compiler.ctes.pop();
        compiled
    }

    /// Runs the query as a statement of its own: clears the caches of subqueries first.
    pub fn run(
        &self,
        cx: &mut Cx<'_>,
        sink: &mut dyn FnMut(&mut Cx<'_>, &[Value]) -> Flow,
    ) -> Result<(), SqlError> {
        cx.frame.begin_statement();
        let result = self.execute(cx, &mut |cx, row| sink(cx, row));
        cx.frame.begin_statement();
        result.map(|_| ())
    }

    /// Computes the rows of the WITH queries.
    fn compute_ctes(&self, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        for cte in &self.ctes {
            if cte.constant && matches!(cx.cell(cte.cell), Cell::Rows(_)) {
                continue;
            }
            let rows = match cte.recursive {
                true => cte.recurse(cx)?,
                false => cte.query.collect(cx)?,
            };
            // Values cached from earlier rows of the CTE are stale.
            self.forget(cx);
            *cx.cell(cte.cell) = Cell::Rows(Arc::new(rows));
        }
        Ok(())
    }

    /// Table and outputs of a query that only looks up at most one row by its key.
    pub(crate) fn as_look_up(&self) -> Option<(&TableAccess, &[CompiledExpr])> {
        let Body::Select(select) = &self.body else { return None };
        let plain = self.ctes.is_empty()
            && self.order.is_empty()
            && self.limit.is_none()
            && self.offset.is_none()
            && self.distinct_on.is_none()
            && self.locks.is_empty();
        select.as_look_up().filter(|(_, outputs)| plain && outputs.len() == self.width)
    }

    /// Runs the query as a part of a statement that has begun.
    pub fn execute(&self, cx: &mut Cx<'_>, sink: RowSink<'_>) -> Flow {
        self.compute_ctes(cx)?;
        let skip = row_count(self.offset.as_ref(), "OFFSET", SqlState::INVALID_ROW_COUNT_IN_OFFSET, cx)?;
        let skip = skip.unwrap_or(0);
        let limit = row_count(self.limit.as_ref(), "LIMIT", SqlState::INVALID_ROW_COUNT_IN_LIMIT, cx)?;
        if limit == Some(0) {
            return Ok(ControlFlow::Continue(()));
        }
        let ties = self.with_ties.then_some(&self.order[..self.named]);
        let mut window = Window { skip, left: limit, width: self.width, enough: false, ties, last: None };
        let skips_locked = self.locks.iter().any(|lock| lock.wait == LockWait::Skip);
        if self.order.is_empty() || self.presorted {
            let flow = self.body_rows(cx, &mut |cx, row| {
                if !self.holds(cx, row)? {
                    return Ok(ControlFlow::Continue(()));
                }
                window.offer(cx, row, sink)
            })?;
            return Ok(window.outcome(flow));
        }
        let keep = match (limit, &self.distinct_on) {
            (Some(limit), None) if !self.with_ties && !skips_locked => Some(limit.saturating_add(skip)),
            _ => None,
        };
        let mut sorter = Sorter::new(&self.order, keep, cx.rows.temporary_files());
        let _ = self.body_rows(cx, &mut |_, row| {
            sorter.push(std::mem::take(row))?;
            Ok(ControlFlow::Continue(()))
        })?;
        let mut sorted = sorter.finish()?;
        let mut last: Option<Vec<Value>> = None;
        while let Some(mut row) = sorted.next_row()? {
            check()?;
            if let Some(columns) = &self.distinct_on {
                let distinct: Vec<Value> = columns.iter().map(|&c| row[c].clone()).collect();
                if last.as_ref() == Some(&distinct) {
                    continue;
                }
                last = Some(distinct);
            }
            if !self.holds(cx, &row)? {
                continue;
            }
            let flow = window.offer(cx, &mut row, sink)?;
            if flow.is_break() {
                return Ok(window.outcome(flow));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns whether it locks every row that it finds, directly and not through a subquery.
    pub(in crate::exec) fn holds_all(&self) -> bool {
        !self.locks.is_empty() && self.limit.is_none() && self.offset.is_none()
    }

    /// Locks the rows that an output row is made of; false if one of them is skipped because another transaction holds it. Called in
    /// output order, before OFFSET and LIMIT count the row.
    fn holds(&self, cx: &mut Cx<'_>, row: &[Value]) -> Result<bool, SqlError> {
        for (lock, identity) in self.locks.iter().zip(&row[row.len().min(self.identities)..]) {
            if let Some(of) = unpack_row(identity)
                && !cx.environment.hold(cx.rows, (lock.table, of), (lock.strength, lock.wait))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Clears the cells of the query's own expressions, but not those of its CTEs.
    fn forget(&self, cx: &mut Cx<'_>) {
        let kept: Vec<CellId> = self.ctes.iter().map(|cte| cte.cell).collect();
        for cell in self.cells.clone().filter(|cell| !kept.contains(cell)) {
            *cx.cell(cell) = Cell::Empty;
        }
    }

    fn body_rows(&self, cx: &mut Cx<'_>, sink: RowSink<'_>) -> Flow {
        match &self.body {
            Body::Select(select) => select.run(cx, sink),
            Body::Values(rows) => {
                for exprs in rows {
                    let mut row = Vec::with_capacity(exprs.len());
                    for expr in exprs {
                        row.push(expr.eval(cx)?);
                    }
                    if sink(cx, &mut row)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            Body::SetOperation { op: SetOperator::Union, all: true, left, right } => {
                if left.execute(cx, sink)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                right.execute(cx, sink)
            }
            Body::SetOperation { op, all, left, right } => {
                set_operation::run((*op, *all), (left, right), cx, sink)
            }
        }
    }

    /// Collects all rows.
    fn collect(&self, cx: &mut Cx<'_>) -> Result<Tuplestore, SqlError> {
        let files = cx.rows.temporary_files();
        let mut rows = Tuplestore::default();
        let _ = self.execute(cx, &mut |_, row| {
            check()?;
            rows.push(std::mem::take(row), files)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// All table accesses, including those in subqueries of FROM and WITH, but not those in subqueries of expressions.
    pub fn tables(&self) -> Vec<&TableAccess> {
        let mut tables = Vec::new();
        self.each_table(&mut |access| tables.push(access));
        tables
    }

    fn each_table<'a>(&'a self, visit: &mut dyn FnMut(&'a TableAccess)) {
        self.ctes.iter().for_each(|cte| cte.query.each_table(visit));
        match &self.body {
            Body::Select(select) => select.source.each_table(visit),
            Body::Values(_) => {}
            Body::SetOperation { left, right, .. } => {
                left.each_table(visit);
                right.each_table(visit);
            }
        }
    }
}

impl CompiledCte {
    /// Computes a recursive CTE: the rows of the left side, then repeatedly the right side over the rows of the previous round.
    fn recurse(&self, cx: &mut Cx<'_>) -> Result<Tuplestore, SqlError> {
        let Body::SetOperation { all, left, right, .. } = &self.query.body else {
            return self.query.collect(cx);
        };
        self.query.compute_ctes(cx)?;
        let files = cx.rows.temporary_files();
        let mut seen = ValueSet::default();
        let mut rows = Tuplestore::default();
        let mut term = left;
        loop {
            check()?;
            let mut last = Tuplestore::default();
            let _ = term.execute(cx, &mut |_, row| {
                check()?;
                if *all || seen.insert(row) {
                    rows.push(row.clone(), files)?;
                    last.push(std::mem::take(row), files)?;
                }
                within_recursion(rows.len())
            })?;
            if last.len() == 0 {
                return Ok(rows);
            }
            right.forget(cx);
            right.ctes.iter().for_each(|cte| *cx.cell(cte.cell) = Cell::Empty);
            *cx.cell(self.cell) = Cell::Rows(Arc::new(last));
            term = right;
        }
    }
}

/// Ends a recursion that has given too many rows.
fn within_recursion(rows: usize) -> Flow {
    if rows > RECURSION_ROWS_MAX {
        let message = "the recursive query has given four million rows and more";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_hint("say in its recursive term where it ends"));
    }
    Ok(ControlFlow::Continue(()))
}

/// State of OFFSET and LIMIT.
struct Window<'q> {
    skip: usize,
    left: Option<usize>,
    width: usize,
    /// The sink has asked to stop.
    enough: bool,
    /// WITH TIES: sort keys of the rows.
    ties: Option<&'q [(usize, SortOrder)]>,
    /// Sort keys of the last row within the limit.
    last: Option<Vec<Value>>,
}

impl Window<'_> {
    fn offer(&mut self, cx: &mut Cx<'_>, row: &mut Vec<Value>, sink: RowSink<'_>) -> Flow {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(order) = self.ties {
            let keys: Vec<Value> = order.iter().map(|&(column, _)| row[column].clone()).collect();
            if self.left == Some(0) {
                let orders: Vec<SortOrder> = order.iter().map(|(_, order)| *order).collect();
                if !self.last.as_ref().is_some_and(|last| sort::compare_by(last, &keys, &orders).is_eq()) {
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.last = Some(keys);
        }
        row.truncate(self.width);
        let flow = sink(cx, row)?;
        self.enough |= flow.is_break();
        match &mut self.left {
            Some(left) => {
                *left = left.saturating_sub(1);
                Ok(if *left == 0 && self.ties.is_none() { ControlFlow::Break(()) } else { flow })
            }
            None => Ok(flow),
        }
    }

    /// Reaching the limit ends this query, not the surrounding one.
    fn outcome(&self, flow: ControlFlow<()>) -> ControlFlow<()> {
        if self.left == Some(0) && !self.enough { ControlFlow::Continue(()) } else { flow }
    }
}

/// Value of LIMIT or OFFSET; none: there is no such clause, or it is NULL.
pub(super) fn row_count(
    expr: Option<&CompiledExpr>,
    clause: &str,
    state: SqlState,
    cx: &mut Cx<'_>,
) -> Result<Option<usize>, SqlError> {
    let Some(expr) = expr else { return Ok(None) };
    match expr.eval(cx)? {
        Value::Int(count) => usize::try_from(count)
            .map(Some)
            .map_err(|_| SqlError::new(state, format!("{clause} must not be negative"))),
        _ => Ok(None),
    }
}

fn compile_scoped(query: &Query, compiler: &mut Compiler<'_>) -> Result<CompiledQuery, SqlError> {
    let first_cell = compiler.slots.next_cell();
    let mut ctes = Vec::with_capacity(query.ctes.len());
    for cte in &query.ctes {
        let cell = compiler.slots.fresh_cell();
        // Only a recursive CTE may refer to itself.
        if let (Some(scope), true) = (compiler.ctes.last_mut(), cte.recursive) {
            scope.push(cell);
        }
        let compiled = CompiledQuery::compile_in(&cte.query, compiler)?;
        if let (Some(scope), false) = (compiler.ctes.last_mut(), cte.recursive) {
            scope.push(cell);
        }
        let constant = walk::outer_relations(&cte.query).is_empty() && !walk::query_is_volatile(&cte.query);
        ctes.push(CompiledCte { cell, query: compiled, constant, recursive: cte.recursive });
    }
    let mut order: Vec<(usize, SortOrder)> =
        query.order_by.iter().map(|order| (order.output, order.order)).collect();
    let named = order.len();
    let mut presorted = false;
    let mut distinct_on = None;
    let mut identities = usize::MAX;
    let body = match &query.body {
        QueryBody::Select(select) => {
            if let weir_sql::bound::Distinct::On(columns) = &select.distinct {
                distinct_on = Some(columns.clone());
                for &column in columns {
                    if order.iter().all(|(named, _)| *named != column) {
                        order.push((column, SortOrder::ASCENDING));
                    }
                }
            }
            let with_identities;
            let mut select = select;
            if !query.locks.is_empty() {
                with_identities = Box::new(Select {
                    outputs: select.outputs.iter().cloned().chain(query.locks.iter().map(identity)).collect(),
                    ..(**select).clone()
                });
                for lock in &query.locks {
                    compiler.slots.column(lock.relation, ROW_IDENTITY);
                }
                identities = select.outputs.len();
                select = &with_identities;
            }
            let mut compiled = CompiledSelect::compile(select, compiler)?;
            if !order.is_empty() && distinct_on.is_none() {
                presorted = compiled.deliver_in_order(select, &order, query.limit.is_some(), compiler.schema);
            }
            Body::Select(Box::new(compiled))
        }
        QueryBody::SetOperation { op, all, left, right } => Body::SetOperation {
            op: *op,
            all: *all,
            left: Box::new(CompiledQuery::compile_in(left, compiler)?),
            right: Box::new(CompiledQuery::compile_in(right, compiler)?),
        },
        QueryBody::Values(rows) => {
            let mut compiled = Vec::with_capacity(rows.len());
            for row in rows {
                compiled.push(compile_list(row, compiler)?);
            }
            Body::Values(compiled)
        }
    };
    let count = |expr: &Option<weir_sql::bound::Expr>, compiler: &mut Compiler<'_>| {
        expr.as_ref().map(|expr| CompiledExpr::compile(expr, compiler)).transpose()
    };
    Ok(CompiledQuery {
        ctes,
        body,
        order,
        named,
        presorted,
        distinct_on,
        limit: count(&query.limit, compiler)?,
        offset: count(&query.offset, compiler)?,
        with_ties: query.with_ties,
        cells: first_cell..compiler.slots.next_cell(),
        width: query.columns.len(),
        locks: query.locks.clone(),
        identities,
    })
}

fn identity(lock: &RowLock) -> Expr {
    let kind = ExprKind::Column { relation: lock.relation, column: ROW_IDENTITY };
    Expr { kind, ty: SqlType::Int8, span: Span::default() }
}
