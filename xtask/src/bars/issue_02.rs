//! The bars of issue 2: TPC-C from its SQL files, analysed, planned, run, checked.

use serde_json::Value;

use super::weir::{Captured, Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

const TPCC: &str = "examples/tpcc";

const DIFFERENTIAL: [Chosen; 2] = [
    Chosen::of(
        "bench",
        &["postgres::differential::", "postgres::expressions::", "postgres::examples_on_postgres::"],
    ),
    Chosen::of("types", &["recorded_answers::"]),
];

pub const BARS: &[Bar] = &[
    Bar {
        id: "analyze-time",
        issue: 2,
        claim: "`weir analyze examples/tpcc` is instant",
        bar: "under 200 ms",
        kind: Kind::Real,
        measure: analyze_time,
    },
    Bar {
        id: "analyze-verdicts",
        issue: 2,
        claim: "New-Order needs the commit-time id, Delivery a claim, nothing else anything",
        bar: "2 guarded transactions of 5, as workloads.md derives",
        kind: Kind::Computed,
        measure: analyze_verdicts,
    },
    Bar {
        id: "conditions-hold",
        issue: 2,
        claim: "all conditions hold after TPC-C, whatever the seed, shards, warehouses and remote share",
        bar: "every run; only the 1% of New-Orders that TPC-C asks for abort",
        kind: Kind::Real,
        measure: conditions_hold,
    },
    Bar {
        id: "ramp-to-none",
        issue: 2,
        claim: "atomic visibility is cheap: ramp-fast over none, standard mix, 4 shards",
        bar: "≥ 0.90",
        kind: Kind::Real,
        measure: ramp_to_none,
    },
    Bar {
        id: "remote-lines",
        issue: 2,
        claim: "remote order lines are cheap: 100% over 0% remote, ramp-fast, 4 shards",
        bar: "≥ 0.75",
        kind: Kind::Real,
        measure: remote_lines,
    },
    Bar {
        id: "new-orders-4",
        issue: 2,
        claim: "New-Orders a second in the standard mix, 4 warehouses",
        bar: "≥ 25,000",
        kind: Kind::Real,
        measure: |weir, effort| new_orders(weir, effort, 4, 25_000.0),
    },
    Bar {
        id: "new-orders-1",
        issue: 2,
        claim: "New-Orders a second in the standard mix, 1 contended warehouse",
        bar: "≥ 12,500",
        kind: Kind::Real,
        measure: |weir, effort| new_orders(weir, effort, 1, 12_500.0),
    },
    Bar {
        id: "memory",
        issue: 2,
        claim: "memory over the raw size of the rows, 4 shards, immutable copies not counted",
        bar: "≤ 3",
        kind: Kind::Real,
        measure: memory,
    },
    Bar {
        id: "differential",
        issue: 2,
        claim: "the same calls and expressions on PostgreSQL 15 and on Weir: same tables, rows and errors",
        bar: "no difference",
        kind: Kind::Real,
        measure: |weir, _| tests(weir, &DIFFERENTIAL, &[]),
    },
    Bar {
        id: "planted-bugs",
        issue: 2,
        claim: "a planted bug for each claim is caught",
        bar: "all",
        kind: Kind::Real,
        measure: |weir, _| tests(weir, &[Chosen::of("bench", &["simulated::planted_bugs::"])], &[]),
    },
    Bar {
        id: "bad-input",
        issue: 2,
        claim: "bad input: exit code 2, one message with its place, no stack trace",
        bar: "all",
        kind: Kind::Real,
        measure: |weir, _| tests(weir, &[Chosen::of("product", &["bad_input::"])], &[]),
    },
];

/// Median, smallest, largest.
pub(super) fn spread(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((f64::midpoint(lower, upper), values[0], values[values.len() - 1]))
}

fn analyze_time(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let times = if effort == Effort::Quick { 5 } else { 30 };
    let mut values = Vec::new();
    for _ in 0..times {
        values.push(weir.time(&["analyze", TPCC])?.as_secs_f64() * 1e3);
    }
    let (median, least, most) = spread(values).ok_or("nothing was measured")?;
    Ok(Seen {
        met: median < 200.0,
        figure: format!("{median:.0} ms"),
        interval: format!("{least:.0} to {most:.0} ms, {times} runs"),
    })
}

fn array<'a>(document: &'a Value, field: &str) -> &'a [Value] {
    document[field].as_array().map_or(&[], Vec::as_slice)
}

fn analyze_verdicts(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let plan = weir.json(&["analyze", TPCC, "--format", "json"])?;
    let mut guards: Vec<String> = Vec::new();
    for transaction in array(&plan, "transactions") {
        for guard in array(transaction, "guards") {
            let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
            guards.push(format!(
                "{}: {} on {}",
                text(&transaction["name"]),
                text(&guard["kind"]),
                text(&guard["on"])
            ));
        }
    }
    let mut apart: Vec<(String, String)> = array(&plan, "verdicts")
        .iter()
        .filter(|verdict| verdict["confluent"] == false)
        .map(|verdict| {
            let text = |field: &str| verdict[field].as_str().unwrap_or("").to_owned();
            (text("transaction"), text("invariant"))
        })
        .collect();
    apart.sort();
    let has = |transaction: &str, condition: u32| {
        apart.contains(&(transaction.to_owned(), format!("c_3_3_2_{condition}")))
    };
    let expected = has("new_order", 2) && has("new_order", 3) && has("delivery", 10) && has("delivery", 12);
    let nothing_else =
        apart.iter().all(|(transaction, _)| transaction == "new_order" || transaction == "delivery");
    let guarded = guards.len() == 2
        && guards.iter().any(|guard| guard.starts_with("new_order: sequence on district"))
        && guards.iter().any(|guard| guard.starts_with("delivery: claim on new_order"));
    Ok(Seen {
        met: expected && nothing_else && guarded,
        figure: guards.join("; "),
        interval: format!("{} verdicts not confluent of {}", apart.len(), array(&plan, "verdicts").len()),
    })
}

/// One run of TPC-C; `what` are further arguments.
fn run(weir: &Weir, seconds: &str, what: &[&str]) -> Result<Value, String> {
    let mut arguments = vec!["run", TPCC, "--format", "json", "--seconds", seconds];
    arguments.extend(what);
    weir.json(&arguments)
}

fn conditions_hold(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let runs: &[&[&str]] = &[
        &["--shards", "4", "--set", "warehouses=4", "--seed", "1"],
        &["--shards", "4", "--set", "warehouses=4", "--set", "remote_lines=1.0", "--seed", "2"],
        &["--shards", "1", "--set", "warehouses=1", "--seed", "3"],
        &["--shards", "2", "--set", "warehouses=4", "--seed", "4"],
        &["--shards", "8", "--set", "warehouses=8", "--seed", "5"],
        &["--shards", "8", "--set", "warehouses=1", "--seed", "6"],
        &["--shards", "4", "--set", "warehouses=20", "--seed", "7"],
        &["--shards", "8", "--set", "warehouses=8", "--set", "remote_lines=1.0", "--seed", "8"],
    ];
    let (seconds, runs, upto) = match effort {
        Effort::Quick => ("2", &runs[..3], "1 and 4 shards, 1 and 4 warehouses"),
        Effort::Full => ("20", runs, "1 to 8 shards, 1 to 20 warehouses"),
    };
    let mut held = 0;
    let mut first = String::new();
    for what in runs {
        match judge(&run(weir, seconds, what)?) {
            Ok(()) => held += 1,
            Err(complaint) if first.is_empty() => first = format!("; {}: {complaint}", what.join(" ")),
            Err(_) => {}
        }
    }
    Ok(Seen {
        met: held == runs.len(),
        figure: format!("{held} of {} runs{first}", runs.len()),
        interval: format!("{seconds} s each; {upto}, up to 100% remote lines"),
    })
}

/// Every invariant holds, and nothing aborts but TPC-C's unused item.
fn judge(report: &Value) -> Result<(), String> {
    for invariant in array(report, "invariants") {
        if invariant["holds"] != true {
            return Err(format!("{} is violated", invariant["id"]));
        }
    }
    if report["converged"] != true {
        return Err("not converged".to_owned());
    }
    let aborted: u64 =
        report["aborted"].as_object().map_or(0, |reasons| reasons.values().filter_map(Value::as_u64).sum());
    let new_order = &report["by_transaction"]["new_order"];
    let rolled_back = new_order["aborted"].as_u64().unwrap_or(0);
    let calls = (new_order["committed"].as_u64().unwrap_or(0) + rolled_back).max(1);
    if rolled_back != aborted {
        return Err(format!("{} calls of other transactions aborted", aborted - rolled_back));
    }
    let share = rolled_back as f64 / calls as f64;
    // Tolerance for thousands of calls: five standard deviations around 1%.
    let tolerance = 5.0 * (0.01 * 0.99 / calls as f64).sqrt();
    if (share - 0.01).abs() > tolerance {
        return Err(format!("{:.2}% of New-Orders aborted", 100.0 * share));
    }
    Ok(())
}

/// Runs `weir bench tpcc` and takes its one ratio.
fn ratio(weir: &Weir, effort: Effort, least: f64, what: &[&str]) -> Result<Seen, String> {
    let mut arguments = vec!["tpcc", "--shards", "4", "--set", "warehouses=4"];
    arguments.extend(what);
    weir.ratio(effort, least, &arguments)
}

fn ramp_to_none(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    ratio(weir, effort, 0.90, &["--protocol", "none,ramp-fast"])
}

fn remote_lines(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    ratio(weir, effort, 0.75, &["--protocol", "ramp-fast", "--sweep", "remote_lines=0,1"])
}

fn new_orders(weir: &Weir, effort: Effort, warehouses: u32, least: f64) -> Result<Seen, String> {
    let (seconds, times) = if effort == Effort::Quick { ("3", 2) } else { ("10", 5) };
    let setting = format!("warehouses={warehouses}");
    let mut values = Vec::new();
    for _ in 0..times {
        let report = run(weir, seconds, &["--shards", "4", "--set", &setting])?;
        values.push(report["by_transaction"]["new_order"]["throughput"].as_f64().unwrap_or(0.0));
    }
    let (median, smallest, largest) = spread(values).ok_or("nothing was measured")?;
    Ok(Seen {
        met: median >= least,
        figure: format!("{median:.0} a second"),
        interval: format!("{smallest:.0} to {largest:.0}, {times} runs of {seconds} s"),
    })
}

fn memory(weir: &Weir, effort: Effort) -> Result<Seen, String> {
    let seconds = if effort == Effort::Quick { "3" } else { "15" };
    let report = run(weir, seconds, &["--shards", "4", "--set", "warehouses=4"])?;
    let bytes = |field: &str| report["memory"][field].as_f64().unwrap_or(f64::NAN);
    let ratio = bytes("stored_bytes") / bytes("raw_row_bytes");
    Ok(Seen {
        met: ratio <= 3.0,
        figure: format!("{ratio:.2}"),
        interval: format!(
            "{:.0} MiB for {:.0} MiB of rows; resident {:.0} MiB",
            bytes("stored_bytes") / 1_048_576.0,
            bytes("raw_row_bytes") / 1_048_576.0,
            bytes("resident_bytes") / 1_048_576.0
        ),
    })
}

/// Runs tests: all of them must pass.
pub(super) fn tests(weir: &Weir, chosen: &[Chosen], environment: &[(&str, &str)]) -> Result<Seen, String> {
    let (mut passed, mut failed) = (0, 0);
    for one in chosen {
        let ran = weir.tests(one, Captured::Yes, environment)?;
        passed += ran.passed;
        failed += ran.failed;
    }
    let commands: Vec<String> = chosen.iter().map(|one| format!("`{one}`")).collect();
    Ok(Seen {
        met: failed == 0,
        figure: format!("{passed} of {} tests pass", passed + failed),
        interval: commands.join(", "),
    })
}
