//! The comparators of eris.txt §8 in one simulated world: invariants and liveness under faults, bugs that the checks must catch, and the
//! claims of their sources (docs/internals/ordered-baselines.md).
//!
//! `WEIR_SEEDS=0..2000 cargo test -p weir-baselines --test main seeds` tries more seeds.

#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod granola;
mod lock_store;
mod lockstep;
mod nt_ur;
mod ordered;
mod planted;
mod seeds;
mod tapir;
mod world;
