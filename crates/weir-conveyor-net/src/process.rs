//! An agent as a process: its machine, its node of the coordinator, its sockets, its pools.
//!
//! The coordinator has one node, three, or five, at the first servers of the configuration. With one node its log is the coordinator's one durable
//! file.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use weir_conveyor::epochs::{ServerId, StartNumber};
use weir_conveyor::faults::NoFaults;
use weir_conveyor::message::{Placement, Report};
use weir_conveyor::routing::Routing;
use weir_conveyor::settings::Settings;
use weir_net::frame::Fault;
use weir_raft::{Member, MemberRecord, Place};
use weir_server::serve::Durability;
use weir_server::serve::log::{Log, Parts, Reading};
use weir_server::serve::writer::Writer;

use crate::agent_loop::{
    AgentEvent, AgentLoop, AgentSender, AgentView, Carrier, Reply, SqlAgent, SqlMessage, TICK, Window, now_ms,
};
use crate::coordinator_node::{CHECKPOINT_AFTER, CoordinatorNode, NodeEffects, nodes_of};
use crate::locals::Locals;
use crate::membership::Membership;
use crate::operation::{Job, MapJob, Operation};
use crate::relay::{self, Here, Relayed, Relays, There};
use crate::sessions::{Command, Replies, Request, SessionStart, Sessions};
use crate::sockets::{Arrivals, Connection, Identity, Outboxes, Sockets};
use crate::wire::Packet;
use crate::workers::{Databases, Workers};

/// Bytes of entries before a checkpoint that stay in memory, for nodes that are behind.
const MEMORY_BYTES_MAX: usize = 64 << 10;

/// A process.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
    pub identity: Identity,
    /// No other start of this agent has that number.
    pub start: StartNumber,
    pub databases: Databases,
    pub settings: Settings,
    /// Where the log of the coordinator's node is, if the agent has one.
    pub directory: PathBuf,
    pub durability: Durability,
    /// Size of that log before a snapshot takes its place.
    pub snapshot_after: u64,
    /// The first map of slots.
    pub first_map: Routing,
}

/// An event of the coordinator's node.
enum NodeEvent {
    Report(ServerId, Report),
    Raft(ServerId, Box<weir_raft::message::Message>),
    Written,
    Settings(Box<Settings>),
    Stop,
}

/// The coordinator as its node here sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoordinatorView {
    /// The server whose node leads.
    pub leader: Option<ServerId>,
    pub leads: bool,
}

/// Where everything goes that this process says.
#[derive(Clone)]
struct Routes {
    server: ServerId,
    nodes: u8,
    outboxes: Outboxes,
    agent: AgentSender,
    node: Option<Sender<NodeEvent>>,
}

impl Carrier for Routes {
    fn message(&self, from: ServerId, to: ServerId, message: SqlMessage) {
        let message = Box::new(message);
        if to == self.server {
            // The loop that says it takes it in its next turn.
            let _ = self.agent.send(AgentEvent::Message(from, message));
        } else {
            self.outboxes.send(to, Packet::Agent(message));
        }
    }

    fn report(&self, from: ServerId, report: Report) {
        for node in (0..self.nodes).map(ServerId::from) {
            match &self.node {
                Some(own) if node == self.server => drop(own.send(NodeEvent::Report(from, report.clone()))),
                _ => self.outboxes.send(node, Packet::Report(report.clone())),
            }
        }
    }
}

/// Takes what comes over the sockets.
#[derive(Clone)]
struct Gate {
    server: ServerId,
    agent: Arc<Mutex<AgentSender>>,
    node: Option<Arc<Mutex<Sender<NodeEvent>>>>,
    sessions: Sessions,
}

fn say<T>(to: &Mutex<Sender<T>>, event: T) {
    // A loop that has ended hears nothing.
    let _ = to.lock().unwrap_or_else(PoisonError::into_inner).send(event);
}

impl Arrivals for Gate {
    fn packet(&self, from: ServerId, packet: Packet) {
        match (packet, &self.node) {
            (Packet::Agent(message), _) => say(&self.agent, AgentEvent::Message(from, message)),
            (Packet::Instruction(instruction), _) => say(&self.agent, AgentEvent::Instruction(instruction)),
            (Packet::Report(report), Some(node)) => say(node, NodeEvent::Report(from, report)),
            (Packet::Raft(message), Some(node)) => say(node, NodeEvent::Raft(from, message)),
            // This process has no node.
            (Packet::Report(_) | Packet::Raft(_), None) => {}
        }
    }

    fn session(&self, connection: Connection) {
        let agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(fault) = relay::serve(connection, self.server, &agent, &self.sessions) {
            match fault {
                Fault::Io(_) => tracing::debug!("a relayed session has ended: {fault}"),
                fault => tracing::warn!("a relayed session has ended: {fault}"),
            }
        }
    }
}

/// A running agent. Dropping it ends it at once, as a crash would: everything that has to survive is durable.
pub struct AgentProcess {
    server: ServerId,
    agent: AgentSender,
    node: Option<Sender<NodeEvent>>,
    sessions: Sessions,
    locals: Locals,
    relays: Relays,
    window: Window,
    membership: Membership,
    coordinator: Arc<Mutex<CoordinatorView>>,
    failure: Mutex<Receiver<String>>,
    threads: Vec<JoinHandle<()>>,
    sockets: Option<Sockets>,
}

impl AgentProcess {
    /// # Errors
    /// In words: the log cannot be read, the address cannot be listened on, or the system has no threads.
    pub fn start(of: ProcessSettings) -> Result<AgentProcess, String> {
        let ProcessSettings { identity, start, databases, settings, directory, durability, .. } = of;
        let (snapshot_after, first_map) = (of.snapshot_after, of.first_map);
        let server = identity.server;
        let servers: Vec<ServerId> = databases.configs.keys().copied().collect();
        let nodes = nodes_of(servers.len());
        let has_node = server < ServerId::from(nodes);
        let (agent, events) = channel();
        let (node, node_events) = channel();
        let node = has_node.then_some(node);
        let sessions = Sessions::default();
        let gate = Gate {
            server,
            agent: Arc::new(Mutex::new(agent.clone())),
            node: node.clone().map(|node| Arc::new(Mutex::new(node))),
            sessions: sessions.clone(),
        };
        let log = match has_node {
            true => Some(open_log(&directory, server, (durability, snapshot_after))?),
            false => None,
        };
        let sockets = Sockets::start(&identity, gate)
            .map_err(|error| format!("cannot listen for other agents: {error}"))?;
        let outboxes = sockets.outboxes();
        let routes = Routes { server, nodes, outboxes, agent: agent.clone(), node: node.clone() };
        let began = Instant::now();
        let (failed, failure) = channel();
        let coordinator = Arc::<Mutex<CoordinatorView>>::default();
        let mut threads = Vec::new();
        if let (Some((records, log)), Some(node)) = (log, &node) {
            let written = node.clone();
            let tell = move || drop(written.send(NodeEvent::Written));
            let writer = Writer::start("coordinator-log".to_owned(), (log, true), tell)
                .map_err(|error| format!("cannot write the coordinator's log: {error}"))?;
            let member = member_of(server, nodes, &records)?;
            let machine = CoordinatorNode::new(
                member,
                (servers.clone(), first_map.absent),
                settings,
                CHECKPOINT_AFTER,
                NoFaults,
            );
            let (routes, view) = (routes.clone(), coordinator.clone());
            let node = NodeLoop { machine, writer, snapshots: 0, routes, began, view };
            threads.push(spawn("coordinator", move || node.run(&node_events, &failed))?);
        }
        let machine = SqlAgent::new(server, start, servers, settings, NoFaults);
        let of_done = agent.clone();
        let done = move |id, done| drop(of_done.send(AgentEvent::Done(id, done)));
        let locals = Locals::new(databases.config(server), settings.local_max, false);
        locals.set_settings(&settings);
        let of_sessions = (sessions.clone(), locals.clone());
        let workers = Workers::start(server, &databases, &settings, of_sessions, done);
        let window = Window::default();
        let looped = AgentLoop::new(machine, workers, routes, began, window.clone());
        threads.push(spawn("agent", move || looped.run(&events))?);
        let membership = Membership::new(first_map);
        let (watching, to, looked) = (membership.clone(), agent.clone(), window.clone());
        let watch = move || watching.watch(server, &databases, &looked, &to);
        threads.push(spawn("membership", watch)?);
        let relays = Relays::new(Arc::new(identity));
        let failure = Mutex::new(failure);
        let sockets = Some(sockets);
        Ok(AgentProcess {
            server,
            agent,
            node,
            sessions,
            locals,
            relays,
            window,
            membership,
            coordinator,
            failure,
            threads,
            sockets,
        })
    }

    pub fn server(&self) -> ServerId {
        self.server
    }

    pub fn view(&self) -> AgentView {
        let mut view = self.window.look();
        let locals = self.locals.figures();
        view.waiting += locals.waiting;
        view.running += locals.running;
        view.outcomes[0] += locals.answered;
        view.outcomes[1] += locals.starved;
        view.outcomes[3] += locals.unknown;
        view
    }

    /// None: this process has no node of the coordinator.
    pub fn coordinator(&self) -> Option<CoordinatorView> {
        let view = *self.coordinator.lock().unwrap_or_else(PoisonError::into_inner);
        self.node.is_some().then_some(view)
    }

    /// Why the process cannot go on, if it has failed.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }

    /// Other bounds hold from now on. The sizes of pools stay as they are.
    pub fn set_settings(&self, settings: Settings) {
        self.locals.set_settings(&settings);
        let _ = self.agent.send(AgentEvent::Settings(Box::new(settings)));
        if let Some(node) = &self.node {
            let _ = node.send(NodeEvent::Settings(Box::new(settings)));
        }
    }

    /// Runs an operation whose statements are known. If the reply is dropped, the outcome is unknown.
    pub fn request(&self, placement: Placement, operation: Operation, reply: Reply) {
        let _ = self.agent.send(AgentEvent::Request(placement, Job::Statements(operation), reply));
    }

    /// The map of slots in the database, as last read.
    pub fn routing(&self) -> Arc<Routing> {
        self.membership.routing()
    }

    /// Has a server change the map in its next visit.
    pub fn change_map(&self, by: ServerId, job: MapJob, reply: Reply) {
        let _ = self.agent.send(AgentEvent::Request(Placement::Global(by), Job::Map(job), reply));
    }

    /// Opens a transaction of a session, here or at its server. It is called on a thread that carries sessions.
    pub fn open(&self, placement: Placement, start: SessionStart, replies: Replies) -> OpenTransaction {
        match placement.server() {
            Some(server) if server != self.server => {
                OpenTransaction(Runs::There(self.relays.open(server, placement, start, replies)))
            }
            _ if !matches!(placement, Placement::Global(_)) => {
                OpenTransaction(Runs::Here(self.locals.open(start, replies)))
            }
            _ => {
                let here = (&self.agent, &self.sessions);
                OpenTransaction(Runs::Here(relay::open_here(here, placement, start, replies)))
            }
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        self.sockets = None;
        self.membership.stop();
        let _ = self.agent.send(AgentEvent::Stop);
        if let Some(node) = &self.node {
            let _ = node.send(NodeEvent::Stop);
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A transaction of a session, wherever it runs. Dropping it gives it up.
pub struct OpenTransaction(Runs);

enum Runs {
    Here(Here),
    There(There),
}

impl OpenTransaction {
    pub(crate) fn here(here: Here) -> OpenTransaction {
        OpenTransaction(Runs::Here(here))
    }

    pub fn run(&self, request: Arc<Request>) {
        self.say(Command::Run(request));
    }

    fn say(&self, command: Command) {
        match &self.0 {
            Runs::Here(here) => here.say(command),
            Runs::There(there) => there.say(Relayed::Command(command)),
        }
    }

    /// Cancels the statement that runs.
    pub fn cancel(&self) {
        match &self.0 {
            Runs::Here(here) => here.cancel(),
            Runs::There(there) => there.say(Relayed::Cancel),
        }
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        match &self.0 {
            Runs::Here(here) => here.end(),
            Runs::There(there) => there.end(),
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|error| format!("the system has no threads: {error}"))
}

/// The durable records of the coordinator's node, and its log to go on with.
fn open_log(
    directory: &std::path::Path,
    server: ServerId,
    (durability, snapshot_after): (Durability, u64),
) -> Result<(Vec<MemberRecord>, Log), String> {
    let failed = |error| format!("the coordinator's log in {}: {error}", directory.display());
    let mut reading = Reading::begin(directory, server).map_err(failed)?;
    let records = reading.by_ref().collect();
    let (log, torn) = reading.end(durability, snapshot_after).map_err(failed)?;
    if torn > 0 {
        tracing::warn!(bytes = torn, log = %directory.display(), "cut off the end of the log, which was never durable");
    }
    Ok((records, log))
}

fn member_of(server: ServerId, nodes: u8, records: &[MemberRecord]) -> Result<Member, String> {
    let mut disk = [0; 8];
    getrandom::fill(&mut disk).map_err(|error| format!("the system has no randomness: {error}"))?;
    let of_member = weir_raft::Settings {
        place: server as Place,
        members: nodes,
        new_disk: u64::from_le_bytes(disk) & weir_raft::DISK_MAX,
        memory_bytes_max: MEMORY_BYTES_MAX,
    };
    Ok(Member::new(0, of_member, NoFaults, records))
}

/// The loop of the coordinator's node.
struct NodeLoop {
    machine: CoordinatorNode,
    writer: Writer<MemberRecord>,
    /// How many snapshots of the log have been begun.
    snapshots: u64,
    routes: Routes,
    began: Instant,
    view: Arc<Mutex<CoordinatorView>>,
}

impl NodeLoop {
    fn run(mut self, events: &Receiver<NodeEvent>, failed: &Sender<String>) {
        let mut ticked = Instant::now();
        loop {
            let event = events.recv_timeout(TICK);
            let now_ms = now_ms(self.began);
            match event {
                Ok(NodeEvent::Report(from, report)) => {
                    let effects = self.machine.on_report(now_ms, from, report);
                    self.act(effects);
                }
                Ok(NodeEvent::Raft(from, message)) => {
                    if let Ok(from) = Place::try_from(from) {
                        let effects = self.machine.on_raft(now_ms, from, *message);
                        self.act(effects);
                    }
                }
                Ok(NodeEvent::Written) => match self.writer.written() {
                    Ok(written) => {
                        if written.is_outgrown && written.snapshots == self.snapshots {
                            self.begin_snapshot();
                        }
                        let effects = self.machine.on_durable(now_ms, written.durable);
                        self.act(effects);
                    }
                    Err(error) => {
                        // Without its log a node must not say anything more.
                        let _ = failed.send(format!("the coordinator's log cannot be written: {error}"));
                        return;
                    }
                },
                Ok(NodeEvent::Settings(settings)) => self.machine.set_settings(*settings),
                Ok(NodeEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                let effects = self.machine.on_timer(now_ms);
                self.act(effects);
                let leader = self.machine.leader().map(ServerId::from);
                let view = CoordinatorView { leader, leads: self.machine.leads() };
                *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
            }
        }
    }

    /// The whole state takes the place of the log so far. All records that the node has handed out are with the writer by now.
    fn begin_snapshot(&mut self) {
        self.snapshots += 1;
        let (parts, taken) = Parts::new();
        self.writer.begin_snapshot(taken);
        let records = self.machine.whole().into_iter().map(Some);
        for part in records.chain([None]) {
            assert!(parts.put(part).is_ok(), "a snapshot of few parts is taken at once");
        }
    }

    fn act(&mut self, effects: NodeEffects) {
        if !effects.records.is_empty() {
            self.writer.append(effects.records);
        }
        for (to, message) in effects.raft {
            self.routes.outboxes.send(ServerId::from(to), Packet::Raft(Box::new(message)));
        }
        for (to, instruction) in effects.instructions {
            if to == self.routes.server {
                let _ = self.routes.agent.send(AgentEvent::Instruction(instruction));
            } else {
                self.routes.outboxes.send(to, Packet::Instruction(instruction));
            }
        }
    }
}
