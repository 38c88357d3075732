//! Cost of unique keys (docs/price-list.md): statements of one row on a table with 0 to 3 of them, which on several shards are global.
//! pgbench is the client, with prepared statements.

use std::path::Path;

use crate::bench::pgbench::{PREPARED, Pgbench, Script};
use crate::bench::servers::{Server, failed, postgres_programs};
use crate::bench::side_by_side::{Load, Measured};
use crate::cli::BenchArguments;
use crate::output::Failure;

/// Name of the workload on the command line.
pub const KEYS: &str = "keys";

/// Limit on the unique keys of the table, beside its primary key.
pub const KEYS_MAX: u32 = 3;

/// Rows that are there before.
const ROWS: u32 = 20_000;

/// The measured statements, by their names on the command line. `id` is a row that is there; the other variables are values that no row has.
pub const OPERATIONS: [(&str, &str); 5] = [
    ("insert", "INSERT INTO priced VALUES (:i, :a, :b, :c, 0);"),
    ("select", "SELECT id, n FROM priced WHERE id = :id;"),
    ("select-key", "SELECT id, n FROM priced WHERE a = :id;"),
    ("update", "UPDATE priced SET n = n + 1 WHERE id = :id;"),
    ("update-key", "UPDATE priced SET a = :a WHERE id = :id;"),
];

/// The work of one measurement.
pub struct Keys {
    client: Pgbench,
    pub keys: u32,
    pub operation: (&'static str, &'static str),
}

impl Keys {
    /// As the settings say; by default INSERTs into a table with one key.
    pub fn of(arguments: &BenchArguments, wrong: &dyn Fn(&str, &str) -> Failure) -> Result<Keys, Failure> {
        let client = Pgbench { programs: postgres_programs(KEYS, &["pgbench"])?, protocol: PREPARED };
        let (mut keys, mut operation) = (1, OPERATIONS[0]);
        for (name, text) in &arguments.cluster.settings {
            let known = match name.as_str() {
                "keys" => text.parse().ok().filter(|keys| *keys <= KEYS_MAX).map(|given| keys = given),
                "operation" => {
                    OPERATIONS.into_iter().find(|(known, _)| known == text).map(|given| operation = given)
                }
                _ => None,
            };
            known.ok_or_else(|| {
                let names: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
                let hint =
                    format!("its settings are keys, up to {KEYS_MAX}, and operation: {}", names.join(", "));
                wrong(&format!("`{name}={text}` is wrong"), &hint)
            })?;
        }
        Ok(Keys { client, keys, operation })
    }

    /// Makes the table, with its rows.
    pub fn prepare(&self, server: &Server) -> Result<(), Failure> {
        let columns = ["a", "b", "c"].into_iter().take(self.keys as usize);
        let unique: String = columns.map(|column| format!(", UNIQUE ({column})")).collect();
        let mut client = server.address.connect()?;
        // One by one: an earlier Weir does not take so many rows in the transaction that makes the table.
        let made = client
            .batch_execute(&format!(
                "CREATE TABLE priced (id bigint PRIMARY KEY, a bigint, b bigint, c bigint, n integer{unique})"
            ))
            .and_then(|()| {
                let rows =
                    format!("INSERT INTO priced SELECT g, g, g, g, 0 FROM generate_series(1, {ROWS}) g");
                client.batch_execute(&rows)
            });
        made.map_err(|error| failed("CREATE TABLE priced", &error))
    }

    pub fn measure(
        &self,
        server: &Server,
        folder: &Path,
        (load, seed): (&Load, u64),
    ) -> Result<Measured, Failure> {
        let fresh = |variable: &str| format!("\\set {variable} random(1000000, 9000000000000000000)\n");
        let fresh: String = ["i", "a", "b", "c"].into_iter().map(fresh).collect();
        let text = format!("{fresh}\\set id random(1, {ROWS})\n{}\n", self.operation.1);
        self.client.measure(server, folder, &Script::Text(text), (load, seed))
    }
}
