//! Assertions as checks: of the whole database at rest, and of one row while it runs.

pub mod incremental;

use std::ops::ControlFlow;

use weir_sql::Catalog;
use weir_sql::bound::{
    BinaryOp, Expr, ExprKind, FromItem, OutputColumn, Query, QueryBody, RelationId, Select, VariableId,
};
use weir_sql::catalog::{Assertion, TableId};
use weir_types::text::to_text;
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::compiler::Compiler;
use super::context::{Cx, Frame};
use super::expr::CompiledExpr;
use super::gather::Gather;
use super::program::Program;
use super::query::CompiledQuery;
use super::sequences::Sequences;
use super::slots::SlotAllocator;
use crate::storage::Rows;

/// Result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub holds: bool,
    /// Rows of the table that the assertion ranges over; 1 for an assertion that is a single condition.
    pub rows_checked: u64,
    /// The first violating row: column and value.
    pub violation: Option<Vec<(String, String)>>,
}

/// The query of `NOT EXISTS (SELECT … FROM t WHERE …)` yields the violating rows; any other assertion is one condition.
#[derive(Debug)]
pub struct CompiledAssertion {
    pub name: String,
    check: Check,
    slots: usize,
    cells: usize,
    /// Check of one row, by the primary key of the table that the assertion ranges over, if possible.
    pub audit: Option<Audit>,
}

#[derive(Debug)]
enum Check {
    NoRow { violating: Box<CompiledQuery>, columns: Vec<(String, SqlType)>, table: TableId },
    Condition(CompiledExpr),
}

/// The assertion for the row with a given primary key.
#[derive(Debug)]
pub struct Audit {
    pub table: TableId,
    pub key: Vec<usize>,
    pub gather: Gather,
}

impl CompiledAssertion {
    pub fn compile(
        assertion: &Assertion,
        catalog: &Catalog,
        program: &Program,
    ) -> Result<CompiledAssertion, SqlError> {
        let mut slots = SlotAllocator::new(0);
        let Some((query, relation, table)) = ranges_over(&assertion.expr) else {
            slots.begin_expr(&assertion.expr);
            let condition =
                CompiledExpr::compile(&assertion.expr, &mut Compiler::new(&program.schema, &mut slots))?;
            let check = Check::Condition(condition);
            return Ok(CompiledAssertion {
                name: assertion.name.clone(),
                check,
                slots: slots.slots_max(),
                cells: slots.cells_max(),
                audit: None,
            });
        };
        let shown = showing_rows(query, relation, table, catalog);
        slots.begin_query(&shown);
        let violating = CompiledQuery::compile(&shown, &program.schema, &mut slots)?;
        let columns = shown.columns.iter().map(|column| (column.name.clone(), column.ty.clone())).collect();
        let audit = match &catalog.table(table).primary_key {
            Some(key) => {
                let narrowed = narrowed(&shown, relation, table, &key.columns, catalog);
                let gather = Gather::compile(&narrowed, key.columns.len(), program)?.at_most(1);
                Some(Audit { table, key: key.columns.clone(), gather })
            }
            None => None,
        };
        let check = Check::NoRow { violating: Box::new(violating), columns, table };
        Ok(CompiledAssertion {
            name: assertion.name.clone(),
            check,
            slots: slots.slots_max(),
            cells: slots.cells_max(),
            audit,
        })
    }

    /// Checks the whole database, at rest.
    pub fn check(&self, rows: &dyn Rows, program: &Program) -> Result<Verdict, SqlError> {
        let mut frame = Frame::default();
        frame.grow(self.slots, self.cells);
        let mut sequences = Sequences::default();
        let mut environment = sequences.environment(program, 0, 0.into());
        let mut cx =
            Cx { frame: &mut frame, rows, transaction_time: 0.into(), environment: &mut environment };
        match &self.check {
            Check::Condition(condition) => {
                // SQL-92: an assertion is violated only if it is false, not if it is NULL.
                let holds = !matches!(condition.eval(&mut cx)?, Value::Bool(false));
                Ok(Verdict { holds, rows_checked: 1, violation: None })
            }
            Check::NoRow { violating, columns, table } => {
                let mut violation = None;
                violating.run(&mut cx, &mut |_, row| {
                    violation = Some(self.describe(columns, row));
                    Ok(ControlFlow::Break(()))
                })?;
                Ok(Verdict {
                    holds: violation.is_none(),
                    rows_checked: rows.row_count(*table) as u64,
                    violation,
                })
            }
        }
    }

    fn describe(&self, columns: &[(String, SqlType)], row: &[Value]) -> Vec<(String, String)> {
        columns.iter().zip(row).map(|((name, ty), value)| (name.clone(), shown(value, ty))).collect()
    }
}

/// A query for the first row that violates an assertion of the form `NOT EXISTS (…)`; for any other one it gives a row if the assertion is
/// false.
pub(super) fn violating(assertion: &Assertion, catalog: &Catalog) -> Query {
    let expr = &assertion.expr;
    let mut query = match (ranges_over(expr), not_exists(expr)) {
        (Some((query, relation, table)), _) => showing_rows(query, relation, table, catalog),
        (None, Some(query)) => query.clone(),
        (None, None) => {
            let not = Expr { kind: ExprKind::Not(Box::new(expr.clone())), ..expr.clone() };
            let shown = literal(Value::Bool(true), SqlType::Bool);
            let select = Select::plain(vec![shown], Vec::new(), Some(not));
            let columns = vec![OutputColumn::new("violated".to_owned(), SqlType::Bool)];
            Query::of_select(select, columns, expr.span)
        }
    };
    query.limit.get_or_insert(literal(Value::Int(1), SqlType::Int8));
    query
}

fn literal(value: Value, ty: SqlType) -> Expr {
    Expr { kind: ExprKind::Literal(value), ty, span: Default::default() }
}

/// Error of a transaction after which an assertion does not hold. `row`: of [`violating`].
pub(super) fn violated(assertion: &Assertion, catalog: &Catalog, row: &[Value]) -> SqlError {
    let error = |what: &str| {
        let message = format!("assertion \"{}\" {what}", assertion.name);
        SqlError::new(SqlState::CHECK_VIOLATION, message).with_constraint(assertion.name.clone())
    };
    if not_exists(&assertion.expr).is_none() {
        return error("is false of the rows that there are");
    }
    let columns = violating(assertion, catalog).columns;
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    let values: Vec<String> =
        columns.iter().zip(row).map(|(column, value)| shown(value, &column.ty)).collect();
    let detail = format!("Failing rows contain ({}) = ({}).", names.join(", "), values.join(", "));
    error("is violated by some row").with_detail(detail)
}

fn shown(value: &Value, ty: &SqlType) -> String {
    if value.is_null() { "NULL".to_string() } else { to_text(value, ty) }
}

/// Query of `NOT EXISTS (…)`.
fn not_exists(expr: &Expr) -> Option<&Query> {
    match &expr.kind {
        ExprKind::Exists { query, negated: true } => Some(query),
        ExprKind::Not(operand) => match &operand.kind {
            ExprKind::Exists { query, negated: false } => Some(query),
            _ => None,
        },
        _ => None,
    }
}

/// Query for the violating rows of `NOT EXISTS (SELECT … FROM t …)`.
fn ranges_over(expr: &Expr) -> Option<(&Query, RelationId, TableId)> {
    let query = not_exists(expr)?;
    let QueryBody::Select(select) = &query.body else { return None };
    match select.from.as_slice() {
        [FromItem::Table { relation, table, .. }] if !select.aggregates => Some((query, *relation, *table)),
        _ => None,
    }
}

/// The query with the table's columns as its output.
fn showing_rows(query: &Query, relation: RelationId, table: TableId, catalog: &Catalog) -> Query {
    let mut shown = query.clone();
    let QueryBody::Select(select) = &mut shown.body else {
        unreachable!("only a SELECT ranges over a table")
    };
    let columns = &catalog.table(table).columns;
    select.outputs = (0..columns.len()).map(|column| column_of(relation, table, column, catalog)).collect();
    shown.columns =
        columns.iter().map(|column| OutputColumn::new(column.name.clone(), column.ty.clone())).collect();
    shown.order_by.clear();
    shown
}

pub(super) fn column_of(relation: RelationId, table: TableId, column: usize, catalog: &Catalog) -> Expr {
    Expr {
        kind: ExprKind::Column { relation, column },
        ty: catalog.table(table).columns[column].ty.clone(),
        span: Default::default(),
    }
}

/// The query restricted to one row, whose primary key is in the variables.
fn narrowed(query: &Query, relation: RelationId, table: TableId, key: &[usize], catalog: &Catalog) -> Query {
    let mut narrowed = query.clone();
    let QueryBody::Select(select) = &mut narrowed.body else {
        unreachable!("only a SELECT ranges over a table")
    };
    let conditions = equal_to_variables((relation, table), key, 0, catalog);
    let filter = conditions.into_iter().chain(select.filter.take()).collect();
    select.filter = Some(Expr { kind: ExprKind::And(filter), ty: SqlType::Bool, span: Default::default() });
    narrowed
}

/// The conditions that these columns equal the variables from `first` on.
pub(super) fn equal_to_variables(
    (relation, table): (RelationId, TableId),
    columns: &[usize],
    first: usize,
    catalog: &Catalog,
) -> Vec<Expr> {
    let equal = |(&column, variable): (&usize, usize)| {
        let left = column_of(relation, table, column, catalog);
        let variable = ExprKind::Variable(VariableId(variable as u32));
        let right = Expr { kind: variable, ty: left.ty.clone(), span: left.span };
        let kind = ExprKind::Binary { op: BinaryOp::Equal, left: Box::new(left), right: Box::new(right) };
        Expr { kind, ty: SqlType::Bool, span: Default::default() }
    };
    columns.iter().zip(first..).map(equal).collect()
}
