//! The figures and the table of operation-partitioning.txt §7, by simulation with service times that were measured.

use serde_json::json;
use weir_conveyor_scale::costs::{Costs, MEASURED};
use weir_conveyor_scale::experiments::{self, Effort as Scale, Laboratory, NAMES, Point};
use weir_conveyor_scale::verdicts::verdicts;
use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::{Axis, Panel, Series};

use crate::Effort;

pub fn ids() -> impl Iterator<Item = String> {
    NAMES.into_iter().map(id)
}

/// `3-tpcw` is `elia-fig3-tpcw`, `table-3` is `elia-table3`.
fn id(name: &str) -> String {
    match name.strip_prefix("table-") {
        Some(number) => format!("elia-table{number}"),
        None if name.starts_with(|first: char| first.is_ascii_digit()) => format!("elia-fig{name}"),
        None => format!("elia-{name}"),
    }
}

/// None: it is none of these.
pub fn figure(wanted: &str, effort: Effort, seed: u64) -> Option<Result<Figure, String>> {
    let name = NAMES.into_iter().find(|name| id(name) == wanted)?;
    Some(simulated(name, effort, seed))
}

fn simulated(name: &str, effort: Effort, seed: u64) -> Result<Figure, String> {
    let costs = Costs::read(MEASURED)?;
    let effort = if effort.is_full() { Scale::FULL } else { Scale::QUICK };
    Ok(converted(&Laboratory { costs: &costs, effort, seed }.figure(name)?))
}

fn converted(figure: &experiments::Figure) -> Figure {
    let panel = |title: &str, y: Axis, value: fn(&Point) -> f64| Panel {
        title: title.to_owned(),
        x: Axis::linear(figure.x),
        y,
        series: figure
            .series
            .iter()
            .map(|series| Series {
                name: series.name.clone(),
                points: series.points.iter().map(|point| (point.x, value(point))).collect(),
            })
            .collect(),
    };
    let data = figure.series.iter().flat_map(|series| {
        series.points.iter().map(|point| json!({ "series": series.name, "point": point }))
    });
    let claims = verdicts(figure).into_iter().map(|verdict| {
        let ours = verdict.ours.map_or("not there".to_owned(), |ours| format!("{ours:.2}"));
        Claim::new(verdict.claim, verdict.bar, ours, Verdict::of(verdict.holds))
    });
    Figure {
        id: id(figure.name),
        paper: "operation-partitioning.txt",
        title: figure.title.clone(),
        kind: Kind::Simulated,
        notes: vec![
            "The protocol's own machines over modelled databases; service times were measured by weir-conveyor-bench (docs/internals/conveyor-bench.md)."
                .to_owned(),
        ],
        panels: vec![
            panel("throughput", Axis::linear("operations a second"), |point| point.throughput),
            panel("latency", Axis::log("mean, ms"), |point| point.mean_ms),
        ],
        data: data.collect(),
        claims: claims.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_interface() {
        assert_eq!(
            ["3-tpcw", "table-3", "5", "sensitivity"].map(id),
            ["elia-fig3-tpcw", "elia-table3", "elia-fig5", "elia-sensitivity"]
        );
    }
}
