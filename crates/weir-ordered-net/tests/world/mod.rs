//! The parts that the clusters share with the simulated world of weir-ordered: its application, and its checker.

pub mod application;
pub mod chains;
#[path = "../../../weir-ordered/tests/world/registers.rs"]
#[allow(dead_code, reason = "the simulated world uses all of it")]
pub mod registers;
#[path = "../../../weir-ordered/tests/world/strict.rs"]
#[allow(dead_code, reason = "the simulated world uses all of it")]
pub mod strict;
