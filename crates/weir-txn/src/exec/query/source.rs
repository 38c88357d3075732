//! Rows that do not come from a table: derived tables, CTEs, VALUES, functions.

use std::ops::ControlFlow;

use weir_sql::bound::TableFunction;
use weir_types::interrupt::check;
use weir_types::operator::{self, BinaryOp};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::CompiledQuery;
use super::node::all_true;
use super::set;
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
    /// Side by side.
    Functions(Vec<FunctionSource>),
}

pub struct FunctionSource {
    pub function: TableFunction,
    pub args: Vec<CompiledExpr>,
    /// Number of columns that it gives.
    pub width: usize,
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
                let files = cx.rows.temporary_files();
                rows.each(files, &mut |row| {
                    for &(output, slot) in &self.targets {
                        cx.frame.set(slot, row[output].clone());
                    }
                    self.pass(cx, sink)
                })
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
            SourceKind::Functions(functions) => match &functions[..] {
                [function] if function.function == TableFunction::GenerateSeries => {
                    let args = function.evaluate(cx)?;
                    self.series(function, args, cx, sink)
                }
                functions => self.side_by_side(functions, cx, sink),
            },
        }
    }

    fn pass(&self, cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        check()?;
        if all_true(&self.filter, cx)? { sink(cx) } else { Ok(ControlFlow::Continue(())) }
    }

    /// Row by row until the last function has given all of its rows.
    fn side_by_side(&self, functions: &[FunctionSource], cx: &mut Cx<'_>, sink: Sink<'_>) -> Flow {
        let mut columns: Vec<Vec<Value>> = Vec::new();
        for function in functions {
            let args = function.evaluate(cx)?;
            let rows = match function.function {
                TableFunction::GenerateSeries => {
                    let mut rows = Vec::new();
                    let _ = function.each(args, &mut |value, _| {
                        rows.push(vec![value.clone()]);
                        Ok(ControlFlow::Continue(()))
                    })?;
                    rows
                }
                of => set::rows(of, &args)?,
            };
            let mut own: Vec<Vec<Value>> = vec![Vec::with_capacity(rows.len()); function.width];
            for row in rows {
                own.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            }
            columns.extend(own);
        }
        let count = columns.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..count {
            for &(output, slot) in &self.targets {
                let value = match columns.get_mut(output) {
                    Some(column) => column.get_mut(row).map(std::mem::take).unwrap_or_default(),
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
        function.each(args, &mut |current, ordinal| {
            for &(output, slot) in &self.targets {
                let value = if output == 0 { current.clone() } else { Value::Int(ordinal) };
                cx.frame.set(slot, value);
            }
            self.pass(cx, sink)
        })
    }
}

impl FunctionSource {
    fn evaluate(&self, cx: &mut Cx<'_>) -> Result<Vec<Value>, SqlError> {
        self.args.iter().map(|arg| arg.eval(cx)).collect()
    }

    /// Every value of a series, with its number from 1.
    fn each(&self, args: Vec<Value>, visit: &mut dyn FnMut(&Value, i64) -> Flow) -> Flow {
        let mut args = args.into_iter();
        let mut current = args.next().unwrap_or_default();
        let end = args.next().unwrap_or_default();
        let step = args.next().unwrap_or_else(|| self.one.clone());
        if [&current, &end, &step].iter().any(|value| value.is_null() || value.is_deferred()) {
            return Ok(ControlFlow::Continue(()));
        }
        let ascending = match sign(&step) {
            0 => {
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
            }
            sign => sign > 0,
        };
        let Some(add) = self.step else { return Ok(ControlFlow::Continue(())) };
        let mut ordinal = 0;
        loop {
            let order = weir_types::compare::compare(&current, &end);
            if (ascending && order.is_gt()) || (!ascending && order.is_lt()) {
                return Ok(ControlFlow::Continue(()));
            }
            check()?;
            ordinal += 1;
            if visit(&current, ordinal)?.is_break() {
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

/// The step function of `generate_series` over this type, and its default step.
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
