//! The lease of a leader: until when no other member can have told anything (docs/internals/replica-groups.md, "Reads: the lease").

use std::collections::BTreeMap;

/// What a follower has heard of its leader.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub term: u64,
    /// Id of the leader.
    pub leader: u64,
    /// Largest time at which the leader has sent what has come, by the leader's clock.
    pub sent_ms: u64,
}

impl Heard {
    /// Takes a further message of the leader; messages of earlier terms and older ones change nothing.
    pub fn hear(heard: &mut Option<Heard>, next: Heard) {
        let is_newer = |old: &Heard| (old.term, old.sent_ms) < (next.term, next.sent_ms);
        if heard.as_ref().is_none_or(is_newer) {
            *heard = Some(next);
        }
    }
}

/// What a leader knows of the promises of its followers.
#[derive(Clone, Debug)]
pub struct Lease {
    pub term: u64,
    /// By id: time at which the leader has sent what the member has heard. It grants no vote for an election time-out from then on.
    heard_ms: BTreeMap<u64, u64>,
}

impl Lease {
    pub fn new(term: u64) -> Lease {
        Lease { term, heard_ms: BTreeMap::new() }
    }

    pub fn on_heard(&mut self, id: u64, sent_ms: u64) {
        let known = self.heard_ms.entry(id).or_insert(sent_ms);
        *known = sent_ms.max(*known);
    }

    /// Latest time such that a quorum has heard what the leader has sent then or later. The leader itself has always heard.
    pub fn heard_by_quorum(
        &self,
        now_ms: u64,
        own: u64,
        is_quorum: impl Fn(&mut dyn Iterator<Item = u64>) -> bool,
    ) -> Option<u64> {
        let mut times: Vec<u64> = self.heard_ms.values().copied().chain([now_ms]).collect();
        times.sort_unstable();
        let holds = |time: &u64| {
            let mut ids = self.heard_ms.iter().filter(|(_, sent_ms)| *sent_ms >= time).map(|(id, _)| *id);
            is_quorum(&mut ids.by_ref().chain([own]))
        };
        times.into_iter().rev().find(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn majority_of(members: usize) -> impl Fn(&mut dyn Iterator<Item = u64>) -> bool {
        move |ids| ids.count() > members / 2
    }

    #[test]
    fn a_lease_is_of_what_a_majority_has_heard() {
        let mut lease = Lease::new(3);
        assert_eq!(lease.heard_by_quorum(90, 1, majority_of(1)), Some(90), "alone");
        assert_eq!(lease.heard_by_quorum(90, 1, majority_of(5)), None);
        lease.on_heard(2, 40);
        lease.on_heard(3, 50);
        assert_eq!(lease.heard_by_quorum(90, 1, majority_of(3)), Some(50));
        assert_eq!(lease.heard_by_quorum(90, 1, majority_of(5)), Some(40));
        lease.on_heard(3, 45);
        assert_eq!(lease.heard_by_quorum(90, 1, majority_of(3)), Some(50), "an answer that has come late");
    }

    #[test]
    fn a_follower_returns_the_newest_time_of_the_newest_term() {
        let mut heard = None;
        for (term, sent_ms) in [(2, 70), (2, 60), (1, 90), (3, 10), (2, 80)] {
            Heard::hear(&mut heard, Heard { term, leader: 9, sent_ms });
        }
        assert!(matches!(heard, Some(Heard { term: 3, sent_ms: 10, .. })), "{heard:?}");
    }
}
