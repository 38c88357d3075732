//! The workloads load, run and give the classes that the documents name.

use std::time::Duration;

use weir_conveyor::matching::Class;
use weir_conveyor_bench::application::{Bench, NAMES};
use weir_conveyor_bench::run::{Figures, Settings, run};
use weir_conveyor_bench::target::{Deployment, Target};
use weir_conveyor_bench::{report, spread};
use weir_conveyor_scale::load::RunClass;

fn small(name: &str) -> Bench {
    let set: &[(&str, &str)] = match name {
        "tpcw" => &[("items", "100"), ("customers", "60"), ("carts", "40")],
        "rubis" => &[("users", "60"), ("items", "40"), ("old_items", "40")],
        _ => &[("cells", "100"), ("totals", "50")],
    };
    let set: Vec<_> = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Bench::of(name, &set).unwrap()
}

fn run_small(name: &str, target: Target) -> Figures {
    let bench = small(name);
    let deployment = Deployment::start(&bench, target).unwrap();
    let settings = Settings {
        clients: 4,
        warm_up: Duration::ZERO,
        measured: Duration::from_secs(3_600),
        calls: 60,
        think: Duration::ZERO,
        seed: 3,
    };
    run(&bench, &deployment, settings).unwrap()
}

#[test]
fn every_operation_has_a_spread() {
    for name in NAMES {
        for operation in &small(name).plan.operations {
            assert!(spread::of(name, &operation.name).is_some(), "{name}: {}", operation.name);
        }
    }
}

#[test]
fn the_micro_benchmark_has_local_and_global_operations() {
    let plan = small("conveyor-micro").plan;
    let class = |name: &str| plan.operation(name).unwrap().class;
    assert_eq!((class("change_cell"), class("change_totals")), (Class::Local, Class::Global));
}

#[test]
fn classes_are_shown_beside_table_1() {
    let text = report::classes(&small("tpcw"));
    assert!(text.contains("Table 1, operations") && text.contains("39%"), "{text}");
}

#[test]
fn each_workload_runs_on_one_server() {
    for name in NAMES {
        let figures = run_small(name, Target::Postgres);
        assert!(figures.outcome.answered > 0, "{name}: {figures:?}");
        // Serialization failures may starve a call: PostgreSQL promises no number of attempts that is enough.
        assert_eq!(figures.unknown, 0, "{name}: {figures:?}");
    }
}

#[test]
fn each_workload_runs_on_the_belt() {
    for name in NAMES {
        let figures = run_small(name, Target::Conveyor(2));
        assert!(!figures.outcome.of(RunClass::Local).is_empty(), "{name}: {figures:?}");
        assert_eq!(figures.unknown, 0, "{name}: {figures:?}");
    }
}

#[test]
fn each_workload_runs_with_two_phase_commit() {
    for name in NAMES {
        let figures = run_small(name, Target::TwoPhase(3));
        assert!(figures.outcome.answered > 0, "{name}: {figures:?}");
        assert_eq!(figures.unknown, 0, "{name}: {figures:?}");
    }
}

#[test]
fn writes_of_the_read_only_baseline_are_global() {
    let figures = run_small("tpcw", Target::ReadOnly(2));
    assert!(figures.outcome.of(RunClass::Local).is_empty());
    assert!(!figures.outcome.of(RunClass::Commutative).is_empty());
    assert!(!figures.outcome.of(RunClass::Global).is_empty());
}
