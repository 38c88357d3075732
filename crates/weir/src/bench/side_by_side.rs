//! `weir bench WORKLOAD --target A,B`: durable servers, each started for it, do the same in turns on this machine.
//!
//! Each repetition measures every server once, so that what slows the machine down for a while slows all of them; a ratio is the
//! median over the repetitions. A further script of pgbench is a line of `SCRIPTS`.

use std::collections::BTreeMap;
use std::path::Path;

use comfy_table::Cell;
use serde::Serialize;
use serde_json::Value;
use weir_bench::Spread;
use weir_server::report::Latency;

use crate::bench::beside::{BESIDE, Beside};
use crate::bench::calls::Calls;
use crate::bench::jdbc::{YCSB_JDBC, YcsbReads};
use crate::bench::keys::{KEYS, Keys};
use crate::bench::pgbench::{self, PROTOCOLS, Pgbench};
use crate::bench::rows::{ManyRows, Way};
use crate::bench::servers::{Server, Servers, Target, WeirOptions, failed, folder, postgres_programs};
use crate::bench::transactions::{STATEMENTS_MIN, Transactions};
use crate::bench::{Range, Ratio, ratio_lines, wrong};
use crate::cli::{BenchArguments, Format};
use crate::output::{Failure, STRONG, print, print_json, print_remark, styled};
use crate::report::{duration, grouped};
use crate::table::table;

/// Bounds on what pgbench and one thread of clients can drive.
const CLIENTS_MAX: u32 = 1_000;

/// As `weir serve` has it.
const SHARDS_MAX: u16 = 64;

/// A script that pgbench runs on the tables that `pgbench -i` makes, and on `looked` ([`LOOKED`]).
struct Script {
    /// Name of the workload on the command line.
    name: &'static str,
    text: Text,
}

enum Text {
    /// Name of one of pgbench's own scripts.
    BuiltIn(&'static str),
    /// Lines of a script. The variable `aid` is a random account.
    Own(&'static str),
}

const SCRIPTS: [Script; 9] = [
    // TPC-B: transactions of several statements.
    Script { name: "pgbench", text: Text::BuiltIn("tpcb-like") },
    // A row by its key.
    Script { name: "pgbench-select", text: Text::BuiltIn("select-only") },
    // One UPDATE, SELECT and INSERT in a transaction.
    Script { name: "pgbench-update", text: Text::BuiltIn("simple-update") },
    // A row by a secondary index.
    Script { name: "pgbench-index", text: Text::Own("SELECT id, note FROM looked WHERE code = :aid;") },
    // Joins of two and four tables by key.
    Script {
        name: "pgbench-join-2",
        text: Text::Own(
            "SELECT a.abalance, b.bbalance FROM pgbench_accounts a JOIN pgbench_branches b ON b.bid = a.bid \
             WHERE a.aid = :aid;",
        ),
    },
    Script {
        name: "pgbench-join-4",
        text: Text::Own(
            "SELECT a.abalance, b.bbalance, t.tbalance, l.note FROM pgbench_accounts a \
             JOIN pgbench_branches b ON b.bid = a.bid JOIN pgbench_tellers t ON t.tid = a.bid \
             JOIN looked l ON l.id = a.aid WHERE a.aid = :aid;",
        ),
    },
    // The first rows in the order of an index.
    Script {
        name: "pgbench-order",
        text: Text::Own("SELECT id, code, note FROM looked WHERE code >= :aid ORDER BY code LIMIT 10;"),
    },
    // A read within BEGIN and END.
    Script {
        name: "pgbench-transaction",
        text: Text::Own("BEGIN;\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\nEND;"),
    },
    // A write that changes nothing.
    Script {
        name: "pgbench-delete",
        text: Text::Own("\\set none -1 - :aid\nDELETE FROM looked WHERE id = :none;"),
    },
];

/// A table with a secondary index, as many rows as there are accounts.
const LOOKED: &str = "DROP TABLE IF EXISTS looked;
CREATE TABLE looked (id integer PRIMARY KEY, code integer NOT NULL, note text);
INSERT INTO looked SELECT aid, 1 + aid * 7919::bigint % (SELECT count(*) FROM pgbench_accounts), 'a row of ' || aid FROM pgbench_accounts;
CREATE INDEX ON looked (code);";

/// Setting of an application: its procedure that pgbench calls by a script beside workload.toml.
const BY_PGBENCH: &str = "pgbench";

/// Setting of an application: the level of its calls, which are repeated after serialization failures.
const ISOLATION: &str = "isolation";
const SERIALIZABLE: &str = "serializable";

/// Transactions of many statements, and those with a SAVEPOINT before each.
const STATEMENTS: &str = "statements";
const SAVEPOINTS: &str = "savepoints";

/// Workloads of one connection, which end with their work.
const ENDING: [&str; 6] = ["copy", "insert-select", "copy-out", "select-rows", STATEMENTS, SAVEPOINTS];

/// Workloads that run on servers only, for messages.
pub fn names() -> String {
    SCRIPTS
        .iter()
        .map(|script| script.name)
        .chain(ENDING)
        .chain([BESIDE, KEYS, YCSB_JDBC])
        .collect::<Vec<_>>()
        .join(", ")
}

/// It runs on servers: by its name, or because targets are named and it is an application.
pub fn is_meant(arguments: &BenchArguments) -> bool {
    let is_built_in = SCRIPTS.iter().any(|script| script.name == arguments.workload);
    is_built_in
        || [BESIDE, KEYS, YCSB_JDBC].contains(&arguments.workload.as_str())
        || ENDING.contains(&arguments.workload.as_str())
        || (arguments.workload != "ycsb" && !arguments.target.is_empty())
}

/// Work of every server.
enum Work {
    Pgbench {
        script: &'static Script,
        client: Pgbench,
        /// Multiples of 100,000 accounts.
        scale: u32,
    },
    Rows(ManyRows),
    Transactions(Transactions),
    Beside(Beside),
    Keys(Keys),
    YcsbReads(YcsbReads),
    Calls(Calls),
}

/// Load of a server: number of clients and duration.
pub struct Load {
    pub clients: u32,
    pub seconds: f64,
}

/// Measurement of one server in one repetition.
pub struct Measured {
    /// Transactions, rows or calls a second.
    pub throughput: f64,
    pub completed: u64,
    /// Transactions or calls that were rolled back.
    pub aborted: u64,
    /// Duration of each, in microseconds; none where only all of it has a duration.
    pub times_us: Vec<f64>,
    /// Duration of the last tenth of each transaction, over the first tenth; empty where nothing else is one transaction.
    pub late: Vec<f64>,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    workload: String,
    runs: Vec<Run>,
    /// Ratios of the first target to each other one.
    ratios: Vec<Ratio>,
}

/// One server in one repetition.
#[derive(Serialize)]
struct Run {
    label: String,
    target: String,
    parameters: BTreeMap<&'static str, Value>,
    throughput: f64,
    aborted_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_us: Option<Latency>,
    /// Duration of the last tenth of each transaction, over the first tenth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    late: Vec<f64>,
    /// The most memory that a server of Weir has had until the end of this run, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory: Option<u64>,
    /// Which repetition this was, from 1.
    rounds: u32,
}

pub fn execute(arguments: &BenchArguments) -> Result<(), Failure> {
    refuse_options(arguments)?;
    let targets = targets(arguments)?;
    let load = load(arguments)?;
    let folder = folder()?;
    let work = Work::of(arguments, &targets, folder.path())?;
    let shards = arguments.cluster.shards.unwrap_or(1);
    let servers = Servers::start(&targets, folder, &work.options(shards))?;
    work.prepare(&servers)?;
    let repeat = arguments.repeat.unwrap_or(10);
    let parameters = work.parameters(arguments, &load, shards);
    let mut runs = Vec::new();
    for round in 1..=repeat {
        // None of them is always the first.
        let mut order: Vec<&Server> = servers.all.iter().collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for server in order {
            let label = server.target.label();
            let measured =
                work.measure(server, &servers, &load, arguments.cluster.seed.wrapping_add(round.into()))?;
            print_remark(&format!(
                "weir: {label} ({round} of {repeat}): {:.0} a second",
                measured.throughput
            ));
            let mut run = run(label, measured, &parameters, round);
            run.peak_memory = server.peak_memory();
            runs.push(run);
        }
    }
    if let Work::Calls(calls) = &work {
        calls.check(&servers)?;
    }
    let ratios = ratios(&targets, &runs);
    let report = Report { version: 1, workload: arguments.workload.clone(), runs, ratios };
    match arguments.format {
        Format::Json => print_json(&report),
        Format::Text => print(&text(&report)),
    }
    Ok(())
}

/// Options that would do nothing.
fn refuse_options(arguments: &BenchArguments) -> Result<(), Failure> {
    let cluster = &arguments.cluster;
    let ends = ENDING.contains(&arguments.workload.as_str());
    let is_script = SCRIPTS.iter().any(|script| script.name == arguments.workload);
    let on_servers = "it says what a cluster does; a server runs as `weir serve` starts it";
    let for_time = "say how long each server is measured: --seconds S";
    let own_end = "it is one connection's and ends with its work: --set rows=N, --set statements=N";
    let given = [
        (!arguments.protocol.is_empty(), "--protocol", on_servers),
        (arguments.processes.is_some(), "--processes", on_servers),
        (arguments.simulate.is_some(), "--simulate", on_servers),
        (arguments.sweep.is_some(), "--sweep", "run the command once for each value"),
        (cluster.transactions.is_some(), "--transactions", for_time),
        (ends && cluster.clients.is_some(), "--clients", own_end),
        (ends && cluster.seconds.is_some(), "--seconds", own_end),
        (
            (ends || is_script) && arguments.count.is_some(),
            "--count",
            "it is for procedures of an application",
        ),
    ];
    match given.iter().find(|(is_given, ..)| *is_given) {
        None => Ok(()),
        Some((_, option, hint)) => {
            Err(wrong(arguments, &format!("{option} is not for {} on servers", arguments.workload), hint))
        }
    }
}

fn targets(arguments: &BenchArguments) -> Result<Vec<Target>, Failure> {
    if arguments.target.is_empty() {
        return Ok(vec![Target::Weir, Target::Postgres]);
    }
    let mut targets = Vec::new();
    for text in &arguments.target {
        let target = Target::parse(&arguments.workload, text)?;
        if targets.contains(&target) {
            let hint = "to see what chance does, compare this program with a copy of it: baseline:PROGRAM";
            return Err(wrong(arguments, &format!("`{text}` is named twice"), hint));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn load(arguments: &BenchArguments) -> Result<Load, Failure> {
    let clients = arguments.cluster.clients.unwrap_or(16);
    if clients > CLIENTS_MAX {
        let hint = format!("--clients {CLIENTS_MAX} or fewer");
        return Err(wrong(arguments, &format!("--clients {clients}: too many connections"), &hint));
    }
    if let Some(shards) = arguments.cluster.shards.filter(|shards| *shards > SHARDS_MAX) {
        let hint = format!("--shards {SHARDS_MAX} or fewer");
        return Err(wrong(arguments, &format!("--shards {shards}: too many for one server"), &hint));
    }
    let seconds = arguments.cluster.seconds.unwrap_or(5.0);
    let is_script =
        arguments.workload == KEYS || SCRIPTS.iter().any(|script| script.name == arguments.workload);
    if is_script && (seconds < 1.0 || seconds.fract() != 0.0) {
        let what = format!("--seconds {seconds}: pgbench runs for whole seconds");
        return Err(wrong(arguments, &what, "--seconds 1 is the least"));
    }
    Ok(Load { clients, seconds })
}

/// The one setting that a workload has, as a number from 1.
fn setting(arguments: &BenchArguments, name: &str, default: u32) -> Result<u32, Failure> {
    let mut value = default;
    for (given, text) in &arguments.cluster.settings {
        if given != name {
            let hint = format!("its one setting is {name}");
            return Err(wrong(arguments, &format!("no setting `{given}`"), &hint));
        }
        value = whole(arguments, name, text)?;
    }
    Ok(value)
}

fn whole(arguments: &BenchArguments, name: &str, text: &str) -> Result<u32, Failure> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| wrong(arguments, &format!("`{name}={text}` is wrong"), "a whole number from 1 on"))
}

/// Scale and protocol of pgbench.
fn pgbench_settings(arguments: &BenchArguments) -> Result<(u32, &'static str), Failure> {
    let (mut scale, mut protocol) = (16, PROTOCOLS[0]);
    for (name, text) in &arguments.cluster.settings {
        match name.as_str() {
            "scale" => scale = whole(arguments, name, text)?,
            "protocol" => {
                let known = PROTOCOLS.into_iter().find(|known| known == text);
                protocol = known.ok_or_else(|| {
                    let hint = format!("its protocols are {}", PROTOCOLS.join(", "));
                    wrong(arguments, &format!("`protocol={text}` is wrong"), &hint)
                })?;
            }
            _ => {
                let hint = "its settings are scale and protocol";
                return Err(wrong(arguments, &format!("no setting `{name}`"), hint));
            }
        }
    }
    Ok((scale, protocol))
}

impl Work {
    fn of(arguments: &BenchArguments, targets: &[Target], folder: &Path) -> Result<Work, Failure> {
        let name = arguments.workload.as_str();
        let script = SCRIPTS.iter().find(|script| script.name == name);
        // Missing programs are reported before anything starts.
        let programs = match script {
            Some(_) => Some(postgres_programs(name, &["pgbench"])?),
            None if targets.contains(&Target::Postgres) => {
                Some(postgres_programs(name, &["initdb", "postgres"])?)
            }
            None => None,
        };
        if let (Some(script), Some(programs)) = (script, programs) {
            let (scale, protocol) = pgbench_settings(arguments)?;
            return Ok(Work::Pgbench { script, client: Pgbench { programs, protocol }, scale });
        }
        if let Some(way) = Way::named(name) {
            let rows = setting(arguments, "rows", 1_000_000)?;
            return Ok(Work::Rows(ManyRows::new(way, rows)));
        }
        if [STATEMENTS, SAVEPOINTS].contains(&name) {
            let statements = setting(arguments, "statements", 50_000)?;
            if statements < STATEMENTS_MIN {
                let hint = format!("{STATEMENTS_MIN} is the least");
                return Err(wrong(arguments, &format!("`statements={statements}` is too few"), &hint));
            }
            let programs = postgres_programs(name, &["psql"])?;
            return Ok(Work::Transactions(Transactions {
                programs,
                statements,
                savepoints: name == SAVEPOINTS,
            }));
        }
        let wrong = |what: &str, hint: &str| wrong(arguments, what, hint);
        match name {
            KEYS => Keys::of(arguments, &wrong).map(Work::Keys),
            BESIDE => Beside::of(arguments, &wrong).map(Work::Beside),
            YCSB_JDBC => YcsbReads::of(arguments, &wrong).map(Work::YcsbReads),
            _ => Work::of_calls(arguments, targets, folder).map(Work::Calls),
        }
    }

    /// Options with which servers of Weir are started.
    fn options(&self, shards: u16) -> WeirOptions<'_> {
        let (mut application, mut memory) = (None, None);
        match self {
            Work::Calls(calls) => application = Some(calls.path.as_path()),
            Work::Beside(beside) => memory = beside.memory.as_deref(),
            _ => {}
        }
        WeirOptions { application, shards, memory }
    }

    fn of_calls(arguments: &BenchArguments, targets: &[Target], folder: &Path) -> Result<Calls, Failure> {
        let name = arguments.workload.as_str();
        let (mut by_pgbench, mut serializable) = (None, false);
        for (setting, value) in &arguments.cluster.settings {
            match (setting.as_str(), value.as_str()) {
                (BY_PGBENCH, procedure) => by_pgbench = Some(procedure),
                (ISOLATION, SERIALIZABLE) => serializable = true,
                _ => {
                    let hint = format!(
                        "of an application there are {BY_PGBENCH}=PROCEDURE and {ISOLATION}={SERIALIZABLE}; servers are loaded as workload.toml says: change it there"
                    );
                    let what = format!("--set {setting}={value} is not for servers");
                    return Err(wrong(arguments, &what, &hint));
                }
            }
        }
        if by_pgbench.is_some() && serializable {
            let what = format!("{BY_PGBENCH} and {ISOLATION} do not go together");
            return Err(wrong(
                arguments,
                &what,
                "pgbench's calls are at READ COMMITTED: leave one of them away",
            ));
        }
        if targets == [Target::Postgres] {
            let hint = "its rows are those that Weir loads: --target weir:,postgres";
            return Err(wrong(arguments, "an application does not run on PostgreSQL alone", hint));
        }
        super::Application::check_name(arguments)?;
        let calls = Calls::of(name, arguments.count.as_deref(), folder)?;
        match by_pgbench {
            None if serializable => Ok(calls.serializable()),
            None => Ok(calls),
            Some(procedure) => {
                let programs = postgres_programs(name, &["pgbench"])?;
                calls.by_pgbench(procedure, programs)
            }
        }
    }

    fn parameters(
        &self,
        arguments: &BenchArguments,
        load: &Load,
        shards: u16,
    ) -> BTreeMap<&'static str, Value> {
        let mut parameters = BTreeMap::from([("shards", Value::from(shards))]);
        match self {
            Work::Rows(rows) => {
                parameters.insert("rows", rows.count.into());
                return parameters;
            }
            Work::Transactions(Transactions { statements, .. }) => {
                parameters.insert("statements", (*statements).into());
                return parameters;
            }
            Work::Pgbench { scale, client, .. } => {
                parameters.insert("scale", (*scale).into());
                parameters.insert("protocol", client.protocol.into());
            }
            Work::Beside(beside) => {
                parameters.insert("other", beside.name().into());
                parameters.insert("rows", beside.rows.into());
                parameters.insert("seconds", load.seconds.into());
                parameters.extend(beside.memory.clone().map(|memory| ("memory", memory.into())));
                return parameters;
            }
            Work::YcsbReads(reads) => {
                parameters.insert("rows", reads.rows.into());
            }
            Work::Keys(keys) => {
                parameters.insert("keys", keys.keys.into());
                parameters.insert("operation", keys.operation.0.into());
            }
            Work::Calls(_) => {
                parameters.extend(arguments.count.clone().map(|count| ("count", count.into())));
            }
        }
        parameters.extend([
            ("clients", load.clients.into()),
            ("seconds", load.seconds.into()),
            ("seed", arguments.cluster.seed.into()),
        ]);
        parameters
    }

    /// Makes the tables that it works on.
    fn prepare(&self, servers: &Servers) -> Result<(), Failure> {
        for server in &servers.all {
            match self {
                Work::Pgbench { client, scale, script } => {
                    client.prepare(server, servers.folder.path(), *scale)?;
                    if let Text::Own(_) = script.text {
                        let made = server.address.connect()?.batch_execute(LOOKED);
                        made.map_err(|error| failed("CREATE TABLE looked", &error))?;
                    }
                }
                Work::Rows(rows) => rows.prepare(server)?,
                Work::Beside(beside) => beside.prepare(server)?,
                Work::Keys(keys) => keys.prepare(server)?,
                Work::YcsbReads(reads) => reads.prepare(server)?,
                Work::Transactions(_) | Work::Calls(_) => {}
            }
        }
        match self {
            Work::Calls(calls) => calls.prepare(servers),
            _ => Ok(()),
        }
    }

    fn measure(
        &self,
        server: &Server,
        servers: &Servers,
        load: &Load,
        seed: u64,
    ) -> Result<Measured, Failure> {
        match self {
            Work::Pgbench { script, client, scale } => {
                let script = match script.text {
                    Text::BuiltIn(name) => pgbench::Script::BuiltIn(name),
                    Text::Own(statements) => {
                        let text = format!("\\set aid random(1, 100000 * {scale})\n{statements}\n");
                        pgbench::Script::Text(text)
                    }
                };
                client.measure(server, servers.folder.path(), &script, (load, seed))
            }
            Work::Rows(rows) => rows.measure(server),
            Work::Transactions(transactions) => transactions.measure(server),
            Work::Beside(beside) => beside.measure(server, load),
            Work::Keys(keys) => keys.measure(server, servers.folder.path(), (load, seed)),
            Work::YcsbReads(reads) => reads.measure(server, servers.folder.path(), (load, seed)),
            Work::Calls(calls) => calls.measure(server, servers.folder.path(), load, seed),
        }
    }
}

fn latency(mut times_us: Vec<f64>) -> Option<Latency> {
    times_us.sort_by(f64::total_cmp);
    let last = times_us.len().checked_sub(1)?;
    let at = |percent: usize| times_us[last * percent / 100];
    Some(Latency { p50: at(50), p95: at(95), p99: at(99), max: at(100), ..Latency::default() })
}

fn run(label: String, measured: Measured, parameters: &BTreeMap<&'static str, Value>, round: u32) -> Run {
    let all = (measured.completed + measured.aborted).max(1);
    Run {
        target: label.clone(),
        label,
        parameters: parameters.clone(),
        throughput: measured.throughput,
        aborted_share: measured.aborted as f64 / all as f64,
        late: measured.late,
        latency_us: latency(measured.times_us),
        peak_memory: None,
        rounds: round,
    }
}

fn ratios(targets: &[Target], runs: &[Run]) -> Vec<Ratio> {
    let Some((first, others)) = targets.split_first() else { return Vec::new() };
    let find = |label: &str, round: u32| runs.iter().find(|run| run.rounds == round && run.label == label);
    let of = first.label();
    let spread = |other: &str, figure: &dyn Fn(&Run) -> Option<f64>| {
        let own = runs.iter().filter(|run| run.label == of);
        let ratio = |run: &Run| Some(figure(run)? / figure(find(other, run.rounds)?)?);
        let ratios: Vec<f64> = own.filter_map(ratio).filter(|ratio| ratio.is_finite()).collect();
        let pairs = ratios.len();
        Spread::of(ratios).map(|spread| (pairs, spread))
    };
    let ratio = |other: &Target| {
        let to = other.label();
        let (pairs, spread_of_all) = spread(&to, &|run| Some(run.throughput))?;
        let Spread { median: value, least: min, most: max } = spread_of_all;
        let p99 = spread(&to, &|run| run.latency_us.as_ref().map(|latency| latency.p99));
        let p99 = p99.map(|(_, one)| Range { value: one.median, min: one.least, max: one.most });
        Some(Ratio { of: of.clone(), to, value, min, max, pairs, p99 })
    };
    others.iter().filter_map(ratio).collect()
}

fn text(report: &Report) -> String {
    let cells = |run: &Run| {
        let time = |of: fn(&Latency) -> f64| {
            Cell::new(run.latency_us.as_ref().map_or_else(String::new, |latency| duration(of(latency))))
        };
        vec![
            Cell::new(&run.label),
            Cell::new(run.rounds),
            Cell::new(grouped(run.throughput.round() as u64)),
            Cell::new(format!("{:.2}%", 100.0 * run.aborted_share)),
            time(|latency| latency.p50),
            time(|latency| latency.p99),
            Cell::new(run.late.iter().map(|late| format!("{late:.2}")).collect::<Vec<_>>().join(", ")),
        ]
    };
    // Only transactions of many statements have a beginning and an end.
    let columns = if report.runs.iter().any(|run| !run.late.is_empty()) { 7 } else { 6 };
    let header = ["Target", "Round", "A second", "Aborted", "p50", "p99", "Last tenth over first"];
    let rows = report.runs.iter().map(|run| cells(run).into_iter().take(columns).collect()).collect();
    let title = styled(STRONG, &report.workload);
    let numbers: Vec<usize> = (1..columns).collect();
    format!("\n{title}\n\n{}\n{}", table(&header[..columns], &numbers, rows), ratio_lines(&report.ratios))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_first_target_by_repetition() {
        let target = Target::Baseline("earlier".into());
        let measured = |throughput, p99| Measured {
            throughput,
            completed: 1,
            aborted: 0,
            times_us: vec![p99],
            late: Vec::new(),
        };
        let runs = [(30.0, 1.0, 10.0, 2.0, 1), (20.0, 4.0, 10.0, 2.0, 2), (60.0, 4.0, 15.0, 2.0, 3)]
            .into_iter()
            .flat_map(|(own, own_p99, other, p99, round)| {
                let parameters = BTreeMap::new();
                [
                    run(target.label(), measured(other, p99), &parameters, round),
                    run("weir".to_owned(), measured(own, own_p99), &parameters, round),
                ]
            })
            .collect::<Vec<_>>();
        let ratios = ratios(&[Target::Weir, target], &runs);
        let [ratio] = &ratios[..] else { panic!("{}", ratios.len()) };
        assert_eq!((ratio.of.as_str(), ratio.to.as_str(), ratio.pairs), ("weir", "baseline:earlier", 3));
        assert_eq!((ratio.value, ratio.min, ratio.max), (3.0, 2.0, 4.0));
        let p99 = ratio.p99.as_ref().unwrap();
        assert_eq!((p99.value, p99.min, p99.max), (2.0, 0.5, 2.0));
    }
}
