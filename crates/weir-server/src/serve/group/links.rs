//! Connections between the members of a group: each dials every other one, and sends on that connection only.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use mio::event::Event;
use mio::{Registry, Token};
use tracing::{debug, warn};
use weir_core::ids::ShardId;
use weir_net::frame::expect;
use weir_net::{Connection, Fault, Kind, Link};
use weir_raft::Place;

use super::wire::{self, Wire};

pub(super) struct Links {
    shard: ShardId,
    own: Place,
    /// By place; none to itself. The token of each is its place, behind `FIRST`.
    links: Vec<Option<Outgoing>>,
    /// Connections of others, by token behind those of the links.
    incoming: Vec<Option<Incoming>>,
}

/// Token of the first link.
pub(super) const FIRST: usize = 1;

struct Outgoing {
    link: Link,
    /// Openings of the link on which this member has introduced itself.
    introduced: u64,
}

struct Incoming {
    connection: Box<Connection>,
    address: SocketAddr,
    /// Who speaks, once it has said so.
    from: Option<Place>,
    stream: Vec<u8>,
}

impl Links {
    /// `links`: by place, with these tokens.
    pub(super) fn new(shard: ShardId, own: Place, links: Vec<Option<Link>>) -> Links {
        let links = links.into_iter().map(|link| link.map(|link| Outgoing { link, introduced: 0 })).collect();
        Links { shard, own, links, incoming: Vec::new() }
    }

    fn first_incoming(&self) -> usize {
        FIRST + self.links.len()
    }

    /// Sends the message, or drops it: the link is not open, or takes no more.
    pub(super) fn send(&mut self, to: Place, message: &Wire, now: Instant, registry: &Registry) {
        let own = self.own;
        let Some(Some(out)) = self.links.get_mut(usize::from(to)) else { return };
        let openings = out.link.openings();
        let is_new = std::mem::replace(&mut out.introduced, openings) != openings;
        let Some(open) = out.link.open().filter(|open| !open.is_clogged()) else { return };
        let introduced = if is_new { wire::push(open.outgoing(), &Wire::Introduce(own)) } else { Ok(()) };
        if let Err(fault) = introduced.and_then(|()| wire::push(open.outgoing(), message)) {
            out.link.fail(fault, now, registry);
        }
    }

    /// Dials where that is due, and sends what waits.
    pub(super) fn flush(&mut self, now: Instant, registry: &Registry) {
        for (place, out) in self.links.iter_mut().enumerate() {
            let Some(Outgoing { link, .. }) = out else { continue };
            link.on_time(now, registry);
            if let Some(Err(fault)) = link.open().map(Connection::flush) {
                link.fail(fault, now, registry);
            }
            if let Some(fault) = link.news() {
                let (shard, address) = (self.shard, &link.node().address);
                match fault.is_refusal() || fault.is_ours() {
                    true => warn!(shard, place, address, reason = %fault, "another member refuses this one"),
                    false => {
                        debug!(shard, place, address, reason = %fault, "another member cannot be reached")
                    }
                }
            }
        }
    }

    /// Returns whether messages may have come on an incoming connection, and on which.
    pub(super) fn on_event(&mut self, event: &Event, now: Instant, registry: &Registry) -> Option<usize> {
        let Token(token) = event.token();
        if token >= self.first_incoming() {
            let slot = token - self.first_incoming();
            self.incoming.get_mut(slot)?.as_mut()?.connection.on_event(event);
            return Some(slot);
        }
        let Outgoing { link, .. } = self.links.get_mut(token.checked_sub(FIRST)?)?.as_mut()?;
        link.on_event(event);
        link.advance(now, registry);
        // Members answer over links of their own; here only the end comes.
        let said = link.open().map_or(Ok(()), |open| match open.next_frame()? {
            Some((kind, body)) => expect(Kind::Goodbye, kind, body),
            None => Ok(()),
        });
        if let Err(fault) = said {
            link.fail(fault, now, registry);
        }
        None
    }

    /// Takes over a connection of another member. Returns its slot.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn accept(
        &mut self,
        mut connection: Box<Connection>,
        address: SocketAddr,
        registry: &Registry,
    ) -> io::Result<usize> {
        let free = self.incoming.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.incoming.len());
        connection.register(registry, Token(self.first_incoming() + slot))?;
        let incoming = Some(Incoming { connection, address, from: None, stream: Vec::new() });
        match free {
            Some(slot) => self.incoming[slot] = incoming,
            None => self.incoming.push(incoming),
        }
        Ok(slot)
    }

    /// Takes what has come there. Returns whether there may be more.
    pub(super) fn hear(&mut self, slot: usize, registry: &Registry, heard: &mut Vec<(Place, Wire)>) -> bool {
        let Some(Some(incoming)) = self.incoming.get_mut(slot) else { return false };
        match incoming.hear(self.links.len(), heard) {
            Ok(()) => incoming.connection.is_readable(),
            Err(fault) => {
                let (shard, address) = (self.shard, incoming.address);
                match fault.is_ours() {
                    true => warn!(shard, %address, reason = %fault, "a member's connection is closed"),
                    false => debug!(shard, %address, reason = %fault, "a member's connection has ended"),
                }
                incoming.connection.say_goodbye(&fault);
                // It is closed either way.
                let _ = incoming.connection.deregister(registry);
                self.incoming[slot] = None;
                false
            }
        }
    }
}

impl Incoming {
    fn hear(&mut self, members: usize, heard: &mut Vec<(Place, Wire)>) -> Result<(), Fault> {
        self.connection.fill()?;
        while let Some((kind, body)) = self.connection.next_frame()? {
            expect(Kind::Peer, kind, body)?;
            self.stream.extend(body);
            while let Some(message) = wire::take(&mut self.stream)? {
                match (message, self.from) {
                    (Wire::Introduce(place), None) if usize::from(place) < members => self.from = Some(place),
                    (Wire::Introduce(_), _) | (_, None) => {
                        return Err(Fault::sense("a member that does not say who it is"));
                    }
                    (message, Some(from)) => heard.push((from, message)),
                }
            }
        }
        Ok(())
    }
}
