//! `weir reproduce`: the papers' tables and figures, measured anew: numbers, a picture, and the paper's figure beside ours.
//!
//! The measurements are in weir-bench (`figures`, `scale`) and weir-reproduce; here are tables, and what needs an application.

mod classes;
mod judged;
pub mod new_order;
mod of_points;
mod table2;

use std::time::Instant;

use serde::Serialize;
use weir_bench::figures::Figure;
use weir_bench::scale::Prices;
use weir_cat_bench::target::Target;
use weir_harness::figure::Figure as Judged;
use weir_harness::machine::Machine;
use weir_reproduce::report::{Missing, Report};
use weir_reproduce::{Effort, Reproducer};

use crate::bench;
use crate::cli::{Format, ReproduceArguments};
use crate::output::{Failure, print, print_json, print_remark};
use judged::JudgedClaim;
use new_order::NewOrder;
use of_points::{Measured, OfPoints};

/// Shards of the Weir that is measured.
const SHARDS: u16 = 2;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    figures: Vec<Measured>,
    claims: Vec<JudgedClaim<'a>>,
    missing: &'a [Missing],
}

pub fn execute(arguments: &ReproduceArguments) -> Result<(), Failure> {
    if arguments.list {
        known().for_each(|id| print(&format!("{id}\n")));
        return Ok(());
    }
    let ids = chosen(&arguments.ids)?;
    let prices = bench::prices(arguments.prices.as_deref())?;
    let machine = Machine::here();
    remark(&machine.to_string());
    let effort = Effort::of(arguments.tiny, arguments.quick);
    let report = Report::new(arguments.out.as_deref(), machine, again(arguments, effort));
    let mut report = report.map_err(|why| wrong("--out", &why))?;
    let (program, mut listener) = (bench::this_program()?, remark);
    let reproducer =
        Reproducer::new(effort, &Target::FIGURES, (&program, SHARDS), arguments.seed, &mut listener);
    let mut measuring = Measuring { arguments, prices: &prices, reproducer, measured: Vec::new() };
    let (first_failure, written) = measuring.all(&ids, &mut report);
    match first_failure {
        Some(failure) if report.figures().is_empty() => return Err(failure),
        _ => {}
    }
    if arguments.format == Format::Json {
        let claims = report.figures().iter().flat_map(JudgedClaim::of).collect();
        let (figures, missing) = (measuring.measured, report.missing());
        print_json(&Document { version: 1, figures, claims, missing });
    }
    written.map_err(|why| wrong("--out", &why))?;
    match report.complaint() {
        None => Ok(()),
        Some(what) => Err(Failure::Check(Some(format!("weir reproduce: error: {what}")))),
    }
}

/// The command that makes the same report again.
fn again(arguments: &ReproduceArguments, effort: Effort) -> String {
    let prices = arguments.prices.as_ref().map(|file| format!(" --prices {}", file.display()));
    let (ids, seed) = (arguments.ids.join(" "), arguments.seed);
    format!("weir reproduce {ids}{} --seed {seed}{}", effort.option(), prices.unwrap_or_default())
}

/// Progress, and what went wrong.
fn remark(what: &str) {
    print_remark(&format!("weir: {what}"));
}

fn minutes(begun: Instant) -> String {
    let seconds = begun.elapsed().as_secs();
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

fn wrong(what: &str, why: &str) -> Failure {
    Failure::input(format!("weir reproduce {what}: error: {why}"))
}

/// Figures of all papers, by their ids.
struct Measuring<'a> {
    arguments: &'a ReproduceArguments,
    prices: &'a Prices,
    reproducer: Reproducer<'a>,
    /// Points of those that are made of points.
    measured: Vec<Measured>,
}

impl Measuring<'_> {
    /// Measures all of them into the report. Returns the first failure of one, and whether what was measured is written.
    fn all(&mut self, ids: &[String], report: &mut Report) -> (Option<Failure>, Result<(), String>) {
        let (begun, mut first_failure) = (Instant::now(), None);
        for (number, id) in (1..).zip(ids) {
            remark(&format!("{id}: {number} of {} figures, after {}", ids.len(), minutes(begun)));
            let written = match self.figure(id) {
                Ok(figure) => {
                    if self.arguments.format == Format::Text {
                        print(&judged::text(&figure));
                    }
                    report.add(figure)
                }
                Err(failure) => {
                    // The message of one alone is the command's.
                    if ids.len() > 1 {
                        remark(failure.message());
                    }
                    let written = report.miss(id, failure.message());
                    first_failure.get_or_insert(failure);
                    written
                }
            };
            if written.is_err() {
                return (first_failure, written);
            }
        }
        remark(&format!("{} figures, after {}", ids.len(), minutes(begun)));
        (first_failure, Ok(()))
    }

    fn figure(&mut self, id: &str) -> Result<Judged, Failure> {
        if let Some(figure) = OfPoints::by_id(id) {
            return self.of_points(id, figure);
        }
        match id {
            table2::ID => table2::figure(),
            classes::ID => classes::figure(),
            id => self.reproducer.figure(id).map_err(|why| wrong(id, &why)),
        }
    }

    fn of_points(&mut self, id: &str, figure: OfPoints) -> Result<Judged, Failure> {
        let points = figure.measure(self.arguments, self.prices, &mut remark)?;
        if self.arguments.format == Format::Text {
            print(&of_points::text(figure.title(), &points));
        }
        let judged = figure.judged(&points, id);
        self.measured.push(Measured::new(id, figure, points, self.prices));
        Ok(judged)
    }
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
