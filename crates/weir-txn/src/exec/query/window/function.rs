//! One window function over one partition, row by row.

use std::ops::Range;

use weir_sql::bound::{FrameExclusion, WindowFunction};
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, Value};

use super::frame::{FrameEnd, Offsets};
use super::partition::Partition;
use super::{CompiledWindow, WindowColumns};
use crate::exec::aggregate::{Accumulator, CompiledAggregate};
use crate::exec::query::tuplestore::ReadPointer;

pub struct Evaluation<'w> {
    of: &'w WindowColumns,
    /// Start and end of the frame, where there is one.
    ends: Option<(FrameEnd<'w>, FrameEnd<'w>)>,
    /// Frame of the current row.
    frame: Range<usize>,
    aggregation: Option<Aggregation<'w>>,
    /// `ntile`: the number of buckets, which the first row gives.
    buckets: Option<i64>,
    /// `lag` and `lead`: how far they look back. None: it varies.
    distance_back: Option<usize>,
    pointer: ReadPointer,
}

/// An aggregate over frames.
struct Aggregation<'w> {
    aggregate: &'w CompiledAggregate,
    /// Over the rows of `added`, while frames only grow at their end.
    accumulator: Accumulator<'w>,
    added: Range<usize>,
    /// Over the same rows.
    result: Option<Value>,
}

impl<'w> Evaluation<'w> {
    /// The current row is the first.
    pub fn new(
        of: &'w WindowColumns,
        offsets: &'w Offsets,
        partition: &mut Partition<'_, '_>,
    ) -> Result<Evaluation<'w>, SqlError> {
        let aggregation = of.call.aggregate.as_ref().map(|aggregate| Aggregation {
            aggregate,
            accumulator: aggregate.start(None),
            added: 0..0,
            result: None,
        });
        let buckets = match of.call.function {
            WindowFunction::Ntile => buckets(&partition.current(of.args.clone())?[0])?,
            _ => None,
        };
        let ends = of.call.has_frame().then(|| of.call.ends(offsets, partition));
        let distance_back = of.call.is_distance_constant.then_some(0);
        let pointer = ReadPointer::default();
        Ok(Evaluation { of, ends, frame: 0..0, aggregation, buckets, distance_back, pointer })
    }

    fn call(&self) -> &'w CompiledWindow {
        &self.of.call
    }

    /// Result for the current row.
    pub fn value(&mut self, partition: &mut Partition<'_, '_>) -> Result<Value, SqlError> {
        use WindowFunction::*;
        if self.ends.is_some() {
            return self.value_of_frame(partition);
        }
        let rank = partition.peers.start;
        Ok(match self.call().function {
            RowNumber => Value::Int(partition.row as i64 + 1),
            Rank => Value::Int(rank as i64 + 1),
            DenseRank => Value::Int(partition.group as i64 + 1),
            PercentRank => match partition.count()? {
                ..=1 => Value::Float8(0.0),
                count => Value::Float8(rank as f64 / (count - 1) as f64),
            },
            CumeDist => Value::Float8(partition.peers.end as f64 / partition.count()? as f64),
            Ntile => match self.buckets {
                Some(buckets) => Value::Int(bucket(partition.row as i64, partition.count()? as i64, buckets)),
                None => Value::Null,
            },
            _ => self.neighbour(partition)?,
        })
    }

    /// `lag` and `lead`: the argument of another row.
    fn neighbour(&mut self, partition: &mut Partition<'_, '_>) -> Result<Value, SqlError> {
        let args = partition.current(self.of.args.clone())?;
        let Value::Int(distance) = args[1] else { return Ok(Value::Null) };
        let otherwise = args[2].clone();
        let is_lag = self.call().function == WindowFunction::Lag;
        let distance = if is_lag { distance.saturating_neg() } else { distance };
        if let Some(back) = &mut self.distance_back {
            *back = usize::try_from(distance.saturating_neg()).unwrap_or(0);
        }
        let other = (partition.row as i64).checked_add(distance);
        match other.and_then(|other| usize::try_from(other).ok()) {
            Some(other) => Ok(self.first_argument(other, partition)?.unwrap_or(otherwise)),
            None => Ok(otherwise),
        }
    }

    /// That of a row, if there is such a row.
    fn first_argument(
        &mut self,
        row: usize,
        partition: &mut Partition<'_, '_>,
    ) -> Result<Option<Value>, SqlError> {
        let row = partition.row(row, &mut self.pointer)?;
        Ok(row.map(|row| row[self.of.args.start].clone()))
    }

    fn value_of_frame(&mut self, partition: &mut Partition<'_, '_>) -> Result<Value, SqlError> {
        self.find_frame(partition)?;
        if self.aggregation.is_some() {
            return self.aggregate(partition);
        }
        let mut seen = self.call().seen(self.frame.clone(), partition).into_iter();
        let at = match self.call().function {
            WindowFunction::FirstValue => seen.find(|rows| !rows.is_empty()).map(|rows| rows.start),
            WindowFunction::LastValue => seen.rfind(|rows| !rows.is_empty()).map(|rows| rows.end - 1),
            _ => match partition.current(self.of.args.clone())?[1] {
                Value::Int(number) if number < 1 => {
                    return Err(SqlError::new(
                        SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
                        "argument of nth_value must be greater than zero",
                    ));
                }
                Value::Int(number) => nth(seen, number as usize - 1),
                _ => None,
            },
        };
        match at {
            Some(at) => Ok(self.first_argument(at, partition)?.unwrap_or_default()),
            None => Ok(Value::Null),
        }
    }

    /// Frame of the current row: within the partition, and never ending before it begins.
    fn find_frame(&mut self, partition: &mut Partition<'_, '_>) -> Result<(), SqlError> {
        if let Some((start, end)) = &mut self.ends {
            let (start, end) = (start.find(partition)?, end.find(partition)?);
            let start = partition.reach(start)?;
            self.frame = start..partition.reach(end)?.max(start);
        }
        Ok(())
    }

    fn aggregate(&mut self, partition: &mut Partition<'_, '_>) -> Result<Value, SqlError> {
        let Evaluation { of, frame, pointer, aggregation: Some(of_frames), .. } = self else {
            return Ok(Value::Null);
        };
        let aggregate = of_frames.aggregate;
        let mut feed = |accumulator: &mut Accumulator<'_>, at: usize, partition: &mut Partition<'_, '_>| {
            check()?;
            let row = partition.row(at, pointer)?.expect("frames are within the partition");
            match row[of.passes] {
                Value::Bool(true) => aggregate.add_values(accumulator, row[of.args.clone()].to_vec()),
                _ => Ok(()),
            }
        };
        if of.call.exclusion != FrameExclusion::Nothing {
            let mut accumulator = aggregate.start(None);
            for at in of.call.seen(frame.clone(), partition).into_iter().flatten() {
                feed(&mut accumulator, at, partition)?;
            }
            return aggregate.finish(accumulator);
        }
        if let Some(result) = &of_frames.result
            && of_frames.added == *frame
        {
            return Ok(result.clone());
        }
        if frame.start != of_frames.added.start || frame.end < of_frames.added.end {
            of_frames.accumulator = aggregate.start(None);
            of_frames.added = frame.start..frame.start;
        }
        for at in of_frames.added.end..frame.end {
            feed(&mut of_frames.accumulator, at, partition)?;
        }
        of_frames.added = frame.clone();
        let result = aggregate.value_so_far(&of_frames.accumulator)?;
        of_frames.result = Some(result.clone());
        Ok(result)
    }

    /// Number of the first row that it may read for rows behind the current one, at the most that behind the current one.
    pub fn needs_from(&self, partition: &Partition<'_, '_>) -> usize {
        let next = partition.row + 1;
        let Some((start, end)) = &self.ends else {
            return self.distance_back.map_or(0, |distance| next.saturating_sub(distance));
        };
        let of_frame = match &self.aggregation {
            Some(aggregation)
                if self.call().is_from_first_row() && self.call().exclusion == FrameExclusion::Nothing =>
            {
                aggregation.added.end
            }
            _ => self.frame.start,
        };
        next.min(of_frame).min(start.needs_from()).min(end.needs_from())
    }
}

/// Number of the row that comes after so many others.
fn nth(seen: impl Iterator<Item = Range<usize>>, others: usize) -> Option<usize> {
    let mut left = others;
    for rows in seen {
        if left < rows.len() {
            return Some(rows.start + left);
        }
        left -= rows.len();
    }
    None
}

/// None: it is NULL.
fn buckets(argument: &Value) -> Result<Option<i64>, SqlError> {
    match argument {
        Value::Int(buckets) if *buckets < 1 => Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_NTILE,
            "argument of ntile must be greater than zero",
        )),
        Value::Int(buckets) => Ok(Some(*buckets)),
        _ => Ok(None),
    }
}

/// The bucket of a row. The first buckets have one row more than the others.
fn bucket(row: i64, count: i64, buckets: i64) -> i64 {
    let (size, larger) = (count / buckets, count % buckets);
    match row < larger * (size + 1) {
        true => row / (size + 1) + 1,
        false => (row - larger * (size + 1)) / size.max(1) + larger + 1,
    }
}
