//! Private PostgreSQL servers with the application's schema and rows.

use std::io::Write;
use std::path::Path;

use postgres::{Client, NoTls};
use weir_bench::postgres::Server;
use weir_conveyor::epochs::ServerId;
use weir_conveyor::routing::Routing;
use weir_types::SqlError;
use weir_types::text::to_text;

use crate::application::Bench;
use crate::calls;

/// The seed of the population: every server has the same rows.
const POPULATION_SEED: u64 = 1;

/// Starts a server, checks that it is ours, and fills it.
///
/// # Errors
/// PostgreSQL's.
pub fn start(bench: &Bench, settings: &[&str]) -> Result<Server, String> {
    let server = Server::start_with(settings).map_err(|error| error.to_string())?;
    let mut client = connect(&server.connection_string())?;
    let row = client.query_one("SHOW data_directory", &[]).map_err(said)?;
    let data: String = row.get(0);
    if Path::new(&data) != server.data() {
        return Err(format!("{data} is a stranger's server"));
    }
    for file in &bench.application.sources.files[..bench.files] {
        // Assertions are Weir's own, and constraints that PostgreSQL does not have.
        if !file.name.ends_with("invariants.sql") {
            client.batch_execute(&file.text).map_err(|error| format!("{}: {}", file.name, said(error)))?;
        }
    }
    client.batch_execute(&calls::functions(&bench.application)).map_err(said)?;
    fill(bench, &mut client)?;
    Ok(server)
}

/// # Errors
/// The server's.
pub fn connect(config: &str) -> Result<Client, String> {
    Client::connect(config, NoTls).map_err(said)
}

pub(crate) fn said(error: postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{}: {}", db.code().code(), db.message()),
        None => error.to_string(),
    }
}

/// The server hands out ids that route back to it.
///
/// # Errors
/// The server's.
pub fn number(bench: &Bench, config: &str, routing: &Routing, server: ServerId) -> Result<(), String> {
    let mut client = connect(config)?;
    for statement in bench.plan.sequence_statements(routing, server, 0) {
        client.batch_execute(&statement).map_err(said)?;
    }
    Ok(())
}

/// Rows by COPY, parents first.
fn fill(bench: &Bench, client: &mut Client) -> Result<(), String> {
    for table in bench.workload.load_order() {
        let table = bench.application.catalog.table(*table);
        let mut rows = Vec::new();
        let mut line = |values: Vec<weir_types::Value>| -> Result<(), SqlError> {
            for (index, (value, column)) in values.iter().zip(&table.columns).enumerate() {
                if index > 0 {
                    rows.push(b'\t');
                }
                match value.is_null() {
                    true => rows.extend_from_slice(b"\\N"),
                    false => rows.extend_from_slice(escaped(&to_text(value, &column.ty)).as_bytes()),
                }
            }
            rows.push(b'\n');
            Ok(())
        };
        bench.workload.load_rows(POPULATION_SEED, table.id, &mut line).map_err(|error| error.to_string())?;
        let mut copy = client.copy_in(&format!("COPY {} FROM STDIN", table.name)).map_err(said)?;
        copy.write_all(&rows).map_err(|error| error.to_string())?;
        copy.finish().map_err(said)?;
    }
    client.batch_execute("ANALYZE").map_err(said)
}

/// A value in COPY's text format.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}
