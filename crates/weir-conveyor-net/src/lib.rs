//! The Conveyor Belt protocol over real PostgreSQL servers: connections that do the work of weir-conveyor's agents, and agents as threads of one
//! process or as processes with sockets between them (docs/internals/conveyor.md).
//!
//! It decides nothing of the protocol: which transactions a piece of work is, and what they do, is in weir-conveyor's plans.

pub mod agent_loop;
pub mod alone;
mod base_copy;
mod batch;
mod batch_plan;
pub mod check;
pub mod config;
pub mod connection;
mod connections;
pub mod coordinator_node;
mod delays;
mod locals;
pub mod map_change;
pub mod membership;
pub mod node;
pub mod operation;
pub mod pass_through;
pub mod process;
pub mod raw;
mod relay;
pub mod sequences;
mod session_worker;
pub mod sessions;
pub mod sockets;
pub mod wire;
pub mod workers;
