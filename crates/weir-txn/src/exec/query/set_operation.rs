//! UNION, INTERSECT [ALL] and EXCEPT [ALL]. Rows in order of first appearance, as far as they have room in memory.

use std::ops::ControlFlow;

use weir_sql::bound::SetOperator;
use weir_types::interrupt::check;
use weir_types::{SqlError, Value};

use super::hash::Indexed;
use super::partitions::Room;
use super::{CompiledQuery, RowSink};
use crate::exec::context::{Cx, Flow};

/// Number of times that a row is on each side.
struct Counted {
    row: Vec<Value>,
    left: usize,
    right: usize,
}

struct Counts<'f> {
    rows: Indexed<Counted>,
    room: Room<'f>,
}

/// Runs both sides, and passes on the rows of the result.
pub fn run(
    of: (SetOperator, bool),
    (left, right): (&CompiledQuery, &CompiledQuery),
    cx: &mut Cx<'_>,
    sink: RowSink<'_>,
) -> Flow {
    let mut counts = Counts { rows: Indexed::default(), room: Room::new(cx.rows.temporary_files()) };
    for (query, is_left) in [(left, true), (right, false)] {
        let _ = query.execute(cx, &mut |_, row| {
            counts.add(row, is_left)?;
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let (flow, room) = counts.emit(of, cx, sink)?;
    if flow.is_break() {
        return Ok(flow);
    }
    room.work_through(|mut rows, room| {
        let mut counts = Counts { rows: Indexed::default(), room };
        while let Some(mut row) = rows.next_row()? {
            check()?;
            let is_left = row.pop() == Some(Value::Bool(true));
            counts.add(&mut row, is_left)?;
        }
        counts.emit(of, cx, sink)
    })
}

impl<'f> Counts<'f> {
    /// Counts the row, or keeps it for later with its side behind it.
    fn add(&mut self, row: &mut Vec<Value>, is_left: bool) -> Result<(), SqlError> {
        let counted = match self.room.has_any() {
            true => self.rows.entry(row, || {
                self.room.take(|| 2 * Value::row_bytes(row));
                Counted { row: row.clone(), left: 0, right: 0 }
            }),
            false => match self.rows.get_mut(row) {
                Some(counted) => counted,
                None => {
                    row.push(Value::Bool(is_left));
                    return self.room.push(&row[..row.len() - 1], row);
                }
            },
        };
        if is_left {
            counted.left += 1;
        } else {
            counted.right += 1;
        }
        Ok(())
    }

    /// Passes on as many copies of each row as the operation gives. Returns the room with what it keeps.
    fn emit(
        self,
        (op, all): (SetOperator, bool),
        cx: &mut Cx<'_>,
        sink: RowSink<'_>,
    ) -> Result<(ControlFlow<()>, Room<'f>), SqlError> {
        for Counted { row, left, right } in self.rows.entries {
            let copies = match (op, all) {
                (SetOperator::Union, _) => 1,
                (SetOperator::Intersect, true) => left.min(right),
                (SetOperator::Intersect, false) => left.min(right).min(1),
                (SetOperator::Except, true) => left.saturating_sub(right),
                (SetOperator::Except, false) => usize::from(left > 0 && right == 0),
            };
            for mut row in std::iter::repeat_n(row, copies) {
                check()?;
                if sink(cx, &mut row)?.is_break() {
                    return Ok((ControlFlow::Break(()), self.room));
                }
            }
        }
        Ok((ControlFlow::Continue(()), self.room))
    }
}
