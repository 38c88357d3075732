//! The figures and the table of operation-partitioning.txt §7, by simulation with service times that were measured.

use weir_conveyor_scale::costs::{Costs, MEASURED};
use weir_conveyor_scale::experiments::{self, Effort as Scale, Laboratory, NAMES, Point};
use weir_conveyor_scale::verdicts::verdicts;
use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::Axis;

use crate::Effort;
use crate::simulated::Simulated;

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
    Some(simulate(name, effort, seed))
}

fn simulate(name: &str, effort: Effort, seed: u64) -> Result<Figure, String> {
    let costs = Costs::read(MEASURED)?;
    let effort = if effort.is_full() { Scale::FULL } else { Scale::QUICK };
    Ok(converted(&Laboratory { costs: &costs, effort, seed }.figure(name)?))
}

fn converted(figure: &experiments::Figure) -> Figure {
    let simulated = Simulated {
        x: figure.x,
        series: figure.series.iter().map(|series| (series.name.as_str(), &series.points[..])).collect(),
        at: |point: &Point| point.x,
    };
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
            simulated.panel("throughput", Axis::linear("operations a second"), |point| point.throughput),
            simulated.panel("latency", Axis::log("mean, ms"), |point| point.mean_ms),
        ],
        data: simulated.data(),
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
