//! The Conveyor Belt protocol (operation-partitioning.txt §4) over unmodified PostgreSQL servers, as pure state machines
//! (docs/internals/conveyor.md).
//!
//! An agent beside each server runs commutative and local operations at once and global ones while it has the token; state updates travel from
//! outboxes to all servers in the order of the visits. A coordinator of epochs finds lost tokens and fences their holders. Time, messages and
//! results of databases are arguments; messages and work for databases are results. Nothing here has a clock, a socket, a thread or randomness
//! of its own, and nothing here reads SQL.

pub mod agent;
pub mod coordinator;
pub mod epochs;
pub mod faults;
pub mod matching;
pub mod message;
pub mod plan;
pub mod routing;
pub mod schema;
pub mod settings;
pub mod token;
pub mod work;
