//! Workloads: the rows that an application starts with and the calls that its clients make; running them;
//! and what they are compared with.
//!
//! [`workload`] reads an application's `workload.toml` and streams rows and calls from a seed: it opens no
//! connection, knows no protocol and looks at no clock. [`postgres`] is a private server to compare with.

mod check;
mod client;
pub mod figures;
pub mod hot;
pub mod pace;
pub mod processes;
pub mod run;
pub mod scale;
pub mod simulate;
mod tally;
pub mod workload;
pub mod ycsb;

pub use weir_harness::{Spread, plot, postgres};
pub use workload::{Call, CallGenerator, Workload};
