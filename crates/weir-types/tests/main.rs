//! All tests of values and functions, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

mod long_calls;
mod no_panics;
mod recorded_answers;
