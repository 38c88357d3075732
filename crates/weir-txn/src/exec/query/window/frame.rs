//! Frames: the rows of the partition that a function sees from the current row. Both of their ends only go forward with the current row,
//! as in PostgreSQL, so each is found by a reader of its own.

use std::ops::Range;

use weir_sql::bound::{FrameExclusion, FrameUnit, WindowFunction};
use weir_types::compare::compare;
use weir_types::interrupt::check;
use weir_types::{SqlError, SqlState, SqlType, Value};

use super::CompiledWindow;
use super::partition::{GroupStart, Partition};
use crate::exec::context::Cx;
use crate::exec::expr::CompiledExpr;
use crate::exec::query::tuplestore::ReadPointer;

pub enum Bound {
    UnboundedPreceding,
    Preceding(CompiledExpr),
    CurrentRow,
    Following(CompiledExpr),
    UnboundedFollowing,
}

/// Frame offsets, which are constant for all rows.
pub struct Offsets {
    start: Option<Value>,
    end: Option<Value>,
}

impl Offsets {
    pub fn of(call: &CompiledWindow, cx: &mut Cx<'_>) -> Result<Offsets, SqlError> {
        Ok(Offsets { start: offset(&call.start, "starting", cx)?, end: offset(&call.end, "ending", cx)? })
    }
}

/// One end of the frame of the current row.
pub struct FrameEnd<'w> {
    call: &'w CompiledWindow,
    bound: &'w Bound,
    offset: &'w Option<Value>,
    /// 0 for the start, 1 for the end, which is behind the last row.
    behind: usize,
    search: Search,
}

/// How the rows of an end are found.
enum Search {
    /// By their numbers.
    Counted,
    Group(GroupStart),
    /// By their sort keys: the first row that is not before the end.
    Range {
        at: usize,
        pointer: ReadPointer,
    },
}

impl CompiledWindow {
    /// Returns whether the result depends on where the peers of the current row end.
    pub fn asks_for_peers_end(&self) -> bool {
        let is_of_peers = |bound: &Bound| match bound {
            Bound::CurrentRow => self.unit != FrameUnit::Rows,
            Bound::Preceding(_) | Bound::Following(_) => self.unit == FrameUnit::Range,
            Bound::UnboundedPreceding | Bound::UnboundedFollowing => false,
        };
        match self.function {
            WindowFunction::CumeDist => true,
            _ if !self.has_frame() => false,
            _ => {
                is_of_peers(&self.end)
                    || matches!(self.exclusion, FrameExclusion::Group | FrameExclusion::Ties)
            }
        }
    }

    /// Returns whether it is a function of a frame.
    pub fn has_frame(&self) -> bool {
        use WindowFunction::*;
        matches!(self.function, Aggregate(_) | FirstValue | LastValue | NthValue)
    }

    pub fn is_from_first_row(&self) -> bool {
        matches!(self.start, Bound::UnboundedPreceding)
    }

    /// Start and end of its frames.
    pub fn ends<'w>(
        &'w self,
        offsets: &'w Offsets,
        partition: &Partition<'_, '_>,
    ) -> (FrameEnd<'w>, FrameEnd<'w>) {
        let end = |bound, offset, behind| FrameEnd {
            call: self,
            bound,
            offset,
            behind,
            search: Search::of(self, bound, partition),
        };
        (end(&self.start, &offsets.start, 0), end(&self.end, &offsets.end, 1))
    }

    /// Rows of a frame without the excluded ones, in order.
    pub fn seen(&self, frame: Range<usize>, partition: &Partition<'_, '_>) -> [Range<usize>; 3] {
        let (row, peers) = (partition.row, &partition.peers);
        let (hole, tied) = match self.exclusion {
            FrameExclusion::Nothing => (frame.end..frame.end, 0..0),
            FrameExclusion::CurrentRow => (row..row + 1, 0..0),
            FrameExclusion::Group => (peers.clone(), 0..0),
            FrameExclusion::Ties => (peers.clone(), row..row + 1),
        };
        let within = |rows: Range<usize>| rows.start.max(frame.start)..rows.end.min(frame.end);
        [within(0..hole.start), within(tied), within(hole.end..usize::MAX)]
    }
}

impl Search {
    fn of(call: &CompiledWindow, bound: &Bound, partition: &Partition<'_, '_>) -> Search {
        match (bound, call.unit) {
            (Bound::Preceding(_) | Bound::Following(_), FrameUnit::Groups) => {
                Search::Group(GroupStart::new(partition))
            }
            (Bound::Preceding(_) | Bound::Following(_), FrameUnit::Range) => {
                Search::Range { at: 0, pointer: ReadPointer::default() }
            }
            _ => Search::Counted,
        }
    }
}

impl FrameEnd<'_> {
    /// Number of the first row that it may read for later rows.
    pub fn needs_from(&self) -> usize {
        match &self.search {
            Search::Counted => usize::MAX,
            Search::Group(start) => start.at,
            Search::Range { at, .. } => *at,
        }
    }

    /// Where the frame of the current row begins, or ends. It may be behind the last row of the partition.
    pub fn find(&mut self, partition: &mut Partition<'_, '_>) -> Result<usize, SqlError> {
        let count = match self.offset {
            Some(Value::Int(number)) => usize::try_from(*number).unwrap_or(0),
            _ => 0,
        };
        let of_peers = if self.behind == 1 { partition.peers.end } else { partition.peers.start };
        let (row, group) = (partition.row + self.behind, partition.group + self.behind);
        match (self.bound, &mut self.search) {
            (Bound::UnboundedPreceding, _) => Ok(0),
            (Bound::UnboundedFollowing, _) => Ok(usize::MAX),
            (Bound::CurrentRow, _) if self.call.unit == FrameUnit::Rows => Ok(row),
            (Bound::CurrentRow, _) => Ok(of_peers),
            (Bound::Preceding(_), Search::Group(start)) => {
                start.advance_to(group.saturating_sub(count), partition)
            }
            (Bound::Following(_), Search::Group(start)) => {
                start.advance_to(group.saturating_add(count), partition)
            }
            (Bound::Preceding(_), Search::Counted) => Ok(row.saturating_sub(count)),
            (Bound::Following(_), Search::Counted) => Ok(row.saturating_add(count)),
            (bound, Search::Range { at, pointer }) => {
                let is_preceding = matches!(bound, Bound::Preceding(_));
                let Some(limit) = self.call.limit(self.offset, is_preceding, partition) else {
                    return Ok(of_peers);
                };
                limit.advance(at, pointer, self.behind == 1, partition)?;
                Ok(*at)
            }
        }
    }
}

/// A sort key at a distance from that of the current row.
enum Limit {
    Key(Value),
    /// There is no such key: all rows but those whose key is NULL are before it, or none.
    Beyond {
        all: bool,
    },
}

impl CompiledWindow {
    /// None: the frame reaches to the peers of the current row. NULL is only within distance of NULL.
    fn limit(
        &self,
        offset: &Option<Value>,
        is_preceding: bool,
        partition: &Partition<'_, '_>,
    ) -> Option<Limit> {
        let (back, on) = self.steps?;
        let (offset, order) = (offset.as_ref()?, partition.sort.orders.first()?);
        let key = partition.order.first().filter(|key| !key.is_null())?;
        let step = if is_preceding == order.descending { on } else { back };
        Some(step(&widened(key), offset).map_or(Limit::Beyond { all: !is_preceding }, Limit::Key))
    }
}

impl Limit {
    /// Moves to the first row that is not before the limit; rows at the limit are before it if `inclusive`.
    fn advance(
        &self,
        at: &mut usize,
        pointer: &mut ReadPointer,
        inclusive: bool,
        partition: &mut Partition<'_, '_>,
    ) -> Result<(), SqlError> {
        let (column, order) = (partition.sort.order_columns.start, partition.sort.orders[0]);
        while let Some(row) = partition.row(*at, pointer)? {
            check()?;
            let is_before = match (self, &row[column]) {
                (_, Value::Null) => order.nulls_first,
                (Limit::Beyond { all }, _) => *all,
                (Limit::Key(limit), key) => {
                    let compared = compare(&widened(key), limit);
                    let compared = if order.descending { compared.reverse() } else { compared };
                    if inclusive { compared.is_le() } else { compared.is_lt() }
                }
            };
            if !is_before {
                break;
            }
            *at += 1;
        }
        Ok(())
    }
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
pub fn key_type(ty: &SqlType) -> SqlType {
    match ty {
        SqlType::Int2 | SqlType::Int4 => SqlType::Int8,
        SqlType::Float4 => SqlType::Float8,
        SqlType::Date => SqlType::Timestamp,
        other => other.base(),
    }
}

/// A sort key in its [`key_type`].
fn widened(key: &Value) -> Value {
    const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;
    match key {
        Value::Float4(value) => Value::Float8(f64::from(*value)),
        Value::Date(days) => Value::Timestamp(i64::from(*days).saturating_mul(MICROSECONDS_PER_DAY)),
        other => other.clone(),
    }
}
