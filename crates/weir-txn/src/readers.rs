//! What a shard knows of its coordinators: what of theirs is over, which of them read here, and how far
//! their reads have come (soundness S10).
//!
//! Only bookkeeping, the same for every protocol that keeps something for readers. A *drain epoch* travels
//! to each reading coordinator with its replies and comes back once all reads that were active when it
//! arrived have ended; what was put aside in an earlier epoch is then needed by nobody.

use crate::machine::CoordinatorId;
use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// However far a clock steps forward between two ticks of the timer, no more time has passed than that.
const TICK_MS_MAX: u64 = 500;

/// What is known of the coordinators.
#[derive(Debug, Default)]
pub struct Readers {
    coordinators: BTreeMap<CoordinatorId, Coordinator>,
    epoch: u64,
    /// When the epoch began, by the shard's clock.
    epoch_began_ms: u64,
    sessions: u64,
    /// How many are registered, and how many of them have not drained the present epoch: nobody counts them at each batch,
    /// for a shard of a large cluster has thousands.
    registered: usize,
    behind: usize,
    /// The epoch in which a registered reader last asked for something.
    read_in: u64,
    /// For how long the timer has run, whatever the clock has done meanwhile.
    age_ms: u64,
    /// What the clock showed at the last tick.
    ticked_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Coordinator {
    /// All its transactions below are over.
    below: u64,
    /// Which of those from `below` on are over here.
    over: Window,
    /// Its registration as a reader; 0 for none.
    session: u64,
    drained: u64,
    /// The shard's age when it was last heard of.
    heard_ms: u64,
}

impl Coordinator {
    /// It is registered, and has not drained that epoch.
    fn is_behind(&self, epoch: u64) -> bool {
        self.session != 0 && self.drained < epoch
    }
}

/// What must survive a restart: which transactions of a coordinator are over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverOf {
    pub coordinator: CoordinatorId,
    below: u64,
    over: Window,
}

/// A set of numbers from a base on, dense enough to be kept as bits.
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

    /// The numbers of the first so many words, which it forgets.
    fn forget_words(&mut self, words: u64) -> impl Iterator<Item = u64> {
        let words = self.words.drain(..self.words.len().min(words as usize));
        words.enumerate().flat_map(|(at, word)| {
            let set = (0..64_u64).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| at as u64 * 64 + bit)
        })
    }
}

impl Readers {
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A coordinator's word: everything of it below is over, and its reads up to that epoch have ended.
    /// `over` is told which of them were over here, some while after the coordinator's first word of them. Gives
    /// the sequence below which all was known to be over before.
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
        // An epoch that has not begun has not been drained by anybody.
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

    /// The transaction must not take effect (again): it has committed here, or is over everywhere.
    pub fn is_over(&self, coordinator: CoordinatorId, sequence: u64) -> bool {
        let Some(known) = self.coordinators.get(&coordinator) else { return false };
        sequence < known.below || known.over.contains(sequence - known.below / 64 * 64)
    }

    pub fn set_over(&mut self, coordinator: CoordinatorId, sequence: u64) {
        let known = self.coordinators.entry(coordinator).or_default();
        if sequence >= known.below {
            known.over.insert(sequence - known.below / 64 * 64);
        }
    }

    /// The coordinator has said that this transaction is over everywhere.
    pub fn is_below(&self, coordinator: CoordinatorId, sequence: u64) -> bool {
        self.coordinators.get(&coordinator).is_some_and(|known| sequence < known.below)
    }

    /// All its transactions below are over, as far as it has said.
    pub fn below(&self, coordinator: CoordinatorId) -> u64 {
        self.coordinators.get(&coordinator).map_or(0, |known| known.below)
    }

    /// From now on its silence counts.
    pub fn know(&mut self, coordinator: CoordinatorId) {
        let heard_ms = self.age_ms;
        self.coordinators.entry(coordinator).or_insert(Coordinator { heard_ms, ..Coordinator::default() });
    }

    /// Nothing more is known of it.
    pub fn forget(&mut self, coordinator: CoordinatorId) {
        if let Some(known) = self.coordinators.remove(&coordinator).filter(|known| known.session != 0) {
            self.registered -= 1;
            self.behind -= usize::from(known.is_behind(self.epoch));
        }
    }

    /// For how long the timer has run. A clock that steps adds little to it, and takes nothing away.
    pub fn age_ms(&self) -> u64 {
        self.age_ms
    }

    pub fn on_timer(&mut self, now_ms: u64) {
        let since_ms = now_ms.saturating_sub(self.ticked_ms.unwrap_or(now_ms));
        self.age_ms += since_ms.min(TICK_MS_MAX);
        self.ticked_ms = Some(now_ms);
    }

    /// The coordinators that have not been heard of for so long.
    pub fn silent_for(&self, silence_ms: u64) -> impl Iterator<Item = CoordinatorId> {
        self.silent_since(silence_ms).map(|(coordinator, _)| coordinator)
    }

    /// The same with the age at which each was heard last.
    pub fn silent_since(&self, silence_ms: u64) -> impl Iterator<Item = (CoordinatorId, u64)> {
        let is_silent = move |known: &Coordinator| self.age_ms - known.heard_ms >= silence_ms;
        self.coordinators
            .iter()
            .filter(move |(_, known)| is_silent(known))
            .map(|(coordinator, known)| (*coordinator, known.heard_ms))
    }

    /// How many coordinators it knows, and how many words say which of their transactions are over.
    pub fn sizes(&self) -> (usize, usize) {
        let words = self.coordinators.values().map(|known| known.over.words.len()).sum();
        (self.coordinators.len(), words)
    }

    /// What a shard must remember of its coordinators when it starts again.
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

    /// The shard has started again, for that time: sessions and epochs are above all that it has ever given out, so
    /// whoever read before begins anew.
    pub fn restart(&mut self, incarnation: u64) {
        self.sessions = incarnation << 32;
        self.epoch = incarnation << 32;
    }

    /// A read asks for something. It may go on only if it began under the coordinator's present registration.
    pub fn begin_read(&mut self, coordinator: CoordinatorId, session: u64) -> bool {
        let registered =
            session != 0 && self.coordinators.get(&coordinator).is_some_and(|known| known.session == session);
        if registered {
            self.read_in = self.epoch;
        }
        registered
    }

    /// No read is under way that has asked for anything here: all who did have ended since, or are let go.
    pub fn nobody_reads(&self) -> bool {
        self.drained() > self.read_in
    }

    /// Registers a reader, or tells it how it is registered. Whatever is drained before its next read begins
    /// is nothing that this read can miss.
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
        // An epoch begins when all have drained the last one, and who comes has drained the present one.
        let drained = match (self.registered, self.behind) {
            (0, _) => u64::MAX,
            (_, 0) => self.epoch,
            _ => self.epoch - 1,
        };
        debug_assert_eq!(drained, self.counted_drained());
        drained
    }

    /// The same, by looking at all of them.
    fn counted_drained(&self) -> u64 {
        let registered = self.coordinators.values().filter(|known| known.session != 0);
        registered.map(|known| known.drained).min().unwrap_or(u64::MAX)
    }

    /// Begins a new epoch if the last one has come back from everybody.
    pub fn advance(&mut self, now_ms: u64) {
        if self.drained() >= self.epoch {
            self.epoch += 1;
            self.behind = self.registered;
            self.epoch_began_ms = now_ms;
        }
    }

    /// Lets go of the readers that have held an epoch up for longer than the bound; they will have to begin
    /// anew. Says how many.
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
