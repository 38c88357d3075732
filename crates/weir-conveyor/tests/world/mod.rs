//! A simulated world: agents, databases, the coordinator, clients, a network, faults, and the checks, all from one seed.

pub mod application;
pub mod database;
mod events;
pub mod history;
mod moves;
mod network;
pub mod profile;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_conveyor::agent::Agent;
use weir_conveyor::coordinator::{Coordinator, Record};
use weir_conveyor::epochs::{ServerId, StartNumber, VisitNumber};
use weir_conveyor::faults::{AgentBugs, CoordinatorBugs};
use weir_conveyor::message::{AgentMessage, Effects, Instruction, Instructions, OperationId, Outcome};
use weir_conveyor::routing::{MapVersion, Routing};
use weir_conveyor::token::Visit;
use weir_conveyor::work::{Done, Work};
use weir_core::lsn::HeldMessages;

use crate::chance::Chance;
use application::{Answer, Number, Operation, Row, Update};
use database::Database;
use events::Event;
use history::{History, Replayed, Violation, check_places, replay, violation};
use profile::Profile;
use sessions::{Session, SessionId};

pub type SimAgent = Agent<Operation, Answer, Update, AgentBugs>;
pub type SimMessage = AgentMessage<Operation, Answer, Update>;
pub type SimWork = Work<Operation, Update>;
pub type SimDone = Done<Answer, Update>;
type Out = Effects<Operation, Answer, Update>;

/// Interval of all timers.
const TICK_MS: u64 = 5;
/// Faults end then.
const FAULTS_MS: u64 = 2_000;
/// Without faults, something must be answered in so long a time until everything is.
const ANSWER_MS: u64 = 3_000;
/// Time without faults, after the last answer, in which all servers apply all visits.
const REST_MS: u64 = 1_500;

/// A party of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Agent(ServerId),
    Coordinator,
}

/// The coordinator's process, and its disk.
struct CoordinatorHost {
    /// None: it is down.
    machine: Option<Coordinator<CoordinatorBugs>>,
    records: Vec<Record>,
    /// How many of them are durable.
    durable: usize,
    /// Where the positions of this start count from. Checkpoints move it below zero.
    base: isize,
    held: HeldMessages<(ServerId, Instruction)>,
    start: u64,
}

/// A client.
#[derive(Clone, Debug)]
struct Client {
    left: u32,
    /// Where its operation is, and which one it is.
    at: Option<(ServerId, OperationId, Number)>,
    /// That operation, or one that is to be placed again.
    operation: Option<Operation>,
}

/// Result of a run of a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub committed: u64,
    pub global: u64,
    pub answered: u64,
    /// Outcomes that are no answers.
    pub starved: u64,
    pub late: u64,
    pub not_begun: u64,
    pub unknown: u64,
    pub messages: u64,
    pub applies: u64,
    pub serialization_failures: u64,
    pub unlicensed: u64,
    pub visits: u64,
    pub epochs: u64,
    /// Epochs that began without a fence, and fences.
    pub promises: u64,
    pub fences: u64,
    pub agent_crashes: u64,
    pub database_crashes: u64,
    pub truncations: u64,
    /// Checkpoints that have taken the place of the coordinator's records, and epochs that it has forgotten.
    pub checkpoints: u64,
    pub forgotten: u64,
    /// Changes of the map, rows that have moved, servers that have joined and left, operations that were placed again.
    pub map_changes: u64,
    pub moved_rows: u64,
    pub joined: u64,
    pub left: u64,
    pub placed_again: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.committed += other.committed;
        self.global += other.global;
        self.answered += other.answered;
        self.starved += other.starved;
        self.late += other.late;
        self.not_begun += other.not_begun;
        self.unknown += other.unknown;
        self.messages += other.messages;
        self.applies += other.applies;
        self.serialization_failures += other.serialization_failures;
        self.unlicensed += other.unlicensed;
        self.visits += other.visits;
        self.epochs += other.epochs;
        self.promises += other.promises;
        self.fences += other.fences;
        self.agent_crashes += other.agent_crashes;
        self.database_crashes += other.database_crashes;
        self.truncations += other.truncations;
        self.checkpoints += other.checkpoints;
        self.forgotten += other.forgotten;
        self.map_changes += other.map_changes;
        self.moved_rows += other.moved_rows;
        self.joined += other.joined;
        self.left += other.left;
        self.placed_again += other.placed_again;
    }
}

/// A world.
pub struct World {
    profile: Profile,
    chance: Chance,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    is_faulty: bool,
    servers: Vec<ServerId>,
    /// None: it is down.
    agents: BTreeMap<ServerId, Option<SimAgent>>,
    starts: BTreeMap<ServerId, StartNumber>,
    databases: BTreeMap<ServerId, Database>,
    coordinator: CoordinatorHost,
    sessions: BTreeMap<SessionId, Session>,
    next_session: SessionId,
    clients: Vec<Client>,
    next_number: Number,
    /// Parties that are cut off from all others.
    island: BTreeSet<Party>,
    history: History,
    /// All maps that there have been.
    maps: BTreeMap<MapVersion, Routing>,
    /// Contents that a planted bug reads too early.
    read_early: BTreeMap<(ServerId, VisitNumber), Arc<Visit<Update>>>,
    answered_ms: u64,
    counts: Counts,
}

impl World {
    pub fn new(seed: u64, profile: Profile) -> World {
        let servers: Vec<ServerId> = (0..profile.shape.servers).collect();
        let database =
            |server: &ServerId| (*server, Database::new(profile.shape.initial(), profile.shape.map()));
        let client = Client { left: profile.operations, at: None, operation: None };
        let mut world = World {
            profile,
            chance: Chance::from_seed(seed),
            now_ms: 0,
            events: BTreeMap::new(),
            next_event: 0,
            is_faulty: true,
            agents: servers.iter().map(|server| (*server, None)).collect(),
            starts: BTreeMap::new(),
            databases: servers.iter().map(database).collect(),
            coordinator: CoordinatorHost {
                machine: None,
                records: Vec::new(),
                durable: 0,
                base: 0,
                held: HeldMessages::default(),
                start: 0,
            },
            servers,
            sessions: BTreeMap::new(),
            next_session: 1,
            clients: vec![client; profile.clients as usize],
            next_number: 1,
            island: BTreeSet::new(),
            history: History::default(),
            maps: BTreeMap::from([(0, profile.shape.map())]),
            read_early: BTreeMap::new(),
            answered_ms: 0,
            counts: Counts::default(),
        };
        world.begin();
        world
    }

    /// Runs until everything is answered and applied, and checks the history.
    pub fn run(mut self) -> Result<Counts, Violation> {
        let mut rest_ms = None;
        while let Some(((at_ms, _), event)) = self.events.pop_first() {
            self.now_ms = at_ms;
            self.happen(event);
            if !self.is_faulty && self.is_answered() {
                let rest_ms = *rest_ms.get_or_insert(at_ms + REST_MS);
                if at_ms >= rest_ms {
                    break;
                }
            }
            if at_ms > self.answered_ms.max(FAULTS_MS) + ANSWER_MS {
                return violation("liveness", self.describe());
            }
        }
        self.check_end()?;
        self.count_end();
        Ok(self.counts)
    }

    fn is_answered(&self) -> bool {
        self.clients.iter().all(|client| client.left == 0 && client.operation.is_none())
    }

    fn describe(&self) -> String {
        let mut text = format!("not everything is answered at {}: {:?}", self.now_ms, self.counts);
        for agent in self.agents.values().flatten() {
            let (epochs, visit, database) = (agent.epochs().last(), agent.visit(), agent.database());
            text += &format!(
                "\n{}: {epochs:?}, visit {visit:?}, {database:?}, {:?}",
                agent.server(),
                agent.load()
            );
        }
        let epochs = self.coordinator.machine.as_ref().map(|machine| machine.epochs().last());
        text + &format!("\ncoordinator: {epochs:?}\nsessions: {:?}", self.sessions.values().next())
    }

    /// The history is serializable, and all servers are at its end.
    fn check_end(&self) -> Result<(), Violation> {
        let order = self.history.check()?;
        let initial = self.profile.shape.initial();
        let initial = initial.into_iter().filter_map(|(row, cell)| Some((row, cell.value?))).collect();
        let Replayed { state, servers } = replay(&order, initial)?;
        for (server, database) in &self.databases {
            if database.map().absent.contains(*server) {
                continue;
            }
            for row in state.keys().chain(servers.keys()) {
                let is_here = matches!(row, Row::Stock(_)) || servers.get(row) == Some(server);
                let (expected, found) = (state.get(row).copied(), database.last(*row));
                if is_here && expected != found.and_then(|cell| cell.value) {
                    let text = format!("{row:?} at server {server} is {found:?}, not {expected:?}");
                    return violation("state", text);
                }
            }
        }
        check_places(&self.history.executed)
    }

    fn count_end(&mut self) {
        let executed = &self.history.executed;
        let global = executed.iter().filter(|each| each.license.is_some()).count();
        self.counts.committed = executed.len() as u64;
        self.counts.global = global as u64;
        self.counts.applies = self.history.applies() as u64;
        let ended = self.databases.values().map(|database| database.state().row.closed);
        self.counts.visits = ended.max().unwrap_or(0);
        let machine = self.coordinator.machine.as_ref();
        self.counts.epochs = machine.map_or(0, |machine| machine.epochs().epoch());
        self.counts.forgotten = machine.map_or(0, |machine| machine.epochs().oldest() - 1);
    }

    fn step_agent(&mut self, server: ServerId, step: impl FnOnce(&mut SimAgent, &mut Out)) {
        let Some(Some(agent)) = self.agents.get_mut(&server) else { return };
        let mut out = Out::default();
        step(agent, &mut out);
        let start = self.starts[&server];
        for (to, message) in out.messages {
            self.send(Party::Agent(server), Party::Agent(to), || Event::Deliver {
                from: server,
                to,
                message: Box::new(message.clone()),
            });
        }
        for report in out.reports {
            self.send(Party::Agent(server), Party::Coordinator, || Event::Report {
                from: server,
                report: report.clone(),
            });
        }
        for (id, work) in out.works {
            self.start_session(server, start, id, work);
        }
        for work in out.aborts {
            let of_work =
                |session: &&mut Session| (session.agent, session.start, session.id) == (server, start, work);
            self.sessions.values_mut().filter(of_work).for_each(|session| session.is_cancelled = true);
        }
        for (id, outcome) in out.answers {
            self.on_answer(server, id, outcome);
        }
    }

    fn step_coordinator(&mut self, step: impl FnOnce(&mut Coordinator<CoordinatorBugs>, &mut Instructions)) {
        let host = &mut self.coordinator;
        let Some(machine) = &mut host.machine else { return };
        let mut out = Instructions::default();
        step(machine, &mut out);
        let records = machine.take_records();
        host.held.note(records.len());
        let is_new = !records.is_empty();
        host.records.extend(records);
        let (start, noted) = (host.start, host.held.noted());
        let held = &mut host.held;
        let leaving: Vec<_> = out
            .messages
            .into_iter()
            .filter_map(|each| held.hold(each.after, (each.to, each.message)))
            .collect();
        if is_new {
            let after_ms = self.chance.between(0, self.profile.disk_ms);
            self.schedule(after_ms, Event::Durable { start, up_to: noted });
        }
        self.send_instructions(leaving);
    }

    fn send_instructions(&mut self, leaving: Vec<(ServerId, Instruction)>) {
        for (to, instruction) in leaving {
            self.counts.fences += u64::from(matches!(instruction, Instruction::Fence { .. }));
            self.send(Party::Coordinator, Party::Agent(to), || Event::Instruct {
                to,
                instruction: instruction.clone(),
            });
        }
    }

    fn on_answer(&mut self, server: ServerId, id: OperationId, outcome: Outcome<Answer>) {
        let of_client =
            |client: &&mut Client| client.at.is_some_and(|(at, other, _)| (at, other) == (server, id));
        let Some(client) = self.clients.iter_mut().find(of_client) else { return };
        let Some((_, _, number)) = client.at.take() else { return };
        if outcome == Outcome::WrongMap {
            self.counts.placed_again += 1;
            return;
        }
        client.operation = None;
        match outcome {
            Outcome::WrongMap => {}
            Outcome::Answered(_) => self.counts.answered += 1,
            Outcome::Starved => self.counts.starved += 1,
            Outcome::TooLong => self.counts.late += 1,
            Outcome::NotBegun(_) => self.counts.not_begun += 1,
            Outcome::Unknown => self.counts.unknown += 1,
        }
        self.history.answered.push((number, outcome));
        self.answered_ms = self.now_ms;
    }
}
