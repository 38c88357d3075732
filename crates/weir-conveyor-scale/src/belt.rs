//! Conveyor Belt in virtual time: the agents and the coordinator of `weir-conveyor` over modelled databases.
//!
//! The read-only baseline runs on the same machines: operations that only read are commutative there, and all others are global ones of the
//! first server, whose visits feed the others.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use weir_conveyor::agent::Agent;
use weir_conveyor::coordinator::Coordinator;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::faults::NoFaults;
use weir_conveyor::message::{
    AgentMessage, Effects, Instruction, Instructions, OperationId, Outcome as Answer, Report,
};
use weir_conveyor::routing::ServerSet;
use weir_conveyor::settings::Settings;
use weir_conveyor::work::{Work, WorkId};

use crate::agenda::Agenda;
use crate::chance::Chance;
use crate::database::{Database, Job, JobWork, Rows, service_us};
use crate::load::{Load, Outcome, Request};
use crate::processor::Processor;

/// Interval of timers in `weir-conveyor-net`.
const TICK_NS: u64 = 2_000_000;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_US: f64 = 1_000.0;

type Message = AgentMessage<Job, (), Rows>;
type Out = Effects<Job, (), Rows>;

enum Event {
    /// A client sends its next operation.
    Send(usize),
    Arrive {
        client: usize,
        request: Request,
    },
    Answer {
        client: usize,
        failed: bool,
    },
    Message {
        from: ServerId,
        to: ServerId,
        message: Box<Message>,
    },
    Report {
        from: ServerId,
        report: Report,
    },
    Instruct {
        to: ServerId,
        instruction: Instruction,
    },
    Tick,
    /// A job of a processor may have ended, unless others have come or gone since.
    Processor {
        server: usize,
        version: u64,
    },
    Done {
        agent: usize,
        id: WorkId,
    },
}

/// A server: agent, database, cores.
struct Host {
    agent: Agent<Job, (), Rows>,
    database: Database,
    processor: Processor,
    version: u64,
    /// Work for databases by its agent: where it runs, and what waits behind its processor time.
    works: FxHashMap<WorkId, (JobWork, f64)>,
    busy_before_ns: f64,
}

struct ClientState {
    sent_ns: u64,
    request: Option<Request>,
}

/// A cluster with its clients.
pub struct Belt<'a> {
    load: &'a Load,
    hosts: Vec<Host>,
    coordinator: Coordinator,
    clients: Vec<ClientState>,
    /// Clients by the operation of an agent.
    waiting: BTreeMap<OperationId, usize>,
    agenda: Agenda<Event>,
    now_ns: u64,
    chance: Chance,
    outcome: Outcome,
}

/// Runs a load.
pub fn run(load: &Load, settings: Settings) -> Outcome {
    let mut belt = Belt::new(load, settings);
    belt.begin();
    let begin_ns = load.warm_up_ms * NS_PER_MS;
    belt.run_until(begin_ns);
    belt.outcome = Outcome::new(load.measured_ms as f64 / 1e3);
    for host in &mut belt.hosts {
        host.busy_before_ns = host.processor.busy_ns();
    }
    belt.run_until(begin_ns + load.measured_ms * NS_PER_MS);
    let available_ns = load.measured_ms as f64 * 1e6 * f64::from(load.cores);
    let used = belt.hosts.iter().map(|host| (host.processor.busy_ns() - host.busy_before_ns) / available_ns);
    belt.outcome.busiest = used.fold(0.0, f64::max);
    belt.outcome
}

impl<'a> Belt<'a> {
    fn new(load: &'a Load, settings: Settings) -> Belt<'a> {
        let servers: Vec<ServerId> = (0..load.servers as ServerId).collect();
        let host = |server: &ServerId| Host {
            agent: Agent::new(*server, 1, servers.clone(), settings, NoFaults),
            database: Database::default(),
            processor: Processor::new(load.cores),
            version: 0,
            works: FxHashMap::default(),
            busy_before_ns: 0.0,
        };
        Belt {
            load,
            hosts: servers.iter().map(host).collect(),
            coordinator: Coordinator::new(
                0,
                (servers.clone(), ServerSet::default()),
                settings,
                NoFaults,
                &[],
            ),
            clients: (0..load.clients).map(|_| ClientState { sent_ns: 0, request: None }).collect(),
            waiting: BTreeMap::new(),
            agenda: Agenda::default(),
            now_ns: 0,
            chance: Chance::from_seed(load.seed),
            outcome: Outcome::new(1.0),
        }
    }

    fn begin(&mut self) {
        self.schedule(TICK_NS, Event::Tick);
        for client in 0..self.load.clients {
            // The first epoch has begun by then.
            let at_ns = 500 * NS_PER_MS + self.chance.below(500 * NS_PER_MS);
            self.schedule(at_ns, Event::Send(client));
        }
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.agenda.schedule(at_ns, event);
    }

    fn run_until(&mut self, until_ns: u64) {
        while let Some((at_ns, event)) = self.agenda.next_until(until_ns) {
            self.now_ns = at_ns;
            self.happen(event);
        }
        self.now_ns = until_ns;
    }

    fn now_ms(&self) -> u64 {
        self.now_ns / NS_PER_MS
    }

    fn delay_ns(&self, from: usize, to: usize) -> u64 {
        self.load.network.one_way_ns(from, to)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Send(client) => self.send(client),
            Event::Arrive { client, request } => self.arrive(client, request),
            Event::Answer { client, failed } => self.answered(client, failed),
            Event::Message { from, to, message } => {
                self.step(usize::from(to), |agent, now_ms, out| agent.step(now_ms, from, *message, out));
            }
            Event::Report { from, report } => {
                let mut out = Instructions::default();
                self.coordinator.step(self.now_ms(), from, report, &mut out);
                self.instruct(out);
            }
            Event::Instruct { to, instruction } => {
                self.step(usize::from(to), |agent, now_ms, out| {
                    agent.on_instruction(now_ms, instruction, out)
                });
            }
            Event::Tick => self.tick(),
            Event::Processor { server, version } if self.hosts[server].version == version => {
                self.serve(server)
            }
            Event::Processor { .. } => {}
            Event::Done { agent, id } => self.done(agent, id),
        }
    }

    fn send(&mut self, client: usize) {
        let request = self.load.request(client, &mut self.chance);
        self.clients[client] = ClientState { sent_ns: self.now_ns, request: Some(request) };
        let delay_ns = self.delay_ns(self.load.site(client), usize::from(request.to));
        self.schedule(self.now_ns + delay_ns, Event::Arrive { client, request });
    }

    fn arrive(&mut self, client: usize, request: Request) {
        let operation = &self.load.operations[request.operation];
        let job = Job {
            service_us: self.load.service_us(&request),
            wait_us: operation.wait_us,
            writes: !operation.reads_only,
            rows: operation.rows,
        };
        let mut id = None;
        self.step(usize::from(request.to), |agent, now_ms, out| {
            id = Some(agent.on_request(now_ms, (request.placement, 0), job, out));
        });
        if let Some(id) = id {
            self.waiting.insert(id, client);
        }
    }

    fn answered(&mut self, client: usize, failed: bool) {
        let ClientState { sent_ns, request } = &mut self.clients[client];
        if let Some(request) = request.take() {
            match failed {
                true => self.outcome.failed += 1,
                false => self.outcome.record(request.class, self.now_ns - *sent_ns),
            }
        }
        let pause_ns = self.chance.exponential(self.load.think_ms * 1e6) as u64;
        self.schedule(self.now_ns + pause_ns, Event::Send(client));
    }

    fn tick(&mut self) {
        for server in 0..self.hosts.len() {
            self.step(server, |agent, now_ms, out| agent.on_timer(now_ms, out));
        }
        let mut out = Instructions::default();
        self.coordinator.on_timer(self.now_ms(), &mut out);
        self.instruct(out);
        self.schedule(self.now_ns + TICK_NS, Event::Tick);
    }

    /// The coordinator is at the first server. Its records are durable at once.
    fn instruct(&mut self, out: Instructions) {
        drop(self.coordinator.take_records());
        for each in out.messages {
            let delay_ns = self.delay_ns(0, usize::from(each.to));
            self.schedule(self.now_ns + delay_ns, Event::Instruct { to: each.to, instruction: each.message });
        }
    }

    fn step(&mut self, server: usize, step: impl FnOnce(&mut Agent<Job, (), Rows>, u64, &mut Out)) {
        let mut out = Out::default();
        let now_ms = self.now_ms();
        step(&mut self.hosts[server].agent, now_ms, &mut out);
        let from = server as ServerId;
        for (to, message) in out.messages {
            let delay_ns = self.delay_ns(server, usize::from(to));
            self.schedule(self.now_ns + delay_ns, Event::Message { from, to, message: Box::new(message) });
        }
        for report in out.reports {
            self.schedule(self.now_ns + self.delay_ns(server, 0), Event::Report { from, report });
        }
        for (id, work) in out.works {
            self.work(server, id, work);
        }
        for (id, outcome) in out.answers {
            self.answer(server, id, &outcome);
        }
    }

    fn answer(&mut self, server: usize, id: OperationId, outcome: &Answer<()>) {
        // An operation may be answered within the step that has taken it; then its client is entered afterwards, and there is no such case
        // here: each has processor time of its own.
        let Some(client) = self.waiting.remove(&id) else { return };
        let failed = !matches!(outcome, Answer::Answered(()));
        let delay_ns = self.delay_ns(server, self.load.site(client));
        self.schedule(self.now_ns + delay_ns, Event::Answer { client, failed });
    }

    fn work(&mut self, server: usize, id: WorkId, work: JobWork) {
        let (mut service, wait_us) = service_us(&work, &self.load.steps);
        if let Work::Read { server: at, visit } = &work {
            service +=
                self.hosts[usize::from(*at)].database.outbox_rows(*visit) * self.load.steps.read_row_us;
        }
        let host = &mut self.hosts[server];
        host.works.insert(id, (work, wait_us));
        host.processor.start(self.now_ns, id, service);
        self.expect_end(server);
    }

    fn expect_end(&mut self, server: usize) {
        let host = &mut self.hosts[server];
        host.version += 1;
        let version = host.version;
        if let Some(at_ns) = host.processor.next_end_ns() {
            self.schedule(at_ns.max(self.now_ns), Event::Processor { server, version });
        }
    }

    fn serve(&mut self, server: usize) {
        while let Some(id) = self.hosts[server].processor.take_ended(self.now_ns) {
            let wait_us = self.hosts[server].works.get(&id).map_or(0.0, |(_, wait_us)| *wait_us);
            self.schedule(self.now_ns + (wait_us * NS_PER_US) as u64, Event::Done { agent: server, id });
        }
        self.expect_end(server);
    }

    fn done(&mut self, server: usize, id: WorkId) {
        let Some((work, _)) = self.hosts[server].works.remove(&id) else { return };
        let at = match &work {
            Work::Read { server, .. } | Work::Fence { server, .. } => usize::from(*server),
            _ => server,
        };
        self.outcome.visits += u64::from(matches!(work, Work::End { .. }));
        let done = self.hosts[at].database.commit(&work);
        self.step(server, |agent, now_ms, out| agent.on_done(now_ms, id, done, out));
    }
}
