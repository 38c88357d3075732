//! TPC-C on nodes that are processes, killed and started again meanwhile: all its conditions hold afterwards.
//!
//! `WEIR_KILLS=SECONDS` runs it for so long with the standard population (the bar `tpcc-over-network`), a node being killed every
//! five seconds; here it is small and short.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::nodes::Nodes;
use serde_json::Value;

const NODES: usize = 3;

#[test]
fn all_conditions_hold_after_nodes_were_killed() {
    let full = std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse::<u64>().ok());
    let (seconds, every, population) = match full {
        Some(seconds) => (seconds, 5, "warehouses = 3"),
        None => (6, 2, "warehouses = 4, items = 100, customers_per_district = 30, remote_lines = 0.2"),
    };
    let tpcc = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tpcc");
    let application = format!("[application]\npath = \"{tpcc}\"\nset = {{ {population} }}\n");
    let mut nodes = Nodes::start(NODES, 1, &application, true);
    let run = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", tpcc, "--format", "json", "--clients", "16", "--target", &nodes.target()])
        .args(["--seconds", &seconds.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let kills = (seconds / every) as usize;
    for kill in 0..kills {
        std::thread::sleep(Duration::from_secs(every));
        nodes.kill_and_start_again(kill % NODES);
    }
    let output = run.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let invariants = report["invariants"].as_array().unwrap();
    let broken: Vec<&Value> = invariants.iter().filter(|one| one["holds"] != true).collect();
    assert!(broken.is_empty(), "{broken:#?}");
    let conditions =
        invariants.iter().filter(|one| one["id"].as_str().unwrap().starts_with("c_3_3_2_")).count();
    let committed = report["committed"].as_u64().unwrap();
    println!("{conditions} of 12 conditions hold after {committed} calls and {kills} kills");
    assert!(conditions == 12 && committed > 100, "{committed} calls");
    assert_eq!(report["converged"], true);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn another_application_is_refused() {
    let payroll = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/smallbank");
    let nodes = Nodes::start(1, 1, &format!("[application]\npath = \"{payroll}\"\n"), false);
    let other =
        std::fs::read_to_string(nodes.file()).unwrap().replace("smallbank\"", "smallbank\"\nseed = 2");
    let file = nodes.place.path().join("other.toml");
    std::fs::write(&file, other).unwrap();
    let target = format!("weir:{}", file.display());
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["run", payroll, "--target", &target])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("another application"), "{message}");
}
