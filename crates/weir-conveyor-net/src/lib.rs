//! The Conveyor Belt protocol over real PostgreSQL servers: connections that do the work of weir-conveyor's agents
//! (docs/internals/conveyor.md).
//!
//! It decides nothing of the protocol: which transactions a piece of work is, and what they do, is in weir-conveyor's plans.

pub mod check;
pub mod config;
pub mod connection;
pub mod node;
pub mod operation;
mod workers;
