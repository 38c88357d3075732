//! Constant folding before rows are read, like PostgreSQL's planner (`eval_const_expressions`): a condition that is never true reads
//! nothing, and an error in a constant fails the statement even without rows.
//!
//! Only immutable functions are folded (as PostgreSQL defines it): nothing that depends on time, sequences, randomness or the date style.

use std::sync::{Arc, LazyLock};

use weir_sql::bound::{Expr, ExprKind, FromItem, InsertSource, Query, QueryBody, Select, Statement};
use weir_sql::walk::{parts_mut, subquery_mut};
use weir_sql::{each_planned_expr, is_constant_operation};
use weir_types::datetime::SessionZone;
use weir_types::interrupt::{Interrupts, StatementId};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::compiler::Compiler;
use super::context::Frame;
use super::expr::CompiledExpr;
use super::slots::SlotAllocator;
use super::write::operation::eval_alone;
use crate::storage::Schema;

/// Folds constants. An expression that fails remains unchanged.
///
/// # Errors
/// The first failing expression that PostgreSQL's planner would evaluate.
pub fn fold(statement: &mut Statement) -> Result<(), SqlError> {
    let mut folder = Folder { error: None, is_met: true };
    match statement {
        Statement::Query(query) => folder.query(query, true),
        Statement::Insert(insert) => {
            // The expressions of VALUES are evaluated for each row anyway.
            if let InsertSource::Query(query) = &mut insert.source {
                folder.query(query, true);
            }
            if let Some((assignments, filter)) =
                insert.on_conflict.as_mut().and_then(|conflict| conflict.update.as_mut())
            {
                assignments.iter_mut().for_each(|(_, expr)| folder.expr(expr));
                filter.iter_mut().for_each(|expr| folder.expr(expr));
            }
            insert.returning.iter_mut().for_each(|(_, expr)| folder.expr(expr));
        }
        Statement::Update(update) => {
            update.assignments.iter_mut().for_each(|(_, expr)| folder.expr(expr));
            update.returning.iter_mut().for_each(|(_, expr)| folder.expr(expr));
            update.from.iter_mut().for_each(|item| folder.from(item));
            update.filter.iter_mut().for_each(|expr| folder.expr(expr));
        }
        Statement::Delete(delete) => {
            delete.returning.iter_mut().for_each(|(_, expr)| folder.expr(expr));
            delete.using.iter_mut().for_each(|item| folder.from(item));
            delete.filter.iter_mut().for_each(|expr| folder.expr(expr));
        }
    }
    folder.error.map_or(Ok(()), Err)
}

/// Returns whether [`fold`] may change the statement or fail.
pub fn may_fold(statement: &Statement) -> bool {
    let is_known = |expr: &Expr| matches!(expr.kind, ExprKind::Literal(Value::Bool(_) | Value::Null));
    let mut found = false;
    each_planned_expr(statement, &mut |expr| {
        found = found
            || is_constant_operation(expr)
            || match &expr.kind {
                ExprKind::And(list) | ExprKind::Or(list) | ExprKind::Coalesce(list) => {
                    list.iter().any(is_known)
                }
                ExprKind::Not(operand) => is_known(operand),
                ExprKind::Case { whens, .. } => whens.iter().any(|(condition, _)| is_known(condition)),
                ExprKind::Binary { left, right, .. } => is_known(left) || is_known(right),
                _ => false,
            };
    });
    found
}

/// Returns whether the condition is a constant other than true.
pub(super) fn is_never(condition: &Expr) -> bool {
    matches!(condition.kind, ExprKind::Literal(Value::Bool(false) | Value::Null))
}

struct Folder {
    error: Option<SqlError>,
    /// PostgreSQL's planner evaluates the current part; false for parts that it drops, such as unused outputs of a subquery.
    is_met: bool,
}

impl Folder {
    fn query(&mut self, query: &mut Query, outputs_are_met: bool) {
        for cte in &mut query.ctes {
            // The CTE may be unreferenced.
            let outer = std::mem::replace(&mut self.is_met, false);
            self.query(&mut cte.query, false);
            self.is_met = outer;
        }
        self.body(&mut query.body, outputs_are_met);
        query.limit.iter_mut().chain(&mut query.offset).for_each(|expr| self.expr(expr));
    }

    fn body(&mut self, body: &mut QueryBody, outputs_are_met: bool) {
        match body {
            QueryBody::Select(select) => self.select(select, outputs_are_met),
            QueryBody::SetOperation { left, right, .. } => {
                self.query(left, outputs_are_met);
                self.query(right, outputs_are_met);
            }
            QueryBody::Values(rows) => {
                let rows = rows.iter_mut().flatten();
                rows.for_each(|expr| self.met(expr, outputs_are_met));
            }
        }
    }

    fn select(&mut self, select: &mut Select, outputs_are_met: bool) {
        // GROUP BY expressions are matched by their form, so they must not change.
        if !select.aggregates {
            select.outputs.iter_mut().for_each(|expr| self.met(expr, outputs_are_met));
        }
        select.from.iter_mut().for_each(|item| self.from(item));
        select.filter.iter_mut().for_each(|expr| self.expr(expr));
    }

    fn from(&mut self, item: &mut FromItem) {
        match item {
            FromItem::Subquery { query, .. } => self.query(query, false),
            FromItem::Function { calls, .. } => {
                calls.iter_mut().flat_map(|call| &mut call.args).for_each(|expr| self.expr(expr));
            }
            FromItem::Values { rows, .. } => {
                rows.iter_mut().flatten().for_each(|expr| self.met(expr, false));
            }
            FromItem::Join { left, right, on, .. } => {
                self.from(left);
                self.from(right);
                on.iter_mut().for_each(|on| self.expr(on));
            }
            FromItem::Table { .. } | FromItem::Cte { .. } => {}
        }
    }

    fn met(&mut self, expr: &mut Expr, is_met: bool) {
        let outer = self.is_met;
        self.is_met = outer && is_met;
        self.expr(expr);
        self.is_met = outer;
    }

    fn expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::And(list) => {
                let list = std::mem::take(list);
                expr.kind = self.junction(list, false);
            }
            ExprKind::Or(list) => {
                let list = std::mem::take(list);
                expr.kind = self.junction(list, true);
            }
            ExprKind::Case { whens, otherwise } => {
                let (whens, otherwise) = (std::mem::take(whens), otherwise.take());
                *expr = self.case(whens, otherwise, expr);
            }
            ExprKind::Coalesce(list) => {
                let list = std::mem::take(list);
                *expr = self.coalesce(list, expr);
            }
            _ => self.operation(expr),
        }
    }

    /// Folds AND, or OR if `decides` is true: the first deciding constant is the result, and the operands after it are ignored.
    fn junction(&mut self, list: Vec<Expr>, decides: bool) -> ExprKind {
        let (mut left, mut null) = (Vec::with_capacity(list.len()), None);
        for mut one in list {
            self.expr(&mut one);
            match one.kind {
                ExprKind::Literal(Value::Bool(value)) if value == decides => {
                    return ExprKind::Literal(Value::Bool(decides));
                }
                ExprKind::Literal(Value::Bool(_)) => {}
                ExprKind::Literal(Value::Null) => null = Some(one),
                _ => left.push(one),
            }
        }
        left.extend(null);
        match left.len() {
            0 => ExprKind::Literal(Value::Bool(!decides)),
            1 => left.swap_remove(0).kind,
            _ if decides => ExprKind::Or(left),
            _ => ExprKind::And(left),
        }
    }

    fn case(&mut self, whens: Vec<(Expr, Expr)>, otherwise: Option<Box<Expr>>, whole: &Expr) -> Expr {
        let (mut left, mut last) = (Vec::with_capacity(whens.len()), None);
        for (mut condition, mut result) in whens {
            self.expr(&mut condition);
            match condition.kind {
                ExprKind::Literal(Value::Bool(true)) => {
                    self.expr(&mut result);
                    last = Some(Box::new(result));
                    break;
                }
                ExprKind::Literal(Value::Bool(false) | Value::Null) => {}
                _ => {
                    self.expr(&mut result);
                    left.push((condition, result));
                }
            }
        }
        let otherwise = last.or_else(|| {
            let mut otherwise = otherwise?;
            self.expr(&mut otherwise);
            Some(otherwise)
        });
        let kind = match (left.is_empty(), otherwise) {
            (true, Some(otherwise)) if otherwise.ty == whole.ty => return *otherwise,
            (true, None) => ExprKind::Literal(Value::Null),
            (_, otherwise) => ExprKind::Case { whens: left, otherwise },
        };
        Expr { kind, ty: whole.ty.clone(), span: whole.span }
    }

    fn coalesce(&mut self, list: Vec<Expr>, whole: &Expr) -> Expr {
        let mut left = Vec::with_capacity(list.len());
        for mut one in list {
            self.expr(&mut one);
            match one.kind {
                ExprKind::Literal(Value::Null) => {}
                ExprKind::Literal(_) => {
                    left.push(one);
                    break;
                }
                _ => left.push(one),
            }
        }
        let kind = match &left[..] {
            [] => ExprKind::Literal(Value::Null),
            [one] if one.ty == whole.ty => return left.swap_remove(0),
            _ => ExprKind::Coalesce(left),
        };
        Expr { kind, ty: whole.ty.clone(), span: whole.span }
    }

    /// Folds an operation that evaluates all its operands first.
    fn operation(&mut self, expr: &mut Expr) {
        parts_mut(expr).into_iter().for_each(|part| self.expr(part));
        let is_exists = matches!(expr.kind, ExprKind::Exists { .. });
        if let Some(query) = subquery_mut(expr) {
            return self.query(query, !is_exists);
        }
        if is_null_for_sure(expr) {
            expr.kind = ExprKind::Literal(Value::Null);
        } else if is_constant_operation(expr) {
            let (value, is_of_zone) = SessionZone::is_asked(|| value_of(expr));
            match value {
                // The session's time zone may change before the statement runs.
                _ if is_of_zone => {}
                Err(error) if is_of_bounds(&error) => {}
                Ok(value) => expr.kind = ExprKind::Literal(value),
                Err(error) if self.is_met => {
                    self.error.get_or_insert(error);
                }
                Err(_) => {}
            }
        }
    }
}

/// Returns whether a strict operator has a NULL operand.
fn is_null_for_sure(expr: &Expr) -> bool {
    let ExprKind::Binary { left, right, .. } = &expr.kind else { return false };
    let is_plain = |ty: &SqlType| {
        ty.is_integer() || matches!(ty.base(), SqlType::Numeric(_) | SqlType::Float4 | SqlType::Float8)
    };
    let is_null = |one: &Expr| matches!(one.kind, ExprKind::Literal(Value::Null));
    is_plain(&left.ty) && is_plain(&right.ty) && (is_null(left) || is_null(right))
}

/// Checks and bytes that one constant may take while it is folded. What takes more stays as it is: where it runs, it can be interrupted.
const STEPS_MAX: u64 = 10_000;
const MEMORY_BYTES_MAX: u64 = 4 << 20;

static BOUNDS: LazyLock<Arc<Interrupts>> = LazyLock::new(|| {
    let bounds = Interrupts::default();
    bounds.set_steps_max(STEPS_MAX);
    bounds.set_memory_max(MEMORY_BYTES_MAX);
    Arc::new(bounds)
});

/// The evaluation was given up at a bound. The expression itself may be right.
fn is_of_bounds(error: &SqlError) -> bool {
    [SqlState::QUERY_CANCELED, SqlState::OUT_OF_MEMORY, SqlState::PROGRAM_LIMIT_EXCEEDED]
        .contains(&error.state())
}

fn value_of(expr: &Expr) -> Result<Value, SqlError> {
    let _watch = BOUNDS.watch(StatementId::default());
    let (schema, mut slots) = (Schema { tables: Vec::new() }, SlotAllocator::new(0));
    let compiled = CompiledExpr::compile(expr, &mut Compiler::new(&schema, &mut slots))?;
    let mut frame = Frame::default();
    frame.grow(slots.slots_max(), slots.cells_max());
    eval_alone(&compiled, &mut frame, 0.into())
}
