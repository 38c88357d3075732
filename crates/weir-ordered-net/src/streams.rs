//! Connections between parties, for messages that do not fit into datagrams, or for all of them.
//!
//! A broken connection loses its messages, as datagrams are lost.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use rustc_hash::FxHashMap;
use weir_net::{Connection, Fault, Kind, body, frame};
use weir_ordered::cluster::Cluster;
use weir_ordered::message::Party;

use crate::wire::{MESSAGE_BYTES_MAX, VERSION};

/// Time between two attempts to dial an address, at least.
pub const REDIAL_MS: u64 = 50;
/// With so much unsent, a stream takes no more messages.
const UNSENT_BYTES_MAX: usize = 16 << 20;
/// Part of a message in one frame.
const PART_BYTES: usize = 1 << 20;

/// Begins a connection, in both directions: version, tag, and the party that speaks.
type Hello = (u8, u64, Party);

struct Stream {
    connection: Connection,
    /// Whom it leads to: known of a stream that was dialled, said in the first frame of any.
    party: Option<Party>,
    dialled: Option<SocketAddr>,
    has_hello: bool,
    /// Parts of a message whose end has not come.
    partial: Vec<u8>,
}

/// The connections of a party.
pub struct Streams {
    own: Hello,
    cluster: Cluster,
    registry: Registry,
    listener: Option<TcpListener>,
    streams: FxHashMap<usize, Stream>,
    by_party: FxHashMap<Party, usize>,
    next_token: usize,
    /// Streams that may have something to read.
    readable: Vec<usize>,
    /// Streams that have something to send.
    unsent: Vec<usize>,
    /// When an address was last dialled.
    dialled: FxHashMap<SocketAddr, Instant>,
}

impl Streams {
    /// `listen`: the address for the listener, and its token. The streams have later tokens than that of the listener.
    ///
    /// # Errors
    /// The system's.
    pub fn new(
        (tag, own, cluster): (u64, Party, Cluster),
        registry: Registry,
        (listen, token): (Option<SocketAddr>, Token),
    ) -> io::Result<Streams> {
        let mut listener = listen.map(TcpListener::bind).transpose()?;
        if let Some(listener) = &mut listener {
            registry.register(listener, token, Interest::READABLE)?;
        }
        Ok(Streams {
            own: (VERSION, tag, own),
            cluster,
            registry,
            listener,
            streams: FxHashMap::default(),
            by_party: FxHashMap::default(),
            next_token: token.0 + 1,
            readable: Vec::new(),
            unsent: Vec::new(),
            dialled: FxHashMap::default(),
        })
    }

    /// Takes the connections that have been dialled from elsewhere.
    pub fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok((stream, _)) => drop(self.add(Connection::accepted(stream, None), None)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Also an error of one connection that is gone by now, or too many open files: the next event tries again.
                Err(_) => return,
            }
        }
    }

    /// Adds a connection, which begins with the hello.
    fn add(&mut self, mut connection: Connection, to: Option<(Party, SocketAddr)>) -> io::Result<usize> {
        let token = self.next_token;
        self.next_token += 1;
        connection.register(&self.registry, Token(token))?;
        let own = self.own;
        frame::push(connection.outgoing(), Kind::Hello, |out| body::write(&own, out))
            .map_err(io::Error::other)?;
        let (party, dialled) = to.unzip();
        let stream = Stream { connection, party, dialled, has_hello: false, partial: Vec::new() };
        self.streams.insert(token, stream);
        self.unsent.push(token);
        Ok(token)
    }

    /// Connects to a party, unless there is a connection or it has just been tried. Returns the stream to it.
    pub fn dial(&mut self, party: Party, address: Option<SocketAddr>) -> Option<usize> {
        if let Some(token) = self.by_party.get(&party) {
            return Some(*token);
        }
        let (address, now) = (address?, Instant::now());
        let pause = Duration::from_millis(REDIAL_MS);
        if self.dialled.get(&address).is_some_and(|dialled| now < *dialled + pause) {
            return None;
        }
        self.dialled.insert(address, now);
        let connection = Connection::dialled(TcpStream::connect(address).ok()?, None);
        let token = self.add(connection, Some((party, address))).ok()?;
        self.by_party.insert(party, token);
        Some(token)
    }

    /// Sends a message to a party. Returns whether it is on its way: it is lost if much is unsent, since what comes late is repeated anyway.
    pub fn send(&mut self, to: Party, address: Option<SocketAddr>, message: &[u8]) -> bool {
        let Some(token) = self.dial(to, address) else { return false };
        let Some(stream) = self.streams.get_mut(&token) else { return false };
        if stream.connection.unsent() >= UNSENT_BYTES_MAX || message.len() > MESSAGE_BYTES_MAX {
            return false;
        }
        let mut parts = message.chunks(PART_BYTES).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let pushed = frame::push(stream.connection.outgoing(), Kind::Peer, |out| {
                out.push(u8::from(is_last));
                out.extend(part);
            });
            assert!(pushed.is_ok(), "a part fits into a frame");
        }
        self.unsent.push(token);
        true
    }

    pub fn on_event(&mut self, event: &Event) {
        let Token(token) = event.token();
        if let Some(stream) = self.streams.get_mut(&token) {
            stream.connection.on_event(event);
            self.readable.push(token);
            self.unsent.push(token);
        }
    }

    /// Returns whether something may be left to read.
    pub fn is_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Reads what has come. A stream that breaks, or has anything that is no message, ends: returns how many have had such.
    pub fn receive(&mut self, mut each: impl FnMut(Party, &[u8]) -> Result<(), Fault>) -> u64 {
        let mut faults = 0;
        for token in std::mem::take(&mut self.readable) {
            let Some(stream) = self.streams.get_mut(&token) else { continue };
            let before = stream.party;
            let read = stream.read(self.own.1, &self.cluster, &mut each);
            let party = stream.party;
            match read {
                Ok(is_readable) => {
                    if let Some(party) = party.filter(|_| before.is_none()) {
                        self.by_party.insert(party, token);
                    }
                    if is_readable {
                        self.readable.push(token);
                    }
                }
                Err(fault) => {
                    faults += u64::from(!matches!(fault, Fault::Io(_)));
                    self.end(token, &fault);
                }
            }
        }
        faults
    }

    /// Hands what is to be sent to the system.
    pub fn flush(&mut self) {
        for token in std::mem::take(&mut self.unsent) {
            let Some(stream) = self.streams.get_mut(&token) else { continue };
            match stream.connection.flush() {
                // A connection that had too much unsent was not read to its end, and no event will say so.
                Ok(()) if stream.connection.is_readable() => self.readable.push(token),
                Ok(()) => {}
                Err(fault) => self.end(token, &fault),
            }
        }
    }

    fn end(&mut self, token: usize, fault: &Fault) {
        let Some(mut stream) = self.streams.remove(&token) else { return };
        stream.connection.say_goodbye(fault);
        // It is closed either way.
        let _ = stream.connection.deregister(&self.registry);
        if let Some(party) = stream.party
            && self.by_party.get(&party) == Some(&token)
        {
            self.by_party.remove(&party);
        }
        if let Some(address) = stream.dialled {
            self.dialled.insert(address, Instant::now());
        }
    }
}

impl Stream {
    /// Returns whether there may be more to read.
    fn read(
        &mut self,
        tag: u64,
        cluster: &Cluster,
        each: &mut impl FnMut(Party, &[u8]) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        if !self.connection.is_connected()? {
            return Ok(false);
        }
        self.connection.fill()?;
        while let Some((kind, mut said)) = self.connection.next_frame()? {
            if !self.has_hello {
                frame::expect(Kind::Hello, kind, said)?;
                let hello: Hello = body::read(kind, &mut said)?;
                self.party = Some(met(hello, tag, cluster, self.party)?);
                self.has_hello = true;
                continue;
            }
            frame::expect(Kind::Peer, kind, said)?;
            let Some((is_last, part)) = said.split_first() else { return Err(Fault::Length(0)) };
            if self.partial.len() + part.len() > MESSAGE_BYTES_MAX {
                return Err(Fault::Length(self.partial.len() + part.len()));
            }
            let Some(party) = self.party else { return Err(Fault::sense("nobody has said who speaks")) };
            if *is_last == 0 {
                self.partial.extend(part);
            } else if self.partial.is_empty() {
                each(party, part)?;
            } else {
                self.partial.extend(part);
                each(party, &std::mem::take(&mut self.partial))?;
            }
        }
        Ok(self.connection.is_readable())
    }
}

/// The party that a hello names, if it is the one that was dialled.
fn met(
    (version, of, party): Hello,
    tag: u64,
    cluster: &Cluster,
    dialled: Option<Party>,
) -> Result<Party, Fault> {
    if version != VERSION || of != tag {
        return Err(Fault::sense(format_args!(
            "a party of version {version} of another cluster, or of none"
        )));
    }
    cluster.check_party(party).map_err(Fault::sense)?;
    match dialled {
        Some(dialled) if dialled != party => {
            Err(Fault::sense(format_args!("{party:?} is where {dialled:?} was to be")))
        }
        _ => Ok(party),
    }
}
