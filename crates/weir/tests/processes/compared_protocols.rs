//! `weir bench` of workloads by the protocols of eris.txt, and on several PostgreSQL servers with and without agents of `weir conveyor`.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("bench").args(arguments).output().expect("weir runs")
}

/// The runs of a report.
fn runs(arguments: &[&str]) -> Vec<Value> {
    let short = ["--format", "json", "--repeat", "1", "--seconds", "0.3", "--clients", "6"];
    let output = bench(&[arguments, &short].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let mut report: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let Value::Array(runs) = report["runs"].take() else { panic!("{report}") };
    assert_eq!(report["ratios"].as_array().map_or(0, Vec::len), runs.len() - 1);
    runs
}

#[test]
fn protocols_of_eris_run_and_are_checked() {
    let protocols = ["ordered", "lock-store", "granola", "tapir", "nt-ur"];
    for workload in [
        &["ycsb-t", "--set", "kind=mrmw,keys=100,distributed=0.5", "--replicas", "3"][..],
        &["tpcc", "--shards", "2", "--set", "warehouses=2,customers=20,items=60"],
    ] {
        let runs = runs(&[workload, &["--protocol", &protocols.join(",")]].concat());
        assert_eq!(runs.len(), protocols.len());
        for (run, protocol) in runs.iter().zip(protocols) {
            assert_eq!((run["label"].as_str(), run["protocol"].as_str()), (Some(protocol), Some(protocol)));
            assert_eq!(run.get("holds"), (protocol != "nt-ur").then_some(&Value::Bool(true)));
            assert!(run["latency_us"]["max"].as_f64() >= run["latency_us"]["p50"].as_f64(), "{run}");
            assert!(
                run["parameters"]["shards"].is_number() && run["parameters"]["replicas"].is_number(),
                "{run}"
            );
            let check = run["check"].as_str().expect("it is told");
            assert_eq!(check.contains("agree"), protocol != "nt-ur", "{check}");
        }
    }
}

#[test]
fn a_belt_runs_beside_what_it_is_compared_with() {
    let targets = ["conveyor:2", "readonly:2", "2pc:2", "postgres"];
    let runs = runs(&["conveyor-micro", "--target", &targets.join(",")]);
    assert_eq!(runs.len(), targets.len());
    for (run, target) in runs.iter().zip(targets) {
        assert_eq!(run["label"], target);
        let servers = if target == "postgres" { 1 } else { 2 };
        assert_eq!(
            (&run["parameters"]["servers"], &run["parameters"]["clients"]),
            (&servers.into(), &6.into())
        );
        assert!(run["parameters"]["servers"].is_number(), "{run}");
        // It has no invariants that were looked at.
        assert_eq!(run.get("holds"), None);
        let classes = run["classes"].as_object().expect("operations have classes");
        let shares: f64 = classes.values().filter_map(|class| class[0].as_f64()).sum();
        assert!(classes.is_empty() || (shares - 1.0).abs() < 1e-9, "{run}");
    }
}

#[test]
fn atomic_commitment_is_as_slow_as_its_messages() {
    let commits = |arguments: &[&str]| -> Vec<f64> {
        let output = bench(&[&["commitment", "--format", "json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("one document");
        let runs = report["runs"].as_array().expect("there are runs");
        runs.iter().map(|run| run["throughput"].as_f64().expect("a number")).collect()
    };
    // Nine numbers of servers, two protocols, two networks.
    assert_eq!(commits(&["--set", "commits=10"]).len(), 36);
    let world = ["--simulate", "wan", "--servers", "2,4", "--set", "regions=virginia+oregon"];
    let [centralized, same, decentralized, _] = commits(&world)[..] else { panic!("two by two") };
    // 82.9 ms; two more servers in the same regions change nothing.
    assert!((decentralized - 12.06).abs() < 0.01 && (centralized - 6.03).abs() < 0.01 && same == centralized);
    let own = ["--simulate", "lan", "--servers", "2", "--protocol", "c-2pc", "--set"];
    let slow = commits(&[&own[..], &["median_us=1000,p99_us=1001"]].concat())[0];
    assert!((slow - 500.0).abs() < 1.0, "two delays of a millisecond: {slow}");
}

#[test]
fn what_cannot_be_compared_is_told_before_the_first_run() {
    for (arguments, what) in [
        (
            &["ycsb-t", "--protocol", "ramp-fast"][..],
            "nt-ur, ordered, ordered-global, lock-store, granola, tapir",
        ),
        (&["tpcc", "--protocol", "ordered,ramp-fast"], "`ramp-fast` does not run beside"),
        (&["ycsb-t", "--protocol", "ordered", "--set", "keys=2"], "keys is a whole number from 3"),
        (&["ycsb-t", "--protocol", "ordered", "--set", "mix=1"], "its settings are: kind, keys, distributed"),
        (&["ycsb-t", "--protocol", "ordered", "--shards", "65"], "--shards 64 or fewer"),
        (&["ycsb-t", "--protocol", "ordered", "--advise"], "leave --protocol away"),
        (&["tpcc", "--protocol", "ordered", "--transactions", "9"], "--seconds S"),
        (&["tpcw", "--target", "conveyor:0"], "1 to 16 servers"),
        (&["tpcw", "--target", "conveyor:2,weir:"], "`weir:` is no target beside those of several servers"),
        (&["tpcw", "--target", "conveyor:2", "--set", "mix=1"], "the names are items, customers, carts"),
        (&["tpcw", "--target", "conveyor:2", "--shards", "2"], "a target says how many servers it has"),
        (&["tpcw", "--target", "conveyor:2", "--isolation", "serializable"], "--isolation is not for these"),
        (&["smallbank", "--target", "2pc:2"], "the workloads for it are: tpcw, rubis, conveyor-micro"),
        (&["ycsb", "--target", "conveyor:2"], "the workloads for it are: tpcw, rubis, conveyor-micro"),
        (&["commitment", "--protocol", "3pc"], "there are c-2pc, d-2pc"),
        (&["commitment", "--set", "median_us=5"], "both or neither"),
        (&["commitment", "--set", "delays=normal"], "delays is Pareto or log-normal"),
        (&["commitment", "--set", "regions=virginia+mars"], "there is no region `mars`"),
        (&["commitment", "--servers", "1"], "--servers 2 or more"),
        (&["commitment", "--simulate", "wan", "--set", "regions=virginia"], "all in `virginia`"),
        (&["commitment", "--simulate", "wan", "--set", "commits=7"], "its settings are: regions"),
        (&["commitment", "--simulate", "lan", "--set", "regions=mars"], "delays, median_us, p99_us, commits"),
        (&["commitment", "--simulate", "lan", "--cores", "8"], "--cores is not for commitment"),
        (&["ycsb-t", "--protocol", "ordered,ordered"], "`ordered` is named twice"),
        (&["tpcw", "--target", "conveyor:2,postgres://me:secret@h/db"], "`postgres://me@h/db` is no target"),
        (&["tpcw", "--target", "conveyor:2", "--clients", "65"], "--clients 64 or fewer"),
        (&["commitment", "--target", "postgres"], "--target is not for commitment"),
        (&["commitment", "--advise"], "--advise is not for this workload"),
        (&["ycsb", "--replicas", "3"], "ycsb-t or tpcc with --protocol ordered"),
        (&["ycsb", "--servers", "2"], "--simulate lan"),
    ] {
        let output = bench(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(what), "{arguments:?}: {said}");
    }
}
