//! `weir reproduce`: the papers' tables and figures, measured anew: numbers, a picture, and the paper's figure beside ours.
//!
//! The measurements are in weir-bench (`figures`, `scale`) and weir-reproduce; here are files, tables and the application of the first paper's
//! figure.

mod judged;
mod table2;

use std::path::Path;
use std::sync::Arc;

use comfy_table::Cell;
use serde::Serialize;
use weir_bench::figures::{Effort, Figure, Point, Setting};
use weir_bench::plot::{Axis, Panel, Series, svg};
use weir_bench::scale::calls::Calls;
use weir_bench::scale::{Network, Prices, Servers};
use weir_txn::ramp::Protocol;

use crate::application::Loaded;
use crate::bench;
use crate::cli::{Format, ReproduceArguments};
use crate::input;
use crate::output::{FAINT, Failure, STRONG, print, print_json, print_remark, styled, write_file};
use crate::report::{duration, grouped};
use crate::run;
use crate::table::table;
use judged::JudgedClaim;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    figures: Vec<Measured<'a>>,
    /// Of figures that have verdicts.
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

/// TPC-C's New-Order on many servers.
const NEW_ORDER: &str = "new-order-figure-6";
const NEW_ORDER_TITLE: &str =
    "Figure 6 of coordination-avoidance.txt: New-Order, simulated; 5 warehouses a server, 1% remote lines";

pub fn execute(arguments: &ReproduceArguments) -> Result<(), Failure> {
    if arguments.list {
        known().for_each(|id| print(&format!("{id}\n")));
        return Ok(());
    }
    let effort = if arguments.quick { Effort::Quick } else { Effort::Full };
    let prices = bench::prices(arguments.prices.as_deref())?;
    let mut listener = |what: &str| print_remark(&format!("weir: {what}"));
    let mut figures = Vec::new();
    let ids = chosen(&arguments.ids)?;
    let (unjudged, judged): (Vec<String>, Vec<String>) = ids.into_iter().partition(|id| is_plain(id));
    for id in unjudged.iter().filter_map(|id| plain().find(|one| one == id)) {
        let (title, points, panels) = match Figure::ALL.into_iter().find(|figure| figure.id() == id) {
            Some(figure) => {
                let points = figure.measure(Setting {
                    effort,
                    seed: arguments.seed,
                    prices: &prices,
                    weir: &bench::this_program()?,
                    listener: &mut listener,
                });
                let points = points.map_err(|(what, hint)| {
                    Failure::input(format!("weir reproduce {id}: error: {what}\nhint: {hint}"))
                })?;
                let panels = figure.panels(&points);
                (figure.title(), points, panels)
            }
            None => {
                let points = new_order(effort, arguments.seed, &prices, &mut listener)?;
                let panels = new_order_panels(&points);
                (NEW_ORDER_TITLE, points, panels)
            }
        };
        if let Some(directory) = &arguments.out {
            write_figure(directory, id, title, &points, &panels)?;
        }
        if arguments.format == Format::Text {
            print(&text(title, &points));
        }
        let simulated = points.iter().all(|point| point.simulated);
        let prices_of = points
            .iter()
            .any(|point| point.simulated)
            .then(|| format!("{}, {}", prices.machine, prices.date));
        figures.push(Measured { id, title, simulated, prices_of, points });
    }
    let claims = if judged.is_empty() { Vec::new() } else { judged::execute(arguments, &judged)? };
    if arguments.format == Format::Json {
        print_json(&Document { version: 1, figures, claims });
    }
    Ok(())
}

/// Figures without verdicts.
fn plain() -> impl Iterator<Item = &'static str> {
    Figure::ALL.into_iter().map(Figure::id).chain([NEW_ORDER])
}

fn is_plain(id: &str) -> bool {
    plain().any(|one| one == id)
}

fn known() -> impl Iterator<Item = String> {
    plain().map(str::to_owned).chain(weir_reproduce::ids()).chain([table2::ID.to_owned()])
}

fn chosen(ids: &[String]) -> Result<Vec<String>, Failure> {
    if ids.iter().any(|id| id == "all") {
        return Ok(known().collect());
    }
    let find = |id: &String| {
        known().find(|one| one == id).ok_or_else(|| {
            let names: Vec<String> = known().collect();
            Failure::input(format!(
                "weir reproduce: error: there is no figure `{id}`\nhint: the figures are: {}, all",
                names.join(", ")
            ))
        })
    };
    ids.iter().map(find).collect()
}

/// `ID.jsonl`, a line for each point, and `ID.svg`.
fn write_figure(
    directory: &Path,
    id: &str,
    title: &str,
    points: &[Point],
    panels: &[Panel],
) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::input(format!("{}: error: {error}", directory.display())))?;
    let line = |point: &Point| serde_json::to_string(point).expect("numbers and names can be written") + "\n";
    write_file(&directory.join(format!("{id}.jsonl")), &points.iter().map(line).collect::<String>())?;
    let picture = svg(title, panels)
        .map_err(|error| Failure::input(format!("weir reproduce {id}: error: the picture: {error}")))?;
    write_file(&directory.join(format!("{id}.svg")), &picture)
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

/// Number of warehouses for each server as in the paper, with a small population: the cost of a call was measured with the full one.
fn new_order(
    effort: Effort,
    seed: u64,
    prices: &Prices,
    listener: &mut dyn FnMut(&str),
) -> Result<Vec<Point>, Failure> {
    const WAREHOUSES: u16 = 5;
    if prices.calls.is_empty() {
        return Err(Failure::input(format!(
            "weir reproduce {NEW_ORDER}: error: what its calls take has not been measured\n\
             hint: `weir calibrate --out FILE` measures it, and --prices FILE takes it"
        )));
    }
    let (counts, seconds): (&[u16], f64) = match effort {
        Effort::Quick => (&[1, 10], 0.05),
        Effort::Full => (&[1, 5, 10, 25, 50, 75, 100], 0.2),
    };
    let mut points: Vec<Point> = Vec::new();
    for count in counts {
        listener(&format!("{count} servers: New-Order (simulated)"));
        let (loaded, workload, procedure) = shipped_calls(&[
            ("warehouses", WAREHOUSES * *count),
            ("items", 500),
            ("customers_per_district", 30),
        ])?;
        let calls = Calls {
            application: &loaded.application,
            analysis: &loaded.analysis,
            workload: &workload,
            procedure,
        };
        let network = Network::Lan;
        let servers = Servers { servers: *count, cores: 1, clients: 100, network, seconds, seed };
        let (called, load) =
            calls.run(Protocol::RampFast, servers, prices).map_err(|error| run::failure(&loaded, error))?;
        listener(&format!(
            "{count} servers: {:.1}% of the calls have several participants, cores are busy for {:.0}%",
            100.0 * called.distributed,
            100.0 * load.busy
        ));
        let first = points.first().map_or(called.throughput, |first| first.throughput / first.x);
        points.push(Point {
            panel: "servers".to_owned(),
            x: f64::from(*count),
            series: "ramp-fast".to_owned(),
            throughput: called.throughput,
            latency_p50_us: called.latency.p50,
            of_base: Some(called.throughput / f64::from(*count) / first),
            of_base_range: None,
            published: (*count == 100).then_some(0.895),
            simulated: true,
        });
    }
    Ok(points)
}

/// The shipped application and the procedure of which most calls are made, each client with a home of its own.
pub fn shipped_calls(
    settings: &[(&str, u16)],
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

fn new_order_panels(points: &[Point]) -> Vec<Panel> {
    let panel = |title: &str, y: &str, value: &dyn Fn(&Point) -> f64| Panel {
        title: title.to_owned(),
        x: Axis::linear("servers"),
        y: Axis::linear(y),
        series: vec![Series {
            name: "ramp-fast".to_owned(),
            points: points.iter().map(|point| (point.x, value(point))).collect(),
        }],
    };
    vec![
        panel("servers", "New-Orders a second, simulated", &|point| point.throughput),
        panel("each server", "New-Orders a second and server, simulated", &|point| {
            point.throughput / point.x
        }),
    ]
}
