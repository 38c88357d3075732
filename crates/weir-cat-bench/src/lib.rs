//! The experiments of cat-theorem.txt §4 over Weir, PostgreSQL and MariaDB, and the calculated figures of its §3 and of
//! coordination-avoidance.txt §6.1 (docs/internals/cat.md).
//!
//! It starts servers of its own and decides nothing of any protocol: what contention is stands in `weir-cat`.

pub mod advice;
pub mod calculated;
pub mod claims;
pub mod connection;
pub mod experiments;
pub mod laboratory;
pub mod live;
pub mod load;
pub mod metrics;
pub mod page;
pub mod place;
pub mod recording_cost;
pub mod run;
pub mod schema;
pub mod servers;
pub mod table;
pub mod target;
pub mod trace;
mod weir_process;
pub mod workbench;
pub mod workload;
