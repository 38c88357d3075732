//! Guarded RAMP: read-atomic transactions over several shards, with the guards that the plan asks for.
//!
//! Source: ramp.txt, Algorithm 1 (RAMP-Fast), and design.md §5. Guarantees: all of a transaction's
//! writes become visible together; readers never wait for writers; writers wait only at their guards.
//! A transaction never aborts because of an ordinary write of another one.

pub mod client;
pub mod coordinator;
pub mod interactive;
pub mod ordered_call;
pub mod reader;
pub mod trace;
mod waits;

pub use client::{Begin, Coordinator, Event, FetchedRead, OfSnapshot, Protocol, own_statement};
pub use coordinator::{Action, Transaction};
