//! Messages between agents, and between agents and the coordinator of epochs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_core::lsn::{Lsn, Outgoing};

use crate::epochs::{Epoch, Epochs, ServerId, StartNumber, VisitNumber};
use crate::routing::MapVersion;
use crate::token::{Token, Visit};
use crate::work::{DatabaseState, EpochRow, Work, WorkId};

/// Name of an operation: the agent that took it from its client, the start of that agent, and a number that ascends with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId {
    pub agent: ServerId,
    pub start: StartNumber,
    pub number: u64,
}

/// Class of an operation with its arguments, and the server that runs it (operation-partitioning.txt §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Placement {
    /// In no conflict: any server runs it.
    Commutative,
    Local(ServerId),
    Global(ServerId),
}

impl Placement {
    /// The only server that may run it. None: any may.
    pub fn server(self) -> Option<ServerId> {
        match self {
            Placement::Commutative => None,
            Placement::Local(server) | Placement::Global(server) => Some(server),
        }
    }
}

/// An operation to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request<O> {
    pub id: OperationId,
    pub placement: Placement,
    /// The map of slots that says so.
    pub map: MapVersion,
    pub operation: O,
}

/// Resource for which an operation has waited too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lacks {
    Token,
    /// The database of its server has not answered.
    Database,
    /// All connections were in use.
    Connection,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome<R> {
    Answered(R),
    /// It has met serialization failures only, and has changed nothing (40001).
    Starved,
    /// It took longer than a global operation may, and has changed nothing.
    TooLong,
    /// The connection or the agent was lost on the way: it may have committed or not (08007).
    Unknown,
    /// It has waited for longer than operations may, and has not been begun (57P03).
    NotBegun(Lacks),
    /// It was placed under another map of slots than that of its server, and has changed nothing. It is to be placed again.
    WrongMap,
}

/// A message of one agent to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentMessage<O, R, U> {
    Token(Token<U>),
    /// A visit that has ended, as have all before it. It comes before the token, so that it is applied by the time that the token is here.
    /// Nothing depends on it: the token carries the visit, too.
    Ended(Arc<Visit<U>>),
    /// The token of that visit has come.
    TokenReceived {
        epoch: Epoch,
        visit: VisitNumber,
    },
    /// A global operation waits: a token that idles goes on.
    Wanted {
        epoch: Epoch,
    },
    /// An operation for the server of the receiver, if it is still in that start.
    Forward {
        to_start: StartNumber,
        request: Request<O>,
        answered_below: u64,
    },
    /// The receiver of a `Forward` is in another start than the one that was tried.
    WrongStart {
        id: OperationId,
        tried: StartNumber,
        start: StartNumber,
    },
    Answer {
        id: OperationId,
        outcome: Outcome<R>,
    },
}

/// A message of an agent to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    Alive {
        epoch: Epoch,
        /// A visit that is known to have ended, with all before it.
        ended: VisitNumber,
        /// Everything up to this visit is in its database, or is empty, or is its own.
        reached: VisitNumber,
        /// The state of its database. Its position is durable: a restart begins behind it. None: the database does not answer.
        database: Option<DatabaseState>,
    },
    /// The sender has ended the visit before this one, and will never pass the token of that epoch on to it.
    Unpassed { epoch: Epoch, visit: VisitNumber },
    /// The row of a database after `Instruction::Fence`.
    Fenced { server: ServerId, epoch: Epoch, visit: VisitNumber, row: EpochRow },
}

/// A message of the coordinator to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instruction {
    Told {
        epochs: Epochs,
        /// As in `Report::Alive`.
        ended: VisitNumber,
        /// The token of the last epoch is not to be passed on: another epoch is to begin.
        holds: bool,
    },
    /// Raise the epoch in the database of that server, and close the visit there unless it has ended.
    Fence { server: ServerId, epoch: Epoch, visit: VisitNumber },
}

/// What a step of an agent has to be done.
#[derive(Debug)]
pub struct Effects<O, R, U> {
    pub messages: Vec<(ServerId, AgentMessage<O, R, U>)>,
    pub reports: Vec<Report>,
    /// Work for databases. Its result goes to `Agent::on_done`, in any order.
    pub works: Vec<(WorkId, Work<O, U>)>,
    /// Operations of own clients that have ended.
    pub answers: Vec<(OperationId, Outcome<R>)>,
    /// Operations that run and are to be aborted. `Work::Execute` ends with `Done::Cancelled`, or as it has ended before.
    pub aborts: Vec<WorkId>,
}

impl<O, R, U> Default for Effects<O, R, U> {
    fn default() -> Self {
        Effects {
            messages: Vec::new(),
            reports: Vec::new(),
            works: Vec::new(),
            answers: Vec::new(),
            aborts: Vec::new(),
        }
    }
}

/// What a step of the coordinator has to be sent.
#[derive(Debug, Default)]
pub struct Instructions {
    pub messages: Vec<Outgoing<ServerId, Instruction>>,
}

impl Instructions {
    pub fn send_after(&mut self, to: ServerId, message: Instruction, after: Lsn) {
        self.messages.push(Outgoing { to, message, after });
    }
}
