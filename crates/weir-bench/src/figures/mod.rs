//! The figures of ramp.txt §5, measured anew: what is run for each of them, and how it is drawn.
//!
//! Some are real runs on this machine and some are simulated; each point says which. Where the paper's text has a number,
//! it stands beside ours.

pub mod blocked;
mod claims;
mod servers;
mod sweeps;
mod trips;

use std::path::Path;

use serde::Serialize;
use weir_harness::figure::Claim;

use crate::plot::{Axis, Panel, Series};
use crate::scale::Prices;
use crate::ycsb::{Outcome, Protocol};
use sweeps::SWEEPS;

/// The time to spend.
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
    /// The lowest and the highest of the pairs that the ratio is the median of, where it is one of pairs.
    pub of_base_range: Option<[f64; 2]>,
    /// The ratio stated in the paper.
    pub published: Option<f64>,
    pub simulated: bool,
}

/// Parameters of a measurement.
pub struct Setting<'a> {
    pub effort: Effort,
    pub seed: u64,
    /// Prices of simulated steps.
    pub prices: &'a Prices,
    /// The program `weir`, which is started for the nodes.
    pub weir: &'a Path,
    /// Receives progress messages.
    pub listener: &'a mut dyn FnMut(&str),
}

impl Setting<'_> {
    fn tell(&mut self, what: &str) {
        (self.listener)(what);
    }
}

/// A figure and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Table 1.
    Trips,
    Clients,
    Sweeps,
    SimulatedSweeps,
    Servers,
    Blocked,
}

impl Figure {
    pub const ALL: [Figure; 6] = [
        Figure::Trips,
        Figure::Clients,
        Figure::Sweeps,
        Figure::SimulatedSweeps,
        Figure::Servers,
        Figure::Blocked,
    ];

    pub fn id(self) -> &'static str {
        match self {
            Figure::Trips => "ramp-table1",
            Figure::Clients => "ramp-fig2",
            Figure::Sweeps => "ramp-fig3",
            Figure::SimulatedSweeps => "ramp-fig3-simulated",
            Figure::Servers => "ramp-fig4",
            Figure::Blocked => "ramp-blocked-writes",
        }
    }

    /// By its id, or the one that it had before.
    pub fn by_id(id: &str) -> Option<Figure> {
        let today = match id {
            "ramp-figure-3" => "ramp-fig3",
            "ramp-figure-3-simulated" => "ramp-fig3-simulated",
            "ramp-figure-4" => "ramp-fig4",
            id => id,
        };
        Figure::ALL.into_iter().find(|figure| figure.id() == today)
    }

    /// The paper's claims beside these points.
    pub fn claims(self, points: &[Point]) -> Vec<Claim> {
        claims::claims(self, points)
    }

    pub fn title(self) -> &'static str {
        match self {
            Figure::Trips => "Table 1 of ramp.txt: round trips of transactions of eight items",
            Figure::Clients => {
                "Figure 2 of ramp.txt: throughput and latency by the number of clients, real runs on one machine"
            }
            Figure::Sweeps => "Figure 3 of ramp.txt: five sweeps of YCSB, real runs on one machine",
            Figure::SimulatedSweeps => "Figure 3 of ramp.txt: five sweeps of YCSB on five servers, simulated",
            Figure::Servers => "Figure 4 of ramp.txt: servers; uniform keys, 95% reads, 4 operations",
            Figure::Blocked => {
                "The table of ramp.txt par. 5.3: blocked writes, on five processes and on one thread"
            }
        }
    }

    /// Runs what it takes.
    ///
    /// # Errors
    /// The error and its remedy.
    pub fn measure(self, mut setting: Setting<'_>) -> Result<Vec<Point>, (String, String)> {
        match self {
            Figure::Trips => trips::measure(&mut setting),
            Figure::Clients => sweeps::clients(&mut setting),
            Figure::Sweeps => sweeps::real(&mut setting),
            Figure::SimulatedSweeps => sweeps::simulated(&mut setting),
            Figure::Servers => servers::measure(&mut setting),
            Figure::Blocked => blocked::table(&mut setting),
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
            Figure::Sweeps | Figure::SimulatedSweeps => {
                let of = |sweep: &sweeps::Sweep| {
                    panel(sweep.panel, sweep.axis(), throughput(), &|one| one.throughput)
                };
                SWEEPS.iter().map(of).collect()
            }
            Figure::Trips => trips::panels(points),
            Figure::Clients => {
                let (name, x) = (SWEEPS[0].panel, || SWEEPS[0].axis());
                let latency = |point: &Point| point.latency_p50_us / 1e3;
                vec![
                    panel(name, x(), throughput(), &|one| one.throughput),
                    panel(name, x(), Axis::log("median latency, ms"), &latency),
                ]
            }
            Figure::Servers => servers::panels(points),
            Figure::Blocked => {
                let y = Axis::linear("of the throughput without any");
                vec![panel(blocked::PANEL, Axis::log("share of the writes"), y, &|one| {
                    one.of_base.unwrap_or(0.0)
                })]
            }
        }
    }
}

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
        of_base_range: None,
        published: None,
        simulated,
    }
}

/// Of repeated runs the better one counts: disturbances only lower the result.
fn keep_better(known: &mut Vec<Point>, seen: Point) {
    match known.iter_mut().find(|one| one.series == seen.series) {
        Some(one) if one.throughput >= seen.throughput => {}
        Some(one) => *one = seen,
        None => known.push(seen),
    }
}

/// Beside no concurrency control at the same place.
fn compare_with_none(points: &mut [Point]) {
    let base = points.iter().find(|point| point.series == "none").map(|point| point.throughput);
    for point in points {
        point.of_base = base.filter(|base| *base > 0.0).map(|base| point.throughput / base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_the_ids_of_today_and_of_before() {
        for figure in Figure::ALL {
            assert_eq!(Figure::by_id(figure.id()), Some(figure));
        }
        assert_eq!(Figure::by_id("ramp-figure-3-simulated"), Some(Figure::SimulatedSweeps));
        assert_eq!(Figure::by_id("ramp-figure-4"), Some(Figure::Servers));
        assert_eq!(Figure::by_id("ramp-fig1"), None);
    }
}
