//! All tests of SQL text, catalogs and procedures, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

mod bad_input;
mod definitions;
mod examples;
mod golden;
