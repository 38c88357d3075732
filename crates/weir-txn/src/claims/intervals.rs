//! Interval locks: what serializable transactions have read (docs/internals/serializable.md).

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use weir_core::ids::TxnId;
use weir_sql::catalog::TableId;

use super::Holders;
use crate::storage::{IndexId, KeyBytes, KeyRange};

/// Rows of a table, present or absent. Logged within claims, so new variants are added at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Interval {
    /// All rows.
    Table,
    /// The row with that whole key in a unique index.
    Key(IndexId, KeyBytes),
    /// The rows whose key in the index lies in the range.
    Range(IndexId, KeyRange),
}

impl Interval {
    /// Returns whether a row lies in it, whose key in an index `key` gives. The number of a row may follow its key.
    pub fn contains(&self, key: impl FnOnce(IndexId) -> KeyBytes) -> bool {
        match self {
            Interval::Table => true,
            Interval::Key(index, own) => key(*index).starts_with(own),
            Interval::Range(index, range) => range.contains(&key(*index)),
        }
    }

    /// The index whose keys it is about; none: it covers the table.
    pub fn index(&self) -> Option<IndexId> {
        match self {
            Interval::Table => None,
            Interval::Key(index, _) | Interval::Range(index, _) => Some(*index),
        }
    }
}

/// All interval locks of a shard, by table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Intervals(BTreeMap<TableId, OfTable>);

/// Invariant: each list of holders ascends and is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfTable {
    /// Holders of the whole table; the only list that may be empty.
    whole: Holders,
    indexes: BTreeMap<IndexId, OfIndex>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfIndex {
    keys: FxHashMap<KeyBytes, Holders>,
    ranges: FxHashMap<KeyRange, Holders>,
}

fn add(holders: &mut Holders, txn: TxnId) -> bool {
    match holders.binary_search(&txn) {
        Ok(_) => false,
        Err(at) => {
            holders.insert(at, txn);
            true
        }
    }
}

fn keep(holders: &mut Holders, is_meant: impl Fn(TxnId) -> bool) -> bool {
    holders.retain(|txn| is_meant(*txn));
    !holders.is_empty()
}

impl OfTable {
    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.indexes.is_empty()
    }

    fn retain(&mut self, is_meant: &dyn Fn(TxnId) -> bool) {
        keep(&mut self.whole, is_meant);
        self.indexes.retain(|_, of| {
            of.keys.retain(|_, holders| keep(holders, is_meant));
            of.ranges.retain(|_, holders| keep(holders, is_meant));
            !of.is_empty()
        });
    }

    fn holders(&self) -> impl Iterator<Item = TxnId> {
        let of_indexes = self.indexes.values().flat_map(|of| of.keys.values().chain(of.ranges.values()));
        [&self.whole].into_iter().chain(of_indexes).flatten().copied()
    }
}

impl OfIndex {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    fn holders_of(&self, key: &KeyBytes) -> impl Iterator<Item = TxnId> {
        let ranges = self.ranges.iter().filter(|(range, _)| range.contains(key)).map(|(_, holders)| holders);
        self.keys.get(key).into_iter().chain(ranges).flatten().copied()
    }
}

/// The transactions, each once, in ascending order, without `txn`.
fn others(all: impl Iterator<Item = TxnId>, txn: TxnId) -> Holders {
    let mut others: Holders = all.filter(|one| *one != txn).collect();
    others.sort_unstable();
    others.dedup();
    others
}

impl Intervals {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn readers_of(
        &self,
        table: TableId,
        txn: TxnId,
        keys: &dyn Fn(IndexId) -> SmallVec<[KeyBytes; 2]>,
    ) -> Holders {
        let Some(of) = self.0.get(&table) else { return Holders::new() };
        let mut readers: Vec<TxnId> = of.whole.to_vec();
        for (index, of) in &of.indexes {
            readers.extend(keys(*index).iter().flat_map(|key| of.holders_of(key)));
        }
        others(readers.into_iter(), txn)
    }

    pub fn readers_of_table(&self, table: TableId, txn: TxnId) -> Holders {
        others(self.0.get(&table).into_iter().flat_map(OfTable::holders), txn)
    }

    /// Returns whether the transaction did not hold it before.
    pub fn take(&mut self, table: TableId, interval: &Interval, txn: TxnId) -> bool {
        let of = self.0.entry(table).or_default();
        match interval {
            Interval::Table => add(&mut of.whole, txn),
            Interval::Key(index, key) => {
                let keys = &mut of.indexes.entry(*index).or_default().keys;
                add(keys.entry(key.clone()).or_default(), txn)
            }
            Interval::Range(index, range) => {
                let ranges = &mut of.indexes.entry(*index).or_default().ranges;
                add(ranges.entry(range.clone()).or_default(), txn)
            }
        }
    }

    pub fn release(&mut self, table: TableId, interval: &Interval, txn: TxnId) {
        let Some(of) = self.0.get_mut(&table) else { return };
        let goes = |holders: &mut Holders| !keep(holders, |one| one != txn);
        match interval {
            Interval::Table => drop(goes(&mut of.whole)),
            Interval::Key(index, key) => {
                if let Some(of) = of.indexes.get_mut(index)
                    && of.keys.get_mut(key).is_some_and(goes)
                {
                    of.keys.remove(key);
                }
            }
            Interval::Range(index, range) => {
                if let Some(of) = of.indexes.get_mut(index)
                    && of.ranges.get_mut(range).is_some_and(goes)
                {
                    of.ranges.remove(range);
                }
            }
        }
        if let Some(index) = interval.index()
            && of.indexes.get(&index).is_some_and(OfIndex::is_empty)
        {
            of.indexes.remove(&index);
        }
        if of.is_empty() {
            self.0.remove(&table);
        }
    }

    pub fn retain(&mut self, is_meant: &dyn Fn(TxnId) -> bool) {
        self.0.retain(|_, of| {
            of.retain(is_meant);
            !of.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::claims::{Claim, Claims};
    use crate::storage::Boundary;

    const TABLE: TableId = TableId(0);

    fn of(sequence: u64) -> TxnId {
        TxnId { coordinator: 0, sequence }
    }

    fn key(bytes: &[u8]) -> KeyBytes {
        KeyBytes::from(bytes)
    }

    fn range(lower: (&[u8], bool), upper: (&[u8], bool)) -> Interval {
        let boundary = |(bytes, after): (&[u8], bool)| Boundary { bytes: key(bytes), after };
        Interval::Range(0, KeyRange { lower: boundary(lower), upper: boundary(upper) })
    }

    /// Readers of a row with these keys in index 0, and with others in other indexes.
    fn readers(claims: &Claims, keys: &[&[u8]], txn: TxnId) -> Vec<TxnId> {
        let of_index = |index: IndexId| match index {
            0 => keys.iter().map(|one| key(one)).collect(),
            _ => smallvec![key(&[99])],
        };
        claims.readers_of(TABLE, txn, &of_index).to_vec()
    }

    #[test]
    fn a_row_is_in_the_intervals_that_have_its_old_or_new_key() {
        let mut claims = Claims::default();
        assert!(!claims.has_intervals());
        let all = [
            (Interval::Key(0, key(&[7])), of(1)),
            (range((&[3], false), (&[5], true)), of(2)),
            (range((&[5], true), (&[9], false)), of(3)),
            (Interval::Table, of(4)),
            (Interval::Key(1, key(&[7])), of(5)),
        ];
        for (interval, txn) in &all {
            let claim = Claim::Interval(TABLE, interval.clone());
            assert!(claims.against(&claim, *txn).is_empty(), "readers share");
            assert!(claims.take(&claim, *txn) && !claims.take(&claim, *txn));
        }
        assert_eq!(readers(&claims, &[&[7]], of(9)), [of(1), of(3), of(4)]);
        assert_eq!(readers(&claims, &[&[5]], of(9)), [of(2), of(4)]);
        assert_eq!(readers(&claims, &[&[5], &[7]], of(4)), [of(1), of(2), of(3)], "old and new");
        assert_eq!(readers(&claims, &[&[9]], of(9)), [of(4)]);
        assert_eq!(claims.against(&Claim::Table(TABLE), of(1))[..], [of(2), of(3), of(4), of(5)]);
        assert!(claims.against(&Claim::Table(TableId(1)), of(1)).is_empty());
        let kept = claims.of(|txn| txn == of(2));
        assert_eq!(readers(&kept, &[&[5]], of(9)), [of(2)]);
        for (interval, txn) in all {
            claims.release(&Claim::Interval(TABLE, interval), txn);
        }
        assert_eq!(claims, Claims::default());
    }

    #[test]
    fn a_key_is_that_of_a_row_whose_number_follows() {
        assert!(Interval::Key(0, key(&[1, 2])).contains(|_| key(&[1, 2, 0, 0, 0, 9])));
        assert!(!Interval::Key(0, key(&[1, 2])).contains(|_| key(&[1, 3])));
        assert!(Interval::Table.contains(|_| unreachable!("all rows are in it")));
    }
}
