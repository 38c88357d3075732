//! `weir bench ycsb-t` and `tpcc` under the protocols of eris.txt §8 (the crate `weir-ordered-bench`): sequencer, replicas, coordinators and clients
//! are threads of this program, each with a socket on the loopback interface.

use std::time::Duration;

use serde_json::json;
use weir_baselines::eris::tpcc::Scale;
use weir_baselines::eris::workload::{Kind, Workload as Registers};
use weir_cat_bench::workload::{Settings as Given, Wrong};
use weir_ordered::cluster::Timeouts;
use weir_ordered_bench::report::Report;
use weir_ordered_bench::run::{PROTOCOLS, run as run_protocol};
use weir_ordered_bench::settings::{Settings, Until, Workload};
use weir_server::report::Latency;

use super::{BenchRun, Variant, failed};
use crate::cli::BenchArguments;
use crate::output::Failure;

const YCSB_T: &str = "ycsb-t";
const TPCC: &str = "tpcc";

/// It promises nothing.
const UNCHECKED: &str = "nt-ur";

const SHARDS: u16 = 3;
const SHARDS_MAX: u16 = 64;
/// Transactions that are under way at any time.
const CLIENTS: u32 = 256;
/// Threads, each with a socket, that have these clients.
const FRONT_ENDS: usize = 2;
const SECONDS: f64 = 5.0;
/// Entries after which logs are truncated.
const TRUNCATE_ENTRIES: u64 = 100_000;

/// Whether the protocols are these; those of `tpcc` may also be Weir's own.
pub fn is_meant(arguments: &BenchArguments) -> bool {
    let is_one = |name: &String| PROTOCOLS.contains(&name.as_str());
    match arguments.workload.as_str() {
        _ if arguments.trace.is_some() => false,
        YCSB_T => !arguments.protocol.is_empty(),
        TPCC => arguments.protocol.iter().any(is_one),
        _ => false,
    }
}

/// Checks what was asked for before the first run.
pub fn check(arguments: &BenchArguments, variant: &Variant) -> Result<(), Failure> {
    settings(arguments, variant).map(drop).map_err(|wrong| input(arguments, &wrong))
}

/// Runs a protocol once. Its answers and the values at the end are checked.
pub fn run(arguments: &BenchArguments, variant: &Variant, round: u32) -> Result<BenchRun, Failure> {
    let mut settings = settings(arguments, variant).map_err(|wrong| input(arguments, &wrong))?;
    settings.seed = settings.seed.wrapping_add(u64::from(round - 1));
    let outcome = run_protocol(&variant.protocol, &settings)
        .map_err(|error| failed(arguments, &format!("{}: {error}", variant.label)))?;
    Ok(bench_run(variant, round, outcome.report))
}

fn bench_run(variant: &Variant, round: u32, report: Report) -> BenchRun {
    let all = (report.transactions + report.aborts).max(1);
    let set = variant.settings.iter().map(|(name, value)| (name.clone(), super::parameter(value)));
    let taken = [
        ("kind", json!(report.workload)),
        ("shards", json!(report.shards)),
        ("replicas", json!(report.replicas)),
        ("clients", json!(report.clients)),
        ("distributed", json!(report.distributed)),
        ("zipf", json!(report.zipf)),
        ("loss", json!(report.loss)),
        ("unpacked", json!(report.is_unpacked)),
        ("seconds", json!(report.seconds)),
    ];
    let taken = taken.into_iter().map(|(name, value)| (name.to_owned(), value));
    let warehouses = report.warehouses.map(|count| ("warehouses".to_owned(), json!(count)));
    BenchRun {
        label: variant.label.clone(),
        protocol: report.protocol,
        parameters: set.chain(taken).chain(warehouses).collect(),
        throughput: report.transactions_per_second,
        aborted_share: report.aborts as f64 / all as f64,
        latency_us: Latency {
            p50: report.p50_us,
            p95: report.p95_us,
            p99: report.p99_us,
            max: report.max_us,
            histogram: Vec::new(),
        },
        rounds: round,
        // Of one that promises nothing nothing is checked; a wrong answer of another one is an error.
        holds: (variant.protocol != UNCHECKED).then_some(true),
        check: Some(report.check),
        ..BenchRun::default()
    }
}

fn input(arguments: &BenchArguments, wrong: &Wrong) -> Failure {
    super::wrong(arguments, &wrong.what, &wrong.hint)
}

fn settings(arguments: &BenchArguments, variant: &Variant) -> Result<Settings, Wrong> {
    let cluster = &arguments.cluster;
    if !PROTOCOLS.contains(&variant.protocol.as_str()) {
        let what = format!("`{}` does not run beside the protocols of eris.txt", variant.protocol);
        return Err(Wrong::new(what, format!("those are: {}", PROTOCOLS.join(", "))));
    }
    if cluster.transactions.is_some() {
        let hint = "say how long each run is: --seconds S";
        return Err(Wrong::new("--transactions is not for these protocols", hint));
    }
    let shards = cluster.shards.unwrap_or(SHARDS);
    if shards > SHARDS_MAX {
        return Err(Wrong::new(
            format!("--shards {shards}: too many for one machine"),
            format!("--shards {SHARDS_MAX} or fewer"),
        ));
    }
    let mut given = Given::new(&arguments.workload, &variant.settings);
    let workload = match arguments.workload.as_str() {
        TPCC => tpcc(&mut given, shards)?,
        _ => registers(&mut given, shards)?,
    };
    let loss = given.share("loss", 0.0)?;
    let is_unpacked =
        given.take("unpacked", false, "true (each message of a client has a datagram) or false", |_| true)?;
    given.end()?;
    let clients = cluster.clients.unwrap_or(CLIENTS) as usize;
    Ok(Settings {
        workload,
        replicas: arguments.replicas.unwrap_or(1),
        clients,
        front_ends: FRONT_ENDS.min(clients),
        loss,
        is_unpacked,
        seed: cluster.seed,
        until: Until::Time(Duration::from_secs_f64(cluster.seconds.unwrap_or(SECONDS))),
        timeouts: Timeouts::DEFAULT,
        truncate_entries: TRUNCATE_ENTRIES,
        kills_sequencer: false,
        keeps_answers: true,
    })
}

fn tpcc(given: &mut Given<'_>, shards: u16) -> Result<Workload, Wrong> {
    let right = format!("a whole number from {shards} (one for each shard) to 1000");
    let is_right = |warehouses: &u16| (shards..=1_000).contains(warehouses);
    let warehouses = given.take("warehouses", shards, &right, is_right)?;
    let customers = given.count("customers", 3_000, 100_000)? as u32;
    let right = "a whole number from 50 to 1000000";
    let items = given.take("items", 100_000, right, |items| (50..=1_000_000).contains(items))?;
    Ok(Workload::Tpcc { scale: Scale { warehouses, customers, items }, shards })
}

/// With the settings of the workload by SQL, but for its closed economy.
fn registers(given: &mut Given<'_>, shards: u16) -> Result<Workload, Wrong> {
    let is_kind = |name: &String| Kind::by_name(name).is_some();
    let kind = given.take("kind", "mrmw".to_owned(), "srw, mrmw or crmw", is_kind)?;
    let kind = Kind::by_name(&kind).unwrap_or(Kind::Mrmw);
    let (least, most) = (u64::from(shards), 10_000_000);
    let right = format!("a whole number from {least} (one for each shard) to {most}");
    let keys = given.take("keys", 100_000, &right, |keys| (least..=most).contains(keys))?;
    let (distributed, zipf) = (given.share("distributed", 0.2)?, given.exponent("zipf", 0.5)?);
    Ok(Workload::Registers(Registers { kind, keys, shards, distributed, zipf }))
}
