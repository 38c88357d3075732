//! Figures, verdicts and predictions as tables of text.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::calibration::Prediction;
use crate::figures::Figure;
use crate::verdicts::Verdict;

/// Throughput of all series, one row for each place.
pub fn of_figure(figure: &Figure) -> String {
    let mut table = Table::new();
    let names = figure.series.iter().map(|series| series.name.clone());
    table.load_preset(ASCII_MARKDOWN).set_header(std::iter::once(figure.x.to_owned()).chain(names));
    let places = figure.series.first().map_or(0, |series| series.points.len());
    for place in 0..places {
        let points = figure.series.iter().filter_map(|series| series.points.get(place));
        let x = figure.series[0].points[place].x;
        table.add_row(std::iter::once(format!("{x}")).chain(points.map(|point| {
            let each_us = if figure.name == "6" { format!(" {:.0} us", point.p50_us) } else { String::new() };
            format!("{}{each_us}", thousands(point.transactions_per_second))
        })));
    }
    format!("Figure {}. {}\n{table}\n", figure.name, figure.title)
}

/// Transactions a second in thousands.
fn thousands(rate: f64) -> String {
    if rate < 9_950.0 { format!("{:.1}k", rate / 1e3) } else { format!("{:.0}k", rate / 1e3) }
}

pub fn of_verdicts(verdicts: &[Verdict]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["figure", "claim of eris.txt §8", "bar", "ours", "holds"]);
    for Verdict { figure, claim, bar, ours, holds } in verdicts {
        let holds = if *holds { "yes" } else { "NO" };
        let ours = ours.map_or_else(|| "never".to_owned(), |ours| format!("{ours:.2}"));
        table.add_row([figure, *claim, bar.as_str(), &ours, holds]);
    }
    format!("{table}\n")
}

pub fn of_predictions(predictions: &[Prediction]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header([
        "protocol",
        "party",
        "measured us",
        "predicted us",
        "error",
    ]);
    for prediction in predictions {
        table.add_row([
            prediction.protocol.clone(),
            format!("{:?}", prediction.role),
            format!("{:.2}", prediction.measured_us),
            format!("{:.2}", prediction.predicted_us),
            format!("{:+.0}%", 100.0 * prediction.error()),
        ]);
    }
    format!("{table}\n")
}
