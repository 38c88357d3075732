//! The figures of eris.txt §8, by simulation with costs that were measured.

use weir_harness::figure::{Claim, Figure, Kind, Verdict};
use weir_harness::plot::Axis;
use weir_ordered::cluster::Timeouts;
use weir_ordered_scale::calibration::{Calibration, MEASURED};
use weir_ordered_scale::experiments::{Effort as Scale, Laboratory, Point};
use weir_ordered_scale::figures::{self, NAMES};
use weir_ordered_scale::simulation::TICK_NS;
use weir_ordered_scale::verdicts::verdicts;

use crate::Effort;
use crate::simulated::Simulated;

pub fn ids() -> impl Iterator<Item = String> {
    NAMES.into_iter().map(id)
}

fn id(name: &str) -> String {
    if name.parse::<u32>().is_ok() { format!("eris-fig{name}") } else { format!("eris-{name}") }
}

/// None: it is none of these.
pub fn figure(wanted: &str, effort: Effort, seed: u64) -> Option<Result<Figure, String>> {
    let name = NAMES.into_iter().find(|name| id(name) == wanted)?;
    Some(simulate(name, effort, seed))
}

fn simulate(name: &str, effort: Effort, seed: u64) -> Result<Figure, String> {
    let calibration = Calibration::read(MEASURED)?;
    let laboratory = Laboratory {
        calibration: &calibration,
        effort: if effort.is_full() { Scale::FULL } else { Scale::QUICK },
        seed,
        timeouts: Timeouts::DEFAULT,
        tick_ns: TICK_NS,
    };
    Ok(converted(&laboratory.figure(name)?))
}

fn converted(figure: &figures::Figure) -> Figure {
    let simulated = Simulated {
        x: figure.x,
        series: figure.series.iter().map(|series| (series.name.as_str(), &series.points[..])).collect(),
        at: |point: &Point| point.x,
    };
    let claims = verdicts(figure).into_iter().map(|verdict| {
        let ours = verdict.ours.map_or("never".to_owned(), |ours| format!("{ours:.2}"));
        Claim::new(verdict.claim, verdict.bar, ours, Verdict::of(verdict.holds))
    });
    Figure {
        id: id(figure.name),
        paper: "eris.txt",
        title: format!("Figure {}: {}", figure.name, figure.title),
        kind: Kind::Simulated,
        notes: vec![
            "The protocols' own machines in virtual time; processor times were measured by weir-ordered-bench (docs/internals/ordered-baselines.md)."
                .to_owned(),
        ],
        panels: vec![
            simulated.panel("throughput", Axis::linear("transactions a second"), |point| point.transactions_per_second),
            simulated.panel("latency", Axis::log("median, µs"), |point| point.p50_us),
        ],
        data: simulated.data(),
        claims: claims.collect(),
    }
}
