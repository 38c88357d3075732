//! All tests of the analysis, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

#[path = "support/random.rs"]
mod random;
#[path = "support/small.rs"]
mod small_cases;
mod support;

mod actions;
mod active_active;
mod anomalies;
mod apart;
mod claims;
mod composed;
mod existence;
mod families;
mod golden;
mod nearby;
mod partitioning;
mod partitioning_soundness;
mod paths;
mod schema_alone;
mod schema_features;
mod small;
mod suggestions;
mod table1;
mod table2;
mod tpcc;
