//! The rows that a statement had chosen when it first had to wait for a lock. It is run again when the lock is free; as in PostgreSQL at
//! READ COMMITTED it then looks at these rows alone, as they are now: what matches only since then is none of its business.

use weir_sql::catalog::TableId;

use super::call::{Run, Stop};
use super::query::CompiledQuery;

#[derive(Clone, Debug)]
pub struct Chosen {
    /// Of the statement.
    place: u32,
    /// In ascending order.
    rows: Vec<(TableId, u32)>,
}

impl Chosen {
    /// The statement may take the row.
    pub fn has(&self, place: u32, table: TableId, row: u32) -> bool {
        place != self.place || self.rows.binary_search(&(table, row)).is_ok()
    }
}

impl Run<'_> {
    /// Passes on what has become of a statement that has chosen those rows. Steps of procedures choose anew.
    pub(super) fn choosing<T>(
        &mut self,
        result: Result<T, Stop>,
        rows: impl FnOnce() -> Vec<(TableId, u32)>,
    ) -> Result<T, Stop> {
        if let Err(Stop::Held(_) | Stop::Pinned { .. }) = &result
            && self.procedure.by_itself
            && self.chosen.is_none()
        {
            let mut rows = rows();
            rows.sort_unstable();
            self.chosen = Some(Chosen { place: self.fragment.environment.place(), rows });
        }
        result
    }

    /// The rows that a write has chosen. One whose queries hold rows themselves chooses anew: they may have waited for others.
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

    /// What a query wants to hold is all that it has chosen, unless it goes on to others until it has enough.
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
