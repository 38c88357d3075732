//! The state of a shard after the execution of a prefix of its log that is the same for good.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::ids::CoordinatorId;

use crate::message::Registration;
use crate::packet::Index;

/// The state after the entry with that index: of the application, and of the client table, which is a part of the executed state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint<R, S> {
    pub index: Index,
    pub application: S,
    pub clients: BTreeMap<CoordinatorId, Answers<R>>,
}

/// Answers that a client may ask for again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answers<R> {
    pub registration: Registration,
    /// The client has all answers with lower sequences.
    pub floor: u64,
    /// By sequence; none below the floor.
    pub answers: BTreeMap<u64, R>,
}

impl<R> Default for Answers<R> {
    fn default() -> Self {
        Answers { registration: 0, floor: 0, answers: BTreeMap::new() }
    }
}
