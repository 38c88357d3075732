//! Rows whose changes may violate assertions that their transaction checks before it commits ([`crate::exec::assertion::incremental`]).

use std::collections::BTreeMap;

use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

use crate::exec::call::Run;
use crate::exec::global::Columns;
use crate::faults::Faults;
use crate::message::Derived;
use crate::storage::{RowRef, Rows as _};

/// Tables of whose changed rows a statement notes the keys.
#[derive(Debug, Default)]
pub struct Watched {
    pub tables: BTreeMap<TableId, Vec<WatchedKey>>,
    /// All its assertions.
    pub assertions: Vec<u32>,
}

#[derive(Debug)]
pub struct WatchedKey {
    pub assertion: u32,
    /// The link of the table's rows to those that the assertion is about, and the columns in it; none: the whole assertion.
    pub link: Option<(u32, Vec<ColumnIndex>)>,
}

impl<F: Faults> Run<'_, F> {
    /// Notes a row that comes, changes, or goes: its old and its new values. It is still as it was.
    pub(super) fn note_change(&mut self, table: TableId, old: Option<u32>, new: Option<Columns<'_>>) {
        let procedure = self.fragment.procedure;
        let Some(keys) = procedure.watched.as_ref().and_then(|watched| watched.tables.get(&table)) else {
            return;
        };
        let (bugs, storage) = (self.fragment.bugs, &self.fragment.storage);
        let changed = &mut self.ran.changed;
        for WatchedKey { assertion, link } in keys {
            let Some((link, columns)) = link else {
                changed.add_whole(*assertion);
                continue;
            };
            let mut add = |value: Columns<'_>| {
                changed.add(
                    *assertion,
                    *link,
                    columns.iter().map(|&column| value(column)).collect::<Vec<Value>>(),
                );
            };
            if let Some(row) = old.filter(|_| !bugs.checks_new_values_alone()) {
                add(&|column| storage.value(table, RowRef { shard: 0, row }, column));
            }
            new.into_iter().for_each(&mut add);
        }
    }

    /// Rows that other shards change for this statement, because their parents have gone or have other keys, are not noted there.
    pub(in crate::exec) fn note_children_elsewhere(&mut self) {
        let procedure = self.fragment.procedure;
        let Some(watched) = &procedure.watched else { return };
        if self.ran.derived.iter().any(|one| matches!(one, Derived::Children { .. })) {
            watched.assertions.iter().for_each(|assertion| self.ran.changed.add_whole(*assertion));
        }
    }
}
