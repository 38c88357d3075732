//! Runs a protocol of eris.txt §8 over loopback, and prints its figures as a line of JSON (docs/internals/ordered-baselines.md).

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use weir_baselines::eris::tpcc::Scale;
use weir_baselines::eris::workload::{self, Kind};
use weir_ordered::cluster::Timeouts;
use weir_ordered_bench::run::{PROTOCOLS, run};
use weir_ordered_bench::settings::{Settings, Until, Workload};

/// The allocator of Weir's own program, for all protocols.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Ordered transactions and their comparators over loopback")]
struct Arguments {
    #[arg(long, default_value = "ordered", value_parser = clap::builder::PossibleValuesParser::new(PROTOCOLS))]
    protocol: String,
    /// srw: single-shard reads and writes; mrmw: modifications; crmw: swaps and reads; tpcc: TPC-C
    #[arg(long, default_value = "srw", value_parser = ["srw", "mrmw", "crmw", "tpcc"])]
    workload: String,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    shards: u16,
    /// Replicas of each shard; nt-ur has one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=9))]
    replicas: u16,
    /// Transactions that are under way at any time
    #[arg(long, default_value_t = 256)]
    clients: usize,
    /// Threads, each with a socket, that have these clients
    #[arg(long, default_value_t = 2)]
    front_ends: usize,
    /// Share of the transactions that are of two shards, in percent
    #[arg(long, default_value_t = 0.0)]
    distributed: f64,
    /// Exponent of Zipf's law; 0: uniform
    #[arg(long, default_value_t = 0.0)]
    zipf: f64,
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Warehouses of TPC-C; one a shard unless it is given. How many transactions are of two shards follows from it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    warehouses: Option<u16>,
    /// Customers of a district of TPC-C, which begins with as many orders
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    customers: u32,
    /// Items of TPC-C
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    items: u32,
    /// Share of the datagrams that each party loses, in percent
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Send each message of a client, and to a client, in a datagram of its own, as if each client had a machine
    #[arg(long)]
    unpacked: bool,
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// For one second
    #[arg(long)]
    quick: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Entries after which logs are truncated
    #[arg(long, default_value_t = 100_000)]
    truncate_entries: u64,
    /// End the sequencer in the middle
    #[arg(long)]
    kill_sequencer: bool,
    /// Check the values of replicas only, and keep no answers
    #[arg(long)]
    no_answers: bool,
}

fn settings(arguments: &Arguments) -> Result<Settings, String> {
    let Arguments { shards, replicas, keys, clients, front_ends, .. } = *arguments;
    let is_right = keys >= u64::from(shards)
        && (1..=64).contains(&front_ends)
        && clients >= front_ends
        && arguments.seconds > 0.0;
    if !is_right {
        return Err("each shard has a key, each front end a client, and a run takes time".to_owned());
    }
    let seconds = if arguments.quick { 1.0 } else { arguments.seconds };
    Ok(Settings {
        workload: workload(arguments)?,
        replicas,
        clients,
        front_ends,
        loss: arguments.loss / 100.0,
        is_unpacked: arguments.unpacked,
        seed: arguments.seed,
        until: Until::Time(Duration::from_secs_f64(seconds)),
        timeouts: Timeouts::DEFAULT,
        truncate_entries: arguments.truncate_entries,
        kills_sequencer: arguments.kill_sequencer,
        keeps_answers: !arguments.no_answers,
    })
}

fn workload(arguments: &Arguments) -> Result<Workload, String> {
    let Arguments { shards, keys, customers, items, zipf, .. } = *arguments;
    if arguments.workload == "tpcc" {
        let warehouses = arguments.warehouses.unwrap_or(shards);
        if warehouses < shards {
            return Err("each shard has a warehouse".to_owned());
        }
        return Ok(Workload::Tpcc { scale: Scale { warehouses, customers, items }, shards });
    }
    let kind = Kind::by_name(&arguments.workload).ok_or("no such workload")?;
    let distributed = arguments.distributed / 100.0;
    Ok(Workload::Registers(workload::Workload { kind, keys, shards, distributed, zipf }))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let report = settings(&arguments).and_then(|settings| {
        run(&arguments.protocol, &settings).map(|outcome| outcome.report).map_err(|error| error.to_string())
    });
    let line = report.and_then(|report| serde_json::to_string(&report).map_err(|error| error.to_string()));
    match line {
        Ok(line) => {
            anstream::println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            anstream::eprintln!("weir-ordered-bench: {why}");
            ExitCode::FAILURE
        }
    }
}
