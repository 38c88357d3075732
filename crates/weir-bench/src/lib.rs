//! Workloads: the rows that an application starts with and the calls that its clients make.
//!
//! [`workload`] reads an application's `workload.toml` and streams rows and calls from a seed. Nothing
//! here opens a connection, knows a protocol or looks at a clock.

mod check;
mod client;
pub mod run;
mod tally;
pub mod workload;

pub use workload::{Call, CallGenerator, Workload};
