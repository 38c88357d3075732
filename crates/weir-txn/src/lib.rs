//! From plan to commit: storage, execution and the protocols.
//!
//! Everything here is a pure state machine or a pure data structure: no clock, no socket, no thread, no
//! randomness of its own. Time and messages come in as arguments.

pub mod clock;
pub mod exec;
mod exposed;
pub mod faults;
pub mod flights;
pub mod history;
pub mod invariant;
pub mod items;
pub mod lsn;
pub mod machine;
pub mod nearby;
pub mod node;
pub mod ramp;
pub mod readers;
pub mod storage;
pub mod termination;
