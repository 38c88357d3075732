//! The literals of bound trees: where small domains take their constants from.

use std::collections::BTreeSet;

use weir_sql::Application;
use weir_sql::bound::{Expr, ExprKind, Step, StepKind};
use weir_sql::walk::{each_expr, each_expr_of_query, each_step};
use weir_txn::exec::walk::each_statement_expr;
use weir_types::SqlType;
use weir_types::text::to_text;

/// A literal, as text; `number` if it is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constant {
    pub text: String,
    pub number: bool,
}

/// The literal that the expression is, if it is one.
pub fn of_expr(expr: &Expr) -> Option<Constant> {
    let ExprKind::Literal(value) = &expr.kind else { return None };
    let known = !value.is_null() && !matches!(expr.ty, SqlType::Opaque(_) | SqlType::Array(_));
    known.then(|| Constant { text: to_text(value, &expr.ty), number: expr.ty.is_number() })
}

/// The literals of a procedure and of those that it calls.
pub fn of_procedure(app: &Application, procedure: usize) -> BTreeSet<Constant> {
    let mut found = BTreeSet::new();
    let mut todo = vec![procedure];
    let mut seen = BTreeSet::new();
    while let Some(procedure) = todo.pop() {
        if !seen.insert(procedure) {
            continue;
        }
        each_step(&app.procedures[procedure].body, &mut |step| {
            if let StepKind::Call { procedure, .. } = step.kind {
                todo.push(procedure);
            }
            each_expr_of_step(step, &mut |part| found.extend(of_expr(part)));
        });
    }
    found
}

/// Every expression of a step itself, not of the steps that it holds.
pub fn each_expr_of_step(step: &Step, visit: &mut dyn FnMut(&Expr)) {
    let mut exprs: Vec<&Expr> = Vec::new();
    match &step.kind {
        StepKind::Assign { value, .. } => exprs.push(value),
        StepKind::AssignElement { index, value, .. } => exprs.extend([index, value]),
        StepKind::Sql { statement, .. } => each_statement_expr(statement, visit),
        StepKind::If { branches, .. } => exprs.extend(branches.iter().map(|(condition, _)| condition)),
        StepKind::ForRange { from, to, by, .. } => exprs.extend([from, to].into_iter().chain(by)),
        StepKind::ForQuery { query, .. } | StepKind::ReturnQuery { query } => {
            each_expr_of_query(query, visit);
        }
        StepKind::ForEach { array, .. } => exprs.push(array),
        StepKind::While { condition, .. } => exprs.push(condition),
        StepKind::Call { args, .. } => exprs.extend(args),
        StepKind::Assert { condition, .. } => exprs.push(condition),
        _ => {}
    }
    exprs.into_iter().for_each(|expr| each_expr(expr, &mut |part| visit(part)));
}
