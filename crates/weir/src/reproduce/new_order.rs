//! Figures 4 to 6 of coordination-avoidance.txt: TPC-C's New-Order on simulated servers, by warehouses, by distributed calls, by servers.
//!
//! The population is small: the cost of a call was measured with the full one.

use std::fmt::Display;
use std::sync::Arc;

use weir_bench::figures::{Effort, Point};
use weir_bench::plot::{Axis, Panel, Series};
use weir_bench::scale::calls::Calls;
use weir_bench::scale::{Network, Prices, Servers};
use weir_harness::figure::{Claim, Verdict};
use weir_txn::ramp::Protocol;

use crate::application::Loaded;
use crate::input;
use crate::output::Failure;
use crate::run;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewOrder {
    Warehouses,
    Distributed,
    Servers,
}

/// Servers of Figures 4 and 5.
const SERVERS: u16 = 8;
/// Warehouses of each server of Figures 5 and 6.
const WAREHOUSES: u16 = 5;
/// Share of remote lines that TPC-C has.
const REMOTE: f64 = 0.01;

/// A place of a figure.
struct At {
    x: f64,
    servers: u16,
    warehouses: u16,
    remote_lines: f64,
}

impl NewOrder {
    pub const ALL: [NewOrder; 3] = [NewOrder::Warehouses, NewOrder::Distributed, NewOrder::Servers];

    pub fn id(self) -> &'static str {
        match self {
            NewOrder::Warehouses => "confluence-fig4",
            NewOrder::Distributed => "confluence-fig5",
            NewOrder::Servers => "confluence-fig6",
        }
    }

    /// By its id, or the one that it had before.
    pub fn by_id(id: &str) -> Option<NewOrder> {
        let today = if id == "new-order-figure-6" { "confluence-fig6" } else { id };
        NewOrder::ALL.into_iter().find(|figure| figure.id() == today)
    }

    pub fn title(self) -> &'static str {
        match self {
            NewOrder::Warehouses => {
                "Figure 4 of coordination-avoidance.txt: New-Order on eight servers by warehouses, simulated"
            }
            NewOrder::Distributed => {
                "Figure 5 of coordination-avoidance.txt: New-Order on eight servers by distributed calls, simulated"
            }
            NewOrder::Servers => {
                "Figure 6 of coordination-avoidance.txt: New-Order, simulated; 5 warehouses a server, 1% remote lines"
            }
        }
    }

    fn panel(self) -> &'static str {
        match self {
            NewOrder::Warehouses => "warehouses",
            NewOrder::Distributed => "distributed calls",
            NewOrder::Servers => "servers",
        }
    }

    fn places(self, effort: Effort) -> Vec<At> {
        let is_quick = effort == Effort::Quick;
        let fixed = |x| At { x, servers: SERVERS, warehouses: WAREHOUSES, remote_lines: REMOTE };
        match self {
            NewOrder::Warehouses => {
                let each: &[u16] = if is_quick { &[1, 4] } else { &[1, 2, 4, 8, 16] };
                each.iter().map(|each| At { warehouses: *each, ..fixed(f64::from(SERVERS * each)) }).collect()
            }
            NewOrder::Distributed => {
                // A call has 5 to 15 lines: with a quarter of them remote nearly all calls are distributed.
                let shares: &[f64] =
                    if is_quick { &[0.0, 0.25] } else { &[0.0, 0.01, 0.025, 0.05, 0.1, 0.25] };
                shares.iter().map(|share| At { remote_lines: *share, ..fixed(*share) }).collect()
            }
            NewOrder::Servers => {
                let counts: &[u16] = if is_quick { &[1, 10] } else { &[1, 5, 10, 25, 50, 75, 100] };
                counts.iter().map(|count| At { servers: *count, ..fixed(f64::from(*count)) }).collect()
            }
        }
    }

    pub fn measure(
        self,
        effort: Effort,
        seed: u64,
        prices: &Prices,
        listener: &mut dyn FnMut(&str),
    ) -> Result<Vec<Point>, Failure> {
        if prices.calls.is_empty() {
            return Err(Failure::input(format!(
                "weir reproduce {}: error: what its calls take has not been measured\n\
                 hint: `weir calibrate --out FILE` measures it, and --prices FILE takes it",
                self.id()
            )));
        }
        let seconds = if effort == Effort::Quick { 0.05 } else { 0.2 };
        let mut points: Vec<Point> = Vec::new();
        for at in self.places(effort) {
            let first = points.first().map(|first| first.throughput);
            points.push(self.point(&at, (seconds, seed), prices, first, listener)?);
        }
        Ok(points)
    }

    fn point(
        self,
        at: &At,
        (seconds, seed): (f64, u64),
        prices: &Prices,
        first: Option<f64>,
        listener: &mut dyn FnMut(&str),
    ) -> Result<Point, Failure> {
        let (panel, x) = (self.panel(), at.x);
        listener(&format!("{panel} = {x}: New-Order (simulated)"));
        let (loaded, workload, procedure) = shipped_calls(&[
            ("warehouses", &(at.warehouses * at.servers)),
            ("items", &500),
            ("customers_per_district", &30),
            ("remote_lines", &at.remote_lines),
        ])?;
        let calls = Calls {
            application: &loaded.application,
            analysis: &loaded.analysis,
            workload: &workload,
            procedure,
        };
        let network = Network::Lan;
        let servers = Servers { servers: at.servers, cores: 1, clients: 100, network, seconds, seed };
        let (called, load) =
            calls.run(Protocol::RampFast, servers, prices).map_err(|error| run::failure(&loaded, error))?;
        listener(&format!(
            "{panel} = {x}: {:.1}% of the calls have several participants, cores are busy for {:.0}%",
            100.0 * called.distributed,
            100.0 * load.busy
        ));
        let x = if self == NewOrder::Distributed { called.distributed } else { x };
        // Of servers: of linear growth.
        let linear = if self == NewOrder::Servers { x } else { 1.0 };
        let first = first.unwrap_or(called.throughput);
        Ok(Point {
            panel: panel.to_owned(),
            x,
            series: "ramp-fast".to_owned(),
            throughput: called.throughput,
            latency_p50_us: called.latency.p50,
            of_base: Some(called.throughput / linear / first),
            of_base_range: None,
            published: (self == NewOrder::Servers && x == 100.0).then_some(0.895),
            simulated: true,
        })
    }

    pub fn panels(self, points: &[Point]) -> Vec<Panel> {
        let panel = |title: &str, y: &str, value: &dyn Fn(&Point) -> f64| Panel {
            title: title.to_owned(),
            x: Axis::linear(self.panel()),
            y: Axis::linear(y),
            series: vec![Series {
                name: "ramp-fast".to_owned(),
                points: points.iter().map(|point| (point.x, value(point))).collect(),
            }],
        };
        let mut panels =
            vec![panel(self.panel(), "New-Orders a second, simulated", &|point| point.throughput)];
        if self == NewOrder::Servers {
            panels.push(panel("each server", "New-Orders a second and server, simulated", &|point| {
                point.throughput / point.x
            }));
        }
        panels
    }

    pub fn claims(self, points: &[Point]) -> Vec<Claim> {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
        let ratio = last.throughput / first.throughput;
        let claim = match self {
            NewOrder::Warehouses => {
                let best = points.iter().map(|point| point.throughput).fold(0.0, f64::max) / first.throughput;
                Claim::new(
                    "several warehouses a server have more throughput than one",
                    "17K over 12K: 1.4 times",
                    format!("{best:.2} times"),
                    // One warehouse keeps a core of ours as busy as several: it does not wait for the district's next number.
                    Verdict::of(best >= 1.4),
                )
            }
            NewOrder::Distributed => {
                let least = points.iter().filter_map(|point| point.of_base).fold(f64::INFINITY, f64::min);
                let verdict = if least > 0.8 { Verdict::Exceeded } else { Verdict::of(least >= 0.75) };
                Claim::new(
                    "distributed calls reduce throughput modestly",
                    "by at most 25%",
                    format!(
                        "by at most {:.0}%, with {:.0}% of the calls distributed",
                        100.0 * (1.0 - least),
                        100.0 * last.x
                    ),
                    verdict,
                )
            }
            NewOrder::Servers => {
                let of_linear = last.of_base.unwrap_or(ratio / last.x);
                let verdict = if of_linear > 0.895 { Verdict::Exceeded } else { Verdict::NotReached };
                Claim::new(
                    format!("throughput of {} servers, of linear from one", last.x),
                    "0.895 on 100",
                    format!("{of_linear:.3}"),
                    verdict,
                )
            }
        };
        vec![claim]
    }
}

/// The shipped application and the procedure of which most calls are made, each client with a home of its own.
pub fn shipped_calls(
    settings: &[(&str, &dyn Display)],
) -> Result<(Loaded, Arc<weir_bench::Workload>, usize), Failure> {
    let (sources, (name, text)) = input::shipped(input::SHIPPED[0]).expect("it is shipped");
    let mut loaded = Loaded::from_sources(sources, weir_sql::Reading::Strict)?;
    let mut settings: Vec<(String, String)> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
    settings.push(("fixed_home".to_owned(), "true".to_owned()));
    let workload = loaded.workload(name, text, &settings)?;
    let weights = workload.weights().to_vec();
    let most = weights.iter().copied().max().unwrap_or_default();
    let procedure = weights.iter().position(|weight| *weight == most).unwrap_or_default();
    Ok((loaded, Arc::new(workload), procedure))
}
