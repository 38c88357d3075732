//! Maps of transactions. A payload chooses one: ordered where ranges of transactions are asked for, hashed where only single ones are.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::ids::TxnId;

/// A map of transactions.
pub trait TxnMap<V>: Default {
    fn get(&self, txn: TxnId) -> Option<&V>;
    fn get_mut(&mut self, txn: TxnId) -> Option<&mut V>;
    /// Returns the earlier value.
    fn insert(&mut self, txn: TxnId, value: V) -> Option<V>;
    fn remove(&mut self, txn: TxnId) -> Option<V>;
    fn len(&self) -> usize;
    /// In no promised order.
    fn iter<'m>(&'m self) -> impl Iterator<Item = (TxnId, &'m V)>
    where
        V: 'm;
    fn iter_mut<'m>(&'m mut self) -> impl Iterator<Item = (TxnId, &'m mut V)>
    where
        V: 'm;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn contains(&self, txn: TxnId) -> bool {
        self.get(txn).is_some()
    }
}

macro_rules! map_of_transactions {
    ($map:ident) => {
        impl<V> TxnMap<V> for $map<TxnId, V> {
            #[inline]
            fn get(&self, txn: TxnId) -> Option<&V> {
                $map::get(self, &txn)
            }

            #[inline]
            fn get_mut(&mut self, txn: TxnId) -> Option<&mut V> {
                $map::get_mut(self, &txn)
            }

            #[inline]
            fn insert(&mut self, txn: TxnId, value: V) -> Option<V> {
                $map::insert(self, txn, value)
            }

            #[inline]
            fn remove(&mut self, txn: TxnId) -> Option<V> {
                $map::remove(self, &txn)
            }

            #[inline]
            fn len(&self) -> usize {
                $map::len(self)
            }

            fn iter<'m>(&'m self) -> impl Iterator<Item = (TxnId, &'m V)>
            where
                V: 'm,
            {
                $map::iter(self).map(|(txn, value)| (*txn, value))
            }

            fn iter_mut<'m>(&'m mut self) -> impl Iterator<Item = (TxnId, &'m mut V)>
            where
                V: 'm,
            {
                $map::iter_mut(self).map(|(txn, value)| (*txn, value))
            }
        }
    };
}

map_of_transactions!(BTreeMap);
map_of_transactions!(FxHashMap);
