//! The figures of ramp.txt §5, measured anew: what is run for each of them, and how it is drawn.
//!
//! Figure 3 and the table of blocked writes are real runs on this machine; Figure 4 is simulated, and says so point by
//! point. Where the paper's text has a number, it stands beside ours.

pub mod blocked;
mod sweeps;

use serde::Serialize;

use crate::pace::Limit;
use crate::plot::{Axis, Panel, Series};
use crate::scale::{self, Network, Prices, Servers};
use crate::ycsb::{Keys, Outcome, Protocol, Ycsb};
use sweeps::SWEEPS;

/// How much time to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// To see that it works: few points, small databases, short runs.
    Quick,
    Full,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    pub panel: String,
    pub x: f64,
    pub series: String,
    /// Transactions a second.
    pub throughput: f64,
    pub latency_p50_us: f64,
    /// Its throughput over that of the panel's base at the same x (no concurrency control, nothing blocked).
    pub of_base: Option<f64>,
    /// What the paper's text says of that ratio.
    pub published: Option<f64>,
    pub simulated: bool,
}

/// A figure and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Sweeps,
    Servers,
    Blocked,
}

impl Figure {
    pub const ALL: [Figure; 3] = [Figure::Sweeps, Figure::Servers, Figure::Blocked];

    pub fn id(self) -> &'static str {
        match self {
            Figure::Sweeps => "ramp-figure-3",
            Figure::Servers => "ramp-figure-4",
            Figure::Blocked => "ramp-blocked-writes",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Figure::Sweeps => "Figure 3 of ramp.txt: five sweeps of YCSB, real runs on one machine",
            Figure::Servers => {
                "Figure 4 of ramp.txt: servers, simulated; uniform keys, 95% reads, 4 operations"
            }
            Figure::Blocked => "The table of ramp.txt par. 5.3: blocked writes, real runs on one thread",
        }
    }

    /// Runs what it takes. `listener` is told what is under way.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn measure(
        self,
        effort: Effort,
        seed: u64,
        prices: &Prices,
        listener: &mut dyn FnMut(&str),
    ) -> Result<Vec<Point>, (String, String)> {
        match self {
            Figure::Sweeps => sweeps(effort, seed, listener),
            Figure::Servers => servers(effort, seed, prices, listener),
            Figure::Blocked => Ok(blocked_writes(effort, seed, listener)),
        }
    }

    /// Its panels, from points that were measured for it.
    pub fn panels(self, points: &[Point]) -> Vec<Panel> {
        let panel = |title: &str, x: Axis, y: Axis, value: &dyn Fn(&Point) -> f64| Panel {
            title: title.to_owned(),
            x,
            y,
            series: series(points, title, value),
        };
        let throughput = || Axis::linear("transactions a second");
        match self {
            Figure::Sweeps => {
                let of = |sweep: &sweeps::Sweep| {
                    panel(sweep.panel, sweep.axis(), throughput(), &|one| one.throughput)
                };
                SWEEPS.iter().map(of).collect()
            }
            Figure::Servers => {
                let x = || Axis::linear("servers");
                let total = Axis::linear("operations a second, simulated");
                let each = Axis::linear("operations a second and server, simulated");
                vec![
                    panel("servers", x(), total, &|one| one.throughput * OPERATIONS),
                    Panel {
                        title: "each server".to_owned(),
                        ..panel("servers", x(), each, &|one| one.throughput * OPERATIONS / one.x)
                    },
                ]
            }
            Figure::Blocked => {
                let y = Axis::linear("of the throughput without any");
                vec![panel("blocked writes", Axis::log("share of the writes"), y, &|one| {
                    one.of_base.unwrap_or(0.0)
                })]
            }
        }
    }
}

/// Of a transaction, by default.
const OPERATIONS: f64 = 4.0;

fn series(points: &[Point], panel: &str, value: &dyn Fn(&Point) -> f64) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for point in points.iter().filter(|point| point.panel == panel) {
        let at = (point.x, value(point));
        match series.iter_mut().find(|one| one.name == point.series) {
            Some(one) => one.points.push(at),
            None => series.push(Series { name: point.series.clone(), points: vec![at] }),
        }
    }
    series.iter_mut().for_each(|one| one.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    series
}

fn point(panel: &str, x: f64, protocol: Protocol, outcome: &Outcome, simulated: bool) -> Point {
    Point {
        panel: panel.to_owned(),
        x,
        series: protocol.name().to_owned(),
        throughput: outcome.throughput,
        latency_p50_us: outcome.latency.p50,
        of_base: None,
        published: None,
        simulated,
    }
}

/// Beside no concurrency control at the same place.
fn compare_with_none(points: &mut [Point]) {
    let base = points.iter().find(|point| point.series == "none").map(|point| point.throughput);
    for point in points {
        point.of_base = base.filter(|base| *base > 0.0).map(|base| point.throughput / base);
    }
}

fn sweeps(effort: Effort, seed: u64, listener: &mut dyn FnMut(&str)) -> Result<Vec<Point>, (String, String)> {
    let (rounds, seconds, items) = match effort {
        Effort::Quick => (1, 0.2, 20_000),
        Effort::Full => (2, 3.0, 1_000_000),
    };
    let mut all = Vec::new();
    for sweep in &SWEEPS {
        for x in sweep.values(effort) {
            let mut workload = Ycsb { items, limit: Limit::Seconds(seconds), seed, ..Ycsb::default() };
            (sweep.set)(&mut workload, x);
            let mut at_x: Vec<Point> = Vec::new();
            for round in 0..rounds {
                for protocol in Protocol::ALL {
                    listener(&format!(
                        "{} = {x}: {} ({} of {rounds})",
                        sweep.panel,
                        protocol.name(),
                        round + 1
                    ));
                    let seen = point(sweep.panel, x, protocol, &workload.run(protocol)?, false);
                    // The better of the rounds: what disturbs only takes away.
                    match at_x.iter_mut().find(|known| known.series == seen.series) {
                        Some(known) if known.throughput >= seen.throughput => {}
                        Some(known) => *known = seen,
                        None => at_x.push(seen),
                    }
                }
            }
            compare_with_none(&mut at_x);
            at_x.iter_mut()
                .for_each(|point| point.published = sweeps::published(sweep.panel, x, &point.series));
            all.extend(at_x);
        }
    }
    Ok(all)
}

fn servers(
    effort: Effort,
    seed: u64,
    prices: &Prices,
    listener: &mut dyn FnMut(&str),
) -> Result<Vec<Point>, (String, String)> {
    let (counts, seconds, items): (&[u16], f64, u64) = match effort {
        Effort::Quick => (&[1, 5, 10, 25], 0.01, 20_000),
        Effort::Full => (&[1, 5, 10, 25, 50, 75, 100], 0.03, 1_000_000),
    };
    let workload = Ycsb { items, keys: Keys::Uniform, ..Ycsb::default() };
    let names = ["none", "ramp-fast", "ramp-small", "ramp-hybrid"];
    let mut all = Vec::new();
    for count in counts {
        let network = Network::Lan;
        let servers = Servers { servers: *count, cores: 1, clients: 1_000, network, seconds, seed };
        let mut at_x = Vec::new();
        for name in names {
            listener(&format!("{count} servers: {name} (simulated)"));
            let protocol = Protocol::by_name(name)?;
            let (outcome, _) = scale::ycsb(&workload, protocol, servers, prices)?;
            at_x.push(point("servers", f64::from(*count), protocol, &outcome, true));
        }
        compare_with_none(&mut at_x);
        all.extend(at_x);
    }
    Ok(all)
}

/// The paper's shares, and nothing blocked first.
const BLOCKED: [(f64, Option<f64>); 5] =
    [(0.0, Some(1.0)), (0.0001, Some(1.0)), (0.001, Some(0.9986)), (0.25, Some(0.7753)), (0.5, Some(0.6792))];

fn blocked_writes(effort: Effort, seed: u64, listener: &mut dyn FnMut(&str)) -> Vec<Point> {
    let (rounds, seconds, items) = match effort {
        Effort::Quick => (1, 1.0, 20_000),
        Effort::Full => (5, 8.0, 1_000_000),
    };
    // By share, one throughput for each round; rounds are interleaved.
    let mut seen: Vec<Vec<f64>> = vec![Vec::new(); BLOCKED.len()];
    for round in 0..rounds {
        for (seen, (share, _)) in seen.iter_mut().zip(BLOCKED) {
            listener(&format!("{}% blocked ({} of {rounds})", share * 100.0, round + 1));
            seen.push(blocked::run(share, items, seconds, seed).throughput);
        }
    }
    let base = seen[0].clone();
    let of = |((share, published), seen): ((f64, Option<f64>), Vec<f64>)| {
        let mut ratios: Vec<f64> = seen.iter().zip(&base).map(|(one, base)| one / base).collect();
        ratios.sort_by(f64::total_cmp);
        Point {
            panel: "blocked writes".to_owned(),
            x: share,
            series: "ramp-fast".to_owned(),
            throughput: seen.iter().sum::<f64>() / seen.len() as f64,
            latency_p50_us: 0.0,
            of_base: ratios.get(ratios.len() / 2).copied(),
            published,
            simulated: false,
        }
    };
    BLOCKED.into_iter().zip(seen.clone()).map(of).collect()
}
