//! `weir beside WHAT`: a durable server of Weir and another, PostgreSQL 15 or an earlier Weir, do the same in turns, on this machine.
//!
//! Each measurement of one is followed by one of the other, so what slows the machine down for a while slows both; a ratio is the median
//! over the pairs.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::Cell;
use postgres::types::{Format as Encoding, IsNull, ToSql, Type, private::BytesMut};
use postgres::{Client, NoTls};
use serde::Serialize;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_postgres::Statement;
use weir_bench::postgres::{Server as Postgres, program_folder};
use weir_bench::{CallGenerator, Spread, Workload};
use weir_sql::bound::{Parameter, ParameterMode};
use weir_sql::{Application, Reading};
use weir_types::Value;
use weir_types::text::to_text;

use crate::application::{Loaded, workload_text};
use crate::cli::{BesideArguments, BesideWhat, Format};
use crate::live::causes;
use crate::output::{Failure, print, print_json, print_remark};
use crate::table::table;

/// Rows of one COPY.
const COPIED: u32 = 1_000_000;

/// A server that has not begun to listen within this never will.
const STARTS_WITHIN: Duration = Duration::from_secs(120);

#[derive(Serialize)]
struct Report {
    version: u32,
    what: &'static str,
    clients: u32,
    seconds: u32,
    pairs: Vec<Pair>,
    /// Ratio of Weir's throughput to the other's.
    ratio: Ratio,
    /// Ratio of the 99th percentiles of latency; more is slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ratio: Option<Ratio>,
}

#[derive(Serialize)]
struct Ratio {
    value: f64,
    min: f64,
    max: f64,
}

#[derive(Serialize)]
struct Pair {
    weir: Measured,
    #[serde(flatten)]
    other: Other<Measured>,
}

/// System that Weir is compared with.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Other<T> {
    Postgres(T),
    /// An earlier Weir.
    Baseline(T),
}

impl<T> Other<T> {
    fn get(&self) -> &T {
        match self {
            Other::Postgres(one) | Other::Baseline(one) => one,
        }
    }

    fn map<U>(&self, f: impl FnOnce(&T) -> Result<U, Failure>) -> Result<Other<U>, Failure> {
        Ok(match self {
            Other::Postgres(one) => Other::Postgres(f(one)?),
            Other::Baseline(one) => Other::Baseline(f(one)?),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Other::Postgres(_) => "PostgreSQL",
            Other::Baseline(_) => "the baseline",
        }
    }
}

#[derive(Clone, Copy, Serialize)]
struct Measured {
    /// Transactions, rows or calls.
    per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_us: Option<f64>,
    /// Calls that were rolled back.
    aborted: u64,
}

/// A server that is measured.
struct Target {
    port: u16,
    user: &'static str,
    database: &'static str,
}

impl Target {
    fn url(&self) -> String {
        format!("host=127.0.0.1 port={} user={} dbname={}", self.port, self.user, self.database)
    }

    fn connect(&self) -> Result<Client, Failure> {
        Client::connect(&self.url(), NoTls).map_err(|error| failed(&self.url(), &error))
    }

    fn pgbench(&self, folder: &Path, arguments: &[&str]) -> Result<String, Failure> {
        let programs = program_folder().map_err(|error| failed("pgbench", &error))?;
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

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Check(Some(format!("weir beside: error: {what}: {error}")))
}

/// A folder that goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let path = std::env::temp_dir().join(format!("weir-beside-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| failed(&path.display().to_string(), &error))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is under the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process of Weir that serves, until it goes.
struct WeirServer(Child);

impl Drop for WeirServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl WeirServer {
    fn start(
        program: &Path,
        data: &Path,
        application: Option<&Path>,
        shards: u16,
    ) -> Result<(WeirServer, Target), Failure> {
        let port = free_port()?;
        let process = Command::new(program)
            .arg("serve")
            .args(application)
            .args(["--shards", &shards.to_string(), "--listen", &format!("127.0.0.1:{port}"), "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&program.display().to_string(), &error))?;
        let mut server = WeirServer(process);
        server.wait_until_it_listens()?;
        Ok((server, Target { port, user: "weir", database: "weir" }))
    }

    /// Until it says that it listens; what it says later goes nowhere.
    fn wait_until_it_listens(&mut self) -> Result<(), Failure> {
        let errors = self.0.stderr.take().expect("it is piped");
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                // The receiver may have gone.
                let _ = sender.send(line);
            }
        });
        let until = Instant::now() + STARTS_WITHIN;
        let mut said = Vec::new();
        while let Ok(line) = receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if line.contains("PostgreSQL's protocol on") {
                return Ok(());
            }
            said.push(line);
        }
        Err(failed("weir serve did not start", &said.join("\n")))
    }
}

fn start_postgres() -> Result<(Postgres, Target), Failure> {
    let port = free_port()?;
    let settings = ["fsync=on", "listen_addresses=127.0.0.1", "shared_buffers=1GB", "max_wal_size=4GB"];
    let server = Postgres::start_at(port, &settings).map_err(|error| failed("PostgreSQL", &error))?;
    Ok((server, Target { port, user: "postgres", database: "postgres" }))
}

/// A running server; dropping it ends the server.
enum Running {
    Postgres { _server: Postgres },
    Weir { _server: WeirServer },
}

/// Both servers, until it goes: they before their folder.
struct Both {
    weir: Target,
    other: Other<Target>,
    _servers: [Running; 2],
    folder: Folder,
}

impl Both {
    fn start(arguments: &BesideArguments) -> Result<Both, Failure> {
        let folder = Folder::new()?;
        let serve = |program: &Path, data: &str| {
            let application = arguments.application.as_deref();
            WeirServer::start(program, &folder.0.join(data), application, arguments.shards)
        };
        let (other_server, other) = match &arguments.baseline {
            Some(program) => {
                let (server, target) = serve(program, "baseline")?;
                (Running::Weir { _server: server }, Other::Baseline(target))
            }
            None => {
                let (server, target) = start_postgres()?;
                (Running::Postgres { _server: server }, Other::Postgres(target))
            }
        };
        let program = std::env::current_exe().map_err(|error| failed("weir", &error))?;
        let (server, weir) = serve(&program, "data")?;
        let servers = [Running::Weir { _server: server }, other_server];
        Ok(Both { weir, other, _servers: servers, folder })
    }
}

/// A free port.
fn free_port() -> Result<u16, Failure> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    free.map(|address| address.port()).map_err(|error| failed("a free port", &error))
}

pub fn execute(arguments: &BesideArguments) -> Result<(), Failure> {
    let application = arguments.application.as_deref();
    if (arguments.what == BesideWhat::Calls) != application.is_some() {
        return Err(Failure::input(
            "weir beside: error: `calls` needs the directory of an application, and nothing else takes one\n\
             hint: weir beside calls examples/tpcc",
        ));
    }
    let both = Both::start(arguments)?;
    let (what, pairs) = match arguments.what {
        BesideWhat::Pgbench => ("pgbench", pgbench(&both, arguments, &[])?),
        BesideWhat::PgbenchSelect => ("pgbench-select", pgbench(&both, arguments, &["-S"])?),
        BesideWhat::Copy => ("copy", copy(&both, arguments)?),
        BesideWhat::Calls => ("calls", calls(&both, application.expect("it was asked for"), arguments)?),
    };
    let ratio = |of: &dyn Fn(&Measured) -> Option<f64>| {
        let of_pair = |pair: &Pair| Some(of(&pair.weir)? / of(pair.other.get())?);
        let spread = Spread::of(pairs.iter().filter_map(of_pair).collect())?;
        Some(Ratio { value: spread.median, min: spread.least, max: spread.most })
    };
    let p99_ratio = ratio(&|one| one.p99_us);
    let ratio = ratio(&|one| Some(one.per_second)).expect("there is a pair");
    let BesideArguments { clients, seconds, .. } = *arguments;
    let report = Report { version: 1, what, clients, seconds, pairs, ratio, p99_ratio };
    match arguments.format {
        Format::Json => print_json(&report),
        Format::Text => print(&text(&report)),
    }
    Ok(())
}

fn text(report: &Report) -> String {
    let cells = |one: &Measured| {
        let p99 = one.p99_us.map_or_else(String::new, |us| format!("{:.1}", us / 1_000.0));
        [Cell::new(format!("{:.0}", one.per_second)), Cell::new(p99)]
    };
    let rows =
        report.pairs.iter().map(|pair| [cells(&pair.weir), cells(pair.other.get())].concat()).collect();
    let name = report.pairs.first().map_or("", |pair| pair.other.name());
    let header = ["Weir/s", "p99 ms", &format!("{name}/s"), "p99 ms"];
    let said = |what: &str, ratio: &Ratio| {
        format!("{what} of Weir to {name}: {:.3} ({:.3} to {:.3})\n", ratio.value, ratio.min, ratio.max)
    };
    let p99 = report.p99_ratio.as_ref().map(|ratio| said("p99", ratio)).unwrap_or_default();
    format!("{}\n{}{p99}", table(&header, &[0, 1, 2, 3], rows), said("throughput", &report.ratio))
}

/// Measures both in turns, the one first and then the other.
fn in_turns(
    both: &Both,
    arguments: &BesideArguments,
    mut measure: impl FnMut(&Target) -> Result<Measured, Failure>,
) -> Result<Vec<Pair>, Failure> {
    let mut pairs = Vec::new();
    for number in 1..=arguments.pairs {
        let pair = match number % 2 {
            0 => {
                let weir = measure(&both.weir)?;
                Pair { weir, other: both.other.map(&mut measure)? }
            }
            _ => {
                let other = both.other.map(&mut measure)?;
                Pair { weir: measure(&both.weir)?, other }
            }
        };
        let [own, other] = [&pair.weir, pair.other.get()].map(|one| one.per_second);
        print_remark(&format!("weir: {number} of {}: {own:.0} and {other:.0} a second", arguments.pairs));
        pairs.push(pair);
    }
    Ok(pairs)
}

fn pgbench(both: &Both, arguments: &BesideArguments, script: &[&str]) -> Result<Vec<Pair>, Failure> {
    let folder = &both.folder.0;
    let scale = arguments.scale.to_string();
    for target in [&both.weir, both.other.get()] {
        target.pgbench(folder, &["-i", "-q", "-s", &scale])?;
    }
    let (clients, seconds) = (arguments.clients.to_string(), arguments.seconds.to_string());
    let options = ["-n", "-c", &clients, "-j", "2", "-T", &seconds, "-l", "--log-prefix=times"];
    in_turns(both, arguments, |target| {
        let said = target.pgbench(folder, &[&options[..], script].concat())?;
        let is_count = |line: &&str| line.starts_with("tps = ");
        let count = said.lines().find(is_count).and_then(|line| line.split_whitespace().nth(2));
        let per_second = count.and_then(|count| count.parse().ok());
        let per_second = per_second.ok_or_else(|| failed("pgbench said no tps", &said))?;
        let failures = said.lines().find_map(|line| line.strip_prefix("number of failed transactions: "));
        let aborted = failures.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0);
        let p99_us = p99(times(folder).map_err(|error| failed("pgbench's log", &error))?);
        Ok(Measured { per_second, p99_us, aborted })
    })
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

fn p99(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len().saturating_sub(1) * 99 / 100).copied()
}

fn copy(both: &Both, arguments: &BesideArguments) -> Result<Vec<Pair>, Failure> {
    let mut lines = Vec::new();
    for row in 0..COPIED {
        let (a, b) = (row.wrapping_mul(2_654_435_761), row % 1_000);
        writeln!(lines, "{row}\t{a}\tthe text of row {row}\t{b}.25\t2026-11-22 10:00:00")
            .expect("memory takes all");
    }
    let create = "CREATE TABLE copied (id integer PRIMARY KEY, a bigint NOT NULL, b text, c numeric(10,2), d timestamp)";
    for target in [&both.weir, both.other.get()] {
        target.connect()?.batch_execute(create).map_err(|error| failed("CREATE TABLE", &error))?;
    }
    in_turns(both, arguments, |target| {
        let mut client = target.connect()?;
        let wrong = |error: postgres::Error| failed("COPY", &error);
        client.batch_execute("TRUNCATE copied").map_err(wrong)?;
        let begun = Instant::now();
        let mut writer = client.copy_in("COPY copied FROM STDIN").map_err(wrong)?;
        writer.write_all(&lines).map_err(|error| failed("COPY", &error))?;
        let rows = writer.finish().map_err(wrong)?;
        let per_second = rows as f64 / begun.elapsed().as_secs_f64();
        Ok(Measured { per_second, p99_us: None, aborted: 0 })
    })
}

/// A value as its type's text, whatever type that is.
#[derive(Debug)]
struct Written(Option<String>);

impl ToSql for Written {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Encoding {
        Encoding::Text
    }

    postgres::types::to_sql_checked!();
}

/// How a procedure is called: a text with a parameter for each argument.
fn call_text(application: &Application, procedure: usize) -> String {
    let procedure = &application.procedures[procedure];
    let mut number = 0;
    let argument = |mode| match mode {
        ParameterMode::Out => "NULL".to_owned(),
        _ => {
            number += 1;
            format!("${number}")
        }
    };
    let arguments: Vec<String> = procedure.parameters.iter().map(|one| one.mode).map(argument).collect();
    format!("CALL {}({})", procedure.name, arguments.join(", "))
}

fn calls(both: &Both, path: &Path, arguments: &BesideArguments) -> Result<Vec<Pair>, Failure> {
    let mut loaded = Loaded::from_paths(&[path.to_owned()], Reading::Strict)?;
    let (name, text) = workload_text(&loaded, path)?;
    let workload = Arc::new(loaded.workload(name, text, &[])?);
    let application = Arc::new(loaded.application);
    if let Other::Postgres(target) = &both.other {
        fill(&both.weir, target, path, &application, &workload)?;
    }
    // All connections are one thread's: the servers are to have the machine.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed("the runtime of the clients", &error))?;
    let mut seed = 0;
    in_turns(both, arguments, |target| {
        seed += 1;
        let seconds = Duration::from_secs(arguments.seconds.into());
        runtime.block_on(async {
            let mut clients = JoinSet::new();
            let start = Arc::new(Barrier::new(arguments.clients as usize));
            for number in 0..arguments.clients {
                let generator = CallGenerator::new(&workload, seed, number.into());
                let (url, application) = (target.url(), application.clone());
                let (count, start) = (arguments.count.clone(), start.clone());
                clients.spawn(async move {
                    let connection = Calling::open(&url, &application).await;
                    start.wait().await;
                    connection?.call_for(seconds, generator, count.as_deref()).await
                });
            }
            let (mut times, mut aborted) = (Vec::new(), 0);
            while let Some(ended) = clients.join_next().await {
                let (own, rolled_back) = ended.map_err(|error| failed("a client", &error))??;
                times.extend(own);
                aborted += rolled_back;
            }
            let per_second = times.len() as f64 / seconds.as_secs_f64();
            Ok(Measured { per_second, p99_us: p99(times), aborted })
        })
    })
    .and_then(|pairs| check(both, &application).map(|()| pairs))
}

/// The schema, the procedures and the rows of Weir's tables go to PostgreSQL as they are.
fn fill(
    weir: &Target,
    postgres: &Target,
    path: &Path,
    application: &Application,
    workload: &Workload,
) -> Result<(), Failure> {
    let (mut own, mut other) = (weir.connect()?, postgres.connect()?);
    for file in ["schema.sql", "procedures.sql"] {
        let text = std::fs::read_to_string(path.join(file)).map_err(|error| failed(file, &error))?;
        other.batch_execute(&text).map_err(|error| failed(file, &error))?;
    }
    for table in workload.load_order() {
        let name = &application.catalog.table(*table).name;
        let wrong = |error: &dyn std::fmt::Display| failed(&format!("the rows of {name}"), error);
        let mut rows = own.copy_out(&format!("COPY {name} TO STDOUT")).map_err(|error| wrong(&error))?;
        let mut writer = other.copy_in(&format!("COPY {name} FROM STDIN")).map_err(|error| wrong(&error))?;
        std::io::copy(&mut rows, &mut writer).map_err(|error| wrong(&error))?;
        writer.finish().map_err(|error| wrong(&error))?;
    }
    other.batch_execute("ANALYZE").map_err(|error| failed("ANALYZE", &error))
}

/// A connection that calls the procedures of an application.
struct Calling {
    application: Arc<Application>,
    client: tokio_postgres::Client,
    /// By procedure.
    prepared: Vec<Statement>,
}

impl Calling {
    async fn open(url: &str, application: &Arc<Application>) -> Result<Calling, Failure> {
        let connected = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = connected.map_err(|error| failed(url, &error))?;
        // Errors of the connection are reported to its calls.
        tokio::spawn(connection);
        let mut prepared = Vec::new();
        for procedure in 0..application.procedures.len() {
            let statement = client.prepare(&call_text(application, procedure)).await;
            prepared.push(statement.map_err(|error| failed("a CALL cannot be prepared", &error))?);
        }
        Ok(Calling { application: application.clone(), client, prepared })
    }

    /// How long each counted call took, in microseconds, and how many were rolled back.
    async fn call_for(
        self,
        time: Duration,
        mut generator: CallGenerator,
        count: Option<&str>,
    ) -> Result<(Vec<f64>, u64), Failure> {
        let until = Instant::now() + time;
        let (mut times, mut aborted) = (Vec::new(), 0);
        while Instant::now() < until {
            let call = generator.next_call().map_err(|error| failed("the workload", &error))?;
            let procedure = &self.application.procedures[call.procedure];
            let inputs = procedure.parameters.iter().filter(|one| one.mode != ParameterMode::Out);
            let written = |(value, parameter): (&Value, &Parameter)| {
                Written((!value.is_null()).then(|| to_text(value, &parameter.ty)))
            };
            let values: Vec<Written> = call.args.iter().zip(inputs).map(written).collect();
            let begun = Instant::now();
            let values: Vec<&(dyn ToSql + Sync)> =
                values.iter().map(|one| one as &(dyn ToSql + Sync)).collect();
            match self.client.query(&self.prepared[call.procedure], &values).await {
                Ok(_) if count.is_none_or(|name| name == procedure.name) => {
                    times.push(begun.elapsed().as_secs_f64() * 1e6);
                }
                Ok(_) => {}
                Err(error) if error.as_db_error().is_some() => aborted += 1,
                Err(error) => return Err(failed(&procedure.name, &error)),
            }
        }
        Ok((times, aborted))
    }
}

/// Checks the application's assertions on Weir afterwards.
fn check(both: &Both, application: &Application) -> Result<(), Failure> {
    let mut client = both.weir.connect()?;
    let mut broken = Vec::new();
    for assertion in &application.assertions {
        let row = client.query_one(&format!("SELECT {}", assertion.text), &[]);
        let holds: bool = row.map_err(|error| failed(&assertion.name, &causes(&error)))?.get(0);
        if !holds {
            broken.push(assertion.name.as_str());
        }
    }
    let count = application.assertions.len();
    match broken.is_empty() {
        true => {
            print_remark(&format!("weir: {count} of {count} assertions hold"));
            Ok(())
        }
        false => Err(failed("assertions that do not hold", &broken.join(", "))),
    }
}
