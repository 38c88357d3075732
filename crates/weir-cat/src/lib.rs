//! Contention, aborts and throughput (cat-theorem.txt) and the cost of coordination (coordination-avoidance.txt §6.1) as functions.
//!
//! Pure: times, seeds and measured transactions are arguments. Nothing here reads a clock, opens a socket or knows SQL
//! (docs/internals/cat.md).

pub mod chance;
pub mod commitment;
pub mod contention;
pub mod delays;
pub mod gray;
pub mod history;
pub mod hottest;
pub mod interleavings;
pub mod live;
pub mod slots;
pub mod workload;
pub mod zipf;
