//! Which pairs of branches the plan's guards keep apart.
//!
//! A guard is a test-and-set at an item's owner (design.md §4), so of two branches that take the same item only one
//! commits before the other has seen it. The executor says what a call takes; this module says which of that the
//! plan asked for. Only the cross-check of confluent verdicts needs it: a search for witnesses runs without guards.

use std::collections::BTreeMap;

use weir_analysis::{Analysis, GuardKind};
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_txn::claims::Claim;
use weir_txn::storage::key::push_key;
use weir_txn::storage::{IndexId, KeyBytes, Schema};
use weir_types::Value;

use crate::replica::{Branch, RowName};

/// By procedure and table.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    asked: BTreeMap<(usize, TableId), Vec<Asked>>,
}

#[derive(Clone, Debug)]
struct Asked {
    kind: GuardKind,
    columns: Vec<ColumnIndex>,
    shared: bool,
}

/// An item that a branch has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Row(TableId, RowName),
    Key(TableId, IndexId, KeyBytes),
}

/// An item that a guard of the plan is about.
#[derive(Clone, Debug)]
pub struct Taken {
    item: Item,
    shared: bool,
}

impl Guards {
    pub fn of(analysis: &Analysis) -> Guards {
        let mut guards = Guards::default();
        for transaction in &analysis.plan.transactions {
            for guard in &transaction.guards {
                let asked = Asked { kind: guard.kind, columns: guard.columns.clone(), shared: guard.shared };
                guards.asked.entry((transaction.procedure, guard.table)).or_default().push(asked);
            }
        }
        guards
    }

    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Claims of a call, as far as the plan requires them. Rows that the call itself has made are not visible to others.
    pub fn taken(
        &self,
        procedure: usize,
        claim: &Claim,
        schema: &Schema,
        name: &dyn Fn(TableId, u32) -> Option<RowName>,
    ) -> Option<Taken> {
        match claim {
            Claim::Row(table, row) | Claim::WeakRow(table, row, _) | Claim::Amount(table, row, ..) => {
                let asked = self.asked.get(&(procedure, *table))?;
                let row = name(*table, *row).filter(|name| matches!(name, RowName::Initial(_)))?;
                let shared = asked.iter().all(|asked| asked.shared);
                Some(Taken { item: Item::Row(*table, row), shared })
            }
            Claim::Key(table, index, key) => {
                let asked = self.asked.get(&(procedure, *table))?;
                let columns = &schema.table(*table).indexes[*index].columns;
                let same = |asked: &&Asked| {
                    asked.kind == GuardKind::Claim
                        && columns
                            .iter()
                            .all(|column| column.column.is_some_and(|at| asked.columns.contains(&at)))
                };
                let asked = asked.iter().find(same)?;
                Some(Taken { item: Item::Key(*table, *index, key.clone()), shared: asked.shared })
            }
            // No call takes one.
            Claim::Advisory(_) | Claim::Table(_) | Claim::Interval(..) => None,
        }
    }

    /// The keys that an update gives a row, as far as the plan asks for them. The executor claims the keys of new rows
    /// only; the plan asks for these too, at the value's owner.
    pub fn taken_by_update(
        &self,
        procedure: usize,
        table: TableId,
        schema: &Schema,
        before: Option<&[Value]>,
        after: &dyn Fn(ColumnIndex) -> Value,
    ) -> Vec<Taken> {
        let Some(asked) = self.asked.get(&(procedure, table)) else { return Vec::new() };
        let mut taken = Vec::new();
        for (index, unique) in
            schema.table(table).indexes.iter().enumerate().filter(|(_, index)| index.unique)
        {
            let columns: Option<Vec<ColumnIndex>> =
                unique.columns.iter().map(|column| column.column).collect();
            let Some(columns) = columns else { continue };
            let same = |asked: &&Asked| {
                asked.kind == GuardKind::Claim
                    && !asked.shared
                    && columns.iter().all(|column| asked.columns.contains(column))
            };
            let changed = before.is_none_or(|before| columns.iter().any(|&at| before[at] != after(at)));
            if !changed || !asked.iter().any(|asked| same(&asked)) {
                continue;
            }
            let mut key = KeyBytes::new();
            unique
                .columns
                .iter()
                .zip(&columns)
                .for_each(|(column, &at)| push_key(&mut key, &after(at), column));
            taken.push(Taken { item: Item::Key(table, index, key), shared: false });
        }
        taken
    }
}

/// Would one of the two have waited for the other?
pub fn meet(left: &Branch, right: &Branch) -> bool {
    left.taken.iter().any(|a| right.taken.iter().any(|b| a.item == b.item && !(a.shared && b.shared)))
}
