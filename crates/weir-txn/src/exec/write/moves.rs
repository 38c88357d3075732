//! UPDATE of what says on which shard a row lives: the row moves there (docs/internals/global-keys.md, 3.11).
//!
//! Invariants. A statement sees the row where it was until it ends, then the row goes, with what other shards know of its global keys, and comes
//! where its values say, in the same transaction. The new home checks it as a new row; where it was, the children of a key that has changed are
//! treated as after any update.

use weir_sql::bound::LockStrength;
use weir_sql::catalog::TableId;
use weir_types::Value;

use crate::exec::call::{Run, Stop};
use crate::faults::Faults;
use crate::message::Derived;

impl<F: Faults> Run<'_, F> {
    /// Registers a changed row, whose home is another shard now: it goes there when the run ends. Until then the statement sees it here.
    pub(super) fn note_move(&mut self, table: TableId, row: u32, new: &[Value]) -> Result<bool, Stop> {
        let program = self.fragment.program;
        if program.shards == 1
            || program.home(table, &|column| new[column].clone()).is_none_or(|to| to == self.fragment.here)
        {
            return Ok(false);
        }
        self.check_may_move(table)?;
        self.moved.push((table, row));
        Ok(true)
    }

    /// Sends the moved rows to their homes. Their keys stay, so that their children do.
    pub(in crate::exec) fn move_rows(&mut self) -> Result<(), Stop> {
        for (table, row) in std::mem::take(&mut self.moved) {
            if !self.fragment.storage.exists(table, row) {
                continue;
            }
            let values = self.row_values(table, row);
            let home = self.fragment.program.home(table, &|column| values[column].clone());
            let Some(at) = home.filter(|home| *home != self.fragment.here) else { continue };
            self.claim_row(table, row, LockStrength::Update)?;
            self.check_readers(table, Some(row), None)?;
            self.derive_change(table, row, None)?;
            self.remove_row(table, row)?;
            self.ran.derived.push(Derived::Row { at, table, values });
        }
        Ok(())
    }

    /// Takes in a row that an update has moved here: all its rules are looked at here.
    pub(super) fn take_row(&mut self, table: TableId, values: &[Value]) -> Result<(), Stop> {
        self.claim_table(table)?;
        self.check_home(table, values)?;
        let unseen = self.check_row(table, values, &|_| true, None)?;
        self.claim_keys(table, values)?;
        self.check_readers(table, None, Some(&|column| values[column].clone()))?;
        self.derive(table, (None, Some(&|column| values[column].clone())))?;
        let row = self.put_row(table, values)?;
        self.look_later(table, row, &unseen);
        Ok(())
    }
}
