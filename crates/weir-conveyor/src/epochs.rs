//! Epochs: which server has which visit, in which epoch (soundness S19).
//!
//! Visits are numbered over all epochs without gaps. Within an epoch the token goes round a ring, so the number of a visit says its server.

use serde::{Deserialize, Serialize};

/// A server, its agent and its database.
pub type ServerId = u16;
/// From 1; 0 is before the first epoch.
pub type Epoch = u64;
/// From 1; 0 is before the first visit.
pub type VisitNumber = u64;
/// Number of a start of an agent; no other start of that agent has it. From 1.
pub type StartNumber = u64;

/// The start of an epoch, as the coordinator has decided it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochStart {
    pub epoch: Epoch,
    /// The first visit of the epoch. All visits before it have ended.
    pub first: VisitNumber,
    /// Servers in the order in which they have the token; the first has the first visit. Not empty.
    pub ring: Vec<ServerId>,
}

impl EpochStart {
    /// The server of a visit, if the epoch has that visit.
    fn holder(&self, visit: VisitNumber) -> Option<ServerId> {
        let turn = visit.checked_sub(self.first)?;
        Some(self.ring[(turn % self.ring.len() as u64) as usize])
    }
}

/// The epochs that were decided, in order, but for those that no server needs any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epochs {
    /// Epochs ascend without gaps, and first visits do not descend.
    starts: Vec<EpochStart>,
}

impl Epochs {
    /// # Panics
    /// The epoch is not behind the last one.
    pub fn push(&mut self, start: EpochStart) {
        assert!(!start.ring.is_empty(), "somebody has the token");
        if let Some(last) = self.starts.last() {
            assert!(start.epoch == last.epoch + 1, "epochs have no gaps");
            assert!(start.first >= last.first, "visits are not numbered again");
        }
        self.starts.push(start);
    }

    pub fn last(&self) -> Option<&EpochStart> {
        self.starts.last()
    }

    /// The latest epoch; 0 if there is none.
    pub fn epoch(&self) -> Epoch {
        self.last().map_or(0, |start| start.epoch)
    }

    /// The ring of the latest epoch.
    pub fn ring(&self) -> &[ServerId] {
        self.last().map_or(&[], |start| &start.ring)
    }

    /// The servers that have had visits of these epochs, sorted.
    pub fn servers(&self) -> Vec<ServerId> {
        let all: std::collections::BTreeSet<ServerId> =
            self.starts.iter().flat_map(|start| start.ring.iter().copied()).collect();
        all.into_iter().collect()
    }

    /// The first epoch that was not forgotten; 0 if there is none.
    pub fn oldest(&self) -> Epoch {
        self.starts.first().map_or(0, |start| start.epoch)
    }

    /// The first epoch that a server needs that has applied all visits up to this one: the last that has begun by the next visit.
    pub fn needed_behind(&self, applied: VisitNumber) -> Epoch {
        let begun = self.starts.iter().rev().find(|start| start.first <= applied + 1);
        begun.map_or(self.oldest(), |start| start.epoch)
    }

    /// Forgets the epochs before that one. The latest stays.
    pub fn forget_before(&mut self, epoch: Epoch) {
        let last = self.epoch();
        self.starts.retain(|start| start.epoch >= epoch || start.epoch == last);
    }

    /// The server whose outbox has a visit, as far as the latest epoch goes: the last epoch that has begun with or before it decides. None: no
    /// epoch has it, or that epoch was forgotten.
    pub fn holder(&self, visit: VisitNumber) -> Option<ServerId> {
        self.starts.iter().rev().find_map(|start| start.holder(visit))
    }

    /// Takes the epochs of another party, if it knows more, or has forgotten more of the same. Returns whether there is a new epoch.
    pub fn learn(&mut self, other: &Epochs) -> bool {
        let is_news = other.epoch() > self.epoch();
        if is_news || other.epoch() == self.epoch() && other.oldest() > self.oldest() {
            self.starts.clone_from(&other.starts);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_visit_says_its_server() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.holder(1), None);
        epochs.push(EpochStart { epoch: 1, first: 1, ring: vec![0, 1, 2] });
        epochs.push(EpochStart { epoch: 2, first: 5, ring: vec![2, 0] });
        let holders: Vec<_> = (0..8).map(|visit| epochs.holder(visit)).collect();
        assert_eq!(holders, [None, Some(0), Some(1), Some(2), Some(0), Some(2), Some(0), Some(2)]);
    }

    #[test]
    fn an_epoch_is_needed_until_its_visits_are_applied() {
        let mut epochs = Epochs::default();
        for (epoch, first) in [(1, 1), (2, 5), (3, 5), (4, 9)] {
            epochs.push(EpochStart { epoch, first, ring: vec![0, 1] });
        }
        let needed: Vec<_> = [0, 3, 4, 7, 8, 20].map(|applied| epochs.needed_behind(applied)).into();
        assert_eq!(needed, [1, 1, 3, 3, 4, 4]);
        epochs.forget_before(3);
        assert_eq!((epochs.oldest(), epochs.holder(4), epochs.holder(5)), (3, None, Some(0)));
        epochs.forget_before(9);
        assert_eq!((epochs.oldest(), epochs.epoch()), (4, 4));
    }

    #[test]
    fn an_epoch_without_a_visit_is_passed_over() {
        let mut epochs = Epochs::default();
        epochs.push(EpochStart { epoch: 1, first: 1, ring: vec![0, 1] });
        epochs.push(EpochStart { epoch: 2, first: 2, ring: vec![1] });
        epochs.push(EpochStart { epoch: 3, first: 2, ring: vec![0] });
        assert_eq!(epochs.holder(2), Some(0));
    }
}
