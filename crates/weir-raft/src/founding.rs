//! How a group begins, and what a member with an empty disk says until it is one (docs/internals/replica-groups.md, "Empty disks").

use weir_core::lsn::Lsn;

use crate::Place;
use crate::message::{Effects, Greeting, Message};

/// What a member knows of the group whose disk has been empty.
#[derive(Clone, Debug)]
pub struct Founding {
    place: Place,
    /// Id of its disk.
    disk: u64,
    /// By place: ids of the disks of members that know of no group either.
    unfounded: Vec<Option<u64>>,
}

impl Founding {
    pub fn new(place: Place, members: u8, disk: u64) -> Founding {
        let mut unfounded = vec![None; usize::from(members)];
        unfounded[usize::from(place)] = Some(disk);
        Founding { place, disk, unfounded }
    }

    /// Asks all others what they know, once the id of the disk is durable there.
    pub fn greet_after(&self, after: Lsn, out: &mut Effects) {
        let greeting = Greeting { disk: self.disk, founders: None, asks: true };
        let others = (0..self.unfounded.len() as Place).filter(|place| *place != self.place);
        others.for_each(|to| out.send_after(to, Message::Greeting(greeting.clone()), after));
    }

    /// Takes what another member knows. Returns the disks of the founders once they are known: all members, if none knows of a group.
    pub fn on_greeting(&mut self, from: Place, greeting: &Greeting) -> Option<Vec<u64>> {
        if let Some(founders) = &greeting.founders {
            return (founders.len() == self.unfounded.len()).then(|| founders.clone());
        }
        self.unfounded[usize::from(from)] = Some(greeting.disk);
        self.founders()
    }

    /// All members, if none knows of a group.
    pub fn founders(&self) -> Option<Vec<u64>> {
        self.unfounded.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(disk: u64, founders: Option<Vec<u64>>) -> Greeting {
        Greeting { disk, founders, asks: false }
    }

    #[test]
    fn a_group_is_founded_by_all_or_by_those_who_have() {
        let mut founding = Founding::new(0, 3, 5);
        assert_eq!(founding.founders(), None);
        assert_eq!(founding.on_greeting(2, &says(7, None)), None);
        assert_eq!(founding.on_greeting(1, &says(6, None)), Some(vec![5, 6, 7]));
        let mut late = Founding::new(1, 3, 6);
        assert_eq!(late.on_greeting(0, &says(5, Some(vec![5, 6, 7]))), Some(vec![5, 6, 7]));
        assert_eq!(Founding::new(0, 1, 9).founders(), Some(vec![9]), "alone");
        assert_eq!(Founding::new(1, 3, 6).on_greeting(0, &says(5, Some(vec![5]))), None, "of another group");
    }
}
