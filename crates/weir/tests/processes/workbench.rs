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
        assert!(run["contention_level"].as_f64().is_some_and(|level| (0.0..=1.0).contains(&level)), "{run}");
        // On a machine that is busy with others no transaction may have ended within the measured time.
        let committed = run["committed"].as_u64().unwrap();
        assert_eq!(run["latency_us"]["p99"].as_f64() > Some(0.0), committed > 0, "{run}");
        assert_eq!(run["throughput"].as_f64() > Some(0.0), committed > 0, "{run}");
    }
    assert!(report["ratios"].as_array().unwrap().len() < targets.len());
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
        ("ycsb-t", "kind=closed-economy,keys=5,distributed=1"),
        ("smallbank", "customers=20,hot_customers=2,hot=0.9"),
        ("tpcc", "warehouses=2,items=100,customers=20,remote=0.2"),
        ("tpcw", "mix=ordering,items=40,customers=30,carts=8"),
        ("tpcw", "mix=shopping,items=40,customers=30,carts=8"),
        ("rubis", "mix=bidding,users=30,items=15,old_items=10"),
    ] {
        // By calls these are applications.
        let has_calls = !["tpcc", "tpcw", "rubis"].contains(&workload);
        let ways: &[&str] = if has_calls { &["calls", "statements"] } else { &["statements"] };
        for &way in ways {
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

#[test]
fn advice_names_the_mechanism_with_its_figures() {
    let report = report(&[
        "cat",
        "--set",
        "keys=200,zipf=1.2,length=8",
        "--clients",
        "6",
        "--isolation",
        "serializable",
        "--target",
        "postgres,weir:",
        "--advise",
    ]);
    let advice = report["advice"].as_array().unwrap();
    let of = |target: &str| advice.iter().find(|one| one["target"] == target).unwrap();
    for target in ["postgres", "weir"] {
        let one = of(target);
        assert_eq!(
            (&one["transaction"], &one["plan"]["procedure"]),
            (&"write".into(), &"increment_8".into())
        );
        assert_eq!(one["plan"]["confluent"], true, "{one}");
        assert!(
            one["contended"]["contention_level"].as_f64() > one["spread"]["contention_level"].as_f64(),
            "{one}"
        );
    }
    // Increments never abort on Weir, and its aborts are what the advice compares.
    assert_eq!(of("weir")["contended"]["aborted_share"], 0.0);
    let text = of("postgres")["text"].as_str().unwrap();
    if of("postgres")["on_wall"] == true {
        assert!(text.contains("increment_8 is planned") && text.contains("Measured so on weir"), "{text}");
    }
}

#[test]
fn advice_on_statements_has_the_plan_of_the_procedure_that_does_the_same() {
    for (workload, set, transaction, guard) in [
        ("tpcc", "warehouses=1,items=50,customers=30", "new_order", Some("sequence")),
        ("tpcw", "mix=ordering,items=20,customers=20,carts=4", "confirm_purchase", None),
        ("rubis", "users=20,items=5,old_items=5", "store_bid", None),
    ] {
        let target = ["--target", "postgres", "--clients", "4", "--isolation", "serializable", "--advise"];
        let report = report(&[&[workload, "--set", set][..], &target[..]].concat());
        let advice = report["advice"].as_array().unwrap();
        let one = advice.iter().find(|one| one["transaction"] == transaction).unwrap();
        assert_eq!(one["plan"]["procedure"], transaction, "{one}");
        if let Some(guard) = guard {
            assert_eq!(one["plan"]["guards"], serde_json::json!([guard]), "{one}");
        }
        if one["on_wall"] == true {
            let text = one["text"].as_str().unwrap();
            assert!(text.contains("is planned `") && text.contains("Measure it: weir bench"), "{text}");
        }
    }
}

#[test]
fn a_recorded_load_is_replayed_on_other_servers() {
    let file = std::env::temp_dir().join(format!("weir-bench-trace-{}.jsonl", std::process::id()));
    let path = file.to_str().unwrap();
    report(&["ycsb", "--set", "keys=50", "--clients", "3", "--target", "weir:", "--record", path]);
    let text = std::fs::read_to_string(&file).unwrap();
    let recorded = text.lines().filter(|line| !line.contains("\"setup\"")).count() as u64;
    assert!(recorded > 0 && text.starts_with("{\"setup\":\"CREATE TABLE usertable"));
    for speed in [&[][..], &["--speed", "4"]] {
        let replay = [&["--trace", path, "--target", "weir:,postgres"], speed].concat();
        let output = bench(&[&replay[..], &["--format", "json", "--repeat", "1", "--no-sync"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let replayed: Value = serde_json::from_slice(&output.stdout).unwrap();
        for run in replayed["runs"].as_array().unwrap() {
            assert_eq!(
                (run["committed"].as_u64(), &run["parameters"]["clients"]),
                (Some(recorded), &3.into())
            );
        }
    }
    for (arguments, expected) in [
        (&["--trace", path, "--set", "keys=5"][..], "--set is not for trace by SQL"),
        (&["ycsb", "--trace", path], "instead of a workload"),
        (&["--trace", "/no/such/file"], "/no/such/file"),
    ] {
        let output = bench(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    }
    std::fs::remove_file(&file).unwrap();
}
