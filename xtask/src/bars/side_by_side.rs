//! Two servers in turns, by `weir bench WORKLOAD --target A,B`: the median of the pairs, and its range.

use serde_json::Value;

use super::Effort;
use super::issue_02::spread;
use super::weir::Weir;

/// The first target against the second.
pub struct Compared {
    pub value: f64,
    pub min: f64,
    pub max: f64,
    /// The same of latencies, if there are any; more is slower.
    pub p99: Option<f64>,
    pub pairs: u64,
    /// How much each does a second: the median over the repetitions.
    pub own: f64,
    pub other: f64,
}

pub fn compared(weir: &Weir, effort: Effort, what: &[&str], targets: &str) -> Result<Compared, String> {
    let (pairs, seconds) = if effort == Effort::Quick { ("3", "2") } else { ("10", "5") };
    let mut arguments = vec!["bench"];
    arguments.extend(what);
    arguments.extend(["--target", targets, "--repeat", pairs, "--format", "json"]);
    // These end with their rows.
    if !matches!(what, ["copy" | "copy-out" | "select-rows"]) {
        arguments.extend(["--seconds", seconds]);
    }
    read(&weir.json(&arguments)?)
}

/// The runs of one target in a report of `weir bench`.
pub fn runs_of<'r>(report: &'r Value, label: &'r str) -> impl Iterator<Item = &'r Value> + Clone {
    let runs = report["runs"].as_array().into_iter().flatten();
    runs.filter(move |run| run["label"] == label)
}

/// The ratio in a report of `weir bench`.
pub fn read(report: &Value) -> Result<Compared, String> {
    let ratio = report["ratios"].get(0).ok_or("the bench reported no ratio")?;
    let number = |field: &str| ratio[field].as_f64().ok_or(format!("the ratio has no {field}"));
    let median = |label: &Value| {
        let runs = report["runs"].as_array().into_iter().flatten();
        let own = runs.filter(|run| run["label"] == *label);
        let all = own.filter_map(|run| run["throughput"].as_f64()).collect();
        spread(all).map(|(median, ..)| median).ok_or(format!("there are no runs of {label}"))
    };
    Ok(Compared {
        value: number("value")?,
        min: number("min")?,
        max: number("max")?,
        p99: ratio["p99"]["value"].as_f64(),
        pairs: ratio["pairs"].as_u64().unwrap_or(0),
        own: median(&ratio["of"])?,
        other: median(&ratio["to"])?,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_report_of_two_servers_is_read() {
        let run =
            |label: &str, throughput: f64| serde_json::json!({ "label": label, "throughput": throughput });
        let mut report = serde_json::json!({
            "runs": [run("weir", 3.0), run("postgres", 2.0), run("weir", 5.0), run("postgres", 2.0)],
            "ratios": [{ "of": "weir", "to": "postgres", "value": 2.0, "min": 1.5, "max": 2.5, "pairs": 2 }],
        });
        let compared = super::read(&report).unwrap();
        assert_eq!((compared.value, compared.min, compared.max, compared.pairs), (2.0, 1.5, 2.5, 2));
        assert_eq!((compared.own, compared.other, compared.p99), (4.0, 2.0, None));
        report["ratios"] = serde_json::json!([]);
        assert!(super::read(&report).is_err());
    }
}
