//! Guarded RAMP: read-atomic transactions over several shards, with the guards that the plan asks for.
//!
//! Source: ramp.txt, Algorithm 1 (RAMP-Fast), and design.md §5. Guarantees: all of a transaction's
//! writes become visible together; readers never wait for writers; writers wait only at their guards.
//! A transaction never aborts because of an ordinary write of another one.

pub mod claims;
pub mod client;
pub mod coordinator;
pub(crate) mod definitions;
mod exposed;
pub mod interactive;
pub mod log;
pub mod message;
pub(crate) mod open;
pub(crate) mod outcomes;
pub mod participant;
pub mod reader;
mod reads;
pub(crate) mod snapshot;
mod termination;
pub mod trace;
mod waits;

pub use client::{Begin, Coordinator, Event, FetchedRead, OfSnapshot, Protocol, own_statement};
pub use coordinator::{Action, Transaction};
pub use log::Record;
pub use message::{
    AdvisoryKey, Age, Answers, Begun, Call, Callee, Output, PartsRead, Progress, ReadQuery, Reply, Request,
    ShardId, Sibling, TableRead, TxnId,
};
pub use open::forgotten;
pub use snapshot::forgotten_snapshot;
pub use termination::Left;
