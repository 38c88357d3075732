//! Window functions over all rows (or groups) of a SELECT.
//!
//! Functions over the same PARTITION BY and ORDER BY share a sort. The rows are sorted, and read partition by partition ([`partition`]); for
//! each row the functions are computed ([`function`]) over their frames ([`frame`]), and the results are put behind it. Then it goes to the
//! next sort, or to the outputs. Rows of a partition that have no room in memory are in a temporary file.

mod frame;
mod function;
mod partition;

use std::ops::{ControlFlow, Range};

use weir_sql::bound::{
    Aggregate, Expr, FrameBound, FrameExclusion, FrameUnit, SortOrder, WindowCall, WindowFunction,
};
use weir_sql::print;
use weir_types::interrupt::check;
use weir_types::operator::{self, BinaryOp};
use weir_types::{SqlError, SqlState, SqlType, Value};

use self::frame::{Bound, Offsets, key_type};
use self::function::Evaluation;
use self::partition::{Partition, SortedRows};
use super::RowSink;
use super::node::{CONTINUE, append_slots};
use super::sort::{Sorted, Sorter};
use crate::exec::access::Sink;
use crate::exec::aggregate::CompiledAggregate;
use crate::exec::compiler::Compiler;
use crate::exec::context::{Cx, Flow};
use crate::exec::expr::compile::compile_list;
use crate::exec::expr::{BinaryFunction, CompiledExpr};
use crate::exec::slots::Slot;
use crate::exec::walk;
use crate::storage::temporary::TemporaryFiles;

/// All window functions of a SELECT.
#[derive(Debug)]
pub struct Windows {
    /// Slots of a row (or group) that outputs read.
    saved: Vec<Slot>,
    /// At least one.
    sorts: Vec<WindowSort>,
    /// Number of columns of a row before the results: its saved slots, and the inputs of each sort.
    width: usize,
}

/// A PARTITION BY and ORDER BY, and the functions over it.
pub struct WindowSort {
    of: SortedBy,
    partition: Vec<CompiledExpr>,
    order: Vec<CompiledExpr>,
    orders: Vec<SortOrder>,
    calls: Vec<WindowColumns>,
    /// Where its inputs are in a row.
    partition_columns: Range<usize>,
    order_columns: Range<usize>,
    /// Sort key of the rows.
    key: Vec<(usize, SortOrder)>,
}

/// A function, and where its inputs are in a row.
struct WindowColumns {
    call: CompiledWindow,
    args: Range<usize>,
    /// Whether the row passes FILTER.
    passes: usize,
}

/// PARTITION BY and ORDER BY as they are written, which tell sorts apart.
struct SortedBy {
    partition: Vec<Expr>,
    order: Vec<(Expr, SortOrder)>,
}

struct CompiledWindow {
    function: WindowFunction,
    args: Vec<CompiledExpr>,
    aggregate: Option<CompiledAggregate>,
    filter: Option<CompiledExpr>,
    unit: FrameUnit,
    start: Bound,
    end: Bound,
    exclusion: FrameExclusion,
    /// Functions that subtract a RANGE offset from the sort key, and add it.
    steps: Option<(BinaryFunction, BinaryFunction)>,
    /// `lag` and `lead`: the distance is the same for all rows.
    is_distance_constant: bool,
    /// Slot of the result.
    output: Slot,
}

impl std::fmt::Debug for WindowSort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let calls: Vec<_> = self.calls.iter().map(|of| (of.call.function, &of.call.args)).collect();
        f.debug_tuple("WindowSort").field(&self.partition).field(&self.order).field(&calls).finish()
    }
}

impl SortedBy {
    fn is(&self, other: &SortedBy) -> bool {
        let mut partitions = self.partition.iter().zip(&other.partition);
        let mut orders = self.order.iter().zip(&other.order);
        self.partition.len() == other.partition.len()
            && self.order.len() == other.order.len()
            && partitions.all(|(left, right)| print::same(left, right))
            && orders.all(|((left, order), (right, other))| order == other && print::same(left, right))
    }
}

impl CompiledWindow {
    fn compile(
        call: &WindowCall,
        result: &SqlType,
        compiler: &mut Compiler<'_>,
    ) -> Result<CompiledWindow, SqlError> {
        let aggregate = match call.function {
            WindowFunction::Aggregate(function) => {
                let aggregate = Aggregate {
                    function,
                    args: call.args.clone(),
                    distinct: false,
                    filter: None,
                    order_by: Vec::new(),
                };
                Some(CompiledAggregate::compile(&aggregate, result, compiler)?)
            }
            _ => None,
        };
        let offset = call.frame.start.offset().or(call.frame.end.offset());
        let steps = match (call.frame.unit, &call.order_by[..], offset) {
            (FrameUnit::Range, [(key, _)], Some(offset)) => {
                let step = |op| operator::specialise(op, &key_type(&key.ty), &offset.ty);
                Some((step(BinaryOp::Subtract), step(BinaryOp::Add)))
            }
            _ => None,
        };
        let mut bound = |bound: &FrameBound| {
            Ok::<Bound, SqlError>(match bound {
                FrameBound::UnboundedPreceding => Bound::UnboundedPreceding,
                FrameBound::Preceding(offset) => Bound::Preceding(CompiledExpr::compile(offset, compiler)?),
                FrameBound::CurrentRow => Bound::CurrentRow,
                FrameBound::Following(offset) => Bound::Following(CompiledExpr::compile(offset, compiler)?),
                FrameBound::UnboundedFollowing => Bound::UnboundedFollowing,
            })
        };
        let (start, end) = (bound(&call.frame.start)?, bound(&call.frame.end)?);
        let is_constant = |expr: &Expr| walk::relations_read(expr).is_empty() && !walk::is_volatile(expr);
        Ok(CompiledWindow {
            function: call.function,
            args: compile_list(&call.args, compiler)?,
            aggregate,
            filter: call.filter.as_ref().map(|filter| CompiledExpr::compile(filter, compiler)).transpose()?,
            unit: call.frame.unit,
            start,
            end,
            exclusion: call.frame.exclusion,
            steps,
            is_distance_constant: call.args.get(1).is_none_or(is_constant),
            output: compiler.slots.fresh(),
        })
    }
}

impl WindowSort {
    /// With one function. Returns the slot of its result, too.
    pub fn compile(
        call: &WindowCall,
        result: &SqlType,
        compiler: &mut Compiler<'_>,
    ) -> Result<(WindowSort, Slot), SqlError> {
        let keys: Vec<Expr> = call.order_by.iter().map(|(expr, _)| expr.clone()).collect();
        let of = SortedBy { partition: call.partition_by.clone(), order: call.order_by.clone() };
        let call_compiled = CompiledWindow::compile(call, result, compiler)?;
        let slot = call_compiled.output;
        let sort = WindowSort {
            of,
            partition: compile_list(&call.partition_by, compiler)?,
            order: compile_list(&keys, compiler)?,
            orders: call.order_by.iter().map(|(_, order)| *order).collect(),
            calls: vec![WindowColumns { call: call_compiled, args: 0..0, passes: 0 }],
            partition_columns: 0..0,
            order_columns: 0..0,
            key: Vec::new(),
        };
        Ok((sort, slot))
    }

    /// Adds it to the sorts, or its function to the sort that is the same.
    pub fn add_to(self, sorts: &mut Vec<WindowSort>) {
        match sorts.iter_mut().find(|sort| sort.of.is(&self.of)) {
            Some(sort) => sort.calls.extend(self.calls),
            None => sorts.push(self),
        }
    }

    /// Places its inputs in a row from a column on. Returns the column behind them.
    fn place(&mut self, column: usize) -> usize {
        let mut column = column;
        let mut take = |many: usize| {
            column += many;
            column - many..column
        };
        self.partition_columns = take(self.partition.len());
        self.order_columns = take(self.order.len());
        for of in &mut self.calls {
            of.args = take(of.call.args.len());
            of.passes = take(1).start;
        }
        let ascending = self.partition_columns.clone().map(|column| (column, SortOrder::ASCENDING));
        self.key = ascending.chain(self.order_columns.clone().zip(self.orders.iter().copied())).collect();
        column
    }

    /// Appends its inputs to a row: those of the row in the frame.
    fn append_inputs(&self, row: &mut Vec<Value>, cx: &mut Cx<'_>) -> Result<(), SqlError> {
        for expr in self.partition.iter().chain(&self.order) {
            row.push(not_deferred(expr.eval(cx)?)?);
        }
        for WindowColumns { call, .. } in &self.calls {
            for arg in &call.args {
                row.push(not_deferred(arg.eval(cx)?)?);
            }
            let passes = match &call.filter {
                Some(filter) => filter.truth(cx)?.is_true(),
                None => true,
            };
            row.push(Value::Bool(passes));
        }
        Ok(())
    }

    /// Reads the sorted rows, and passes each on with the results of the functions behind it.
    fn run(
        &self,
        sorted: Sorted<'_>,
        files: Option<&dyn TemporaryFiles>,
        cx: &mut Cx<'_>,
        sink: RowSink<'_>,
    ) -> Flow {
        let mut rows = SortedRows::new(sorted)?;
        if rows.is_empty() {
            return CONTINUE;
        }
        let mut offsets = Vec::with_capacity(self.calls.len());
        for of in &self.calls {
            offsets.push(Offsets::of(&of.call, cx)?);
        }
        while !rows.is_empty() {
            if self.run_partition(&mut rows, &offsets, files, cx, sink)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        CONTINUE
    }

    fn run_partition(
        &self,
        rows: &mut SortedRows<'_>,
        offsets: &[Offsets],
        files: Option<&dyn TemporaryFiles>,
        cx: &mut Cx<'_>,
        sink: RowSink<'_>,
    ) -> Flow {
        let mut partition = Partition::new(self, rows, files)?;
        let mut evaluations: Vec<Evaluation<'_>> = Vec::with_capacity(self.calls.len());
        for (of, offsets) in self.calls.iter().zip(offsets) {
            evaluations.push(Evaluation::new(of, offsets, &mut partition)?);
        }
        let mut results = Vec::with_capacity(self.calls.len());
        loop {
            check()?;
            for evaluation in &mut evaluations {
                results.push(evaluation.value(&mut partition)?);
            }
            let needed = evaluations.iter().map(|evaluation| evaluation.needs_from(&partition)).min();
            let mut row = partition.current_row(needed.unwrap_or(usize::MAX))?;
            row.append(&mut results);
            if sink(cx, &mut row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if !partition.advance()? {
                return CONTINUE;
            }
        }
    }
}

fn not_deferred(value: Value) -> Result<Value, SqlError> {
    match value.is_deferred() {
        true => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "a window function over a value that another shard computes in the same statement",
        )),
        false => Ok(value),
    }
}

impl Windows {
    /// `saved`: slots of a row that outputs read. None: there is no window function.
    pub fn new(mut sorts: Vec<WindowSort>, saved: Vec<Slot>) -> Option<Windows> {
        let mut width = saved.len();
        for sort in &mut sorts {
            width = sort.place(width);
        }
        (!sorts.is_empty()).then_some(Windows { saved, sorts, width })
    }

    /// Calls `each` for the rows, and `sink` for each of them with the results in the frame.
    pub fn run(
        &self,
        each: impl FnOnce(&mut Cx<'_>, Sink<'_>) -> Flow,
        cx: &mut Cx<'_>,
        sink: Sink<'_>,
    ) -> Flow {
        let files = cx.rows.temporary_files();
        let sorter = |at: usize| self.sorts.get(at).map(|sort| Sorter::new(&sort.key, None, files));
        let mut sorter_now = sorter(0).expect("there is a window function");
        let _ = each(cx, &mut |cx| {
            sorter_now.push(self.inputs(cx)?)?;
            CONTINUE
        })?;
        for (at, sort) in self.sorts.iter().enumerate() {
            let sorted = sorter_now.finish()?;
            let Some(mut next) = sorter(at + 1) else {
                return sort.run(sorted, files, cx, &mut |cx, row| {
                    self.load(row, cx);
                    sink(cx)
                });
            };
            let _ = sort.run(sorted, files, cx, &mut |_, row| {
                next.push(std::mem::take(row))?;
                CONTINUE
            })?;
            sorter_now = next;
        }
        CONTINUE
    }

    /// A row for all sorts, of the row in the frame.
    fn inputs(&self, cx: &mut Cx<'_>) -> Result<Vec<Value>, SqlError> {
        let mut row = Vec::with_capacity(self.width);
        append_slots(&mut row, &self.saved, cx);
        for sort in &self.sorts {
            sort.append_inputs(&mut row, cx)?;
        }
        Ok(row)
    }

    /// Loads a row with its results into the frame.
    fn load(&self, row: &mut [Value], cx: &mut Cx<'_>) {
        let (inputs, results) = row.split_at_mut(self.width);
        let calls = self.sorts.iter().flat_map(|sort| &sort.calls);
        let outputs = calls.map(|of| of.call.output).zip(results);
        for (slot, value) in self.saved.iter().copied().zip(inputs).chain(outputs) {
            cx.frame.set(slot, std::mem::take(value));
        }
    }
}
