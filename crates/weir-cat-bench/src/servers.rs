//! The servers of the CAT experiment: each is started when it is first asked for, on sockets or loopback ports of its own, and ends with this value.
//!
//! None waits for a disk: PostgreSQL runs with `fsync=off`, MariaDB flushes its log once a second, Weir runs without `--data`.

use std::path::{Path, PathBuf};

use weir_harness::{mariadb, postgres};

use crate::connection::{Address, connect};
use crate::metrics;
use crate::schema::{Change, LENGTHS, TABLE, procedures};
use crate::target::Target;
use crate::weir_process::{Served, WeirProcess};
use crate::workload::{Keys, Workload as _};

/// PostgreSQL looks for deadlocks after a second by default; that would make each cost a second.
pub const DEADLOCK_TIMEOUT: &str = "deadlock_timeout=10ms";

/// Database of the private MariaDB server.
pub const MARIADB_DATABASE: &str = "cat";

/// Started servers.
#[derive(Debug)]
pub struct Servers {
    weir: PathBuf,
    shards: u16,
    postgres: Option<postgres::Server>,
    mariadb: Option<mariadb::Server>,
    increments: Option<WeirProcess>,
    modifications: Option<WeirProcess>,
}

impl Servers {
    /// `weir` is the program of that name; Weir runs on so many shards.
    pub fn new(weir: &Path, shards: u16) -> Servers {
        let weir = weir.to_path_buf();
        Servers { weir, shards, postgres: None, mariadb: None, increments: None, modifications: None }
    }

    /// Ends those that were started.
    pub fn end(&mut self) {
        (self.postgres, self.mariadb, self.increments, self.modifications) = (None, None, None, None);
    }

    /// Where a target's server listens, which is started if it is not there yet.
    ///
    /// # Errors
    /// It cannot be started; the text says why, and what to install.
    pub fn address(&mut self, target: Target) -> Result<Address, String> {
        match target {
            Target::MariaDbInteractive(_) => self.mariadb(),
            Target::PostgresInteractive(_) | Target::PostgresCall(_) => self.postgres(),
            Target::WeirOrdered | Target::WeirConfluent | Target::WeirInteractive(_) => {
                let (program, shards, change) = (self.weir.clone(), self.shards, target.change());
                let weir = match change {
                    Change::Increment => &mut self.increments,
                    Change::Modify => &mut self.modifications,
                };
                let (schema, procedures) = (format!("{TABLE};\n"), procedures(change, &LENGTHS));
                let served = Served { schema: &schema, procedures: &procedures, shards, is_durable: false };
                let weir = started(weir, || {
                    WeirProcess::start(&program, served)
                        .map_err(|why| format!("{why}; --weir names the program"))
                })?;
                Ok(Address::Postgres(weir.config()))
            }
        }
    }

    /// Gives the table of a target its rows afresh: all values are 0.
    ///
    /// # Errors
    /// The server's.
    pub fn fill(&mut self, target: Target, workload: &Keys) -> Result<(), String> {
        let mut connection = connect(&self.address(target)?, None, &[])?;
        connection.execute(if target.is_weir() { "DELETE FROM kv" } else { "TRUNCATE kv" })?;
        workload.rows().iter().try_for_each(|text| connection.execute(text))?;
        // Without statistics PostgreSQL might look at all rows, and a serializable transaction would have read all of them.
        match target {
            Target::PostgresInteractive(_) | Target::PostgresCall(_) => {
                connection.execute("VACUUM ANALYZE kv")
            }
            _ => Ok(()),
        }
    }

    /// The page of a Weir's metrics.
    ///
    /// # Errors
    /// The target is not a Weir that was started, or the page cannot be read.
    pub fn metrics(&self, target: Target) -> Result<String, String> {
        let weir = match target.change() {
            Change::Increment => &self.increments,
            Change::Modify => &self.modifications,
        };
        let weir = weir.as_ref().filter(|_| target.is_weir());
        metrics::fetch(&weir.ok_or_else(|| format!("{target} has no metrics here"))?.http())
    }

    fn postgres(&mut self) -> Result<Address, String> {
        let start = || -> Result<postgres::Server, String> {
            let server =
                postgres::Server::start_with(&[DEADLOCK_TIMEOUT]).map_err(|error| error.to_string())?;
            let address = Address::Postgres(server.connection_string());
            let mut connection = connect(&address, None, &[])?;
            for text in [TABLE, &procedures(Change::Increment, &LENGTHS)] {
                connection.execute(text)?;
            }
            Ok(server)
        };
        let server = started(&mut self.postgres, start)?;
        Ok(Address::Postgres(server.connection_string()))
    }

    fn mariadb(&mut self) -> Result<Address, String> {
        let start = || -> Result<mariadb::Server, String> {
            let server = mariadb::Server::start().map_err(|error| error.to_string())?;
            let address = Address::MySqlSocket { socket: server.socket(), database: String::new() };
            let mut connection = connect(&address, None, &[])?;
            for text in
                [&format!("CREATE DATABASE {MARIADB_DATABASE}"), &format!("USE {MARIADB_DATABASE}"), TABLE]
            {
                connection.execute(text)?;
            }
            Ok(server)
        };
        let server = started(&mut self.mariadb, start)?;
        Ok(Address::MySqlSocket { socket: server.socket(), database: MARIADB_DATABASE.to_owned() })
    }
}

fn started<T>(server: &mut Option<T>, start: impl FnOnce() -> Result<T, String>) -> Result<&T, String> {
    if server.is_none() {
        *server = Some(start()?);
    }
    Ok(server.as_ref().expect("it was started"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = Servers::new(Path::new("/no/such/weir"), 1).address(Target::WeirConfluent);
        assert!(error.expect_err("it is not there").contains("--weir names the program"));
    }
}
