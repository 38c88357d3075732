//! All tests of the search for counterexamples, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/crosscheck.rs"]
mod crosscheck;
#[path = "support/random.rs"]
mod random;
mod support;
#[path = "support/topics.rs"]
mod topics;
#[path = "support/tricky.rs"]
mod tricky_cases;
#[path = "support/wide.rs"]
mod wide;

mod applications;
mod examples;
mod nearby;
mod show;
mod tricky;
mod unique_indexes;

mod simulated {
    mod property;
}
