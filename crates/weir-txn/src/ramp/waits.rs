//! Waits-for graph of a coordinator's open transactions, as shards report it.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::ids::{ShardId, TxnId};

use crate::message::Age;

/// Outgoing edges of each waiting transaction, by shard.
#[derive(Debug, Default)]
pub struct Waits(BTreeMap<TxnId, Edges>);

/// Holders that one transaction waits for and the time since when; at least one for each shard.
type Edges = BTreeMap<ShardId, Vec<(TxnId, u64)>>;

impl Waits {
    /// Records a report, perhaps repeated, that a transaction waits on a shard. If the graph then has a circle through it, returns the
    /// youngest transaction of the circle.
    pub fn note(&mut self, now_ms: u64, txn: TxnId, shard: ShardId, holder: TxnId) -> Option<TxnId> {
        let edges = self.0.entry(txn).or_default().entry(shard).or_default();
        // Wall clocks may be set back.
        let is_known = |edge: &&(TxnId, u64)| edge.0 == holder && edge.1 <= now_ms;
        let since_ms = edges.iter().find(is_known).map_or(now_ms, |(_, since_ms)| *since_ms);
        *edges = vec![(holder, since_ms)];
        self.youngest_of_circle(txn)
    }

    /// Records further holders that the transaction waits for there.
    pub fn note_besides(
        &mut self,
        now_ms: u64,
        txn: TxnId,
        shard: ShardId,
        holders: &[TxnId],
    ) -> Option<TxnId> {
        let edges = self.0.entry(txn).or_default().entry(shard).or_default();
        let since_ms = edges.first().map_or(now_ms, |(_, since_ms)| *since_ms);
        edges.extend(holders.iter().map(|holder| (*holder, since_ms)));
        self.youngest_of_circle(txn)
    }

    fn youngest_of_circle(&self, txn: TxnId) -> Option<TxnId> {
        let behind = self.reached(txn);
        let circle = behind.iter().copied().filter(|one| self.reached(*one).contains(&txn));
        circle.max_by_key(|one| one.sequence).filter(|_| behind.contains(&txn))
    }

    /// Removes a transaction that waits no longer.
    pub fn end(&mut self, txn: TxnId) {
        self.0.remove(&txn);
    }

    /// Removes what the transaction waits for at a shard that has answered.
    pub fn end_at(&mut self, txn: TxnId, shard: ShardId) {
        if let Some(edges) = self.0.get_mut(&txn) {
            edges.remove(&shard);
            if edges.is_empty() {
                self.0.remove(&txn);
            }
        }
    }

    /// All edges: waiting transaction, holder, and the time since when.
    pub fn all(&self) -> impl Iterator<Item = (TxnId, TxnId, u64)> {
        let of = |(txn, edges): (&TxnId, &Edges)| {
            let txn = *txn;
            let edges = edges.values().flatten();
            edges.map(move |(holder, since_ms)| (txn, *holder, *since_ms)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
    }

    /// Waiting transactions, each with the time since when it has waited for its longest-awaited holder.
    pub fn longest(&self) -> impl Iterator<Item = (TxnId, u64)> {
        let since = |(txn, edges): (&TxnId, &Edges)| {
            Some((*txn, edges.values().flatten().map(|(_, since_ms)| *since_ms).min()?))
        };
        self.0.iter().filter_map(since)
    }

    /// Transactions that have waited since before `before_ms` for an older one and, transitively, for one of another coordinator.
    pub fn may_be_on_circles(&self, before_ms: u64) -> Vec<TxnId> {
        let age = |txn: TxnId| Age { sequence: txn.sequence, coordinator: txn.coordinator };
        let is_one = |txn: TxnId, (holder, since_ms): (TxnId, u64)| {
            let is_foreign = |one: &TxnId| one.coordinator != txn.coordinator;
            since_ms <= before_ms
                && age(holder) < age(txn)
                && (is_foreign(&holder) || self.reached(holder).iter().any(is_foreign))
        };
        let of =
            self.0.iter().filter(|(txn, edges)| edges.values().flatten().any(|edge| is_one(**txn, *edge)));
        of.map(|(txn, _)| *txn).collect()
    }

    /// Transactions reachable from `from` in the graph.
    fn reached(&self, from: TxnId) -> BTreeSet<TxnId> {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(next) = todo.pop() {
            for (holder, _) in self.0.get(&next).into_iter().flat_map(BTreeMap::values).flatten() {
                if reached.insert(*holder) {
                    todo.push(*holder);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(coordinator: u32, sequence: u64) -> TxnId {
        TxnId { coordinator: coordinator as _, sequence }
    }

    #[test]
    fn the_youngest_on_a_circle_ends() {
        let mut waits = Waits::default();
        assert_eq!(waits.note(0, of(0, 1), 0, of(0, 2)), None);
        assert_eq!(waits.note(0, of(0, 2), 1, of(0, 3)), None);
        assert_eq!(waits.note(0, of(0, 4), 1, of(0, 1)), None, "it waits for the circle, and is not on it");
        assert_eq!(waits.note(0, of(0, 3), 0, of(1, 9)), None);
        assert_eq!(waits.note(0, of(0, 3), 2, of(0, 1)), Some(of(0, 3)));
        waits.end(of(0, 3));
        assert_eq!(waits.note(0, of(0, 2), 1, of(0, 3)), None);
    }

    #[test]
    fn a_circle_through_one_of_several_holders_is_seen() {
        let mut waits = Waits::default();
        assert_eq!(waits.note(0, of(0, 1), 0, of(0, 2)), None);
        assert_eq!(waits.note_besides(0, of(0, 1), 0, &[of(0, 3), of(0, 4)]), None);
        assert_eq!(waits.note(0, of(0, 3), 1, of(0, 1)), Some(of(0, 3)), "the idle holder is not on it");
        waits.end(of(0, 3));
        assert_eq!(waits.note(1, of(0, 1), 0, of(0, 2)), None, "the others have gone");
        assert_eq!(waits.note(1, of(0, 4), 1, of(0, 1)), None);
    }

    #[test]
    fn who_waits_for_another_coordinators_older_one_ends_in_time() {
        let mut waits = Waits::default();
        waits.note(5, of(0, 4), 0, of(0, 3));
        assert_eq!(waits.may_be_on_circles(5), [], "the other one goes on");
        waits.note(5, of(0, 3), 0, of(1, 9));
        waits.note(9, of(0, 3), 0, of(1, 9));
        assert_eq!(waits.may_be_on_circles(4), [], "not yet");
        assert_eq!(
            waits.may_be_on_circles(5),
            [of(0, 4)],
            "the younger of these, since when it was said first"
        );
    }
}
