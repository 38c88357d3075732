//! The loop that carries a coordinator and its clients: one connection to each shard, batches of whatever a turn has for it.
//!
//! Adds sockets and the wall clock to the state machine. `Client` drives it for applications, the benches drive their
//! closed loops on it directly.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};
use serde::Serialize;
use serde::de::DeserializeOwned;
pub use weir_net::clock::now_ms;
use weir_net::frame::expect;
use weir_net::handshake::Terms;
use weir_net::tls::Tls;
use weir_net::{ClusterFile, Fault, Kind, Link, body};
use weir_txn::machine::{ClientOrders, Clients, Coordinator, CoordinatorId, Orders, Sender, Shard};
use weir_txn::ramp::ShardId;

/// How often the coordinator is told that time has passed.
const TICK: Duration = Duration::from_millis(20);
/// How often every shard hears from the coordinator, whether it wants something or not: silence is taken for death.
const WORD: Duration = Duration::from_millis(200);

/// A new name for a coordinator, which nobody has had before (docs/items.md, termination).
///
/// # Errors
/// The system has no randomness to give.
pub fn new_id() -> io::Result<CoordinatorId> {
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(CoordinatorId::from_le_bytes(id))
}

/// Why shards cannot be reached at the moment, for whoever has to explain a deadline.
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
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<String> = all
            .iter()
            .enumerate()
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

pub struct Carrier<S: Shard, C: Clients<S>> {
    cluster: ClusterFile,
    terms: Terms,
    tls: Option<Tls>,
    clients: C,
    /// Whose name the links bear.
    coordinator: CoordinatorId,
    poll: Poll,
    alarm: Alarm,
    /// By shard.
    links: Vec<Link>,
    /// By shard: what waits to be sent.
    requests: Vec<Vec<S::Request>>,
    orders: ClientOrders<S, C>,
    trouble: Trouble,
}

impl<S, C> Carrier<S, C>
where
    S: Shard,
    C: Clients<S>,
    S::Request: Serialize,
    S::Reply: DeserializeOwned,
    S::Progress: Serialize,
{
    /// Of items.
    ///
    /// # Errors
    /// The system's, or a certificate that cannot be used.
    pub fn new(cluster: ClusterFile, clients: C) -> io::Result<Carrier<S, C>> {
        let terms = cluster.terms();
        Carrier::with_terms(cluster, terms, clients)
    }

    /// # Errors
    /// The system's, or a certificate that cannot be used.
    pub fn with_terms(cluster: ClusterFile, terms: Terms, mut clients: C) -> io::Result<Carrier<S, C>> {
        let tls = cluster.load_tls().map_err(io::Error::other)?;
        let poll = Poll::new()?;
        let alarm = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let coordinator = clients.coordinator().id();
        let mut carrier = Carrier {
            requests: (0..cluster.shards).map(|_| Vec::new()).collect(),
            cluster,
            terms,
            tls,
            clients,
            coordinator,
            poll,
            alarm,
            links: Vec::new(),
            orders: Orders::default(),
            trouble: Trouble::default(),
        };
        carrier.make_links();
        Ok(carrier)
    }

    pub fn alarm(&self) -> Alarm {
        self.alarm.clone()
    }

    pub fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    pub fn clients_mut(&mut self) -> &mut C {
        &mut self.clients
    }

    fn make_links(&mut self) {
        let now = Instant::now();
        let link = |shard: ShardId| {
            let ends = (Sender::Coordinator(self.coordinator), shard);
            let token = Token(1 + usize::from(shard));
            Link::new(
                self.cluster.holder(shard).clone(),
                ends,
                self.terms.clone(),
                self.tls.clone(),
                token,
                now,
            )
        };
        self.links = (0..self.cluster.shards).map(link).collect();
    }

    /// Runs until the clients have ended, and hands them back.
    pub fn run(mut self) -> C {
        let mut events = Events::with_capacity(256);
        let (mut ticked, mut spoke) = (Instant::now(), Instant::now());
        self.dial(ticked);
        self.clients.begin(&mut self.orders);
        loop {
            self.take_turn();
            if self.clients.have_ended() {
                // What has ended for the clients may have a COMMIT on its way.
                return self.clients;
            }
            if let Err(error) = self.poll.poll(&mut events, Some(TICK.saturating_sub(ticked.elapsed())))
                && error.kind() != io::ErrorKind::Interrupted
            {
                panic!("the system gives no events: {error}");
            }
            let now = Instant::now();
            for event in &events {
                if let Some(shard) = event.token().0.checked_sub(1) {
                    self.links[shard].on_event(event);
                    self.hear(shard, now);
                }
            }
            if ticked.elapsed() >= TICK {
                ticked = now;
                self.dial(now);
                self.forget_unsent();
                self.clients.coordinator().on_timer(now_ms(), &mut self.orders);
                if spoke.elapsed() >= WORD {
                    spoke = now;
                    self.say_a_word(now);
                }
            }
        }
    }

    fn dial(&mut self, now: Instant) {
        for (shard, link) in self.links.iter_mut().enumerate() {
            link.on_time(now, self.poll.registry());
            let fault = link.fault().cloned().map(|fault| (link.node().address.clone(), fault));
            self.trouble.set(shard, fault);
        }
    }

    /// What could not be sent until now is sent again by whoever wants an answer.
    fn forget_unsent(&mut self) {
        for (link, requests) in self.links.iter_mut().zip(&mut self.requests) {
            if link.open().is_none() && link.fault().is_some() {
                requests.clear();
            }
        }
    }

    fn hear(&mut self, shard: usize, now: Instant) {
        let registry = self.poll.registry();
        // Until there is nothing more: an event says only once that there is something.
        loop {
            self.links[shard].advance(now, registry);
            let Some(open) = self.links[shard].open() else { return };
            let heard = hear_all::<S, C>(shard as ShardId, open, &mut self.clients, &mut self.orders);
            let more = open.is_readable();
            // What did not fit into the socket before may fit now.
            if let Err(fault) = heard.and_then(|()| open.flush()) {
                return self.links[shard].fail(fault, now, registry);
            }
            if !more {
                return;
            }
        }
    }

    /// Lets the clients go on from what has been done, and sends what they and their coordinator want sent.
    fn take_turn(&mut self) {
        self.clients.go_on(&mut self.orders);
        while !self.orders.done.is_empty() {
            self.clients.go_on(&mut self.orders);
        }
        let id = self.clients.coordinator().id();
        if id != self.coordinator {
            // They have begun a new one; nobody knows it by the old links.
            self.coordinator = id;
            self.requests.iter_mut().for_each(Vec::clear);
            self.make_links();
            self.dial(Instant::now());
        }
        for (shard, request) in self.orders.sends.drain(..) {
            self.requests[usize::from(shard)].push(request);
        }
        let now = Instant::now();
        for shard in 0..self.links.len() {
            if !self.requests[shard].is_empty() {
                self.send(shard, now);
            }
        }
    }

    fn say_a_word(&mut self, now: Instant) {
        (0..self.links.len()).for_each(|shard| self.send(shard, now));
    }

    fn send(&mut self, shard: usize, now: Instant) {
        let Some(open) = self.links[shard].open() else { return };
        if open.is_clogged() {
            // As if it had been lost: whoever wants an answer sends it again.
            return self.requests[shard].clear();
        }
        let progress = self.clients.coordinator().progress(shard as ShardId);
        let requests = &mut self.requests[shard];
        let pushed = body::push_frames(open.outgoing(), Kind::Requests, &progress, requests, usize::MAX);
        requests.clear();
        if let Err(fault) = pushed.map_err(|(_, fault)| fault).and_then(|_| open.flush()) {
            self.links[shard].fail(fault, now, self.poll.registry());
        }
    }
}

fn hear_all<S, C>(
    shard: ShardId,
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
    while let Some((kind, mut body)) = open.next_frame()? {
        expect(Kind::Replies, kind, body)?;
        let coordinator = clients.coordinator();
        coordinator.on_epoch(shard, body::read(kind, &mut body)?);
        while !body.is_empty() {
            coordinator.on_reply(now_ms, body::read(kind, &mut body)?, orders);
        }
    }
    Ok(())
}
