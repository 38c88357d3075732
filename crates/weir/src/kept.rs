//! `weir sim items --hours`: what shards and coordinators keep while a cluster runs at full speed, as a table and a plot.
//!
//! Measures nothing itself: weir-sim runs, weir-bench draws.

use comfy_table::Cell;
use weir_bench::plot::{Axis, Panel, Series, svg};
use weir_kv::Variant;
use weir_sim::items::bounds::{KEPT_S_MAX, Pace, Sample, first_excess, run_for};

use crate::cli::SimArguments;
use crate::output::{Failure, print, write_file};
use crate::report::grouped;
use crate::table::table;

/// Name and getter of a sampled quantity.
type Quantity = (&'static str, fn(&Sample) -> usize);

const QUANTITIES: [Quantity; 6] = [
    ("versions above the base", |sample| sample.kept.versions),
    ("transactions with metadata", |sample| sample.kept.committed),
    ("tombstones", |sample| sample.kept.tombstones),
    ("prepared transactions", |sample| sample.kept.prepared),
    ("promises and outcomes", |sample| sample.kept.promises_and_outcomes),
    ("under way at coordinators", |sample| sample.in_flight),
];

pub fn execute(arguments: &SimArguments, variants: &[Variant]) -> Result<(), Failure> {
    let hours = arguments.hours.unwrap_or(1.0 / 60.0);
    if arguments.workload != "items" || !(0.002..=24.0).contains(&hours) {
        return Err(Failure::input(
            "weir sim: error: --hours and --quick are for `weir sim items`, from 0.002 to 24 hours",
        ));
    }
    let virtual_s = (hours * 3_600.0).round() as u64;
    let runs: Vec<(Variant, Vec<Sample>)> =
        variants.iter().map(|variant| (*variant, run_for(&<Pace>::new(*variant, virtual_s)))).collect();
    for (variant, samples) in &runs {
        report(*variant, virtual_s, samples)?;
    }
    if let Some(path) = &arguments.plot {
        let title = format!("Kept by 4 shards and 4 coordinators in {}, all together", duration(virtual_s));
        let panels: Vec<Panel> = QUANTITIES.iter().map(|quantity| panel(quantity, &runs)).collect();
        let picture = svg(&title, &panels);
        let picture = picture.map_err(|error| Failure::Check(Some(format!("weir sim: {error}"))))?;
        write_file(path, &picture)?;
    }
    Ok(())
}

fn duration(virtual_s: u64) -> String {
    match virtual_s {
        3_600 => "an hour of virtual time".to_owned(),
        other => format!("{:.1} minutes of virtual time", other as f64 / 60.0),
    }
}

fn panel((name, of): &Quantity, runs: &[(Variant, Vec<Sample>)]) -> Panel {
    let point = |sample: &Sample| (sample.at_s as f64 / 60.0, of(sample) as f64);
    let series = runs.iter().map(|(variant, samples)| Series {
        name: variant.name().to_owned(),
        points: samples.iter().map(point).collect(),
    });
    Panel {
        title: (*name).to_owned(),
        x: Axis::linear("virtual time, minutes"),
        y: Axis::linear("count"),
        series: series.collect(),
    }
}

fn report(variant: Variant, virtual_s: u64, samples: &[Sample]) -> Result<(), Failure> {
    let Some(last) = samples.last() else { return Ok(()) };
    let of_second = |count: u64| count / virtual_s.max(1);
    print(&format!(
        "{}: {} transactions in {}, {} a second; they asked for {} writes a second\n",
        variant.name(),
        last.transactions,
        duration(virtual_s),
        of_second(last.transactions),
        of_second(last.writes)
    ));
    let row = |(name, of): Quantity| {
        let mut all: Vec<usize> = samples.iter().map(of).collect();
        all.sort_unstable();
        let (most, median) = (all.last().copied().unwrap_or_default(), all[all.len() / 2]);
        let numbers = [most, median, of(last)].map(|count| Cell::new(grouped(count as u64)));
        [Cell::new(name)].into_iter().chain(numbers).collect()
    };
    let rows = QUANTITIES.into_iter().map(row).collect();
    print(&format!("{}\n", table(&["Kept", "Most", "Median", "In the end"], &[1, 2, 3], rows)));
    match first_excess(&<Pace>::new(variant, virtual_s), samples) {
        None => Ok(()),
        Some(excess) => Err(Failure::Check(Some(format!(
            "weir: more is kept than the writes of {KEPT_S_MAX} seconds leave: {excess:?}"
        )))),
    }
}
