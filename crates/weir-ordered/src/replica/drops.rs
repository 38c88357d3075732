//! Knowledge of a replica about lost packets: those that it has promised away, and the decisions of the failure coordinator (eris.txt §6.3).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::packet::{Cut, Slot, Stamp};

/// Slots of the current epoch, of any shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Drops {
    /// No packet with such a slot may be logged until the failure coordinator has decided.
    pub temporary: BTreeSet<Slot>,
    /// The failure coordinator has decided that no participant logs the packet.
    pub permanent: BTreeSet<Slot>,
    /// The failure coordinator has decided that all participants log the packet.
    pub found: BTreeSet<Slot>,
}

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It may be logged.
    Logged,
    /// It waits for the failure coordinator.
    Undecided,
    /// A NO-OP is logged in its place.
    Dropped,
}

impl Drops {
    pub fn fate(&self, stamp: &Stamp) -> Fate {
        if stamp.slots().any(|slot| self.permanent.contains(&slot)) {
            Fate::Dropped
        } else if stamp.slots().any(|slot| self.is_undecided(slot)) {
            Fate::Undecided
        } else {
            Fate::Logged
        }
    }

    /// Returns whether a packet with that slot must wait for the failure coordinator.
    pub fn is_undecided(&self, slot: Slot) -> bool {
        self.temporary.contains(&slot) && !self.permanent.contains(&slot) && !self.found.contains(&slot)
    }

    /// Forgets the slots up to a cut of the current epoch. Whoever lacks such an entry gets it with a checkpoint.
    pub fn forget(&mut self, cut: &Cut) {
        for slots in [&mut self.temporary, &mut self.permanent, &mut self.found] {
            slots.retain(|slot| !cut.covers(*slot));
        }
    }

    /// Adds what another replica of the shard knows.
    pub fn merge(&mut self, other: &Drops) {
        self.temporary.extend(&other.temporary);
        self.permanent.extend(&other.permanent);
        self.found.extend(&other.found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fate_of_a_packet_is_that_of_any_of_its_slots() {
        let stamp = Stamp { epoch: 1, sequences: [(0, 4), (2, 6)].into() };
        let [own, other] = [(0, 4), (2, 6)].map(|(shard, sequence)| Slot { epoch: 1, shard, sequence });
        let mut drops = Drops::default();
        drops.temporary.insert(Slot { epoch: 2, ..own });
        assert_eq!(drops.fate(&stamp), Fate::Logged);
        drops.temporary.insert(other);
        assert_eq!(drops.fate(&stamp), Fate::Undecided);
        let mut found = drops.clone();
        found.found.insert(other);
        assert_eq!(found.fate(&stamp), Fate::Logged);
        drops.permanent.insert(own);
        assert_eq!(drops.fate(&stamp), Fate::Dropped);
    }
}
