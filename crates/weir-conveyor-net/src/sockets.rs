//! Sockets between the processes of agents: one connection for each direction of each pair, dialled by the sender.
//!
//! A packet that cannot be sent is dropped, and a connection that is lost is dialled again when there is something to send: the machines repeat
//! what matters. Both sides prove that they know the deployment's secret before anything else is read (weir-net, `handshake`).

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_conveyor::epochs::ServerId;
use weir_core::ids::Sender;
use weir_net::frame::{self, Fault, Kind};
use weir_net::handshake::{Dialer, Listener, Nonce, Terms};

use crate::raw::keep_alive;
use crate::wire::{self, Packet};

/// Packets that wait for one peer. More are dropped.
const WAITING_MAX: usize = 4_096;
/// Packets that are written at once.
const TOGETHER_MAX: usize = 64;
/// Connections of other processes at once, for each server of the deployment.
const GUESTS_MAX: usize = 256;
const CONNECT_MAX: Duration = Duration::from_secs(2);
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// A peer that takes nothing for so long is given up.
const WRITE_MAX: Duration = Duration::from_secs(5);
/// A sender that has nothing to say says that it lives; a receiver that hears nothing for longer ends the connection.
const BEAT: Duration = Duration::from_secs(2);
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Pauses between attempts to dial.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 << 10;

/// A connection whose other side has proved itself.
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        stream.set_read_timeout(Some(HANDSHAKE_MAX))?;
        stream.set_write_timeout(Some(WRITE_MAX))?;
        Ok(Connection { stream, received: Vec::new() })
    }

    /// The next frame. It waits as long as the socket's time-out says.
    ///
    /// # Errors
    /// The bytes are no frame, or the socket's.
    pub fn frame(&mut self) -> Result<(Kind, Vec<u8>), Fault> {
        loop {
            if let Some(((kind, body), taken)) = frame::first(&self.received)? {
                let found = (kind, body.to_vec());
                self.received.drain(..taken);
                return Ok(found);
            }
            let length = self.received.len();
            self.received.resize(length + READ_BYTES, 0);
            let read = self.stream.read(&mut self.received[length..]);
            self.received.truncate(length + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(Fault::Io("the other side has closed the connection".into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// # Errors
    /// The socket's.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// A handle to the same socket, for another thread.
    ///
    /// # Errors
    /// The system's.
    pub fn socket(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// How long a read may wait. None: reads and writes wait for ever; the system finds out that the other side is gone.
    ///
    /// # Errors
    /// The system's.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        if patience.is_none() {
            self.stream.set_write_timeout(None)?;
        }
        self.stream.set_read_timeout(patience)
    }
}

/// The server of this process, and the addresses of the other agents.
#[derive(Clone, Debug)]
pub struct Identity {
    pub server: ServerId,
    /// On which both sides of a connection have to agree.
    pub terms: Terms,
    pub addresses: BTreeMap<ServerId, SocketAddr>,
}

impl Identity {
    /// Dials another process, and proves itself.
    ///
    /// # Errors
    /// It is not there, or the two do not agree.
    pub fn dial(&self, to: ServerId, from: Sender) -> Result<Connection, Fault> {
        let address = self.addresses.get(&to).ok_or_else(|| Fault::sense("there is no such server"))?;
        let mut connection = Connection::new(TcpStream::connect_timeout(address, CONNECT_MAX)?)?;
        let mut said = Vec::new();
        let ends = (self.terms.clone(), Arc::default());
        let dialer = Dialer::begin(ends, from, to, nonce()?, &mut said);
        connection.write(&said)?;
        said.clear();
        let (kind, body) = connection.frame()?;
        dialer.on_frame(kind, &body, &mut said)?;
        connection.write(&said)?;
        Ok(connection)
    }

    /// The other side of a connection that was accepted, once it has proved itself.
    fn welcome(&self, stream: TcpStream) -> Result<(Connection, Sender), Fault> {
        let mut connection = Connection::new(stream)?;
        let mut listener = Listener::new((self.terms.clone(), Arc::default()), nonce()?);
        loop {
            let (kind, body) = connection.frame()?;
            let mut said = Vec::new();
            let agreed = listener.on_frame(kind, &body, &mut said);
            connection.write(&said)?;
            match agreed {
                Ok(Some(agreed)) if agreed.to == self.server => return Ok((connection, agreed.from)),
                Ok(Some(_)) => return Err(Fault::sense("it asks for another server's agent")),
                Ok(None) => {}
                Err(fault) => {
                    let why = fault.to_string();
                    let mut said = Vec::new();
                    frame::push(&mut said, Kind::Goodbye, |out| out.extend(why.bytes()))?;
                    connection.write(&said)?;
                    return Err(fault);
                }
            }
        }
    }
}

fn nonce() -> Result<Nonce, Fault> {
    weir_net::link::nonce()
}

/// Takes arrivals at the sockets of a process.
pub trait Arrivals: Clone + Send + Sync + 'static {
    /// A packet of the agent of that server.
    fn packet(&self, from: ServerId, packet: Packet);
    /// A connection that relays a session. The call returns when that is over.
    fn session(&self, connection: Connection);
}

/// The sockets of a process. Dropping them closes them.
pub struct Sockets {
    outboxes: BTreeMap<ServerId, SyncSender<Packet>>,
    shared: Arc<Shared>,
    address: SocketAddr,
    accepts: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Sockets of connections that were accepted, by number.
    guests: Mutex<BTreeMap<usize, TcpStream>>,
    next_guest: AtomicUsize,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn guests(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, TcpStream>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sockets {
    /// Listens, and dials the others when there is something to send.
    ///
    /// # Errors
    /// The own address cannot be listened on, or the system has no threads.
    pub fn start(identity: &Identity, arrivals: impl Arrivals) -> io::Result<Sockets> {
        let own = identity.addresses.get(&identity.server).copied();
        let own = own.ok_or_else(|| io::Error::other("the agent has no address"))?;
        let listener = TcpListener::bind(own)?;
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let mut outboxes = BTreeMap::new();
        for to in identity.addresses.keys().copied().filter(|to| *to != identity.server) {
            let (sender, packets) = sync_channel(WAITING_MAX);
            outboxes.insert(to, sender);
            let (identity, shared) = (identity.clone(), shared.clone());
            let name = format!("to-agent-{to}");
            std::thread::Builder::new().name(name).spawn(move || send(&identity, to, &packets, &shared))?;
        }
        let (accepting, at) = (identity.clone(), shared.clone());
        let accepts = std::thread::Builder::new()
            .name("agents-accept".to_owned())
            .spawn(move || accept(&listener, &accepting, &at, &arrivals))?;
        Ok(Sockets { outboxes, shared, address, accepts: Some(accepts) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle by which threads send.
    pub fn outboxes(&self) -> Outboxes {
        Outboxes(self.outboxes.clone())
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.outboxes.clear();
        // The thread that accepts looks up.
        drop(TcpStream::connect_timeout(&self.address, CONNECT_MAX));
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
        for guest in self.shared.guests().values() {
            let _ = guest.shutdown(Shutdown::Both);
        }
    }
}

/// Sends packets to other processes, from any thread.
#[derive(Clone)]
pub struct Outboxes(BTreeMap<ServerId, SyncSender<Packet>>);

impl Outboxes {
    /// Sends the packet, or drops it.
    pub fn send(&self, to: ServerId, packet: Packet) {
        let Some(outbox) = self.0.get(&to) else { return };
        if let Err(TrySendError::Full(_)) = outbox.try_send(packet) {
            tracing::debug!(server = to, "a packet is dropped: too many wait for that agent");
        }
    }
}

/// Sends what comes over the channel until that ends.
fn send(identity: &Identity, to: ServerId, packets: &Receiver<Packet>, shared: &Shared) {
    let mut connection: Option<Connection> = None;
    let (mut pause, mut retry_at) = (FIRST_PAUSE, Instant::now());
    let mut said = String::new();
    loop {
        let first = match packets.recv_timeout(BEAT) {
            Ok(packet) => Some(packet),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if shared.is_over() {
            return;
        }
        let bytes = together(first, packets);
        if connection.is_none() && Instant::now() >= retry_at {
            match identity.dial(to, Sender::Shard(identity.server)) {
                Ok(dialled) => {
                    (connection, pause) = (Some(dialled), FIRST_PAUSE);
                    tracing::info!(server = to, "connected to the agent");
                    said.clear();
                }
                Err(fault) => {
                    (retry_at, pause) = (Instant::now() + pause, (pause * 2).min(LONGEST_PAUSE));
                    let why = fault.to_string();
                    if why != said {
                        tracing::warn!(server = to, "the agent cannot be reached: {why}");
                        said = why;
                    }
                }
            }
        }
        if let Some(open) = &mut connection
            && let Err(error) = open.write(&bytes)
        {
            tracing::info!(server = to, "the connection to the agent is lost: {error}");
            connection = None;
        }
    }
}

/// A packet with those that wait behind it, as frames; an empty frame if there is none.
fn together(first: Option<Packet>, packets: &Receiver<Packet>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for packet in first.into_iter().chain(packets.try_iter().take(TOGETHER_MAX)) {
        if let Err(fault) = wire::push(&mut bytes, &packet) {
            tracing::warn!("a packet is dropped: {fault}");
        }
    }
    if bytes.is_empty() {
        // It fits: it is empty.
        let _ = frame::push(&mut bytes, Kind::Peer, |_| ());
    }
    bytes
}

fn accept(listener: &TcpListener, identity: &Identity, shared: &Arc<Shared>, arrivals: &impl Arrivals) {
    for stream in listener.incoming() {
        if shared.is_over() {
            return;
        }
        let guest = stream.and_then(|stream| Ok((stream.try_clone()?, stream)));
        let (handle, stream) = match guest {
            Ok(guest) => guest,
            Err(error) => {
                tracing::warn!("a connection of an agent was not accepted: {error}");
                continue;
            }
        };
        let number = shared.next_guest.fetch_add(1, Ordering::Relaxed);
        {
            let mut guests = shared.guests();
            if guests.len() >= GUESTS_MAX * identity.addresses.len() {
                tracing::warn!("a connection of an agent was not accepted: there are too many");
                continue;
            }
            guests.insert(number, handle);
        }
        let (identity, of_guest, arrivals) = (identity.clone(), shared.clone(), arrivals.clone());
        let begun = std::thread::Builder::new().name("from-agent".to_owned()).spawn(move || {
            if let Err(fault) = receive(&identity, stream, &arrivals) {
                tracing::info!("a connection of an agent has ended: {fault}");
            }
            of_guest.guests().remove(&number);
        });
        if begun.is_err() {
            shared.guests().remove(&number);
        }
    }
}

/// Takes what comes over a connection until that ends.
fn receive(identity: &Identity, stream: TcpStream, arrivals: &impl Arrivals) -> Result<(), Fault> {
    let (mut connection, from) = identity.welcome(stream)?;
    let from = match from {
        Sender::Shard(server) => server,
        Sender::Coordinator(_) => {
            arrivals.session(connection);
            return Ok(());
        }
    };
    connection.set_patience(Some(SILENCE_MAX))?;
    loop {
        let (kind, body) = connection.frame()?;
        frame::expect(Kind::Peer, kind, &body)?;
        if !body.is_empty() {
            arrivals.packet(from, wire::read(&body)?);
        }
    }
}
