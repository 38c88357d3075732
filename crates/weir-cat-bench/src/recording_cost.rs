//! Instructions that recording the live Contention Level costs a server and an agent of Conveyor (docs/internals/cat.md, "Cost").
//!
//! A program runs under valgrind's callgrind, with its page of figures and without it, and answers the same transactions of pgbench. One that has no page
//! records nothing. Both runs take what a run of few transactions takes, too, which is subtracted.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Serialize;
use weir_harness::pgbench::summary;
use weir_harness::postgres::{Server, program_folder};

use crate::connection::{Address, connect};

const SCHEMA: &str = "CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)";
const ROWS: &str = "INSERT INTO counter SELECT id, 0 FROM generate_series(1, 10000) id";
const PROCEDURE: &str = "CREATE FUNCTION add_to(k int) RETURNS int LANGUAGE sql AS 'UPDATE counter SET n = n + 1 WHERE id = k RETURNING n'";
const SCRIPT: &str = "\\set a random(1, 10000)\nSELECT add_to(:a);\n";
const TRANSACTIONS: &str = "[[transaction]]\nname = \"add_to\"\nclass = \"local\"\nhome = 1\n";

const CLIENTS: u32 = 4;
/// Transactions of each client in the run that is subtracted.
const FEW: u32 = 25;
/// For a program to listen: valgrind makes it slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Recorder {
    Serve,
    Conveyor,
}

pub const RECORDERS: [Recorder; 2] = [Recorder::Serve, Recorder::Conveyor];

/// Instructions of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    pub recorder: Recorder,
    pub transactions: u32,
    pub without: f64,
    pub with: f64,
}

impl Cost {
    /// Recording adds this share of the instructions that a transaction takes without it.
    pub fn share(&self) -> f64 {
        self.with / self.without - 1.0
    }
}

/// Measures with so many transactions; a multiple of what one recorded burst stands for says the most.
///
/// # Errors
/// valgrind or PostgreSQL is not installed, or a program does not do its part; in words.
pub fn measure(weir: &Path, recorder: Recorder, transactions: u32) -> Result<Cost, String> {
    let each = (transactions / CLIENTS).max(FEW + 1);
    let of = |is_recorded| {
        let many = instructions(weir, recorder, each, is_recorded)?;
        let few = instructions(weir, recorder, FEW, is_recorded)?;
        Ok::<f64, String>((many - few) / f64::from(CLIENTS * (each - FEW)))
    };
    Ok(Cost { recorder, transactions: each * CLIENTS, without: of(false)?, with: of(true)? })
}

/// Instructions of a program that answers so many transactions of each client.
fn instructions(weir: &Path, recorder: Recorder, each: u32, is_recorded: bool) -> Result<f64, String> {
    let folder = Folder::new()?;
    let mut counted = match recorder {
        Recorder::Serve => Counted::serve(weir, &folder, is_recorded)?,
        Recorder::Conveyor => Counted::agent(weir, &folder, is_recorded)?,
    };
    folder.write("script.sql", SCRIPT)?;
    let programs = program_folder().map_err(|error| error.to_string())?;
    let (user, database) = counted.user;
    let output = Command::new(programs.join("pgbench"))
        .args(["-n", "-M", "prepared", "-h", "127.0.0.1", "-U", user, "-f"])
        .arg(folder.0.join("script.sql"))
        .args([
            "-p",
            &counted.port.to_string(),
            "-c",
            &CLIENTS.to_string(),
            "-t",
            &each.to_string(),
            database,
        ])
        .output()
        .map_err(|error| format!("pgbench: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let done = summary(&said).filter(|one| one.completed == u64::from(CLIENTS * each) && one.failed == 0);
    done.ok_or_else(|| format!("pgbench: {said}{}", String::from_utf8_lossy(&output.stderr)))?;
    counted.end()?;
    let path = folder.0.join("counted");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    total(&text).ok_or_else(|| format!("{}: callgrind has counted nothing", path.display()))
}

/// The instructions in the file that callgrind has written.
fn total(text: &str) -> Option<f64> {
    let line =
        text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")))?;
    line.trim().parse().ok()
}

/// A program that callgrind counts.
struct Counted {
    process: Child,
    port: u16,
    /// User and database of its clients.
    user: (&'static str, &'static str),
    /// The server beside an agent.
    _beside: Option<Server>,
}

impl Counted {
    fn serve(weir: &Path, folder: &Folder, is_recorded: bool) -> Result<Counted, String> {
        folder.write("application/schema.sql", &format!("{SCHEMA};\n"))?;
        folder.write("application/procedures.sql", &format!("{PROCEDURE};\n"))?;
        let port = free_port()?;
        let mut command = callgrind(folder, weir);
        let listen = format!("127.0.0.1:{port}");
        command.arg("serve").arg(folder.0.join("application")).args(["--listen", &listen]);
        let process = started(&mut command, is_recorded, "PostgreSQL's protocol on ")?;
        let counted = Counted { process, port, user: ("weir", "weir"), _beside: None };
        execute(format!("host=127.0.0.1 port={port} user=weir dbname=weir"), ROWS)?;
        Ok(counted)
    }

    fn agent(weir: &Path, folder: &Folder, is_recorded: bool) -> Result<Counted, String> {
        let server = Server::start().map_err(|error| error.to_string())?;
        execute(server.connection_string(), &format!("{SCHEMA}; {ROWS}; {PROCEDURE}"))?;
        folder.write("schema.sql", &format!("{SCHEMA};\n{PROCEDURE};\n"))?;
        folder.write("transactions.toml", TRANSACTIONS)?;
        let (agent, port) = (free_port()?, free_port()?);
        let text = format!(
            "application = \".\"\ndirectory = {:?}\n[clients]\ndatabase = \"postgres\"\n[[server]]\nname = \"a\"\n\
             agent = \"127.0.0.1:{agent}\"\nlisten = \"127.0.0.1:{port}\"\ndatabase = \"{}\"\n",
            folder.0.join("coordinator"),
            server.connection_string()
        );
        folder.write("conveyor.toml", &text)?;
        let mut command = callgrind(folder, weir);
        command.args(["conveyor", "--server", "a", "--config"]).arg(folder.0.join("conveyor.toml"));
        let process = started(&mut command, is_recorded, "takes clients on ")?;
        Ok(Counted { process, port, user: ("postgres", "postgres"), _beside: Some(server) })
    }

    /// Ends it as ^C does, so that what was counted is written.
    fn end(&mut self) -> Result<(), String> {
        let id = self.process.id().to_string();
        let told = Command::new("kill").args(["-INT", &id]).status().map_err(|error| error.to_string())?;
        let ended = self.process.wait().map_err(|error| error.to_string())?;
        match told.success() && ended.success() {
            true => Ok(()),
            false => Err(format!("the program that is counted ended with {ended}")),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // It may have ended, as it should.
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// The program under callgrind, whose other arguments follow.
fn callgrind(folder: &Folder, weir: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", folder.0.join("counted").display()))
        .arg(weir);
    command
}

/// Starts it and waits until it says so.
fn started(command: &mut Command, is_recorded: bool, says: &str) -> Result<Child, String> {
    if is_recorded {
        command.args(["--http", "127.0.0.1:0"]);
    }
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("valgrind, which counts instructions: {error}"))?;
    let stderr = process.stderr.take().ok_or("a process without an output")?;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        // It goes on reading, so that the program can go on writing.
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    let mut said = String::new();
    while let Ok(line) = told.recv_timeout(PATIENCE) {
        if line.contains(says) {
            return Ok(process);
        }
        said.push_str(&line);
        said.push('\n');
    }
    let _ = process.kill().and_then(|()| process.wait());
    Err(format!("{command:?} does not listen:\n{said}"))
}

fn execute(config: String, text: &str) -> Result<(), String> {
    connect(&Address::Postgres(config), None, &[])?.execute(text)
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

/// A folder that goes with its value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("weir-recording-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(name);
        let folder = path.parent().unwrap_or(&self.0);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_read_and_compared() {
        assert_eq!(total("events: Ir\nsummary: 4711\n\nfn=(1)\n"), Some(4711.0));
        assert_eq!(total("events: Ir\n"), None);
        let cost = Cost { recorder: Recorder::Serve, transactions: 4, without: 1_000.0, with: 1_010.0 };
        assert!((cost.share() - 0.01).abs() < 1e-9);
    }
}
