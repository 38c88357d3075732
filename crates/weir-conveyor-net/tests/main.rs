//! The Conveyor Belt protocol over real PostgreSQL servers, which the tests start for themselves (docs/internals/conveyor.md).

#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod coordinator_nodes;
mod histories;
mod long_requests;
mod moves;
mod shop;
mod soundness;
mod transactions;
