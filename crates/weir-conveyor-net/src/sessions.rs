//! Transactions whose statements come one by one: a session asks, and a worker of the agent runs them over its connection.
//!
//! A session whose transaction needs no token runs it beside itself (`locals.rs`). Otherwise it opens the transaction under a number, and gives
//! that to the agent as an operation. When the operation may run, its worker takes the session's port, begins a database transaction, and answers
//! the session's requests until the transaction is over. After a serialization failure the transaction begins again, and everything that the
//! session has asked is asked again; if all answers are as before, the session does not notice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_conveyor::message::Lacks;
use weir_conveyor::routing::MapVersion;

use crate::operation::{SessionNumber, SqlError};
use crate::raw::CancelKey;

/// Messages of a client, and what ends the answer to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// As a client sends them.
    pub messages: Vec<u8>,
    /// Statements that have to be prepared: their names, and the Parse message. The unnamed one is prepared each time.
    pub prepared: Vec<(String, Vec<u8>)>,
    pub until: Until,
    /// The transaction was begun for this request, and ends with it.
    pub then_commit: bool,
    /// If the connection is lost meanwhile, the transaction may have committed.
    pub may_commit: bool,
    /// It changes settings of the connection.
    pub sets: bool,
    /// A COPY FROM STDIN with its rows.
    pub copies: bool,
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Until {
    /// ReadyForQuery.
    Ready,
    /// The answer ends with this number of answers to messages of the extended protocol, or with an error.
    Answers(u32),
}

/// A transaction of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionStart {
    /// The statement that begins it. None: it is one statement.
    pub begin: Option<String>,
    /// SET statements of the session.
    pub settings: Arc<Vec<String>>,
    /// Requests that another transaction was asked, with the digests of their answers: they are asked again, and have to be answered alike.
    pub replayed: Vec<(Arc<Request>, u64)>,
    /// The map of slots that says where it runs. None: it runs whatever the map is.
    pub map: Option<MapVersion>,
}

/// A message of a session to its worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Run(Arc<Request>),
    /// The session gives the transaction up: it rolls back.
    End,
    /// The agent does.
    Abort,
}

/// A message of a worker to its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionReply {
    /// A part of an answer. It cannot be taken back.
    Part(Vec<u8>),
    Answered(Answered),
    /// The transaction is over, and this is why.
    Over(Ending),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// As the server has sent them, without ReadyForQuery.
    pub messages: Vec<u8>,
    /// The status of the transaction, as ReadyForQuery has it. None: none was asked for.
    pub status: Option<u8>,
    pub digest: u64,
    /// Nothing of it has left before: the request can be asked again.
    pub is_whole: bool,
}

impl Answered {
    /// Returns whether no transaction is open any more.
    pub fn is_over(&self) -> bool {
        self.status == Some(b'I')
    }
}

/// Why a transaction is over without the session's having ended it. It has changed nothing, unless that is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It has met serialization failures only.
    Starved,
    /// It was run again, and an answer differed from one that the client has.
    Differs,
    /// It has taken longer than a global operation may.
    TooLong,
    /// Its client has said nothing for too long, and kept a connection.
    Idle,
    /// It may have committed or not.
    Unknown,
    Failed(SqlError),
    /// It has waited for too long, and was not begun.
    NotBegun(Lacks),
    /// It was placed under another map of slots than that of its server, and was not begun.
    WrongMap,
}

/// Takes what a session hears. False: the session has gone.
pub enum Replies {
    /// Of a session of this process, whose client may read slowly.
    Session(Sender<SessionReply>),
    /// Of a session of another agent. Whoever calls it may wait.
    Relayed(Box<dyn Fn(SessionReply) -> bool + Send + Sync>),
}

impl Replies {
    /// Says something as soon as the session takes it.
    pub async fn say(&self, reply: SessionReply) -> bool {
        match self {
            Replies::Session(session) => session.send(reply).await.is_ok(),
            Replies::Relayed(take) => take(reply),
        }
    }

    /// The same from any thread. One that carries clients does not wait: the session hears it later.
    pub fn say_now(&self, reply: SessionReply) -> bool {
        let session = match self {
            Replies::Session(session) => session,
            Replies::Relayed(take) => return take(reply),
        };
        match session.try_send(reply) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(reply)) if Handle::try_current().is_ok() => {
                let session = session.clone();
                std::thread::spawn(move || session.blocking_send(reply));
                true
            }
            Err(TrySendError::Full(reply)) => session.blocking_send(reply).is_ok(),
        }
    }
}

/// The side of a session that its worker has.
pub struct SessionPort {
    pub start: SessionStart,
    pub commands: UnboundedReceiver<Command>,
    pub replies: Replies,
    pub control: Arc<Control>,
    /// The request that has met a serialization failure.
    pub pending: Option<Arc<Request>>,
    /// A part of an answer has left, so nothing can be asked again.
    pub is_partial: bool,
}

impl SessionPort {
    pub fn new(start: SessionStart, replies: Replies) -> SessionPort {
        let (sender, commands) = unbounded_channel();
        let control = Arc::new(Control::new(sender));
        SessionPort { start, commands, replies, control, pending: None, is_partial: false }
    }
}

/// By which others reach into a transaction that runs.
pub struct Control {
    commands: UnboundedSender<Command>,
    key: Mutex<Option<CancelKey>>,
    is_aborted: AtomicBool,
    /// The transaction waits for a connection, and is not to wait any more.
    stops_waiting: Notify,
}

impl Control {
    fn new(commands: UnboundedSender<Command>) -> Control {
        let is_aborted = AtomicBool::new(false);
        Control { commands, key: Mutex::new(None), is_aborted, stops_waiting: Notify::new() }
    }

    /// Says something to the worker. If that has ended, nobody hears it.
    pub fn say(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// A statement runs over that connection, or none does.
    pub fn set_key(&self, key: Option<CancelKey>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// Cancels the statement that runs, if one does. The worker gives the connection to nobody else until the server has heard of it.
    pub fn cancel(&self) {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(error)) = key.as_ref().map(CancelKey::cancel) {
            tracing::warn!("a statement was not cancelled: {error}");
        }
    }

    /// A transaction that waits for a connection does not wait any more.
    pub fn stop_waiting(&self) {
        self.stops_waiting.notify_one();
    }

    pub(crate) async fn is_not_to_wait(&self) {
        self.stops_waiting.notified().await;
    }

    /// The transaction is to end: it takes too long.
    pub fn abort(&self) {
        self.is_aborted.store(true, Ordering::SeqCst);
        self.say(Command::Abort);
        self.cancel();
    }

    pub fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::SeqCst)
    }
}

/// Sessions of a process that wait for their workers, by number.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Waiting>);

#[derive(Default)]
struct Waiting {
    next: AtomicU64,
    ports: Mutex<BTreeMap<SessionNumber, SessionPort>>,
}

impl Sessions {
    fn ports(&self) -> MutexGuard<'_, BTreeMap<SessionNumber, SessionPort>> {
        self.0.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port waits for a worker. Returns its number.
    pub fn add(&self, port: SessionPort) -> SessionNumber {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.ports().insert(number, port);
        number
    }

    pub(crate) fn put_back(&self, number: SessionNumber, port: SessionPort) {
        self.ports().insert(number, port);
    }

    pub(crate) fn take(&self, number: SessionNumber) -> Option<SessionPort> {
        self.ports().remove(&number)
    }

    /// The operation of that number has ended without a worker. Returns its port, if it is still there.
    pub fn forget(&self, number: SessionNumber) -> Option<SessionPort> {
        self.take(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_carries_clients_does_not_wait_for_one_that_reads_slowly() {
        let (sender, mut replies) = tokio::sync::mpsc::channel(1);
        let said = Replies::Session(sender);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            assert!(said.say_now(SessionReply::Part(vec![1])));
            assert!(said.say_now(SessionReply::Over(Ending::Unknown)));
            assert_eq!(replies.recv().await, Some(SessionReply::Part(vec![1])));
            assert_eq!(replies.recv().await, Some(SessionReply::Over(Ending::Unknown)));
            drop(replies);
            assert!(!said.say_now(SessionReply::Part(Vec::new())), "the session has gone");
        });
    }
}
