//! The comparators of eris.txt §8 as state machines over the same operations (docs/internals/ordered-baselines.md).
//!
//! Pure: no clock, no socket, no thread, no chance of their own.
//!
//! | name | order and isolation | replication |
//! |---|---|---|
//! | `nt-ur` | none | none |
//! | `lock-store` | two-phase commit, strict two-phase locking | Viewstamped Replication |
//! | `granola` | timestamps on which participants vote | Viewstamped Replication |
//! | `tapir` | optimistic, by timestamps of clients | Inconsistent Replication |

pub mod application;
pub mod faults;
pub mod granola;
pub mod journal;
pub mod lock_store;
pub mod machine;
pub mod nt_ur;
pub mod operation;
pub mod ordered;
pub mod retry;
pub mod tapir;
pub mod tpcc;
pub mod vr;
pub mod workload;
