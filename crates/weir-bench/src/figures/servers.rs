//! Figure 4 of ramp.txt (§5.4): a large number of servers, simulated, and for comparison real processes on this machine.

use super::{Effort, Point, Setting, compare_with_none, keep_better, point, series};
use crate::pace::Limit;
use crate::plot::{Axis, Panel, Series};
use crate::processes::Processes;
use crate::scale::{self, Network, Servers};
use crate::ycsb::{Keys, Outcome, Protocol, Ycsb};

/// Default number of operations in a transaction.
const OPERATIONS: f64 = 4.0;

/// Closed loops of each simulated server: as many as keep it busy with batches that are large, and answer in the 35 ms that the
/// paper allows at its peak (docs/internals/scale.md). Its servers are busy with 2,000, and take twenty times as long for a transaction.
const CLIENTS: u32 = 10_000;
const PROTOCOLS: [&str; 4] = ["none", "ramp-fast", "ramp-small", "ramp-hybrid"];

/// Shards that are run for real, all on this machine.
const REAL_MAX: u16 = 4;
/// Closed loops for each of them.
const REAL_CLIENTS: u32 = 256;

const SIMULATED: &str = "servers";
const REAL: &str = "this machine";

pub fn measure(setting: &mut Setting<'_>) -> Result<Vec<Point>, (String, String)> {
    let items = if setting.effort == Effort::Quick { 20_000 } else { 1_000_000 };
    let workload = Ycsb { items, keys: Keys::Uniform, seed: setting.seed, ..Ycsb::default() };
    let mut all = simulated(setting, &workload)?;
    all.extend(real(setting, &workload)?);
    Ok(all)
}

fn simulated(setting: &mut Setting<'_>, workload: &Ycsb) -> Result<Vec<Point>, (String, String)> {
    let (counts, seconds): (&[u16], f64) = match setting.effort {
        Effort::Quick => (&[1, 2, 3, 4, 10, 25], 0.05),
        Effort::Full => (&[1, 2, 3, 4, 10, 25, 50, 100], 0.1),
    };
    let mut all = Vec::new();
    for count in counts {
        let (clients, seed) = (CLIENTS, setting.seed);
        let servers = Servers { servers: *count, cores: 1, clients, network: Network::Lan, seconds, seed };
        let mut at_x = Vec::new();
        for name in PROTOCOLS {
            setting.tell(&format!("{count} servers: {name} (simulated)"));
            let protocol = Protocol::by_name(name)?;
            let (outcome, _) = scale::ycsb(workload, protocol, servers, setting.prices)?;
            at_x.push(point(SIMULATED, f64::from(*count), protocol, &outcome, true));
        }
        compare_with_none(&mut at_x);
        all.extend(at_x);
    }
    Ok(all)
}

/// Threads of this process, and processes of one shard each over loopback TCP. All of them, their coordinators and their
/// clients share the cores that there are.
fn real(setting: &mut Setting<'_>, workload: &Ycsb) -> Result<Vec<Point>, (String, String)> {
    let (rounds, seconds) = if setting.effort == Effort::Quick { (1, 0.3) } else { (3, 2.0) };
    let mut all = Vec::new();
    for shards in 1..=REAL_MAX {
        let clients = REAL_CLIENTS * u32::from(shards);
        let workload = Ycsb { shards, clients, limit: Limit::Seconds(seconds), ..workload.clone() };
        let (mut threads, mut processes): (Vec<Point>, Vec<Point>) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            for name in ["none", "ramp-fast"] {
                setting.tell(&format!("{shards} shards on threads: {name} ({round} of {rounds})"));
                let protocol = Protocol::by_name(name)?;
                keep_better(&mut threads, of_machine(shards, protocol, &workload.run(protocol)?));
            }
            setting.tell(&format!("{shards} shards as processes ({round} of {rounds})"));
            let protocol = Protocol::by_name("ramp-fast")?;
            let nodes = Processes::start(setting.weir, shards, protocol)?;
            keep_better(&mut processes, of_machine(shards, protocol, &workload.run_at(&nodes.cluster)?));
        }
        compare_with_none(&mut threads);
        let named = |place: &'static str| {
            move |point: Point| Point { series: format!("{}, {place}", point.series), ..point }
        };
        all.extend(threads.into_iter().map(named("threads")));
        all.extend(processes.into_iter().map(named("processes")));
    }
    Ok(all)
}

fn of_machine(shards: u16, protocol: Protocol, outcome: &Outcome) -> Point {
    point(REAL, f64::from(shards), protocol, outcome, false)
}

pub fn panels(points: &[Point]) -> Vec<Panel> {
    let panel = |title: &str, x: &str, label: &str, series| Panel {
        title: title.to_owned(),
        x: Axis::linear(x),
        y: Axis::linear(label),
        series,
    };
    let operations = |point: &Point| point.throughput * OPERATIONS;
    let few: Vec<Point> = points.iter().filter(|point| point.x <= f64::from(REAL_MAX)).cloned().collect();
    let simulated = series(&few, SIMULATED, &operations).into_iter().filter(|one| one.name == "ramp-fast");
    let simulated = simulated.map(|one| Series { name: "ramp-fast, simulated servers".to_owned(), ..one });
    let small = series(&few, REAL, &operations).into_iter().chain(simulated).collect();
    vec![
        panel(
            "all servers",
            "servers",
            "operations a second, simulated",
            series(points, SIMULATED, &operations),
        ),
        panel(
            "each server",
            "servers",
            "operations a second and server, simulated",
            series(points, SIMULATED, &|point| operations(point) / point.x),
        ),
        panel("real shards of this machine", "shards, or simulated servers", "operations a second", small),
    ]
}
