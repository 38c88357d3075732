//! A shard: joins storage, executor and protocols. Its log, its open transactions, its schema changes, its snapshots.
//!
//! A pure state machine ([`weir_core::machine::Shard`]): no clock, no socket, no thread.

mod definitions;
mod exposed;
pub mod log;
mod node;
mod open;
mod outcomes;
pub mod participant;
mod reads;
mod snapshot;
mod termination;

pub use log::Record;
pub use node::{Effects, Node};
pub use termination::Left;
