//! Whose open transactions wait for whom, as their coordinator has heard.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{Age, ShardId, TxnId};

/// For whom transactions of one coordinator wait at each shard, and since when.
#[derive(Debug, Default)]
pub struct Waits(BTreeMap<TxnId, Edges>);

/// Those that one waits for, at each shard at least one.
type Edges = BTreeMap<ShardId, Vec<(TxnId, u64)>>;

impl Waits {
    /// A shard says, perhaps again, that a transaction waits there. Gives the youngest of those that wait for each other, if that one
    /// does.
    pub fn note(&mut self, now_ms: u64, txn: TxnId, shard: ShardId, holder: TxnId) -> Option<TxnId> {
        let edges = self.0.entry(txn).or_default().entry(shard).or_default();
        // Clocks are set back, too.
        let is_known = |edge: &&(TxnId, u64)| edge.0 == holder && edge.1 <= now_ms;
        let since_ms = edges.iter().find(is_known).map_or(now_ms, |(_, since_ms)| *since_ms);
        *edges = vec![(holder, since_ms)];
        self.youngest_of_circle(txn)
    }

    /// The same of the others that it waits for there.
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

    /// It does not wait any more.
    pub fn end(&mut self, txn: TxnId) {
        self.0.remove(&txn);
    }

    /// Who waits for whom, and since when.
    pub fn all(&self) -> impl Iterator<Item = (TxnId, TxnId, u64)> {
        let of = |(txn, edges): (&TxnId, &Edges)| {
            let txn = *txn;
            let edges = edges.values().flatten();
            edges.map(move |(holder, since_ms)| (txn, *holder, *since_ms)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
    }

    /// Those that wait, and since when for one that they wait for longest.
    pub fn longest(&self) -> impl Iterator<Item = (TxnId, u64)> {
        let since = |(txn, edges): (&TxnId, &Edges)| {
            Some((*txn, edges.values().flatten().map(|(_, since_ms)| *since_ms).min()?))
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
        let of =
            self.0.iter().filter(|(txn, edges)| edges.values().flatten().any(|edge| is_one(**txn, *edge)));
        of.map(|(txn, _)| *txn).collect()
    }

    /// For whom it waits, and they, and so on.
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
