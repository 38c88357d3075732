//! The thread that accepts connections: it shakes hands and shows everyone to the shard that they want.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use tracing::{debug, warn};
use weir_net::handshake::{Agreed, Listener, Terms};
use weir_net::link::nonce;
use weir_net::tls::Tls;
use weir_net::{ClusterFile, Connection, Fault, frame};
use weir_txn::ramp::ShardId;

use super::Told;
use super::shard_loop::{Arrival, Inbox};

/// A handshake that takes longer is given up.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// So many at once; beyond, the oldest is given up.
const HANDSHAKES_MAX: usize = 1_024;

/// What has come of a handshake and is no frame yet; nobody has proved anything so far.
const HANDSHAKE_BYTES_MAX: usize = 4 << 10;
/// How often it is looked whether somebody has run out of time.
const TICK: Duration = Duration::from_millis(500);
/// Whoever could not be accepted is tried again after so long.
const RESPITE: Duration = Duration::from_millis(50);

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

pub(super) struct Acceptor {
    cluster: ClusterFile,
    terms: Terms,
    listener: TcpListener,
    tls: Option<Tls>,
    /// Of the shards of this node.
    inboxes: BTreeMap<ShardId, Arc<Inbox>>,
    /// What the cluster carries, for clients that know nothing but the cluster file.
    description: Arc<Told>,
    poll: Poll,
    /// By token: who has not said enough yet, in the order in which they came.
    guests: BTreeMap<usize, Guest>,
    next: usize,
    /// Somebody waits who could not be accepted. No event will say so again.
    is_behind: bool,
}

struct Guest {
    connection: Box<Connection>,
    address: SocketAddr,
    handshake: Listener,
    until: Instant,
    /// It has all that it wanted, once that is sent.
    is_told: bool,
}

impl Acceptor {
    /// # Errors
    /// The system's.
    pub(super) fn new(
        cluster: ClusterFile,
        terms: Terms,
        mut listener: TcpListener,
        tls: Option<Tls>,
        inboxes: BTreeMap<ShardId, Arc<Inbox>>,
        description: Arc<Told>,
    ) -> io::Result<(Acceptor, Waker)> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let next = WAKER.0 + 1;
        let guests = BTreeMap::new();
        let acceptor = Acceptor {
            cluster,
            terms,
            listener,
            tls,
            inboxes,
            description,
            poll,
            guests,
            next,
            is_behind: false,
        };
        Ok((acceptor, waker))
    }

    /// Runs until it is woken.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        loop {
            let patience =
                if self.is_behind { Some(RESPITE) } else { (!self.guests.is_empty()).then_some(TICK) };
            if let Err(error) = self.poll.poll(&mut events, patience)
                && error.kind() != io::ErrorKind::Interrupted
            {
                panic!("the system gives no events: {error}");
            }
            for event in &events {
                match event.token() {
                    WAKER => return,
                    LISTENER => self.accept(),
                    Token(token) => {
                        if let Some(guest) = self.guests.get_mut(&token) {
                            guest.connection.on_event(event);
                            self.attend(token);
                        }
                    }
                }
            }
            if self.is_behind {
                self.accept();
            }
            let now = Instant::now();
            while let Some((token, guest)) = self.guests.first_key_value()
                && (guest.until <= now || self.guests.len() > HANDSHAKES_MAX)
            {
                let token = *token;
                // It is not told: to be late, as after a pause of this machine, is no reason never to come back.
                self.dismiss(token, &Fault::Io("no handshake in time".into()));
            }
        }
    }

    fn accept(&mut self) {
        self.is_behind = false;
        loop {
            let (stream, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // No more descriptors, most likely: whoever waits is accepted when some are free.
                    debug!(%error, "a connection cannot be accepted");
                    self.is_behind = true;
                    return;
                }
            };
            let token = self.next;
            self.next += 1;
            if let Err(fault) = self.receive(stream, address, token) {
                warn!(%address, reason = %fault, "a connection cannot be accepted");
                continue;
            }
            self.attend(token);
        }
    }

    fn receive(
        &mut self,
        stream: mio::net::TcpStream,
        address: SocketAddr,
        token: usize,
    ) -> Result<(), Fault> {
        let tls = self.tls.as_ref().map(Tls::accept).transpose().map_err(Fault::Io)?;
        let mut connection = Box::new(Connection::accepted(stream, tls));
        connection.register(self.poll.registry(), Token(token))?;
        let handshake = Listener::new(self.terms.clone(), nonce()?);
        let until = Instant::now() + HANDSHAKE_MAX;
        let guest = Guest { connection, address, handshake, until, is_told: false };
        self.guests.insert(token, guest);
        Ok(())
    }

    fn attend(&mut self, token: usize) {
        let Some(guest) = self.guests.get_mut(&token) else { return };
        match advance(guest) {
            Ok(None) => {}
            Ok(Some(agreed)) if agreed.wants_description => {
                let told = match self.description.get() {
                    Some(description) => frame::push_parts(guest.connection.outgoing(), &description),
                    None => Err(Fault::sense("this node carries items: there is nothing to describe")),
                };
                guest.is_told = true;
                if let Err(fault) = told.and_then(|()| guest.connection.flush()) {
                    self.dismiss(token, &fault);
                }
            }
            Ok(Some(agreed)) => {
                let Some(inbox) = self.inboxes.get(&agreed.to) else {
                    let node = self.cluster.holder(agreed.to);
                    let why =
                        format!("shard {} is at {}, says this node's cluster file", agreed.to, node.address);
                    return self.dismiss(token, &Fault::sense(why));
                };
                let Guest { mut connection, address, .. } = self.guests.remove(&token).expect("it is here");
                if let Err(error) = connection.deregister(self.poll.registry()) {
                    return warn!(%address, %error, "a connection cannot be handed over");
                }
                inbox.send(Arrival::Visitor { connection, from: agreed.from, address });
            }
            Err(fault) => self.dismiss(token, &fault),
        }
    }

    fn dismiss(&mut self, token: usize, fault: &Fault) {
        let Some(mut guest) = self.guests.remove(&token) else { return };
        if fault.is_ours() {
            warn!(address = %guest.address, reason = %fault, "connection refused");
        } else {
            debug!(address = %guest.address, reason = %fault, "connection ended");
        }
        guest.connection.say_goodbye(fault);
        // It is closed either way.
        let _ = guest.connection.deregister(self.poll.registry());
    }
}

fn advance(guest: &mut Guest) -> Result<Option<Agreed>, Fault> {
    guest.connection.fill()?;
    if guest.is_told {
        if let Some((kind, _)) = guest.connection.next_frame()? {
            return Err(Fault::sense(format_args!("a {kind:?} frame after the description")));
        }
        guest.connection.flush()?;
        return Ok(None);
    }
    let mut said = Vec::new();
    let mut agreed = None;
    // What comes after the handshake is the shard's.
    while agreed.is_none()
        && let Some((kind, body)) = guest.connection.next_frame()?
    {
        agreed = guest.handshake.on_frame(kind, body, &mut said)?;
    }
    if agreed.is_none() && guest.connection.untaken() > HANDSHAKE_BYTES_MAX {
        return Err(Fault::sense("more than a handshake needs"));
    }
    if let Some(agreed) = agreed {
        guest.connection.set_version(agreed.version);
    }
    guest.connection.outgoing().append(&mut said);
    guest.connection.flush()?;
    Ok(agreed)
}
