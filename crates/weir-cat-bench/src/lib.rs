//! The experiments of cat-theorem.txt §4 over Weir, PostgreSQL and MariaDB, and the calculated figures of its §3 and of
//! coordination-avoidance.txt §6.1 (docs/internals/cat.md).
//!
//! It starts servers of its own and decides nothing of any protocol: what contention is stands in `weir-cat`.

pub mod calculated;
pub mod claims;
pub mod experiments;
pub mod laboratory;
pub mod live;
pub mod metrics;
pub mod run;
pub mod schema;
pub mod servers;
pub mod session;
pub mod table;
pub mod target;
