//! A private Weir server.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::process::Process;

/// A server that has not begun to listen within this never will; one under valgrind takes a while.
const STARTS_WITHIN: Duration = Duration::from_secs(120);

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// PostgreSQL's protocol is spoken there.
    pub postgres: SocketAddr,
    /// Its page and its metrics are there, if they were asked for.
    pub http: Option<SocketAddr>,
}

/// The pages of a server that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    Absent,
    Served,
}

impl Server {
    /// Starts `weir serve`, whose other arguments `command` has, on free ports of the loopback interface.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn start(command: &mut Command, http: Http) -> Result<Server, String> {
        const ANY: &str = "127.0.0.1:0";
        command.args(["--listen", ANY]);
        if http == Http::Served {
            command.args(["--http", ANY]);
        }
        let (mut of_postgres, mut of_http) = (None, None);
        let process = Process::start(command, STARTS_WITHIN, |line| {
            of_postgres = of_postgres.or(postgres_address(line));
            of_http = of_http.or(http_address(line));
            of_postgres.is_some() && (http == Http::Absent || of_http.is_some())
        })?;
        let postgres = of_postgres.expect("it is ready");
        Ok(Server { process, postgres, http: of_http })
    }

    /// For any client library that takes `key=value` pairs.
    pub fn connection_string(&self) -> String {
        format!("host={} port={} user=weir dbname=weir", self.postgres.ip(), self.postgres.port())
    }

    /// Process id of the server.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// As [`Process::interrupt`].
    ///
    /// # Errors
    /// As [`Process::interrupt`].
    pub fn interrupt(self) -> Result<(), String> {
        self.process.interrupt()
    }
}

/// The address in the line that says where PostgreSQL's protocol is spoken.
fn postgres_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("PostgreSQL's protocol on ")?;
    rest.split(',').next()?.parse().ok()
}

/// The address in the line that says where the metrics are.
fn http_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("HTTP on ")?;
    rest.split_once(": /metrics")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_in_its_line() {
        let line = "weir: PostgreSQL's protocol on 127.0.0.1:6630, database weir";
        assert_eq!(postgres_address(line), Some(([127, 0, 0, 1], 6630).into()));
        let http = "weir: HTTP on 127.0.0.1:9: /metrics and /health, and a page at /";
        assert_eq!(http_address(http), Some(([127, 0, 0, 1], 9).into()));
        assert_eq!(postgres_address("weir: listening on 127.0.0.1:1; ^C ends it"), None);
    }
}
