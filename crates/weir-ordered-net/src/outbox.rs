//! The messages of a turn that leave in datagrams, by destination.

use std::net::SocketAddr;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::wire::{DATAGRAM_BYTES, Datagram};

/// Datagrams to one destination in one call, at most: the kernel takes no more than 64 KiB.
pub const SEGMENTS_MAX: usize = 46;
/// Datagrams of one message each that are kept until they are sent, at most.
const UNPACKED_MAX: usize = 1_024;
/// Buffers that are kept for destinations, at most.
const DESTINATIONS_MAX: usize = 4_096;

/// Datagrams to one destination. All but the last are `DATAGRAM_BYTES` long.
#[derive(Debug)]
pub struct Segments {
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
    /// Where the last datagram begins.
    last: usize,
}

/// Datagrams to all destinations.
#[derive(Debug)]
pub struct Outbox {
    datagram: Datagram,
    places: FxHashMap<SocketAddr, usize>,
    buffers: Vec<Segments>,
    /// Places of the buffers that are not empty.
    used: Vec<usize>,
    /// Datagrams of one message each, in `unpacked_bytes`.
    unpacked: Vec<(SocketAddr, Range<usize>)>,
    unpacked_bytes: Vec<u8>,
}

impl Outbox {
    pub fn new(datagram: Datagram) -> Outbox {
        Outbox {
            datagram,
            places: FxHashMap::default(),
            buffers: Vec::new(),
            used: Vec::new(),
            unpacked: Vec::new(),
            unpacked_bytes: Vec::new(),
        }
    }

    /// Adds a message that fits into a datagram, which it shares with others. Returns whether the destination should have its datagrams before
    /// more is added.
    pub fn push(&mut self, to: SocketAddr, message: &[u8]) -> bool {
        let place = *self.places.entry(to).or_insert(self.buffers.len());
        if place == self.buffers.len() {
            self.buffers.push(Segments { to, bytes: Vec::new(), last: 0 });
        }
        let Segments { bytes, last, .. } = &mut self.buffers[place];
        if bytes.is_empty() {
            self.used.push(place);
            *last = 0;
            self.datagram.begin(bytes);
        } else if Datagram::length_with(bytes.len() - *last, message) > DATAGRAM_BYTES {
            bytes.resize(*last + DATAGRAM_BYTES, 0);
            self.datagram.seal(&mut bytes[*last..]);
            *last = bytes.len();
            self.datagram.begin(bytes);
        }
        Datagram::push(message, bytes);
        bytes.len() > (SEGMENTS_MAX - 1) * DATAGRAM_BYTES
    }

    /// Adds a message that has a datagram of its own. Returns whether all of these should be sent before more is added.
    pub fn push_unpacked(&mut self, to: SocketAddr, message: &[u8]) -> bool {
        let begin = self.unpacked_bytes.len();
        self.datagram.begin(&mut self.unpacked_bytes);
        Datagram::push(message, &mut self.unpacked_bytes);
        self.datagram.seal(&mut self.unpacked_bytes[begin..]);
        self.unpacked.push((to, begin..self.unpacked_bytes.len()));
        self.unpacked.len() >= UNPACKED_MAX
    }

    /// Hands over the datagrams of one message each.
    pub fn take_unpacked(&mut self, send: impl FnOnce(&[(SocketAddr, &[u8])])) {
        let bytes = &self.unpacked_bytes;
        let datagrams: Vec<_> = self.unpacked.drain(..).map(|(to, range)| (to, &bytes[range])).collect();
        if !datagrams.is_empty() {
            send(&datagrams);
        }
        self.unpacked_bytes.clear();
    }

    /// Hands over the datagrams that have several messages.
    pub fn take(&mut self, send: impl FnOnce(&mut dyn Iterator<Item = &Segments>)) {
        for &place in &self.used {
            let Segments { bytes, last, .. } = &mut self.buffers[place];
            self.datagram.seal(&mut bytes[*last..]);
        }
        send(&mut self.used.iter().map(|place| &self.buffers[*place]));
        for place in self.used.drain(..) {
            self.buffers[place].bytes.clear();
        }
        if self.buffers.len() > DESTINATIONS_MAX {
            self.buffers.clear();
            self.places.clear();
        }
    }

    pub fn is_empty(&self) -> bool {
        self.used.is_empty() && self.unpacked.is_empty()
    }
}
