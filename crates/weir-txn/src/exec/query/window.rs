//! Window functions over all rows (or groups) of a SELECT, partition by partition.

use std::ops::Range;

use weir_sql::bound::{
    Aggregate, Expr, FrameBound, FrameExclusion, FrameUnit, SortOrder, WindowCall, WindowFunction,
};
use weir_types::compare::compare;
use weir_types::interrupt::check;
use weir_types::operator::{self, BinaryOp};
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::sort::{compare_by, sort_by};
use crate::exec::aggregate::{Accumulator, CompiledAggregate};
use crate::exec::compiler::Compiler;
use crate::exec::context::Cx;
use crate::exec::expr::compile::compile_list;
use crate::exec::expr::{BinaryFunction, CompiledExpr};
use crate::exec::slots::Slot;

pub struct CompiledWindow {
    function: WindowFunction,
    args: Vec<CompiledExpr>,
    aggregate: Option<CompiledAggregate>,
    filter: Option<CompiledExpr>,
    partition: Vec<CompiledExpr>,
    order: Vec<CompiledExpr>,
    orders: Vec<SortOrder>,
    unit: FrameUnit,
    start: Bound,
    end: Bound,
    exclusion: FrameExclusion,
    /// Functions that subtract a RANGE offset from the sort key, and add it.
    steps: Option<(BinaryFunction, BinaryFunction)>,
    /// Slot of the result.
    pub output: Slot,
}

enum Bound {
    UnboundedPreceding,
    Preceding(CompiledExpr),
    CurrentRow,
    Following(CompiledExpr),
    UnboundedFollowing,
}

impl std::fmt::Debug for CompiledWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Window").field(&self.function).field(&self.args).finish()
    }
}

/// Input of one row to one window function.
#[derive(Debug)]
pub struct Input {
    partition: Vec<Value>,
    order: Vec<Value>,
    args: Vec<Value>,
    passes: bool,
}

/// Rows of one partition, in window order.
struct Partition<'a> {
    rows: Vec<&'a Input>,
    /// By row: number of its peer group.
    group: Vec<usize>,
    groups: Vec<Range<usize>>,
}

/// Frame offsets, which are constant for all rows.
struct Offsets {
    start: Option<Value>,
    end: Option<Value>,
}

impl CompiledWindow {
    pub fn compile(
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
        let keys: Vec<Expr> = call.order_by.iter().map(|(expr, _)| expr.clone()).collect();
        let offset = call.frame.start.offset().or(call.frame.end.offset());
        let steps = match (call.frame.unit, &keys[..], offset) {
            (FrameUnit::Range, [key], Some(offset)) => {
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
        Ok(CompiledWindow {
            function: call.function,
            args: compile_list(&call.args, compiler)?,
            aggregate,
            filter: call.filter.as_ref().map(|filter| CompiledExpr::compile(filter, compiler)).transpose()?,
            partition: compile_list(&call.partition_by, compiler)?,
            order: compile_list(&keys, compiler)?,
            orders: call.order_by.iter().map(|(_, order)| *order).collect(),
            unit: call.frame.unit,
            start,
            end,
            exclusion: call.frame.exclusion,
            steps,
            output: compiler.slots.fresh(),
        })
    }

    /// Input of the row in the frame.
    pub fn input(&self, cx: &mut Cx<'_>) -> Result<Input, SqlError> {
        let mut values = |list: &[CompiledExpr]| -> Result<Vec<Value>, SqlError> {
            let values: Result<Vec<Value>, SqlError> = list.iter().map(|expr| expr.eval(cx)).collect();
            values.and_then(|values| match values.iter().any(Value::is_deferred) {
                true => Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "a window function over a value that another shard computes in the same statement",
                )),
                false => Ok(values),
            })
        };
        let (partition, mut order, args) =
            (values(&self.partition)?, values(&self.order)?, values(&self.args)?);
        if self.steps.is_some() {
            order.iter_mut().for_each(widen);
        }
        let passes = match &self.filter {
            Some(filter) => filter.truth(cx)?.is_true(),
            None => true,
        };
        Ok(Input { partition, order, args, passes })
    }

    /// Result for each row.
    pub fn compute(&self, inputs: &[Input], cx: &mut Cx<'_>) -> Result<Vec<Value>, SqlError> {
        let plain = vec![SortOrder::ASCENDING; self.partition.len()];
        let mut order: Vec<usize> = (0..inputs.len()).collect();
        sort_by(&mut order, |&left, &right| {
            let (left, right) = (&inputs[left], &inputs[right]);
            compare_by(&left.partition, &right.partition, &plain)
                .then_with(|| compare_by(&left.order, &right.order, &self.orders))
        })?;
        let offsets = match inputs.is_empty() {
            true => Offsets { start: None, end: None },
            false => {
                Offsets { start: offset(&self.start, "starting", cx)?, end: offset(&self.end, "ending", cx)? }
            }
        };
        let mut results = vec![Value::Null; inputs.len()];
        let same = |left: &usize, right: &usize| {
            compare_by(&inputs[*left].partition, &inputs[*right].partition, &plain).is_eq()
        };
        for rows in order.chunk_by(same) {
            let partition = Partition::new(rows.iter().map(|&row| &inputs[row]).collect(), &self.orders);
            for (&row, value) in rows.iter().zip(self.of_partition(&partition, &offsets)?) {
                results[row] = value;
            }
        }
        Ok(results)
    }

    fn of_partition(&self, partition: &Partition<'_>, offsets: &Offsets) -> Result<Vec<Value>, SqlError> {
        use WindowFunction::*;
        let count = partition.rows.len();
        match self.function {
            Aggregate(_) => return self.aggregates(partition, offsets),
            Ntile => return ntile(partition),
            _ => {}
        }
        let value = |row: usize| -> Result<Value, SqlError> {
            check()?;
            let group = partition.group[row];
            let rank = partition.groups[group].start;
            let args = &partition.rows[row].args;
            Ok(match self.function {
                RowNumber => Value::Int(row as i64 + 1),
                Rank => Value::Int(rank as i64 + 1),
                DenseRank => Value::Int(group as i64 + 1),
                PercentRank if count <= 1 => Value::Float8(0.0),
                PercentRank => Value::Float8(rank as f64 / (count - 1) as f64),
                CumeDist => Value::Float8(partition.groups[group].end as f64 / count as f64),
                Lag | Lead => {
                    let Value::Int(distance) = args[1] else { return Ok(Value::Null) };
                    let distance = if self.function == Lag { -distance } else { distance };
                    let other = usize::try_from(row as i64 + distance).ok();
                    match other.and_then(|other| partition.rows.get(other)) {
                        Some(other) => other.args[0].clone(),
                        None => args[2].clone(),
                    }
                }
                FirstValue => {
                    self.seen(partition, row, offsets).next().map_or(Value::Null, |at| partition.first(at))
                }
                LastValue => {
                    self.seen(partition, row, offsets).last().map_or(Value::Null, |at| partition.first(at))
                }
                _ => match args[1] {
                    Value::Int(number) if number < 1 => {
                        return Err(SqlError::new(
                            SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
                            "argument of nth_value must be greater than zero",
                        ));
                    }
                    Value::Int(number) => self
                        .seen(partition, row, offsets)
                        .nth(number as usize - 1)
                        .map_or(Value::Null, |at| partition.first(at)),
                    _ => Value::Null,
                },
            })
        };
        (0..count).map(value).collect()
    }

    /// Rows in the frame of a row, without the excluded ones.
    fn seen<'p>(
        &'p self,
        partition: &'p Partition<'_>,
        row: usize,
        offsets: &Offsets,
    ) -> impl Iterator<Item = usize> + 'p {
        let group = partition.group[row];
        self.frame(partition, row, offsets).filter(move |&at| match self.exclusion {
            FrameExclusion::Nothing => true,
            FrameExclusion::CurrentRow => at != row,
            FrameExclusion::Group => partition.group[at] != group,
            FrameExclusion::Ties => partition.group[at] != group || at == row,
        })
    }

    fn aggregates(&self, partition: &Partition<'_>, offsets: &Offsets) -> Result<Vec<Value>, SqlError> {
        let Some(aggregate) = &self.aggregate else { return Ok(Vec::new()) };
        let feed = |accumulator: &mut Accumulator<'_>, at: usize| {
            check()?;
            match &partition.rows[at] {
                row if row.passes => aggregate.add_values(accumulator, row.args.clone()),
                _ => Ok(()),
            }
        };
        let mut results: Vec<Value> = Vec::with_capacity(partition.rows.len());
        let mut accumulator = aggregate.start(None);
        // Range accumulated so far, while frames only grow at their end.
        let mut added = 0..0;
        for row in 0..partition.rows.len() {
            check()?;
            if self.exclusion != FrameExclusion::Nothing {
                let mut own = aggregate.start(None);
                self.seen(partition, row, offsets).try_for_each(|at| feed(&mut own, at))?;
                results.push(aggregate.finish(own)?);
                continue;
            }
            let frame = self.frame(partition, row, offsets);
            if row > 0 && frame == added {
                let before = results[row - 1].clone();
                results.push(before);
                continue;
            }
            if frame.start != added.start || frame.end < added.end {
                (accumulator, added) = (aggregate.start(None), frame.start..frame.start);
            }
            (added.end..frame.end).try_for_each(|at| feed(&mut accumulator, at))?;
            added = frame;
            results.push(aggregate.value_so_far(&accumulator)?);
        }
        Ok(results)
    }

    /// Frame of a row: within the partition, and never ending before it begins.
    fn frame(&self, partition: &Partition<'_>, row: usize, offsets: &Offsets) -> Range<usize> {
        let (count, group) = (partition.rows.len(), partition.group[row]);
        let number = |offset: &Option<Value>| match offset {
            Some(Value::Int(number)) => usize::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let (first, last) = (number(&offsets.start), number(&offsets.end));
        let groups = &partition.groups;
        let start = match (&self.start, self.unit) {
            (Bound::UnboundedPreceding, _) => 0,
            (Bound::UnboundedFollowing, _) => count,
            (Bound::CurrentRow, FrameUnit::Rows) => row,
            (Bound::CurrentRow, _) => groups[group].start,
            (Bound::Preceding(_), FrameUnit::Rows) => row.saturating_sub(first),
            (Bound::Following(_), FrameUnit::Rows) => row.saturating_add(first),
            (Bound::Preceding(_), FrameUnit::Groups) => groups[group.saturating_sub(first)].start,
            (Bound::Following(_), FrameUnit::Groups) => {
                groups.get(group.saturating_add(first)).map_or(count, |group| group.start)
            }
            (Bound::Preceding(_), FrameUnit::Range) => {
                self.in_range(partition, row, &offsets.start, (true, true))
            }
            (Bound::Following(_), FrameUnit::Range) => {
                self.in_range(partition, row, &offsets.start, (false, true))
            }
        };
        let end = match (&self.end, self.unit) {
            (Bound::UnboundedPreceding, _) => 0,
            (Bound::UnboundedFollowing, _) => count,
            (Bound::CurrentRow, FrameUnit::Rows) => row + 1,
            (Bound::CurrentRow, _) => groups[group].end,
            (Bound::Preceding(_), FrameUnit::Rows) => (row + 1).saturating_sub(last),
            (Bound::Following(_), FrameUnit::Rows) => (row + 1).saturating_add(last),
            (Bound::Preceding(_), FrameUnit::Groups) => {
                group.checked_sub(last).map_or(0, |group| groups[group].end)
            }
            (Bound::Following(_), FrameUnit::Groups) => {
                groups.get(group.saturating_add(last)).map_or(count, |group| group.end)
            }
            (Bound::Preceding(_), FrameUnit::Range) => {
                self.in_range(partition, row, &offsets.end, (true, false))
            }
            (Bound::Following(_), FrameUnit::Range) => {
                self.in_range(partition, row, &offsets.end, (false, false))
            }
        };
        let start = start.min(count);
        start..end.min(count).max(start)
    }

    /// Start (or end) of the rows whose sort keys are within the offset of the row's key.
    fn in_range(
        &self,
        partition: &Partition<'_>,
        row: usize,
        offset: &Option<Value>,
        (preceding, begins): (bool, bool),
    ) -> usize {
        let key = |at: usize| partition.rows[at].order.first().unwrap_or(&Value::Null);
        let own = &partition.groups[partition.group[row]];
        let (Some((back, on)), Some(offset), Some(order)) = (self.steps, offset, self.orders.first()) else {
            return if begins { own.start } else { own.end };
        };
        // NULL is only within distance of NULL.
        if key(row).is_null() {
            return if begins { own.start } else { own.end };
        }
        let count = partition.rows.len();
        let nulls = (0..count).filter(|&at| key(at).is_null()).count();
        let known = if order.nulls_first { nulls..count } else { 0..count - nulls };
        let step = if preceding == order.descending { on } else { back };
        let Ok(limit) = step(key(row), offset) else {
            return if preceding { known.start } else { known.end };
        };
        let before = |at: usize| {
            let compared = compare(key(at), &limit);
            let compared = if order.descending { compared.reverse() } else { compared };
            if begins { compared.is_lt() } else { compared.is_le() }
        };
        let (mut low, mut high) = (known.start, known.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl<'a> Partition<'a> {
    fn new(rows: Vec<&'a Input>, orders: &[SortOrder]) -> Partition<'a> {
        let (mut group, mut groups): (Vec<usize>, Vec<Range<usize>>) =
            (Vec::with_capacity(rows.len()), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            let peers = at > 0 && compare_by(&rows[at - 1].order, &row.order, orders).is_eq();
            match groups.last_mut() {
                Some(last) if peers => last.end = at + 1,
                _ => groups.push(at..at + 1),
            }
            group.push(groups.len() - 1);
        }
        Partition { rows, group, groups }
    }

    fn first(&self, row: usize) -> Value {
        self.rows[row].args[0].clone()
    }
}

fn ntile(partition: &Partition<'_>) -> Result<Vec<Value>, SqlError> {
    let count = partition.rows.len() as i64;
    let buckets = match partition.rows.first().map(|row| &row.args[0]) {
        Some(Value::Int(buckets)) if *buckets < 1 => {
            return Err(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_NTILE,
                "argument of ntile must be greater than zero",
            ));
        }
        Some(Value::Int(buckets)) => *buckets,
        _ => return Ok(vec![Value::Null; partition.rows.len()]),
    };
    let (size, larger) = (count / buckets, count % buckets);
    let bucket = |row: i64| match row < larger * (size + 1) {
        true => row / (size + 1) + 1,
        false => (row - larger * (size + 1)) / size.max(1) + larger + 1,
    };
    Ok((0..count).map(|row| Value::Int(bucket(row))).collect())
}

/// Evaluates a frame offset; NULL and negative values are errors.
fn offset(bound: &Bound, which: &str, cx: &mut Cx<'_>) -> Result<Option<Value>, SqlError> {
    let (Bound::Preceding(expr) | Bound::Following(expr)) = bound else { return Ok(None) };
    let value = expr.eval(cx)?;
    let wrong = match &value {
        Value::Null => Some("must not be null"),
        Value::Int(number) if *number < 0 => Some("must not be negative"),
        Value::Float8(number) if *number < 0.0 || number.is_nan() => Some("must not be negative"),
        Value::Numeric(number) if number.signum() < 0 => Some("must not be negative"),
        Value::Interval(span) if span.span_microseconds() < 0 => Some("must not be negative"),
        _ => None,
    };
    let state = match value.is_null() {
        true => SqlState::NULL_VALUE_NOT_ALLOWED,
        false => SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
    };
    match wrong {
        Some(wrong) => Err(SqlError::new(state, format!("frame {which} offset {wrong}"))),
        None => Ok(Some(value)),
    }
}

/// Type in which the sort key of a RANGE is computed.
fn key_type(ty: &SqlType) -> SqlType {
    match ty {
        SqlType::Int2 | SqlType::Int4 => SqlType::Int8,
        SqlType::Float4 => SqlType::Float8,
        SqlType::Date => SqlType::Timestamp,
        other => other.base(),
    }
}

/// Converts a sort key to its [`key_type`].
fn widen(key: &mut Value) {
    const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;
    match key {
        Value::Float4(value) => *key = Value::Float8(f64::from(*value)),
        Value::Date(days) => *key = Value::Timestamp(i64::from(*days).saturating_mul(MICROSECONDS_PER_DAY)),
        _ => {}
    }
}
