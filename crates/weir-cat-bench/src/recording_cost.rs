//! Instructions that recording the live Contention Level costs a server and an agent of Conveyor (docs/internals/cat.md, "Cost").
//!
//! A program runs under valgrind's callgrind, with its page of figures and without it, and answers the same transactions of pgbench. One that has no page
//! records nothing. Both runs take what a run of few transactions takes, too, which is subtracted.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use weir_harness::folder::Folder;
use weir_harness::pgbench::summary;
use weir_harness::postgres::{Server, program_folder};
use weir_harness::process::Process;
use weir_harness::weir::{self, Http};
use weir_net::loopback::free_ports;

use crate::connection::{Address, connect};
use crate::weir_process::write_application;

const SCHEMA: &str = "CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL)";
const ROWS: &str = "INSERT INTO counter SELECT id, 0 FROM generate_series(1, 10000) id";
const PROCEDURE: &str = "CREATE FUNCTION add_to(k int) RETURNS int LANGUAGE sql AS 'UPDATE counter SET n = n + 1 WHERE id = k RETURNING n'";
const SCRIPT: &str = "\\set a random(1, 10000)\nSELECT add_to(:a);\n";
const TRANSACTIONS: &str = "[[transaction]]\nname = \"add_to\"\nclass = \"local\"\nhome = 1\n";

const CLIENTS: u32 = 4;
/// Transactions of each client in the run that is subtracted.
const FEW: u32 = 25;
/// The file of the instructions that callgrind has counted.
const COUNTED: &str = "counted";
/// The configuration of an agent.
const CONFIG: &str = "conveyor.toml";
/// For an agent to listen: valgrind makes it slow.
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
    let folder = Folder::new("recording").map_err(|error| error.to_string())?;
    let counted = match recorder {
        Recorder::Serve => Counted::serve(weir, &folder, is_recorded)?,
        Recorder::Conveyor => Counted::agent(weir, &folder, is_recorded)?,
    };
    let script = folder.write("script.sql", SCRIPT).map_err(|error| error.to_string())?;
    let programs = program_folder().map_err(|error| error.to_string())?;
    let (user, database) = counted.user;
    let output = Command::new(programs.join("pgbench"))
        .args(["-n", "-M", "prepared", "-h", "127.0.0.1", "-U", user, "-f"])
        .arg(script)
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
    counted.program.interrupt()?;
    let path = folder.path().join(COUNTED);
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
    program: Program,
    port: u16,
    /// User and database of its clients.
    user: (&'static str, &'static str),
}

enum Program {
    Serve(weir::Server),
    /// It ends before the server that it is beside.
    Agent(Process, Server),
}

impl Program {
    /// Ends it as ^C does, so that what was counted is written.
    fn interrupt(self) -> Result<(), String> {
        match self {
            Program::Serve(server) => server.interrupt(),
            Program::Agent(agent, _server) => agent.interrupt(),
        }
    }
}

impl Counted {
    fn serve(weir: &Path, folder: &Folder, is_recorded: bool) -> Result<Counted, String> {
        let application = write_application(folder, &format!("{SCHEMA};\n"), &format!("{PROCEDURE};\n"))?;
        let http = if is_recorded { Http::Served } else { Http::Absent };
        let server = weir::Server::start(callgrind(folder, weir).arg("serve").arg(application), http)?;
        connect(&Address::Postgres(server.connection_string()), None, &[])?.execute(ROWS)?;
        let port = server.postgres.port();
        Ok(Counted { program: Program::Serve(server), port, user: ("weir", "weir") })
    }

    fn agent(weir: &Path, folder: &Folder, is_recorded: bool) -> Result<Counted, String> {
        let server = Server::start().map_err(|error| error.to_string())?;
        let rows = format!("{SCHEMA}; {ROWS}; {PROCEDURE}");
        connect(&Address::Postgres(server.connection_string()), None, &[])?.execute(&rows)?;
        let [agent, port] = free_ports(2)[..] else { return Err("two ports are not free".to_owned()) };
        let config = format!(
            "application = \".\"\ndirectory = {:?}\n[clients]\ndatabase = \"postgres\"\n[[server]]\nname = \"a\"\n\
             agent = \"127.0.0.1:{agent}\"\nlisten = \"127.0.0.1:{port}\"\ndatabase = \"{}\"\n",
            folder.path().join("coordinator"),
            server.connection_string()
        );
        let schema = format!("{SCHEMA};\n{PROCEDURE};\n");
        for (name, text) in
            [("schema.sql", schema.as_str()), ("transactions.toml", TRANSACTIONS), (CONFIG, &config)]
        {
            folder.write(name, text).map_err(|error| error.to_string())?;
        }
        let mut command = callgrind(folder, weir);
        command.args(["conveyor", "--server", "a", "--config"]).arg(folder.path().join(CONFIG));
        if is_recorded {
            command.args(["--http", "127.0.0.1:0"]);
        }
        let agent = Process::start(&mut command, PATIENCE, |line| line.contains("takes clients on "))?;
        Ok(Counted { program: Program::Agent(agent, server), port, user: ("postgres", "postgres") })
    }
}

/// The program under callgrind, whose other arguments follow.
fn callgrind(folder: &Folder, weir: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", folder.path().join(COUNTED).display()))
        .arg(weir);
    command
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
