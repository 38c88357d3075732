//! The state of one compilation: the schema, the slots, the CTEs in scope, the aggregates of the SELECT
//! that is being compiled.

use weir_sql::bound::Expr;
use weir_types::{SqlError, SqlState};

use super::aggregate::CompiledAggregate;
use super::slots::{CellId, SlotAllocator};
use crate::storage::Schema;

pub struct Compiler<'a> {
    pub schema: &'a Schema,
    pub slots: &'a mut SlotAllocator,
    /// The CTEs of each query from the outermost inwards.
    pub(crate) ctes: Vec<Vec<CellId>>,
    /// The aggregates met so far in each SELECT from the outermost inwards.
    pub(crate) aggregates: Vec<Vec<CompiledAggregate>>,
    /// The places of the conditions that became index keys, as far as somebody asks (see
    /// [`Compiler::watch_consumed`]).
    consumed: std::collections::BTreeSet<usize>,
}

impl<'a> Compiler<'a> {
    /// For expressions and statements whose columns the allocator has noted (`begin_statement`).
    pub fn new(schema: &'a Schema, slots: &'a mut SlotAllocator) -> Compiler<'a> {
        Compiler { schema, slots, ctes: Vec::new(), aggregates: Vec::new(), consumed: Default::default() }
    }

    /// The cell of a CTE by its level outwards and its position.
    pub(crate) fn cte(&self, level: usize, index: usize) -> Result<CellId, SqlError> {
        let scope = self.ctes.len().checked_sub(level + 1).and_then(|scope| self.ctes.get(scope));
        scope.and_then(|scope| scope.get(index)).copied().ok_or_else(|| {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "a WITH query that refers to a later one")
        })
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
