//! Prefetch of the rows that the rounds of a loop will look up.
//!
//! A row that was not used for a while is in none of the processor's caches, and a round that looks it up waits for memory several times:
//! for the index, for the row's location, for its bytes. Looked up together, the rows of all rounds are loaded in parallel. This is only
//! a hint: it changes no state, and a prefetched key that is not used costs its time only.

use weir_sql::catalog::TableId;

use super::access::{Path, TableAccess, push_keys};
use super::call::Run;
use super::expr::CompiledExpr;
use super::program::{CompiledStep, CompiledStepKind};
use super::slots::Slot;
use super::write::Matches;
use crate::faults::Faults;
use crate::storage::{IndexId, KeyBytes};

/// Number of rounds prefetched at a time: enough to fill the processor's load queue.
pub const ROUNDS: i64 = 32;

/// A look-up whose key is known as soon as the loop variable is.
#[derive(Debug)]
pub struct Ahead {
    table: TableId,
    index: IndexId,
    keys: Vec<CompiledExpr>,
}

/// Look-ups of a loop's body that differ from round to round.
pub fn of(variable: Slot, body: &[CompiledStep]) -> Vec<Ahead> {
    let mut found = Vec::new();
    for step in body {
        let mut note = |access: &TableAccess| found.extend(Ahead::of(access, variable));
        match &step.kind {
            CompiledStepKind::Query { query, .. } => query.tables().into_iter().for_each(note),
            CompiledStepKind::Update { update, .. } => {
                if let Matches::Access(access) = &update.rows {
                    note(access);
                }
            }
            CompiledStepKind::Delete { delete, .. } => {
                if let Matches::Access(access) = &delete.rows {
                    note(access);
                }
            }
            _ => {}
        }
    }
    found
}

impl Ahead {
    fn of(access: &TableAccess, variable: Slot) -> Option<Ahead> {
        let Path::Get { index, keys } = &access.path else { return None };
        let varies = |key: &CompiledExpr| match key {
            CompiledExpr::Slot(slot) => *slot == variable,
            CompiledExpr::Element { index, .. } => *index == variable,
            _ => false,
        };
        let keys: Option<Vec<CompiledExpr>> = keys.iter().map(CompiledExpr::copy_at_hand).collect();
        let keys = keys.filter(|keys| keys.iter().any(varies))?;
        Some(Ahead { table: access.table, index: *index, keys })
    }
}

impl<F: Faults> Run<'_, F> {
    /// Records the keys that the round with the loop variable's current value will look up.
    pub(super) fn foresee(&mut self, ahead: &[Ahead]) {
        for one in ahead {
            let mut key = KeyBytes::new();
            // An error in a key is reported later by the statement itself.
            let whole = self.with_cx(|cx| push_keys(one.table, one.index, 0, &one.keys, &mut key, cx));
            if let Ok(true) = whole {
                self.foreseen.push((one.table, one.index, key));
            }
        }
    }

    /// Prefetches the recorded keys.
    pub(super) fn look_ahead(&mut self) {
        self.fragment.storage.look_ahead(&self.foreseen);
        self.foreseen.clear();
    }
}
