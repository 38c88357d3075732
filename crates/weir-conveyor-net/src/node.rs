//! Agents and their coordinator as threads of one process: messages go over channels. Tests and measurements use them; a deployment has
//! processes with sockets between them (`process.rs`).

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_conveyor::coordinator::{Coordinator, CoordinatorState, Record};
use weir_conveyor::epochs::{ServerId, StartNumber};
use weir_conveyor::faults::NoFaults;
use weir_conveyor::message::{Instructions, Outcome, Placement, Report};
use weir_conveyor::routing::ServerSet;
use weir_conveyor::settings::Settings;

use crate::agent_loop::{AgentEvent, AgentLoop, Carrier, SqlAgent, SqlMessage, TICK, Window, now_ms};
use crate::delays::Delays;
use crate::locals::Locals;
use crate::operation::{Answer, Job, Operation};
use crate::sessions::Sessions;
use crate::workers::Workers;

pub use crate::workers::Databases;

/// The server at which the coordinator is.
const COORDINATOR: ServerId = 0;

enum CoordinatorEvent {
    Report(ServerId, Report),
    Stop,
}

/// The time that a message takes from one server to another. The coordinator is at the first one.
pub type OneWay = fn(ServerId, ServerId) -> Duration;

/// A message between parties.
enum Message {
    ToAgent(ServerId, AgentEvent),
    ToCoordinator(ServerId, Report),
}

/// The channels of all parties. A message to a party that is not there is lost.
#[derive(Clone, Default)]
struct Links {
    agents: Arc<Mutex<BTreeMap<ServerId, Sender<AgentEvent>>>>,
    coordinator: Arc<Mutex<Option<Sender<CoordinatorEvent>>>>,
    /// None: messages take no time.
    delays: Option<(OneWay, Delays<Message>)>,
}

impl Links {
    /// Links whose messages take so long.
    fn delayed(one_way: OneWay) -> Links {
        let links = Links::default();
        let to = links.clone();
        let delays = Delays::start(move |message| to.deliver(message));
        Links { delays: Some((one_way, delays)), ..links }
    }

    fn carry(&self, (from, to): (ServerId, ServerId), message: Message) {
        match &self.delays {
            Some((one_way, delays)) => delays.send(one_way(from, to), message),
            None => self.deliver(message),
        }
    }

    fn deliver(&self, message: Message) {
        match message {
            Message::ToAgent(to, event) => self.send(to, event),
            Message::ToCoordinator(from, report) => self.tell_coordinator(from, report),
        }
    }

    fn send(&self, to: ServerId, event: AgentEvent) {
        let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = agents.get(&to).map(|agent| agent.send(event));
    }

    fn tell_coordinator(&self, from: ServerId, report: Report) {
        let coordinator = self.coordinator.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = coordinator.as_ref().map(|each| each.send(CoordinatorEvent::Report(from, report)));
    }
}

impl Carrier for Links {
    fn message(&self, from: ServerId, to: ServerId, message: SqlMessage) {
        let event = AgentEvent::Message(from, Box::new(message));
        self.carry((from, to), Message::ToAgent(to, event));
    }

    fn report(&self, from: ServerId, report: Report) {
        self.carry((from, COORDINATOR), Message::ToCoordinator(from, report));
    }
}

/// Agents of one process, and their coordinator.
pub struct Cluster {
    databases: Databases,
    settings: Settings,
    links: Links,
    agents: BTreeMap<ServerId, JoinHandle<()>>,
    coordinator: Option<JoinHandle<Vec<Record>>>,
    records: Vec<Record>,
    began: Instant,
}

impl Cluster {
    /// A cluster without agents. The coordinator runs.
    pub fn new(databases: Databases, settings: Settings) -> Cluster {
        Cluster::over(databases, settings, Links::default())
    }

    /// The same, and messages between servers take so long.
    pub fn with_delays(databases: Databases, settings: Settings, one_way: OneWay) -> Cluster {
        Cluster::over(databases, settings, Links::delayed(one_way))
    }

    fn over(databases: Databases, settings: Settings, links: Links) -> Cluster {
        let mut cluster = Cluster {
            databases,
            settings,
            links,
            agents: BTreeMap::new(),
            coordinator: None,
            records: Vec::new(),
            began: Instant::now(),
        };
        cluster.start_coordinator();
        cluster
    }

    pub fn start_coordinator(&mut self) {
        let (sender, events) = channel();
        *self.links.coordinator.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        let servers: Vec<ServerId> = self.databases.configs.keys().copied().collect();
        let (settings, records, links) = (self.settings, self.records.clone(), self.links.clone());
        let began = self.began;
        self.coordinator = Some(std::thread::spawn(move || {
            let machine = Coordinator::new(
                now_ms(began),
                (servers, ServerSet::default()),
                settings,
                NoFaults,
                &records,
            );
            run_coordinator(machine, records, &events, &links, began)
        }));
    }

    /// The coordinator ends; a checkpoint of its records stays.
    pub fn stop_coordinator(&mut self) {
        if let Some(sender) = self.links.coordinator.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = sender.send(CoordinatorEvent::Stop);
        }
        if let Some(thread) = self.coordinator.take() {
            let records = thread.join().expect("the coordinator does not panic");
            self.records = vec![Record::Checkpoint(CoordinatorState::of(&records))];
        }
    }

    /// Starts the agent of a server. `start`: no other start of it has that number.
    pub fn start_agent(&mut self, server: ServerId, start: StartNumber) {
        let (sender, events) = channel();
        self.links.agents.lock().unwrap_or_else(PoisonError::into_inner).insert(server, sender.clone());
        let servers = self.databases.configs.keys().copied().collect();
        let agent = SqlAgent::new(server, start, servers, self.settings, NoFaults);
        let done = move |id, done| drop(sender.send(AgentEvent::Done(id, done)));
        let locals = Locals::new(self.databases.config(server), self.settings.local_max, false);
        let of_sessions = (Sessions::default(), locals);
        let workers = Workers::start(server, &self.databases, &self.settings, of_sessions, done);
        let (links, began) = (self.links.clone(), self.began);
        let agent = AgentLoop::new(agent, workers, links, began, Window::default());
        let thread = std::thread::spawn(move || agent.run(&events));
        self.agents.insert(server, thread);
    }

    /// Ends an agent at once. Its sessions finish what they do; nobody hears of it.
    pub fn stop_agent(&mut self, server: ServerId) {
        let sender = self.links.agents.lock().unwrap_or_else(PoisonError::into_inner).remove(&server);
        if let Some(sender) = sender {
            let _ = sender.send(AgentEvent::Stop);
        }
        if let Some(thread) = self.agents.remove(&server) {
            thread.join().expect("an agent does not panic");
        }
    }

    /// Sends an operation to an agent. The outcome comes over the channel; if that ends without one, it is unknown.
    pub fn request(
        &self,
        server: ServerId,
        placement: Placement,
        operation: Operation,
    ) -> Receiver<Outcome<Answer>> {
        self.requests().request(server, placement, operation)
    }

    /// A handle by which other threads send operations.
    pub fn requests(&self) -> Requests {
        Requests { links: self.links.clone() }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let servers: Vec<ServerId> = self.agents.keys().copied().collect();
        servers.into_iter().for_each(|server| self.stop_agent(server));
        self.stop_coordinator();
    }
}

/// Sends operations to agents, from any thread.
#[derive(Clone)]
pub struct Requests {
    links: Links,
}

impl Requests {
    /// As [`Cluster::request`].
    pub fn request(
        &self,
        server: ServerId,
        placement: Placement,
        operation: Operation,
    ) -> Receiver<Outcome<Answer>> {
        let (sender, outcome) = channel();
        // A client that has gone hears nothing.
        let reply = Box::new(move |outcome| drop(sender.send(outcome)));
        self.links.send(server, AgentEvent::Request(placement, Job::Statements(operation), reply));
        outcome
    }
}

fn run_coordinator(
    mut machine: Coordinator,
    mut records: Vec<Record>,
    events: &Receiver<CoordinatorEvent>,
    links: &Links,
    began: Instant,
) -> Vec<Record> {
    let mut ticked = Instant::now();
    loop {
        let mut out = Instructions::default();
        match events.recv_timeout(TICK) {
            Ok(CoordinatorEvent::Report(from, report)) => machine.step(now_ms(began), from, report, &mut out),
            Ok(CoordinatorEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return records,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            machine.on_timer(now_ms(began), &mut out);
        }
        // Within one process the records are as durable as the thread that joins this one.
        records.extend(machine.take_records());
        for each in out.messages {
            let event = AgentEvent::Instruction(each.message);
            links.carry((COORDINATOR, each.to), Message::ToAgent(each.to, event));
        }
    }
}
