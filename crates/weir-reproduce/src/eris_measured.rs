//! Table 1 (a sequencer) and Figure 12 (TPC-C) of eris.txt run for real, over loopback.

use std::time::Duration;

use serde_json::json;
use weir_baselines::eris::tpcc::Scale;
use weir_harness::Spread;
use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::{Axis, Panel, Series};
use weir_ordered::cluster::Timeouts;
use weir_ordered_bench::run::run;
use weir_ordered_bench::settings::{Settings, Until, Workload};
use weir_ordered_net::bench::{self, Load};

use crate::Effort;

const TABLE_1: &str = "eris-table1";
const FIGURE_12: &str = "eris-fig12";
pub const IDS: [&str; 2] = [TABLE_1, FIGURE_12];

/// Packets a second that the paper's end host sequences, on 24 cores.
const ENDHOST: f64 = 1_610_000.0;
/// Packets a second on one core that issue 28 asks for.
const ONE_CORE: f64 = 500_000.0;

/// Protocols of Figure 12, and how many times more New-Orders the paper's Eris does. The first is compared with them.
const PROTOCOLS: [(&str, f64); 5] =
    [("ordered", 1.0), ("nt-ur", 0.97), ("granola", 2.75), ("tapir", 6.38), ("lock-store", 7.6)];

/// None: it is none of these.
pub fn figure(
    wanted: &str,
    effort: Effort,
    seed: u64,
    listener: &mut dyn FnMut(&str),
) -> Option<Result<Figure, String>> {
    match wanted {
        TABLE_1 => Some(sequencer(effort)),
        FIGURE_12 => Some(tpcc(effort, seed, listener)),
        _ => None,
    }
}

/// Time and repetitions of a measurement.
fn measured(effort: Effort) -> (Duration, usize) {
    match effort {
        Effort::Tiny => (Duration::from_millis(300), 1),
        Effort::Quick => (Duration::from_secs(1), 3),
        Effort::Full => (Duration::from_secs(3), 10),
    }
}

fn sequencer(effort: Effort) -> Result<Figure, String> {
    let (duration, repetitions) = measured(effort);
    let load = Load { shards: 3, replicas: 3, distributed_every: 10, per_datagram: 1, bytes: 64, duration };
    let mut seen = Vec::new();
    for _ in 0..repetitions {
        seen.push(bench::run(&load).map_err(|error| error.to_string())?.per_core_second());
    }
    let data = seen.iter().map(|packets| json!({ "packets_per_core_second": packets })).collect();
    let points = seen.iter().enumerate().map(|(turn, packets)| (turn as f64 + 1.0, *packets)).collect();
    let Spread { median, least, most } = Spread::of(seen).ok_or("nothing was measured")?;
    let ours = format!("{median:.0} ({least:.0} to {most:.0})");
    Ok(Figure {
        id: TABLE_1.to_owned(),
        paper: "eris.txt",
        title: "Table 1: packets that a sequencer stamps".to_owned(),
        kind: Kind::Measured,
        notes: vec![
            "An end host's sequencer on one core, over loopback, one transaction in a datagram, three replicas a shard; the paper's has 24 cores and a network of \
             10 Gb/s. There is no middlebox here, and no network whose latency could be measured."
                .to_owned(),
        ],
        panels: vec![Panel {
            title: "throughput of a core".to_owned(),
            x: Axis::linear("repetition"),
            y: Axis::linear("packets a second"),
            series: vec![Series { name: "end host".to_owned(), points }],
        }],
        data,
        claims: vec![
            Claim::new(
                "packets a second of one core",
                format!("≥ {ONE_CORE:.0} (issue 28)"),
                ours.clone(),
                Verdict::of(median >= ONE_CORE),
            ),
            Claim::new(
                "packets a second of an end host",
                format!("{ENDHOST:.0} on 24 cores"),
                format!("{ours} on one core"),
                Verdict::of(median >= ENDHOST),
            ),
        ],
    })
}

fn tpcc(effort: Effort, seed: u64, listener: &mut dyn FnMut(&str)) -> Result<Figure, String> {
    let (duration, repetitions) = measured(effort);
    let mut new_orders = vec![Vec::new(); PROTOCOLS.len()];
    for turn in 0..repetitions {
        for (of_protocol, (protocol, _)) in new_orders.iter_mut().zip(PROTOCOLS) {
            listener(&format!("TPC-C by {protocol} ({} of {repetitions})", turn + 1));
            let ran = run(protocol, &settings(effort, duration, seed)).map_err(|error| error.to_string())?;
            of_protocol.push(ran.report.new_orders_per_second.unwrap_or_default());
        }
    }
    let ordered = new_orders[0].clone();
    let mut claims = Vec::new();
    for (of_protocol, (protocol, theirs)) in new_orders.iter().zip(PROTOCOLS).skip(1) {
        let ratios = ordered.iter().zip(of_protocol).map(|(ordered, other)| ordered / other.max(1.0));
        let Spread { median, least, most } = Spread::of(ratios.collect()).ok_or("nothing was measured")?;
        claims.push(Claim::new(
            format!("New-Orders a second beside {protocol}"),
            format!("{theirs} times"),
            format!("{median:.2} times ({least:.2} to {most:.2})"),
            Verdict::of(median >= theirs),
        ));
    }
    let runs = new_orders.iter().zip(PROTOCOLS);
    let data = runs.clone().flat_map(|(runs, (protocol, _))| {
        runs.iter().map(move |run| json!({ "protocol": protocol, "new_orders_per_second": run }))
    });
    let series = runs.map(|(runs, (protocol, _))| Series {
        name: protocol.to_owned(),
        points: runs.iter().enumerate().map(|(turn, run)| (turn as f64 + 1.0, *run)).collect(),
    });
    Ok(Figure {
        id: FIGURE_12.to_owned(),
        paper: "eris.txt",
        title: "Figure 12: TPC-C with 10% distributed transactions".to_owned(),
        kind: Kind::Measured,
        notes: vec![
            "Two shards of a warehouse each and three replicas (NT-UR: one) over loopback, 64 clients, logs in memory; all parties and the clients share the cores of \
             this machine, while each replica of the paper has one, and it has 15 shards. A protocol with more replicas has less of the machine for each."
                .to_owned(),
        ],
        panels: vec![Panel {
            title: "throughput".to_owned(),
            x: Axis::linear("repetition"),
            y: Axis::linear("New-Orders a second"),
            series: series.collect(),
        }],
        data: data.collect(),
        claims,
    })
}

fn settings(effort: Effort, duration: Duration, seed: u64) -> Settings {
    let scale = match effort {
        Effort::Tiny => Scale { warehouses: 2, customers: 60, items: 200 },
        _ => Scale::full(2),
    };
    Settings {
        workload: Workload::Tpcc { scale, shards: 2 },
        replicas: 3,
        clients: 64,
        front_ends: 2,
        loss: 0.0,
        is_unpacked: false,
        seed,
        until: Until::Time(duration),
        timeouts: Timeouts::DEFAULT,
        truncate_entries: 100_000,
        kills_sequencer: false,
        keeps_answers: false,
    }
}
