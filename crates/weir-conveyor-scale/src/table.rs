//! Figures and verdicts as tables of text.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::experiments::{Figure, Point};
use crate::verdicts::Verdict;

/// Throughput and mean latency of all series, one row for each place; latency by class where the load is light.
pub fn of_figure(figure: &Figure) -> String {
    let mut table = Table::new();
    let by_class = matches!(figure.name, "table-3" | "6");
    let header = [
        "series",
        figure.x,
        "operations/s",
        "mean ms",
        "commutative ms",
        "local ms",
        "global ms",
        "remote ms",
        "shares",
        "busiest",
        "visits/s",
    ];
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for series in &figure.series {
        for point in &series.points {
            table.add_row(row(&series.name, point, by_class));
        }
    }
    format!("{}. {}\n{table}\n", figure.name, figure.title)
}

fn row(name: &str, point: &Point, by_class: bool) -> Vec<String> {
    let class = |class: usize| match by_class && point.shares[class] > 0.0 {
        true => format!("{:.1}", point.class_mean_ms[class]),
        false => String::new(),
    };
    let shares: Vec<String> = point.shares.iter().map(|share| format!("{:.0}%", 100.0 * share)).collect();
    vec![
        name.to_owned(),
        format!("{}", point.x),
        format!("{:.0}", point.throughput),
        format!("{:.1}", point.mean_ms),
        class(0),
        class(1),
        class(2),
        class(3),
        shares.join(" "),
        format!("{:.0}%", 100.0 * point.busiest),
        format!("{:.0}", point.visits),
    ]
}

pub fn of_verdicts(verdicts: &[Verdict]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["figure", "claim", "bar", "ours", "holds"]);
    for Verdict { figure, claim, bar, ours, holds } in verdicts {
        let holds = if *holds { "yes" } else { "NO" };
        let ours = ours.map_or_else(|| "none".to_owned(), |ours| format!("{ours:.2}"));
        table.add_row([figure, claim.as_str(), bar.as_str(), &ours, holds]);
    }
    format!("{table}\n")
}
