//! How a party sends and receives messages: small ones in datagrams, the others over streams.
//!
//! A message may be lost, come twice, or come late: the machines expect nothing better.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use rustc_hash::FxHashMap;
use weir_core::ids::CoordinatorId;
use weir_ordered::carried::MessageKind;
use weir_ordered::message::Party;

use crate::members::{Members, Network};
use crate::outbox::Outbox;
use crate::streams::Streams;
use crate::udp::{Calls, Datagrams};
use crate::wire::{self, Datagram, Message, OnWire, SMALL_BYTES_MAX};

const WAKER: Token = Token(0);
const DATAGRAMS: Token = Token(1);
const LISTENER: Token = Token(2);

/// Batches of datagrams that are received in a turn, at most.
const TURN_BATCHES: usize = 16;
/// Addresses of clients that are kept, at most. Whoever is forgotten is known again with its next transaction.
const CLIENTS_MAX: usize = 1 << 16;

/// A party that has heard from the failure coordinator's leading node within so long a time tells no other node.
const LEADER_MS: u64 = 500;

/// Says of each datagram that comes whether it is lost. For tests.
pub type Loss = Box<dyn FnMut() -> bool + Send>;

/// A message that has come.
#[derive(Debug)]
pub struct Received<M = Message> {
    pub from: Party,
    /// Where its datagram came from. None: it came over a stream.
    pub address: Option<SocketAddr>,
    pub message: M,
}

/// Counts of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub submits_sent: u64,
    pub packets_sent: u64,
    pub replies_sent: u64,
    pub others_sent: u64,
    pub received: u64,
    /// Messages that went over a stream.
    pub streamed: u64,
    /// Messages that went nowhere: the party is unknown, or its stream takes no more.
    pub unsent: u64,
    /// Datagrams and messages that could not be read, or were not believed.
    pub ignored: u64,
    /// Datagrams that a test has lost.
    pub lost: u64,
    pub calls: Calls,
}

impl Counts {
    /// Counts since then.
    pub fn since(&self, before: &Counts) -> Counts {
        Counts {
            submits_sent: self.submits_sent - before.submits_sent,
            packets_sent: self.packets_sent - before.packets_sent,
            replies_sent: self.replies_sent - before.replies_sent,
            others_sent: self.others_sent - before.others_sent,
            received: self.received - before.received,
            streamed: self.streamed - before.streamed,
            unsent: self.unsent - before.unsent,
            ignored: self.ignored - before.ignored,
            lost: self.lost - before.lost,
            calls: self.calls.since(&before.calls),
        }
    }
}

/// The sockets of a party.
pub struct Transport {
    own: Party,
    members: Arc<Members>,
    /// The node of the failure coordinator that was last heard, and when. Only a node that leads speaks.
    leader: Option<(u8, Instant)>,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    datagrams: Option<Datagrams>,
    outbox: Outbox,
    streams: Streams,
    clients: FxHashMap<CoordinatorId, SocketAddr>,
    loss: Option<Loss>,
    /// See [`Transport::unpack_clients`].
    is_client_unpacked: bool,
    /// A message in bytes.
    encoded: Vec<u8>,
    counts: Counts,
}

impl Transport {
    /// The transport of a party, at its address. A client takes any port.
    ///
    /// # Errors
    /// The party has no address, or the system's.
    pub fn bind(members: Arc<Members>, own: Party, loss: Option<Loss>) -> io::Result<Transport> {
        let listen = match own {
            Party::Client(_) => None,
            _ => Some(
                members
                    .address(own)
                    .ok_or_else(|| io::Error::other(format!("{own:?} is not a member of the cluster")))?,
            ),
        };
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let datagrams = match members.network {
            Network::Udp => {
                let mut datagrams = Datagrams::bind(listen.unwrap_or_else(|| any_port(&members)))?;
                datagrams.register(poll.registry(), DATAGRAMS)?;
                Some(datagrams)
            }
            Network::Tcp => None,
        };
        let registry = poll.registry().try_clone()?;
        let streams = Streams::new((members.tag, own, members.cluster), registry, (listen, LISTENER))?;
        Ok(Transport {
            own,
            outbox: Outbox::new(Datagram::new(members.tag, own)),
            members,
            leader: None,
            poll,
            events: Events::with_capacity(256),
            waker,
            datagrams,
            streams,
            clients: FxHashMap::default(),
            loss,
            is_client_unpacked: false,
            encoded: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Sends each message to a client, or of a client, in a datagram of its own from here on. For measurements: the clients of a front end share
    /// datagrams, which clients on machines of their own could not. Servers go on to share those that they send to each other.
    pub fn unpack_clients(&mut self) {
        self.is_client_unpacked = true;
    }

    pub fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// Where it receives datagrams. None: it has no socket for them.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<Option<SocketAddr>> {
        self.datagrams.as_ref().map(Datagrams::address).transpose()
    }

    /// Ends the wait of [`Transport::receive`].
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    pub fn counts(&self) -> Counts {
        let calls = self.datagrams.as_ref().map_or_else(Calls::default, |datagrams| datagrams.calls);
        Counts { calls, ..self.counts }
    }

    /// Waits until something comes, for so long at most, and adds it.
    ///
    /// # Errors
    /// The system's.
    pub fn receive<M: OnWire>(
        &mut self,
        timeout: Duration,
        received: &mut Vec<Received<M>>,
    ) -> io::Result<()> {
        let has_more =
            self.streams.is_readable() || self.datagrams.as_ref().is_some_and(Datagrams::is_readable);
        let timeout = if has_more { Duration::ZERO } else { timeout };
        if !timeout.is_zero() {
            // On a busy machine the others fill the sockets meanwhile: a wait would cost them a wake-up, and this party a small batch.
            std::thread::yield_now();
        }
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &self.events {
            match event.token() {
                WAKER => {}
                DATAGRAMS => self.datagrams.iter_mut().for_each(Datagrams::on_readable),
                LISTENER => self.streams.accept(),
                _ => self.streams.on_event(event),
            }
        }
        let before = received.len();
        self.receive_datagrams(received);
        self.receive_streams(received);
        received[before..].iter_mut().for_each(|each| self.note_leader(each));
        self.counts.received += (received.len() - before) as u64;
        Ok(())
    }

    fn receive_datagrams<M: OnWire>(&mut self, received: &mut Vec<Received<M>>) {
        let Some(datagrams) = &mut self.datagrams else { return };
        let (members, counts, clients) = (&*self.members, &mut self.counts, &mut self.clients);
        let loss = &mut self.loss;
        for _ in 0..TURN_BATCHES {
            if !datagrams.is_readable() {
                break;
            }
            datagrams.receive(|address, datagram| {
                if loss.as_mut().is_some_and(|loses| loses()) {
                    counts.lost += 1;
                    return;
                }
                let Ok(opened) = wire::open(members.tag, datagram, &members.cluster) else {
                    counts.ignored += 1;
                    return;
                };
                let from = opened.from;
                if let Party::Client(client) = from {
                    learn(clients, client, address);
                }
                for message in opened {
                    match message.and_then(|message| M::read(message, &members.cluster)) {
                        Ok(message) => received.push(Received { from, address: Some(address), message }),
                        Err(_) => counts.ignored += 1,
                    }
                }
            });
        }
    }

    fn receive_streams<M: OnWire>(&mut self, received: &mut Vec<Received<M>>) {
        let cluster = &self.members.cluster;
        self.counts.ignored += self.streams.receive(|from, message| {
            let message = M::read(message, cluster)?;
            received.push(Received { from, address: None, message });
            Ok(())
        });
    }

    /// A message from a node of the failure coordinator counts as one from the failure coordinator, except at another node.
    fn note_leader<M>(&mut self, received: &mut Received<M>) {
        if let (Party::CoordinatorNode(number), false) =
            (received.from, matches!(self.own, Party::CoordinatorNode(_)))
        {
            self.leader = Some((number, Instant::now()));
            received.from = Party::FailureCoordinator;
        }
    }

    /// The nodes of the failure coordinator that a message must go to: the one that leads, or all.
    fn coordinators(&self) -> Range<u8> {
        let is_fresh = |(_, heard): &(u8, Instant)| heard.elapsed() < Duration::from_millis(LEADER_MS);
        match self.leader.filter(is_fresh) {
            Some((number, _)) => number..number + 1,
            None => 0..self.members.coordinators.len() as u8,
        }
    }

    /// The client is at that address.
    pub fn learn(&mut self, client: CoordinatorId, address: SocketAddr) {
        learn(&mut self.clients, client, address);
    }

    /// Connects to parties that may have to send what does not fit into a datagram, unless there are connections.
    pub fn dial(&mut self, parties: impl Iterator<Item = Party>) {
        for party in parties {
            self.streams.dial(party, self.members.address(party));
        }
    }

    /// Sends messages once [`Transport::flush`] is called. Messages that are alike and follow each other are written once.
    pub fn send<M: OnWire>(&mut self, messages: impl Iterator<Item = (Party, M)>) {
        let mut before: Option<M> = None;
        for (to, message) in messages {
            self.count(message.kind());
            if !before.as_ref().is_some_and(|before| before.is_alike(&message)) {
                self.encoded.clear();
                message.write(&mut self.encoded);
            }
            match to {
                Party::FailureCoordinator => {
                    self.coordinators().for_each(|number| self.send_encoded(Party::CoordinatorNode(number)));
                }
                _ => self.send_encoded(to),
            }
            before = Some(message);
        }
    }

    fn send_encoded(&mut self, to: Party) {
        let address = self.members.address(to);
        let datagrams = self.datagrams.as_mut().filter(|_| self.encoded.len() <= SMALL_BYTES_MAX);
        let client = if let Party::Client(id) = to { self.clients.get(&id).copied() } else { None };
        match (datagrams, address.or(client)) {
            (Some(datagrams), Some(address)) => {
                let is_of_client = matches!(to, Party::Client(_)) || matches!(self.own, Party::Client(_));
                let is_full = match self.is_client_unpacked && is_of_client {
                    true => self.outbox.push_unpacked(address, &self.encoded),
                    false => self.outbox.push(address, &self.encoded),
                };
                if is_full {
                    datagrams.send(&mut self.outbox);
                }
            }
            _ if self.streams.send(to, address, &self.encoded) => self.counts.streamed += 1,
            _ => self.counts.unsent += 1,
        }
    }

    /// Hands everything to the system.
    pub fn flush(&mut self) {
        if let Some(datagrams) = self.datagrams.as_mut().filter(|_| !self.outbox.is_empty()) {
            datagrams.send(&mut self.outbox);
        }
        self.streams.flush();
    }

    fn count(&mut self, kind: MessageKind) {
        let counts = &mut self.counts;
        let count = match kind {
            MessageKind::Submit => &mut counts.submits_sent,
            MessageKind::Packet => &mut counts.packets_sent,
            MessageKind::Reply => &mut counts.replies_sent,
            MessageKind::Other => &mut counts.others_sent,
        };
        *count += 1;
    }
}

fn learn(clients: &mut FxHashMap<CoordinatorId, SocketAddr>, client: CoordinatorId, address: SocketAddr) {
    if clients.get(&client) == Some(&address) {
        return;
    }
    if clients.len() >= CLIENTS_MAX {
        clients.clear();
    }
    clients.insert(client, address);
}

/// Any port of this machine from which the members are reached.
fn any_port(members: &Members) -> SocketAddr {
    let is_v6 = members.coordinators.first().is_some_and(SocketAddr::is_ipv6);
    let ip: IpAddr = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(ip, 0)
}
