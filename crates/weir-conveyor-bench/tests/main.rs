//! Workloads over real PostgreSQL servers, which the tests start for themselves (docs/internals/conveyor-bench.md).

#[path = "../../weir-sim/src/chance.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod chance;
mod histories;
mod workloads;
