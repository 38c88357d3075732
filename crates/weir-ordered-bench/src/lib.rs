//! The comparators of eris.txt §8 over a real network: one event loop, transport and load for all of them, processor time by party
//! (docs/internals/ordered-baselines.md).
//!
//! Decides nothing of any protocol, and keeps every log in memory, as the paper does.

pub mod answers;
pub mod cluster;
pub mod cpu;
pub mod load;
pub mod loss;
pub mod report;
pub mod run;
pub mod server;
pub mod settings;
pub mod source;
pub mod tpcc;
