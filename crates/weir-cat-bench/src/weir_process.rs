//! A `weir serve` that is started for a measurement, over a folder with an application, and ends with its value.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// For Weir to say where it listens.
const PATIENCE: Duration = Duration::from_secs(60);

static STARTED: AtomicU32 = AtomicU32::new(0);

/// A running server.
#[derive(Debug)]
pub struct WeirProcess {
    process: Child,
    folder: PathBuf,
    /// For clients: `key=value` pairs.
    pub config: String,
    /// Address of its metrics.
    pub http: String,
}

/// The application of a server, and its settings.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// Empty: it begins with an empty database.
    pub schema: &'a str,
    pub procedures: &'a str,
    pub shards: u16,
    /// With a log on the disk, for which COMMIT waits.
    pub is_durable: bool,
}

impl WeirProcess {
    pub fn start(program: &Path, served: Served<'_>) -> Result<WeirProcess, String> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-cat-{}-{number}", std::process::id()));
        let application = folder.join("application");
        let written = std::fs::create_dir_all(&application)
            .and_then(|()| std::fs::write(application.join("schema.sql"), served.schema))
            .and_then(|()| std::fs::write(application.join("procedures.sql"), served.procedures));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = Command::new(program);
        command.arg("serve");
        if !served.schema.is_empty() {
            command.arg(&application);
        }
        command
            .args([
                "--shards",
                &served.shards.to_string(),
                "--listen",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if served.is_durable {
            command.arg("--data").arg(folder.join("data"));
        }
        let process = command.spawn().map_err(|error| {
            let _ = std::fs::remove_dir_all(&folder);
            format!("{}: {error}; --weir names the program", program.display())
        })?;
        // From here on dropping it cleans up.
        let mut weir = WeirProcess { process, folder, config: String::new(), http: String::new() };
        weir.wait_until_it_listens(program)?;
        Ok(weir)
    }

    fn wait_until_it_listens(&mut self, program: &Path) -> Result<(), String> {
        let stderr = self.process.stderr.take().expect("it is piped");
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
                address.clone_into(&mut self.http);
            }
            if let Some(address) = postgres_address(&line) {
                let (host, port) = address.rsplit_once(':').unwrap_or((address, "5433"));
                self.config = format!("host={host} port={port} user=weir dbname=weir");
            }
            if !self.config.is_empty() && !self.http.is_empty() {
                return Ok(());
            }
            said.push_str(&line);
            said.push('\n');
        }
        Err(format!("{} does not say where it listens:\n{said}", program.display()))
    }
}

impl Drop for WeirProcess {
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
}
