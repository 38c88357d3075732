//! `weir bench` of workloads by SQL: Weir beside PostgreSQL, MariaDB and SQLite, by calls and statement by statement.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("bench").args(arguments).output().unwrap()
}

fn report(arguments: &[&str]) -> Value {
    let short = ["--format", "json", "--repeat", "1", "--seconds", "0.3", "--warmup", "0.05", "--no-sync"];
    let output = bench(&[arguments, &short].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one document")
}

#[track_caller]
fn check(report: &Value, targets: &[&str]) {
    let runs = report["runs"].as_array().unwrap();
    let seen: Vec<&str> = runs.iter().map(|run| run["target"].as_str().unwrap()).collect();
    assert_eq!(seen, targets);
    for run in runs {
        assert_eq!(run["holds"], true, "{run}");
        assert!(run["throughput"].as_f64() > Some(0.0), "{run}");
        assert!(run["contention_level"].as_f64().is_some_and(|level| (0.0..=1.0).contains(&level)), "{run}");
        assert!(run["latency_us"]["p99"].as_f64() > Some(0.0), "{run}");
    }
    assert_eq!(report["ratios"].as_array().unwrap().len(), targets.len() - 1);
}

#[test]
fn each_workload_keeps_what_was_acknowledged_on_weir() {
    for (workload, set) in [
        ("cat", "keys=20,zipf=1.2"),
        ("cat", "keys=20,zipf=1.2,write=modify,length=4"),
        ("ycsb", "keys=50,length=2"),
        ("ycsb-t", "kind=srw,keys=5"),
        ("ycsb-t", "kind=mrmw,keys=5,distributed=1"),
        ("ycsb-t", "kind=crmw,keys=5,distributed=1"),
        ("smallbank", "customers=20,hot_customers=2,hot=0.9"),
    ] {
        for way in ["calls", "statements"] {
            let shared = [
                workload,
                "--set",
                set,
                "--way",
                way,
                "--clients",
                "4",
                "--target",
                "weir:",
                "--shards",
                "2",
            ];
            check(&report(&shared), &["weir"]);
        }
    }
}

#[test]
fn weir_beside_all_others() {
    let page = std::env::temp_dir().join(format!("weir-bench-page-{}.html", std::process::id()));
    let report = report(&[
        "smallbank",
        "--set",
        "customers=50",
        "--clients",
        "3",
        "--isolation",
        "serializable",
        "--target",
        "weir:,sqlite:",
        "--start",
        "postgres,mariadb",
        "--html",
        page.to_str().unwrap(),
    ]);
    check(&report, &["weir", "sqlite", "postgres", "mariadb"]);
    let way = |number: usize| report["runs"][number]["parameters"]["way"].clone();
    assert_eq!([0, 1, 2, 3].map(way), ["calls", "statements", "calls", "statements"]);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("<svg") && text.contains("weir bench smallbank"));
    std::fs::remove_file(&page).unwrap();
}
