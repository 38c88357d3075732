//! Amounts that prepared transactions will add to columns with a bound (docs/internals/escrow.md).

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_core::ids::TxnId;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;
use weir_types::compare::compare;

/// Amount that a transaction will add to a column of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    pub txn: TxnId,
    pub column: ColumnIndex,
    pub delta: Value,
}

/// All amounts, by row. Those of a row are in one order whoever came first: by transaction, column and delta. So a shard that starts again
/// has the same ones in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    rows: FxHashMap<(TableId, u32), SmallVec<[Amount; 1]>>,
}

impl Amounts {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn of(&self, row: (TableId, u32)) -> impl Iterator<Item = &Amount> {
        self.rows.get(&row).into_iter().flatten()
    }

    pub(super) fn add(&mut self, row: (TableId, u32), amount: Amount) {
        let of_row = self.rows.entry(row).or_default();
        let is_before = |one: &Amount| {
            let order = (one.txn, one.column).cmp(&(amount.txn, amount.column));
            order.then_with(|| compare(&one.delta, &amount.delta)).is_lt()
        };
        let at = of_row.partition_point(is_before);
        of_row.insert(at, amount);
    }

    /// Removes one that is equal.
    pub(super) fn remove(&mut self, row: (TableId, u32), amount: &Amount) {
        let Some(of_row) = self.rows.get_mut(&row) else { return };
        if let Some(at) = of_row.iter().position(|one| one == amount) {
            of_row.remove(at);
        }
        if of_row.is_empty() {
            self.rows.remove(&row);
        }
    }

    pub(super) fn retain(&mut self, is_meant: impl Fn(TxnId) -> bool) {
        self.rows.retain(|_, of_row| {
            of_row.retain(|amount| is_meant(amount.txn));
            !of_row.is_empty()
        });
    }
}
