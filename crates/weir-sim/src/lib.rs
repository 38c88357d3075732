//! The same nodes and coordinators in virtual time, from one seed.
//!
//! [`Cluster`] drives anything that has the shape of `weir_core::machine`, with faults; [`items`] runs RAMP over
//! items in it and checks what clients were told with [`history`]. [`calls`] runs an application's SQL calls in
//! it. [`Simulation`] is the older driver of those: messages overtake one another there, nothing is lost. Everything that happens follows from the
//! seed, so a failure is a number. [`scale`] has no faults: it says how much many servers do.

pub mod calls;
pub mod chance;
mod claims;
pub mod cluster;
mod disk;
mod driver;
pub mod history;
pub mod items;
pub mod network;
pub mod relations;
pub mod scale;
mod worker;

pub use cluster::{Clients, Cluster, Mortal, Starts};
pub use driver::{Audit, Outcome, Simulation};
pub use network::Faults;
