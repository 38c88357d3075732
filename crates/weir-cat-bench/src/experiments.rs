//! The measured figures of cat-theorem.txt §4, each by its sweep over all targets.

use serde_json::Value;
use weir_cat::workload::Shape;
use weir_harness::figure::{Claim, Figure, Kind};
use weir_harness::plot::{Axis, Panel, Series};

use crate::laboratory::{Laboratory, Point};
use crate::servers::DEADLOCK_TIMEOUT;
use crate::target::Target;
use crate::{calculated, claims};

/// Figures by their ids. `cat-wall` is ours: what the project is for, as one plot.
pub const IDS: [&str; 10] = [
    "cat-fig1",
    "cat-fig2",
    "cat-fig3",
    "cat-fig4",
    "cat-fig5",
    "cat-fig6",
    "cat-fig7",
    "cat-fig8",
    "cat-wall",
    "confluence-fig3",
];

const PAPER: &str = "cat-theorem.txt";

/// Share of writers in the mixed workload.
const HALF: f64 = 0.5;

/// Points of one target along an axis.
#[derive(Clone, Debug)]
pub struct Line {
    pub target: Target,
    pub points: Vec<(f64, Point)>,
}

impl Line {
    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| (point.0 - x).abs() < 1e-9).map(|point| &point.1)
    }

    pub fn first(&self) -> Option<&Point> {
        self.points.first().map(|point| &point.1)
    }

    pub fn last(&self) -> Option<&Point> {
        self.points.last().map(|point| &point.1)
    }
}

/// Gives the height at which a point is drawn; its second argument is the first point of the line.
type Drawn<'a> = &'a dyn Fn(&Point, &Point) -> f64;

/// Measures a figure.
///
/// # Errors
/// There is no figure of that name, or as [`Laboratory::points`].
pub fn figure(laboratory: &mut Laboratory<'_>, id: &str, seed: u64) -> Result<Figure, String> {
    let slots = laboratory.effort.slots;
    match id {
        "cat-fig1" => calculated::figure_1(slots, seed),
        "cat-fig2" => calculated::figure_2(slots, seed),
        "confluence-fig3" => calculated::commitment(seed),
        "cat-fig3" => figure_3(laboratory),
        "cat-fig4" => figure_4(laboratory),
        "cat-fig5" => figure_5(laboratory),
        "cat-fig6" => figure_6(laboratory),
        "cat-fig7" => figure_7(laboratory),
        "cat-fig8" => figure_8(laboratory),
        "cat-wall" => wall(laboratory),
        _ => Err(format!("there is no figure `{id}`; the figures are: {}", IDS.join(", "))),
    }
}

fn lines(laboratory: &mut Laboratory<'_>, places: &[(f64, usize, Shape)]) -> Result<Vec<Line>, String> {
    let targets = laboratory.targets.clone();
    let mut lines: Vec<Line> =
        targets.into_iter().map(|target| Line { target, points: Vec::new() }).collect();
    let swept: Vec<(usize, Shape)> = places.iter().map(|(_, clients, shape)| (*clients, *shape)).collect();
    laboratory.measure(&swept)?;
    for (x, clients, shape) in places {
        for (target, point) in laboratory.points(*clients, *shape)? {
            let line = lines.iter_mut().find(|line| line.target == target);
            line.expect("a target has a line").points.push((*x, point));
        }
    }
    Ok(lines)
}

fn by_clients(laboratory: &mut Laboratory<'_>, writers: f64) -> Result<Vec<Line>, String> {
    let shape = Shape { writers, ..Shape::PAPER };
    let place = |clients: &usize| (*clients as f64, *clients, shape);
    let places: Vec<_> = laboratory.effort.clients.iter().map(place).collect();
    lines(laboratory, &places)
}

fn by_exponent(laboratory: &mut Laboratory<'_>, clients: usize) -> Result<Vec<Line>, String> {
    let place = |exponent: &f64| (*exponent, clients, Shape { exponent: *exponent, ..Shape::PAPER });
    let places: Vec<_> = laboratory.effort.exponents.iter().map(place).collect();
    lines(laboratory, &places)
}

fn panel(title: &str, x: &str, y: &str, lines: &[Line], drawn: Drawn<'_>) -> Panel {
    let series = lines.iter().filter_map(|line| {
        let first = line.first()?;
        let points = line.points.iter().map(|(x, point)| (*x, drawn(point, first))).collect();
        Some(Series { name: line.target.to_string(), points })
    });
    Panel { title: title.to_owned(), x: Axis::linear(x), y: Axis::linear(y), series: series.collect() }
}

fn percent_aborts(point: &Point, _: &Point) -> f64 {
    100.0 * point.abort_rate
}

fn throughput(point: &Point, _: &Point) -> f64 {
    point.outcome.throughput
}

fn of_first(point: &Point, first: &Point) -> f64 {
    point.outcome.throughput / first.outcome.throughput
}

fn of_first_by_client(point: &Point, first: &Point) -> f64 {
    of_first(point, first) * first.clients as f64 / point.clients as f64
}

fn level(point: &Point, _: &Point) -> f64 {
    point.outcome.contention_level
}

fn measured(id: &str, title: &str, panels: Vec<Panel>, lines: &[&[Line]], claims: Vec<Claim>) -> Figure {
    let points = lines.iter().flat_map(|lines| lines.iter()).flat_map(|line| &line.points);
    let value = |(_, point): &(f64, Point)| serde_json::to_value(point).unwrap_or(Value::Null);
    let notes = vec![
        "1,000 rows; a write adds 1 to a value (`weir-ordered`: reads it, computes another, writes that), an abort is followed by the next attempt at the \
         same transaction at once, and each attempt counts. After each run every row has all writes that were acknowledged."
            .to_owned(),
        format!(
            "All run without waiting for a disk, beside their clients on one machine. `weir-confluent`, `weir-ordered` and `postgres-call-…` send a transaction \
             as one call, all others statement by statement. PostgreSQL runs with {DEADLOCK_TIMEOUT}, since its default would make each deadlock cost a second."
        ),
    ];
    Figure {
        id: id.to_owned(),
        paper: PAPER,
        title: title.to_owned(),
        kind: Kind::Measured,
        notes,
        panels,
        data: points.map(value).collect(),
        claims,
    }
}

const CLIENTS: &str = "clients";

fn figure_3(laboratory: &mut Laboratory<'_>) -> Result<Figure, String> {
    let writes = by_clients(laboratory, 1.0)?;
    let mixed = by_clients(laboratory, HALF)?;
    let panels = vec![
        panel("aborts, write-only", CLIENTS, "aborted attempts, %", &writes, &percent_aborts),
        panel("aborts, half of them read", CLIENTS, "aborted attempts, %", &mixed, &percent_aborts),
        panel("Contention Level, write-only", CLIENTS, "0 to 1", &writes, &level),
        panel("per client, write-only", CLIENTS, "of one client", &writes, &of_first_by_client),
        panel("per client, half of them read", CLIENTS, "of one client", &mixed, &of_first_by_client),
    ];
    let claims = claims::figure_3(&writes, &mixed);
    let title = "Figure 3: aborts and throughput of each client, by clients";
    Ok(measured("cat-fig3", title, panels, &[&writes, &mixed], claims))
}

fn figure_4(laboratory: &mut Laboratory<'_>) -> Result<Figure, String> {
    let writes = by_clients(laboratory, 1.0)?;
    let mixed = by_clients(laboratory, HALF)?;
    let panels = vec![
        panel("write-only", CLIENTS, "transactions a second", &writes, &throughput),
        panel("half of them read", CLIENTS, "transactions a second", &mixed, &throughput),
    ];
    let claims = claims::figure_4(&writes);
    Ok(measured("cat-fig4", "Figure 4: throughput by clients", panels, &[&writes, &mixed], claims))
}

fn figure_5(laboratory: &mut Laboratory<'_>) -> Result<Figure, String> {
    let reads = by_clients(laboratory, 0.0)?;
    let writes = by_clients(laboratory, 1.0)?;
    let panels = vec![panel("read-only", CLIENTS, "transactions a second", &reads, &throughput)];
    let claims = claims::figure_5(&reads, &writes);
    Ok(measured("cat-fig5", "Figure 5: throughput without contention, by clients", panels, &[&reads], claims))
}

fn figure_6(laboratory: &mut Laboratory<'_>) -> Result<Figure, String> {
    let reads = by_clients(laboratory, 0.0)?;
    let writes = by_clients(laboratory, 1.0)?;
    let ratios = |line: &Line| {
        let reads = reads.iter().find(|other| other.target == line.target)?;
        let ratio = |(x, point): &(f64, Point)| {
            Some((*x, point.outcome.throughput / reads.at(*x)?.outcome.throughput))
        };
        Some(Series { name: line.target.to_string(), points: line.points.iter().filter_map(ratio).collect() })
    };
    let series: Vec<Series> = writes.iter().filter_map(ratios).collect();
    let claims = claims::figure_6(&series);
    let panel = Panel {
        title: "write-only beside read-only".to_owned(),
        x: Axis::linear(CLIENTS),
        y: Axis::linear("ratio of throughputs"),
        series,
    };
    let title = "Figure 6: write-only throughput beside read-only";
    Ok(measured("cat-fig6", title, vec![panel], &[&reads, &writes], claims))
}

fn figure_7(laboratory: &mut Laboratory<'_>) -> Result<Figure, String> {
    let lines = by_exponent(laboratory, 4)?;
    let panels = sweep_panels("zipf exponent", &lines, "of zipf 0");
    let claims = claims::figure_7(&lines);
    let title = "Figure 7: aborts and throughput by overlap, 4 clients, write-only";
    Ok(measured("cat-fig7", title, panels, &[&lines], claims))
}

fn figure_8(laboratory: &mut Laboratory<'_>) -> Result<Figure, String> {
    let place = |length: &usize| (*length as f64, 4, Shape { length: *length, ..Shape::PAPER });
    let places: Vec<_> = laboratory.effort.lengths.iter().map(place).collect();
    let lines = lines(laboratory, &places)?;
    let panels = sweep_panels("operations of a transaction", &lines, "of the shortest");
    let claims = claims::figure_8(&lines);
    let title = "Figure 8: aborts and throughput by length, 4 clients, write-only";
    Ok(measured("cat-fig8", title, panels, &[&lines], claims))
}

fn sweep_panels(x: &str, lines: &[Line], of: &str) -> Vec<Panel> {
    vec![
        panel("aborts", x, "aborted attempts, %", lines, &percent_aborts),
        panel("throughput", x, of, lines, &of_first),
        panel("Contention Level", x, "0 to 1", lines, &level),
    ]
}

/// 7 clients, 8 operations, write-only: the wall, and what is off it.
fn wall(laboratory: &mut Laboratory<'_>) -> Result<Figure, String> {
    let lines = by_exponent(laboratory, 7)?;
    let x = "zipf exponent";
    let panels = vec![
        panel("aborts", x, "aborted attempts, %", &lines, &percent_aborts),
        panel("throughput", x, "of zipf 0", &lines, &of_first),
        panel("throughput", x, "transactions a second", &lines, &throughput),
    ];
    let claims = claims::wall(&lines);
    let mut figure =
        measured("cat-wall", "The CAT wall: 7 clients, 8 operations, write-only", panels, &[&lines], claims);
    figure.notes.insert(0, "This figure is none of the paper's: the claims are Weir's own.".to_owned());
    Ok(figure)
}
