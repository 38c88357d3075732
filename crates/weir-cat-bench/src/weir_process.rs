//! A `weir serve` that is started for a measurement, over a folder with an application, and ends with its value.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_harness::folder::Folder;
use weir_harness::weir::{Http, Server};

/// A running server.
#[derive(Debug)]
pub struct WeirProcess {
    // It ends before its folder goes.
    server: Server,
    _folder: Folder,
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
        let folder = Folder::new("cat").map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("serve");
        if !served.schema.is_empty() {
            command.arg(write_application(&folder, served.schema, served.procedures)?);
        }
        command.args(["--shards", &served.shards.to_string()]);
        if served.is_durable {
            command.arg("--data").arg(folder.path().join("data"));
        }
        let server = Server::start(&mut command, Http::Served)?;
        Ok(WeirProcess { server, _folder: folder })
    }

    /// For clients: `key=value` pairs.
    pub fn config(&self) -> String {
        self.server.connection_string()
    }

    /// Address of its metrics.
    pub fn http(&self) -> String {
        self.server.http.expect("it was asked for").to_string()
    }
}

/// Writes an application that `weir serve` takes into a folder; returns where it is.
pub fn write_application(folder: &Folder, schema: &str, procedures: &str) -> Result<PathBuf, String> {
    let written = folder
        .write("application/schema.sql", schema)
        .and_then(|_| folder.write("application/procedures.sql", procedures));
    written.map_err(|error| error.to_string())?;
    Ok(folder.path().join("application"))
}
