//! Routing: the value of a partitioning parameter says the server (operation-partitioning.txt §3.1, "the same deterministic routing function").
//!
//! A value has a slot, and a slot has a server. Integers are their own hash, so that a server can generate ids that route back to it (§6).
//! The map of slots changes by global operations: each change makes the next version, and state updates carry it to all servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::epochs::ServerId;

/// Slots: divisible by 1 to 6, 8, 10, 12, 15 and 16, so that so many servers have equal shares.
pub const SLOTS: u16 = 240;

/// A value by which operations are routed. Equal values of one SQL type are equal here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutingValue {
    /// NULL routes like a value.
    Null,
    Integer(i64),
    /// Text in the database's encoding, or the text of a uuid, boolean, date or enumeration as PostgreSQL prints it.
    Text(String),
}

impl RoutingValue {
    pub fn slot(&self) -> u16 {
        match self {
            RoutingValue::Null => 0,
            RoutingValue::Integer(value) => value.rem_euclid(i64::from(SLOTS)) as u16,
            RoutingValue::Text(text) => (fnv(text.as_bytes()) % u64::from(SLOTS)) as u16,
        }
    }
}

/// FNV-1a, 64 bits. It is part of the interface: data that lives by it is never hashed otherwise.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Numbers that a server's sequences give: `start`, `start + increment`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedIds {
    pub start: u16,
    pub increment: u16,
}

impl GeneratedIds {
    /// The first of them above a number; the largest number if there is none.
    pub fn first_above(self, above: i64) -> i64 {
        let (least, increment) = (above.saturating_add(1), i64::from(self.increment));
        least.saturating_add((i64::from(self.start) - least).rem_euclid(increment))
    }
}

/// Slot of a value: below [`SLOTS`].
pub type Slot = u16;
/// Number of a map of slots. The first one is 0.
pub type MapVersion = u64;

/// A set of servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerSet([u64; 4]);

impl ServerSet {
    /// Servers with this number or a higher one are in no set: each server has a slot.
    pub const LIMIT: ServerId = 256;

    pub fn contains(self, server: ServerId) -> bool {
        server < Self::LIMIT && self.0[usize::from(server / 64)] >> (server % 64) & 1 == 1
    }

    /// # Panics
    /// The number is [`ServerSet::LIMIT`] or higher.
    #[must_use]
    pub fn with(mut self, server: ServerId) -> ServerSet {
        self.0[usize::from(server / 64)] |= 1 << (server % 64);
        self
    }

    #[must_use]
    pub fn without(mut self, server: ServerId) -> ServerSet {
        if server < Self::LIMIT {
            self.0[usize::from(server / 64)] &= !(1 << (server % 64));
        }
        self
    }

    pub fn iter(self) -> impl Iterator<Item = ServerId> {
        (0..Self::LIMIT).filter(move |server| self.contains(*server))
    }
}

impl FromIterator<ServerId> for ServerSet {
    fn from_iter<T: IntoIterator<Item = ServerId>>(servers: T) -> ServerSet {
        servers.into_iter().fold(ServerSet::default(), ServerSet::with)
    }
}

/// A change of the map: a global operation of the server that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapChange {
    /// Slots of the server get other owners. Their rows travel with the change.
    Move(BTreeMap<Slot, ServerId>),
    /// The same for all its slots, and the server is no member any more. The heir gets the rows that belong to no slot.
    Leave { moves: BTreeMap<Slot, ServerId>, heir: ServerId },
    /// That server becomes a member: it counts from here on, and gets a copy of everything.
    Add(ServerId),
    /// The server has that copy, and takes part in visits: it may own slots.
    Joined,
}

impl MapChange {
    /// New owners of slots whose rows travel.
    pub fn moves(&self) -> Option<&BTreeMap<Slot, ServerId>> {
        match self {
            MapChange::Move(moves) | MapChange::Leave { moves, .. } => Some(moves),
            MapChange::Add(_) | MapChange::Joined => None,
        }
    }
}

/// Why a change of the map is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapRefusal {
    /// A slot belongs to another server.
    NotOwner,
    /// The new owner is no member, or has not joined yet.
    NotJoined,
    /// A server that leaves gives all its slots away.
    KeepsSlots,
    /// The server is a member already.
    IsMember,
    /// There is no such server.
    Unknown,
}

/// The server of each slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routing {
    pub version: MapVersion,
    slots: Vec<ServerId>,
    /// Servers that are no members: they were not added, or have left.
    pub absent: ServerSet,
    /// Members that do not have all rows yet.
    pub joining: ServerSet,
}

impl Routing {
    /// Equal shares.
    ///
    /// # Panics
    /// There is no server, or there are more than slots.
    pub fn even(servers: &[ServerId]) -> Routing {
        assert!(!servers.is_empty() && servers.len() <= usize::from(SLOTS), "each server has slots");
        let slots = (0..usize::from(SLOTS)).map(|slot| servers[slot % servers.len()]).collect();
        Routing { version: 0, slots, absent: ServerSet::default(), joining: ServerSet::default() }
    }

    /// The first map of a deployment: equal shares for these servers, and no other server is a member.
    ///
    /// # Panics
    /// As for [`Routing::even`].
    pub fn first(members: &[ServerId]) -> Routing {
        let others = (0..ServerSet::LIMIT).filter(|server| !members.contains(server));
        Routing { absent: others.collect(), ..Routing::even(members) }
    }

    /// A map with these owners, by slot. None: they are not as many as slots.
    pub fn of_owners(version: MapVersion, slots: Vec<ServerId>) -> Option<Routing> {
        let is_whole = slots.len() == usize::from(SLOTS);
        is_whole.then(|| Routing {
            version,
            slots,
            absent: ServerSet::default(),
            joining: ServerSet::default(),
        })
    }

    /// The owner of each slot.
    pub fn owners(&self) -> &[ServerId] {
        &self.slots
    }

    /// The owner of a slot.
    pub fn owner(&self, slot: Slot) -> ServerId {
        self.slots[usize::from(slot % SLOTS)]
    }

    pub fn slots_of(&self, server: ServerId) -> impl Iterator<Item = Slot> {
        (0..SLOTS).filter(move |slot| self.owner(*slot) == server)
    }

    /// Returns whether the server may own slots.
    pub fn has_joined(&self, server: ServerId) -> bool {
        !self.absent.contains(server) && !self.joining.contains(server)
    }

    /// New owners for all slots of a server: those of the others that have the fewest. Empty: it has none, or there is no other.
    pub fn spread(&self, server: ServerId, others: &[ServerId]) -> BTreeMap<Slot, ServerId> {
        let others = others.iter().copied().filter(|other| *other != server && self.has_joined(*other));
        let mut shares: BTreeMap<ServerId, usize> =
            others.map(|other| (other, self.slots_of(other).count())).collect();
        let mut moves = BTreeMap::new();
        for slot in self.slots_of(server) {
            let Some((to, share)) = shares.iter_mut().min_by_key(|(_, share)| **share) else { break };
            *share += 1;
            moves.insert(slot, *to);
        }
        moves
    }

    /// The next map, if that server makes the change.
    ///
    /// # Errors
    /// The map does not allow it: a change that was made already, or that another one has overtaken.
    pub fn changed(&self, by: ServerId, change: &MapChange) -> Result<Routing, MapRefusal> {
        let mut next = Routing { version: self.version + 1, ..self.clone() };
        for (slot, to) in change.moves().into_iter().flatten() {
            if *slot >= SLOTS || self.owner(*slot) != by {
                return Err(MapRefusal::NotOwner);
            }
            if *to >= ServerSet::LIMIT || !self.has_joined(*to) {
                return Err(MapRefusal::NotJoined);
            }
            next.slots[usize::from(*slot)] = *to;
        }
        match change {
            MapChange::Move(_) => {}
            MapChange::Leave { .. } if next.slots.contains(&by) => return Err(MapRefusal::KeepsSlots),
            MapChange::Leave { heir, .. }
                if *heir == by || !self.has_joined(*heir) || !self.has_joined(by) =>
            {
                return Err(MapRefusal::NotJoined);
            }
            MapChange::Leave { .. } => next.absent = next.absent.with(by),
            MapChange::Add(server) if *server >= ServerSet::LIMIT => return Err(MapRefusal::Unknown),
            MapChange::Add(server) if !self.absent.contains(*server) => return Err(MapRefusal::IsMember),
            MapChange::Add(server) => {
                next.absent = next.absent.without(*server);
                next.joining = next.joining.with(*server);
            }
            MapChange::Joined if !self.joining.contains(by) => return Err(MapRefusal::IsMember),
            MapChange::Joined => next.joining = next.joining.without(by),
        }
        Ok(next)
    }

    pub fn server(&self, value: &RoutingValue) -> ServerId {
        self.owner(value.slot())
    }

    /// The densest sequence of ids that all route to the server. None: the server has no slot.
    pub fn generated_ids(&self, server: ServerId) -> Option<GeneratedIds> {
        let divisors = (1..=SLOTS).filter(|divisor| SLOTS.is_multiple_of(*divisor));
        let candidates = divisors.flat_map(|increment| (1..=increment).map(move |start| (start, increment)));
        let routes_back = |&(start, increment): &(u16, u16)| {
            (0..SLOTS / increment)
                .all(|turn| self.slots[usize::from((start + turn * increment) % SLOTS)] == server)
        };
        candidates.into_iter().find(routes_back).map(|(start, increment)| GeneratedIds { start, increment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_route_back() {
        for servers in 1..=16 {
            let all: Vec<ServerId> = (0..servers).collect();
            let routing = Routing::even(&all);
            for server in all {
                let GeneratedIds { start, increment } = routing.generated_ids(server).unwrap();
                let ids = (0..1_000).map(|turn| i64::from(start) + turn * i64::from(increment));
                assert!(ids.into_iter().all(|id| routing.server(&RoutingValue::Integer(id)) == server));
                if SLOTS.is_multiple_of(servers) {
                    assert_eq!(increment, servers);
                }
            }
        }
        assert_eq!(Routing::even(&[0, 1]).generated_ids(7), None);
    }

    #[test]
    fn a_server_joins_gets_slots_and_leaves() {
        let first = Routing { absent: ServerSet::default().with(2), ..Routing::even(&[0, 1]) };
        let some = BTreeMap::from([(0, 2), (2, 2)]);
        assert_eq!(first.changed(0, &MapChange::Move(some.clone())), Err(MapRefusal::NotJoined));
        assert_eq!(first.changed(0, &MapChange::Add(1)), Err(MapRefusal::IsMember));
        let added = first.changed(0, &MapChange::Add(2)).unwrap();
        assert_eq!(added.changed(0, &MapChange::Move(some.clone())), Err(MapRefusal::NotJoined));
        let joined = added.changed(2, &MapChange::Joined).unwrap();
        assert_eq!(joined.changed(1, &MapChange::Move(some.clone())), Err(MapRefusal::NotOwner));
        let moved = joined.changed(0, &MapChange::Move(some)).unwrap();
        assert_eq!((moved.version, moved.owner(2), moved.owner(4)), (3, 2, 0));
        let keeps = MapChange::Leave { moves: BTreeMap::new(), heir: 1 };
        assert_eq!(moved.changed(0, &keeps), Err(MapRefusal::KeepsSlots));
        let leave = |heir| MapChange::Leave { moves: moved.spread(0, &[0, 1, 2]), heir };
        assert_eq!(moved.changed(0, &leave(0)), Err(MapRefusal::NotJoined));
        let left = moved.changed(0, &leave(1)).unwrap();
        assert_eq!((left.slots_of(0).count(), left.slots_of(1).count()), (0, 120));
        assert!(left.absent.contains(0) && left.absent.iter().eq([0]));
        assert_eq!(left.changed(0, &keeps), Err(MapRefusal::NotJoined));
    }

    #[test]
    fn shares_are_equal_and_hashes_stay() {
        let routing = Routing::even(&[0, 1, 2]);
        let count =
            |server| (0..240).filter(|id| routing.server(&RoutingValue::Integer(*id)) == server).count();
        assert_eq!([0, 1, 2].map(count), [80, 80, 80]);
        let slots = ["", "a", "Ada"].map(|text| RoutingValue::Text(text.into()).slot());
        assert_eq!(slots, [fnv(b"") % 240, fnv(b"a") % 240, fnv(b"Ada") % 240].map(|slot| slot as u16));
        assert_eq!(fnv(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(RoutingValue::Integer(-1).slot(), 239);
    }
}
