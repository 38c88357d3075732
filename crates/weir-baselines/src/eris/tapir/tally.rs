//! Votes of a shard's replicas on one attempt, and what they decide (IR, §3.2 of the paper).

use std::collections::BTreeMap;

use weir_ordered::packet::View;

use super::super::faults::Faults;
use super::{Timestamp, Verdict, Vote};

/// Sizes of quorums of 2f + 1 replicas.
#[derive(Clone, Copy, Debug)]
pub struct Quorums {
    pub replicas: usize,
}

impl Quorums {
    fn faulty_max(self) -> usize {
        self.replicas / 2
    }

    /// f + 1.
    pub fn majority(self) -> usize {
        self.faulty_max() + 1
    }

    /// ⌈3f/2⌉ + 1: so many alike decide without a second round.
    pub fn fast(self) -> usize {
        (3 * self.faulty_max()).div_ceil(2) + 1
    }

    /// ⌈f/2⌉ + 1: any majority has so many of a fast quorum, so fewer in a majority show that there was none.
    pub fn possible(self) -> usize {
        self.faulty_max().div_ceil(2) + 1
    }

    /// If so many have refused, no majority has enough that are prepared for [`Quorums::possible`].
    pub fn refusing(self) -> usize {
        self.replicas + 1 - self.possible()
    }
}

/// The votes of one shard.
#[derive(Clone, Debug)]
pub struct Tally<F> {
    quorums: Quorums,
    faults: F,
    /// The latest vote of each replica.
    votes: BTreeMap<u16, Vote>,
}

impl<F: Faults> Tally<F> {
    pub fn new(quorums: Quorums, faults: F) -> Tally<F> {
        Tally { quorums, faults, votes: BTreeMap::new() }
    }

    pub fn note(&mut self, replica: u16, vote: Vote) {
        let known = self.votes.entry(replica).or_insert(vote);
        if (vote.view, vote.is_final) > (known.view, known.is_final) {
            *known = vote;
        }
    }

    /// The latest view that a replica has voted in.
    pub fn view(&self) -> Option<View> {
        self.votes.values().map(|vote| vote.view).max()
    }

    /// Votes that count together: all of the latest view.
    fn current(&self) -> impl Iterator<Item = &Vote> {
        let view = self.view();
        let mixes_views = self.faults.mixes_record_views();
        self.votes.values().filter(move |vote| mixes_views || Some(vote.view) == view)
    }

    fn count(&self, counts: impl Fn(&Vote) -> bool) -> usize {
        self.current().filter(|vote| counts(vote)).count()
    }

    /// Returns whether the shard is prepared, once that is decided for ever.
    pub fn decided(&self) -> Option<bool> {
        let prepared = self.count(|vote| vote.verdict.is_prepared());
        let refused = self.count(|vote| !vote.verdict.is_prepared());
        let accepted = |verdict| self.count(|vote| vote.is_final && vote.verdict.is_prepared() == verdict);
        let fast =
            if self.faults.fast_path_by_majority() { self.quorums.majority() } else { self.quorums.fast() };
        if prepared >= fast || accepted(true) >= self.quorums.majority() {
            Some(true)
        } else if refused >= self.quorums.refusing() || accepted(false) >= self.quorums.majority() {
            Some(false)
        } else {
            None
        }
    }

    /// The view in which a majority has voted without a decision: votes may never decide it.
    pub fn unclear(&self) -> Option<View> {
        let is_unclear = self.count(|_| true) >= self.quorums.majority() && self.decided().is_none();
        self.view().filter(|_| is_unclear)
    }

    /// The verdict that the client proposes in the slow path, if it has to: a majority has voted, and no fast quorum will come. `is_late`:
    /// it waits for no further votes. TAPIR-DECIDE of the paper.
    pub fn proposal(&self, is_late: bool) -> Option<(View, Verdict)> {
        let view = self.view()?;
        let prepared = self.count(|vote| vote.verdict.is_prepared());
        let voted = self.count(|_| true);
        let missing = self.quorums.replicas - voted;
        if voted < self.quorums.majority() || self.current().any(|vote| vote.is_final) {
            return None;
        }
        let is_fast_possible = prepared + missing >= self.quorums.fast();
        if prepared >= self.quorums.majority() {
            return (is_late || !is_fast_possible).then_some((view, Verdict::Prepared));
        }
        // Replicas that have not voted yet must not make a fast quorum beside a refusal: backup coordinators count that.
        let may_refuse = !is_fast_possible || is_late && self.faults.refuses_beside_fast_quorum();
        let refused = Verdict::Refused { retry_above: self.retry_above() };
        (may_refuse && (is_late || missing == 0)).then_some((view, refused))
    }

    /// A timestamp above which all that have refused would have prepared it.
    pub fn retry_above(&self) -> Option<Timestamp> {
        let mut highest = None;
        for vote in self.current() {
            if let Verdict::Refused { retry_above } = vote.verdict {
                highest = highest.max(Some(retry_above?));
            }
        }
        highest
    }
}

#[cfg(test)]
mod unit_tests {
    use super::super::super::faults::NoFaults;
    use super::*;

    fn vote(view: View, is_final: bool, is_prepared: bool) -> Vote {
        let verdict = if is_prepared { Verdict::Prepared } else { Verdict::REFUSED };
        Vote { view, is_final, verdict }
    }

    fn tally(replicas: usize, votes: &[Vote]) -> Tally<NoFaults> {
        let mut tally = Tally::new(Quorums { replicas }, NoFaults);
        votes.iter().enumerate().for_each(|(number, vote)| tally.note(number as u16, *vote));
        tally
    }

    /// §3.2: "a fast quorum of ⌈3f/2⌉ + 1" of 2f + 1 replicas.
    #[test]
    fn quorums_have_the_sizes_of_the_paper() {
        let sizes = |replicas| {
            let quorums = Quorums { replicas };
            (quorums.majority(), quorums.fast(), quorums.possible(), quorums.refusing())
        };
        assert_eq!([1, 3, 5, 7].map(sizes), [(1, 1, 1, 1), (2, 3, 2, 2), (3, 4, 2, 4), (4, 6, 3, 5)]);
    }

    #[test]
    fn a_majority_decides_nothing_until_it_has_accepted() {
        let (yes, no) = (vote(0, false, true), vote(0, false, false));
        assert_eq!(tally(3, &[yes, yes]).decided(), None);
        assert_eq!(tally(3, &[yes, yes, no]).decided(), None);
        assert_eq!(tally(3, &[yes, yes, no]).proposal(false), Some((0, Verdict::Prepared)));
        assert_eq!(tally(3, &[yes, yes]).proposal(false), None);
        assert_eq!(tally(3, &[yes, yes]).proposal(true), Some((0, Verdict::Prepared)));
        assert_eq!(tally(3, &[yes, yes, yes]).decided(), Some(true));
        assert_eq!(tally(3, &[vote(0, true, true), vote(0, true, true)]).decided(), Some(true));
        assert_eq!(tally(3, &[no, no]).decided(), Some(false));
    }

    #[test]
    fn votes_of_different_views_do_not_count_together() {
        let votes = [vote(0, false, true), vote(1, false, true), vote(1, false, true)];
        assert_eq!(tally(3, &votes).decided(), None);
    }
}
