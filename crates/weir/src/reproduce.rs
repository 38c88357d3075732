//! `weir reproduce`: the papers' tables and figures, measured anew: numbers, a picture, and the paper's figure beside ours.
//!
//! The measurements are in weir-bench (`figures`, `scale`) and weir-reproduce; here are tables, and what needs an application.

mod classes;
mod judged;
pub mod new_order;
mod table2;

use comfy_table::Cell;
use serde::Serialize;
use weir_bench::figures::{Effort, Figure, Point, Setting};
use weir_bench::scale::Prices;
use weir_harness::figure::{Figure as Judged, Kind};

use crate::bench;
use crate::cli::{Format, ReproduceArguments};
use crate::output::{FAINT, Failure, STRONG, print, print_json, print_remark, styled};
use crate::report::{duration, grouped};
use crate::table::table;
use judged::JudgedClaim;
use new_order::NewOrder;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    figures: Vec<Measured<'a>>,
    claims: Vec<JudgedClaim>,
}

#[derive(Serialize)]
struct Measured<'a> {
    id: &'a str,
    title: &'a str,
    /// No part was run on real servers.
    simulated: bool,
    prices_of: Option<String>,
    points: Vec<Point>,
}

/// A figure that is made of points of protocols.
#[derive(Clone, Copy)]
enum OfPoints {
    Ramp(Figure),
    NewOrder(NewOrder),
}

impl OfPoints {
    fn by_id(id: &str) -> Option<OfPoints> {
        Figure::by_id(id).map(OfPoints::Ramp).or_else(|| NewOrder::by_id(id).map(OfPoints::NewOrder))
    }

    fn title(self) -> &'static str {
        match self {
            OfPoints::Ramp(figure) => figure.title(),
            OfPoints::NewOrder(figure) => figure.title(),
        }
    }

    fn measure(
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
    fn judged(self, points: &[Point], id: &str) -> Judged {
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

pub fn execute(arguments: &ReproduceArguments) -> Result<(), Failure> {
    if arguments.list {
        known().for_each(|id| print(&format!("{id}\n")));
        return Ok(());
    }
    let prices = bench::prices(arguments.prices.as_deref())?;
    let mut listener = |what: &str| print_remark(&format!("weir: {what}"));
    let (mut figures, mut judged) = (Vec::new(), Vec::new());
    let ids = chosen(&arguments.ids)?;
    for id in &ids {
        let Some(figure) = OfPoints::by_id(id) else { continue };
        let points = figure.measure(arguments, &prices, &mut listener)?;
        if arguments.format == Format::Text {
            print(&text(figure.title(), &points));
        }
        judged.push(figure.judged(&points, id));
        let simulated = points.iter().all(|point| point.simulated);
        let prices_of = points
            .iter()
            .any(|point| point.simulated)
            .then(|| format!("{}, {}", prices.machine, prices.date));
        figures.push(Measured { id, title: figure.title(), simulated, prices_of, points });
    }
    let others: Vec<String> = ids.iter().filter(|id| OfPoints::by_id(id).is_none()).cloned().collect();
    let claims = judged::execute(arguments, judged, &others)?;
    if arguments.format == Format::Json {
        print_json(&Document { version: 1, figures, claims });
    }
    Ok(())
}

/// All ids, by paper.
fn known() -> impl Iterator<Item = String> {
    let ramp = Figure::ALL.into_iter().map(|figure| figure.id().to_owned());
    let new_order = NewOrder::ALL.into_iter().map(|figure| figure.id().to_owned());
    let analysed = [table2::ID, classes::ID].map(str::to_owned);
    ramp.chain(new_order).chain(weir_reproduce::ids()).chain(analysed)
}

fn chosen(ids: &[String]) -> Result<Vec<String>, Failure> {
    if ids.iter().any(|id| id == "all") {
        return Ok(known().collect());
    }
    let find = |id: &String| {
        let is_known = OfPoints::by_id(id).is_some() || known().any(|one| one == *id);
        is_known.then(|| id.clone()).ok_or_else(|| {
            let names: Vec<String> = known().collect();
            Failure::input(format!(
                "weir reproduce: error: there is no figure `{id}`\nhint: the figures are: {}, all",
                names.join(", ")
            ))
        })
    };
    ids.iter().map(find).collect()
}

fn text(title: &str, points: &[Point]) -> String {
    let share = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
    let row = |point: &Point| {
        let latency = match point.latency_p50_us {
            0.0 => String::new(),
            latency => duration(latency),
        };
        vec![
            Cell::new(&point.panel),
            Cell::new(point.x),
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
