//! The state of a shard after the execution of a prefix of its log that is the same for good.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::ids::CoordinatorId;

use crate::message::Registration;
use crate::packet::{Index, Outcome};
use crate::replica::locks::Locks;

/// The state after the entry with that index: of the application, of the client table and of the lock table, all of which are executed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint<O, R, S> {
    pub index: Index,
    pub application: S,
    pub clients: BTreeMap<CoordinatorId, Answers<R>>,
    /// No client in the table has a lower registration.
    pub client_floor: Registration,
    pub locks: Locks<O>,
}

/// How far a transaction is that has had its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress<R> {
    /// It waits for locks.
    Waiting,
    /// It was executed as a part of the entry with that index, which is its own or a later one.
    Done { at: Index, outcome: Outcome<R> },
}

/// Answers that a client may ask for again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answers<R> {
    pub registration: Registration,
    /// The client has all answers with lower sequences.
    pub floor: u64,
    /// By sequence; none below the floor.
    pub answers: BTreeMap<u64, Progress<R>>,
}

impl<R> Default for Answers<R> {
    fn default() -> Self {
        Answers { registration: 0, floor: 0, answers: BTreeMap::new() }
    }
}
