//! The front of `weir conveyor` over real PostgreSQL servers, which the tests start for themselves, with agents as processes
//! (docs/internals/conveyor.md).

mod analysed;
#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod clients;
mod deployment;
mod drivers;
mod histories;
#[path = "../../weir/tests/installed/mod.rs"]
mod installed;
mod kills;
mod moves;
mod pass_through;
#[path = "../../weir-conveyor-net/tests/shop.rs"]
#[allow(dead_code, reason = "the tests of agents without a front use all of it")]
mod shop;
