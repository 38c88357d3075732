//! The thread that accepts connections: it shakes hands and shows everyone to the shard that they want.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use tracing::{debug, warn};
use weir_core::history::Seen;
use weir_core::ids::{Sender, ShardId};
use weir_net::handshake::{Agreed, Listener, Terms};
use weir_net::link::nonce;
use weir_net::tls::Tls;
use weir_net::{ClusterFile, Connection, Fault, Kind, body, frame};
use weir_types::SqlError;
use weir_types::interrupt::{Interrupts, StatementId};

use super::Outgoing;
use super::group::{GroupPlace, MemberArrival};
use super::shard_loop::{Arrival, Inbox, led_from};

/// A handshake that takes longer is given up.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Largest number of concurrent handshakes; beyond it the oldest is closed.
const HANDSHAKES_MAX: usize = 1_024;

/// Largest number of buffered bytes of an incomplete frame in a handshake, which is not authenticated yet.
const HANDSHAKE_BYTES_MAX: usize = 4 << 10;
/// Interval of the search for handshakes that have timed out.
const TICK: Duration = Duration::from_millis(500);
/// Pause before the next attempt after a failed accept.
const RESPITE: Duration = Duration::from_millis(50);

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

pub(super) struct Acceptor {
    cluster: ClusterFile,
    terms: Terms,
    listener: TcpListener,
    tls: Option<Tls>,
    /// This node's shards.
    places: BTreeMap<ShardId, Place>,
    /// Description of the cluster's application, for clients that have only the cluster file.
    description: Arc<Outgoing>,
    house: House,
    poll: Poll,
    /// Unfinished handshakes by token, in order of arrival.
    guests: BTreeMap<usize, Guest>,
    next: usize,
    /// A pending connection could not be accepted; no event will announce it again.
    is_behind: bool,
}

/// Where a shard of this node is.
pub(super) enum Place {
    /// Here.
    Alone(Arc<Inbox>),
    /// Here, if this node leads its group.
    Group(Arc<GroupPlace>),
}

impl Place {
    /// None: this node does not lead.
    fn inbox(&self) -> Option<Arc<Inbox>> {
        match self {
            Place::Alone(inbox) => Some(inbox.clone()),
            Place::Group(group) => group.inbox(),
        }
    }

    fn interrupts(&self) -> Option<Arc<Interrupts>> {
        match self {
            Place::Alone(_) => None,
            Place::Group(group) => group.interrupts(),
        }
    }
}

/// The acceptor's view of its node.
pub(super) struct House {
    pub seen: Arc<Seen>,
    /// Interrupts for running statements of its shards.
    pub interrupts: Vec<Arc<Interrupts>>,
    /// Other nodes have confirmed that its data is the newest.
    pub is_open: Arc<AtomicBool>,
}

struct Guest {
    connection: Box<Connection>,
    address: SocketAddr,
    handshake: Listener,
    until: Instant,
    /// It has all that it wanted, once that is sent.
    is_told: bool,
    /// It says which statements are to end.
    interrupts: bool,
}

impl Acceptor {
    /// # Errors
    /// The system's.
    pub(super) fn new(
        cluster: ClusterFile,
        terms: Terms,
        mut listener: TcpListener,
        tls: Option<Tls>,
        places: BTreeMap<ShardId, Place>,
        description: Arc<Outgoing>,
        house: House,
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
            places,
            description,
            house,
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
            let timeouts =
                if self.is_behind { Some(RESPITE) } else { (!self.guests.is_empty()).then_some(TICK) };
            if let Err(error) = self.poll.poll(&mut events, timeouts)
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
                // The peer gets no message: it may have been late because this machine paused, and should try again.
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
                    // Probably out of descriptors: the connection is accepted when some are free.
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
        let handshake = Listener::new((self.terms.clone(), self.house.seen.clone()), nonce()?);
        let until = Instant::now() + HANDSHAKE_MAX;
        let guest = Guest { connection, address, handshake, until, is_told: false, interrupts: false };
        self.guests.insert(token, guest);
        Ok(())
    }

    fn attend(&mut self, token: usize) {
        let is_outdated = self.is_outdated();
        let Some(guest) = self.guests.get_mut(&token) else { return };
        if guest.interrupts && !guest.is_told {
            let led = self.places.values().filter_map(Place::interrupts);
            let all: Vec<Arc<Interrupts>> = self.house.interrupts.iter().cloned().chain(led).collect();
            if let Err(fault) = interrupt(guest, &all) {
                self.dismiss(token, &fault);
            }
            return;
        }
        match advance(guest) {
            Ok(None) => {}
            Ok(Some(agreed)) if agreed.interrupts => {
                guest.interrupts = true;
                self.attend(token);
            }
            Ok(Some(agreed)) if agreed.wants_description && !self.house.is_open.load(Ordering::Acquire) => {
                self.dismiss(token, &Fault::Io("the node has not begun to serve".into()));
            }
            Ok(Some(agreed)) if agreed.wants_description && is_outdated => {
                self.send_on(token, agreed.to);
            }
            Ok(Some(agreed)) if agreed.replicates => self.introduce(token, agreed.to),
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
                let Some(place) = self.places.get(&agreed.to) else {
                    let nodes = self.cluster.holders(agreed.to);
                    let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
                    let at = addresses.join(", ");
                    let why = format!("shard {} is at {at}, says this node's cluster file", agreed.to);
                    return self.dismiss(token, &Fault::sense(why));
                };
                let Some(inbox) = place.inbox() else { return self.send_on(token, agreed.to) };
                let Guest { mut connection, address, .. } = self.guests.remove(&token).expect("it is here");
                if let Err(error) = connection.deregister(self.poll.registry()) {
                    return warn!(%address, %error, "a connection cannot be handed over");
                }
                inbox.send(Arrival::Visitor { connection, from: agreed.from, address });
            }
            Err(fault) => {
                let guest = guest.handshake.guest();
                self.dismiss(token, &fault);
                // Another node knows better than this one; a client is only refused.
                if let (Fault::Outdated(why), Some((Sender::Shard(_), to))) = (fault, guest)
                    && let Some(inbox) = self.places.get(&to).and_then(Place::inbox)
                {
                    inbox.send(Arrival::Outdated(why));
                }
            }
        }
    }

    /// Returns whether this node may lack the newest definitions: it leads none of its groups, and has no other shards.
    fn is_outdated(&self) -> bool {
        self.places.values().all(|place| place.inbox().is_none())
    }

    /// Another member of that group wants to speak with this node's.
    fn introduce(&mut self, token: usize, shard: ShardId) {
        let Some(Place::Group(group)) = self.places.get(&shard) else {
            let why = format!("shard {shard} has no replica group here, says this node's cluster file");
            return self.dismiss(token, &Fault::sense(why));
        };
        let member = group.member.clone();
        let Some(Guest { mut connection, address, .. }) = self.guests.remove(&token) else { return };
        match connection.deregister(self.poll.registry()) {
            Ok(()) => member.send(MemberArrival::Visitor { connection, address }),
            Err(error) => warn!(%address, %error, "a connection cannot be handed over"),
        }
    }

    /// Names the node that leads the shard's group to who has come to this one.
    fn send_on(&mut self, token: usize, shard: ShardId) {
        let leader = match self.places.get(&shard) {
            Some(Place::Group(group)) => group.state().leader,
            Some(Place::Alone(_)) | None => None,
        };
        if let Some(guest) = self.guests.get_mut(&token) {
            guest.connection.say_farewell(&led_from(leader.as_deref()));
        }
        self.dismiss(token, &Fault::Farewell("this node does not lead the shard's group".into()));
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

/// Interrupts the named statements directly, since their shards may be busy with them, and acknowledges.
fn interrupt(guest: &mut Guest, all: &[Arc<Interrupts>]) -> Result<(), Fault> {
    guest.connection.fill()?;
    let Some((kind, mut body)) = guest.connection.next_frame()? else { return Ok(()) };
    frame::expect(Kind::Interrupt, kind, body)?;
    while !body.is_empty() {
        let (statement, error): (StatementId, SqlError) = body::read(kind, &mut body)?;
        debug!(?statement, address = %guest.address, "a statement is to end");
        all.iter().for_each(|one| one.interrupt(statement, error.clone()));
    }
    guest.is_told = true;
    frame::push(guest.connection.outgoing(), Kind::Interrupt, |_| ())?;
    guest.connection.flush()
}

fn advance(guest: &mut Guest) -> Result<Option<Agreed>, Fault> {
    guest.connection.fill()?;
    if guest.is_told {
        if let Some((kind, _)) = guest.connection.next_frame()? {
            return Err(Fault::sense(format_args!("a {kind:?} frame after all was said")));
        }
        guest.connection.flush()?;
        return Ok(None);
    }
    let mut said = Vec::new();
    let mut agreed = None;
    // Bytes after the handshake are the shard's.
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
