//! All tests of workloads, SQL beside PostgreSQL, and clusters in virtual time, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

mod on_postgres;
mod on_shards;
#[path = "../../weir-analysis/tests/support/small.rs"]
mod small;
mod world;

mod simulated {
    mod assertions_under_faults;
    mod built_indexes_under_faults;
    mod calls_under_faults;
    mod carried;
    mod copies_under_faults;
    mod deferred_under_faults;
    mod definitions_under_faults;
    mod escrow_under_faults;
    mod for_update;
    mod foreign_keys_under_faults;
    mod global_keys_under_faults;
    mod handed_over;
    mod hot_runs;
    mod interactive_calls;
    mod interactive_under_faults;
    mod loads_under_faults;
    mod ordered_under_faults;
    mod planted_bugs;
    mod price_list;
    mod random_assertions;
    mod scale;
    mod serializable_under_faults;
    mod snapshots_under_faults;
    mod starved_calls;
    mod statements_under_faults;
    mod streams_under_faults;
    mod table_1;
    mod ycsb;
}

mod postgres {
    mod corpus;
    mod differential;
    mod examples_on_postgres;
    mod expressions;
    mod random_queries;
}
