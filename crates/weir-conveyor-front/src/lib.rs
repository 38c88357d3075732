//! The front of `weir conveyor`: clients of PostgreSQL's protocol, whose transactions are matched, placed and run by agents
//! (docs/internals/conveyor.md, "The front").
//!
//! Connections, startup, authentication and the reading of messages are weir-pg's. A session here keeps no rows and knows no types beyond those of
//! parameters: what a server answers goes to the client as it is.

mod admin;
mod analysed;
pub mod application;
mod copy;
mod door;
pub mod executor;
pub mod figures;
mod messages;
mod moves;
mod parameters;
pub mod placement;
mod rows;
pub mod run;
mod session;
mod shared;
pub mod statement;
mod transaction;

pub use door::Front;
pub use shared::{FrontSettings, Mode};
