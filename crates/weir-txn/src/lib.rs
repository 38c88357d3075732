//! From plan to commit: storage, execution and the protocols.
//!
//! Everything here is a pure state machine or a pure data structure: no clock, no socket, no thread, no
//! randomness of its own. Time and messages come in as arguments.

pub mod claims;
pub mod clock;
pub mod exec;
mod exposed;
pub mod faults;
pub mod flights;
pub mod history;
pub mod ids;
pub mod invariant;
pub mod items;
pub mod machine;
pub mod message;
pub mod nearby;
mod placement;
pub mod ramp;
pub mod readers;
pub mod shard;
pub mod storage;
pub mod termination;
