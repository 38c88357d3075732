//! A round of messages from a coordinator to participants: who has not answered yet, so that requests can be sent again.
//!
//! Answers only: what is sent, and what an answer says, is each protocol's own.

use smallvec::SmallVec;

use crate::ids::ShardId;

/// Shards that have not answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting(SmallVec<[ShardId; 8]>);

impl Waiting {
    /// Notes an answer. Returns false if it is a repetition, or the shard was not asked.
    #[inline]
    pub fn answer(&mut self, shard: ShardId) -> bool {
        let at = self.0.iter().position(|one| *one == shard);
        at.map(|at| self.0.swap_remove(at)).is_some()
    }

    /// Adds a shard, once.
    #[inline]
    pub fn ask(&mut self, shard: ShardId) {
        if !self.0.contains(&shard) {
            self.0.push(shard);
        }
    }

    /// Returns whether all have answered.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn contains(&self, shard: ShardId) -> bool {
        self.0.contains(&shard)
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = ShardId> {
        self.0.iter().copied()
    }
}

impl From<&[ShardId]> for Waiting {
    fn from(shards: &[ShardId]) -> Waiting {
        Waiting(shards.into())
    }
}

impl FromIterator<ShardId> for Waiting {
    fn from_iter<I: IntoIterator<Item = ShardId>>(shards: I) -> Waiting {
        Waiting(shards.into_iter().collect())
    }
}

/// The end of a transaction at its participants: each is told the outcome, again and again, until it has answered.
#[derive(Debug)]
pub struct Ending<S> {
    /// Stamp of the commit; none: it aborts.
    stamp: Option<S>,
    waiting: Waiting,
}

impl<S: Copy> Ending<S> {
    pub fn commit(participants: impl IntoIterator<Item = ShardId>, stamp: S) -> Ending<S> {
        Ending { stamp: Some(stamp), waiting: participants.into_iter().collect() }
    }

    pub fn abort(participants: impl IntoIterator<Item = ShardId>) -> Ending<S> {
        Ending { stamp: None, waiting: participants.into_iter().collect() }
    }

    /// An end without participants to tell.
    pub fn over() -> Ending<S> {
        Ending { stamp: None, waiting: Waiting::default() }
    }

    /// A participant has committed. Returns whether it was the last one to say so.
    pub fn on_committed(&mut self, shard: ShardId) -> bool {
        self.stamp.is_some() && self.waiting.answer(shard) && self.is_over()
    }

    /// A participant has aborted. Returns whether it was the last one to say so.
    pub fn on_aborted(&mut self, shard: ShardId) -> bool {
        self.stamp.is_none() && self.waiting.answer(shard) && self.is_over()
    }

    /// Returns whether all have answered.
    pub fn is_over(&self) -> bool {
        self.waiting.is_over()
    }

    /// Returns whether some participant has yet to be told that the transaction commits.
    pub fn is_committing(&self) -> bool {
        self.stamp.is_some() && !self.is_over()
    }

    /// The outcome, for those who have not answered.
    pub fn untold(&self) -> impl Iterator<Item = (ShardId, Option<S>)> {
        self.waiting.iter().map(|shard| (shard, self.stamp))
    }
}

/// Participants with the part of each, of which some have not answered.
#[derive(Debug)]
pub struct Round<T>(SmallVec<[Part<T>; 4]>);

#[derive(Debug)]
struct Part<T> {
    shard: ShardId,
    of: T,
    answered: bool,
}

impl<T> Round<T> {
    /// Notes an answer, and gives the part of the shard. None: it is a repetition, or the shard was not asked.
    pub fn answer(&mut self, shard: ShardId) -> Option<&mut T> {
        let part = self.0.iter_mut().find(|part| part.shard == shard && !part.answered)?;
        part.answered = true;
        Some(&mut part.of)
    }

    /// Returns whether all have answered.
    pub fn is_over(&self) -> bool {
        self.0.iter().all(|part| part.answered)
    }

    pub fn unanswered(&self) -> impl Iterator<Item = (ShardId, &T)> {
        self.0.iter().filter(|part| !part.answered).map(|part| (part.shard, &part.of))
    }

    /// Begins another round with the same participants.
    pub fn ask_again(&mut self) {
        self.0.iter_mut().for_each(|part| part.answered = false);
    }

    /// Number of participants.
    pub fn participants(&self) -> usize {
        self.0.len()
    }

    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.0.iter().map(|part| part.shard)
    }
}

impl<T> FromIterator<(ShardId, T)> for Round<T> {
    fn from_iter<I: IntoIterator<Item = (ShardId, T)>>(parts: I) -> Round<T> {
        Round(parts.into_iter().map(|(shard, of)| Part { shard, of, answered: false }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_answers_once() {
        let mut waiting = Waiting::from(&[3, 1, 2][..]);
        assert!(waiting.answer(1) && !waiting.answer(1) && !waiting.answer(7));
        assert!(waiting.contains(3) && !waiting.is_over());
        waiting.ask(3);
        assert!(waiting.answer(3) && waiting.answer(2) && waiting.is_over());
    }

    #[test]
    fn a_transaction_has_ended_once_each_participant_says_so() {
        let mut commit = Ending::commit([1, 2], 50);
        assert!(!commit.on_aborted(1) && !commit.on_committed(1) && !commit.on_committed(1));
        assert!(commit.is_committing());
        assert_eq!(commit.untold().collect::<Vec<_>>(), [(2, Some(50))]);
        assert!(commit.on_committed(2) && commit.is_over() && !commit.on_committed(2));
        let mut abort: Ending<u64> = Ending::abort([3]);
        assert!(!abort.is_committing() && !abort.on_committed(3) && abort.on_aborted(3));
    }

    #[test]
    fn a_round_may_be_followed_by_another() {
        let mut round: Round<&str> = [(3, "three"), (1, "one")].into_iter().collect();
        assert_eq!(round.answer(1).copied(), Some("one"));
        assert!(round.answer(1).is_none() && round.answer(2).is_none());
        assert_eq!(round.unanswered().collect::<Vec<_>>(), [(3, &"three")]);
        assert!(round.answer(3).is_some() && round.is_over());
        round.ask_again();
        assert_eq!(round.unanswered().count(), 2);
    }
}
