//! Operations in flight of a coordinator: numbered without gaps, ended in any order; and the progress of its reads, for the shards' drain
//! epochs (soundness S10).

use std::collections::{BTreeMap, VecDeque};

use crate::ids::ShardId;
use crate::readers::incarnation_of;

/// Operations in flight by sequence number. Numbers ascend and are never reused.
#[derive(Debug)]
pub struct Flights<F> {
    base: u64,
    flights: VecDeque<Option<F>>,
}

impl<F> Flights<F> {
    /// The first number will be `base`.
    pub fn from(base: u64) -> Flights<F> {
        Flights { base, flights: VecDeque::new() }
    }

    /// First number that may be in flight: all before it are over.
    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn next(&self) -> u64 {
        self.base + self.flights.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Distance from the oldest operation in flight to the newest.
    pub fn window(&self) -> usize {
        self.flights.len()
    }

    pub fn begin(&mut self, flight: F) -> u64 {
        let sequence = self.next();
        self.flights.push_back(Some(flight));
        sequence
    }

    pub fn get_mut(&mut self, sequence: u64) -> Option<&mut F> {
        let at = sequence.checked_sub(self.base)?;
        self.flights.get_mut(at as usize)?.as_mut()
    }

    pub fn end(&mut self, sequence: u64) -> Option<F> {
        let at = sequence.checked_sub(self.base)?;
        let flight = self.flights.get_mut(at as usize)?.take();
        self.pass();
        flight
    }

    /// Ends an operation and discards its state.
    pub fn drop(&mut self, sequence: u64) {
        let at = sequence.checked_sub(self.base).map(|at| at as usize);
        if let Some(flight) = at.and_then(|at| self.flights.get_mut(at)) {
            *flight = None;
        }
        self.pass();
    }

    /// Advances the base past ended operations.
    fn pass(&mut self) {
        while let Some(None) = self.flights.front() {
            self.flights.pop_front();
            self.base += 1;
        }
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut F)> {
        let base = self.base;
        let numbered = self.flights.iter_mut().enumerate();
        numbered.filter_map(move |(at, flight)| Some((base + at as u64, flight.as_mut()?)))
    }
}

/// By shard: the newest drain epoch for which all reads that were active at its arrival have ended.
#[derive(Debug)]
pub struct Drains {
    shards: BTreeMap<ShardId, Drain>,
    /// Reads below this number must end before another epoch is drained.
    due: u64,
}

impl Default for Drains {
    fn default() -> Drains {
        Drains { shards: BTreeMap::new(), due: u64::MAX }
    }
}

#[derive(Debug, Default)]
struct Drain {
    drained: u64,
    newest: u64,
    /// Undrained epochs, each with the number of the first read that began after the epoch's arrival.
    waiting: VecDeque<(u64, u64)>,
}

impl Drains {
    pub fn drained(&self, shard: ShardId) -> u64 {
        self.shards.get(&shard).map_or(0, |drain| drain.drained)
    }

    /// Incarnation of the shard that the newest epoch is of; none: nothing has been heard of it.
    pub fn incarnation(&self, shard: ShardId) -> Option<u64> {
        let newest = self.shards.get(&shard)?.newest;
        Some(incarnation_of(newest)).filter(|incarnation| *incarnation > 0)
    }

    /// Records a shard's epoch. `next`: number of the next read; `oldest`: number of the oldest active read.
    pub fn on_epoch(&mut self, shard: ShardId, epoch: u64, next: u64, oldest: u64) {
        let drain = self.shards.entry(shard).or_default();
        if epoch > drain.newest {
            drain.newest = epoch;
            drain.waiting.push_back((epoch, next));
            drain.advance(oldest);
            self.due = self.due.min(drain.due());
        }
    }

    /// Records that the reads before `oldest` have ended.
    pub fn on_ended(&mut self, oldest: u64) {
        if oldest >= self.due {
            self.shards.values_mut().for_each(|drain| drain.advance(oldest));
            self.due = self.shards.values().map(Drain::due).min().unwrap_or(u64::MAX);
        }
    }
}

impl Drain {
    /// The first waiting epoch is drained once all reads below this number have ended.
    fn due(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |(_, begun_before)| *begun_before)
    }

    fn advance(&mut self, oldest: u64) {
        while let Some(&(epoch, begun_before)) = self.waiting.front()
            && oldest >= begun_before
        {
            self.drained = epoch;
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_passes_what_has_ended() {
        let mut flights = Flights::from(7);
        let numbers: Vec<u64> = "abcd".chars().map(|flight| flights.begin(flight)).collect();
        assert_eq!(numbers, [7, 8, 9, 10]);
        assert_eq!((flights.end(8), flights.base()), (Some('b'), 7));
        assert_eq!((flights.end(8), flights.get_mut(6)), (None, None));
        assert_eq!((flights.end(7), flights.base()), (Some('a'), 9));
        assert_eq!((flights.end(10), flights.end(9), flights.base()), (Some('d'), Some('c'), 11));
        assert!(flights.is_empty());
    }

    #[test]
    fn an_epoch_is_drained_when_the_reads_before_it_have_ended() {
        let mut drains = Drains::default();
        drains.on_epoch(0, 5, 10, 8);
        assert_eq!(drains.drained(0), 0);
        drains.on_ended(9);
        assert_eq!(drains.drained(0), 0);
        drains.on_epoch(0, 6, 12, 9);
        drains.on_ended(10);
        assert_eq!((drains.drained(0), drains.drained(1)), (5, 0));
        drains.on_ended(12);
        assert_eq!(drains.drained(0), 6);
    }
}
