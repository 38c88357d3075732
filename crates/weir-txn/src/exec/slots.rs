//! Slots: where every variable and every needed column of a statement lives while it runs.
//!
//! Slot `n` below the variable count is procedure variable `n`; above follow, per statement, the columns
//! that it uses. Statements of one procedure reuse the same slots one after the other.

use std::collections::{BTreeMap, BTreeSet};

use weir_sql::bound::{Expr, Query, RelationId, Statement};
use weir_sql::catalog::{ColumnIndex, TableId};

use super::walk;
use crate::storage::IndexId;

/// Index into [`super::context::Frame::values`].
pub type Slot = u32;

/// Index into [`super::context::Frame::cells`].
pub type CellId = u32;

/// Pseudo-column: which row it is, as [`super::access::pack_row`] writes it. DML and FOR UPDATE ask for it.
pub const ROW_IDENTITY: ColumnIndex = ColumnIndex::MAX;

/// Hands out slots and cells at compile time.
#[derive(Clone, Debug)]
pub struct SlotAllocator {
    variables: u32,
    next: u32,
    slots_max: u32,
    next_cell: u32,
    cells_max: u32,
    relations: BTreeMap<RelationId, BTreeMap<ColumnIndex, Slot>>,
    /// Slots that some compiled expression of the statement reads; the others need not be filled.
    read: BTreeSet<Slot>,
    /// Indexes whose whole keys some statement looks up.
    pub(crate) looked_up: BTreeSet<(TableId, IndexId)>,
}

impl SlotAllocator {
    /// For a procedure (or statement) with so many variables, implicit ones included.
    pub fn new(variables: usize) -> SlotAllocator {
        let variables = variables as u32;
        SlotAllocator {
            variables,
            next: variables,
            slots_max: variables,
            next_cell: 0,
            cells_max: 0,
            relations: BTreeMap::new(),
            read: BTreeSet::new(),
            looked_up: BTreeSet::new(),
        }
    }

    /// Forgets the previous statement's relations and allots slots to the columns that this one uses.
    pub fn begin_statement(&mut self, statement: &Statement) {
        self.begin();
        walk::each_statement_expr(statement, &mut |expr| self.note(expr));
    }

    /// Begins a query that is a statement of its own.
    pub fn begin_query(&mut self, query: &Query) {
        self.begin();
        walk::each_expr_of_query(query, &mut |expr| self.note(expr));
    }

    /// Begins an expression of its own (an assignment's right side, a CHECK).
    pub fn begin_expr(&mut self, expr: &Expr) {
        self.begin();
        walk::each_expr(expr, &mut |expr| self.note(expr));
    }

    /// Forgets the previous statement's relations; slots above the variables are free again.
    pub fn begin(&mut self) {
        self.next = self.variables;
        self.next_cell = 0;
        self.relations.clear();
        self.read.clear();
    }

    fn note(&mut self, expr: &Expr) {
        if let weir_sql::bound::ExprKind::Column { relation, column } = expr.kind {
            self.column(relation, column);
        }
    }

    /// Allots slots to everything that the query uses, without forgetting the statement around it.
    pub(crate) fn note_query(&mut self, query: &Query) {
        walk::each_expr_of_query(query, &mut |expr| self.note(expr));
    }

    /// The slot of a column, allotted at the first call.
    pub fn column(&mut self, relation: RelationId, column: ColumnIndex) -> Slot {
        if let Some(&slot) = self.relations.get(&relation).and_then(|columns| columns.get(&column)) {
            return slot;
        }
        let slot = self.fresh();
        self.relations.entry(relation).or_default().insert(column, slot);
        slot
    }

    /// The slot of a column that an expression reads while the statement runs.
    pub fn read_column(&mut self, relation: RelationId, column: ColumnIndex) -> Slot {
        let slot = self.column(relation, column);
        self.read.insert(slot);
        slot
    }

    /// Whether any expression compiled since the statement began reads the slot.
    pub fn is_read(&self, slot: Slot) -> bool {
        self.read.contains(&slot)
    }

    /// The slots that a relation has so far, by column.
    pub fn columns_of(&self, relation: RelationId) -> Vec<(ColumnIndex, Slot)> {
        let columns = self.relations.get(&relation);
        columns.into_iter().flatten().map(|(&column, &slot)| (column, slot)).collect()
    }

    /// A slot for a value that is no column: an aggregate's result, say.
    pub fn fresh(&mut self) -> Slot {
        let slot = self.next;
        self.next += 1;
        self.slots_max = self.slots_max.max(self.next);
        slot
    }

    /// A cell for what is computed once per execution of the statement.
    pub fn fresh_cell(&mut self) -> CellId {
        let cell = self.next_cell;
        self.next_cell += 1;
        self.cells_max = self.cells_max.max(self.next_cell);
        cell
    }

    /// The cell that would be handed out next.
    pub(crate) fn next_cell(&self) -> CellId {
        self.next_cell
    }

    /// Number of slots that a frame needs for everything that was compiled so far.
    pub fn slots_max(&self) -> usize {
        self.slots_max as usize
    }

    pub fn cells_max(&self) -> usize {
        self.cells_max as usize
    }
}
