//! Ordered transactions in a simulated world: invariants and liveness under faults, and bugs that the checks must catch
//! (docs/internals/ordered.md).
//!
//! `WEIR_SEEDS=0..2000 cargo test -p weir-ordered --test main seeds` tries more seeds.

#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod model;
mod normal;
mod planted;
mod seeds;
mod world;
