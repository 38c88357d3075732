//! The thread of one shard: an event loop over everyone who speaks with it (docs/internals/network.md, "A turn of a shard").
//!
//! Adds sockets, a log and the wall clock to the state machine. It decides nothing that the machine could decide.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::{debug, info, warn};
use weir_core::history::{Mark, Seen};
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::{Exposed, Figures};
use weir_net::connection::UNSENT_BYTES_MAX;
use weir_net::frame::{self, expect};
use weir_net::handshake::{COMPARES_FROM, Terms};
use weir_net::link::LED_FROM;
use weir_net::{Connection, Fault, Kind, Link, body};

use super::Outgoing;
use super::counter::{Core, Counter};
use super::group::log::GroupLog;
use super::log::{Log, LogError, LogFigures};
use super::outbox::{Leaving, Outbox};
use super::permits::Permits;
use super::shard_log::ShardLog;
use super::take::{Taken, take};
use super::writer::Writer;
use crate::embedded::now_ms;

/// Interval of the shard's timer.
const TICK: Duration = Duration::from_millis(50);
/// A shard that ends waits so long for its disk, to answer what it has done.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);
/// Interval within which other nodes are informed of the durable position.
const WORD: Duration = Duration::from_secs(1);
/// Largest number of messages waiting for an unreachable shard; questions among them are repeated anyway.
const WAITING_FOR_PEER_MAX: usize = 4_096;

const WAKER: Token = Token(0);

/// Queue from other threads of the node to the shard's thread.
pub(super) struct Inbox {
    arrivals: Mutex<Vec<Arrival>>,
    waker: Waker,
}

pub(super) enum Arrival {
    /// A peer that has completed the handshake.
    Visitor {
        connection: Box<Connection>,
        from: Sender,
        address: SocketAddr,
    },
    /// A request for the shard's figures.
    Question(mpsc::Sender<Figures>),
    /// Another node has seen newer data of the shard; with the reason.
    Outdated(String),
    /// This node leads the shard's group no longer; with the address of the one that does, if it is known.
    Deposed(Option<String>),
    Stop,
}

/// Where the records of a shard go.
pub(super) enum Records<R> {
    /// Nowhere: all data is lost when the process ends.
    Nowhere,
    Log(Box<Log>),
    Group(GroupLog<R>),
}

impl Inbox {
    pub(super) fn send(&self, arrival: Arrival) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(arrival);
        self.wake();
    }

    pub(super) fn wake(&self) {
        // A poll that cannot be woken comes back at the next tick.
        let _ = self.waker.wake();
    }

    fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connected peer of the shard.
struct Visitor<Reply> {
    connection: Box<Connection>,
    from: Sender,
    address: SocketAddr,
    /// Replies of this turn, and earlier ones for which there was no room.
    replies: Vec<Reply>,
    wants_export: bool,
    /// It is in the list of those who may have something to say.
    is_ready: bool,
}

impl<Reply> Visitor<Reply> {
    /// Returns whether more requests may be read: the peer has taken its replies.
    fn is_readable(&self) -> bool {
        self.replies.is_empty() && self.connection.is_readable()
    }
}

pub(super) struct ShardLoop<S: Exposed> {
    counter: Arc<Counter<S>>,
    id: ShardId,
    shards: ShardId,
    /// Outgoing description, with the terms of its handshakes.
    told: (Arc<Outgoing>, Terms),
    poll: Poll,
    inbox: Arc<Inbox>,
    /// By token, from `visitors_from` on.
    visitors: Vec<Option<Visitor<S::Reply>>>,
    free: Vec<usize>,
    visitors_from: usize,
    by_coordinator: FxHashMap<CoordinatorId, usize>,
    ready: Vec<usize>,
    /// By shard; none to itself.
    links: Vec<Option<Link>>,
    to_peers: Vec<Vec<S::Request>>,
    /// Peers that wait for an export, once the state is durable.
    exports: Vec<usize>,
    /// Peers with replies in this turn.
    answered: Vec<usize>,
    /// Known histories of shards.
    seen: Arc<Seen>,
    /// One shard of each other node, with the mark last reported to it.
    words: Vec<(ShardId, Option<Mark>)>,
    spoke: Instant,
    /// Another shard has seen newer data of this one; with the reason.
    outdated: Option<String>,
    /// Coordinators that went while something of theirs was prepared and not decided, and when.
    lost: Vec<(CoordinatorId, Instant)>,
}

impl<S> ShardLoop<S>
where
    S: Exposed,
    S::Request: Serialize + DeserializeOwned,
    S::Reply: Serialize,
    S::Progress: DeserializeOwned,
    S::Record: Serialize + Send + 'static,
{
    /// `neighbours`: one shard of each other node; `link`: how to reach another shard.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new(
        shard: S,
        (shards, neighbours): (ShardId, Vec<ShardId>),
        records: Records<S::Record>,
        told: (Arc<Outgoing>, Terms),
        (seen, permits): (Arc<Seen>, Arc<Permits>),
        link: impl Fn(ShardId, Token) -> Link,
    ) -> io::Result<ShardLoop<S>> {
        let poll = Poll::new()?;
        let inbox =
            Arc::new(Inbox { arrivals: Mutex::default(), waker: Waker::new(poll.registry(), WAKER)? });
        let place: Arc<OnceLock<Weak<Counter<S>>>> = Arc::default();
        let writer = match records {
            Records::Nowhere => None,
            Records::Group(log) => Some(ShardLog::Group(log)),
            Records::Log(log) => {
                let (inbox, place) = (inbox.clone(), place.clone());
                // Messages that may leave then leave without waking another thread.
                let tell = move || match place.get().and_then(Weak::upgrade) {
                    Some(counter) => counter.on_written(),
                    None => inbox.wake(),
                };
                let name = format!("log-{}", shard.id());
                Some(ShardLog::Disk(Writer::start(name, (*log, S::REFUSES_WHEN_FULL), tell)?))
            }
        };
        let link_to =
            |other: ShardId| (other != shard.id()).then(|| link(other, Token(1 + usize::from(other))));
        let (id, links) = (shard.id(), (0..shards).map(link_to).collect());
        let outbox = Outbox::new(writer, shards == 1, seen.clone());
        let counter = Arc::new_cyclic(|own| {
            Counter::new(shard, outbox, inbox.clone(), (seen.clone(), permits), own.clone())
        });
        place.get_or_init(|| Arc::downgrade(&counter));
        Ok(ShardLoop {
            links,
            counter,
            id,
            shards,
            told,
            poll,
            inbox,
            visitors: Vec::new(),
            free: Vec::new(),
            visitors_from: 1 + usize::from(shards),
            by_coordinator: FxHashMap::default(),
            ready: Vec::new(),
            to_peers: (0..shards).map(|_| Vec::new()).collect(),
            exports: Vec::new(),
            answered: Vec::new(),
            seen,
            words: neighbours.into_iter().map(|shard| (shard, None)).collect(),
            spoke: Instant::now(),
            outdated: None,
            lost: Vec::new(),
        })
    }

    pub(super) fn inbox(&self) -> Arc<Inbox> {
        self.inbox.clone()
    }

    pub(super) fn log_figures(&self) -> Option<Arc<LogFigures>> {
        self.counter.actor.lock().outbox.log_figures()
    }

    /// The connection of coordinators of this process to the shard.
    pub(super) fn counter(&self) -> Arc<Counter<S>> {
        self.counter.clone()
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// The disk's: the shard must not answer from what it cannot write down. Or another shard has seen newer data of this one.
    pub(super) fn run(mut self) -> Result<(), LogError> {
        let mut events = Events::with_capacity(1024);
        let mut ticked = Instant::now();
        let counter = self.counter.clone();
        let mut wants_snapshot = false;
        let mut stops: Option<Instant> = None;
        loop {
            let has_more = !self.ready.is_empty() || !self.answered.is_empty() || wants_snapshot;
            let timeouts = if has_more { Duration::ZERO } else { TICK.saturating_sub(ticked.elapsed()) };
            if let Err(error) = self.poll.poll(&mut events, Some(timeouts))
                && error.kind() != io::ErrorKind::Interrupted
            {
                panic!("the system gives no events: {error}");
            }
            let now = Instant::now();
            let mut core = counter.actor.lock();
            core.serve(counter.actor.take());
            for event in &events {
                self.on_event(&mut core, event, now);
            }
            for arrival in self.inbox.take() {
                match arrival {
                    Arrival::Stop => stops = stops.or(Some(now)),
                    Arrival::Visitor { connection, from, address } => {
                        self.welcome(&mut core, connection, from, address)
                    }
                    // The asking thread may have gone.
                    Arrival::Question(answer) => drop(answer.send(core.shard.figures())),
                    Arrival::Outdated(why) => self.outdated = Some(why),
                    Arrival::Deposed(leader) => {
                        self.say_farewell(&led_from(leader.as_deref()));
                        return core.finish();
                    }
                }
            }
            if let Some(why) = self.outdated.take() {
                core.finish()?;
                return Err(LogError::Outdated(why));
            }
            self.deliver(&mut core);
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                let Core { shard, outbox, .. } = &mut *core;
                outbox.on_timer(shard, now_ms());
                self.look_for_lost(shard, now);
                self.say_a_word(now);
            }
            let told = core.end_turn();
            if let Some(error) = core.failed.take() {
                return Err(error);
            }
            self.sort(&mut core);
            self.send(&mut core, now);
            let Core { shard, outbox, .. } = &mut *core;
            outbox.go_on_with_snapshot(shard);
            wants_snapshot = outbox.wants_snapshot();
            if let Some(since) = stops {
                // Work that it has done until then is answered.
                let is_answered = outbox.is_durable() && self.answered.is_empty() && !shard.has_work();
                if is_answered || since.elapsed() >= LAST_WORDS_MAX {
                    self.say_farewell("the node was told to end");
                    return core.finish();
                }
            }
            let work = core.release();
            drop(core);
            counter.start(work);
            told.tell();
            counter.go_on();
        }
    }

    /// Tells connected peers that the shard ends here for a while, so that they wait for its return, or find it elsewhere.
    fn say_farewell(&mut self, why: &str) {
        let links = self.links.iter_mut().flatten().filter_map(Link::open);
        let visitors = self.visitors.iter_mut().flatten().map(|visitor| &mut *visitor.connection);
        visitors.chain(links).for_each(|connection| connection.say_farewell(why));
    }

    fn on_event(&mut self, core: &mut Core<S>, event: &mio::event::Event, now: Instant) {
        let Token(token) = event.token();
        if token == 0 {
            return;
        }
        if token < self.visitors_from {
            let Some(link) = &mut self.links[token - 1] else { return };
            link.on_event(event);
            link.advance(now, self.poll.registry());
            // Shards answer over links of their own; here only the end comes.
            let said = link.open().map_or(Ok(()), |open| {
                let said = open.next_frame().and_then(|frame| match frame {
                    Some((kind, body)) => expect(Kind::Goodbye, kind, body),
                    None => Ok(()),
                });
                said.and_then(|()| open.flush())
            });
            if let Err(fault) = said {
                link.fail(fault, now, self.poll.registry());
            }
            if let Some(Fault::Outdated(why)) = link.fault() {
                self.outdated = Some(why.clone());
            }
            return tell_news(self.id, (token - 1) as ShardId, link);
        }
        let slot = token - self.visitors_from;
        let Some(Some(visitor)) = self.visitors.get_mut(slot) else { return };
        visitor.connection.on_event(event);
        if let Err(fault) = visitor.connection.flush() {
            return self.dismiss(core, slot, &fault);
        }
        if !visitor.replies.is_empty() {
            self.answered.push(slot);
        } else if !visitor.is_ready {
            visitor.is_ready = true;
            self.ready.push(slot);
        }
    }

    /// Tells a shard of each other node how far this one is durable, if that is news to it.
    fn say_a_word(&mut self, now: Instant) {
        let told = self.seen.told(self.id);
        if told.is_none() || now.duration_since(self.spoke) < WORD {
            return;
        }
        self.spoke = now;
        for (shard, before) in &mut self.words {
            let Some(link) = self.links[usize::from(*shard)].as_mut().filter(|_| *before != told) else {
                continue;
            };
            link.on_time(now, self.poll.registry());
            let Some(open) = link.open().filter(|open| open.version() >= COMPARES_FROM) else { continue };
            let pushed = body::push_frames::<S::Request>(open.outgoing(), Kind::Peer, &told, &[], usize::MAX);
            match pushed.map_err(|(_, fault)| fault).and_then(|_| open.flush()) {
                Ok(()) => *before = told,
                Err(fault) => link.fail(fault, now, self.poll.registry()),
            }
        }
    }

    fn welcome(
        &mut self,
        core: &mut Core<S>,
        mut connection: Box<Connection>,
        from: Sender,
        address: SocketAddr,
    ) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.visitors.push(None);
            self.visitors.len() - 1
        });
        if let Err(error) = connection.register(self.poll.registry(), Token(self.visitors_from + slot)) {
            warn!(%address, %error, "a connection cannot be watched");
            return self.free.push(slot);
        }
        if let Sender::Coordinator(coordinator) = from
            && let Some(old) = self.by_coordinator.insert(coordinator, slot)
        {
            self.dismiss(core, old, &Fault::sense("the same coordinator has connected anew"));
        }
        debug!(shard = self.id, %address, ?from, "connected");
        self.visitors[slot] = Some(Visitor {
            connection,
            from,
            address,
            replies: Vec::new(),
            wants_export: false,
            is_ready: true,
        });
        self.ready.push(slot);
    }

    fn dismiss(&mut self, core: &mut Core<S>, slot: usize, fault: &Fault) {
        let Some(mut visitor) = self.visitors[slot].take() else { return };
        if let Sender::Coordinator(coordinator) = visitor.from
            && self.by_coordinator.get(&coordinator) == Some(&slot)
        {
            self.by_coordinator.remove(&coordinator);
            if core.shard.undecided().any(|of| of == coordinator) {
                self.lost.push((coordinator, Instant::now()));
            }
        }
        if fault.is_ours() {
            warn!(shard = self.id, address = %visitor.address, reason = %fault, "connection closed");
        } else {
            debug!(shard = self.id, address = %visitor.address, reason = %fault, "connection ended");
        }
        visitor.connection.say_goodbye(fault);
        // It is closed either way.
        let _ = visitor.connection.deregister(self.poll.registry());
        self.free.push(slot);
    }

    /// Says when nothing is undecided any more of those who went in the middle; who came back is none of them.
    fn look_for_lost(&mut self, shard: &S, now: Instant) {
        let ShardLoop { lost, by_coordinator, .. } = self;
        lost.retain(|(coordinator, _)| !by_coordinator.contains_key(coordinator));
        // They may have left a hundred thousand transactions, which are gone through once.
        let mut decided: BTreeSet<CoordinatorId> = lost.iter().map(|(coordinator, _)| *coordinator).collect();
        for coordinator in shard.undecided() {
            if decided.is_empty() {
                break;
            }
            decided.remove(&coordinator);
        }
        for (coordinator, since) in lost.extract_if(.., |(coordinator, _)| decided.contains(coordinator)) {
            let after_ms = now.duration_since(since).as_millis() as u64;
            info!(shard = shard.id(), coordinator, after_ms, "what a lost client had prepared is decided");
        }
    }

    /// Takes what has come from everyone who may have said something.
    fn deliver(&mut self, core: &mut Core<S>) {
        let now_ms = now_ms();
        for slot in std::mem::take(&mut self.ready) {
            let ShardLoop { visitors, shards, seen, .. } = self;
            let Some(visitor) = &mut visitors[slot] else { continue };
            visitor.is_ready = false;
            if !visitor.replies.is_empty() {
                // Further requests are read once this one has been answered.
                continue;
            }
            let heard = hear_one(core, visitor, now_ms, (*shards, seen));
            match heard {
                Ok(()) => {
                    let visitor = self.visitors[slot].as_mut().expect("nobody has dismissed it");
                    if visitor.wants_export {
                        self.exports.push(slot);
                    }
                    if visitor.is_readable() {
                        visitor.is_ready = true;
                        self.ready.push(slot);
                    }
                }
                Err(fault) => self.dismiss(core, slot, &fault),
            }
        }
    }

    /// Gives what may leave to whom it is for.
    fn sort(&mut self, core: &mut Core<S>) {
        let Leaving { replies, peers, description } = std::mem::take(&mut core.away);
        self.told.0.tell::<S>(description, &self.told.1);
        for (coordinator, reply) in replies {
            // A coordinator that is not connected asks again when it is.
            let Some(slot) = self.by_coordinator.get(&coordinator) else { continue };
            let Some(visitor) = &mut self.visitors[*slot] else { continue };
            if visitor.replies.is_empty() {
                self.answered.push(*slot);
            }
            visitor.replies.push(S::of_version(reply, visitor.connection.version()));
        }
        for (shard, request) in peers {
            let waiting = &mut self.to_peers[usize::from(shard)];
            if waiting.len() < WAITING_FOR_PEER_MAX {
                waiting.push(request);
            }
        }
        if core.outbox.is_durable() && core.outbox.may_tell() {
            self.answered.append(&mut self.exports);
        }
    }

    fn send(&mut self, core: &mut Core<S>, now: Instant) {
        for slot in std::mem::take(&mut self.answered) {
            let Some(visitor) = &mut self.visitors[slot] else { continue };
            if let Err(fault) = answer(&mut core.shard, visitor, self.seen.told(self.id)) {
                self.dismiss(core, slot, &fault);
            } else if !visitor.replies.is_empty() {
                // If the socket is full, it will say when it is not.
                if visitor.connection.unsent() < UNSENT_BYTES_MAX {
                    self.answered.push(slot);
                }
            } else if !visitor.is_ready && visitor.is_readable() {
                visitor.is_ready = true;
                self.ready.push(slot);
            }
        }
        let registry = self.poll.registry();
        for (other, (link, waiting)) in self.links.iter_mut().zip(&mut self.to_peers).enumerate() {
            let Some(link) = link else { continue };
            if waiting.is_empty() {
                continue;
            }
            link.on_time(now, registry);
            tell_news(self.id, other as ShardId, link);
            let Some(open) = link.open().filter(|open| !open.is_clogged()) else { continue };
            let version = open.version();
            // What it does not know would end the link.
            waiting.retain(|request| S::refused_by(request, version, other as ShardId).is_none());
            let pushed = match version >= COMPARES_FROM {
                true => {
                    let told = self.seen.told(self.id);
                    body::push_frames(open.outgoing(), Kind::Peer, &told, waiting, usize::MAX)
                }
                false => body::push_frames(open.outgoing(), Kind::Peer, &(), waiting, usize::MAX),
            };
            let sent = pushed.map_err(|(_, fault)| fault).and_then(|_| open.flush());
            waiting.clear();
            if let Err(fault) = sent {
                link.fail(fault, now, registry);
            }
        }
    }
}

/// What is said to who asks a member of a group that does not lead.
pub(super) fn led_from(leader: Option<&str>) -> String {
    match leader {
        Some(address) => format!("{LED_FROM}{address}"),
        None => "the group has no leader yet".to_owned(),
    }
}

/// A shard that cannot reach another says so, once for every new reason: what that one said, above all.
fn tell_news(shard: ShardId, other: ShardId, link: &mut Link) {
    let Some(fault) = link.news() else { return };
    let address = &link.node().address;
    if fault.is_refusal() || fault.is_ours() {
        warn!(shard, other, address, reason = %fault, "another shard refuses this one");
    } else {
        debug!(shard, other, address, reason = %fault, "another shard cannot be reached");
    }
}

/// Writes what there is for the visitor, a turn's share at most and only while it takes what it gets. `told`: how far the shard is
/// durable.
fn answer<S>(shard: &mut S, visitor: &mut Visitor<S::Reply>, told: Option<Mark>) -> Result<(), Fault>
where
    S: Exposed,
    S::Reply: Serialize,
    S::Record: Serialize,
{
    let Visitor { connection, replies, wants_export, .. } = visitor;
    let compares = connection.version() >= COMPARES_FROM;
    if connection.unsent() < UNSENT_BYTES_MAX {
        let out = connection.outgoing();
        let enough = out.len() + UNSENT_BYTES_MAX;
        while !replies.is_empty() {
            let pushed = match compares {
                true => body::push_frames(out, Kind::Replies, &(shard.epoch(), told), replies, enough),
                false => body::push_frames(out, Kind::Replies, &shard.epoch(), replies, enough),
            };
            match pushed {
                Ok(gone) => {
                    replies.drain(..gone);
                    break;
                }
                Err((gone, fault)) => {
                    replies.drain(..gone);
                    replies[0] = S::instead_of(&replies[0]).ok_or(fault)?;
                }
            }
        }
        if replies.is_empty() && std::mem::take(wants_export) {
            let mut bytes = Vec::new();
            body::write(&shard.snapshot(), &mut bytes);
            frame::push_parts(out, &bytes)?;
        }
    }
    connection.flush()
}

fn hear_one<S>(
    core: &mut Core<S>,
    visitor: &mut Visitor<S::Reply>,
    now_ms: u64,
    (shards, seen): (ShardId, &Seen),
) -> Result<(), Fault>
where
    S: Exposed,
    S::Request: DeserializeOwned,
    S::Progress: DeserializeOwned,
    S::Record: Serialize + Send + 'static,
{
    let Core { shard, outbox, .. } = core;
    visitor.connection.fill()?;
    let version = visitor.connection.version();
    while let Some(frame) = visitor.connection.next_frame()? {
        let from = visitor.from;
        let step = |shard: &mut S, request| outbox.step(shard, now_ms, from, request);
        let taken = take(shard, (now_ms, shards, seen), (from, version), frame, step)?;
        visitor.wants_export |= taken == Taken::Export;
    }
    Ok(())
}
