//! State of one compilation: schema, slots, CTEs in scope, and aggregates of the SELECT that is being compiled.

use weir_sql::bound::{Expr, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, SqlState};

use super::aggregate::CompiledAggregate;
use super::counts::{RowCounts, TABLE_ROWS};
use super::expr::{CompiledExpr, Field};
use super::query::window::WindowSort;
use super::slots::{CellId, ROW_IDENTITY, Slot, SlotAllocator};
use crate::storage::Schema;

/// See [`CompiledExpr::Field`].
struct InPlace {
    relation: RelationId,
    table: TableId,
    row: Slot,
}

pub struct Compiler<'a> {
    pub schema: &'a Schema,
    pub slots: &'a mut SlotAllocator,
    /// Row counts for join order; none for code that is kept permanently.
    counts: Option<&'a RowCounts>,
    /// The rows are filtered by a condition that is never true.
    pub(crate) finds_nothing: bool,
    /// The code runs more than once in a statement.
    pub(crate) runs_again: bool,
    /// CTEs of each enclosing query, outermost first.
    pub(crate) ctes: Vec<Vec<CellId>>,
    /// Aggregates met so far in each enclosing SELECT, outermost first.
    pub(crate) aggregates: Vec<Vec<CompiledAggregate>>,
    /// Window functions met so far in each enclosing SELECT, outermost first, by their sorts.
    pub(crate) windows: Vec<Vec<WindowSort>>,
    /// Table whose columns are currently read in place.
    in_place: Option<InPlace>,
    /// Addresses of conditions that became index keys, while they are recorded (see [`Compiler::watch_consumed`]).
    consumed: std::collections::BTreeSet<usize>,
}

impl<'a> Compiler<'a> {
    /// For expressions and statements whose columns the allocator has registered (`begin_statement`).
    pub fn new(schema: &'a Schema, slots: &'a mut SlotAllocator) -> Compiler<'a> {
        Compiler {
            schema,
            slots,
            counts: None,
            finds_nothing: false,
            runs_again: false,
            ctes: Vec::new(),
            aggregates: Vec::new(),
            windows: Vec::new(),
            in_place: None,
            consumed: Default::default(),
        }
    }

    /// Sets the known row counts of tables.
    pub(crate) fn with_counts(self, counts: Option<&'a RowCounts>) -> Compiler<'a> {
        Compiler { counts, ..self }
    }

    /// Estimated number of rows of the table.
    pub(crate) fn rows_of(&self, table: TableId) -> f64 {
        self.counts.and_then(|counts| counts.of(table)).unwrap_or(TABLE_ROWS)
    }

    /// Compiles code that runs repeatedly in a statement.
    pub(crate) fn again<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.runs_again, true);
        let compiled = compile(self);
        self.runs_again = before;
        compiled
    }

    /// Cell of a CTE, by nesting level outwards and position.
    pub(crate) fn cte(&self, level: usize, index: usize) -> Result<CellId, SqlError> {
        let scope = self.ctes.len().checked_sub(level + 1).and_then(|scope| self.ctes.get(scope));
        scope.and_then(|scope| scope.get(index)).copied().ok_or_else(|| {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "a WITH query that refers to a later one")
        })
    }

    /// Compiles expressions that read the columns of one table's current row in place.
    pub(crate) fn in_place<T>(
        &mut self,
        (relation, table, row): (RelationId, TableId, Slot),
        compile: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = self.in_place.replace(InPlace { relation, table, row });
        let compiled = compile(self);
        self.in_place = before;
        compiled
    }

    /// Compiles a reference to a column.
    pub(crate) fn column(&mut self, relation: RelationId, column: ColumnIndex) -> CompiledExpr {
        match &self.in_place {
            Some(at) if at.relation == relation && column != ROW_IDENTITY => {
                CompiledExpr::Field(Field { table: at.table, row: at.row, column })
            }
            _ => CompiledExpr::Slot(self.slots.read_column(relation, column)),
        }
    }

    /// Records the conditions that an index serves.
    pub(crate) fn note_consumed(&mut self, conditions: &[&Expr], consumes: impl Fn(usize) -> bool) {
        for (position, condition) in conditions.iter().enumerate() {
            if consumes(position) {
                self.consumed.insert(std::ptr::from_ref::<Expr>(condition) as usize);
            }
        }
    }

    /// Compiles, and returns which of the conditions no index serves.
    pub(crate) fn watch_consumed<T>(
        &mut self,
        conditions: &[&Expr],
        compile: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<(T, bool), SqlError> {
        let outside = std::mem::take(&mut self.consumed);
        let compiled = compile(self);
        let inside = std::mem::replace(&mut self.consumed, outside);
        let all = conditions
            .iter()
            .all(|condition| inside.contains(&(std::ptr::from_ref::<Expr>(condition) as usize)));
        Ok((compiled?, all))
    }
}
