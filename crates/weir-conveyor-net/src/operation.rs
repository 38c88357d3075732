//! Operations, answers and state updates over PostgreSQL, as an agent carries them.

use serde::{Deserialize, Serialize};
use weir_conveyor::routing::MapChange;
use weir_conveyor::schema::{OutboxRow, Sql};
use weir_conveyor::work::{Done, Work};

/// An operation whose statements are known from the start, so that it can be run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Their results have columns of type text only.
    pub statements: Vec<Sql>,
}

/// Number of a session of this process that has a transaction to run.
pub type SessionNumber = u64;

/// An operation as an agent carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    Statements(Operation),
    /// A transaction whose statements come one by one from a session of the process that runs it. It is never forwarded: its session is relayed
    /// to the process instead (`relay.rs`).
    Session(SessionNumber),
    /// A change of the map of slots, by the server that makes it.
    Map(MapJob),
}

/// A change of the map, and what travels with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapJob {
    pub change: MapChange,
    pub tables: Vec<PlacedTable>,
    /// Sequences whose ids route back to their server, by their names in statements.
    pub sequences: Vec<String>,
}

/// A table that commutative or local operations write: each server has its own rows there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedTable {
    /// As in the outbox.
    pub relation: String,
    /// The column whose value routes the operations that touch a row. None: commutative operations insert its rows, and nobody reads them; they
    /// travel when a server leaves.
    pub column: Option<String>,
    /// Only columns of integers route as the server computes it.
    pub is_by_hand: bool,
}

/// A result set.
pub type Rows = Vec<Vec<Option<String>>>;

/// An error of a statement: the operation has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlError {
    pub sqlstate: String,
    pub message: String,
}

/// The result of each statement, or the error of the first that has failed.
pub type Answer = Result<Vec<Rows>, SqlError>;

/// The rows that one global operation has changed, each with its relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateUpdate {
    pub rows: Vec<(String, OutboxRow)>,
}

pub type SqlWork = Work<Job, StateUpdate>;
pub type SqlDone = Done<Answer, StateUpdate>;
