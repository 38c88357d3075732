//! From plan to commit: storage, execution and the protocols.
//!
//! Everything here is a pure state machine or a pure data structure: no clock, no socket, no thread, no
//! randomness of its own. Time and messages come in as arguments.

pub mod claims;
mod entries;
pub mod exec;
pub mod faults;
pub mod invariant;
pub mod message;
mod placement;
pub mod ramp;
pub mod shard;
pub mod storage;
pub mod stream;
