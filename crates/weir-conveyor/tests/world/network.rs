//! The network: which messages arrive, when, and how often.

use weir_conveyor::epochs::ServerId;

use crate::world::events::Event;
use crate::world::{Party, World};

impl World {
    pub(super) fn schedule(&mut self, after_ms: u64, event: Event) {
        self.events.insert((self.now_ms + after_ms, self.next_event), event);
        self.next_event += 1;
    }

    /// Sends a message: once for each time that it arrives.
    pub(super) fn send(&mut self, from: Party, to: Party, message: impl Fn() -> Event) {
        self.counts.messages += 1;
        let delay_ms = self.chance.between(1, 4);
        if !self.is_faulty || from == to {
            self.schedule(delay_ms, message());
            return;
        }
        let profile = self.profile;
        if self.is_cut(from, to) || self.chance.per_mille(profile.lost) {
            return;
        }
        let late_ms = if self.chance.per_mille(profile.late) { self.chance.between(5, 400) } else { 0 };
        self.schedule(delay_ms + late_ms, message());
        if self.chance.per_mille(profile.doubled) {
            let again_ms = self.chance.below(200);
            self.schedule(delay_ms + again_ms, message());
        }
    }

    fn is_cut(&self, from: Party, to: Party) -> bool {
        self.island.contains(&from) != self.island.contains(&to)
    }

    /// Returns whether an agent does not reach a database: that of another server, which the network cuts off.
    pub(super) fn is_cut_off(&self, agent: ServerId, database: ServerId) -> bool {
        self.is_cut(Party::Agent(agent), Party::Agent(database))
    }
}
