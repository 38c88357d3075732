//! All tests of shards and coordinators, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

mod accessed_rows;
mod calls;
mod exposed;
mod in_doubt;
mod late;
mod ordered;
mod plans;
mod positions;
mod stored;
mod unchanged;
mod waits;
