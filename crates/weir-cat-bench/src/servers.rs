//! The servers of the experiments: each is started when it is first asked for, on sockets or loopback ports of its own, and ends with this value.
//!
//! None waits for a disk: PostgreSQL runs with `fsync=off`, MariaDB flushes its log once a second, Weir runs without `--data`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use mysql::prelude::Queryable as _;
use weir_harness::{mariadb, postgres};

use crate::metrics;
use crate::schema::{Change, TABLE, procedures, rows};
use crate::session;
use crate::target::Target;

/// Lengths of transactions that there are procedures for.
pub const LENGTHS: [usize; 8] = [2, 4, 6, 8, 10, 12, 14, 16];

/// PostgreSQL looks for deadlocks after a second by default; that would make each cost a second.
pub const DEADLOCK_TIMEOUT: &str = "deadlock_timeout=10ms";

/// For Weir to say where it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a client connects.
#[derive(Clone, Debug)]
pub enum Address {
    /// `key=value` pairs.
    Postgres(String),
    /// A socket.
    MariaDb(PathBuf),
}

/// Started servers.
#[derive(Debug)]
pub struct Servers {
    weir: PathBuf,
    shards: u16,
    keys: usize,
    postgres: Option<postgres::Server>,
    mariadb: Option<mariadb::Server>,
    increments: Option<Weir>,
    modifications: Option<Weir>,
}

impl Servers {
    /// `weir` is the program of that name; Weir runs on so many shards, and all tables have so many rows.
    pub fn new(weir: &Path, shards: u16, keys: usize) -> Servers {
        let weir = weir.to_path_buf();
        Servers { weir, shards, keys, postgres: None, mariadb: None, increments: None, modifications: None }
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
                let weir = started(weir, || Weir::start(&program, shards, change))?;
                Ok(Address::Postgres(weir.config.clone()))
            }
        }
    }

    /// Gives the table of a target its rows afresh: all values are 0.
    ///
    /// # Errors
    /// The server's.
    pub fn fill(&mut self, target: Target) -> Result<(), String> {
        let rows = rows(self.keys);
        match self.address(target)? {
            Address::Postgres(config) => {
                let mut client = session::client(&config)?;
                let empty = if target.is_weir() { "DELETE FROM kv" } else { "TRUNCATE kv" };
                let fill = |text: &str, client: &mut ::postgres::Client| {
                    client.batch_execute(text).map_err(|error| session::said(&error))
                };
                fill(empty, &mut client)?;
                fill(&rows, &mut client)?;
                // Without statistics PostgreSQL might look at all rows, and a serializable transaction would have read all of them.
                if target.is_weir() { Ok(()) } else { fill("VACUUM ANALYZE kv", &mut client) }
            }
            Address::MariaDb(socket) => run_at_mariadb(&socket, &["USE cat", "TRUNCATE kv", &rows]),
        }
    }

    /// The value of each key, in order.
    ///
    /// # Errors
    /// The server's, or a row is missing.
    pub fn values(&mut self, target: Target) -> Result<Vec<i64>, String> {
        const QUERY: &str = "SELECT v FROM kv ORDER BY k";
        let values: Vec<i64> = match self.address(target)? {
            Address::Postgres(config) => {
                let rows =
                    session::client(&config)?.query(QUERY, &[]).map_err(|error| session::said(&error))?;
                rows.iter().map(|row| row.get(0)).collect()
            }
            Address::MariaDb(socket) => {
                let mut connection = session::mariadb_client(&socket)?;
                let values = connection.query_drop("USE cat").and_then(|()| connection.query(QUERY));
                values.map_err(|error| error.to_string())?
            }
        };
        match values.len() == self.keys {
            true => Ok(values),
            false => Err(format!("{target} has {} rows of {}", values.len(), self.keys)),
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
        metrics::fetch(&weir.ok_or_else(|| format!("{target} has no metrics here"))?.http)
    }

    fn postgres(&mut self) -> Result<Address, String> {
        let start = || -> Result<postgres::Server, String> {
            let server =
                postgres::Server::start_with(&[DEADLOCK_TIMEOUT]).map_err(|error| error.to_string())?;
            let mut client = session::client(&server.connection_string())?;
            for text in [TABLE, &procedures(Change::Increment, &LENGTHS)] {
                client.batch_execute(text).map_err(|error| session::said(&error))?;
            }
            Ok(server)
        };
        let server = started(&mut self.postgres, start)?;
        Ok(Address::Postgres(server.connection_string()))
    }

    fn mariadb(&mut self) -> Result<Address, String> {
        let start = || -> Result<mariadb::Server, String> {
            let server = mariadb::Server::start().map_err(|error| error.to_string())?;
            run_at_mariadb(&server.socket(), &["CREATE DATABASE cat", "USE cat", TABLE])?;
            Ok(server)
        };
        let server = started(&mut self.mariadb, start)?;
        Ok(Address::MariaDb(server.socket()))
    }
}

fn run_at_mariadb(socket: &Path, statements: &[&str]) -> Result<(), String> {
    let mut connection = session::mariadb_client(socket)?;
    statements.iter().try_for_each(|text| connection.query_drop(text)).map_err(|error| error.to_string())
}

fn started<T>(server: &mut Option<T>, start: impl FnOnce() -> Result<T, String>) -> Result<&T, String> {
    if server.is_none() {
        *server = Some(start()?);
    }
    Ok(server.as_ref().expect("it was started"))
}

/// A `weir serve` over a folder with the application.
#[derive(Debug)]
struct Weir {
    process: Child,
    folder: PathBuf,
    config: String,
    /// Address of its metrics.
    http: String,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl Weir {
    fn start(program: &Path, shards: u16, change: Change) -> Result<Weir, String> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-cat-{}-{number}", std::process::id()));
        let written = std::fs::create_dir(&folder)
            .and_then(|()| std::fs::write(folder.join("schema.sql"), format!("{TABLE};\n")))
            .and_then(|()| std::fs::write(folder.join("procedures.sql"), procedures(change, &LENGTHS)));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
        let process = Command::new(program)
            .arg("serve")
            .arg(&folder)
            .args(["--shards", &shards.to_string(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                let _ = std::fs::remove_dir_all(&folder);
                format!("{}: {error}; --weir names the program", program.display())
            })?;
        // From here on dropping it cleans up.
        let mut weir = Weir { process, folder, config: String::new(), http: String::new() };
        let stderr = weir.process.stderr.take().expect("it is piped");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            // It goes on reading, so that the server can go on writing.
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let mut said = String::new();
        while let Ok(line) = told.recv_timeout(PATIENCE) {
            if let Some(address) = http_address(&line) {
                address.clone_into(&mut weir.http);
            }
            if let Some(address) = postgres_address(&line) {
                let (host, port) = address.rsplit_once(':').unwrap_or((address, "5433"));
                weir.config = format!("host={host} port={port} user=weir dbname=weir");
            }
            if !weir.config.is_empty() && !weir.http.is_empty() {
                return Ok(weir);
            }
            said.push_str(&line);
            said.push('\n');
        }
        Err(format!("{} does not say where it listens:\n{said}", program.display()))
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // It may have ended by itself; then its clients have said so.
        let _ = self.process.kill().and_then(|()| self.process.wait());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The address in the line that says where PostgreSQL's protocol is spoken.
fn postgres_address(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("PostgreSQL's protocol on ")?;
    rest.split(',').next()
}

/// The address in the line that says where the metrics are.
fn http_address(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("HTTP on ")?;
    rest.strip_suffix(": /metrics and /health")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_its_line() {
        let line = "weir: PostgreSQL's protocol on 127.0.0.1:6630, database weir";
        assert_eq!(postgres_address(line), Some("127.0.0.1:6630"));
        assert_eq!(http_address("weir: HTTP on 127.0.0.1:9: /metrics and /health"), Some("127.0.0.1:9"));
        assert_eq!(postgres_address("weir: listening on 127.0.0.1:1; ^C ends it"), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = Servers::new(Path::new("/no/such/weir"), 1, 10).address(Target::WeirConfluent);
        assert!(error.expect_err("it is not there").contains("--weir names the program"));
    }
}
