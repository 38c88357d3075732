//! The network: which messages arrive, when, and how often.

use std::collections::BTreeSet;

use weir_core::ids::ShardId;
use weir_ordered::message::{Message, Party, SequencerId};

use crate::chance::Chance;
use crate::world::Msg;
use crate::world::profile::Profile;

/// Faults that last for a while.
#[derive(Debug, Default)]
pub struct Network {
    /// Parties that are cut off from all replicas and the failure coordinator outside of this set.
    pub island: BTreeSet<Party>,
    /// Whether clients and sequencers do not reach the island, either.
    pub is_remote: bool,
    /// Sequencers that the failure coordinator does not hear.
    pub muted: BTreeSet<SequencerId>,
    pub is_faulty: bool,
}

/// Fate of a packet on its way from the sequencer to all its replicas.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    lost_to: BTreeSet<ShardId>,
    is_lost: bool,
    is_patchy: bool,
    late_ms: u64,
}

impl Network {
    /// Draws the fate of one packet of a sequencer.
    pub fn fate(&self, profile: &Profile, chance: &mut Chance) -> Fate {
        if !self.is_faulty {
            return Fate::default();
        }
        let lost_to = (0..profile.shards).filter(|_| chance.per_mille(profile.lost_to_shard)).collect();
        let is_lost = chance.per_mille(profile.lost_to_all);
        let late_ms = if chance.per_mille(profile.late_to_all) { chance.between(10, 300) } else { 0 };
        Fate { lost_to, is_lost, is_patchy: chance.per_mille(profile.patchy), late_ms }
    }

    /// After how many milliseconds a message arrives: once for each time that it does.
    pub fn delays(
        &self,
        (from, to): (Party, Party),
        message: &Msg,
        fate: &Fate,
        profile: &Profile,
        chance: &mut Chance,
    ) -> Vec<u64> {
        let delay_ms = chance.between(1, 4);
        if !self.is_faulty {
            return vec![delay_ms];
        }
        let is_packet = matches!(message, Message::Packet(_));
        let is_lost_to = |to: Party| matches!(to, Party::Replica(id) if fate.lost_to.contains(&id.shard));
        if self.is_cut(from, to)
            || chance.per_mille(profile.lost)
            || is_packet && (fate.is_lost || is_lost_to(to) || fate.is_patchy && chance.per_mille(500))
        {
            return Vec::new();
        }
        let late_ms = if chance.per_mille(profile.late) { chance.between(5, 200) } else { 0 };
        let mut delays = vec![delay_ms + late_ms + if is_packet { fate.late_ms } else { 0 }];
        if chance.per_mille(profile.doubled) {
            delays.push(delays[0] + chance.below(100));
        }
        delays
    }

    fn is_cut(&self, from: Party, to: Party) -> bool {
        let is_muted = matches!((from, to), (Party::Sequencer(id), Party::CoordinatorNode(_)) if self.muted.contains(&id));
        let is_inner = |party: Party| matches!(party, Party::Replica(_) | Party::CoordinatorNode(_));
        let crosses = self.island.contains(&from) != self.island.contains(&to);
        is_muted || crosses && (self.is_remote || is_inner(from) && is_inner(to))
    }
}
