//! A shard's knowledge of its coordinators: which of their transactions are over, which of them read here, and how far their reads have
//! progressed (soundness S10).
//!
//! Bookkeeping only, shared by all protocols that keep data for readers. A *drain epoch* travels to each reading coordinator with its
//! replies and returns once all reads that were active at its arrival have ended; data that was retired in an earlier epoch is then not
//! needed by any reader.

use crate::ids::CoordinatorId;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// Largest time counted for one tick of the timer, however far the clock steps.
const TICK_MS_MAX: u64 = 500;

/// Bits of a session or a drain epoch below the incarnation of the shard. An epoch may begin with each batch, so they must last for years of
/// batches; the bits above them are for a million starts.
const INCARNATION_SHIFT: u32 = 44;

/// Incarnation of the shard that has issued the drain epoch.
pub fn incarnation_of(epoch: u64) -> u64 {
    epoch >> INCARNATION_SHIFT
}

/// State of all known coordinators.
#[derive(Debug, Default)]
pub struct Readers {
    coordinators: BTreeMap<CoordinatorId, Coordinator>,
    epoch: u64,
    /// Clock of the shard when the epoch began.
    epoch_began_ms: u64,
    sessions: u64,
    /// Number of registered readers, and of those that have not drained the current epoch. Maintained incrementally: a shard of a large
    /// cluster has thousands, too many to count at each batch.
    registered: usize,
    behind: usize,
    /// Epoch in which a registered reader last read.
    read_in: u64,
    /// Time counted by the timer, independent of steps of the clock.
    age_ms: u64,
    /// Clock at the last tick.
    ticked_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Coordinator {
    /// All its transactions below are over.
    below: u64,
    /// Transactions from `below` on that are over here.
    over: Window,
    /// Session of its registration as a reader; 0 if none.
    session: u64,
    drained: u64,
    /// Age of the shard at its last message.
    heard_ms: u64,
}

impl Coordinator {
    /// Returns whether it is registered and has not drained that epoch.
    fn is_behind(&self, epoch: u64) -> bool {
        self.session != 0 && self.drained < epoch
    }
}

/// State that must survive a restart: which transactions of a coordinator are over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverOf {
    pub coordinator: CoordinatorId,
    below: u64,
    over: Window,
}

/// A set of numbers from a base on, stored as bits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Window {
    words: VecDeque<u64>,
}

impl Window {
    fn insert(&mut self, at: u64) {
        let word = (at / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (at % 64);
    }

    fn contains(&self, at: u64) -> bool {
        self.words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Removes that many words; returns the numbers in them.
    fn forget_words(&mut self, words: u64) -> impl Iterator<Item = u64> {
        let words = self.words.drain(..self.words.len().min(words as usize));
        words.enumerate().flat_map(|(at, word)| {
            let set = (0..64_u64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| at as u64 * 64 + bit)
        })
    }
}

impl Readers {
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Applies a coordinator's progress: all its transactions below the sequence are over, and its reads up to that epoch have ended.
    /// `over` is called, with some delay, for those that were over here. Returns the previous watermark.
    pub fn on_progress(
        &mut self,
        coordinator: CoordinatorId,
        below: u64,
        drained: u64,
        mut over: impl FnMut(u64),
    ) -> u64 {
        let known = self.coordinators.entry(coordinator).or_default();
        known.heard_ms = self.age_ms;
        let was_behind = known.is_behind(self.epoch);
        // Ignores epochs that have not begun.
        known.drained = known.drained.max(drained.min(self.epoch));
        self.behind -= usize::from(was_behind && !known.is_behind(self.epoch));
        let known_below = known.below;
        if below > known_below {
            let base = known_below / 64 * 64;
            known.over.forget_words(below / 64 - known_below / 64).for_each(|at| over(base + at));
            known.below = below;
        }
        known_below
    }

    /// Returns whether the transaction must not take effect (again): it has committed here, or is over everywhere.
    #[inline]
    pub fn is_over(&self, coordinator: CoordinatorId, sequence: u64) -> bool {
        let Some(known) = self.coordinators.get(&coordinator) else { return false };
        sequence < known.below || known.over.contains(sequence - known.below / 64 * 64)
    }

    #[inline]
    pub fn set_over(&mut self, coordinator: CoordinatorId, sequence: u64) {
        let known = self.coordinators.entry(coordinator).or_default();
        if sequence >= known.below {
            known.over.insert(sequence - known.below / 64 * 64);
        }
    }

    /// Returns whether the coordinator has reported that this transaction is over everywhere.
    #[inline]
    pub fn is_below(&self, coordinator: CoordinatorId, sequence: u64) -> bool {
        self.coordinators.get(&coordinator).is_some_and(|known| sequence < known.below)
    }

    /// Watermark of the coordinator: all its transactions below are over.
    #[inline]
    pub fn below(&self, coordinator: CoordinatorId) -> u64 {
        self.coordinators.get(&coordinator).map_or(0, |known| known.below)
    }

    /// Registers the coordinator, so that its silence is noticed.
    pub fn know(&mut self, coordinator: CoordinatorId) {
        let heard_ms = self.age_ms;
        self.coordinators.entry(coordinator).or_insert(Coordinator { heard_ms, ..Coordinator::default() });
    }

    /// Removes all knowledge of the coordinator.
    pub fn forget(&mut self, coordinator: CoordinatorId) {
        if let Some(known) = self.coordinators.remove(&coordinator).filter(|known| known.session != 0) {
            self.registered -= 1;
            self.behind -= usize::from(known.is_behind(self.epoch));
        }
    }

    /// Age of the shard: time counted by the timer, hardly affected by steps of the clock.
    pub fn age_ms(&self) -> u64 {
        self.age_ms
    }

    pub fn on_timer(&mut self, now_ms: u64) {
        let since_ms = now_ms.saturating_sub(self.ticked_ms.unwrap_or(now_ms));
        self.age_ms += since_ms.min(TICK_MS_MAX);
        self.ticked_ms = Some(now_ms);
    }

    /// Coordinators without a message for that long.
    pub fn silent_for(&self, silence_ms: u64) -> impl Iterator<Item = CoordinatorId> {
        self.silent_since(silence_ms).map(|(coordinator, _)| coordinator)
    }

    /// The same coordinators with the age at each one's last message.
    pub fn silent_since(&self, silence_ms: u64) -> impl Iterator<Item = (CoordinatorId, u64)> {
        let is_silent = move |known: &Coordinator| self.age_ms - known.heard_ms >= silence_ms;
        self.coordinators
            .iter()
            .filter(move |(_, known)| is_silent(known))
            .map(|(coordinator, known)| (*coordinator, known.heard_ms))
    }

    /// Number of coordinators, and number of words of their bit sets.
    pub fn sizes(&self) -> (usize, usize) {
        let words = self.coordinators.values().map(|known| known.over.words.len()).sum();
        (self.coordinators.len(), words)
    }

    /// State that a shard must remember of its coordinators across a restart.
    pub fn over(&self) -> Vec<OverOf> {
        let of = |(coordinator, known): (&CoordinatorId, &Coordinator)| OverOf {
            coordinator: *coordinator,
            below: known.below,
            over: known.over.clone(),
        };
        self.coordinators.iter().map(of).collect()
    }

    pub fn restore(&mut self, over: Vec<OverOf>) {
        for OverOf { coordinator, below, over } in over {
            self.coordinators.insert(coordinator, Coordinator { below, over, ..Coordinator::default() });
        }
    }

    /// Restarts the bookkeeping: sessions and epochs continue above all that were ever issued, so earlier readers must begin anew.
    pub fn restart(&mut self, incarnation: u64) {
        self.sessions = incarnation << INCARNATION_SHIFT;
        self.epoch = incarnation << INCARNATION_SHIFT;
    }

    /// Admits a request of a read; returns whether the read began under the coordinator's current registration.
    #[inline]
    pub fn begin_read(&mut self, coordinator: CoordinatorId, session: u64) -> bool {
        let registered =
            session != 0 && self.coordinators.get(&coordinator).is_some_and(|known| known.session == session);
        if registered {
            self.read_in = self.epoch;
        }
        registered
    }

    /// Returns whether no read that has asked here is active: all have ended since, or were dropped.
    pub fn nobody_reads(&self) -> bool {
        self.drained() > self.read_in
    }

    /// Registers a reader, or returns its existing session. Data drained before its next read begins cannot be missed by that read.
    pub fn register(&mut self, coordinator: CoordinatorId) -> u64 {
        let epoch = self.epoch;
        let known = self.coordinators.entry(coordinator).or_default();
        if known.session == 0 {
            self.sessions += 1;
            self.registered += 1;
            known.session = self.sessions;
            known.drained = known.drained.max(epoch);
        }
        known.session
    }

    /// All reads of registered readers that were active in epochs below this have ended.
    pub fn drained(&self) -> u64 {
        // An epoch begins when all readers have drained the previous one, and a new reader counts as having drained the current one.
        let drained = match (self.registered, self.behind) {
            (0, _) => u64::MAX,
            (_, 0) => self.epoch,
            _ => self.epoch - 1,
        };
        debug_assert_eq!(drained, self.counted_drained());
        drained
    }

    /// Computes [`Readers::drained`] from all coordinators.
    fn counted_drained(&self) -> u64 {
        let registered = self.coordinators.values().filter(|known| known.session != 0);
        registered.map(|known| known.drained).min().unwrap_or(u64::MAX)
    }

    /// Begins a new epoch once all readers have drained the previous one.
    pub fn advance(&mut self, now_ms: u64) {
        if self.drained() >= self.epoch {
            self.epoch += 1;
            self.behind = self.registered;
            self.epoch_began_ms = now_ms;
        }
    }

    /// Drops readers that have delayed an epoch for longer than the bound; they must begin anew. Returns their number.
    pub fn expire(&mut self, now_ms: u64, delay_ms_max: u64) -> usize {
        // After a step back of the clock the bound counts from now.
        self.epoch_began_ms = self.epoch_began_ms.min(now_ms);
        if now_ms.saturating_sub(self.epoch_began_ms) <= delay_ms_max {
            return 0;
        }
        let late = self.coordinators.values_mut().filter(|known| known.is_behind(self.epoch));
        let expired = late.map(|known| known.session = 0).count();
        self.registered -= expired;
        self.behind = 0;
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_stays_over_while_the_window_moves() {
        let mut readers = Readers::default();
        for sequence in [3, 64, 65, 200] {
            readers.set_over(1, sequence);
        }
        let mut told = Vec::new();
        for below in [0, 3, 63, 64, 130] {
            readers.on_progress(1, below, 0, |sequence| told.push(sequence));
            let over: Vec<u64> = (below..300).filter(|sequence| readers.is_over(1, *sequence)).collect();
            let expected: Vec<u64> = [3, 64, 65, 200].into_iter().filter(|one| *one >= below).collect();
            assert_eq!(over, expected, "below {below}");
            assert!((0..below).all(|sequence| readers.is_over(1, sequence)));
        }
        assert!(!readers.is_over(2, 3));
        assert_eq!(told, [3, 64, 65]);
    }

    #[test]
    fn nobody_reads_once_all_have_drained_an_epoch_after_the_last_read() {
        let mut readers = Readers::default();
        assert!(readers.nobody_reads());
        let session = readers.register(1);
        assert!(readers.begin_read(1, session));
        assert!(!readers.nobody_reads());
        readers.advance(1_000);
        assert!(!readers.nobody_reads(), "the epoch has not come back");
        readers.on_progress(1, 0, 1, |_| ());
        assert!(readers.nobody_reads());
        assert!(readers.begin_read(1, session));
        assert!(!readers.nobody_reads());
        readers.expire(10_000, 1_000);
        assert!(!readers.nobody_reads(), "it has drained all epochs that there were: nobody is late");
        readers.advance(10_001);
        readers.expire(20_000, 1_000);
        assert!(readers.nobody_reads(), "it has been let go");
    }

    #[test]
    fn an_epoch_waits_for_every_reader_and_not_for_ever() {
        let mut readers = Readers::default();
        assert_eq!(readers.drained(), u64::MAX);
        let (one, two) = (readers.register(1), readers.register(2));
        readers.advance(1_000);
        assert_eq!(readers.epoch(), 1);
        readers.on_progress(1, 0, 1, |_| ());
        readers.advance(1_001);
        assert_eq!((readers.epoch(), readers.drained()), (1, 0), "the second reader has not been heard of");
        assert_eq!(readers.expire(1_500, 1_000), 0);
        assert_eq!(readers.expire(2_500, 1_000), 1);
        assert!(readers.begin_read(1, one) && !readers.begin_read(2, two));
        let again = readers.register(2);
        assert!(again != two && readers.begin_read(2, again));
    }
}
