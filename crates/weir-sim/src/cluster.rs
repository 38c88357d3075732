//! A cluster of any protocol in virtual time: shards, coordinators with their clients, links and clocks.
//!
//! Every event follows from the seed, so a failure is identified by a number, and a run with the log on records every event again.
//! Independent of protocols; checks nothing: that is left to the readers of the clients' results.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::{Debug, Write as _};
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use weir_core::ids::{CoordinatorId, Sender, ShardId, TxnId};
use weir_core::lsn::Lsn;
use weir_core::machine::{Coordinator, CoordinatorOf, Durable, Effects, Exposed, Orders, Shard};
use weir_kv::GivenUp;

use crate::chance::Chance;
use crate::disk::Disk;
use crate::network::{Faults, Network, Node};
use crate::worker::Worker;

/// Interval at which a node looks for late messages.
pub const TIMER_US: u64 = 40_000;

/// Longest time that a worker stands at a pause.
const WORKER_PAUSE_US_MAX: u64 = 2_000;

/// Size of a part of a snapshot: small, so that a few rows take several parts.
const PART_BYTES: usize = 100;

/// Number of timer ticks after which the coordinator sends its progress to all shards, with or without requests.
const TIMERS_PER_WORD: u64 = 5;

/// Behaviour of the clients of a cluster.
pub trait Clients<T, D> {
    /// Next transaction of an idle session; none: it stays idle for a while.
    fn next(&mut self, session: usize, now_us: u64, chance: &mut Chance) -> Option<T>;
    fn done(&mut self, session: usize, now_us: u64, done: D);
    /// The session's coordinator is dead, or the client has given up: the outcome of its operation is unknown. `txn`: the transaction, if
    /// it may have written.
    fn lost(&mut self, session: usize, txn: Option<TxnId>);
    /// The session's coordinator is dead, and another one serves it from now on; it had nothing under way.
    fn moved(&mut self, _session: usize) {}
    /// The client gives up what it has just begun if it is not answered within so long; none: it waits for ever.
    fn patience_us(&mut self, _chance: &mut Chance) -> Option<u64> {
        None
    }
}

/// A coordinator that can die.
pub trait Mortal: Coordinator {
    /// The transaction that writes what was begun under the tag.
    fn txn_of(&mut self, tag: u64) -> Option<TxnId>;
    /// Abandons the operation under the tag.
    fn give_up(&mut self, _tag: u64) -> GivenUp {
        unreachable!("its clients have patience")
    }
}

/// The start of nodes.
pub struct Starts<S: Durable, C> {
    /// From the durable records of its log.
    pub shard: Box<dyn Fn(ShardId, Vec<S::Record>) -> S>,
    /// Under an id that no other has ever had.
    pub coordinator: Box<dyn Fn(CoordinatorId) -> C>,
}

/// A cluster in virtual time.
pub struct Cluster<S: Durable, C> {
    /// None: down.
    pub shards: Vec<Option<S>>,
    /// By id. None: dead.
    pub coordinators: Vec<Option<C>>,
    disks: Vec<Disk<S::Record, Message<S>>>,
    starts: Starts<S, C>,
    /// Which coordinator serves the clients of each seat.
    seats: Vec<CoordinatorId>,
    /// By coordinator: when its last message arrived at a shard.
    pub heard_us: Vec<u64>,
    /// When the last shard started again.
    pub restarted_us: u64,
    /// By shard: until when it computes. Whatever arrives waits until then.
    busy_until_us: Vec<u64>,
    /// By shard: its long statements, by number.
    workers: Vec<BTreeMap<u64, Worker>>,
    /// Number of workers so far.
    pub worked: u64,
    /// By shard: the highest time that its clock has shown.
    pub highest_ms: Vec<u64>,
    /// Deliberate bug: messages leave before what they depend on is durable (S16).
    pub answers_early: bool,
    network: Network,
    chance: Chance,
    now_us: u64,
    /// Scheduled events by time, with a tie-breaker that is the key in `waiting`.
    agenda: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: BTreeMap<u64, Happening<S>>,
    numbered: u64,
    /// By session: an operation is in flight.
    busy: Vec<bool>,
    /// By session: how often it has begun something, and how often it has given up. What it begins is tagged with the second,
    /// for what was given up may be answered yet.
    begun: Vec<(u64, u64)>,
    /// Number of times that any has given up.
    pub given_up: u64,
    /// The first message that a shard would not take from another process, and why.
    pub refused: Option<String>,
    hash: FxHasher,
    /// Log of all events, one line each, if requested.
    log: Option<String>,
}

/// Message of a shard.
enum Message<S: Shard> {
    Replies { coordinator: CoordinatorId, epoch: u64, replies: Vec<S::Reply> },
    Peer { shard: ShardId, request: S::Request },
}

enum Happening<S: Shard> {
    Requests {
        coordinator: CoordinatorId,
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
        coordinator: CoordinatorId,
        epoch: u64,
        replies: Vec<S::Reply>,
    },
    Timer {
        coordinator: CoordinatorId,
        times: u64,
    },
    /// Timer of the shard's life between two crashes.
    ShardTimer {
        shard: ShardId,
        crashes: u64,
    },
    /// A worker runs up to its next pause, unless the shard has crashed since.
    Work {
        shard: ShardId,
        worker: u64,
    },
    /// The disk's write in progress is durable, unless the shard has crashed since.
    Synced {
        shard: ShardId,
        crashes: u64,
    },
    Restart(ShardId),
    /// A session may begin its next transaction.
    Turn(usize),
    /// A session gives up what it began then, unless it has been answered.
    GiveUp {
        session: usize,
        begun: u64,
    },
    Mishap,
}

impl<S: Shard> Happening<S> {
    /// The shard whose thread handles it.
    fn shard(&self) -> Option<ShardId> {
        match self {
            Happening::Requests { shard, .. }
            | Happening::FromPeer { shard, .. }
            | Happening::ShardTimer { shard, .. }
            | Happening::Work { shard, .. }
            | Happening::Synced { shard, .. } => Some(*shard),
            _ => None,
        }
    }
}

impl<S: Durable, C> Cluster<S, C> {
    pub fn now_us(&self) -> u64 {
        self.now_us
    }
}

impl<S, C> Cluster<S, C>
where
    S: Exposed,
    S::Request: Clone + Debug,
    S::Reply: Clone + Debug,
    S::Progress: Clone + Debug,
    C: CoordinatorOf<S> + Mortal,
{
    /// `sessions` closed loops are spread over the coordinators.
    pub fn new(
        starts: Starts<S, C>,
        (shards, coordinators): (ShardId, CoordinatorId),
        sessions: usize,
        faults: Faults,
        seed: u64,
        logged: bool,
    ) -> Cluster<S, C> {
        let mut chance = Chance::from_seed(seed);
        let nodes = (0..shards).map(Node::Shard).chain((0..coordinators).map(Node::Coordinator)).collect();
        let mishap_every_us = faults.mishap_every_us;
        let mut cluster = Cluster {
            network: Network::new(faults, nodes, &mut chance),
            shards: (0..shards).map(|_| None).collect(),
            coordinators: Vec::new(),
            disks: (0..shards).map(|_| Disk::default()).collect(),
            starts,
            seats: (0..coordinators).collect(),
            heard_us: Vec::new(),
            restarted_us: 0,
            busy_until_us: vec![0; usize::from(shards)],
            workers: (0..shards).map(|_| BTreeMap::new()).collect(),
            worked: 0,
            highest_ms: vec![0; usize::from(shards)],
            answers_early: false,
            chance,
            now_us: 0,
            agenda: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            numbered: 0,
            busy: vec![false; sessions],
            begun: vec![(0, 0); sessions],
            given_up: 0,
            refused: None,
            hash: FxHasher::default(),
            log: logged.then(String::new),
        };
        (0..shards).for_each(|shard| cluster.start_shard(shard));
        (0..coordinators).for_each(|_| cluster.start_coordinator());
        for session in 0..sessions {
            cluster.plan(0, Happening::Turn(session));
        }
        cluster.plan(mishap_every_us, Happening::Mishap);
        cluster
    }

    fn start_shard(&mut self, shard: ShardId) {
        let records = self.disks[usize::from(shard)].log();
        self.shards[usize::from(shard)] = Some((self.starts.shard)(shard, records));
        self.restarted_us = self.now_us;
        let first_us = self.now_us + self.chance.below(TIMER_US);
        let crashes = self.disks[usize::from(shard)].crashes;
        self.plan(first_us, Happening::ShardTimer { shard, crashes });
        self.send_effects(shard, Effects::default());
    }

    /// Under the next id.
    fn start_coordinator(&mut self) {
        let coordinator = self.coordinators.len() as CoordinatorId;
        self.coordinators.push(Some((self.starts.coordinator)(coordinator)));
        self.heard_us.push(self.now_us);
        let first_us = self.now_us + self.chance.below(TIMER_US);
        self.plan(first_us, Happening::Timer { coordinator, times: 0 });
    }

    /// Number of crashes of a shard.
    pub fn crashes(&self) -> u64 {
        self.disks.iter().map(|disk| disk.crashes).sum()
    }

    /// Log that a restart of that shard would read now; none while something is not durable.
    pub fn durable_log(&self, shard: ShardId) -> Option<Vec<S::Record>> {
        let disk = &self.disks[usize::from(shard)];
        disk.is_synced().then(|| disk.log())
    }

    /// Everything that has ever become durable on that shard.
    pub fn durable(&self, shard: ShardId) -> &[S::Record] {
        self.disks[usize::from(shard)].durable()
    }

    /// Hash of all events: equal for equal seeds.
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
            && self.coordinators.iter().flatten().all(Coordinator::is_idle)
            && self.shards.iter().all(|shard| shard.as_ref().is_some_and(Shard::is_idle))
    }

    /// No more faults from now on. Gives the time when the last message arrives that they have held up.
    pub fn calm(&mut self) -> u64 {
        self.network.calm();
        let now_us = self.now_us;
        (0..self.shards.len() as ShardId).for_each(|shard| self.plan(now_us, Happening::Restart(shard)));
        self.note(|| format!("{now_us} no more faults"));
        let is_message = |number: &u64| {
            matches!(
                self.waiting[number],
                Happening::Requests { .. } | Happening::FromPeer { .. } | Happening::Replies { .. }
            )
        };
        let messages = self.agenda.iter().filter(|Reverse((_, number))| is_message(number));
        messages.map(|Reverse((time_us, _))| *time_us).max().unwrap_or(now_us)
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
        let free_us = happening.shard().map_or(now_us, |shard| self.busy_until_us[usize::from(shard)]);
        if free_us > now_us {
            return self.plan(free_us, happening);
        }
        match happening {
            Happening::Requests { coordinator, shard, progress, requests } => {
                (now_us, 1, coordinator, shard, requests.len()).hash(&mut self.hash);
                self.note(|| format!("{now_us} C{coordinator} to S{shard} {requests:?} {progress:?}"));
                self.on_requests(coordinator, shard, progress, requests);
            }
            Happening::FromPeer { from, shard, request } => {
                (now_us, 2, from, shard).hash(&mut self.hash);
                self.note(|| format!("{now_us} S{from} to S{shard} {request:?}"));
                let now_ms = self.shard_clock_ms(shard);
                let mut out = Effects::default();
                self.check_request(Sender::Shard(from), shard, &request);
                let Some(at) = &mut self.shards[usize::from(shard)] else { return };
                at.step(now_ms, Sender::Shard(from), request, &mut out);
                self.send_effects(shard, out);
            }
            Happening::Replies { shard, coordinator, epoch, replies } => {
                (now_us, 3, shard, coordinator, replies.len()).hash(&mut self.hash);
                self.note(|| format!("{now_us} S{shard} to C{coordinator} {replies:?} epoch {epoch}"));
                let now_ms = self.network.clock_ms(Node::Coordinator(coordinator), now_us);
                let mut out = Orders::default();
                let Some(to) = &mut self.coordinators[coordinator as usize] else { return };
                to.on_epoch(shard, epoch);
                for reply in replies {
                    to.on_reply(now_ms, reply, &mut out);
                }
                self.send_orders(coordinator, out, false, clients);
            }
            Happening::Timer { coordinator, times } => {
                let now_ms = self.network.clock_ms(Node::Coordinator(coordinator), now_us);
                let mut out = Orders::default();
                let Some(at) = &mut self.coordinators[coordinator as usize] else { return };
                if at.is_retired() {
                    self.note(|| format!("{now_us} C{coordinator} is retired"));
                    return self.end_coordinator(coordinator, clients);
                }
                at.on_timer(now_ms, &mut out);
                self.send_orders(coordinator, out, times % TIMERS_PER_WORD == 0, clients);
                self.plan(now_us + TIMER_US, Happening::Timer { coordinator, times: times + 1 });
            }
            Happening::ShardTimer { shard, crashes } => {
                if self.disks[usize::from(shard)].crashes == crashes {
                    self.on_shard_timer(shard);
                    self.plan(now_us + TIMER_US, Happening::ShardTimer { shard, crashes });
                }
            }
            Happening::Synced { shard, crashes } => {
                let disk = &mut self.disks[usize::from(shard)];
                if disk.crashes == crashes {
                    (now_us, 4, shard).hash(&mut self.hash);
                    let ready = disk.end_sync();
                    self.tell_durable(shard);
                    self.start_workers(shard);
                    ready.into_iter().for_each(|message| self.transmit(shard, message));
                    self.sync(shard);
                }
            }
            Happening::Work { shard, worker } => {
                (now_us, 9, shard, worker).hash(&mut self.hash);
                self.on_work(shard, worker);
            }
            Happening::Restart(shard) => {
                if self.shards[usize::from(shard)].is_none() {
                    (now_us, 5, shard).hash(&mut self.hash);
                    self.note(|| format!("{now_us} S{shard} starts again"));
                    self.start_shard(shard);
                }
            }
            Happening::Turn(session) => self.on_turn(session, clients),
            Happening::GiveUp { session, begun } => self.on_give_up(session, begun, clients),
            Happening::Mishap => {
                self.occupy_shard();
                let faults = &self.network.faults;
                let (down_us_max, coordinators_die) = (faults.shard_down_us_max, faults.coordinators_die);
                match self.chance.below(5) {
                    3 if down_us_max > 0 => self.crash_shard(down_us_max),
                    4 if coordinators_die => {
                        let coordinator = self.chance.pick(&self.seats);
                        self.note(|| format!("{now_us} C{coordinator} dies"));
                        self.end_coordinator(coordinator, clients);
                    }
                    _ => {
                        let what = self.network.mishap(now_us, &mut self.chance);
                        self.note(|| format!("{now_us} {what}"));
                    }
                }
                let pause_us = self.chance.between(1, 2 * self.network.faults.mishap_every_us);
                self.plan(now_us + pause_us, Happening::Mishap);
            }
        }
    }

    fn shard_clock_ms(&mut self, shard: ShardId) -> u64 {
        let now_ms = self.network.clock_ms(Node::Shard(shard), self.now_us);
        let highest_ms = &mut self.highest_ms[usize::from(shard)];
        *highest_ms = now_ms.max(*highest_ms);
        now_ms
    }

    fn on_shard_timer(&mut self, shard: ShardId) {
        let now_ms = self.shard_clock_ms(shard);
        let mut out = Effects::default();
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        at.on_timer(now_ms, &mut out);
        let (disk, every) = (&mut self.disks[usize::from(shard)], self.network.faults.snapshot_every);
        disk.append(at.take_records());
        // A part at a time: a shard goes on while it is written.
        let is_first = !disk.wants_part();
        if !is_first || every > 0 && disk.length() > every && at.may_snapshot() {
            match at.snapshot_part(is_first, PART_BYTES) {
                Some((part, has_more)) => disk.add_part(part, has_more),
                None => disk.give_up_snapshot(),
            }
        }
        self.send_effects(shard, out);
    }

    /// Some shard begins to compute for long, where that is a fault of the run.
    fn occupy_shard(&mut self) {
        let busy_us_max = self.network.faults.busy_us_max;
        if busy_us_max > 0 {
            let shard = self.chance.below(self.shards.len() as u64) as usize;
            let free_us = self.now_us + self.chance.between(1, busy_us_max);
            self.busy_until_us[shard] = free_us.max(self.busy_until_us[shard]);
            let now_us = self.now_us;
            self.note(|| format!("{now_us} S{shard} computes until {free_us}"));
        }
    }

    /// Some shard loses all that is not durable, and starts again a while later.
    fn crash_shard(&mut self, down_us_max: u64) {
        let shard = self.chance.below(self.shards.len() as u64) as ShardId;
        if self.shards[usize::from(shard)].take().is_none() {
            return;
        }
        self.workers[usize::from(shard)].clear();
        let disk = &mut self.disks[usize::from(shard)];
        let (unsynced, survives) = (disk.unsynced() as u64, self.network.faults.tail_survives);
        let survive = if survives { self.chance.between(0, unsynced) } else { 0 };
        disk.crash(survive as usize);
        self.busy_until_us[usize::from(shard)] = 0;
        let now_us = self.now_us;
        (now_us, 6, shard, survive).hash(&mut self.hash);
        self.note(|| format!("{now_us} S{shard} crashes; of {unsynced} records {survive} survive"));
        let restart_us = now_us + self.chance.between(1, down_us_max);
        self.plan(restart_us, Happening::Restart(shard));
    }

    /// The coordinator is no more; its clients go on with a new one.
    fn end_coordinator(
        &mut self,
        coordinator: CoordinatorId,
        clients: &mut impl Clients<C::Transaction, C::Done>,
    ) {
        (self.now_us, 7, coordinator).hash(&mut self.hash);
        let Some(mut dead) = self.coordinators[coordinator as usize].take() else { return };
        let Some(seat) = self.seats.iter().position(|one| *one == coordinator) else { return };
        let new = self.coordinators.len() as CoordinatorId;
        self.seats[seat] = new;
        self.network.replace(Node::Coordinator(coordinator), Node::Coordinator(new));
        self.start_coordinator();
        for session in (seat..self.busy.len()).step_by(self.seats.len()) {
            if std::mem::take(&mut self.busy[session]) {
                clients.lost(session, dead.txn_of(self.tag(session)));
                self.plan(self.now_us, Happening::Turn(session));
            } else {
                clients.moved(session);
            }
        }
    }

    fn on_turn(&mut self, session: usize, clients: &mut impl Clients<C::Transaction, C::Done>) {
        let Some(transaction) = clients.next(session, self.now_us, &mut self.chance) else {
            self.plan(self.now_us + TIMER_US, Happening::Turn(session));
            return;
        };
        self.busy[session] = true;
        self.begun[session].0 += 1;
        if let Some(patience_us) = clients.patience_us(&mut self.chance) {
            let begun = self.begun[session].0;
            self.plan(self.now_us + patience_us, Happening::GiveUp { session, begun });
        }
        let (coordinator, tag) = (self.coordinator_of(session), self.tag(session));
        let now_ms = self.network.clock_ms(Node::Coordinator(coordinator), self.now_us);
        let mut out = Orders::default();
        let at = self.coordinators[coordinator as usize].as_mut().expect("no seat is empty");
        at.begin(now_ms, tag, transaction, &mut out);
        self.send_orders(coordinator, out, false, clients);
    }

    fn coordinator_of(&self, session: usize) -> CoordinatorId {
        self.seats[session % self.seats.len()]
    }

    fn tag(&self, session: usize) -> u64 {
        self.begun[session].1 * self.busy.len() as u64 + session as u64
    }

    fn on_give_up(
        &mut self,
        session: usize,
        begun: u64,
        clients: &mut impl Clients<C::Transaction, C::Done>,
    ) {
        if !self.busy[session] || self.begun[session].0 != begun {
            return;
        }
        let (coordinator, tag) = (self.coordinator_of(session), self.tag(session));
        let at = self.coordinators[coordinator as usize].as_mut().expect("no seat is empty");
        let txn = at.txn_of(tag);
        let given_up = at.give_up(tag);
        let txn = txn.filter(|_| given_up == GivenUp::Unknown);
        (self.now_us, 8, session).hash(&mut self.hash);
        let now_us = self.now_us;
        self.note(|| format!("{now_us} session {session} gives up {txn:?}"));
        self.busy[session] = false;
        self.begun[session].1 += 1;
        self.given_up += 1;
        clients.lost(session, txn);
        self.plan(now_us, Happening::Turn(session));
    }

    /// Starts the work that the steps of the shard have left.
    fn start_workers(&mut self, shard: ShardId) {
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        for work in at.take_work() {
            let worker = self.worked;
            self.worked += 1;
            self.workers[usize::from(shard)].insert(worker, Worker::new(work));
            self.plan_work(shard, worker);
        }
    }

    fn plan_work(&mut self, shard: ShardId, worker: u64) {
        let at_us = self.now_us + self.chance.between(1, WORKER_PAUSE_US_MAX);
        self.plan(at_us, Happening::Work { shard, worker });
    }

    fn on_work(&mut self, shard: ShardId, worker: u64) {
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        let workers = &mut self.workers[usize::from(shard)];
        let Some(running) = workers.get_mut(&worker) else { return };
        at.end_turn();
        let is_done = running.resume();
        at.begin_turn();
        if !is_done {
            return self.plan_work(shard, worker);
        }
        workers.remove(&worker);
        let now_ms = self.shard_clock_ms(shard);
        let mut out = Effects::default();
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        at.on_work_done(now_ms, &mut out);
        self.send_effects(shard, out);
    }

    fn on_requests(
        &mut self,
        coordinator: CoordinatorId,
        shard: ShardId,
        progress: S::Progress,
        requests: Vec<S::Request>,
    ) {
        let now_ms = self.shard_clock_ms(shard);
        self.heard_us[coordinator as usize] = self.now_us;
        let mut out = Effects::default();
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        if let Some(why) = at.refuses(&progress) {
            let what = || format!("shard {shard} refuses coordinator {coordinator}: {why}: {progress:?}");
            self.refused.get_or_insert_with(what);
        }
        at.on_progress(now_ms, coordinator, progress);
        for request in requests {
            self.check_request(Sender::Coordinator(coordinator), shard, &request);
            let Some(at) = &mut self.shards[usize::from(shard)] else { return };
            at.step(now_ms, Sender::Coordinator(coordinator), request, &mut out);
            self.disks[usize::from(shard)].append(at.take_records());
        }
        self.send(shard, out, Some(coordinator));
    }

    /// Notes a request for which a server would end the sender's connection.
    fn check_request(&mut self, from: Sender, shard: ShardId, request: &S::Request) {
        let shards = self.shards.len() as ShardId;
        let Some(at) = &self.shards[usize::from(shard)] else { return };
        if self.refused.is_none()
            && let Some(why) = at.refuses_request(from, request, shards)
        {
            self.refused = Some(format!("shard {shard} refuses {from:?}: {why}: {request:?}"));
        }
    }

    /// Takes the records of a step, and sends its messages.
    fn send_effects(&mut self, shard: ShardId, out: Effects<S::Request, S::Reply>) {
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        self.disks[usize::from(shard)].append(at.take_records());
        self.send(shard, out, None);
    }

    /// Sends messages, each once the log is durable up to the position that it carries. `answering`: that coordinator gets the shard's
    /// epoch even if there is no reply for it.
    fn send(&mut self, shard: ShardId, out: Effects<S::Request, S::Reply>, answering: Option<CoordinatorId>) {
        let Some(at) = &mut self.shards[usize::from(shard)] else { return };
        let (epoch, disk, early) = (at.epoch(), &mut self.disks[usize::from(shard)], self.answers_early);
        let after = |after| if early { Lsn::START } else { after };
        let mut batches: BTreeMap<(CoordinatorId, Lsn), Vec<S::Reply>> = BTreeMap::new();
        for reply in out.replies {
            batches.entry((reply.to, after(reply.after))).or_default().push(reply.message);
        }
        let is_told = |coordinator: &CoordinatorId| batches.keys().any(|(to, _)| to == coordinator);
        let word = answering.filter(|coordinator| !is_told(coordinator));
        batches.extend(word.map(|coordinator| ((coordinator, disk.noted()), Vec::new())));
        let replies = batches
            .into_iter()
            .map(|((coordinator, after), replies)| (after, Message::Replies { coordinator, epoch, replies }));
        let peers = out.peers.into_iter().map(|request| {
            (after(request.after), Message::Peer { shard: request.to, request: request.message })
        });
        let messages = replies.chain(peers);
        let ready: Vec<Message<S>> =
            messages.filter_map(|(after, message)| disk.hold(after, message)).collect();
        ready.into_iter().for_each(|message| self.transmit(shard, message));
        self.sync(shard);
        self.start_workers(shard);
    }

    /// Starts the next sync of the disk, if anything is unsynced; one sync at a time.
    fn sync(&mut self, shard: ShardId) {
        let disk = &mut self.disks[usize::from(shard)];
        if disk.is_synced() || disk.syncing.is_some() {
            return;
        }
        disk.begin_sync();
        let (crashes, sync_us_max) = (disk.crashes, self.network.faults.sync_us_max);
        if sync_us_max == 0 {
            let ready = disk.end_sync();
            self.tell_durable(shard);
            ready.into_iter().for_each(|message| self.transmit(shard, message));
        } else {
            let synced_us = self.now_us + self.chance.between(1, sync_us_max);
            self.plan(synced_us, Happening::Synced { shard, crashes });
        }
    }

    fn tell_durable(&mut self, shard: ShardId) {
        let durable = self.disks[usize::from(shard)].durable_lsn();
        if let Some(at) = &mut self.shards[usize::from(shard)] {
            at.on_durable(durable);
        }
    }

    fn transmit(&mut self, shard: ShardId, message: Message<S>) {
        let (from, to) = match &message {
            Message::Replies { coordinator, .. } => (Node::Shard(shard), Node::Coordinator(*coordinator)),
            Message::Peer { shard: peer, .. } => (Node::Shard(shard), Node::Shard(*peer)),
        };
        for arrival in self.network.arrivals(from, to, self.now_us, &mut self.chance) {
            let happening = match &message {
                Message::Replies { coordinator, epoch, replies } => {
                    let (coordinator, epoch, replies) = (*coordinator, *epoch, replies.clone());
                    Happening::Replies { shard, coordinator, epoch, replies }
                }
                Message::Peer { shard: peer, request } => {
                    Happening::FromPeer { from: shard, shard: *peer, request: request.clone() }
                }
            };
            self.plan(arrival, happening);
        }
    }

    /// `to_all`: shards get a word of the coordinator's progress even if it asks them for nothing.
    fn send_orders(
        &mut self,
        coordinator: CoordinatorId,
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
            let at = self.coordinators[coordinator as usize].as_mut().expect("only the living send");
            let progress = at.progress(shard);
            let (from, to) = (Node::Coordinator(coordinator), Node::Shard(shard));
            for arrival in self.network.arrivals(from, to, self.now_us, &mut self.chance) {
                let (progress, requests) = (progress.clone(), requests.clone());
                self.plan(arrival, Happening::Requests { coordinator, shard, progress, requests });
            }
        }
        for (tag, done) in out.done {
            let session = (tag % self.busy.len() as u64) as usize;
            if tag != self.tag(session) {
                // It has given that up.
                continue;
            }
            assert!(std::mem::take(&mut self.busy[session]), "session {session} has been answered twice");
            clients.done(session, self.now_us, done);
            let thinks_us = if self.chance.per_mille(500) { 0 } else { self.chance.below(5_000) };
            self.plan(self.now_us + thinks_us, Happening::Turn(session));
        }
    }
}
