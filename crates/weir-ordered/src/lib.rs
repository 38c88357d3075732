//! Ordered transactions: the Eris protocol (eris.txt §5–§7) as pure state machines (docs/internals/ordered.md).
//!
//! A sequencer gives independent transactions one order, replicas keep it, clients wait for a view-consistent quorum of each shard, and a
//! failure coordinator decides what becomes of lost messages and of sequencers. Time and messages are arguments; messages and records are
//! results. Nothing here has a clock, a socket, a thread or randomness of its own.

pub mod application;
pub mod carried;
pub mod client;
pub mod cluster;
pub mod exposed;
pub mod failure_coordinator;
pub mod faults;
pub mod few;
pub mod footprint;
pub mod message;
pub mod packet;
pub mod replica;
pub mod sequencer;

pub use weir_core::raft_message;
