//! The Conveyor Belt protocol over real PostgreSQL servers, which the tests start for themselves (docs/internals/conveyor.md).

#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod coordinator_nodes;
mod histories;
mod long_requests;
#[path = "../../weir-harness/src/postgres.rs"]
#[allow(dead_code, reason = "the bench uses all of it")]
mod postgres_server;
mod shop;
mod soundness;
mod transactions;
