//! The state of one compilation: the schema, the slots, the CTEs in scope, the aggregates of the SELECT
//! that is being compiled.

use weir_sql::bound::{Expr, RelationId};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::{SqlError, SqlState};

use super::aggregate::CompiledAggregate;
use super::counts::{RowCounts, TABLE_ROWS};
use super::expr::{CompiledExpr, Field};
use super::query::window::CompiledWindow;
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
    /// None where what is compiled is kept for ever.
    counts: Option<&'a RowCounts>,
    /// The rows of what is being compiled are wanted under a condition that is never true.
    pub(crate) finds_nothing: bool,
    /// What is being compiled runs more than once in a statement.
    pub(crate) runs_again: bool,
    /// The CTEs of each query from the outermost inwards.
    pub(crate) ctes: Vec<Vec<CellId>>,
    /// The aggregates met so far in each SELECT from the outermost inwards.
    pub(crate) aggregates: Vec<Vec<CompiledAggregate>>,
    /// The same of window functions.
    pub(crate) windows: Vec<Vec<CompiledWindow>>,
    /// The table whose columns are read from the row in place, while such expressions are compiled.
    in_place: Option<InPlace>,
    /// The places of the conditions that became index keys, as far as somebody asks (see
    /// [`Compiler::watch_consumed`]).
    consumed: std::collections::BTreeSet<usize>,
}

impl<'a> Compiler<'a> {
    /// For expressions and statements whose columns the allocator has noted (`begin_statement`).
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

    /// With what is known of the sizes of tables.
    pub(crate) fn with_counts(self, counts: Option<&'a RowCounts>) -> Compiler<'a> {
        Compiler { counts, ..self }
    }

    /// About how many rows the table has.
    pub(crate) fn rows_of(&self, table: TableId) -> f64 {
        self.counts.and_then(|counts| counts.of(table)).unwrap_or(TABLE_ROWS)
    }

    /// Compiles what runs again and again in a statement.
    pub(crate) fn again<T>(&mut self, compile: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.runs_again, true);
        let compiled = compile(self);
        self.runs_again = before;
        compiled
    }

    /// The cell of a CTE by its level outwards and its position.
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

    /// A column as an expression reads it.
    pub(crate) fn column(&mut self, relation: RelationId, column: ColumnIndex) -> CompiledExpr {
        match &self.in_place {
            Some(at) if at.relation == relation && column != ROW_IDENTITY => {
                CompiledExpr::Field(Field { table: at.table, row: at.row, column })
            }
            _ => CompiledExpr::Slot(self.slots.read_column(relation, column)),
        }
    }

    /// Notes which conditions an index answers.
    pub(crate) fn note_consumed(&mut self, conditions: &[&Expr], consumes: impl Fn(usize) -> bool) {
        for (position, condition) in conditions.iter().enumerate() {
            if consumes(position) {
                self.consumed.insert(std::ptr::from_ref::<Expr>(condition) as usize);
            }
        }
    }

    /// Compiles, and says which of the conditions no index answered.
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
