//! Sessions whose transaction runs at another server: their requests and answers go over a connection between the two agents.
//!
//! A connection relays one transaction at a time, and is kept for the next one. If it is lost, the agent there rolls back, and the session is
//! told; what may have committed is unknown.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use weir_conveyor::epochs::ServerId;
use weir_conveyor::message::{Outcome, Placement};
use weir_core::ids::Sender;
use weir_net::body;
use weir_net::frame::{self, Fault, Kind};

use crate::agent_loop::{AgentEvent, AgentSender};
use crate::operation::{Job, SessionNumber, SqlError};
use crate::sessions::{Command, Control, Ending, Replies, SessionPort, SessionReply, SessionStart, Sessions};
use crate::sockets::{Connection, Identity};

/// A message of a relayed session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Relayed {
    Open(Placement, SessionStart),
    Command(Command),
    Cancel,
}

/// Writes a frame to the socket.
fn write(socket: &Mutex<TcpStream>, kind: Kind, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame::push(&mut bytes, kind, |out| body::write(value, out)).map_err(io::Error::other)?;
    lock(socket).write_all(&bytes)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T: serde::de::DeserializeOwned>(connection: &mut Connection, kind: Kind) -> Result<T, Fault> {
    let (found, bytes) = connection.frame()?;
    frame::expect(kind, found, &bytes)?;
    let mut rest = bytes.as_slice();
    let value = body::read(kind, &mut rest)?;
    body::is_over(kind, rest)?;
    Ok(value)
}

/// Opens a session's transaction at this agent.
pub(crate) fn open_here(
    (agent, sessions): (&AgentSender, &Sessions),
    placement: Placement,
    start: SessionStart,
    replies: Replies,
) -> Here {
    let port = SessionPort::new(start, replies);
    let control = port.control.clone();
    let number = sessions.add(port);
    let waiting = sessions.clone();
    let reply = Box::new(move |outcome| {
        // A worker has told its session everything.
        let Some(port) = waiting.forget(number) else { return };
        let ending = match outcome {
            Outcome::Starved | Outcome::Answered(_) => Ending::Starved,
            Outcome::TooLong => Ending::TooLong,
            Outcome::NotBegun(lacks) => Ending::NotBegun(lacks),
            Outcome::Unknown => Ending::Unknown,
            Outcome::WrongMap => Ending::WrongMap,
        };
        port.replies.say_now(SessionReply::Over(ending));
    });
    let here = Here { control, waiting: Some((number, sessions.clone())) };
    if agent.send(AgentEvent::Request(placement, Job::Session(number), reply)).is_err() {
        here.end();
    }
    here
}

/// A transaction at this agent, as its session has it.
pub(crate) struct Here {
    control: Arc<Control>,
    /// Where it waits until the agent has it run. None: it runs beside its session.
    waiting: Option<(SessionNumber, Sessions)>,
}

impl Here {
    /// One that runs beside its session.
    pub fn beside(control: Arc<Control>) -> Here {
        Here { control, waiting: None }
    }

    pub fn say(&self, command: Command) {
        self.control.say(command);
    }

    fn waits(&self) -> Option<SessionPort> {
        self.waiting.as_ref().and_then(|(number, sessions)| sessions.forget(*number))
    }

    /// Cancels the statement that runs. A transaction that waits, for the token or for a connection, is over.
    pub fn cancel(&self) {
        self.control.stop_waiting();
        let Some(port) = self.waits() else { return self.control.cancel() };
        let message = "canceling statement due to user request".to_owned();
        let error = SqlError { sqlstate: "57014".to_owned(), message };
        port.replies.say_now(SessionReply::Over(Ending::Failed(error)));
    }

    /// The session gives it up.
    pub fn end(&self) {
        self.control.say(Command::End);
        self.control.stop_waiting();
        drop(self.waits());
    }
}

/// Serves the sessions of another agent, one after the other, until the connection ends.
pub(crate) fn serve(
    mut connection: Connection,
    server: ServerId,
    agent: &AgentSender,
    sessions: &Sessions,
) -> Result<(), Fault> {
    connection.set_patience(None)?;
    let socket = Arc::new(Mutex::new(connection.socket()?));
    let mut open: Option<Here> = None;
    let ended = loop {
        let relayed = match read::<Relayed>(&mut connection, Kind::Requests) {
            Ok(relayed) => relayed,
            Err(fault) => break fault,
        };
        match relayed {
            Relayed::Open(placement, start) => {
                if placement.server().is_some_and(|place| place != server) {
                    break Fault::sense("the session belongs to another server");
                }
                let to = socket.clone();
                let replies =
                    Replies::Relayed(Box::new(move |reply| write(&to, Kind::Replies, &reply).is_ok()));
                open = Some(open_here((agent, sessions), placement, start, replies));
            }
            Relayed::Command(command) => {
                if let Some(open) = &open {
                    open.say(command);
                }
            }
            Relayed::Cancel => {
                if let Some(open) = &open {
                    open.cancel();
                }
            }
        }
    };
    if let Some(open) = open {
        open.end();
        open.cancel();
    }
    Err(ended)
}

/// Connections to other agents that relay nothing at the moment.
#[derive(Clone)]
pub(crate) struct Relays {
    identity: Arc<Identity>,
    /// Numbers of transactions.
    next: Arc<AtomicU64>,
    idle: Arc<Mutex<Vec<IdleConnection>>>,
}

/// A connection to the agent of a server, between two transactions.
type IdleConnection = (ServerId, Arc<RelayConnection>);

struct RelayConnection {
    socket: Mutex<TcpStream>,
    current: Mutex<Option<Current>>,
    is_lost: AtomicBool,
}

/// The transaction that a connection relays. Nothing is said for a transaction that is over: the connection may relay another one by then.
struct Current {
    number: u64,
    /// Takes the answers.
    replies: Replies,
    may_commit: bool,
}

impl RelayConnection {
    /// Begins to relay a transaction.
    fn begin(&self, current: Current, open: &Relayed) {
        let number = current.number;
        *lock(&self.current) = Some(current);
        self.say(number, open);
    }

    /// Says something for that transaction, unless it is over.
    fn say(&self, number: u64, relayed: &Relayed) {
        let failed = {
            let mut current = lock(&self.current);
            let Some(current) = current.as_mut().filter(|current| current.number == number) else { return };
            if let Relayed::Command(Command::Run(request)) = relayed {
                current.may_commit = request.may_commit;
            }
            write(&self.socket, Kind::Requests, relayed).err()
        };
        if let Some(error) = failed {
            self.lose(&error.to_string());
        }
    }

    /// The session gives the transaction up. The connection ends, unless the transaction is over: the agent there rolls back.
    fn give_up(&self, number: u64) {
        let is_current = lock(&self.current).take_if(|current| current.number == number).is_some();
        if is_current {
            self.lose("given up");
        }
    }

    fn lose(&self, why: &str) {
        self.is_lost.store(true, Ordering::SeqCst);
        let _ = lock(&self.socket).shutdown(std::net::Shutdown::Both);
        let current = lock(&self.current).take();
        if let Some(Current { replies, may_commit, .. }) = current {
            replies.say_now(SessionReply::Over(match may_commit {
                true => Ending::Unknown,
                false => unreachable_agent(why),
            }));
        }
    }
}

fn unreachable_agent(why: &str) -> Ending {
    let message = format!("the agent of the server where this runs cannot be reached: {why}");
    Ending::Failed(SqlError { sqlstate: "08006".to_owned(), message })
}

/// A transaction at another agent, as its session has it.
pub(crate) struct There {
    number: u64,
    state: Arc<Mutex<State>>,
}

enum State {
    /// The agent is being dialled; what is said meanwhile.
    Dialling(Vec<Relayed>),
    Open(Arc<RelayConnection>),
    /// The agent cannot be reached, or the session has given the transaction up.
    Ended,
}

impl There {
    pub fn say(&self, relayed: Relayed) {
        match &mut *lock(&self.state) {
            State::Dialling(said) => said.push(relayed),
            State::Open(connection) => connection.say(self.number, &relayed),
            State::Ended => {}
        }
    }

    /// The session gives it up, if it is not over.
    pub fn end(&self) {
        if let State::Open(connection) = std::mem::replace(&mut *lock(&self.state), State::Ended) {
            connection.give_up(self.number);
        }
    }
}

impl Relays {
    pub fn new(identity: Arc<Identity>) -> Relays {
        Relays { identity, next: Arc::default(), idle: Arc::default() }
    }

    /// Opens a transaction at the agent of that server.
    pub fn open(&self, to: ServerId, placement: Placement, start: SessionStart, replies: Replies) -> There {
        let open = Relayed::Open(placement, start);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let current = Current { number, replies, may_commit: false };
        let idle = {
            let mut idle = lock(&self.idle);
            idle.retain(|(_, connection)| !connection.is_lost.load(Ordering::SeqCst));
            let place = idle.iter().position(|(server, _)| *server == to);
            place.map(|place| idle.swap_remove(place).1)
        };
        if let Some(connection) = idle {
            connection.begin(current, &open);
            return There { number, state: Arc::new(Mutex::new(State::Open(connection))) };
        }
        let state = Arc::new(Mutex::new(State::Dialling(Vec::new())));
        let (relays, dialled) = (self.clone(), state.clone());
        std::thread::spawn(move || relays.dial(to, current, &open, &dialled));
        There { number, state }
    }

    /// Dials, says what was said meanwhile, and then carries answers until the connection ends.
    fn dial(&self, to: ServerId, current: Current, open: &Relayed, state: &Mutex<State>) {
        let from = Sender::Coordinator(u64::from(self.identity.server));
        let dialled = self.identity.dial(to, from).and_then(|connection| {
            connection.set_patience(None)?;
            Ok((Mutex::new(connection.socket()?), connection))
        });
        let (socket, mut stream) = match dialled {
            Ok(dialled) => dialled,
            Err(fault) => {
                *lock(state) = State::Ended;
                current.replies.say_now(SessionReply::Over(unreachable_agent(&fault.to_string())));
                return;
            }
        };
        let is_lost = AtomicBool::new(false);
        let connection = Arc::new(RelayConnection { socket, current: Mutex::new(None), is_lost });
        {
            let mut state = lock(state);
            let State::Dialling(said) = &mut *state else { return };
            let (number, said) = (current.number, std::mem::take(said));
            connection.begin(current, open);
            said.iter().for_each(|relayed| connection.say(number, relayed));
            *state = State::Open(connection.clone());
        }
        let fault = loop {
            match read::<SessionReply>(&mut stream, Kind::Replies) {
                Ok(reply) => self.hear(to, &connection, reply),
                Err(fault) => break fault,
            }
        };
        connection.lose(&fault.to_string());
    }

    fn hear(&self, to: ServerId, connection: &Arc<RelayConnection>, reply: SessionReply) {
        let is_over = match &reply {
            SessionReply::Over(_) => true,
            SessionReply::Answered(answered) => answered.is_over(),
            SessionReply::Part(_) => false,
        };
        if !is_over {
            // A session that has gone gives the transaction up.
            let _ = lock(&connection.current).as_ref().map(|current| current.replies.say_now(reply));
            return;
        }
        let current = lock(&connection.current).take();
        if let Some(Current { replies, .. }) = current {
            // It is idle before the session may open the next one.
            lock(&self.idle).push((to, connection.clone()));
            replies.say_now(reply);
        }
    }
}
