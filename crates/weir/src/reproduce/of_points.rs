//! Figures that are made of points of protocols: those of ramp.txt, and New-Order of coordination-avoidance.txt §6.2.

use comfy_table::Cell;
use serde::Serialize;
use weir_bench::figures::{Effort, Figure, Point, Setting};
use weir_bench::scale::Prices;
use weir_harness::figure::{Figure as Judged, Kind};

use super::new_order::NewOrder;
use crate::bench;
use crate::cli::ReproduceArguments;
use crate::output::{FAINT, Failure, STRONG, styled};
use crate::report::{duration, grouped};
use crate::table::table;

/// The points of a figure, for `--format json`.
#[derive(Serialize)]
pub struct Measured {
    id: String,
    title: &'static str,
    /// No part was run on real servers.
    simulated: bool,
    prices_of: Option<String>,
    points: Vec<Point>,
}

impl Measured {
    pub fn new(id: &str, figure: OfPoints, points: Vec<Point>, prices: &Prices) -> Measured {
        let simulated = |point: &Point| point.simulated;
        let prices_of = points.iter().any(simulated).then(|| format!("{}, {}", prices.machine, prices.date));
        let (id, title, simulated) = (id.to_owned(), figure.title(), points.iter().all(simulated));
        Measured { id, title, simulated, prices_of, points }
    }
}

/// A figure that is made of points of protocols.
#[derive(Clone, Copy)]
pub enum OfPoints {
    Ramp(Figure),
    NewOrder(NewOrder),
}

impl OfPoints {
    pub fn by_id(id: &str) -> Option<OfPoints> {
        Figure::by_id(id).map(OfPoints::Ramp).or_else(|| NewOrder::by_id(id).map(OfPoints::NewOrder))
    }

    pub fn title(self) -> &'static str {
        match self {
            OfPoints::Ramp(figure) => figure.title(),
            OfPoints::NewOrder(figure) => figure.title(),
        }
    }

    pub fn measure(
        self,
        arguments: &ReproduceArguments,
        prices: &Prices,
        listener: &mut dyn FnMut(&str),
    ) -> Result<Vec<Point>, Failure> {
        let effort = if arguments.quick || arguments.tiny { Effort::Quick } else { Effort::Full };
        match self {
            OfPoints::NewOrder(figure) => figure.measure(effort, arguments.seed, prices, listener),
            OfPoints::Ramp(figure) => {
                let weir = bench::this_program()?;
                let points =
                    figure.measure(Setting { effort, seed: arguments.seed, prices, weir: &weir, listener });
                points.map_err(|(what, hint)| {
                    Failure::input(format!("weir reproduce {}: error: {what}\nhint: {hint}", figure.id()))
                })
            }
        }
    }

    /// In the form that all figures have, with claims and verdicts.
    pub fn judged(self, points: &[Point], id: &str) -> Judged {
        let (paper, panels, claims) = match self {
            OfPoints::Ramp(figure) => ("ramp.txt", figure.panels(points), figure.claims(points)),
            OfPoints::NewOrder(figure) => {
                ("coordination-avoidance.txt", figure.panels(points), figure.claims(points))
            }
        };
        let is_simulated = points.iter().all(|point| point.simulated);
        let note = if points.iter().any(|point| point.simulated) {
            "Simulated servers are charged with what steps were measured to take (docs/internals/scale.md)."
        } else {
            "Ran on this machine, where clients and servers share the cores."
        };
        let line = |point: &Point| serde_json::to_value(point).expect("numbers and names can be written");
        Judged {
            id: id.to_owned(),
            paper,
            title: self.title().to_owned(),
            kind: if is_simulated { Kind::Simulated } else { Kind::Measured },
            notes: vec![note.to_owned()],
            panels,
            data: points.iter().map(line).collect(),
            claims,
        }
    }
}

/// The points as a table of the terminal.
pub fn text(title: &str, points: &[Point]) -> String {
    let share = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
    let row = |point: &Point| {
        let latency = match point.latency_p50_us {
            0.0 => String::new(),
            latency => duration(latency),
        };
        vec![
            Cell::new(&point.panel),
            Cell::new((point.x * 1_000.0).round() / 1_000.0),
            Cell::new(&point.series),
            Cell::new(grouped(point.throughput.round() as u64)),
            Cell::new(latency),
            Cell::new(share(point.of_base)),
            Cell::new(share(point.published)),
        ]
    };
    let header = ["Panel", "At", "Protocol", "Transactions a second", "p50", "Of the base", "The paper's"];
    let rows = points.iter().map(row).collect();
    let mut text = format!("\n{}\n\n{}\n", styled(STRONG, title), table(&header, &[1, 3, 4, 5, 6], rows));
    if points.iter().any(|point| point.simulated) {
        let note = "These servers are simulated: docs/internals/scale.md says what is real about them.\n";
        text.push_str(&styled(FAINT, note));
    }
    text
}
