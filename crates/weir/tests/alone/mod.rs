//! `weir serve` without a cluster file, for tests that define its schema, or kill it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::eventually::eventually;
use postgres::{Client as Driver, NoTls};
use tempfile::TempDir;

pub struct Alone {
    place: TempDir,
    /// Commands that a shell runs before the server.
    before: String,
    arguments: Vec<String>,
    process: Child,
    port: u16,
}

#[allow(dead_code, reason = "each test uses its part")]
impl Alone {
    pub fn start(shards: u16) -> Alone {
        Alone::with(&["--shards", &shards.to_string()])
    }

    /// With these arguments beside those that say where.
    pub fn with(arguments: &[&str]) -> Alone {
        Alone::after("", arguments)
    }

    /// The same, after a shell has done that.
    pub fn after(before: &str, arguments: &[&str]) -> Alone {
        let place = tempfile::tempdir().unwrap();
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let process = spawn(place.path(), before, &arguments);
        let mut alone = Alone { place, before: before.to_owned(), arguments, process, port: 0 };
        alone.wait();
        alone
    }

    /// Until it says where it listens.
    pub fn wait(&mut self) {
        self.port = eventually("the server says where it listens", || {
            let said = self.said();
            let port = said.split("protocol on 127.0.0.1:").nth(1).and_then(|rest| rest.split(',').next());
            if port.is_none() {
                assert!(self.process.try_wait().unwrap().is_none(), "it has ended:\n{said}");
            }
            port.map(|port| port.parse().unwrap())
        });
    }

    /// Output since its last start.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.place.path().join("said.txt")).unwrap()
    }

    pub fn data(&self) -> PathBuf {
        self.place.path().join("data")
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Memory of its process.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() << 10
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("host=127.0.0.1 port={} user=postgres dbname=weir", self.port)
    }

    pub fn driver(&self) -> Driver {
        Driver::connect(&self.url(), NoTls).unwrap()
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Begins to; `wait` waits for it.
    pub fn start_again(&mut self) {
        self.process = spawn(self.place.path(), &self.before, &self.arguments);
    }

    pub fn kill_and_start_again(&mut self) {
        self.kill();
        self.start_again();
        self.wait();
    }

    /// Waits for its end, which it has been told of.
    pub fn has_ended(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Until it ends by itself, instead of serving.
    pub fn ends(&mut self) -> ExitStatus {
        eventually("the server ends", || {
            assert!(!self.said().contains("listening on"), "it serves:\n{}", self.said());
            self.process.try_wait().unwrap()
        })
    }
}

fn spawn(place: &Path, before: &str, arguments: &[String]) -> Child {
    let file = std::fs::File::create(place.join("said.txt")).unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before} exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_weir"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(place.join("data")).args(arguments);
    command.stderr(file).stdout(Stdio::null()).spawn().unwrap()
}

impl Drop for Alone {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill().and_then(|()| self.process.wait());
        if std::thread::panicking() {
            eprintln!("--- the server said\n{}", self.said());
        }
    }
}
