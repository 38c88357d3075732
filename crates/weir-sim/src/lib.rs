//! The same nodes and coordinators in virtual time, from one seed.
//!
//! A first driver: messages are delayed and overtake one another; nothing is lost and nobody crashes (a
//! later issue adds those). Everything that happens follows from the seed, so a failure is a number.

mod driver;

pub use driver::{Audit, Outcome, Simulation};
