//! The front of `weir conveyor` over real PostgreSQL servers, which the tests start for themselves, with agents as processes
//! (docs/internals/conveyor.md).

mod clients;
mod deployment;
mod kills;
mod pass_through;
#[path = "../../weir-bench/src/postgres.rs"]
#[allow(dead_code, reason = "the bench uses all of it")]
mod postgres_server;
