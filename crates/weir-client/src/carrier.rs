//! Transport of a coordinator and its clients: one connection to each shard, and one batch of messages for each turn.
//!
//! Adds sockets and the wall clock to the state machine. `Client` drives it for applications, the benches drive their
//! closed loops on it directly. A turn is taken by the loop of its own thread, or by any thread that has something for the clients;
//! shards of the same process are spoken to in it (`weir_core::nearby`).

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Registry, Token, Waker};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::history::{Mark, Seen, Told};
use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::{ClientOrders, Clients, Coordinator, Exposed, Orders, Shard};
use weir_core::nearby::{Actor, Nearby, Neighbours, ReplySink, hurry, is_hurried};
use weir_net::body::{self, ATTACHES_FROM};
pub use weir_net::clock::now_ms;
use weir_net::frame::expect;
use weir_net::handshake::{COMPARES_FROM, Terms};
use weir_net::tls::Tls;
use weir_net::{ClusterFile, Fault, Kind, Link};
use weir_types::interrupt::Interrupts;

use crate::interrupts::{Interrupter, Wish};

/// Interval at which the coordinator is told that time has passed.
const TICK: Duration = Duration::from_millis(20);
/// Interval at which every shard hears from the coordinator, whether it wants something or not: silence is taken for death.
const WORD: Duration = Duration::from_millis(200);

/// Generates a coordinator id that has never been used (docs/internals/items.md, termination).
///
/// # Errors
/// The system has no randomness to give.
pub fn new_id() -> io::Result<CoordinatorId> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(CoordinatorId::from_le_bytes(id))
}

/// Current reasons why shards cannot be reached, for the error of a missed deadline.
#[derive(Clone, Debug, Default)]
pub struct Trouble(Arc<Mutex<Vec<Hindrance>>>);

/// The address of a shard, and why it cannot be reached.
type Hindrance = Option<(String, Fault)>;

impl Trouble {
    fn set(&self, shard: usize, fault: Hindrance) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() <= shard {
            all.resize(shard + 1, None);
        }
        all[shard] = fault;
    }

    /// In words; none if all shards can be reached.
    pub fn in_words(&self) -> Option<String> {
        self.in_words_of(None)
    }

    /// The reasons for these shards; none: for all.
    pub(crate) fn in_words_of(&self, shards: Option<&[ShardId]>) -> Option<String> {
        let is_meant = |shard: usize| shards.is_none_or(|shards| shards.contains(&(shard as ShardId)));
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<String> = all
            .iter()
            .enumerate()
            .filter(|(shard, _)| is_meant(*shard))
            .filter_map(|(shard, one)| one.as_ref().map(|(address, fault)| (shard, address, fault)))
            .map(|(shard, address, fault)| format!("shard {shard} at {address}: {fault}"))
            .collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// A node does not want to speak with this client, and never will.
    pub fn is_refusal(&self) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().flatten().any(|(_, fault)| fault.is_refusal())
    }
}

/// Wakes the loop from another thread.
pub type Alarm = Arc<Waker>;

const WAKER: Token = Token(0);

/// Messages from a shard of this process.
struct Incoming<S: Shard> {
    from: ShardId,
    epoch: u64,
    replies: Vec<S::Reply>,
}

/// Messages of a turn to the shards of this process.
struct Outgoing<S: Shard> {
    from: CoordinatorId,
    to: Vec<Saying<S>>,
}

/// Results of transactions.
type DoneOf<S, C> = Vec<(u64, <<C as Clients<S>>::Coordinator as Coordinator>::Done)>;

type Saying<S> = (Arc<dyn Nearby<S>>, <S as Shard>::Progress, Vec<<S as Shard>::Request>);

impl<S: Shard> Outgoing<S> {
    fn say(self) {
        for (shard, progress, requests) in self.to {
            shard.say(self.from, progress, requests);
        }
    }
}

/// The coordinator and its clients.
struct Core<S: Shard, C: Clients<S>> {
    /// None: they have ended.
    clients: Option<C>,
    coordinator: CoordinatorId,
    /// By shard: those of this process, and whether they know the coordinator.
    nearby: Vec<Option<Arc<dyn Nearby<S>>>>,
    are_told: bool,
    /// Interrupts of the shards of this process.
    interrupts: Vec<Arc<Interrupts>>,
    /// Statements that shards of other processes are to end.
    far_interrupts: Vec<Wish>,
    /// By shard: what waits to be sent.
    requests: Vec<Vec<S::Request>>,
    orders: ClientOrders<S, C>,
}

impl<S: Shard, C: Clients<S>> Core<S, C> {
    /// Takes what has come.
    fn hear(&mut self, incoming: Vec<Incoming<S>>) {
        let Core { clients: Some(clients), orders, .. } = self else { return };
        let now_ms = now_ms();
        for Incoming { from, epoch, replies } in incoming {
            clients.coordinator().on_epoch(from, epoch);
            replies.into_iter().for_each(|reply| clients.coordinator().on_reply(now_ms, reply, orders));
        }
    }

    /// What is to be said nearby before the results of this turn are known, and these results: a client that knows a result may ask for it
    /// at once, so the COMMITs that belong to it have to be at their shards before. None: there are no results, or nothing is to be said.
    fn said_before_results(&mut self) -> Option<(Outgoing<S>, DoneOf<S, C>)> {
        if self.orders.done.is_empty() || self.orders.sends.is_empty() || !self.are_told {
            return None;
        }
        self.sort_sends();
        let outgoing = self.outgoing();
        (!outgoing.to.is_empty()).then(|| (outgoing, std::mem::take(&mut self.orders.done)))
    }

    /// Lets the clients go on from what has been done, and gives what they and their coordinator want said nearby.
    fn go_on(&mut self, sink: &Weak<dyn ReplySink<S>>) -> Outgoing<S> {
        let outgoing = Outgoing { from: self.coordinator, to: Vec::new() };
        let Core { clients: Some(clients), orders, .. } = self else { return outgoing };
        clients.go_on(orders);
        while !orders.done.is_empty() {
            clients.go_on(orders);
        }
        let id = clients.coordinator().id();
        if id != self.coordinator {
            // The clients have begun a new coordinator, which the links do not know.
            (self.coordinator, self.are_told) = (id, false);
            self.requests.iter_mut().for_each(Vec::clear);
        }
        for (statement, error) in orders.interrupts.drain(..) {
            for interrupts in &self.interrupts {
                interrupts.interrupt(statement, error.clone());
            }
            self.far_interrupts.push((statement, error));
        }
        self.sort_sends();
        if !self.are_told {
            self.are_told = true;
            self.nearby.iter().flatten().for_each(|shard| shard.listen(id, sink.clone()));
        }
        self.outgoing()
    }

    /// Puts what has been ordered to what waits to be sent.
    fn sort_sends(&mut self) {
        for (shard, request) in self.orders.sends.drain(..) {
            self.requests[usize::from(shard)].push(request);
        }
    }

    /// Takes what waits for the shards of this process.
    fn outgoing(&mut self) -> Outgoing<S> {
        let mut outgoing = Outgoing { from: self.coordinator, to: Vec::new() };
        let Some(clients) = &mut self.clients else { return outgoing };
        for (shard, (requests, nearby)) in self.requests.iter_mut().zip(&self.nearby).enumerate() {
            if let Some(nearby) = nearby.as_ref().filter(|_| !requests.is_empty()) {
                let progress = clients.coordinator().progress(shard as ShardId);
                outgoing.to.push((nearby.clone(), progress, std::mem::take(requests)));
            }
        }
        outgoing
    }

    /// Something is for shards of other processes.
    fn has_letters(&self) -> bool {
        !self.far_interrupts.is_empty() || self.requests.iter().any(|requests| !requests.is_empty())
    }
}

type CoreGuard<'a, S, C> = MutexGuard<'a, Core<S, C>>;

/// Where the threads meet that have something for the clients.
pub(crate) struct Mailbox<S: Shard, C: Clients<S>> {
    actor: Actor<Core<S, C>, Incoming<S>>,
    sink: Weak<dyn ReplySink<S>>,
    alarm: Alarm,
    /// Returns whether operations of clients wait to be taken.
    has_more: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Largest number of turns that a thread with other work takes.
const TURNS_MAX: usize = 16;

thread_local! {
    /// Where this thread takes turns: it looks for arrivals after each of them.
    static AT: Cell<usize> = const { Cell::new(0) };
}

/// The thread is there until this goes.
struct Presence {
    before: usize,
}

impl Presence {
    fn at(place: usize) -> Option<Presence> {
        let before = AT.replace(place);
        (before != place).then_some(Presence { before })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        AT.set(self.before);
    }
}

impl<S: Shard, C: Clients<S>> Mailbox<S, C> {
    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// A turn of the thread that has the lock. Gives what is to be said nearby when the lock is free.
    fn take_turn<'a>(&'a self, mut core: CoreGuard<'a, S, C>) -> (CoreGuard<'a, S, C>, Outgoing<S>) {
        core.hear(self.actor.take());
        if let Some((outgoing, done)) = core.said_before_results() {
            drop(core);
            outgoing.say();
            core = self.actor.lock();
            core.orders.done.splice(0..0, done);
        }
        let outgoing = core.go_on(&self.sink);
        (core, outgoing)
    }

    /// Takes turns while there is work, unless another thread does.
    pub(crate) fn take_turns(&self) {
        // A party that says something in a turn hears the answer in it.
        let Some(_presence) = Presence::at(self.place()) else { return };
        for _ in 0..TURNS_MAX {
            let Some(core) = self.actor.try_lock() else { return };
            let (core, outgoing) = self.take_turn(core);
            let has_letters = core.has_letters();
            drop(core);
            if has_letters {
                self.wake();
            }
            outgoing.say();
            if !self.has_work() {
                return;
            }
            if is_hurried() {
                break;
            }
        }
        self.wake();
    }

    fn has_work(&self) -> bool {
        self.actor.has_arrivals() || (self.has_more)()
    }

    pub(crate) fn wake(&self) {
        // A loop that cannot be woken looks at the next tick.
        let _ = self.alarm.wake();
    }
}

impl<S: Shard, C: Clients<S>> ReplySink<S> for Mailbox<S, C> {
    fn deliver(&self, from: ShardId, epoch: u64, replies: Vec<S::Reply>) {
        self.actor.leave(Incoming { from, epoch, replies });
        self.take_turns();
    }
}

/// The loop of the thread that has the connections.
pub struct Carrier<S: Shard, C: Clients<S>> {
    cluster: ClusterFile,
    terms: Terms,
    tls: Option<Tls>,
    mailbox: Arc<Mailbox<S, C>>,
    poll: Poll,
    /// Coordinator in whose name the links are open.
    coordinator: CoordinatorId,
    /// By shard; none to those of this process.
    links: Vec<Option<Link>>,
    /// Known histories of shards; and by shard, the marks reported to it.
    seen: Arc<Seen>,
    told: Vec<Told>,
    interrupter: Interrupter,
    trouble: Trouble,
}

impl<S, C> Carrier<S, C>
where
    S: Exposed,
    C: Clients<S>,
    S::Request: Serialize,
    S::Reply: DeserializeOwned,
    S::Progress: Serialize,
{
    /// For items.
    ///
    /// # Errors
    /// The system's, or a certificate that cannot be used.
    pub fn new(cluster: ClusterFile, clients: C) -> io::Result<Carrier<S, C>> {
        let terms = cluster.terms();
        Carrier::with_terms(cluster, terms, clients)
    }

    /// # Errors
    /// The system's, or a certificate that cannot be used.
    pub fn with_terms(cluster: ClusterFile, terms: Terms, clients: C) -> io::Result<Carrier<S, C>> {
        Carrier::beside((cluster, terms), clients, Vec::new(), Trouble::default(), Box::new(|| false))
    }

    /// `neighbours`: shards of this process. `has_more`: returns whether operations of clients wait to be taken; the submitting thread
    /// then takes a turn, or wakes the loop.
    ///
    /// # Errors
    /// The system's, or a certificate that cannot be used.
    pub(crate) fn beside(
        (cluster, terms): (ClusterFile, Terms),
        mut clients: C,
        neighbours: Neighbours<S>,
        trouble: Trouble,
        has_more: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> io::Result<Carrier<S, C>> {
        let tls = cluster.load_tls().map_err(io::Error::other)?;
        let poll = Poll::new()?;
        let alarm = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let coordinator = clients.coordinator().id();
        let mut nearby: Vec<Option<Arc<dyn Nearby<S>>>> = (0..cluster.shards).map(|_| None).collect();
        for (shard, one) in neighbours {
            nearby[usize::from(shard)] = Some(one);
        }
        // Bytes that the nodes of this process keep on their disks.
        let seen = nearby.iter().flatten().find_map(|shard| shard.seen()).unwrap_or_default();
        let interrupts = nearby.iter().flatten().filter_map(|shard| shard.interrupts()).collect();
        let core = Core {
            clients: Some(clients),
            coordinator,
            nearby,
            interrupts,
            far_interrupts: Vec::new(),
            are_told: false,
            requests: (0..cluster.shards).map(|_| Vec::new()).collect(),
            orders: Orders::default(),
        };
        let mailbox = Arc::new_cyclic(|sink: &Weak<Mailbox<S, C>>| Mailbox {
            actor: Actor::new(core),
            sink: sink.clone(),
            alarm,
            has_more,
        });
        let (links, told) = (Vec::new(), Vec::new());
        let interrupter = Interrupter::new(&cluster, &terms, tls.as_ref());
        let mut carrier = Carrier {
            cluster,
            terms,
            tls,
            mailbox,
            poll,
            coordinator,
            links,
            seen,
            told,
            interrupter,
            trouble,
        };
        carrier.make_links();
        Ok(carrier)
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox<S, C>> {
        self.mailbox.clone()
    }

    pub fn alarm(&self) -> Alarm {
        self.mailbox.alarm.clone()
    }

    pub fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    fn make_links(&mut self) {
        let now = Instant::now();
        let core = self.mailbox.actor.lock();
        let link = |shard: ShardId| {
            if core.nearby[usize::from(shard)].is_some() {
                return None;
            }
            let ends = (Sender::Coordinator(self.coordinator), shard);
            let token = Token(1 + usize::from(shard));
            let holders = self.cluster.holders(shard);
            let terms = (self.terms.clone(), self.seen.clone());
            Some(Link::new(holders, ends, terms, self.tls.clone(), token, now))
        };
        let links = (0..self.cluster.shards).map(link).collect();
        drop(core);
        self.links = links;
        self.told = (0..self.cluster.shards).map(|_| Default::default()).collect();
    }

    /// Runs until the clients have ended, and hands them back.
    ///
    /// # Panics
    /// An assertion has failed on another thread that took a turn.
    pub fn run(mut self) -> C {
        let mailbox = self.mailbox.clone();
        // Shards of this process do their work on other threads: this one cancels what takes them long.
        hurry();
        let mut events = Events::with_capacity(256);
        let (mut ticked, mut spoke) = (Instant::now(), Instant::now());
        self.dial(ticked);
        {
            let Core { clients, orders, .. } = &mut *mailbox.actor.lock();
            clients.as_mut().expect("they have not begun").begin(orders);
        }
        loop {
            let presence = Presence::at(mailbox.place());
            let outgoing = self.take_turn(&mailbox);
            outgoing.say();
            drop(presence);
            if let Some(clients) = self.ended(&mailbox) {
                // A transaction that has ended for the clients may have a COMMIT on its way.
                return clients;
            }
            let timeouts =
                if mailbox.has_work() { Duration::ZERO } else { TICK.saturating_sub(ticked.elapsed()) };
            if let Err(error) = self.poll.poll(&mut events, Some(timeouts))
                && error.kind() != io::ErrorKind::Interrupted
            {
                panic!("the system gives no events: {error}");
            }
            let now = Instant::now();
            let mut core = mailbox.actor.lock();
            for event in &events {
                if let Some(shard) = event.token().0.checked_sub(1) {
                    let Some(link) = &mut self.links[shard] else { continue };
                    link.on_event(event);
                    hear::<S, C>((shard, &self.seen), link, &mut core, now, self.poll.registry());
                }
            }
            if ticked.elapsed() >= TICK {
                ticked = now;
                self.dial(now);
                self.forget_unsent(&mut core);
                let Core { clients, orders, .. } = &mut *core;
                if let Some(clients) = clients {
                    clients.coordinator().on_timer(now_ms(), orders);
                }
                if spoke.elapsed() >= WORD {
                    spoke = now;
                    drop(core);
                    self.say_a_word(&mailbox, now);
                }
            }
        }
    }

    fn ended(&self, mailbox: &Mailbox<S, C>) -> Option<C> {
        let mut core = mailbox.actor.lock();
        let have_ended = core.clients.as_mut().is_none_or(Clients::have_ended);
        have_ended.then(|| core.clients.take().expect("nobody else takes them"))
    }

    /// A turn of this thread, which sends what is for other processes.
    fn take_turn(&mut self, mailbox: &Mailbox<S, C>) -> Outgoing<S> {
        let (mut core, outgoing) = mailbox.take_turn(mailbox.actor.lock());
        if core.coordinator != self.coordinator {
            self.coordinator = core.coordinator;
            drop(core);
            self.make_links();
            self.dial(Instant::now());
            core = mailbox.actor.lock();
        }
        self.interrupter.send(self.coordinator, &self.links, std::mem::take(&mut core.far_interrupts));
        let now = Instant::now();
        for shard in 0..self.links.len() {
            if !core.requests[shard].is_empty() {
                self.send(shard, &mut core, now);
            }
        }
        outgoing
    }

    fn dial(&mut self, now: Instant) {
        for (shard, link) in self.links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            link.on_time(now, self.poll.registry());
            let fault = link.fault().cloned().map(|fault| (link.node().address.clone(), fault));
            self.trouble.set(shard, fault);
        }
    }

    /// Drops requests that could not be sent: their senders repeat them.
    fn forget_unsent(&mut self, core: &mut Core<S, C>) {
        for (link, requests) in self.links.iter_mut().zip(&mut core.requests) {
            if let Some(link) = link
                && link.open().is_none()
                && link.fault().is_some()
            {
                requests.clear();
            }
        }
    }

    /// Every shard hears how far the coordinator has come.
    fn say_a_word(&mut self, mailbox: &Mailbox<S, C>, now: Instant) {
        let mut core = mailbox.actor.lock();
        let mut outgoing = Outgoing { from: core.coordinator, to: Vec::new() };
        for shard in 0..self.links.len() {
            match (core.nearby[shard].clone(), &mut core.clients) {
                (Some(nearby), Some(clients)) => {
                    let progress = clients.coordinator().progress(shard as ShardId);
                    outgoing.to.push((nearby, progress, Vec::new()));
                }
                (Some(_), None) => {}
                (None, _) => self.send(shard, &mut core, now),
            }
        }
        drop(core);
        outgoing.say();
    }

    fn send(&mut self, shard: usize, core: &mut Core<S, C>, now: Instant) {
        let Some(link) = &mut self.links[shard] else { return };
        let openings = link.openings();
        let Some(open) = link.open() else { return };
        if open.is_clogged() {
            // Treated like a lost batch: the requests are sent again.
            return core.requests[shard].clear();
        }
        let Some(clients) = &mut core.clients else { return };
        let progress = clients.coordinator().progress(shard as ShardId);
        let requests = &mut core.requests[shard];
        let version = open.version();
        let refused_by = |request: &S::Request| S::refused_by(request, version, shard as ShardId);
        let refused = requests.extract_if(.., |request| refused_by(request).is_some());
        for reply in refused.filter_map(|request| refused_by(&request)) {
            clients.coordinator().on_reply(now_ms(), reply, &mut core.orders);
        }
        let out = open.outgoing();
        let pushed = match version >= COMPARES_FROM {
            true => {
                let news = self.seen.news(Some(shard as ShardId), self.told[shard].over(openings));
                push_requests::<S>(out, version, &(&progress, news), requests)
            }
            false => push_requests::<S>(out, version, &progress, requests),
        };
        requests.clear();
        if let Err(fault) = pushed.and_then(|()| open.flush()) {
            link.fail(fault, now, self.poll.registry());
        }
    }
}

/// Writes requests in the form of that protocol version, behind that head.
fn push_requests<S>(
    out: &mut Vec<u8>,
    version: u16,
    head: &impl Serialize,
    requests: &[S::Request],
) -> Result<(), Fault>
where
    S: Exposed,
    S::Request: Serialize,
{
    let pushed = match version >= ATTACHES_FROM {
        true => {
            let items: Vec<_> = requests.iter().map(|request| (request, S::attachment(request))).collect();
            body::push_frames(out, Kind::Requests, head, &items, usize::MAX)
        }
        false => body::push_frames(out, Kind::Requests, head, requests, usize::MAX),
    };
    pushed.map(drop).map_err(|(_, fault)| fault)
}

/// Takes what has come on a link.
fn hear<S, C>(
    (shard, seen): (usize, &Seen),
    link: &mut Link,
    core: &mut Core<S, C>,
    now: Instant,
    registry: &Registry,
) where
    S: Shard,
    C: Clients<S>,
    S::Reply: DeserializeOwned,
{
    // Until there is nothing more: an event says only once that there is something.
    loop {
        link.advance(now, registry);
        let Core { clients: Some(clients), orders, .. } = core else { return };
        let Some(open) = link.open() else { return };
        let incoming = hear_all::<S, C>((shard as ShardId, seen), open, clients, orders);
        let more = open.is_readable();
        // Messages that did not fit into the socket before may fit now.
        if let Err(fault) = incoming.and_then(|()| open.flush()) {
            return link.fail(fault, now, registry);
        }
        if !more {
            return;
        }
    }
}

fn hear_all<S, C>(
    (shard, seen): (ShardId, &Seen),
    open: &mut weir_net::Connection,
    clients: &mut C,
    orders: &mut ClientOrders<S, C>,
) -> Result<(), Fault>
where
    S: Shard,
    C: Clients<S>,
    S::Reply: DeserializeOwned,
{
    let now_ms = now_ms();
    let compares = open.version() >= COMPARES_FROM;
    while let Some((kind, mut body)) = open.next_frame()? {
        expect(Kind::Replies, kind, body)?;
        let coordinator = clients.coordinator();
        coordinator.on_epoch(shard, body::read(kind, &mut body)?);
        if compares {
            // Before the replies: what rests on them rests on it.
            let told: Option<Mark> = body::read(kind, &mut body)?;
            seen.hear(shard, told.as_slice());
        }
        while !body.is_empty() {
            coordinator.on_reply(now_ms, body::read(kind, &mut body)?, orders);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weir_core::ids::{Timestamp, TxnId};
    use weir_core::lsn::Lsn;
    use weir_net::body::VERSIONS;
    use weir_net::frame;
    use weir_txn::message::{Attachment, Progress, Reply, Request};
    use weir_txn::shard::Node;

    use super::*;

    type Told = Arc<Mutex<Vec<&'static str>>>;

    /// Answers each reply with a COMMIT to shard 0 and a result, as the end of a transaction over several shards does.
    struct Ends;

    impl Coordinator for Ends {
        type Request = Request;
        type Reply = Reply;
        type Progress = Progress;
        type Transaction = ();
        type Done = ();

        fn id(&self) -> CoordinatorId {
            1
        }

        fn begin(&mut self, _now_ms: u64, _tag: u64, (): (), _out: &mut Orders<Request, ()>) {}

        fn on_reply(&mut self, _now_ms: u64, reply: Reply, out: &mut Orders<Request, ()>) {
            let (txn, timestamp) = (reply.txn(), Timestamp::default());
            out.done.push((1, ()));
            out.sends.push((0, Request::Commit { txn, timestamp }));
        }

        fn on_timer(&mut self, _now_ms: u64, _out: &mut Orders<Request, ()>) {}

        fn progress(&mut self, _shard: ShardId) -> Progress {
            Progress { settled_below: 0, drained: 0 }
        }

        fn on_epoch(&mut self, _shard: ShardId, _epoch: u64) {}

        fn is_idle(&self) -> bool {
            true
        }
    }

    struct Waits(Ends, Told);

    impl Clients<Node> for Waits {
        type Coordinator = Ends;

        fn coordinator(&mut self) -> &mut Ends {
            &mut self.0
        }

        fn begin(&mut self, _orders: &mut ClientOrders<Node, Self>) {}

        fn go_on(&mut self, orders: &mut ClientOrders<Node, Self>) {
            self.1.lock().unwrap().extend(orders.done.drain(..).map(|_| "result"));
        }
    }

    struct Hears(Told);

    impl Nearby<Node> for Hears {
        fn listen(&self, _coordinator: CoordinatorId, _sink: Weak<dyn ReplySink<Node>>) {}

        fn say(&self, _from: CoordinatorId, _progress: Progress, requests: Vec<Request>) {
            self.0.lock().unwrap().extend(requests.iter().map(|_| "commit"));
        }

        fn look(&self, _look: &mut dyn FnMut(&mut Node) -> Option<Lsn>) -> bool {
            false
        }

        fn interrupts(&self) -> Option<Arc<Interrupts>> {
            None
        }

        fn seen(&self) -> Option<Arc<Seen>> {
            None
        }
    }

    /// Otherwise another session, on another thread, could ask a shard for what the COMMIT brings before it has it.
    #[test]
    fn results_are_known_when_their_commits_have_been_said() {
        let told = Told::default();
        let text = weir_net::loopback::nodes(1, 1);
        let cluster = ClusterFile::parse("cluster.toml".as_ref(), &text).unwrap();
        let terms = cluster.terms();
        let neighbours: Neighbours<Node> = vec![(0, Arc::new(Hears(told.clone())))];
        let clients = Waits(Ends, told.clone());
        let carrier =
            Carrier::beside((cluster, terms), clients, neighbours, Trouble::default(), Box::new(|| false));
        let carrier = carrier.unwrap();
        let mailbox = carrier.mailbox();
        mailbox.take_turns();
        let reply = |sequence| Reply::Committed { txn: TxnId { coordinator: 1, sequence }, shard: 0 };
        mailbox.deliver(0, 1, vec![reply(1), reply(2)]);
        assert_eq!(*told.lock().unwrap(), ["commit", "commit", "result", "result"]);
    }

    #[test]
    fn requests_have_the_form_of_the_version_that_the_shard_speaks() {
        let commit =
            Request::Commit { txn: TxnId { coordinator: 1, sequence: 2 }, timestamp: Timestamp::default() };
        for version in VERSIONS {
            let mut out = Vec::new();
            push_requests::<Node>(&mut out, version, &7_u64, &[commit.clone(), commit.clone()]).unwrap();
            let ((kind, mut body), _) = frame::first(&out).unwrap().unwrap();
            assert_eq!(body::read::<u64>(kind, &mut body), Ok(7));
            for _ in 0..2 {
                body::read::<Request>(kind, &mut body).unwrap();
                if version >= ATTACHES_FROM {
                    let attachment = body::read::<Attachment>(kind, &mut body);
                    assert_eq!(attachment, Ok(Attachment::default()));
                }
            }
            assert!(body.is_empty(), "version {version}");
        }
    }
}
