//! The prepared transactions of a shard, by the clocks at which they prepared.
//!
//! Clocks ascend, so the newest goes to the end, and most leave near the front: a queue with gaps, of which
//! nothing but the first is ever asked.

use std::collections::VecDeque;

use weir_core::ids::TxnId;

#[derive(Clone, Debug, Default)]
pub struct Undecided {
    /// Entries in clock order; decided ones are `None`. Invariant: the first is not.
    queue: VecDeque<(u64, Option<TxnId>)>,
}

impl Undecided {
    /// No clock comes twice.
    pub fn insert(&mut self, clock: u64, txn: TxnId) {
        let at = match self.queue.back() {
            Some((last, _)) if *last >= clock => self.at(clock),
            _ => self.queue.len(),
        };
        self.queue.insert(at, (clock, Some(txn)));
    }

    pub fn remove(&mut self, clock: u64) {
        let at = self.at(clock);
        if let Some((found, txn)) = self.queue.get_mut(at)
            && *found == clock
        {
            *txn = None;
        }
        while let Some((_, None)) = self.queue.front() {
            self.queue.pop_front();
        }
    }

    fn at(&self, clock: u64) -> usize {
        // Most leave in the order in which they came, and if one holds up the front, soon after they came.
        if self.queue.front().is_some_and(|(first, _)| *first >= clock) {
            return 0;
        }
        let (mut from, mut to) = (0, self.queue.len());
        let mut back = 1;
        while let Some(at) = self.queue.len().checked_sub(back) {
            if self.queue[at].0 < clock {
                from = at + 1;
                break;
            }
            (to, back) = (at, back * 2);
        }
        while from < to {
            let middle = usize::midpoint(from, to);
            if self.queue[middle].0 < clock {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    /// The lowest clock.
    pub fn first(&self) -> Option<u64> {
        self.queue.front().map(|(clock, _)| *clock)
    }

    /// In order of clocks.
    pub fn iter(&self) -> impl Iterator<Item = (u64, TxnId)> {
        self.queue.iter().filter_map(|(clock, txn)| Some((*clock, (*txn)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_lowest_that_is_left() {
        let txn = |sequence| TxnId { coordinator: 0, sequence };
        let mut undecided = Undecided::default();
        for clock in [3, 5, 9, 4] {
            undecided.insert(clock, txn(clock));
        }
        let mut seen = Vec::new();
        for clock in [5, 3, 7, 9, 4] {
            seen.push((undecided.first(), undecided.iter().count()));
            undecided.remove(clock);
        }
        assert_eq!(seen, [(Some(3), 4), (Some(3), 3), (Some(4), 2), (Some(4), 2), (Some(4), 1)]);
        assert_eq!(undecided.first(), None);
        undecided.insert(2, txn(2));
        assert_eq!(undecided.iter().collect::<Vec<_>>(), [(2, txn(2))]);
    }

    #[test]
    fn the_place_of_a_clock_is_found_from_both_ends() {
        let mut undecided = Undecided::default();
        for clock in 1..=100 {
            undecided.insert(2 * clock, TxnId { coordinator: 0, sequence: clock });
        }
        for clock in 0..=202 {
            let by_looking = (1..=100).filter(|one| 2 * one < clock).count();
            assert_eq!(undecided.at(clock), by_looking, "{clock}");
        }
    }
}
