//! Capacity and latency of Conveyor Belt and its comparators by discrete-event simulation, with service times that were measured
//! (docs/internals/conveyor-bench.md, "By simulation").
//!
//! Agents and coordinator are the machines of `weir-conveyor`; each database is a model with the measured processor time of each step. Pure: no
//! clock, no socket, no thread; a seed decides everything.

mod agenda;
pub mod belt;
pub mod chance;
pub mod costs;
pub mod database;
pub mod experiments;
pub mod load;
pub mod processor;
pub mod sites;
pub mod table;
pub mod two_phase;
pub mod verdicts;
