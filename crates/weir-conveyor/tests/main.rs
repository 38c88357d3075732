//! The Conveyor Belt protocol in a simulated world: histories are serializable under faults, and bugs are caught (docs/internals/conveyor.md).
//!
//! `WEIR_SEEDS=0..2000 cargo test -p weir-conveyor --test main seeds` tries more seeds.

#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod planted;
mod seeds;
mod world;
