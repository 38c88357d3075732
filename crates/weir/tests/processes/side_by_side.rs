//! `weir bench --target`: servers are started, measured in turns and ended, and what was seen is JSON with ratios.

use std::process::Command;

use serde_json::Value;

fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("bench")
        .args(arguments)
        .args(["--format", "json", "--repeat", "2"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one document")
}

/// Runs and ratios are there for each target; none has failed or done nothing.
#[track_caller]
fn check(report: &Value, workload: &str, targets: &[&str], with_latency: bool) {
    assert_eq!((&report["version"], &report["workload"]), (&1.into(), &workload.into()));
    let runs = report["runs"].as_array().unwrap();
    let mut seen: Vec<(u64, &str)> =
        runs.iter().map(|run| (run["rounds"].as_u64().unwrap(), run["label"].as_str().unwrap())).collect();
    seen.sort_unstable();
    let mut expected: Vec<(u64, &str)> =
        [1, 2].iter().flat_map(|round| targets.iter().map(|one| (*round, *one))).collect();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    for run in runs {
        assert!(run["throughput"].as_f64().unwrap() > 0.0, "{run}");
        assert_eq!(run["target"], run["label"]);
        let p99 = run["latency_us"]["p99"].as_f64();
        assert_eq!(p99.is_some_and(|p99| p99 > 0.0), with_latency, "{run}");
    }
    let ratios = report["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), targets.len() - 1, "{report}");
    for (ratio, to) in ratios.iter().zip(&targets[1..]) {
        assert_eq!(
            (&ratio["of"], &ratio["to"], &ratio["pairs"]),
            (&targets[0].into(), &(*to).into(), &2.into())
        );
        let [value, min, max] = ["value", "min", "max"].map(|field| ratio[field].as_f64().unwrap());
        assert!(0.0 < min && min <= value && value <= max, "{ratio}");
        assert_eq!(ratio["p99"]["value"].is_f64(), with_latency, "{ratio}");
    }
}

#[test]
fn pgbench_on_weir_and_postgresql() {
    for (workload, more) in [("pgbench", &["--target", "weir:,postgres"][..]), ("pgbench-select", &[])] {
        let arguments = [&[workload, "--seconds", "1", "--set", "scale=1", "--clients", "2"], more].concat();
        let report = bench(&arguments);
        check(&report, workload, &["weir", "postgres"], true);
        let parameters = &report["runs"][0]["parameters"];
        assert_eq!(
            (&parameters["scale"], &parameters["clients"], &parameters["shards"]),
            (&1.into(), &2.into(), &1.into())
        );
    }
}

#[test]
fn copy_on_three_servers() {
    let program = env!("CARGO_BIN_EXE_weir");
    let baseline = format!("baseline:{program}");
    let targets = format!("weir:,postgres,{baseline}");
    let report = bench(&["copy", "--set", "rows=2000", "--shards", "2", "--target", &targets]);
    check(&report, "copy", &["weir", "postgres", &baseline], false);
    assert_eq!(report["runs"][0]["parameters"]["rows"], 2000);
}

#[test]
fn calls_of_an_application_on_weir_and_postgresql() {
    let shared = ["--target", "weir:,postgres", "--seconds", "1", "--clients", "2"];
    let counted = bench(&[&["examples/smallbank", "--count", "balance"], &shared[..]].concat());
    check(&counted, "examples/smallbank", &["weir", "postgres"], true);
    assert_eq!(counted["runs"][0]["parameters"]["count"], "balance");
    let level = ["examples/smallbank", "--set", "isolation=serializable"];
    let serializable = bench(&[&level, &shared[..]].concat());
    check(&serializable, "examples/smallbank", &["weir", "postgres"], true);
}
