//! A shard: joins storage, executor and protocols. Its log, its open transactions, its schema changes, its snapshots.
//!
//! A pure state machine ([`weir_core::machine::Shard`]): no clock, no socket, no thread.

mod building;
mod definitions;
mod exposed;
mod hand_over;
mod in_doubt;
mod intervals;
mod large_commits;
pub mod log;
mod long_calls;
mod node;
mod older_builds;
mod open;
pub mod ordered;
pub mod participant;
mod reads;
mod repetitions;
mod snapshot;
mod starvation;
mod waiting;
mod workers;

pub use log::{Record, is_whole};
pub use node::{Effects, Node};
