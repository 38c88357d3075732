//! The event loop: messages arrive, wait for the core of their machine, are served at a cost, and what they cause leaves when that is paid.
//!
//! A machine serves what has arrived in the order of arrival, so its step is run when its message arrives, with the time at which its
//! service begins. Records are durable at once: logs are in memory, as in eris.txt §8.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hdrhistogram::Histogram;
use weir_baselines::eris::machine::{Client, Effects, Protocol, Server};
use weir_baselines::eris::operation::Operation;
use weir_baselines::eris::workload::{Generator, Workload};
use weir_core::ids::CoordinatorId;
use weir_core::lsn::Outgoing;
use weir_ordered::cluster::{Cluster, Timeouts};
use weir_ordered::message::Party;

use crate::costs::{CarriesLog, Costs, Role, Step};
use crate::front_end::FrontEnd;
use crate::link::{Chance, Network};

/// Time without load after the last client is ready, in which the machines come to rest.
const QUIET_NS: u64 = 20_000_000;
/// Clients that are not ready by then never are.
const READY_NS_MAX: u64 = 10_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// Machines of clients, as in eris.txt §8.
const FRONT_ENDS: usize = 10;
/// Places of sequencers: one serves, the other takes its place.
const SEQUENCERS: u64 = 2;
/// Packets that a replica keeps aside, at most.
const ASIDE_MAX: u64 = 100_000;

/// Interval of timers in `weir-ordered-net`.
pub const TICK_NS: u64 = 5_000_000;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub workload: Workload,
    /// Replicas of a shard, for protocols that replicate.
    pub replicas: u16,
    /// Transactions under way at any time, at least one.
    pub clients: usize,
    pub seed: u64,
    pub timeouts: Timeouts,
    /// Interval of the timers of all machines.
    pub tick_ns: u64,
    /// See [`Cluster::truncate_entries`].
    pub truncate_entries: u64,
    pub network: Network,
    pub costs: Costs,
    pub window: Window,
    /// From the begin of the load to the end of the sequencer that serves, which another one replaces.
    pub sequencer_ends_ns: Option<u64>,
}

/// How long is measured.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub least_ns: u64,
    pub most_ns: u64,
    /// Ends between the two once so many transactions are answered.
    pub answered: u64,
}

/// Counts of all parties of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    pub received: u64,
    pub sent: u64,
    pub busy_ns: u64,
}

/// Figures of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub seconds: f64,
    pub answered: u64,
    /// How often transactions were begun anew.
    pub aborts: u64,
    /// In nanoseconds.
    pub latency: Histogram<u64>,
    /// By the place in [`Role::ALL`].
    pub meters: [Meter; 4],
    /// Share of the time in which the busiest replica was busy.
    pub busiest_replica: f64,
    pub messages_lost: u64,
    /// Transactions answered in each millisecond since the begin of the load.
    pub answered_in: Vec<u64>,
}

impl Outcome {
    pub fn throughput(&self) -> f64 {
        self.answered as f64 / self.seconds
    }

    pub fn meter(&self, role: Role) -> Meter {
        self.meters[role as usize]
    }
}

enum Event<M> {
    Arrive { from: Party, to: Party, message: M },
    Tick(Party),
}

/// A server on a machine of its own.
struct Host<S> {
    party: Party,
    server: S,
    /// When its core has served everything that has arrived.
    free_ns: u64,
    is_ended: bool,
    /// Since the measurement has begun.
    busy_ns: u64,
    packets_sent: u64,
}

type MessageOf<P> = <<P as Protocol>::Server as Server>::Message;

/// A cluster and its clients in virtual time.
pub struct Simulation<'a, P: Protocol> {
    settings: &'a Settings,
    cluster: Cluster,
    /// Replicas first, by shard and number; then the services.
    hosts: Vec<Host<P::Server>>,
    front_ends: Vec<FrontEnd<P::Client>>,
    /// By time, then by the order in which they were scheduled; the last is the place among the events.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Event<MessageOf<P>>>>,
    free_places: Vec<usize>,
    scheduled: u64,
    now_ns: u64,
    chance: Chance,
    loss: f64,
    load_begun_ns: u64,
    outcome: Outcome,
}

impl<'a, P> Simulation<'a, P>
where
    P: Protocol<Client: Client<Operation = Operation>>,
    MessageOf<P>: CarriesLog,
{
    pub fn new(protocol: P, settings: &'a Settings) -> Simulation<'a, P> {
        let cluster = Cluster {
            shards: settings.workload.shards,
            replicas: settings.replicas,
            timeouts: settings.timeouts,
            truncate_entries: settings.truncate_entries,
            aside_max: ASIDE_MAX,
        };
        let cluster = Cluster { replicas: protocol.replicas(cluster), ..cluster };
        let mut simulation = Simulation {
            settings,
            cluster,
            hosts: hosts(protocol, cluster),
            front_ends: front_ends(protocol, cluster, settings),
            queue: BinaryHeap::new(),
            events: Vec::new(),
            free_places: Vec::new(),
            scheduled: 0,
            now_ns: 0,
            chance: Chance::from_seed(settings.seed),
            loss: 0.0,
            load_begun_ns: 0,
            outcome: no_outcome(),
        };
        simulation.schedule_ticks();
        simulation
    }

    /// Runs until the window has ended.
    pub fn run(mut self) -> Outcome {
        self.become_ready();
        self.begin_load();
        match self.settings.sequencer_ends_ns {
            Some(ends_ns) => self.run_with_failover(ends_ns),
            None => self.run_window(),
        }
        self.outcome
    }

    fn become_ready(&mut self) {
        while !self.front_ends.iter().all(FrontEnd::is_ready) {
            assert!(self.now_ns < READY_NS_MAX, "clients do not become ready");
            self.run_until(self.now_ns + NS_PER_MS);
        }
        self.run_until(self.now_ns + QUIET_NS);
    }

    fn begin_load(&mut self) {
        self.load_begun_ns = self.now_ns;
        self.loss = self.settings.network.loss;
        for at in 0..self.front_ends.len() {
            let mut out = Effects::default();
            self.front_ends[at].load(self.now_ns, &mut out);
            self.send(client(at), out.messages, self.now_ns);
        }
    }

    /// Warms up until every client has had several answers, then measures.
    fn run_window(&mut self) {
        let Window { least_ns, most_ns, answered } = self.settings.window;
        let several = 2 * self.settings.clients as u64;
        self.run_while(least_ns, most_ns, |outcome| outcome.answered < several);
        self.begin_measurement();
        let begun_ns = self.now_ns;
        self.run_while(least_ns, most_ns, |outcome| outcome.answered < answered.max(several));
        self.end_measurement(begun_ns);
    }

    /// Runs for the least time, and then until the condition or the most time ends.
    fn run_while(&mut self, least_ns: u64, most_ns: u64, goes_on: impl Fn(&Outcome) -> bool) {
        let begun_ns = self.now_ns;
        self.run_until(begun_ns + least_ns);
        while self.now_ns < begun_ns + most_ns && goes_on(&self.outcome) {
            self.run_until(self.now_ns + NS_PER_MS);
        }
    }

    fn run_with_failover(&mut self, ends_ns: u64) {
        self.begin_measurement();
        let begun_ns = self.now_ns;
        self.run_until(begun_ns + ends_ns);
        let serving = self.hosts.iter_mut().filter(|host| matches!(host.party, Party::Sequencer(_)));
        if let Some(host) = serving.max_by_key(|host| host.packets_sent) {
            host.is_ended = true;
        }
        self.run_until(begun_ns + self.settings.window.most_ns);
        self.end_measurement(begun_ns);
    }

    fn begin_measurement(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.busy_ns = 0);
        let answered_in = std::mem::take(&mut self.outcome.answered_in);
        self.outcome = Outcome { answered_in, ..no_outcome() };
    }

    fn end_measurement(&mut self, begun_ns: u64) {
        let measured_ns = self.now_ns - begun_ns;
        let replicas = self.hosts.iter().filter(|host| matches!(host.party, Party::Replica(_)));
        let busiest_ns = replicas.map(|host| host.busy_ns).max().unwrap_or(0);
        self.outcome.seconds = measured_ns as f64 / 1e9;
        self.outcome.busiest_replica = busiest_ns as f64 / measured_ns as f64;
    }

    /// Handles all events up to that moment.
    fn run_until(&mut self, until_ns: u64) {
        while let Some(Reverse((at_ns, _, place))) = self.queue.peek().copied()
            && at_ns <= until_ns
        {
            self.queue.pop();
            self.now_ns = at_ns;
            self.free_places.push(place);
            match self.events[place].take().expect("each event is scheduled once") {
                Event::Arrive { from, to, message } => self.give(to, Some((from, message))),
                Event::Tick(party) => {
                    self.give(party, None);
                    self.schedule(self.next_tick_ns(party), Event::Tick(party));
                }
            }
        }
        self.now_ns = until_ns;
    }

    fn schedule(&mut self, at_ns: u64, event: Event<MessageOf<P>>) {
        let place = self.free_places.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.queue.push(Reverse((at_ns, self.scheduled, place)));
        self.scheduled += 1;
    }

    /// Timers of different parties are due at different times.
    fn schedule_ticks(&mut self) {
        let servers = self.hosts.iter().map(|host| host.party);
        let parties: Vec<_> = servers.chain((0..self.front_ends.len()).map(client)).collect();
        let count = parties.len() as u64;
        for (place, party) in parties.into_iter().enumerate() {
            self.schedule(self.settings.tick_ns * place as u64 / count, Event::Tick(party));
        }
    }

    /// Gives a message to a party, or lets its timer be due.
    fn give(&mut self, to: Party, input: Option<(Party, MessageOf<P>)>) {
        if let Party::Client(id) = to {
            self.give_front_end(id as usize - 1, input);
        } else if let Some(at) = self.place_of(to) {
            self.serve(at, input);
        }
    }

    fn place_of(&self, party: Party) -> Option<usize> {
        match party {
            Party::Replica(id) => {
                Some(usize::from(id.shard) * usize::from(self.cluster.replicas) + usize::from(id.number))
            }
            _ => self.hosts.iter().rposition(|host| host.party == party),
        }
    }

    /// The timer of a busy machine is set when it has served what came before.
    fn next_tick_ns(&self, party: Party) -> u64 {
        let free_ns = self.place_of(party).map_or(0, |at| self.hosts[at].free_ns);
        self.now_ns.max(free_ns) + self.settings.tick_ns
    }

    fn serve(&mut self, at: usize, input: Option<(Party, MessageOf<P>)>) {
        let host = &mut self.hosts[at];
        if host.is_ended {
            return;
        }
        let begins_ns = self.now_ns.max(host.free_ns);
        let mut step = Step { received: u64::from(input.is_some()), ..Step::default() };
        step.entries = input.as_ref().map_or(0, |(_, message)| message.entries());
        let role = role_of(host);
        let mut out = Effects::default();
        match input {
            Some((from, message)) => host.server.step(begins_ns / NS_PER_MS, from, message, &mut out),
            None => host.server.on_timer(begins_ns / NS_PER_MS, &mut out),
        }
        drop(host.server.take_records());
        step.sent = out.messages.len() as u64;
        step.entries += out.messages.iter().map(|each| each.message.entries()).sum::<u64>();
        let service_ns = self.settings.costs.step_ns(role, step);
        host.free_ns = begins_ns + service_ns;
        host.busy_ns += service_ns;
        host.packets_sent += step.sent;
        let meter = &mut self.outcome.meters[role as usize];
        meter.received += step.received;
        meter.sent += step.sent;
        meter.busy_ns += service_ns;
        let (party, leaves_ns) = (host.party, host.free_ns);
        self.send(party, out.messages, leaves_ns);
    }

    fn give_front_end(&mut self, at: usize, input: Option<(Party, MessageOf<P>)>) {
        let Some(front_end) = self.front_ends.get_mut(at) else { return };
        let mut out = Effects::default();
        let answered = match input {
            Some(input) => front_end.step(self.now_ns, input, &mut out),
            None => {
                front_end.on_timer(self.now_ns, &mut out);
                None
            }
        };
        if let Some(answered) = answered {
            self.outcome.answered += 1;
            self.outcome.aborts += u64::from(answered.completed.aborts);
            self.outcome.latency.saturating_record(answered.latency_ns);
            let bucket = ((self.now_ns - self.load_begun_ns) / NS_PER_MS) as usize;
            let answered_in = &mut self.outcome.answered_in;
            answered_in.resize(answered_in.len().max(bucket + 1), 0);
            answered_in[bucket] += 1;
        }
        self.send(client(at), out.messages, self.now_ns);
    }

    fn send(&mut self, from: Party, messages: Vec<Outgoing<Party, MessageOf<P>>>, leaves_ns: u64) {
        for Outgoing { to, message, .. } in messages {
            if self.chance.happens(self.loss) {
                self.outcome.messages_lost += 1;
                continue;
            }
            let arrives_ns = leaves_ns + self.settings.network.delay_ns(from, to);
            self.schedule(arrives_ns, Event::Arrive { from, to, message });
        }
    }
}

fn client(at: usize) -> Party {
    Party::Client(at as CoordinatorId + 1)
}

fn role_of<S: Server>(host: &Host<S>) -> Role {
    match host.party {
        Party::Replica(_) if host.server.is_leader() => Role::Learner,
        Party::Replica(_) => Role::Follower,
        Party::Sequencer(_) => Role::Sequencer,
        Party::FailureCoordinator | Party::CoordinatorNode(_) | Party::Client(_) => Role::FailureCoordinator,
    }
}

fn no_outcome() -> Outcome {
    // A nanosecond to a minute, with three digits.
    let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds of latencies ascend");
    Outcome {
        seconds: 0.0,
        answered: 0,
        aborts: 0,
        latency,
        meters: [Meter::default(); 4],
        busiest_replica: 0.0,
        messages_lost: 0,
        answered_in: Vec::new(),
    }
}

fn hosts<P: Protocol>(protocol: P, cluster: Cluster) -> Vec<Host<P::Server>> {
    let host =
        |party, server| Host { party, server, free_ns: 0, is_ended: false, busy_ns: 0, packets_sent: 0 };
    let replicas = cluster.all_replicas();
    let replicas = replicas.map(|id| host(Party::Replica(id), protocol.server(0, id, cluster, 1, &[])));
    let mut hosts: Vec<_> = replicas.collect();
    for service in protocol.services(cluster) {
        // The id of a sequencer ends with its place.
        let parties = match service {
            Party::Sequencer(_) => (0..SEQUENCERS).map(|place| Party::Sequencer(1 << 8 | place)).collect(),
            _ => vec![service],
        };
        let services = parties.into_iter().filter_map(|party| {
            let server = protocol.service(0, party, cluster, &[])?;
            Some(host(party, server))
        });
        hosts.extend(services);
    }
    hosts
}

fn front_ends<P: Protocol<Client: Client<Operation = Operation>>>(
    protocol: P,
    cluster: Cluster,
    settings: &Settings,
) -> Vec<FrontEnd<P::Client>> {
    let generator = Generator::new(settings.workload, settings.seed);
    let count = FRONT_ENDS.min(settings.clients);
    let front_end = |at: usize| {
        let id = at as CoordinatorId + 1;
        let own = settings.clients * (at + 1) / count - settings.clients * at / count;
        let generator = generator.with_seed(settings.seed.wrapping_add(id << 16));
        FrontEnd::new(protocol.client(id, cluster), generator, own)
    };
    (0..count).map(front_end).collect()
}
