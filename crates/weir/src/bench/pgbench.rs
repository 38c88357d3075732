//! pgbench, PostgreSQL's own client for measurements: it costs little beside a server.

use std::path::{Path, PathBuf};

use weir_harness::pgbench::{summary, take_latencies};

use crate::bench::servers::{Server, failed};
use crate::bench::side_by_side::{Load, Measured};
use crate::output::Failure;

/// File of a script, in the folder of the servers.
const SCRIPT_FILE: &str = "script.sql";

/// Logs of pgbench, in the same folder.
const LOGS: &str = "times";

/// Protocols of pgbench.
pub const PROTOCOLS: [&str; 3] = ["simple", "extended", PREPARED];
pub const PREPARED: &str = "prepared";

/// A script: each client of pgbench runs it again and again.
pub enum Script<'a> {
    /// Name of one of its own scripts.
    BuiltIn(&'a str),
    /// Text of a script.
    Text(String),
}

/// pgbench as the client of servers.
pub struct Pgbench {
    /// Folder of PostgreSQL's programs.
    pub programs: PathBuf,
    pub protocol: &'static str,
}

impl Pgbench {
    /// Makes pgbench's own tables, for that many times 100,000 accounts.
    pub fn prepare(&self, server: &Server, folder: &Path, scale: u32) -> Result<(), Failure> {
        let arguments = ["-i", "-q", "-s", &scale.to_string()];
        server.address.pgbench(&self.programs, folder, &arguments).map(drop)
    }

    /// Runs the script on a server.
    pub fn measure(
        &self,
        server: &Server,
        folder: &Path,
        script: &Script<'_>,
        (load, seed): (&Load, u64),
    ) -> Result<Measured, Failure> {
        let seed = format!("--random-seed={seed}");
        let (clients, seconds) = (load.clients.to_string(), load.seconds.to_string());
        let threads = load.clients.min(2).to_string();
        let mut options = vec!["-n", "-c", &clients, "-j", &threads, "-T", &seconds, "-M", self.protocol];
        options.extend(["-l", "--log-prefix", LOGS, &seed]);
        match script {
            Script::BuiltIn(name) => options.extend(["-b", name]),
            Script::Text(text) => {
                let path = folder.join(SCRIPT_FILE);
                std::fs::write(&path, text).map_err(|error| failed(&path.display().to_string(), &error))?;
                options.extend(["-f", SCRIPT_FILE]);
            }
        }
        let said = server.address.pgbench(&self.programs, folder, &options)?;
        let times_us = take_latencies(folder, LOGS).map_err(|error| failed("pgbench's log", &error))?;
        let summary = summary(&said).ok_or_else(|| failed("pgbench did not say what it did", &said))?;
        Ok(Measured {
            throughput: summary.per_second,
            completed: summary.completed,
            aborted: summary.failed,
            times_us,
            late: Vec::new(),
        })
    }
}
