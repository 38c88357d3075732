//! Whose open transactions wait for whom, as their coordinator has heard.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{Age, ShardId, TxnId};

/// For whom transactions of one coordinator wait at each shard, and since when.
#[derive(Debug, Default)]
pub struct Waits(BTreeMap<TxnId, BTreeMap<ShardId, (TxnId, u64)>>);

impl Waits {
    /// A shard says, perhaps again, that a transaction waits there. Gives the youngest of those that wait for each other, if that one
    /// does.
    pub fn note(&mut self, now_ms: u64, txn: TxnId, shard: ShardId, holder: TxnId) -> Option<TxnId> {
        let edge = self.0.entry(txn).or_default().entry(shard).or_insert((holder, now_ms));
        // Clocks are set back, too.
        if edge.0 != holder || edge.1 > now_ms {
            *edge = (holder, now_ms);
        }
        let behind = self.reached(txn);
        let circle = behind.iter().copied().filter(|one| self.reached(*one).contains(&txn));
        circle.max_by_key(|one| one.sequence).filter(|_| behind.contains(&txn))
    }

    /// It does not wait any more.
    pub fn end(&mut self, txn: TxnId) {
        self.0.remove(&txn);
    }

    /// Who waits for whom, and since when.
    pub fn all(&self) -> impl Iterator<Item = (TxnId, TxnId, u64)> {
        let of = |(txn, edges): (&TxnId, &BTreeMap<ShardId, (TxnId, u64)>)| {
            let txn = *txn;
            edges.values().map(move |(holder, since_ms)| (txn, *holder, *since_ms)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
    }

    /// Those that wait, and since when for one that they wait for longest.
    pub fn longest(&self) -> impl Iterator<Item = (TxnId, u64)> {
        let since = |(txn, edges): (&TxnId, &BTreeMap<ShardId, (TxnId, u64)>)| {
            Some((*txn, edges.values().map(|(_, since_ms)| *since_ms).min()?))
        };
        self.0.iter().filter_map(since)
    }

    /// Those that have waited since before then for an older one, and, in the end, for one of another coordinator.
    pub fn may_be_on_circles(&self, before_ms: u64) -> Vec<TxnId> {
        let age = |txn: TxnId| Age { sequence: txn.sequence, coordinator: txn.coordinator };
        let is_one = |txn: TxnId, (holder, since_ms): (TxnId, u64)| {
            let is_foreign = |one: &TxnId| one.coordinator != txn.coordinator;
            since_ms <= before_ms
                && age(holder) < age(txn)
                && (is_foreign(&holder) || self.reached(holder).iter().any(is_foreign))
        };
        let of = self.0.iter().filter(|(txn, edges)| edges.values().any(|edge| is_one(**txn, *edge)));
        of.map(|(txn, _)| *txn).collect()
    }

    /// For whom it waits, and they, and so on.
    fn reached(&self, from: TxnId) -> BTreeSet<TxnId> {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(next) = todo.pop() {
            for (holder, _) in self.0.get(&next).into_iter().flat_map(BTreeMap::values) {
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
