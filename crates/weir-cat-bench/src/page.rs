//! The page of a measurement: plots over the sweep, or over the repetitions, and tables; one file of HTML without scripts.

use std::fmt::Write as _;

use weir_harness::machine::Machine;
use weir_harness::page::{self, escaped, table};
use weir_harness::plot::{Axis, Panel, Series, svg};

use crate::workbench::{Report, Summary};

/// A figure of the summary that is drawn.
type Drawn = (&'static str, &'static str, fn(&Summary) -> f64);

const DRAWN: [Drawn; 4] = [
    ("throughput", "commits a second", |one| one.throughput.value),
    ("aborts", "% of the attempts", |one| 100.0 * one.aborted_share.value),
    ("Contention Level", "0 to 1", |one| one.contention_level.value),
    ("99th percentile", "milliseconds", |one| one.p99_us.value / 1e3),
];

/// The page. `swept` is the name of the swept setting, and `advice` says in words what was seen.
///
/// # Errors
/// A plot could not be drawn.
pub fn html(
    report: &Report,
    swept: Option<&str>,
    advice: &[String],
    machine: &Machine,
    command: &str,
) -> Result<String, String> {
    let title = format!("weir bench {}", report.workload);
    let mut text = page::head(&title, &title);
    let _ = writeln!(
        text,
        "<p class=\"note\"><code>{}</code> on {}.</p>",
        escaped(command),
        escaped(&machine.to_string())
    );
    let panels = panels(report, swept);
    if !panels.is_empty() {
        text.push_str(&svg("", &panels)?);
    }
    if !advice.is_empty() {
        text.push_str("<h2>Advice</h2>\n");
        advice.iter().for_each(|line| {
            let _ = writeln!(text, "<p>{}</p>", escaped(line));
        });
    }
    text.push_str("<h2>Medians and ranges</h2>\n");
    text.push_str(&table(&HEADER, &rows(report)));
    text.push_str("<h2>Ratios</h2>\n");
    let ratio = |ratio: &crate::workbench::Ratio| {
        let range = ratio.range;
        vec![
            format!("{} / {}", ratio.of, ratio.to),
            format!("{:.3} ({:.3} to {:.3})", range.value, range.min, range.max),
            ratio.pairs.to_string(),
        ]
    };
    text.push_str(&table(
        &["throughput of", "ratio", "pairs"],
        &report.ratios.iter().map(ratio).collect::<Vec<_>>(),
    ));
    if let Some(run) = report.runs.first() {
        let parameters = serde_json::to_string(&run.parameters).map_err(|error| error.to_string())?;
        let _ = writeln!(
            text,
            "<p class=\"note\">Parameters of the first run: <code>{}</code></p>",
            escaped(&parameters)
        );
    }
    text.push_str(page::FOOT);
    Ok(text)
}

const HEADER: [&str; 6] = ["run", "a second", "aborted", "Contention Level", "p50", "p99"];

fn rows(report: &Report) -> Vec<Vec<String>> {
    let row = |one: &Summary| {
        vec![
            one.label.clone(),
            format!("{:.0} ({:.0} to {:.0})", one.throughput.value, one.throughput.min, one.throughput.max),
            format!("{:.2}%", 100.0 * one.aborted_share.value),
            format!("{:.3}", one.contention_level.value),
            format!("{:.3} ms", one.p50_us.value / 1e3),
            format!("{:.3} ms", one.p99_us.value / 1e3),
        ]
    };
    report.summary.iter().map(row).collect()
}

/// Over the swept values, if they are numbers; over the repetitions otherwise.
fn panels(report: &Report, swept: Option<&str>) -> Vec<Panel> {
    let series_of = |one: &Summary| {
        if one.is_spread { format!("{}, spread", one.target) } else { one.target.clone() }
    };
    let mut names: Vec<String> = Vec::new();
    for name in report.summary.iter().map(series_of) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if let (Some(swept), true) = (swept, report.summary.iter().all(|one| one.x.is_some())) {
        let panel = |(title, unit, height): &Drawn| {
            let points = |name: &String| {
                let own = report.summary.iter().filter(|one| series_of(one) == *name);
                let mut points: Vec<(f64, f64)> = own.filter_map(|one| Some((one.x?, height(one)))).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                Series { name: name.clone(), points }
            };
            Panel {
                title: (*title).to_owned(),
                x: Axis::linear(swept),
                y: Axis::linear(unit),
                series: names.iter().map(points).collect(),
            }
        };
        return DRAWN.iter().map(panel).collect();
    }
    let series = report.summary.iter().map(|one| {
        let own = report.runs.iter().filter(|run| run.label == one.label);
        let points = own.map(|run| (f64::from(run.rounds), run.outcome.all.throughput)).collect();
        Series { name: one.label.clone(), points }
    });
    vec![Panel {
        title: "throughput".to_owned(),
        x: Axis::linear("repetition"),
        y: Axis::linear("commits a second"),
        series: series.collect(),
    }]
}
