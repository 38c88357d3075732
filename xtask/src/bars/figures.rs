//! The bars of issue 4 that are figures of the papers: Table 1, the sweeps, blocked writes, and how many servers scale.

use serde_json::Value;

use super::issue_02::tests;
use super::weir::Weir;
use super::{Bar, Effort, Kind, Seen};

pub const BARS: &[Bar] = &[
    Bar {
        id: "table-1",
        issue: 4,
        claim: "Table 1 of ramp.txt: round trips, messages and bytes of metadata, counted (testdata/ramp/table-1.txt)",
        bar: "the paper's or better",
        kind: Kind::Computed,
        measure: |weir, _| tests(weir, &["--package", "weir-bench", "--test", "table_1"]),
    },
    Bar {
        id: "figure-3",
        issue: 4,
        claim: "Figure 3 of ramp.txt, five sweeps: RAMP pays no more than half anywhere, lwlr is the slowest on hot items, \
                and ramp-fast is not below ramp-small where most transactions read",
        bar: "the shapes of the paper",
        kind: Kind::Real,
        measure: figure_3,
    },
    Bar {
        id: "blocked-writes",
        issue: 4,
        claim: "throughput with a thousandth, a quarter and half of the writes blocked, over none (ramp.txt par. 5.3)",
        bar: "≥ 0.9986, 0.7753 and 0.6792, to 3%",
        kind: Kind::Real,
        measure: blocked_writes,
    },
    Bar {
        id: "figure-4",
        issue: 4,
        claim: "Figure 4 of ramp.txt: ramp-fast on up to 100 servers of one core",
        bar: "≥ 0.90 of none at every size, ≥ 7.1M operations a second at 100",
        kind: Kind::Simulated,
        measure: figure_4,
    },
];

/// The points of one of the papers' figures.
fn points(weir: &Weir, effort: Effort, id: &str) -> Result<Vec<Value>, String> {
    let mut arguments = vec!["reproduce", id, "--format", "json"];
    if effort == Effort::Quick {
        arguments.push("--quick");
    }
    let document = weir.json(&arguments)?;
    let points = document["figures"][0]["points"].as_array().ok_or("there are no points")?;
    Ok(points.clone())
}

fn number(point: &Value, field: &str) -> f64 {
    point[field].as_f64().unwrap_or(f64::NAN)
}

/// Of a protocol, over no concurrency control or over nothing blocked, by panel and place.
fn of_base<'a>(points: &'a [Value], series: &'a str) -> impl Iterator<Item = (&'a str, f64, f64)> {
    let of = move |point: &&Value| point["series"] == series;
    points
        .iter()
        .filter(of)
        .map(|point| (point["panel"].as_str().unwrap_or(""), number(point, "x"), number(point, "of_base")))
}

fn figure_3(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let points = points(weir, effort, "ramp-figure-3")?;
    let least = |series| of_base(&points, series).map(|(.., ratio)| ratio).fold(f64::INFINITY, f64::min);
    let (fast, small, hybrid) = (least("ramp-fast"), least("ramp-small"), least("ramp-hybrid"));
    let at = |series, panel: &str, x: f64| {
        of_base(&points, series).find(|one| one.0 == panel && one.1 == x).map_or(f64::NAN, |one| one.2)
    };
    let hottest = |series| at(series, "database size", 100.0);
    let others = ["none", "lwnr", "lwsr", "e-pci", "ramp-fast", "ramp-small", "ramp-hybrid"];
    let locks_are_last = others.iter().all(|other| hottest("lwlr") < hottest(other));
    // One run each: what disturbs it is larger than a tenth now and then.
    let reading = of_base(&points, "ramp-fast").filter(|one| one.0 != "read proportion");
    let small_is_below = reading.filter(|one| 0.9 * at("ramp-small", one.0, one.1) > one.2).count();
    let met = fast.min(small).min(hybrid) >= 0.5 && locks_are_last && small_is_below <= 1;
    Ok(Seen {
        met,
        figure: format!("least {fast:.2} (fast), {small:.2} (small), {hybrid:.2} (hybrid)"),
        interval: format!(
            "lwlr on 100 items {:.2}; {} points, ramp-small above ramp-fast at {small_is_below}",
            hottest("lwlr"),
            points.len()
        ),
    })
}

fn blocked_writes(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let points = points(weir, effort, "ramp-blocked-writes")?;
    let ratios: Vec<(f64, f64)> = of_base(&points, "ramp-fast").map(|(_, x, ratio)| (x, ratio)).collect();
    let published =
        |x| points.iter().find(|point| number(point, "x") == x).map(|point| number(point, "published"));
    let met = ratios.iter().all(|(x, ratio)| *ratio >= 0.97 * published(*x).unwrap_or(f64::NAN));
    let told: Vec<String> =
        ratios.iter().skip(1).map(|(x, ratio)| format!("{}%: {ratio:.3}", x * 100.0)).collect();
    Ok(Seen { met, figure: told.join(", "), interval: "medians of interleaved runs".to_owned() })
}

fn figure_4(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let points = points(weir, effort, "ramp-figure-4")?;
    let least = of_base(&points, "ramp-fast").map(|(.., ratio)| ratio).fold(f64::INFINITY, f64::min);
    let fast: Vec<&Value> = points.iter().filter(|point| point["series"] == "ramp-fast").collect();
    let most = fast.iter().map(|point| number(point, "x")).fold(0.0, f64::max);
    let operations = |x: f64| {
        let at = fast.iter().find(|point| number(point, "x") == x);
        at.map_or(f64::NAN, |point| 4.0 * number(point, "throughput"))
    };
    let of_linear = |from: f64| operations(most) / operations(from) * from / most;
    // A quick run has fewer servers, and the paper's figure for each of them counts.
    let met = least >= 0.9 && operations(most) >= 71_000.0 * most;
    Ok(Seen {
        met,
        figure: format!(
            "{:.1}M operations a second on {most} servers, {:.2} of linear from one, {:.2} from 10",
            operations(most) / 1e6,
            of_linear(1.0),
            of_linear(10.0)
        ),
        interval: format!("ramp-fast over none at least {least:.3}"),
    })
}
