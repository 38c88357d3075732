//! A cluster of any protocol in virtual time: shards, coordinators with their clients, links and clocks.
//!
//! Everything that happens follows from the seed, so a failure is a number, and running it again with the
//! log on writes down every event. Knows no protocol and checks nothing: that is for whoever reads what the
//! clients were told.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::{Debug, Write as _};
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use weir_txn::machine::{Coordinator, CoordinatorOf, Effects, Orders, Sender, Shard};
use weir_txn::ramp::ShardId;

use crate::chance::Chance;
use crate::network::{Faults, Network, Node};

/// How often a coordinator looks for what is late.
pub const TIMER_US: u64 = 40_000;

/// Every so many times it also tells all shards how far it has come, whether it asks for something or not.
const TIMERS_PER_WORD: u64 = 5;

/// What the clients of a cluster do.
pub trait Clients<T, D> {
    /// The next transaction of a session that has nothing under way; none: it stays idle for a while.
    fn next(&mut self, session: usize, now_us: u64, chance: &mut Chance) -> Option<T>;
    fn done(&mut self, session: usize, now_us: u64, done: D);
}

/// A cluster in virtual time.
pub struct Cluster<S: Shard, C> {
    /// None: down.
    pub shards: Vec<Option<S>>,
    pub coordinators: Vec<C>,
    network: Network,
    chance: Chance,
    now_us: u64,
    /// What comes, by time; then a tie-breaker, under which it waits.
    agenda: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, Happening<S>>,
    numbered: u64,
    /// By session: something is under way.
    busy: Vec<bool>,
    hash: FxHasher,
    /// What has happened, a line each, if it is to be written down.
    log: Option<String>,
}

enum Happening<S: Shard> {
    Requests {
        coordinator: u16,
        shard: ShardId,
        progress: S::Progress,
        requests: Vec<S::Request>,
    },
    FromPeer {
        from: ShardId,
        shard: ShardId,
        request: S::Request,
    },
    Replies {
        shard: ShardId,
        coordinator: u16,
        epoch: u64,
        replies: Vec<S::Reply>,
    },
    Timer {
        coordinator: u16,
        times: u64,
    },
    /// A session may begin its next transaction.
    Turn(usize),
    Mishap,
}

impl<S, C> Cluster<S, C>
where
    S: Shard,
    S::Request: Clone + Debug,
    S::Reply: Clone + Debug,
    S::Progress: Clone + Debug,
    C: CoordinatorOf<S>,
{
    /// `sessions` closed loops are spread over the coordinators.
    pub fn new(
        shards: Vec<S>,
        coordinators: Vec<C>,
        sessions: usize,
        faults: Faults,
        seed: u64,
        logged: bool,
    ) -> Cluster<S, C> {
        let mut chance = Chance::from_seed(seed);
        let nodes = (0..shards.len() as u16).map(Node::Shard);
        let nodes = nodes.chain((0..coordinators.len() as u16).map(Node::Coordinator)).collect();
        let mishap_every_us = faults.mishap_every_us;
        let mut cluster = Cluster {
            network: Network::new(faults, nodes, &mut chance),
            shards: shards.into_iter().map(Some).collect(),
            coordinators,
            chance,
            now_us: 0,
            agenda: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            numbered: 0,
            busy: vec![false; sessions],
            hash: FxHasher::default(),
            log: logged.then(String::new),
        };
        for coordinator in 0..cluster.coordinators.len() as u16 {
            let first_us = cluster.chance.below(TIMER_US);
            cluster.plan(first_us, Happening::Timer { coordinator, times: 0 });
        }
        for session in 0..sessions {
            cluster.plan(0, Happening::Turn(session));
        }
        cluster.plan(mishap_every_us, Happening::Mishap);
        cluster
    }

    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Of everything that has happened: the same for the same seed.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    pub fn log(&self) -> &str {
        self.log.as_deref().unwrap_or_default()
    }

    /// Sessions that wait for an answer.
    pub fn busy(&self) -> usize {
        self.busy.iter().filter(|busy| **busy).count()
    }

    pub fn is_idle(&self) -> bool {
        self.busy() == 0
            && self.coordinators.iter().all(Coordinator::is_idle)
            && self.shards.iter().flatten().all(Shard::is_idle)
    }

    /// No more faults from now on.
    pub fn calm(&mut self) {
        self.network.calm();
        let now_us = self.now_us;
        self.note(|| format!("{now_us} no more faults"));
    }

    /// Lets time pass until then.
    pub fn run_until(&mut self, until_us: u64, clients: &mut impl Clients<C::Transaction, C::Done>) {
        while let Some(Reverse((time_us, number))) = self.agenda.peek().copied()
            && time_us <= until_us
        {
            self.agenda.pop();
            self.now_us = time_us;
            let happening = self.waiting.remove(&number).expect("what is on the agenda waits");
            self.happen(happening, clients);
        }
        self.now_us = until_us;
    }

    fn plan(&mut self, time_us: u64, happening: Happening<S>) {
        self.agenda.push(Reverse((time_us, self.numbered)));
        self.waiting.insert(self.numbered, happening);
        self.numbered += 1;
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            let _ = writeln!(log, "{}", line());
        }
    }

    fn happen(&mut self, happening: Happening<S>, clients: &mut impl Clients<C::Transaction, C::Done>) {
        let now_us = self.now_us;
        match happening {
            Happening::Requests { coordinator, shard, progress, requests } => {
                (now_us, 1, coordinator, shard, requests.len()).hash(&mut self.hash);
                self.note(|| format!("{now_us} C{coordinator} to S{shard} {requests:?} {progress:?}"));
                self.on_requests(coordinator, shard, progress, requests);
            }
            Happening::FromPeer { from, shard, request } => {
                (now_us, 2, from, shard).hash(&mut self.hash);
                self.note(|| format!("{now_us} S{from} to S{shard} {request:?}"));
                let now_ms = self.network.clock_ms(Node::Shard(shard), now_us);
                let mut out = Effects::default();
                if let Some(at) = &mut self.shards[usize::from(shard)] {
                    at.step(now_ms, Sender::Shard(from), request, &mut out);
                }
                self.send_effects(shard, out, None);
            }
            Happening::Replies { shard, coordinator, epoch, replies } => {
                (now_us, 3, shard, coordinator, replies.len()).hash(&mut self.hash);
                self.note(|| format!("{now_us} S{shard} to C{coordinator} {replies:?} epoch {epoch}"));
                let now_ms = self.network.clock_ms(Node::Coordinator(coordinator), now_us);
                let mut out = Orders::default();
                let to = &mut self.coordinators[usize::from(coordinator)];
                to.on_epoch(shard, epoch);
                for reply in replies {
                    to.on_reply(now_ms, reply, &mut out);
                }
                self.send_orders(coordinator, out, false, clients);
            }
            Happening::Timer { coordinator, times } => {
                let now_ms = self.network.clock_ms(Node::Coordinator(coordinator), now_us);
                let mut out = Orders::default();
                self.coordinators[usize::from(coordinator)].on_timer(now_ms, &mut out);
                self.send_orders(coordinator, out, times % TIMERS_PER_WORD == 0, clients);
                self.plan(now_us + TIMER_US, Happening::Timer { coordinator, times: times + 1 });
            }
            Happening::Turn(session) => self.on_turn(session, clients),
            Happening::Mishap => {
                let what = self.network.mishap(now_us, &mut self.chance);
                self.note(|| format!("{now_us} {what}"));
                let pause_us = self.chance.between(1, 2 * self.network.faults.mishap_every_us);
                self.plan(now_us + pause_us, Happening::Mishap);
            }
        }
    }

    fn on_turn(&mut self, session: usize, clients: &mut impl Clients<C::Transaction, C::Done>) {
        let Some(transaction) = clients.next(session, self.now_us, &mut self.chance) else {
            self.plan(self.now_us + TIMER_US, Happening::Turn(session));
            return;
        };
        self.busy[session] = true;
        let coordinator = (session % self.coordinators.len()) as u16;
        let now_ms = self.network.clock_ms(Node::Coordinator(coordinator), self.now_us);
        let mut out = Orders::default();
        self.coordinators[usize::from(coordinator)].begin(now_ms, session as u64, transaction, &mut out);
        self.send_orders(coordinator, out, false, clients);
    }

    fn on_requests(
        &mut self,
        coordinator: u16,
        shard: ShardId,
        progress: S::Progress,
        requests: Vec<S::Request>,
    ) {
        let now_ms = self.network.clock_ms(Node::Shard(shard), self.now_us);
        let mut out = Effects::default();
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        at.on_progress(now_ms, coordinator, progress);
        for request in requests {
            at.step(now_ms, Sender::Coordinator(coordinator), request, &mut out);
        }
        self.send_effects(shard, out, Some(coordinator));
    }

    /// `answering`: that coordinator gets the shard's epoch even if there is no reply for it.
    fn send_effects(&mut self, shard: ShardId, out: Effects<S::Request, S::Reply>, answering: Option<u16>) {
        let epoch = self.shards[usize::from(shard)].as_ref().map_or(0, Shard::epoch);
        let mut batches: BTreeMap<u16, Vec<S::Reply>> = BTreeMap::new();
        batches.extend(answering.map(|coordinator| (coordinator, Vec::new())));
        for (coordinator, reply) in out.replies {
            batches.entry(coordinator).or_default().push(reply);
        }
        for (coordinator, replies) in batches {
            let (from, to) = (Node::Shard(shard), Node::Coordinator(coordinator));
            for arrival in self.network.arrivals(from, to, self.now_us, &mut self.chance) {
                self.plan(
                    arrival,
                    Happening::Replies { shard, coordinator, epoch, replies: replies.clone() },
                );
            }
        }
        for (peer, request) in out.peers {
            let (from, to) = (Node::Shard(shard), Node::Shard(peer));
            for arrival in self.network.arrivals(from, to, self.now_us, &mut self.chance) {
                self.plan(
                    arrival,
                    Happening::FromPeer { from: shard, shard: peer, request: request.clone() },
                );
            }
        }
    }

    /// `to_all`: shards get a word of the coordinator's progress even if it asks them for nothing.
    fn send_orders(
        &mut self,
        coordinator: u16,
        out: Orders<S::Request, C::Done>,
        to_all: bool,
        clients: &mut impl Clients<C::Transaction, C::Done>,
    ) {
        let mut batches: BTreeMap<ShardId, Vec<S::Request>> = BTreeMap::new();
        if to_all {
            batches.extend((0..self.shards.len() as ShardId).map(|shard| (shard, Vec::new())));
        }
        for (shard, request) in out.sends {
            batches.entry(shard).or_default().push(request);
        }
        for (shard, requests) in batches {
            let progress = self.coordinators[usize::from(coordinator)].progress(shard);
            let (from, to) = (Node::Coordinator(coordinator), Node::Shard(shard));
            for arrival in self.network.arrivals(from, to, self.now_us, &mut self.chance) {
                let (progress, requests) = (progress.clone(), requests.clone());
                self.plan(arrival, Happening::Requests { coordinator, shard, progress, requests });
            }
        }
        for (tag, done) in out.done {
            let session = tag as usize;
            assert!(std::mem::take(&mut self.busy[session]), "session {session} has been answered twice");
            clients.done(session, self.now_us, done);
            let thinks_us = if self.chance.per_mille(500) { 0 } else { self.chance.below(5_000) };
            self.plan(self.now_us + thinks_us, Happening::Turn(session));
        }
    }
}
