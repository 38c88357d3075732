//! `weir bench ycsb`: items under RAMP's protocols and their comparators, in this process, on nodes that are started or run, or on simulated servers.

use serde::Serialize;
use weir_bench::processes::{Processes, on_nodes};
use weir_bench::scale::{self, Load, Network, Prices, Servers, World};
use weir_bench::ycsb::{Protocol, Ycsb};

use super::{BenchRun, Variant, parameter, prices, this_program};
use crate::cli::BenchArguments;
use crate::output::Failure;
use crate::{input, run};

/// Parameters of a simulation, and the origin of its prices.
#[derive(Serialize)]
pub struct Simulated {
    pub network: &'static str,
    pub servers: u16,
    cores: u16,
    clients: u32,
    seconds: f64,
    pub prices_of: String,
    busy: f64,
    messages_per_batch: f64,
    megabytes_per_second: f64,
}

/// Checks what was asked for before the first run.
pub fn check(arguments: &BenchArguments, variant: &Variant) -> Result<(), Failure> {
    ycsb(arguments, variant).map(drop)
}

/// The workload and the protocol of one run of YCSB.
fn ycsb(arguments: &BenchArguments, variant: &Variant) -> Result<(Ycsb, Protocol), Failure> {
    let cluster = &arguments.cluster;
    let mut workload = Ycsb { shards: cluster.shards(), seed: cluster.seed, ..Ycsb::default() };
    workload.clients = cluster.clients.unwrap_or(workload.clients);
    workload.limit = run::limit(cluster);
    for (name, value) in &variant.settings {
        workload.set(name, value).map_err(ycsb_input)?;
    }
    workload.check().map_err(ycsb_input)?;
    if variant.target.is_none() {
        workload.check_memory(variant.processes.is_some()).map_err(ycsb_input)?;
    }
    let protocol = Protocol::by_name(&variant.protocol).map_err(ycsb_input)?;
    if variant.processes.is_some() {
        on_nodes(protocol).map_err(ycsb_input)?;
    }
    Ok((workload, protocol))
}

/// Wrong, and what would be right.
fn ycsb_input((message, hint): (String, String)) -> Failure {
    Failure::input(format!("weir bench ycsb: error: {message}\nhint: {hint}"))
}

/// Runs it once.
pub fn run_once(arguments: &BenchArguments, variant: &Variant, round: u32) -> Result<BenchRun, Failure> {
    let (workload, protocol) = ycsb(arguments, variant)?;
    let (outcome, simulated) = match (variant.servers, variant.processes, &variant.target) {
        (_, Some(shards), _) => {
            let nodes = Processes::start(&this_program()?, shards, protocol).map_err(ycsb_input)?;
            (workload.run_at(&nodes.cluster).map_err(ycsb_input)?, None)
        }
        (Some((count, network)), ..) => {
            let servers = servers(arguments, count, network);
            let prices = prices(arguments.prices.as_deref())?;
            let (outcome, load) = scale::ycsb(&workload, protocol, servers, &prices).map_err(ycsb_input)?;
            (outcome, Some(simulated(servers, load, &prices)))
        }
        (_, _, Some(cluster)) => (workload.run_at(cluster).map_err(ycsb_input)?, None),
        _ => (workload.run(protocol).map_err(ycsb_input)?, None),
    };
    let settings = workload.settings().into_iter();
    let parameters = settings.map(|(name, value)| (name.to_owned(), parameter(&value)));
    let per_second = |count: u64| count as f64 / outcome.seconds;
    let all = (outcome.aborted + outcome.reads + outcome.writes).max(1);
    let by_transaction =
        [("read".to_owned(), per_second(outcome.reads)), ("write".to_owned(), per_second(outcome.writes))];
    Ok(BenchRun {
        label: variant.label.clone(),
        protocol: protocol.name().to_owned(),
        parameters: parameters.collect(),
        throughput: outcome.throughput,
        by_transaction: by_transaction.into(),
        aborted_share: outcome.aborted as f64 / all as f64,
        latency_us: outcome.latency,
        rounds: round,
        holds: Some(true),
        read_rounds: Some(outcome.read_rounds),
        write_rounds: Some(outcome.write_rounds),
        metadata_bytes_per_read: Some(outcome.metadata_bytes_per_read),
        simulated,
        ..BenchRun::default()
    })
}

/// Network between simulated servers.
pub fn network(arguments: &BenchArguments) -> Result<Option<Network>, Failure> {
    let Some(file) = &arguments.round_trips else { return Ok(arguments.simulate) };
    let complain = |what: String| {
        Failure::input(format!(
            "{}: error: {what}\nhint: a line for each region: its name, then the milliseconds of a round trip to each region on \
             the lines below",
            file.display()
        ))
    };
    if !matches!(arguments.simulate, Some(Network::Wan(_))) {
        return Err(complain("round trips between regions are for --simulate wan".to_owned()));
    }
    // Once for the life of the program.
    let world = World::parse(&input::read_text(file)?).map_err(complain)?;
    Ok(Some(Network::Wan(Box::leak(Box::new(world)))))
}

/// By default as many clients as the paper has for each server (ramp.txt §5.1), and so long that each of them runs
/// several transactions.
fn servers(arguments: &BenchArguments, servers: u16, network: Network) -> Servers {
    let seconds = if network == Network::Lan { 0.05 } else { 1.0 };
    Servers {
        servers,
        cores: arguments.cores.unwrap_or(1),
        clients: arguments.cluster.clients.unwrap_or(1_000),
        network,
        seconds: arguments.cluster.seconds.unwrap_or(seconds),
        seed: arguments.cluster.seed,
    }
}

fn simulated(servers: Servers, load: Load, prices: &Prices) -> Simulated {
    Simulated {
        network: servers.network.name(),
        servers: servers.servers,
        cores: servers.cores,
        clients: servers.clients,
        seconds: servers.seconds,
        prices_of: format!("{}, {}", prices.machine, prices.date),
        busy: load.busy,
        messages_per_batch: load.messages_per_batch,
        megabytes_per_second: load.bytes_per_second / 1e6,
    }
}
