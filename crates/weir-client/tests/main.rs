//! All tests of the client library, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

mod servers;

mod processes {
    mod cluster;
    mod relations;
    mod versions;
}
