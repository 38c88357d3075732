//! Changes of the map of slots: slots move between servers, and servers join and leave.

use std::collections::BTreeMap;

use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::OperationId;
use weir_conveyor::routing::{MapChange, Routing, Slot};

use crate::world::World;
use crate::world::application::Operation;
use crate::world::events::Event;

/// Interval at which servers that were added are told so.
const JOIN_MS: u64 = 20;

impl World {
    pub(super) fn schedule_map_change(&mut self) {
        if self.profile.map_ms > 0 {
            let after_ms = self.chance.between(1, 2 * self.profile.map_ms);
            self.schedule(after_ms, Event::ChangeMap);
            if self.now_ms == 0 {
                self.schedule(JOIN_MS, Event::Join);
            }
        }
    }

    /// The map by which an agent places operations. None: it takes none.
    pub(super) fn map_of_agent(&self, server: ServerId) -> Option<Routing> {
        let agent = self.agents[&server].as_ref().filter(|agent| !agent.is_absent())?;
        self.maps.get(&agent.database()?.map).cloned()
    }

    pub(super) fn request(&mut self, server: ServerId, operation: Operation) -> Option<OperationId> {
        let (now_ms, mut id) = (self.now_ms, None);
        self.step_agent(server, |agent, out| {
            let placed = (operation.placement, operation.map);
            id = Some(agent.on_request(now_ms, placed, operation, out));
        });
        id
    }

    /// Some server changes the map, as far as it knows it.
    pub(super) fn change_map(&mut self) {
        if !self.is_faulty {
            return;
        }
        self.schedule_map_change();
        let by = self.chance.pick(&self.servers.clone());
        let Some(map) = self.map_of_agent(by) else { return };
        let joined: Vec<ServerId> =
            self.servers.iter().copied().filter(|other| *other != by && map.has_joined(*other)).collect();
        let absent: Vec<ServerId> = map.absent.iter().collect();
        let change = match self.chance.below(6) {
            0 | 1 if !absent.is_empty() => MapChange::Add(self.chance.pick(&absent)),
            2 if joined.len() >= 2 => {
                let heir = self.chance.pick(&joined);
                MapChange::Leave { moves: map.spread(by, &joined), heir }
            }
            _ if !joined.is_empty() => MapChange::Move(self.some_moves(by, &map, &joined)),
            _ => return,
        };
        self.submit_change(by, &map, change);
    }

    fn some_moves(&mut self, by: ServerId, map: &Routing, joined: &[ServerId]) -> BTreeMap<Slot, ServerId> {
        let slots = self.profile.shape.slots_of(by, map);
        let some = slots.into_iter().filter(|_| self.chance.per_mille(600)).collect::<Vec<_>>();
        some.into_iter().map(|slot| (slot, self.chance.pick(joined))).collect()
    }

    fn submit_change(&mut self, by: ServerId, map: &Routing, change: MapChange) {
        if map.changed(by, &change).is_ok() {
            let number = self.next_number;
            self.next_number += 1;
            let operation = self.profile.shape.change((number, by), map, change);
            self.request(by, operation);
        }
    }

    /// Servers that were added take everything from another one; those that take part in visits say that they have joined.
    pub(super) fn join(&mut self) {
        self.schedule(JOIN_MS, Event::Join);
        let Some(newest) = self.maps.values().next_back().cloned() else { return };
        for server in self.servers.clone() {
            let now_ms = self.now_ms;
            let from = self.chance.pick(&self.servers.clone());
            let Some(Some(agent)) = self.agents.get(&server) else { continue };
            let is_member = agent.epochs().ring().contains(&server);
            if agent.is_absent() && !newest.absent.contains(server) && newest.has_joined(from) {
                self.step_agent(server, |agent, out| agent.on_added(now_ms, from, out));
            } else if is_member
                && agent.load()[0] == 0
                && let Some(map) = self.map_of_agent(server)
            {
                self.submit_change(server, &map, MapChange::Joined);
            }
        }
    }
}
