//! The bars of issue 3: the analysis of large applications.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::large_schema::{self, Size};
use super::weir::{Captured, Chosen, Weir};
use super::{Bar, Effort, Kind, Seen};

const LARGE: Size = Size { tables: 1000, procedures: 500 };

const MIB: u64 = 1 << 20;

pub const BARS: &[Bar] = &[
    Bar {
        id: "analyze-large",
        issue: 3,
        claim: "`weir analyze` takes 1,000 tables and 500 PL/pgSQL functions",
        bar: "under 10 s and 1 GiB",
        kind: Kind::Real,
        measure: analyze_large,
    },
    Bar {
        id: "partition-60",
        issue: 3,
        claim: "Operation Partitioning of 60 tangled procedures with 6 parameters each",
        bar: "under 10 s; proved least, or the gap reported",
        kind: Kind::Real,
        measure: partition_60,
    },
    Bar {
        id: "partition-rubis",
        issue: 3,
        claim: "Operation Partitioning of RUBiS, 26 transactions, exactly",
        bar: "under 1 s",
        kind: Kind::Real,
        measure: partition_rubis,
    },
    Bar {
        id: "witness-tpcc",
        issue: 3,
        claim: "`weir analyze examples/tpcc` with a witness for every verdict that is not confluent",
        bar: "all of them, each shown again by its replay; under 200 ms",
        kind: Kind::Real,
        measure: witness_tpcc,
    },
    Bar {
        id: "cross-check",
        issue: 3,
        claim: "rules and search never contradict each other on random small applications",
        bar: "10,000 applications, no contradiction",
        kind: Kind::Computed,
        measure: cross_check,
    },
    Bar {
        id: "planted-rules",
        issue: 3,
        claim: "every rule of the analysis, turned round, is caught by the search",
        bar: "every rule but those of which nothing can be checked",
        kind: Kind::Computed,
        measure: planted_rules,
    },
];

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weir-bars-{}-{name}", std::process::id()))
}

fn analyze_large(weir: &Weir, _: Effort) -> Result<Seen, String> {
    analyzed(weir, "large", |directory| large_schema::write(directory, &LARGE))
}

/// `weir analyze` of an application that `write` makes: time and memory of one run, its JSON included. Under 10 s and 1 GiB is met.
pub(super) fn analyzed(
    weir: &Weir,
    name: &str,
    write: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<Seen, String> {
    let directory = directory(name);
    write(&directory).map_err(|error| error.to_string())?;
    let path = directory.display().to_string();
    let used = weir.usage(&["analyze", &path, "--format", "json", "--out", &format!("{path}/plan.json")]);
    let _ = std::fs::remove_dir_all(&directory);
    let (time, bytes) = used?;
    Ok(Seen {
        met: time.as_secs_f64() < 10.0 && bytes < 1024 * MIB,
        figure: format!("{:.1} s, {} MiB", time.as_secs_f64(), bytes / MIB),
        interval: "1 run, with its JSON".to_owned(),
    })
}

fn partition_60(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let directory = directory("tangled");
    large_schema::write_tangled(&directory, 60, 6).map_err(|error| error.to_string())?;
    let seen = partitioned(weir, &directory.display().to_string(), 10.0);
    let _ = std::fs::remove_dir_all(&directory);
    seen
}

fn partition_rubis(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let seen = partitioned(weir, "examples/rubis", 1.0)?;
    Ok(Seen { met: seen.met && seen.interval.contains("gap 0.0%"), ..seen })
}

fn witness_tpcc(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let runs: Result<Vec<_>, String> = (0..5).map(|_| weir.time(&["analyze", "examples/tpcc"])).collect();
    let mut runs = runs?;
    runs.sort();
    let plan = weir.json(&["analyze", "examples/tpcc", "--format", "json"])?;
    let directory = directory("witnesses");
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let file = directory.join("plan.json");
    std::fs::write(&file, plan.to_string()).map_err(|error| error.to_string())?;
    let replays = |verdict: &Value| {
        let named = format!(
            "{}#{}/{}",
            file.display(),
            verdict["invariant"].as_str().unwrap_or_default(),
            verdict["transaction"].as_str().unwrap_or_default()
        );
        let replayed = weir.json(&["run", "examples/tpcc", "--format", "json", "--replay", &named]);
        replayed.is_ok_and(|replayed| replayed["violated"] == true)
    };
    let verdicts = plan["verdicts"].as_array().ok_or("the plan has no verdicts")?;
    let negative: Vec<_> = verdicts.iter().filter(|verdict| verdict["confluent"] == false).collect();
    let witnessed =
        negative.iter().filter(|verdict| verdict["witness"].is_object() && replays(verdict)).count();
    let _ = std::fs::remove_dir_all(&directory);
    let median = runs[runs.len() / 2].as_secs_f64() * 1000.0;
    Ok(Seen {
        met: witnessed == negative.len() && median < 200.0,
        figure: format!("{witnessed} of {} found and replayed, {median:.0} ms", negative.len()),
        interval: "median of 5 runs, the whole command without the replays".to_owned(),
    })
}

fn cross_check(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let cases = [("WEIR_CASES", "10000")];
    let (passed, failed) =
        property(weir, &["simulated::property::no_confluent_verdict_has_a_counterexample"], &cases)?;
    Ok(Seen {
        met: passed == 1 && failed == 0,
        figure: if failed == 0 { "no contradiction" } else { "contradictions" }.to_owned(),
        interval: "10,000 applications by seed".to_owned(),
    })
}

fn planted_rules(weir: &Weir, _: Effort) -> Result<Seen, String> {
    let (turned, failed) = property(weir, &["simulated::property::every_rule_turned_round_is_caught"], &[])?;
    let (unchecked, unfounded) =
        property(weir, &["simulated::property::what_cannot_be_caught_has_nothing_to_check"], &[])?;
    let golden = std::fs::read_to_string(weir.root.join("testdata/witnesses/rules.txt"));
    let caught = golden.map_err(|error| error.to_string())?.lines().count();
    Ok(Seen {
        met: turned == 1 && unchecked == 1 && failed + unfounded == 0,
        figure: format!("{caught} rules caught"),
        interval: "by a case of each, named in testdata/witnesses/rules.txt".to_owned(),
    })
}

/// Tests of `weir-search` that passed and failed, of those with one of these in their name.
fn property(
    weir: &Weir,
    names: &'static [&'static str],
    environment: &[(&str, &str)],
) -> Result<(u64, u64), String> {
    let ran = weir.tests(&Chosen::release("search", names), Captured::Yes, environment)?;
    Ok((ran.passed, ran.failed))
}

fn partitioned(weir: &Weir, path: &str, seconds_max: f64) -> Result<Seen, String> {
    let time = weir.time(&["analyze", path])?.as_secs_f64();
    let plan = weir.json(&["analyze", path, "--format", "json"])?;
    let found = &plan["partitioning"];
    let gap = found["gap"].as_f64().ok_or("the plan says nothing of the gap")?;
    Ok(Seen {
        met: time < seconds_max,
        figure: format!("{time:.2} s"),
        interval: format!("cost {}, gap {:.1}%, {}", found["cost"], gap * 100.0, found["search"]),
    })
}
