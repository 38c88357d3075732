//! `weir bench commitment`: the most commits a second of one item if each takes an atomic commitment, by Monte-Carlo over a local network and over
//! regions (coordination-avoidance.txt §6.1, `weir_cat::commitment`).

use comfy_table::Cell;
use serde::Serialize;
use weir_bench::scale::Network as Simulated;
use weir_cat::commitment::{Commitment, Cost, LAN_PUBLISHED, Network, calibrated, simulate};
use weir_cat::delays::{EC2, Family, Tail, World};
use weir_cat_bench::workload::{Settings, Wrong};

use super::items;
use crate::cli::{BenchArguments, Format};
use crate::output::{FAINT, Failure, STRONG, print, print_json, styled};
use crate::report::duration;
use crate::table::table;

pub const NAME: &str = "commitment";

/// Numbers of servers, if none are given.
const SERVERS: std::ops::RangeInclusive<u16> = 2..=10;
const COMMITS: usize = 40_000;
const COMMITS_MAX: usize = 10_000_000;

#[derive(Serialize)]
struct Document {
    version: u32,
    workload: &'static str,
    runs: Vec<Run>,
}

/// One protocol with one number of servers.
#[derive(Serialize)]
struct Run {
    label: String,
    protocol: &'static str,
    parameters: Parameters,
    /// Commits a second of one item.
    throughput: f64,
    latency_us: Latency,
}

#[derive(Clone, Serialize)]
struct Parameters {
    network: &'static str,
    servers: u16,
    /// Of a local network.
    #[serde(skip_serializing_if = "Option::is_none")]
    delays: Option<Delays>,
    /// Of a wide area: the region of each server; the first one coordinates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    regions: Vec<String>,
}

/// Distribution of a message's delay.
#[derive(Clone, Copy, Serialize)]
struct Delays {
    family: &'static str,
    median_us: f64,
    p99_us: f64,
}

#[derive(Serialize)]
struct Latency {
    mean: f64,
    p50: f64,
    p99: f64,
}

/// Delays of a local network, and how many commits are drawn.
struct Local {
    tail: Tail,
    /// The tail is that of the paper's measurements, and not the user's.
    is_calibrated: bool,
    commits: usize,
}

/// The networks that were asked for.
struct Wanted<'w> {
    local: Option<Local>,
    /// Of a wide area.
    regions: Option<(&'w World, Vec<usize>)>,
}

pub fn execute(arguments: &BenchArguments) -> Result<(), Failure> {
    refuse(arguments)?;
    let protocols = protocols(arguments)?;
    let world = match items::network(arguments)? {
        Some(Simulated::Lan) => None,
        Some(Simulated::Wan(world)) => Some(world),
        None => Some(&*EC2),
    };
    let servers = match arguments.servers.is_empty() {
        true => SERVERS.collect(),
        false => arguments.servers.clone(),
    };
    let is_local = !matches!(arguments.simulate, Some(Simulated::Wan(_)));
    let wanted =
        wanted(&arguments.cluster.settings, is_local, world).map_err(|wrong| input(arguments, &wrong))?;
    if servers.contains(&1) {
        let what = "one server commits without asking another one";
        return Err(super::wrong(arguments, what, "--servers 2 or more"));
    }
    if let Some((world, among)) = &wanted.regions {
        check_apart(world, among, &servers).map_err(|wrong| input(arguments, &wrong))?;
    }
    let mut runs = Vec::new();
    for &protocol in &protocols {
        for &count in &servers {
            runs.extend(
                wanted.local.as_ref().map(|local| over_local(local, protocol, count, arguments.cluster.seed)),
            );
        }
        for &count in &servers {
            runs.extend(
                wanted.regions.as_ref().map(|(world, regions)| over_world(world, regions, protocol, count)),
            );
        }
    }
    match arguments.format {
        Format::Json => print_json(&Document { version: 1, workload: NAME, runs }),
        Format::Text => {
            let calibrated = wanted.local.as_ref().filter(|local| local.is_calibrated);
            print(&text(&runs, calibrated.map(|local| &local.tail)));
        }
    }
    Ok(())
}

fn over_local(local: &Local, protocol: Commitment, servers: u16, seed: u64) -> Run {
    let network = Network::Lan { tail: local.tail, servers: servers.into() };
    let cost = simulate(&network, protocol, local.commits, seed);
    let delays = Delays {
        family: local.tail.family.name(),
        median_us: local.tail.exceeded_by_us(0.5),
        p99_us: local.tail.exceeded_by_us(0.01),
    };
    run(protocol, Parameters { network: "lan", servers, delays: Some(delays), regions: Vec::new() }, cost)
}

/// The regions of these names.
fn regions(world: &World, names: &str) -> Result<Vec<usize>, Wrong> {
    let by_name = |name: &str| {
        world.region(name).ok_or_else(|| {
            let hint = format!("the regions are: {}", world.regions.join(", "));
            Wrong::new(format!("there is no region `{name}`"), hint)
        })
    };
    match names {
        "" => Ok((0..world.regions.len()).collect()),
        names => names.split('+').map(by_name).collect(),
    }
}

/// Within a region no message takes time.
fn check_apart(world: &World, among: &[usize], servers: &[u16]) -> Result<(), Wrong> {
    for &count in servers {
        let regions = regions_of(among, count);
        if regions.iter().all(|one| world.round_trip_us(regions[0], *one) == 0.0) {
            let what =
                format!("{count} servers are all in `{}`: no message takes time", world.regions[regions[0]]);
            return Err(Wrong::new(what, "name other regions first, or more servers"));
        }
    }
    Ok(())
}

/// The region of each server: they are put into the regions in turn.
fn regions_of(among: &[usize], servers: u16) -> Vec<usize> {
    among.iter().copied().cycle().take(servers.into()).collect()
}

fn over_world(world: &World, among: &[usize], protocol: Commitment, servers: u16) -> Run {
    let regions = regions_of(among, servers);
    let names = regions.iter().map(|region| world.regions[*region].clone()).collect();
    let cost = simulate(&Network::Wan { world, regions }, protocol, 1, 0);
    run(protocol, Parameters { network: "wan", servers, delays: None, regions: names }, cost)
}

fn run(protocol: Commitment, parameters: Parameters, cost: Cost) -> Run {
    Run {
        label: format!("{} {} servers={}", parameters.network, protocol.name(), parameters.servers),
        protocol: protocol.name(),
        parameters,
        throughput: cost.commits_per_second,
        latency_us: Latency { mean: cost.mean_us, p50: cost.p50_us, p99: cost.p99_us },
    }
}

fn input(arguments: &BenchArguments, wrong: &Wrong) -> Failure {
    super::wrong(arguments, &wrong.what, &wrong.hint)
}

/// Options that would do nothing.
fn refuse(arguments: &BenchArguments) -> Result<(), Failure> {
    let cluster = &arguments.cluster;
    let given = [
        (cluster.clients.is_some(), "--clients"),
        (cluster.seconds.is_some(), "--seconds"),
        (cluster.transactions.is_some(), "--transactions"),
        (cluster.shards.is_some(), "--shards"),
        (!arguments.target.is_empty(), "--target"),
        (arguments.processes.is_some(), "--processes"),
        (arguments.cores.is_some(), "--cores"),
        (arguments.sweep.is_some(), "--sweep"),
        (arguments.repeat.is_some(), "--repeat"),
        (arguments.prices.is_some(), "--prices"),
        (arguments.count.is_some(), "--count"),
        (arguments.trace.is_some(), "--trace"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        None => Ok(()),
        Some((_, option)) => {
            let hint = "it is calculated: --servers, --protocol, --simulate, --round-trips, --set and --seed say of what";
            Err(super::wrong(arguments, &format!("{option} is not for {NAME}"), hint))
        }
    }
}

fn protocols(arguments: &BenchArguments) -> Result<Vec<Commitment>, Failure> {
    let by_name = |name: &String| {
        Commitment::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let names = Commitment::ALL.map(Commitment::name).join(", ");
            super::wrong(
                arguments,
                &format!("`{name}` is no atomic commitment"),
                &format!("there are {names}"),
            )
        })
    };
    match arguments.protocol.is_empty() {
        true => Ok(Commitment::ALL.to_vec()),
        false => arguments.protocol.iter().map(by_name).collect(),
    }
}

/// Settings of a network that was not asked for are refused.
fn wanted<'w>(
    given: &[(String, String)],
    is_local: bool,
    world: Option<&'w World>,
) -> Result<Wanted<'w>, Wrong> {
    let mut settings = Settings::new(NAME, given);
    let local = if is_local { Some(local(&mut settings)?) } else { None };
    let regions = match world {
        Some(world) => {
            let names = settings.take("regions", String::new(), "names with + between them", |_| true)?;
            Some((world, regions(world, &names)?))
        }
        None => None,
    };
    settings.end()?;
    Ok(Wanted { local, regions })
}

fn local(settings: &mut Settings<'_>) -> Result<Local, Wrong> {
    let names = Family::ALL.map(Family::name);
    let right = names.join(" or ");
    let name = settings
        .take("delays", Family::LogNormal.name().to_owned(), &right, |name| names.contains(&name.as_str()))?;
    let family = Family::ALL.into_iter().find(|family| family.name() == name).unwrap_or(Family::LogNormal);
    let time = "a number of microseconds above 0";
    let median_us = settings.take("median_us", 0.0, time, |us: &f64| *us > 0.0)?;
    let p99_us = settings.take("p99_us", 0.0, time, |us: &f64| *us > 0.0)?;
    let commits = settings.count("commits", COMMITS, COMMITS_MAX)?;
    let is_calibrated = median_us == 0.0 && p99_us == 0.0;
    let tail = match is_calibrated {
        true => calibrated(family, &LAN_PUBLISHED),
        false => Tail::of_quantiles(family, median_us, p99_us),
    };
    let hint = "median_us and p99_us are of the delays of your messages, both or neither";
    Ok(Local { tail: tail.map_err(|why| Wrong::new(why, hint))?, is_calibrated, commits })
}

fn text(runs: &[Run], calibrated: Option<&Tail>) -> String {
    let row = |run: &Run| {
        vec![
            Cell::new(run.parameters.network),
            Cell::new(run.protocol),
            Cell::new(run.parameters.servers),
            Cell::new(per_second(run.throughput)),
            Cell::new(duration(run.latency_us.mean)),
            Cell::new(duration(run.latency_us.p99)),
        ]
    };
    let header = ["Network", "Protocol", "Servers", "Commits a second of one item", "Mean", "p99"];
    let rows = runs.iter().map(row).collect();
    let title = "Most commits a second of one item, if each takes an atomic commitment";
    let mut text = format!("\n{}\n\n{}\n", styled(STRONG, title), table(&header, &[2, 3, 4, 5], rows));
    if let Some(tail) = calibrated {
        let (median, p99) = (duration(tail.exceeded_by_us(0.5)), duration(tail.exceeded_by_us(0.01)));
        let note = format!(
            "The local network is a calibration: a {} tail (median {median}, p99 {p99}) through two of the four points of \
             coordination-avoidance.txt §6.1; yours: --set median_us=…,p99_us=…\n",
            tail.family.name()
        );
        text.push_str(&styled(FAINT, &note));
    }
    if let Some(run) = runs.iter().max_by_key(|run| run.parameters.regions.len()) {
        let mut regions = run.parameters.regions.clone();
        let mut seen = std::collections::BTreeSet::new();
        regions.retain(|region| seen.insert(region.clone()));
        if !regions.is_empty() {
            text.push_str(&format!(
                "Regions in turn, the first of which coordinates: {}\n",
                regions.join(", ")
            ));
        }
    }
    text.push_str("Calculated: only messages take time, and nothing aborts. A confluent transaction takes none of them, and has no such bound.\n");
    text
}

/// Few a second have a digit behind the point.
fn per_second(commits: f64) -> String {
    if commits < 100.0 { format!("{commits:.1}") } else { format!("{commits:.0}") }
}
