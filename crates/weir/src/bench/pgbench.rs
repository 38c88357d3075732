//! pgbench, PostgreSQL's own client for measurements: it costs little beside a server.

use std::path::{Path, PathBuf};

use crate::bench::servers::{Server, failed};
use crate::bench::side_by_side::{Load, Measured};
use crate::output::Failure;

/// File of a script, in the folder of the servers.
const SCRIPT_FILE: &str = "script.sql";

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
        options.extend(["-l", "--log-prefix=times", &seed]);
        match script {
            Script::BuiltIn(name) => options.extend(["-b", name]),
            Script::Text(text) => {
                let path = folder.join(SCRIPT_FILE);
                std::fs::write(&path, text).map_err(|error| failed(&path.display().to_string(), &error))?;
                options.extend(["-f", SCRIPT_FILE]);
            }
        }
        let said = server.address.pgbench(&self.programs, folder, &options)?;
        let times_us = times(folder).map_err(|error| failed("pgbench's log", &error))?;
        summary(&said, times_us).ok_or_else(|| failed("pgbench did not say what it did", &said))
    }
}

/// Latencies logged by pgbench, in microseconds; removes the logs.
fn times(folder: &Path) -> std::io::Result<Vec<f64>> {
    let mut times = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("times.")) {
            let text = std::fs::read_to_string(&path)?;
            times.extend(text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok()));
            std::fs::remove_file(&path)?;
        }
    }
    Ok(times)
}

/// Parses the final lines of pgbench.
fn summary(said: &str, times_us: Vec<f64>) -> Option<Measured> {
    let after = |words: &str| {
        let rest = said.lines().find_map(|line| line.strip_prefix(words))?;
        rest.split([' ', '/']).next()
    };
    Some(Measured {
        throughput: after("tps = ")?.parse().ok()?,
        completed: after("number of transactions actually processed: ")?.parse().ok()?,
        aborted: after("number of failed transactions: ").and_then(|count| count.parse().ok()).unwrap_or(0),
        times_us,
        late: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pgbench_says_is_read() {
        let said = "transaction type: <builtin: TPC-B (sort of)>\n\
                    number of transactions actually processed: 9000/9001\n\
                    number of failed transactions: 3 (0.033%)\n\
                    latency average = 1.6 ms\n\
                    tps = 4512.250000 (without initial connection time)\n";
        let measured = summary(said, vec![3.0]).unwrap();
        assert_eq!((measured.throughput, measured.completed, measured.aborted), (4512.25, 9000, 3));
        assert!(summary("pgbench: error", Vec::new()).is_none());
    }
}
