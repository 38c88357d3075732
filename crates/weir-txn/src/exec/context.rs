//! Execution context of a statement: frame of slots, rows, time.

use std::ops::ControlFlow;
use std::sync::Arc;

use weir_sql::bound::{LockStrength, LockWait, VolatileFunction};
use weir_sql::catalog::{SequenceId, TableId};
use weir_types::datetime::TransactionTime;
use weir_types::{SqlError, Value};

use super::query::hash::{HashTable, ValueMap, ValueSet};
use super::query::tuplestore::Tuplestore;
use super::slots::{CellId, Slot, SlotAllocator};
use crate::storage::{RowRef, Rows};

/// Result of a visit for each row: continue, or stop.
pub type Flow = Result<ControlFlow<()>, SqlError>;

/// Variables, columns and cached subqueries of one execution.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub values: Vec<Value>,
    pub(crate) cells: Vec<Cell>,
    /// Set if some cell may be filled.
    cached: bool,
}

/// A value that a statement computes at most once per execution.
#[derive(Clone, Debug, Default)]
pub(crate) enum Cell {
    #[default]
    Empty,
    Scalar(Value),
    Rows(Arc<Tuplestore>),
    Set(Arc<ValueSet>),
    Map(Arc<ValueMap>),
    Table(Arc<HashTable>),
    /// Number of row-by-row runs of a correlated subquery; after a few it is computed for all keys.
    Runs(u32),
}

impl Frame {
    /// A frame of NULLs for all slots of the allocator.
    pub fn new(slots: &SlotAllocator) -> Frame {
        let mut frame = Frame::default();
        frame.grow(slots.slots_max(), slots.cells_max());
        frame
    }

    /// Extends the frame to that many slots and cells; existing values are kept.
    pub fn grow(&mut self, slots: usize, cells: usize) {
        if self.values.len() < slots {
            self.values.resize(slots, Value::Null);
        }
        if self.cells.len() < cells {
            self.cells.resize_with(cells, Cell::default);
        }
    }

    /// Clears the cells. Called at the start of every statement.
    #[inline]
    pub fn begin_statement(&mut self) {
        if self.cached {
            self.cells.fill(Cell::Empty);
            self.cached = false;
        }
    }

    #[inline]
    pub fn get(&self, slot: Slot) -> &Value {
        &self.values[slot as usize]
    }

    #[inline]
    pub fn set(&mut self, slot: Slot, value: Value) {
        self.values[slot as usize].put(value);
    }
}

/// External inputs of a call: sequences, clock, randomness. The executor has no others.
pub trait Environment {
    fn next_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError>;
    fn current_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError>;
    fn volatile(&mut self, function: VolatileFunction) -> Result<Value, SqlError>;

    /// Locks a row for FOR UPDATE. `false`: the row is skipped because another transaction holds it. Without transactions it does
    /// nothing.
    fn hold(
        &mut self,
        _rows: &dyn Rows,
        _row: (TableId, RowRef),
        _how: (LockStrength, LockWait),
    ) -> Result<bool, SqlError> {
        Ok(true)
    }
}

/// Context of one execution.
pub struct Cx<'a> {
    pub frame: &'a mut Frame,
    pub rows: &'a dyn Rows,
    /// The creator of the context has entered its time zone.
    pub transaction_time: TransactionTime,
    pub environment: &'a mut dyn Environment,
}

impl Cx<'_> {
    pub(crate) fn cell(&mut self, cell: CellId) -> &mut Cell {
        self.frame.cached = true;
        &mut self.frame.cells[cell as usize]
    }

    #[inline]
    pub fn value(&self, slot: Slot) -> &Value {
        self.frame.get(slot)
    }
}
