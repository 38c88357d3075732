//! Ordered transactions over the network: the machines of weir-ordered with sockets, threads and disks (docs/internals/ordered-network.md).
//!
//! Decides nothing of the protocol, and reads nothing in an operation or an answer.

pub mod bench;
pub mod client;
pub mod coordinator;
pub mod disk;
pub mod driver;
pub mod members;
pub mod outbox;
pub mod replica;
pub mod sequencer;
pub mod streams;
pub mod transport;
pub mod udp;
pub mod wire;

pub use client::{CallError, Client};
pub use members::Members;
