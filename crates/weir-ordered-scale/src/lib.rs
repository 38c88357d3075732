//! Capacity of the comparators of eris.txt §8 by discrete-event simulation, with costs that were measured (docs/internals/ordered-baselines.md,
//! "By simulation").
//!
//! The machines are those of `weir-baselines`. Each server is a machine with one core. Pure: no clock, no socket, no thread; a seed decides
//! everything.

pub mod calibration;
pub mod costs;
pub mod experiments;
pub mod figures;
pub mod front_end;
pub mod link;
pub mod run;
pub mod simulation;
pub mod table;
pub mod verdicts;
