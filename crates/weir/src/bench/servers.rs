//! The servers that `weir bench --target` measures: started for it on free ports of the loopback interface, in folders of their own.
//!
//! All are durable. A server ends with the value that started it, and its folder goes with it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postgres::{Client, NoTls};
use weir_bench::postgres::{Server as Postgres, program_folder};
use weir_client::loopback::free_ports;
use weir_harness::folder::Folder;
use weir_harness::weir::{self, Http};

use crate::bench::this_program;
use crate::output::Failure;

/// List of targets, for errors about an invalid one.
pub const TARGETS: &str = "the targets are: weir:, postgres, baseline:PROGRAM (an earlier Weir); each is started for the measurement";

/// A server that is started and measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// This program.
    Weir,
    Postgres,
    /// An earlier Weir.
    Baseline(PathBuf),
}

impl Target {
    /// Parses a target of the command line.
    pub fn parse(workload: &str, text: &str) -> Result<Target, Failure> {
        let wrong = |what: &str, hint: &str| {
            Err(Failure::input(format!("weir bench {workload}: error: `{text}` {what}\nhint: {hint}")))
        };
        match text.split_once(':').unwrap_or((text, "")) {
            ("weir", "") => Ok(Target::Weir),
            ("postgres" | "postgresql", "") => Ok(Target::Postgres),
            ("weir", _) => wrong(
                &format!("is a cluster, on which {workload} does not run"),
                &format!("`weir:` alone starts a server for the measurement; {TARGETS}"),
            ),
            ("postgres" | "postgresql", _) => wrong(
                "is a server that runs already, which is not measured",
                &format!("`postgres` alone starts one that is set up as the others are; {TARGETS}"),
            ),
            ("baseline", "") => wrong("names no program", "baseline:PROGRAM, as in baseline:./weir-1.0"),
            ("baseline", program) if Path::new(program).is_file() => Ok(Target::Baseline(program.into())),
            ("baseline", _) => wrong("is not there, or is no file", "baseline:PROGRAM names an earlier Weir"),
            _ => wrong("is no target", TARGETS),
        }
    }

    /// Name in runs and ratios.
    pub fn label(&self) -> String {
        match self {
            Target::Weir => "weir".to_owned(),
            Target::Postgres => "postgres".to_owned(),
            Target::Baseline(program) => format!("baseline:{}", program.display()),
        }
    }
}

/// Failure during a measurement.
pub fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Check(Some(format!("weir bench: error: {what}: {error}")))
}

/// The folder of PostgreSQL's programs, among which these are.
pub fn postgres_programs(workload: &str, needed: &[&str]) -> Result<PathBuf, Failure> {
    let missing = |what: &str, remedy: &str| {
        Failure::input(format!("weir bench {workload}: error: {what}\nhint: {remedy}"))
    };
    let folder = program_folder().map_err(|error| {
        let text = error.to_string();
        let (what, remedy) = text.split_once(": ").unwrap_or((&text, "apt-get install postgresql-15"));
        missing(what, remedy)
    })?;
    match needed.iter().find(|program| !folder.join(program).is_file()) {
        None => Ok(folder),
        Some(program) => Err(missing(
            &format!("there is no {program} in {}", folder.display()),
            "`apt-get install postgresql-15` installs it, and WEIR_POSTGRES_BIN names the folder if it is elsewhere",
        )),
    }
}

/// Where a server listens, and as whom it is used.
pub struct Address {
    port: u16,
    user: &'static str,
    database: &'static str,
}

impl Address {
    pub fn url(&self) -> String {
        format!("host=127.0.0.1 port={} user={} dbname={}", self.port, self.user, self.database)
    }

    pub fn jdbc_url(&self) -> String {
        format!("jdbc:postgresql://127.0.0.1:{}/{}?user={}", self.port, self.database, self.user)
    }

    pub fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.url(), NoTls).map_err(|error| failed(&self.url(), &error))
    }

    /// Runs a script by psql, which ends at the first error; returns what it prints: values alone, a row a line.
    pub fn psql(&self, programs: &Path, script: &str) -> Result<String, Failure> {
        let program = programs.join("psql");
        let said = |error: std::io::Error| failed(&program.display().to_string(), &error);
        let mut psql = Command::new(&program)
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"])
            .args(["-p", &self.port.to_string(), "-U", self.user, "-f", "-", self.database])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(said)?;
        let mut stdin = psql.stdin.take().expect("it is piped");
        // A script that fails half-way closes its input; its message says why.
        let _ = stdin.write_all(script.as_bytes());
        drop(stdin);
        let output = psql.wait_with_output().map_err(said)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed("psql", &String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Runs pgbench; returns its output. Its logs go to the folder.
    pub fn pgbench(&self, programs: &Path, folder: &Path, arguments: &[&str]) -> Result<String, Failure> {
        let program = programs.join("pgbench");
        let port = self.port.to_string();
        let output = Command::new(&program)
            .args(["-h", "127.0.0.1", "-p", &port, "-U", self.user])
            .args(arguments)
            .arg(self.database)
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(&program.display().to_string(), &error))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(failed("pgbench", &String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// A new folder for data and logs.
pub fn folder() -> Result<Folder, Failure> {
    Folder::new("bench").map_err(|error| failed("a folder", &error))
}

/// Options of `weir serve`.
pub struct WeirOptions<'a> {
    /// Application that it begins with.
    pub application: Option<&'a Path>,
    pub shards: u16,
    /// Its `--memory`.
    pub memory: Option<&'a str>,
}

fn start_weir(
    program: &Path,
    data: &Path,
    options: &WeirOptions<'_>,
) -> Result<(weir::Server, Address), Failure> {
    let WeirOptions { application, shards, memory } = options;
    let mut command = Command::new(program);
    command
        .arg("serve")
        .args(*application)
        .args(["--shards", &shards.to_string(), "--data"])
        .arg(data)
        .args(memory.iter().flat_map(|bytes| ["--memory", bytes]));
    let server =
        weir::Server::start(&mut command, Http::Absent).map_err(|error| failed("weir serve", &error))?;
    let port = server.postgres.port();
    Ok((server, Address { port, user: "weir", database: "weir" }))
}

fn start_postgres() -> Result<(Postgres, Address), Failure> {
    let [port] = free_ports(1)[..] else { return Err(failed("PostgreSQL", &"no port is free")) };
    // Each savepoint behind which rows are written holds a lock: PostgreSQL's own setting ends a transaction at about 6,000.
    let settings = [
        "fsync=on",
        "listen_addresses=127.0.0.1",
        "shared_buffers=1GB",
        "max_wal_size=4GB",
        "max_locks_per_transaction=1024",
    ];
    let server = Postgres::start_at(port, &settings).map_err(|error| failed("PostgreSQL", &error))?;
    Ok((server, Address { port, user: "postgres", database: "postgres" }))
}

/// Process of a server; dropping it ends the server.
enum Process {
    Postgres { _server: Postgres },
    Weir { server: weir::Server },
}

/// One of the servers that are measured.
pub struct Server {
    pub target: Target,
    pub address: Address,
    process: Process,
}

impl Server {
    /// The most memory that a server of Weir has had so far, in bytes; none where the system does not tell.
    pub fn peak_memory(&self) -> Option<u64> {
        let Process::Weir { server } = &self.process else { return None };
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).ok()?;
        let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        kibibytes.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
    }
}

/// All of them, as they were named. They are dropped before their folder.
pub struct Servers {
    pub all: Vec<Server>,
    pub folder: Folder,
}

impl Servers {
    pub fn start(targets: &[Target], folder: Folder, options: &WeirOptions<'_>) -> Result<Servers, Failure> {
        let mut all = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            let data = folder.path().join(format!("data-{number}"));
            let weir = |program: &Path| {
                let (server, address) = start_weir(program, &data, options)?;
                Ok((Process::Weir { server }, address))
            };
            let (process, address) = match target {
                Target::Weir => weir(&this_program()?)?,
                Target::Baseline(program) => weir(program)?,
                Target::Postgres => {
                    let (server, address) = start_postgres()?;
                    (Process::Postgres { _server: server }, address)
                }
            };
            all.push(Server { target: target.clone(), address, process });
        }
        Ok(Servers { all, folder })
    }

    pub fn get(&self, target: &Target) -> Option<&Server> {
        self.all.iter().find(|server| server.target == *target)
    }
}
