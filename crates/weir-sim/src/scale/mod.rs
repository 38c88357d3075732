//! Many servers in virtual time, where what is charged is measured: how a protocol scales (docs/internals/scale.md).
//!
//! Drives the same shards and coordinators as every deployment, batch by batch as the embedded cluster does: a core
//! takes everything that has come, runs it to completion, and then sends one batch to each server for which it has
//! something. What that takes of the core a [`Tariff`] and the [`Wire`] say; how long batches are on their way,
//! [`Network`]. Everything follows from the seed. There are no faults here (for those see [`crate::Cluster`]), and
//! nothing is sent again.

mod latency;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_core::ids::{CoordinatorId, Sender, ShardId};
use weir_core::machine::{Coordinator, CoordinatorOf, Effects, Orders, Shard};

use crate::chance::Chance;
pub use latency::{Network, World};

/// Processor time of a protocol's steps, in picoseconds, and message sizes.
pub trait Tariff<S: Shard, C: Coordinator> {
    fn begin_ps(&self, transaction: &C::Transaction) -> u64;
    fn request(&self, request: &S::Request) -> Charge;
    fn reply(&self, reply: &S::Reply) -> Charge;
    /// Cost of a batch's progress, at the shard that takes it and at the coordinator that sends it.
    fn progress_ps(&self) -> u64;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Charge {
    /// To handle it.
    pub handling_ps: u64,
    /// On the wire.
    pub bytes: u64,
}

/// Cost of message transport, whatever the contents.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    /// To send a batch to another server, and to receive one: a system call each, with the network stack.
    pub batch_out_ps: u64,
    pub batch_in_ps: u64,
    /// To encode and to decode a message, and each of its bytes.
    pub message_out_ps: u64,
    pub message_in_ps: u64,
    pub byte_out_ps: u64,
    pub byte_in_ps: u64,
    /// Size of a batch's header.
    pub batch_bytes: u64,
    /// To pass a batch from one core of a server to another.
    pub handover_ps: u64,
}

/// A server's link to the network: ten gigabits a second (ramp.txt §5.4).
const LINK_PS_PER_BYTE: u64 = 800;

/// From one core of a server to another.
const NEIGHBOUR_PS: u64 = 1_000_000;

/// Size of a client's transaction and its answer, without the operations themselves.
const CLIENT_BYTES: u64 = 64;

/// The clients of all servers: closed loops, each at its server's coordinator.
pub trait Clients<T, D> {
    fn next(&mut self, coordinator: usize, client: u64) -> T;
    /// `took_ps`: from when the client asked until it is answered.
    fn done(&mut self, done: D, took_ps: u64);
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub servers: usize,
    /// Each with a shard, a coordinator and a queue of its own.
    pub cores: usize,
    /// Clients of each core.
    pub clients: u64,
    pub network: Network,
    pub wire: Wire,
    pub seed: u64,
}

/// Work of the servers since the last call of [`Scale::take_work`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Share of the time during which cores were busy.
    pub busy: f64,
    /// Batches between servers, and the messages in them.
    pub batches: u64,
    pub messages: u64,
    pub bytes: u64,
}

pub struct Scale<S: Shard, C: Coordinator, T> {
    setup: Setup,
    tariff: T,
    cores: Vec<Core<S, C>>,
    chance: Chance,
    now_ps: u64,
    /// Scheduled events, by time, then by number.
    agenda: BinaryHeap<Reverse<(u64, u64, Event)>>,
    numbered: u64,
    /// Deliveries in flight, by position; and free positions.
    in_flight: Vec<Option<Delivery<S>>>,
    free: Vec<u32>,
    /// By link, arrival time of the last batch: links preserve order.
    last_ps: Vec<u64>,
    /// By server: when its link is free again.
    link_free_ps: Vec<u64>,
    outgoing: Outgoing<S>,
    since_ps: u64,
    busy_ps: u64,
    work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A delivery in this place comes to this core.
    Arrive(u32, u32),
    /// The core takes what has come.
    Turn(u32),
}

struct Core<S: Shard, C: Coordinator> {
    shard: S,
    coordinator: C,
    inbox: Vec<Delivery<S>>,
    free_ps: u64,
    /// A turn is on the agenda.
    is_due: bool,
    /// By client: when it asked.
    asked_ps: Vec<u64>,
}

struct Delivery<S: Shard> {
    from: u32,
    bytes: u64,
    progress: Option<S::Progress>,
    requests: Vec<S::Request>,
    epoch: u64,
    replies: Vec<S::Reply>,
    peers: Vec<S::Request>,
    /// Clients of this core that ask for their next transaction.
    clients: Vec<u64>,
}

impl<S: Shard> Delivery<S> {
    fn new(from: u32) -> Delivery<S> {
        Delivery {
            from,
            bytes: 0,
            progress: None,
            requests: Vec::new(),
            epoch: 0,
            replies: Vec::new(),
            peers: Vec::new(),
            clients: Vec::new(),
        }
    }

    fn messages(&self) -> u64 {
        (self.requests.len() + self.replies.len() + self.peers.len() + self.clients.len()) as u64
    }
}

/// Messages of a turn, by core.
struct Outgoing<S: Shard> {
    /// By core: its position in the list, if it is contained.
    places: Vec<u32>,
    list: Vec<(u32, Delivery<S>)>,
}

const NOWHERE: u32 = u32::MAX;

impl<S: Shard> Outgoing<S> {
    fn to(&mut self, core: usize, from: u32) -> &mut Delivery<S> {
        if self.places[core] == NOWHERE {
            self.places[core] = self.list.len() as u32;
            self.list.push((core as u32, Delivery::new(from)));
        }
        &mut self.list[self.places[core] as usize].1
    }
}

const START_MS: u64 = 1_700_000_000_000;

impl<S, C, T> Scale<S, C, T>
where
    S: Shard,
    C: CoordinatorOf<S>,
    T: Tariff<S, C>,
{
    /// Shard and coordinator of each core, in order of their ids, which count from 0.
    pub fn new(setup: Setup, tariff: T, machines: impl IntoIterator<Item = (S, C)>) -> Scale<S, C, T> {
        let core = |(shard, coordinator)| Core {
            shard,
            coordinator,
            inbox: Vec::new(),
            free_ps: 0,
            is_due: false,
            asked_ps: vec![0; setup.clients as usize],
        };
        let cores: Vec<Core<S, C>> = machines.into_iter().map(core).collect();
        assert_eq!(cores.len(), setup.servers * setup.cores, "a shard and a coordinator for each core");
        Scale {
            chance: Chance::from_seed(setup.seed),
            now_ps: 0,
            agenda: BinaryHeap::new(),
            numbered: 0,
            in_flight: Vec::new(),
            free: Vec::new(),
            last_ps: vec![0; cores.len() * cores.len()],
            link_free_ps: vec![0; setup.servers],
            outgoing: Outgoing { places: vec![NOWHERE; cores.len()], list: Vec::new() },
            since_ps: 0,
            busy_ps: 0,
            work: Work::default(),
            setup,
            tariff,
            cores,
        }
    }

    /// Runs a transaction to its end before anything is charged: to load, and to make everybody known to everybody.
    pub fn prime(&mut self, coordinator: usize, transaction: C::Transaction) {
        let mut orders = Orders::default();
        self.cores[coordinator].coordinator.begin(START_MS, 0, transaction, &mut orders);
        while !orders.sends.is_empty() {
            for (shard, request) in std::mem::take(&mut orders.sends) {
                let progress = self.cores[coordinator].coordinator.progress(shard);
                let at = &mut self.cores[usize::from(shard)].shard;
                at.on_progress(START_MS, coordinator as CoordinatorId, progress);
                let mut effects = Effects::default();
                at.step(START_MS, Sender::Coordinator(coordinator as CoordinatorId), request, &mut effects);
                let mut peers: Vec<_> =
                    effects.peers.into_iter().map(|one| (shard, one.to, one.message)).collect();
                let mut replies: Vec<_> =
                    effects.replies.into_iter().map(|one| (shard, one.message)).collect();
                while let Some((from, to, request)) = peers.pop() {
                    let mut effects = Effects::default();
                    self.cores[usize::from(to)].shard.step(
                        START_MS,
                        Sender::Shard(from),
                        request,
                        &mut effects,
                    );
                    peers.extend(effects.peers.into_iter().map(|one| (to, one.to, one.message)));
                    replies.extend(effects.replies.into_iter().map(|one| (to, one.message)));
                }
                for (shard, reply) in replies {
                    let epoch = self.cores[usize::from(shard)].shard.epoch();
                    self.cores[coordinator].coordinator.on_epoch(shard, epoch);
                    self.cores[coordinator].coordinator.on_reply(START_MS, reply, &mut orders);
                }
            }
        }
        assert!(
            self.cores[coordinator].coordinator.is_idle(),
            "nothing is in the way of a transaction alone"
        );
    }

    /// All clients ask for their first transaction, spread over a millisecond.
    pub fn start(&mut self) {
        for core in 0..self.cores.len() as u32 {
            for client in 0..self.setup.clients {
                let at_ps = self.now_ps + self.chance.below(1_000_000_000);
                self.cores[core as usize].asked_ps[client as usize] = at_ps;
                let delivery = Delivery { clients: vec![client], ..Delivery::new(core) };
                self.deliver(at_ps, core, delivery);
            }
        }
    }

    /// Lets so much time pass.
    pub fn run(&mut self, seconds: f64, clients: &mut impl Clients<C::Transaction, C::Done>) {
        let until_ps = self.now_ps + (seconds * 1e12) as u64;
        while let Some(Reverse((time_ps, _, event))) = self.agenda.peek().copied()
            && time_ps <= until_ps
        {
            self.agenda.pop();
            self.now_ps = time_ps;
            match event {
                Event::Arrive(place, core) => self.arrive(place, core),
                Event::Turn(core) => self.turn(core, clients),
            }
        }
        self.now_ps = until_ps;
    }

    /// Work since the last call.
    pub fn take_work(&mut self) -> Work {
        let passed_ps = (self.now_ps - self.since_ps).max(1) as f64 * self.cores.len() as f64;
        let work = Work { busy: self.busy_ps as f64 / passed_ps, ..self.work };
        (self.since_ps, self.busy_ps, self.work) = (self.now_ps, 0, Work::default());
        work
    }

    pub fn shards(&self) -> impl Iterator<Item = &S> {
        self.cores.iter().map(|core| &core.shard)
    }

    fn plan(&mut self, time_ps: u64, event: Event) {
        self.agenda.push(Reverse((time_ps, self.numbered, event)));
        self.numbered += 1;
    }

    fn deliver(&mut self, time_ps: u64, core: u32, delivery: Delivery<S>) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            self.in_flight.len() as u32 - 1
        });
        self.in_flight[place as usize] = Some(delivery);
        self.plan(time_ps, Event::Arrive(place, core));
    }

    fn arrive(&mut self, place: u32, at: u32) {
        let delivery = self.in_flight[place as usize].take().expect("what arrives was under way");
        self.free.push(place);
        let core = &mut self.cores[at as usize];
        core.inbox.push(delivery);
        if !core.is_due {
            core.is_due = true;
            let begins_ps = core.free_ps.max(self.now_ps);
            self.plan(begins_ps, Event::Turn(at));
        }
    }

    fn server_of(&self, core: u32) -> usize {
        core as usize / self.setup.cores
    }

    fn turn(&mut self, at: u32, clients: &mut impl Clients<C::Transaction, C::Done>) {
        let now_ms = START_MS + self.now_ps / 1_000_000_000;
        let mut cost_ps = 0;
        let mut inbox = std::mem::take(&mut self.cores[at as usize].inbox);
        let mut effects = Effects::default();
        let mut orders = Orders::default();
        for delivery in &mut inbox {
            cost_ps += self.receive_ps(at, delivery);
            cost_ps += self.serve(at, now_ms, delivery, &mut effects);
        }
        self.sort_effects(at, effects);
        // Shards first: what they answer to clients of this core is taken in the same turn.
        if self.outgoing.places[at as usize] != NOWHERE {
            let place = self.outgoing.places[at as usize] as usize;
            let own = &mut self.outgoing.list[place].1;
            let mut own = Delivery { replies: std::mem::take(&mut own.replies), ..Delivery::new(at) };
            own.epoch = self.cores[at as usize].shard.epoch();
            inbox.push(own);
        }
        for delivery in &mut inbox {
            cost_ps += self.take_replies(at, now_ms, delivery, &mut orders);
        }
        let mut asking: Vec<u64> = inbox.iter_mut().flat_map(|delivery| delivery.clients.drain(..)).collect();
        cost_ps += self.serve_clients(at, now_ms, &mut asking, cost_ps, &mut orders, clients);
        for (shard, request) in orders.sends {
            self.outgoing.to(usize::from(shard), at).requests.push(request);
        }
        self.send(at, cost_ps);
    }

    /// To take the batch off the network.
    fn receive_ps(&self, at: u32, delivery: &Delivery<S>) -> u64 {
        let wire = &self.setup.wire;
        // Clients are on other machines.
        let is_far = !delivery.clients.is_empty() || self.server_of(delivery.from) != self.server_of(at);
        match is_far {
            true => {
                let messages_ps = wire.message_in_ps * delivery.messages();
                wire.batch_in_ps + messages_ps + wire.byte_in_ps * delivery.bytes
            }
            false if delivery.from != at => wire.handover_ps,
            false => 0,
        }
    }

    fn serve(
        &mut self,
        at: u32,
        now_ms: u64,
        delivery: &mut Delivery<S>,
        effects: &mut Effects<S::Request, S::Reply>,
    ) -> u64 {
        let core = &mut self.cores[at as usize];
        let mut cost_ps = 0;
        if let Some(progress) = delivery.progress.take() {
            core.shard.on_progress(now_ms, CoordinatorId::from(delivery.from), progress);
            cost_ps += self.tariff.progress_ps();
        }
        for request in delivery.requests.drain(..) {
            cost_ps += self.tariff.request(&request).handling_ps;
            core.shard.step(now_ms, Sender::Coordinator(delivery.from.into()), request, effects);
        }
        for request in delivery.peers.drain(..) {
            cost_ps += self.tariff.request(&request).handling_ps;
            core.shard.step(now_ms, Sender::Shard(delivery.from as ShardId), request, effects);
        }
        cost_ps
    }

    fn sort_effects(&mut self, at: u32, effects: Effects<S::Request, S::Reply>) {
        for reply in effects.replies {
            self.outgoing.to(reply.to as usize, at).replies.push(reply.message);
        }
        for request in effects.peers {
            self.outgoing.to(usize::from(request.to), at).peers.push(request.message);
        }
    }

    fn take_replies(
        &mut self,
        at: u32,
        now_ms: u64,
        delivery: &mut Delivery<S>,
        orders: &mut Orders<S::Request, C::Done>,
    ) -> u64 {
        if delivery.replies.is_empty() {
            return 0;
        }
        let coordinator = &mut self.cores[at as usize].coordinator;
        coordinator.on_epoch(delivery.from as ShardId, delivery.epoch);
        let mut cost_ps = 0;
        for reply in delivery.replies.drain(..) {
            cost_ps += self.tariff.reply(&reply).handling_ps;
            coordinator.on_reply(now_ms, reply, orders);
        }
        cost_ps
    }

    /// Begins what clients ask for, and answers those whose transactions are done: they ask for the next one as soon as
    /// they have the answer.
    fn serve_clients(
        &mut self,
        at: u32,
        now_ms: u64,
        asking: &mut Vec<u64>,
        spent_ps: u64,
        orders: &mut Orders<S::Request, C::Done>,
        clients: &mut impl Clients<C::Transaction, C::Done>,
    ) -> u64 {
        let mut cost_ps = 0;
        for client in asking.drain(..) {
            let transaction = clients.next(at as usize, client);
            cost_ps += self.tariff.begin_ps(&transaction);
            self.cores[at as usize].coordinator.begin(now_ms, client, transaction, orders);
        }
        if orders.done.is_empty() {
            return cost_ps;
        }
        let answered = orders.done.len() as u64;
        let wire = self.setup.wire;
        cost_ps += wire.batch_out_ps + answered * (wire.message_out_ps + wire.byte_out_ps * CLIENT_BYTES);
        let here = self.server_of(at);
        let round_trip_ps = Network::Lan.round_trip_ps(here, here, &mut self.chance);
        let answered_ps = self.now_ps + spent_ps + cost_ps + round_trip_ps / 2;
        let mut next = Delivery { bytes: answered * CLIENT_BYTES, ..Delivery::new(at) };
        for (client, done) in orders.done.drain(..) {
            let asked_ps = &mut self.cores[at as usize].asked_ps[client as usize];
            clients.done(done, answered_ps - *asked_ps);
            *asked_ps = answered_ps;
            next.clients.push(client);
        }
        self.deliver(answered_ps + round_trip_ps / 2, at, next);
        cost_ps
    }

    /// Sends what the turn has left, once the core has done everything.
    fn send(&mut self, at: u32, mut cost_ps: u64) {
        let mut list = std::mem::take(&mut self.outgoing.list);
        let here = self.server_of(at);
        for (to, delivery) in &mut list {
            self.outgoing.places[*to as usize] = NOWHERE;
            let core = &mut self.cores[at as usize];
            if !delivery.requests.is_empty() {
                delivery.progress = Some(core.coordinator.progress(*to as ShardId));
                cost_ps += self.tariff.progress_ps();
            }
            delivery.epoch = core.shard.epoch();
            if self.server_of(*to) != here {
                let requests = delivery.requests.iter().chain(&delivery.peers);
                let bytes: u64 = requests.map(|request| self.tariff.request(request).bytes).sum();
                let replies: u64 = delivery.replies.iter().map(|reply| self.tariff.reply(reply).bytes).sum();
                delivery.bytes = self.setup.wire.batch_bytes + bytes + replies;
                let wire = &self.setup.wire;
                let messages = delivery.messages();
                cost_ps +=
                    wire.batch_out_ps + wire.message_out_ps * messages + wire.byte_out_ps * delivery.bytes;
                self.work.batches += 1;
                self.work.messages += messages;
                self.work.bytes += delivery.bytes;
            }
        }
        let core = &mut self.cores[at as usize];
        core.free_ps = self.now_ps + cost_ps;
        core.is_due = false;
        self.busy_ps += cost_ps;
        let free_ps = core.free_ps;
        for (to, delivery) in list.drain(..).filter(|(_, delivery)| delivery.messages() > 0) {
            let arrives_ps = self.arrival_ps(at, to, free_ps, delivery.bytes);
            self.deliver(arrives_ps, to, delivery);
        }
        self.outgoing.list = list;
    }

    fn arrival_ps(&mut self, from: u32, to: u32, leaves_ps: u64, bytes: u64) -> u64 {
        let (here, there) = (self.server_of(from), self.server_of(to));
        if from == to {
            return leaves_ps;
        }
        let arrives_ps = if here == there {
            leaves_ps + NEIGHBOUR_PS
        } else {
            let link_ps = &mut self.link_free_ps[here];
            *link_ps = (*link_ps).max(leaves_ps) + bytes * LINK_PS_PER_BYTE;
            *link_ps + self.setup.network.round_trip_ps(here, there, &mut self.chance) / 2
        };
        let last_ps = &mut self.last_ps[from as usize * self.cores.len() + to as usize];
        *last_ps = arrives_ps.max(*last_ps);
        *last_ps
    }
}
