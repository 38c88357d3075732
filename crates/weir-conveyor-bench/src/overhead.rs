//! Cost of an agent on a local operation, beside a proxy that copies bytes (docs/performance.md, "An agent of Conveyor").
//!
//! pgbench runs one operation against a server directly, through a proxy, and through an agent. Server, proxy and agent are processes of their
//! own; the three runs of a round follow each other, and each round begins with another one.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use comfy_table::{Table, presets};
use serde::Serialize;
use weir_harness::Spread;
use weir_harness::folder::Folder;
use weir_harness::pgbench::{summary, take_latencies};
use weir_harness::postgres::{Server, program_folder};
use weir_net::loopback::free_ports;

use crate::servers::connect;

/// Bounds of the issue that asked for it.
const POINTS_MAX: f64 = 15.0;
const MEDIAN_MAX_US: f64 = 150.0;

/// Logs of pgbench, in the folder.
const LOGS: &str = "log";

const ROWS: u32 = 10_000;

const SCHEMA: &str = "
CREATE TABLE counter (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO counter SELECT id, 0 FROM generate_series(1, 10000) id;
CREATE FUNCTION add_to(k int) RETURNS int LANGUAGE sql AS 'UPDATE counter SET n = n + 1 WHERE id = k RETURNING n';
VACUUM ANALYZE counter;
";

const TRANSACTIONS: &str = "[[transaction]]\nname = \"add_to\"\nclass = \"local\"\nhome = 1\n";

/// Ways to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Direct,
    Proxy,
    Agent,
}

pub const WAYS: [Way; 3] = [Way::Direct, Way::Proxy, Way::Agent];

/// Number and length of the runs.
#[derive(Clone, Debug)]
pub struct Effort {
    pub clients: Vec<u32>,
    pub rounds: u32,
    pub seconds: u32,
    /// Commits wait for the disk.
    pub is_durable: bool,
}

/// One run of pgbench.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub clients: u32,
    pub round: u32,
    pub way: Way,
    pub per_second: f64,
    pub median_us: f64,
    /// Processor time of the proxy or of the agent for an operation, whatever else the machine does.
    pub processor_us: f64,
}

/// A process of this program that serves until its input ends.
struct Served {
    process: Child,
    address: SocketAddr,
}

impl Served {
    fn start(arguments: &[&str]) -> Result<Served, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let output = process.stdout.take().ok_or("a process without an output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        let address = line.trim().parse().map_err(|_| format!("{arguments:?} does not start"))?;
        Ok(Served { process, address })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Processor time of a process's threads so far, in microseconds.
fn processor_us(process: u32) -> Result<f64, String> {
    let folder = format!("/proc/{process}/task");
    let mut total_ns = 0.0;
    for task in std::fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?.flatten() {
        // A thread that has ended meanwhile has no file.
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        total_ns += text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0);
    }
    Ok(total_ns / 1e3)
}

/// Tells the starter where this process serves, and waits until it is to end.
///
/// # Errors
/// The starter has gone.
pub fn serve_until_told(address: SocketAddr) -> Result<(), String> {
    let mut output = std::io::stdout();
    writeln!(output, "{address}").and_then(|()| output.flush()).map_err(|error| error.to_string())?;
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
    Ok(())
}

/// The server and what is in front of it.
struct Deployment {
    port: u16,
    agent: Served,
    proxy: Served,
    _server: Server,
    folder: Folder,
}

impl Deployment {
    fn start(is_durable: bool) -> Result<Deployment, String> {
        let [port] = free_ports(1)[..] else { return Err("no port is free".to_owned()) };
        let fsync = if is_durable { "fsync=on" } else { "fsync=off" };
        let settings = ["listen_addresses=127.0.0.1", fsync, "default_transaction_isolation=serializable"];
        let server = Server::start_at(port, &settings).map_err(|error| error.to_string())?;
        let mut client = connect(&server.connection_string())?;
        let data: String =
            client.query_one("SHOW data_directory", &[]).map_err(|error| error.to_string())?.get(0);
        if Path::new(&data) != server.data() {
            return Err(format!("{data} is a stranger's server"));
        }
        for statement in SCHEMA.split_inclusive(";\n") {
            client.batch_execute(statement).map_err(|error| error.to_string())?;
        }
        let folder = Folder::new("conveyor-overhead").map_err(|error| error.to_string())?;
        let socket = server.data().with_file_name(format!(".s.PGSQL.{port}"));
        let proxy = Served::start(&["serve-proxy", &socket.display().to_string()])?;
        let agent = start_agent(&folder, &server)?;
        Ok(Deployment { port, agent, proxy, _server: server, folder })
    }

    fn run(&self, way: Way, clients: u32, seconds: u32) -> Result<Ran, String> {
        let (port, process) = match way {
            Way::Direct => (self.port, None),
            Way::Proxy => (self.proxy.address.port(), Some(self.proxy.process.id())),
            Way::Agent => (self.agent.address.port(), Some(self.agent.process.id())),
        };
        let used = || process.map_or(Ok(0.0), processor_us);
        let before = used()?;
        let script = format!("\\set a random(1, {ROWS})\nSELECT add_to(:a);\n");
        let script = self.folder.write("script.sql", &script).map_err(|error| error.to_string())?;
        let programs = program_folder().map_err(|error| error.to_string())?;
        let mut pgbench = Command::new(programs.join("pgbench"));
        pgbench.args(["-n", "-M", "prepared", "-h", "127.0.0.1", "-U", "postgres", "-l"]);
        pgbench.arg("--log-prefix").arg(self.folder.path().join(LOGS));
        pgbench.arg("-f").arg(script);
        for (flag, value) in
            [("-p", u32::from(port)), ("-c", clients), ("-j", clients.min(2)), ("-T", seconds)]
        {
            pgbench.arg(flag).arg(value.to_string());
        }
        let output = pgbench.arg("postgres").output().map_err(|error| format!("pgbench: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let per_second = summary(&text).filter(|_| output.status.success()).map(|summary| summary.per_second);
        let failed =
            || format!("pgbench failed ({way:?}): {text}{}", String::from_utf8_lossy(&output.stderr));
        let per_second = per_second.ok_or_else(failed)?;
        let latencies = take_latencies(self.folder.path(), LOGS).map_err(|error| error.to_string())?;
        let processor_us = (used()? - before) / latencies.len().max(1) as f64;
        let median_us = median(latencies).ok_or("pgbench has logged nothing")?;
        Ok(Ran { per_second, median_us, processor_us })
    }
}

/// Figures of a run of pgbench.
struct Ran {
    per_second: f64,
    median_us: f64,
    processor_us: f64,
}

fn start_agent(folder: &Folder, server: &Server) -> Result<Served, String> {
    folder.write("transactions.toml", TRANSACTIONS).map_err(|error| error.to_string())?;
    let [agent, listen] = free_ports(2)[..] else { return Err("two ports are not free".to_owned()) };
    let text = format!(
        "application = \".\"\ndirectory = {:?}\n[clients]\ndatabase = \"postgres\"\n\
         [[server]]\nname = \"a\"\nagent = \"127.0.0.1:{agent}\"\nlisten = \"127.0.0.1:{listen}\"\ndatabase = \"{}\"\n",
        folder.path().join("coordinator"),
        server.connection_string()
    );
    let file = folder.write("conveyor.toml", &text).map_err(|error| error.to_string())?;
    Served::start(&["serve-agent", &file.display().to_string(), "a"])
}

fn median(values: Vec<f64>) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// Measures. `each` hears of each run.
///
/// # Errors
/// PostgreSQL is not installed, or what pgbench says.
pub fn measure(effort: &Effort, mut each: impl FnMut(&Sample)) -> Result<Vec<Sample>, String> {
    let deployment = Deployment::start(effort.is_durable)?;
    let mut samples = Vec::new();
    for way in WAYS {
        // Caches are warm, and everybody is connected.
        deployment.run(way, 1, 1)?;
    }
    for &clients in &effort.clients {
        for round in 0..effort.rounds {
            for turn in 0..WAYS.len() {
                let way = WAYS[(round as usize + turn) % WAYS.len()];
                let Ran { per_second, median_us, processor_us } =
                    deployment.run(way, clients, effort.seconds)?;
                let sample = Sample { clients, round, way, per_second, median_us, processor_us };
                each(&sample);
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}

/// Medians over the rounds with one number of clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub clients: u32,
    /// Operations a second, by way.
    pub per_second: [f64; 3],
    pub median_us: [f64; 3],
    /// Processor time of proxy and agent for an operation.
    pub processor_us: [f64; 2],
    /// Throughput beside that of a direct connection.
    pub proxy_ratio: f64,
    pub agent_ratio: f64,
    /// Percentage points of throughput that the agent costs beyond the proxy.
    pub points: f64,
    /// Median latency of the agent, less that of a direct connection, and of the proxy.
    pub added_us: f64,
    pub added_to_proxy_us: f64,
}

impl Verdict {
    /// None: there are no runs with so many clients.
    pub fn of(samples: &[Sample], clients: u32) -> Option<Verdict> {
        let of_way = |way: Way, value: fn(&Sample) -> f64| -> Vec<f64> {
            let mut all: Vec<&Sample> =
                samples.iter().filter(|sample| sample.clients == clients && sample.way == way).collect();
            all.sort_by_key(|sample| sample.round);
            all.into_iter().map(value).collect()
        };
        let rates = WAYS.map(|way| of_way(way, |sample| sample.per_second));
        let medians = WAYS.map(|way| of_way(way, |sample| sample.median_us));
        let processor = [Way::Proxy, Way::Agent].map(|way| of_way(way, |sample| sample.processor_us));
        let each = |one: &[f64], other: &[f64], of: fn(f64, f64) -> f64| {
            median(one.iter().zip(other).map(|(one, other)| of(*one, *other)).collect())
        };
        let ratio = |way: usize| each(&rates[way], &rates[0], |one, direct| one / direct);
        let added = |way: usize| each(&medians[2], &medians[way], |one, other| one - other);
        let (proxy_ratio, agent_ratio) = (ratio(1)?, ratio(2)?);
        let medians_of = |all: &[Vec<f64>; 3]| all.each_ref().map(|each| median(each.clone()).unwrap_or(0.0));
        Some(Verdict {
            clients,
            per_second: medians_of(&rates),
            median_us: medians_of(&medians),
            processor_us: processor.map(|all| median(all).unwrap_or(0.0)),
            proxy_ratio,
            agent_ratio,
            points: 100.0 * (proxy_ratio - agent_ratio),
            added_us: added(0)?,
            added_to_proxy_us: added(1)?,
        })
    }

    /// Returns whether both bounds hold.
    pub fn holds(&self) -> bool {
        self.points <= POINTS_MAX && self.added_us <= MEDIAN_MAX_US
    }
}

/// Verdicts for people.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header([
        "clients",
        "direct /s",
        "proxy /s",
        "agent /s",
        "proxy ratio",
        "agent ratio",
        "points beyond the proxy (15)",
        "direct, median µs",
        "proxy",
        "agent",
        "added µs (150)",
        "added to the proxy",
        "processor µs, proxy",
        "agent",
        "holds",
    ]);
    for verdict in verdicts {
        let whole = |value: f64| format!("{value:.0}");
        let mut cells = vec![verdict.clients.to_string()];
        cells.extend(verdict.per_second.map(whole));
        cells.extend([verdict.proxy_ratio, verdict.agent_ratio].map(|ratio| format!("{ratio:.2}")));
        cells.push(format!("{:.1}", verdict.points));
        cells.extend(verdict.median_us.map(whole));
        cells.extend([verdict.added_us, verdict.added_to_proxy_us].map(whole));
        cells.extend(verdict.processor_us.map(|value| format!("{value:.1}")));
        cells.push(if verdict.holds() { "yes" } else { "NO" }.to_owned());
        table.add_row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round: u32, way: Way, per_second: f64, median_us: f64) -> Sample {
        Sample { clients: 1, round, way, per_second, median_us, processor_us: 7.0 }
    }

    #[test]
    fn a_verdict_compares_within_rounds() {
        let mut samples = Vec::new();
        // The second round is on a machine that does something else, too.
        for (round, slow) in [(0, 1.0), (1, 10.0), (2, 1.0)] {
            samples.push(sample(round, Way::Direct, 1000.0 / slow, 100.0));
            samples.push(sample(round, Way::Agent, 700.0 / slow, 240.0));
            samples.push(sample(round, Way::Proxy, 800.0 / slow, 120.0));
        }
        let verdict = Verdict::of(&samples, 1).unwrap();
        assert!((verdict.points - 10.0).abs() < 1e-9, "{verdict:?}");
        assert!((verdict.added_us - 140.0).abs() < 1e-9 && (verdict.added_to_proxy_us - 120.0).abs() < 1e-9);
        assert!(verdict.holds());
        assert_eq!(Verdict::of(&samples, 8), None);
    }
}
