//! Claims held at a shard: rows in PostgreSQL's four lock strengths; keys and advisory locks exclusively (docs/internals/row-locks.md);
//! intervals of keys, shared (docs/internals/serializable.md); amounts under a bound (docs/internals/escrow.md).
//!
//! A table only: [`crate::shard::Node`] decides which transaction waits, withdraws or ends.

mod amounts;
mod intervals;

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use weir_core::ids::TxnId;
use weir_sql::bound::LockStrength;
use weir_sql::catalog::{ColumnIndex, TableId};
use weir_types::Value;

pub use self::amounts::Amount;
use self::amounts::Amounts;
pub use self::intervals::Interval;
use self::intervals::Intervals;
use crate::message::AdvisoryKey;
use crate::storage::{IndexId, KeyBytes};

/// Number of unique keys that a transaction claims one by one. Other inserters look for further keys in its write set.
pub(crate) const KEYS_CLAIMED_MAX: usize = 4_096;

/// A lock that a transaction takes. Logged, so new variants are added at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Claim {
    /// A key of a unique index that is about to be inserted.
    Key(TableId, IndexId, KeyBytes),
    /// A row, held exclusively ([`LockStrength::Update`]).
    Row(TableId, u32),
    /// An advisory lock; applications define its meaning.
    Advisory(AdvisoryKey),
    /// A row in one of the three weaker strengths.
    WeakRow(TableId, u32, LockStrength),
    /// A table that a long statement writes: no other transaction takes claims of its rows and keys from then on. Claims that others have
    /// taken before remain; the statement respects each (docs/internals/steps.md, "Calls and statements that write").
    Table(TableId),
    /// Rows that a serializable transaction has read, those that are absent included: no other transaction writes a row in it.
    Interval(TableId, Interval),
    /// Amount that a prepared transaction will add to a column that has a bound. It conflicts with holds of the row, but not with others' amounts.
    Amount(TableId, u32, ColumnIndex, Value),
}

/// The strength in which amounts keep out, and are kept out by, those who hold the row.
const STRENGTH_OF_AMOUNTS: LockStrength = LockStrength::NoKeyUpdate;

impl Claim {
    pub fn row(table: TableId, row: u32, strength: LockStrength) -> Claim {
        match strength {
            LockStrength::Update => Claim::Row(table, row),
            weaker => Claim::WeakRow(table, row, weaker),
        }
    }

    fn as_row(&self) -> Option<((TableId, u32), LockStrength)> {
        match *self {
            Claim::Row(table, row) => Some(((table, row), LockStrength::Update)),
            Claim::WeakRow(table, row, strength) => Some(((table, row), strength)),
            Claim::Key(..)
            | Claim::Advisory(_)
            | Claim::Table(_)
            | Claim::Interval(..)
            | Claim::Amount(..) => None,
        }
    }

    /// The table of the row, the key or the interval, or the claimed table.
    pub fn table(&self) -> Option<TableId> {
        match *self {
            Claim::Key(table, ..)
            | Claim::Row(table, _)
            | Claim::WeakRow(table, ..)
            | Claim::Table(table)
            | Claim::Interval(table, _)
            | Claim::Amount(table, ..) => Some(table),
            Claim::Advisory(_) => None,
        }
    }
}

/// A table of which others must not hold anything until a starved call has run (`shard/starvation.rs`).
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    pub table: TableId,
    pub txn: TxnId,
}

/// Transactions that hold the same claim, each once, in ascending order.
pub type Holders = SmallVec<[TxnId; 1]>;

/// Holders of one row; most rows have at most one.
type Holds = SmallVec<[(TxnId, LockStrength); 1]>;

/// All claims and their holders. Invariant: no two transactions hold conflicting claims, but a table may be claimed while others hold claims
/// of its rows and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Holders of keys and advisory locks.
    alone: FxHashMap<Claim, TxnId>,
    /// Number of keys and advisory locks of each holder. Invariant: none is 0, and their sum is the length of `alone`.
    counts: FxHashMap<TxnId, usize>,
    /// Holders of rows, in ascending order. A transaction may hold a row in several strengths: each is released when the statement that
    /// took it is rolled back.
    rows: FxHashMap<(TableId, u32), Holds>,
    /// Claimed tables in ascending order; few, and most of the time none.
    tables: SmallVec<[(TableId, TxnId); 1]>,
    /// Intervals that serializable transactions have read. Invariant: no other transaction writes in them, but one that had written there
    /// before is waited for.
    intervals: Intervals,
    /// Amounts that prepared transactions will add to columns that have a bound. Invariant: nobody else holds such a row in a strength that conflicts
    /// with [`STRENGTH_OF_AMOUNTS`].
    amounts: Amounts,
    /// Open transactions that insert more keys than are claimed one by one: other writers search for keys in their write sets.
    pub(crate) loading: Vec<TxnId>,
}

impl Claims {
    pub fn is_empty(&self) -> bool {
        self.alone.is_empty()
            && self.rows.is_empty()
            && self.tables.is_empty()
            && self.intervals.is_empty()
            && self.amounts.is_empty()
    }

    /// Amounts that other transactions will add to columns of the row.
    pub fn amounts_of_others(&self, table: TableId, row: u32, txn: TxnId) -> impl Iterator<Item = &Amount> {
        self.amounts.of((table, row)).filter(move |amount| amount.txn != txn)
    }

    /// Forgets all amounts (a planted bug).
    pub(crate) fn forget_amounts(&mut self) {
        self.amounts = Amounts::default();
    }

    /// Returns whether any interval is held.
    #[inline]
    pub fn has_intervals(&self) -> bool {
        !self.intervals.is_empty()
    }

    /// Other transactions that hold an interval which contains a row. `keys` gives the row's keys in an index, without its number: one, or
    /// the old and the new one.
    pub fn readers_of(
        &self,
        table: TableId,
        txn: TxnId,
        keys: &dyn Fn(IndexId) -> SmallVec<[KeyBytes; 2]>,
    ) -> Holders {
        self.intervals.readers_of(table, txn, keys)
    }

    /// Other transactions that hold an interval of the table.
    pub fn readers_of_table(&self, table: TableId, txn: TxnId) -> Holders {
        self.intervals.readers_of_table(table, txn)
    }

    /// Returns whether any table is claimed.
    #[inline]
    pub fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Another transaction that has claimed the table.
    pub fn holder_of_table(&self, table: TableId, txn: TxnId) -> Option<TxnId> {
        let holds = |(claimed, holder): &&(TableId, TxnId)| *claimed == table && *holder != txn;
        self.tables.iter().find(holds).map(|(_, holder)| *holder)
    }

    /// Tables that the transaction has claimed.
    pub fn tables_of(&self, txn: TxnId) -> impl Iterator<Item = TableId> {
        self.tables.iter().filter(move |(_, holder)| *holder == txn).map(|(table, _)| *table)
    }

    /// Returns whether another transaction holds a key or an advisory lock.
    pub fn others_hold_keys(&self, txn: TxnId) -> bool {
        self.counts.len() > usize::from(self.counts.contains_key(&txn))
    }

    /// Other transactions whose claims conflict with `claim`.
    pub fn against(&self, claim: &Claim, txn: TxnId) -> Holders {
        let mut holders = self.against_alike(claim, txn);
        if let Claim::Table(_) = claim {
            // Not all keys of these are claimed.
            holders.extend(self.loading.iter().filter(|loading| **loading != txn).copied());
            holders.extend(claim.table().into_iter().flat_map(|table| self.readers_of_table(table, txn)));
            holders.sort_unstable();
            holders.dedup();
        }
        if !self.tables.is_empty()
            && let Some(holder) = claim.table().and_then(|table| self.holder_of_table(table, txn))
            && !self.holds(claim, txn)
            && let Err(at) = holders.binary_search(&holder)
        {
            holders.insert(at, holder);
        }
        holders
    }

    /// Returns whether the transaction holds the row, at least as strongly, or the key. Who claims the table later respects that.
    fn holds(&self, claim: &Claim, txn: TxnId) -> bool {
        match claim.as_row() {
            Some((row, strength)) => {
                let held = self.rows.get(&row).into_iter().flatten();
                held.into_iter().any(|(holder, held)| *holder == txn && *held >= strength)
            }
            None => self.alone.get(claim) == Some(&txn),
        }
    }

    /// Other transactions that hold the same row or key.
    fn against_alike(&self, claim: &Claim, txn: TxnId) -> Holders {
        if let Claim::Amount(table, row, ..) = *claim {
            return self.holders_of_row((table, row), STRENGTH_OF_AMOUNTS, txn);
        }
        let Some((row, strength)) = claim.as_row() else {
            return self.alone.get(claim).filter(|holder| **holder != txn).copied().into_iter().collect();
        };
        let mut holders = self.holders_of_row(row, strength, txn);
        if !self.amounts.is_empty() && strength.conflicts_with(STRENGTH_OF_AMOUNTS) {
            holders.extend(self.amounts_of_others(row.0, row.1, txn).map(|amount| amount.txn));
            holders.sort_unstable();
            holders.dedup();
        }
        holders
    }

    /// Other transactions that hold the row in a conflicting strength.
    fn holders_of_row(&self, row: (TableId, u32), strength: LockStrength, txn: TxnId) -> Holders {
        let conflicts =
            |(holder, held): &&(TxnId, LockStrength)| *holder != txn && held.conflicts_with(strength);
        let held = self.rows.get(&row).into_iter().flatten();
        let mut holders: Holders = held.filter(conflicts).map(|(holder, _)| *holder).collect();
        holders.dedup();
        holders
    }

    /// Holder of a key or an advisory lock.
    pub fn holder(&self, claim: &Claim) -> Option<TxnId> {
        self.alone.get(claim).copied()
    }

    /// Records that the transaction holds the claim. Returns whether it did not hold it before.
    pub fn take(&mut self, claim: &Claim, txn: TxnId) -> bool {
        let against = self.against_alike(claim, txn);
        assert!(against.is_empty(), "{txn:?} takes {claim:?}, which {against:?} hold");
        if let Claim::Table(table) = claim {
            assert_eq!(self.holder_of_table(*table, txn), None, "{txn:?} takes {claim:?}");
            let place = self.tables.binary_search(&(*table, txn));
            if let Err(at) = place {
                self.tables.insert(at, (*table, txn));
            }
            return place.is_err();
        }
        if let Claim::Interval(table, interval) = claim {
            return self.intervals.take(*table, interval, txn);
        }
        if let Claim::Amount(table, row, column, delta) = claim {
            self.amounts.add((*table, *row), Amount { txn, column: *column, delta: delta.clone() });
            return true;
        }
        let Some((row, strength)) = claim.as_row() else {
            let is_new = self.alone.insert(claim.clone(), txn).is_none();
            if is_new {
                *self.counts.entry(txn).or_default() += 1;
            }
            return is_new;
        };
        let holders = self.rows.entry(row).or_default();
        match holders.binary_search(&(txn, strength)) {
            Ok(_) => false,
            Err(at) => {
                holders.insert(at, (txn, strength));
                true
            }
        }
    }

    pub fn release(&mut self, claim: &Claim, txn: TxnId) {
        if let Claim::Table(table) = claim {
            self.tables.retain(|held| *held != (*table, txn));
            return;
        }
        if let Claim::Interval(table, interval) = claim {
            return self.intervals.release(*table, interval, txn);
        }
        if let Claim::Amount(table, row, column, delta) = claim {
            return self
                .amounts
                .remove((*table, *row), &Amount { txn, column: *column, delta: delta.clone() });
        }
        let Some((row, strength)) = claim.as_row() else {
            if let Some(holder) = self.alone.remove(claim)
                && let Entry::Occupied(mut count) = self.counts.entry(holder)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
            return;
        };
        let Some(holders) = self.rows.get_mut(&row) else { return };
        holders.retain(|held| *held != (txn, strength));
        if holders.is_empty() {
            self.rows.remove(&row);
        }
    }

    /// Releases everything that the transaction holds. Takes time proportional to the number of all claims.
    pub fn release_all_of(&mut self, txn: TxnId) {
        let keep = self.of(|other| other != txn);
        *self = keep;
    }

    /// The claims of the transactions for which `is_meant` holds.
    pub fn of(&self, is_meant: impl Fn(TxnId) -> bool) -> Claims {
        let mut of = self.clone();
        of.alone.retain(|_, txn| is_meant(*txn));
        of.counts.retain(|txn, _| is_meant(*txn));
        of.tables.retain(|(_, txn)| is_meant(*txn));
        of.loading.retain(|txn| is_meant(*txn));
        of.intervals.retain(&is_meant);
        of.amounts.retain(&is_meant);
        of.rows.retain(|_, holders| {
            holders.retain(|(txn, _)| is_meant(*txn));
            !holders.is_empty()
        });
        of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRENGTHS: [LockStrength; 4] =
        [LockStrength::KeyShare, LockStrength::Share, LockStrength::NoKeyUpdate, LockStrength::Update];

    fn of(sequence: u64) -> TxnId {
        TxnId { coordinator: 0, sequence }
    }

    /// PostgreSQL's documentation, 13.3.2, "Conflicting Row-Level Locks".
    #[test]
    fn strengths_are_in_conflict_as_in_postgres() {
        let conflicts: Vec<Vec<bool>> = STRENGTHS
            .iter()
            .map(|held| STRENGTHS.iter().map(|wanted| held.conflicts_with(*wanted)).collect())
            .collect();
        let [no, yes] = [false, true];
        let documented = [[no, no, no, yes], [no, no, yes, yes], [no, yes, yes, yes], [yes, yes, yes, yes]];
        assert_eq!(conflicts, documented);
    }

    #[test]
    fn holders_of_keys_are_counted() {
        let key = |of: u8| Claim::Key(TableId(0), 0, KeyBytes::from(&[of][..]));
        let mut claims = Claims::default();
        assert!(!claims.others_hold_keys(of(1)));
        for held in 0..3 {
            claims.take(&key(held), of(1));
            claims.take(&key(held), of(1));
        }
        claims.take(&Claim::Row(TableId(0), 1), of(2));
        assert!(!claims.others_hold_keys(of(1)), "its own, and a row");
        assert!(claims.others_hold_keys(of(2)));
        claims.take(&key(7), of(2));
        assert!(claims.others_hold_keys(of(1)));
        claims.release(&key(7), of(2));
        assert!(!claims.others_hold_keys(of(1)));
        (0..3).for_each(|held| claims.release(&key(held), of(1)));
        assert!(!claims.others_hold_keys(of(2)));
    }

    /// Others' claims from before remain; none is given afterwards.
    #[test]
    fn a_table_is_claimed_beside_rows_and_keeps_others_out() {
        let (row, key) = (Claim::Row(TableId(0), 7), Claim::Key(TableId(0), 0, KeyBytes::from(&[1][..])));
        let (table, other) = (Claim::Table(TableId(0)), Claim::Row(TableId(1), 7));
        let mut claims = Claims::default();
        claims.take(&row, of(2));
        assert!(claims.against(&table, of(1)).is_empty());
        assert!(claims.take(&table, of(1)) && !claims.take(&table, of(1)));
        assert_eq!(claims.against(&table, of(3))[..], [of(1)]);
        assert_eq!(claims.against(&key, of(3))[..], [of(1)]);
        assert_eq!(claims.against(&row, of(3))[..], [of(1), of(2)]);
        assert_eq!(claims.against(&row, of(1))[..], [of(2)], "what was there before");
        assert!(claims.against(&row, of(2)).is_empty(), "it keeps what it has");
        let weaker = Claim::row(TableId(0), 7, LockStrength::KeyShare);
        assert!(claims.against(&weaker, of(2)).is_empty());
        assert_eq!(claims.against(&Claim::Row(TableId(0), 8), of(2))[..], [of(1)], "and gets no other row");
        assert!(claims.against(&other, of(3)).is_empty());
        claims.loading.push(of(4));
        assert_eq!(
            claims.against(&Claim::Table(TableId(1)), of(1))[..],
            [of(4)],
            "not all of its keys are claimed"
        );
        claims.loading.clear();
        claims.release(&table, of(1));
        claims.release(&row, of(2));
        assert!(claims.is_empty());
    }

    #[test]
    fn amounts_keep_out_who_holds_the_row_and_not_each_other() {
        let amount = |delta: i64| Claim::Amount(TableId(0), 7, 1, Value::Int(delta));
        let deltas = |claims: &Claims, txn| -> Vec<i64> {
            let others = claims.amounts_of_others(TableId(0), 7, txn);
            others.map(|amount| if let Value::Int(delta) = amount.delta { delta } else { 0 }).collect()
        };
        for held in STRENGTHS {
            let row = Claim::row(TableId(0), 7, held);
            let mut claims = Claims::default();
            // A transaction may add the same amount twice.
            for delta in [-1, -2, -1] {
                assert!(claims.take(&amount(delta), of(2)));
            }
            claims.take(&amount(-4), of(1));
            assert!(claims.against(&amount(-1), of(3)).is_empty());
            assert_eq!(deltas(&claims, of(3)), [-4, -2, -1, -1]);
            assert_eq!(deltas(&claims, of(2)), [-4]);
            let excludes = held.conflicts_with(STRENGTH_OF_AMOUNTS);
            assert_eq!(claims.against(&row, of(3)).len(), if excludes { 2 } else { 0 }, "{held:?}");
            claims.release(&amount(-4), of(1));
            assert!(claims.against(&row, of(2)).is_empty(), "one's own are no hindrance");
            claims.take(&row, of(2));
            assert_eq!(claims.against(&amount(-1), of(3)).len(), usize::from(excludes), "{held:?}");
            assert!(claims.against(&amount(-1), of(2)).is_empty());
            [-1, -1, -2].into_iter().for_each(|delta| claims.release(&amount(delta), of(2)));
            claims.release(&row, of(2));
            assert!(claims.is_empty());
        }
    }

    #[test]
    fn a_row_has_the_holders_that_may_share_it() {
        let claim = |strength| Claim::row(TableId(0), 7, strength);
        for held in STRENGTHS {
            for wanted in STRENGTHS {
                let mut claims = Claims::default();
                assert!(claims.take(&claim(held), of(2)));
                assert!(!claims.take(&claim(held), of(2)), "it has it already");
                let against = claims.against(&claim(wanted), of(1));
                assert_eq!(!against.is_empty(), held.conflicts_with(wanted), "{held:?}, {wanted:?}");
                if against.is_empty() {
                    claims.take(&claim(wanted), of(1));
                    assert_eq!(claims.against(&Claim::Row(TableId(0), 7), of(3))[..], [of(1), of(2)]);
                    claims.release(&claim(wanted), of(1));
                }
                assert_eq!(claims.take(&claim(wanted), of(2)), wanted != held, "one's own are no hindrance");
                claims.release(&claim(wanted), of(2));
                if wanted != held {
                    assert_eq!(
                        !claims.against(&claim(wanted), of(1)).is_empty(),
                        held.conflicts_with(wanted)
                    );
                }
                claims.release(&claim(held), of(2));
                assert!(claims.is_empty());
            }
        }
    }
}
