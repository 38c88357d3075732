//! Conveyor Belt and its comparators over real PostgreSQL servers: TPC-W, RUBiS and a micro-benchmark, one load generator for all targets, and
//! the service times that the simulation is fed with (docs/internals/conveyor-bench.md).

pub mod application;
pub mod calls;
pub mod measure;
pub mod overhead;
pub mod proxy;
pub mod report;
pub mod run;
pub mod servers;
pub mod spread;
pub mod target;
pub mod two_phase;
