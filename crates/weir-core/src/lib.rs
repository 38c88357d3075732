//! The common parts of all protocols: names and time, shards and coordinators as traits, and the bookkeeping of transactions and readers.
//!
//! Pure: time and messages come in as arguments. Knows neither SQL nor items, so that the network builds without PostgreSQL's grammar.

pub mod clock;
pub mod draining;
pub mod exposed;
pub mod faults;
pub mod flights;
pub mod history;
pub mod ids;
pub mod lsn;
pub mod machine;
pub mod nearby;
pub mod participant;
pub mod raft_message;
pub mod readers;
pub mod round;
pub mod termination;
