//! What a running statement has in its hands: the frame of slots, the rows, the time.

use std::ops::ControlFlow;
use std::sync::Arc;

use weir_sql::bound::{LockStrength, LockWait, VolatileFunction};
use weir_sql::catalog::{SequenceId, TableId};
use weir_types::datetime::TransactionTime;
use weir_types::{SqlError, Value};

use super::query::hash::{HashTable, ValueMap, ValueSet};
use super::slots::{CellId, Slot, SlotAllocator};
use crate::storage::{RowRef, Rows};

/// What a visit says after each row: go on, or enough.
pub type Flow = Result<ControlFlow<()>, SqlError>;

/// Variables, columns and cached subqueries of one execution.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub values: Vec<Value>,
    pub(crate) cells: Vec<Cell>,
    /// Some cell may hold something.
    cached: bool,
}

/// What a statement computes at most once per execution.
#[derive(Clone, Debug, Default)]
pub(crate) enum Cell {
    #[default]
    Empty,
    Scalar(Value),
    Rows(Arc<Vec<Vec<Value>>>),
    Set(Arc<ValueSet>),
    Map(Arc<ValueMap>),
    Table(Arc<HashTable>),
    /// How often a correlated subquery ran row by row; after a few times it is computed at once.
    Runs(u32),
}

impl Frame {
    /// All NULL, with room for everything that the allocator handed out.
    pub fn new(slots: &SlotAllocator) -> Frame {
        let mut frame = Frame::default();
        frame.grow(slots.slots_max(), slots.cells_max());
        frame
    }

    /// Makes room for so many slots and cells; what is there stays.
    pub fn grow(&mut self, slots: usize, cells: usize) {
        if self.values.len() < slots {
            self.values.resize(slots, Value::Null);
        }
        if self.cells.len() < cells {
            self.cells.resize_with(cells, Cell::default);
        }
    }

    /// Forgets what earlier statements cached. Every statement begins with it.
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

/// What changes from call to call: sequences, the clock, randomness. The executor has none of its own.
pub trait Environment {
    fn next_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError>;
    fn current_value(&mut self, sequence: SequenceId) -> Result<Value, SqlError>;
    fn volatile(&mut self, function: VolatileFunction) -> Result<Value, SqlError>;

    /// FOR UPDATE of a row; `false`: it is to be passed over, for somebody else has it. Where nobody holds anything, nothing happens.
    fn hold(
        &mut self,
        _rows: &dyn Rows,
        _row: (TableId, RowRef),
        _how: (LockStrength, LockWait),
    ) -> Result<bool, SqlError> {
        Ok(true)
    }
}

/// One execution's context.
pub struct Cx<'a> {
    pub frame: &'a mut Frame,
    pub rows: &'a dyn Rows,
    /// Whoever makes a context has entered its zone.
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
