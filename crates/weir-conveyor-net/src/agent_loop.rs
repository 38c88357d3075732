//! The loop of an agent: events in, effects out. How messages travel is the carrier's affair: channels of one process, or sockets.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_conveyor::agent::Agent;
use weir_conveyor::epochs::{Epoch, ServerId, VisitNumber};
use weir_conveyor::message::{AgentMessage, Effects, Instruction, OperationId, Outcome, Placement, Report};
use weir_conveyor::routing::MapVersion;
use weir_conveyor::settings::Settings;
use weir_conveyor::work::WorkId;

use crate::operation::{Answer, Job, SqlDone, StateUpdate};
use crate::workers::Workers;

/// Interval of timers.
pub(crate) const TICK: Duration = Duration::from_millis(2);

pub type SqlMessage = AgentMessage<Job, Answer, StateUpdate>;
pub(crate) type SqlAgent = Agent<Job, Answer, StateUpdate>;
type SqlEffects = Effects<Job, Answer, StateUpdate>;

/// Called with the outcome of an operation. If the agent ends before, it is dropped: the outcome is unknown.
pub type Reply = Box<dyn FnOnce(Outcome<Answer>) + Send>;

/// An event of an agent.
pub(crate) enum AgentEvent {
    Message(ServerId, Box<SqlMessage>),
    Instruction(Instruction),
    Done(WorkId, SqlDone),
    Request(Placement, Job, Reply),
    /// This server was added, and that one has everything that it needs.
    Added(ServerId),
    /// Other bounds hold from now on.
    Settings(Box<Settings>),
    /// The agent ends at once, as if it were killed.
    Stop,
}

/// Carries what an agent says. It may lose, delay and repeat it.
pub(crate) trait Carrier {
    fn message(&self, from: ServerId, to: ServerId, message: SqlMessage);
    fn report(&self, from: ServerId, report: Report);
}

/// An agent as others see it, as of its last turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentView {
    pub epoch: Epoch,
    pub ring: Vec<ServerId>,
    /// The visit that is here now.
    pub visit: Option<VisitNumber>,
    /// The last visit that has been here.
    pub last_visit: VisitNumber,
    /// Time between the last two arrivals of the token. None: it has not come twice.
    pub round: Option<Duration>,
    /// Global operations that wait for the token.
    pub queue: usize,
    /// Other operations that wait for a connection.
    pub waiting: usize,
    pub running: usize,
    /// Operations that other agents run for this one.
    pub forwarded: usize,
    /// All visits up to this one are applied. None: the database does not answer.
    pub applied: Option<VisitNumber>,
    /// The map of slots in the database.
    pub map: MapVersion,
    /// The server is no member: it was not added yet, or has left.
    pub is_absent: bool,
    /// Servers whose outboxes some member still needs.
    pub needed: Vec<ServerId>,
    /// Operations that have ended here, by outcome: answered, starved, too long, unknown, not begun, placed under another map.
    pub outcomes: [u64; 6],
}

/// Where an agent leaves its view.
#[derive(Clone, Debug, Default)]
pub struct Window(Arc<Mutex<AgentView>>);

impl Window {
    pub fn look(&self) -> AgentView {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn show(&self, view: &AgentView) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(view);
    }
}

/// The state of an agent's thread.
pub(crate) struct AgentLoop<C> {
    pub agent: SqlAgent,
    pub workers: Workers,
    pub carrier: C,
    /// The begin of the agent's clock.
    pub began: Instant,
    pub window: Window,
    pub view: AgentView,
    pub arrived: Option<Instant>,
}

impl<C: Carrier> AgentLoop<C> {
    pub fn new(agent: SqlAgent, workers: Workers, carrier: C, began: Instant, window: Window) -> Self {
        AgentLoop { agent, workers, carrier, began, window, view: AgentView::default(), arrived: None }
    }

    /// Runs until it is told to stop.
    pub fn run(mut self, events: &Receiver<AgentEvent>) {
        let mut clients: BTreeMap<OperationId, Reply> = BTreeMap::new();
        let mut ticked = Instant::now();
        loop {
            let mut out = SqlEffects::default();
            let event = events.recv_timeout(TICK);
            let now_ms = now_ms(self.began);
            match event {
                Ok(AgentEvent::Message(from, message)) => self.agent.step(now_ms, from, *message, &mut out),
                Ok(AgentEvent::Instruction(instruction)) => {
                    self.agent.on_instruction(now_ms, instruction, &mut out);
                }
                Ok(AgentEvent::Done(id, done)) => self.agent.on_done(now_ms, id, done, &mut out),
                Ok(AgentEvent::Request(placement, job, client)) => {
                    // Sessions look at the map on their own.
                    let map = self.agent.database().map_or(0, |database| database.map);
                    let id = self.agent.on_request(now_ms, (placement, map), job, &mut out);
                    clients.insert(id, client);
                }
                Ok(AgentEvent::Added(from)) => self.agent.on_added(now_ms, from, &mut out),
                Ok(AgentEvent::Settings(settings)) => self.agent.set_settings(*settings),
                Ok(AgentEvent::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.note_arrival();
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.agent.on_timer(now_ms, &mut out);
                self.show();
            }
            self.act(out, &mut clients);
        }
        drop(clients);
        std::thread::spawn(move || self.workers.stop());
    }

    fn note_arrival(&mut self) {
        let visit = self.agent.visit();
        if let Some(visit) = visit
            && visit > self.view.last_visit
        {
            let now = Instant::now();
            self.view.last_visit = visit;
            self.view.round = self.arrived.replace(now).map(|before| now - before);
        }
        self.view.visit = visit;
    }

    fn show(&mut self) {
        let [queue, waiting, running, forwarded] = self.agent.load();
        let view = &mut self.view;
        (view.queue, view.waiting, view.running, view.forwarded) = (queue, waiting, running, forwarded);
        view.epoch = self.agent.epochs().epoch();
        view.ring = self.agent.epochs().ring().to_vec();
        view.applied = self.agent.database().map(|database| database.applied);
        view.map = self.agent.database().map_or(view.map, |database| database.map);
        view.is_absent = self.agent.is_absent();
        view.needed = self.agent.epochs().servers();
        self.window.show(view);
    }

    fn act(&mut self, out: SqlEffects, clients: &mut BTreeMap<OperationId, Reply>) {
        let server = self.agent.server();
        for (to, message) in out.messages {
            self.carrier.message(server, to, message);
        }
        out.reports.into_iter().for_each(|report| self.carrier.report(server, report));
        out.works.into_iter().for_each(|(id, work)| self.workers.submit(id, work));
        out.aborts.into_iter().for_each(|id| self.workers.cancel(id));
        for (id, outcome) in out.answers {
            let place = match outcome {
                Outcome::Answered(_) => 0,
                Outcome::Starved => 1,
                Outcome::TooLong => 2,
                Outcome::Unknown => 3,
                Outcome::NotBegun(_) => 4,
                Outcome::WrongMap => 5,
            };
            self.view.outcomes[place] += 1;
            if let Some(client) = clients.remove(&id) {
                client(outcome);
            }
        }
    }
}

pub(crate) fn now_ms(began: Instant) -> u64 {
    began.elapsed().as_millis() as u64
}

/// Hands events to an agent, from any thread.
pub(crate) type AgentSender = Sender<AgentEvent>;
