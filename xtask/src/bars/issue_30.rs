//! Contention, aborts and throughput, and the papers' figures.

use std::process::Command;

use serde_json::Value;

use super::weir::{Captured, Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

pub const BARS: &[Bar] = &[
    Bar {
        id: "cat-wall",
        issue: 30,
        claim: "7 clients, 8 operations, write-only, Zipf's exponent 0 to 1.2 (`weir reproduce cat-wall`): increments never abort and keep 0.9 of their uncontended throughput, ordered transactions never abort, optimistic and locking ones hit the wall",
        bar: "no claim is missed",
        kind: Kind::Real,
        measure: |weir, effort| figures(weir, effort, &["cat-wall"]),
    },
    Bar {
        id: "cat-figures",
        issue: 30,
        claim: "figures 1 to 8 of cat-theorem.txt for Weir's mechanisms, PostgreSQL at three levels and MariaDB (`weir reproduce cat-fig1 … cat-fig8`)",
        bar: "no claim is missed",
        kind: Kind::Real,
        measure: |weir, effort| {
            let ids = ["1", "2", "3", "4", "5", "6", "7", "8"].map(|number| format!("cat-fig{number}"));
            figures(weir, effort, &ids.each_ref().map(String::as_str))
        },
    },
    Bar {
        id: "confluence-fig3",
        issue: 30,
        claim: "commits a second of one item under C-2PC and D-2PC by Monte-Carlo: two of the four published points of the local network are predicted, and those between regions",
        bar: "no claim is missed",
        kind: Kind::Computed,
        measure: |weir, effort| figures(weir, effort, &["confluence-fig3"]),
    },
    Bar {
        id: "live-level",
        issue: 30,
        claim: "the live Contention Level beside the offline one of the same histories (`the_live_level_is_within_five_percent_of_the_offline_one` in `crates/weir-cat/tests/main.rs`)",
        bar: "within 5%",
        kind: Kind::Computed,
        measure: live_level,
    },
    Bar {
        id: "live-cost",
        issue: 30,
        claim: "instructions that recording the live Contention Level adds to `weir serve` and to an agent of `weir conveyor`, by callgrind, calls of one UPDATE (`weir-cat-bench cost`)",
        bar: "< 2% each",
        kind: Kind::Real,
        measure: live_cost,
    },
];

/// Share of the instructions that recording may add.
const LIVE_COST_MOST: f64 = 0.02;

/// Verdicts of the papers' claims.
fn figures(weir: &Weir, effort: Effort, ids: &[&str]) -> Result<Seen, String> {
    let mut arguments = vec!["reproduce", "--format", "json"];
    // Runs of seconds for each point: the full form takes hours.
    arguments.push(if effort == Effort::Quick { "--tiny" } else { "--quick" });
    arguments.extend(ids);
    let document = weir.json(&arguments)?;
    let claims = document["claims"].as_array().filter(|claims| !claims.is_empty());
    let claims = claims.ok_or_else(|| format!("no claims in what `weir {}` says", arguments.join(" ")))?;
    Ok(judged(claims))
}

fn judged(claims: &[Value]) -> Seen {
    let is = |claim: &&Value, verdict: &str| claim["verdict"] == verdict;
    let missed: Vec<&Value> = claims.iter().filter(|claim| is(claim, "not_reached")).collect();
    let exceeded = claims.iter().filter(|claim| is(claim, "exceeded")).count();
    let reached = claims.len() - missed.len();
    let text = |claim: &&Value| {
        format!(
            "{}: {}",
            claim["claim"].as_str().unwrap_or_default(),
            claim["ours"].as_str().unwrap_or_default()
        )
    };
    let mut figure = format!("{reached} of {} reached, {exceeded} of them exceeded", claims.len());
    if !missed.is_empty() {
        figure.push_str("; missed: ");
        figure.push_str(&missed.iter().map(text).collect::<Vec<_>>().join("; "));
    }
    Seen { met: missed.is_empty(), figure, interval: "one run".to_owned() }
}

fn live_level(weir: &Weir, _: Effort) -> Result<Seen, String> {
    const TESTS: Chosen = Chosen::of("main", &["the_live_level_is_within_five_percent_of_the_offline_one"]);
    let ran = weir.tests(&TESTS, Captured::Yes, &[])?;
    Ok(Seen {
        met: ran.failed == 0,
        figure: if ran.failed == 0 { "within 5%".to_owned() } else { "not within 5%".to_owned() },
        interval: format!("{} test", ran.passed + ran.failed),
    })
}

fn live_cost(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let program = weir.other("weir-cat-bench", "weir-cat-bench")?;
    let transactions = if effort == Effort::Quick { "2000" } else { "32768" };
    let output = Command::new(&program)
        .args(["cost", "--transactions", transactions])
        .output()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    let costs = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    costed(&costs.map_err(|error| error.to_string())?)
}

fn costed(costs: &[Value]) -> Result<Seen, String> {
    let (mut shares, mut counts) = (Vec::new(), Vec::new());
    for cost in costs {
        let number = |name: &str| cost[name].as_f64().ok_or_else(|| format!("no {name} in {cost}"));
        let (without, with) = (number("without")?, number("with")?);
        let recorder = cost["recorder"].as_str().unwrap_or_default();
        shares.push((recorder, with / without - 1.0));
        counts.push(format!("{recorder} {without:.0} and {with:.0} of {}", number("transactions")?));
    }
    let figures = shares.iter().map(|(recorder, share)| format!("{recorder} {:+.2}%", 100.0 * share));
    Ok(Seen {
        met: shares.len() == 2 && shares.iter().all(|(_, share)| *share < LIVE_COST_MOST),
        figure: figures.collect::<Vec<_>>().join(", "),
        interval: format!("instructions of a transaction without and with it: {}", counts.join("; ")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn both_costs_count() {
        let cost = |recorder, with| json!({"recorder": recorder, "transactions": 100, "without": 1000.0, "with": with});
        let seen = super::costed(&[cost("serve", 1_005.0), cost("conveyor", 1_030.0)]).unwrap();
        assert_eq!((seen.met, seen.figure.as_str()), (false, "serve +0.50%, conveyor +3.00%"));
        assert!(super::costed(&[cost("serve", 990.0), cost("conveyor", 1_010.0)]).unwrap().met);
        assert!(!super::costed(&[cost("serve", 1_000.0)]).unwrap().met);
    }

    #[test]
    fn a_missed_claim_is_named() {
        let claim = |verdict: &str| json!({"claim": "no abort", "ours": "7%", "verdict": verdict});
        let seen = super::judged(&[claim("reproduced"), claim("exceeded")]);
        assert!(seen.met && seen.figure.starts_with("2 of 2 reached, 1 of them"), "{}", seen.figure);
        let seen = super::judged(&[claim("reproduced"), claim("not_reached")]);
        assert!(!seen.met && seen.figure.ends_with("missed: no abort: 7%"), "{}", seen.figure);
    }
}
