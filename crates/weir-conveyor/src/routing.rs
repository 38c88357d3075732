//! Routing: the value of a partitioning parameter says the server (operation-partitioning.txt §3.1, "the same deterministic routing function").
//!
//! A value has a slot, and a slot has a server. Integers are their own hash, so that a server can generate ids that route back to it (§6).

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

/// The server of each slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    slots: Vec<ServerId>,
}

impl Routing {
    /// Equal shares.
    ///
    /// # Panics
    /// There is no server, or there are more than slots.
    pub fn even(servers: &[ServerId]) -> Routing {
        assert!(!servers.is_empty() && servers.len() <= usize::from(SLOTS), "each server has slots");
        Routing { slots: (0..usize::from(SLOTS)).map(|slot| servers[slot % servers.len()]).collect() }
    }

    pub fn server(&self, value: &RoutingValue) -> ServerId {
        self.slots[usize::from(value.slot())]
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
