//! All tests of the binary as its users run it, in one program. Tiers are modules: what is in none is pure; `simulated` runs
//! in virtual time, `postgres` beside a PostgreSQL server, `processes` starts servers, drivers, browsers, and ends them.

mod alone;
mod answers;
mod bank;
mod both;
mod browser;
mod conversation;
mod directory;
mod endless;
mod eventually;
mod gate;
#[path = "../../weir-bench/tests/simulated/serializable_under_faults/history.rs"]
mod history;
mod installed;
mod mutated;
mod nodes;
mod wire;

mod bad_input;
mod documents;
mod proofs;
mod replay;
mod ways_in;
mod ways_out;
mod weights;

mod processes {
    mod assertions;
    mod async_clients;
    mod calls_over_network;
    mod catalogs;
    mod client_calls;
    mod connections;
    mod copy_conversations;
    mod current_values;
    mod cursors;
    mod deferred_constraints;
    mod definitions;
    mod do_blocks;
    mod drivers;
    mod dump;
    mod dump_by_pg_dump;
    mod durability;
    mod ended_sessions;
    mod explain;
    mod far_statements;
    mod foreign_keys;
    mod from_log;
    mod from_server;
    mod generated_ids;
    mod global_arbiters;
    mod global_keys;
    mod inner_statements;
    mod interactive_calls;
    mod joined_writes;
    mod keys_of_filled_tables;
    mod kills;
    mod kills_through_postgres;
    mod long_calls;
    mod long_queries;
    mod migrations;
    mod moved_rows;
    mod notices;
    mod observed;
    mod old_data;
    mod orders;
    mod postgres_protocol;
    mod promises;
    mod recovery;
    mod replicated_tables;
    mod report_in_chromium;
    mod rewritten_statements;
    mod row_conditions;
    mod serializable_kills;
    mod serve;
    mod shop;
    mod side_by_side;
    mod spilling;
    mod streams;
    mod transactions_like_postgres;
    mod under_locks;
    mod unique_indexes;
    mod wire_conversations;
    mod writes_in_with;
    mod zones;
}
