//! Rows that a statement had chosen when it first had to wait for a lock. When the lock is free, the statement is run again and, like
//! PostgreSQL at READ COMMITTED, considers only these rows, in their current state; rows that match only since then are ignored.

use weir_sql::catalog::TableId;

use super::call::{Run, Stop};
use super::query::CompiledQuery;
use crate::faults::Faults;

#[derive(Clone, Debug)]
pub struct Chosen {
    /// Position of the statement in its text.
    place: u32,
    /// Rows in ascending order.
    rows: Vec<(TableId, u32)>,
}

impl Chosen {
    /// Returns whether the statement may take the row.
    pub fn has(&self, place: u32, table: TableId, row: u32) -> bool {
        place != self.place || self.rows.binary_search(&(table, row)).is_ok()
    }
}

impl<F: Faults> Run<'_, F> {
    /// Records the chosen rows if the statement has to wait. Steps of procedures choose anew, and so do serializable transactions.
    pub(super) fn choosing<T>(
        &mut self,
        result: Result<T, Stop>,
        rows: impl FnOnce() -> Vec<(TableId, u32)>,
    ) -> Result<T, Stop> {
        if let Err(Stop::Held(_) | Stop::Pinned { .. }) = &result
            && self.procedure.by_itself
            && !self.is_serializable()
            && self.chosen.is_none()
        {
            let mut rows = rows();
            rows.sort_unstable();
            self.chosen = Some(Chosen { place: self.fragment.environment.place(), rows });
        }
        result
    }

    /// Records the rows that a write has chosen. A write whose queries lock rows themselves chooses anew: those may have waited too.
    pub(super) fn choosing_to_write<T>(
        &mut self,
        result: Result<T, Stop>,
        table: TableId,
        rows: impl Iterator<Item = u32>,
    ) -> Result<T, Stop> {
        match self.fragment.environment.wants_rows() {
            true => result,
            false => self.choosing(result, || rows.map(|row| (table, row)).collect()),
        }
    }

    /// Claims the rows that a query locks. They are all that it has chosen, unless LIMIT makes it continue with others.
    pub(super) fn claim_chosen(&mut self, query: &CompiledQuery) -> Result<(), Stop> {
        let Some(wanted) = self.fragment.environment.take_wanted() else { return Ok(()) };
        let rows: Vec<_> = wanted.iter().map(|(table, row, _)| (*table, *row)).collect();
        let claimed = self.claim_all(wanted);
        match query.holds_all() {
            true => self.choosing(claimed, || rows),
            false => claimed,
        }
    }
}
