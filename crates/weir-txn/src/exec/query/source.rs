//! Rows that do not come from a table: derived tables, CTEs, VALUES, `generate_series` and `unnest`.

use std::ops::ControlFlow;

use weir_sql::bound::TableFunction;
use weir_types::operator::{self, BinaryOp};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::CompiledQuery;
use super::node::all_true;
use crate::exec::access::{Sink, TableAccess};
use crate::exec::context::{Cell, Cx, Flow};
use crate::exec::expr::{BinaryFunction, CompiledExpr};
use crate::exec::slots::{CellId, Slot};

#[derive(Debug)]
pub struct RowSource {
    pub kind: SourceKind,
    /// Which output goes to which slot; unused outputs go nowhere.
    pub targets: Vec<(usize, Slot)>,
    pub filter: Vec<CompiledExpr>,
}

#[derive(Debug)]
pub enum SourceKind {
    Query(Box<CompiledQuery>),
    Cte(CellId),
    Values(Vec<Vec<CompiledExpr>>),
    Function(FunctionSource),
}

pub struct FunctionSource {
    pub function: TableFunction,
    pub args: Vec<CompiledExpr>,
    /// `generate_series`: how to take a step.
    pub step: Option<BinaryFunction>,
    /// The default step.
    pub one: Value,
}

impl std::fmt::Debug for FunctionSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Function").field(&self.function).field(&self.args).finish()
    }
}

impl RowSource {
    pub fn slots(&self) -> Vec<Slot> {
        self.targets.iter().map(|&(_, slot)| slot).collect()
    }

    pub fn each_table<'a>(&'a self, visit: &mut dyn FnMut(&'a TableAccess)) {
        if let SourceKind::Query(query) = &self.kind {
            query.each_table(visit);
        }
    }

    pub fn run(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        match &self.kind {
            SourceKind::Query(query) => query.execute(cx, &mut |cx, row| {
                for &(output, slot) in &self.targets {
                    cx.frame.set(slot, std::mem::take(&mut row[output]));
                }
                self.pass(cx, sink)
            }),
            SourceKind::Cte(cell) => {
                let Cell::Rows(rows) = cx.cell(*cell).clone() else {
                    return Ok(ControlFlow::Continue(()));
                };
                for row in rows.iter() {
                    for &(output, slot) in &self.targets {
                        cx.frame.set(slot, row[output].clone());
                    }
                    if self.pass(cx, sink)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            SourceKind::Values(rows) => {
                for row in rows {
                    for &(output, slot) in &self.targets {
                        let value = row[output].eval(cx)?;
                        cx.frame.set(slot, value);
                    }
                    if self.pass(cx, sink)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            SourceKind::Function(function) => {
                let mut args = Vec::with_capacity(function.args.len());
                for arg in &function.args {
                    args.push(arg.eval(cx)?);
                }
                match function.function {
                    TableFunction::Unnest => self.unnest(&args, cx, sink),
                    TableFunction::GenerateSeries => self.series(function, args, cx, sink),
                }
            }
        }
    }

    fn pass(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        if all_true(&self.filter, cx)? { sink(cx) } else { Ok(ControlFlow::Continue(())) }
    }

    fn unnest(&self, args: &[Value], cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        let length = |value: &Value| match value {
            Value::Array(array) => array.values.len(),
            _ => 0,
        };
        let rows = args.iter().map(length).max().unwrap_or(0);
        for row in 0..rows {
            for &(output, slot) in &self.targets {
                let value = match args.get(output) {
                    Some(Value::Array(array)) => array.values.get(row).cloned().unwrap_or_default(),
                    Some(_) => Value::Null,
                    None => Value::Int(row as i64 + 1),
                };
                cx.frame.set(slot, value);
            }
            if self.pass(cx, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn series(&self, function: &FunctionSource, args: Vec<Value>, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        let mut args = args.into_iter();
        let mut current = args.next().unwrap_or_default();
        let end = args.next().unwrap_or_default();
        let step = args.next().unwrap_or_else(|| function.one.clone());
        if [&current, &end, &step].iter().any(|value| value.is_null() || value.is_deferred()) {
            return Ok(ControlFlow::Continue(()));
        }
        let ascending = match sign(&step) {
            0 => {
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
            }
            sign => sign > 0,
        };
        let Some(add) = function.step else { return Ok(ControlFlow::Continue(())) };
        let mut ordinal = 0;
        loop {
            let order = weir_types::compare::compare(&current, &end);
            if (ascending && order.is_gt()) || (!ascending && order.is_lt()) {
                return Ok(ControlFlow::Continue(()));
            }
            ordinal += 1;
            for &(output, slot) in &self.targets {
                let value = if output == 0 { current.clone() } else { Value::Int(ordinal) };
                cx.frame.set(slot, value);
            }
            if self.pass(cx, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            // The last step may overflow, which ends the series.
            match add(&current, &step) {
                Ok(next) => current = next,
                Err(_) => return Ok(ControlFlow::Continue(())),
            }
        }
    }
}

/// How `generate_series` over this type takes a step, and its default step.
pub fn series_step(args: &[SqlType]) -> Result<(BinaryFunction, Value), SqlError> {
    let (Some(start), step) = (args.first(), args.get(2)) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            "generate_series takes two or three arguments",
        ));
    };
    let step = step.unwrap_or(start);
    let one = match start {
        SqlType::Numeric(_) => Value::Numeric(weir_types::numeric::Numeric::from_i64(1)),
        _ => Value::Int(1),
    };
    Ok((operator::specialise(BinaryOp::Add, start, step), one))
}

fn sign(step: &Value) -> i32 {
    match step {
        Value::Int(step) => step.signum() as i32,
        Value::Numeric(step) => step.signum(),
        Value::Interval(step) => step.span_microseconds().signum() as i32,
        _ => 1,
    }
}
