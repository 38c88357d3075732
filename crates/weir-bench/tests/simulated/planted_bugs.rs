//! Each claim of the main job has a planted bug that breaks it, and the checks must notice; without the
//! bug the same seeds must pass. All in virtual time: a failure is a seed.

use crate::world::{self, World};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_sim::{Audit, Outcome, Simulation};
use weir_txn::exec::assertion::CompiledAssertion;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::shard::Node;
use weir_txn::storage::view::WholeView;
use weir_types::Value;

/// TPC-C, with its texts changed where a bug is planted in them.
fn tpcc(settings: &[(&str, &str)], change: &dyn Fn(&str, String) -> String) -> World {
    let small = [("items", "100"), ("customers_per_district", "30")];
    World::example("tpcc", &[&small[..], settings].concat(), change)
}

struct Run {
    outcome: Outcome,
    /// Assertions that do not hold at the end.
    violated: BTreeSet<String>,
    /// A sum over all rows of all shards.
    fingerprint: u64,
}

struct Plan {
    shards: u16,
    calls: usize,
    seed: u64,
    bugs: PlantedBugs,
    /// Assertions that concurrent readers check, by name.
    audits: &'static [&'static str],
}

fn run(tpcc: &World, plan: &Plan) -> Run {
    let program = Arc::new(
        Program::compile(&tpcc.application, &tpcc.analysis.plan, plan.shards).expect("TPC-C compiles"),
    );
    let mut simulation = Simulation::new(&program, 2, plan.seed, 2_000, plan.bugs);
    let mut keys: BTreeMap<_, Vec<Vec<Value>>> = BTreeMap::new();
    for &table in tpcc.workload.load_order() {
        let key = tpcc.application.catalog.table(table).primary_key.as_ref().map(|key| key.columns.clone());
        let mut load = |values: Vec<Value>| {
            if let Some(key) = &key {
                keys.entry(table)
                    .or_default()
                    .push(key.iter().map(|&column| values[column].clone()).collect());
            }
            Node::load_row(&mut simulation.nodes, &program, table, &values)
        };
        tpcc.workload.load_rows(plan.seed, table, &mut load).expect("the population loads");
    }
    let compile = |assertion| {
        CompiledAssertion::compile(assertion, &tpcc.application.catalog, &program).expect("it compiles")
    };
    let mut assertions: Vec<CompiledAssertion> = tpcc.application.assertions.iter().map(compile).collect();
    assert_eq!(broken(&simulation, &program, &assertions), BTreeSet::new(), "before anything runs");
    let audits: Vec<Audit> = assertions
        .iter_mut()
        .filter(|assertion| plan.audits.contains(&assertion.name.as_str()))
        .filter_map(|assertion| {
            let audit = assertion.audit.take()?;
            Some(Audit {
                name: assertion.name.clone(),
                keys: keys.get(&audit.table)?.clone(),
                gather: Arc::new(audit.gather),
            })
        })
        .collect();
    assert_eq!(audits.len(), plan.audits.len(), "every audit asked for can be made");
    const CLIENTS: usize = 16;
    let mut next_call = world::next_call(&tpcc.workload, plan.seed, (CLIENTS, plan.calls));
    let outcome = simulation.run(CLIENTS, &audits, &mut next_call, &mut |_, _| {});
    let tables = 0..program.placement.len() as u32;
    let fingerprint = tables
        .flat_map(|table| {
            simulation
                .nodes
                .iter()
                .map(move |node| node.storage.fingerprint(weir_sql::catalog::TableId(table)))
        })
        .fold(0_u64, |sum, print| sum.rotate_left(7) ^ print);
    Run { outcome, violated: broken(&simulation, &program, &assertions), fingerprint }
}

fn broken(
    simulation: &Simulation<PlantedBugs>,
    program: &Program,
    assertions: &[CompiledAssertion],
) -> BTreeSet<String> {
    let replicated = program.replicated();
    let view = WholeView::new(simulation.nodes.iter().map(|node| &*node.storage).collect(), replicated);
    let holds =
        |assertion: &&CompiledAssertion| assertion.check(&view, program).expect("it can be checked").holds;
    assertions.iter().filter(|assertion| !holds(assertion)).map(|assertion| assertion.name.clone()).collect()
}

fn unchanged(_: &str, text: String) -> String {
    text
}

const SEEDS: std::ops::Range<u64> = 1..4;

/// The bug must be caught by that assertion with every seed, and no seed may fail without it.
fn caught(
    tpcc: &World,
    plan: impl Fn(u64, PlantedBugs) -> Plan,
    bugs: PlantedBugs,
    assertion: &str,
    by_readers: bool,
) {
    for seed in SEEDS {
        let sound = run(tpcc, &plan(seed, PlantedBugs::default()));
        assert_eq!(sound.violated, BTreeSet::new(), "seed {seed} without the bug");
        assert_eq!(sound.outcome.violated, BTreeMap::new(), "seed {seed} without the bug, seen by a reader");
        let planted = run(tpcc, &plan(seed, bugs));
        let seen = if by_readers {
            planted.outcome.violated.contains_key(assertion)
        } else {
            planted.violated.contains(assertion)
        };
        assert!(
            seen,
            "seed {seed}: {assertion} did not catch the bug; violated: {:?} {:?}",
            planted.violated, planted.outcome.violated
        );
    }
}

const LOCAL: &[(&str, &str)] = &[("warehouses", "2"), ("remote_lines", "0"), ("remote_payments", "0")];
const REMOTE: &[(&str, &str)] = &[("warehouses", "4"), ("remote_lines", "1.0"), ("remote_payments", "1.0")];

#[test]
fn a_counter_without_its_guard_breaks_condition_2() {
    let plan = |seed, bugs| Plan { shards: 2, calls: 400, seed, bugs, audits: &[] };
    caught(
        &tpcc(LOCAL, &unchanged),
        plan,
        PlantedBugs { no_guards: true, ..PlantedBugs::default() },
        "c_3_3_2_2",
        false,
    );
}

#[test]
fn a_delivery_without_its_claim_breaks_condition_12() {
    let plan = |seed, bugs| Plan { shards: 2, calls: 800, seed, bugs, audits: &[] };
    caught(
        &tpcc(LOCAL, &unchanged),
        plan,
        PlantedBugs { no_guards: true, ..PlantedBugs::default() },
        "c_3_3_2_12",
        false,
    );
}

#[test]
fn commits_shown_one_shard_at_a_time_break_condition_10_for_readers() {
    let plan = |seed, bugs| Plan { shards: 4, calls: 3_000, seed, bugs, audits: &["c_3_3_2_10"] };
    let payments = |name: &str, text: String| match name {
        // Few customers, so that readers and payments meet.
        "workload.toml" => text.replace("customers_per_district = 3000", "customers_per_district = 10"),
        _ => text,
    };
    let tpcc = tpcc(&[REMOTE, &[("customers_per_district", "10")]].concat(), &payments);
    caught(&tpcc, plan, PlantedBugs { no_siblings: true, ..PlantedBugs::default() }, "c_3_3_2_10", true);
}

#[test]
fn a_stock_update_overwritten_instead_of_merged_breaks_the_thirteenth() {
    let plan = |seed, bugs| Plan { shards: 4, calls: 600, seed, bugs, audits: &[] };
    let tpcc = tpcc(&[REMOTE, &[("items", "20")]].concat(), &unchanged);
    caught(
        &tpcc,
        plan,
        PlantedBugs { overwrite: true, ..PlantedBugs::default() },
        "stock_matches_order_lines",
        false,
    );
}

#[test]
fn an_order_line_key_without_its_number_breaks_condition_6() {
    let change = |name: &str, text: String| match name {
        "schema.sql" => text.replace(
            "PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
            "PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id)",
        ),
        "procedures.sql" => {
            let insert = text.find("INSERT INTO order_line").expect("new_order inserts its lines");
            let end = insert + text[insert..].find(';').expect("a statement ends");
            format!("{} ON CONFLICT DO NOTHING{}", &text[..end], &text[end..])
        }
        "workload.toml" => text
            .replace("number in 1..o_ol_cnt", "number in 1..1")
            .replace("o_ol_cnt = \"uniform(5, 15)\"", "o_ol_cnt = 1"),
        _ => text,
    };
    let planted = run(
        &tpcc(LOCAL, &change),
        // On several shards the engine refuses what the analysis says of it.
        &Plan { shards: 1, calls: 200, seed: 1, bugs: PlantedBugs::default(), audits: &[] },
    );
    assert!(planted.violated.contains("c_3_3_2_6"), "{:?}", planted.violated);
}

#[test]
fn every_condition_holds_with_every_number_of_shards_and_every_reader() {
    let audits = &["c_3_3_2_1", "c_3_3_2_5", "c_3_3_2_8", "c_3_3_2_10", "c_3_3_2_12"];
    let tpcc = tpcc(REMOTE, &unchanged);
    for shards in [1, 2, 4, 8] {
        let run = run(
            &tpcc,
            &Plan { shards, calls: 1_000, seed: u64::from(shards), bugs: PlantedBugs::default(), audits },
        );
        assert_eq!(run.violated, BTreeSet::new(), "{shards} shards");
        assert_eq!(run.outcome.violated, BTreeMap::new(), "{shards} shards");
        let reasons: Vec<&String> = run.outcome.aborted.keys().collect();
        assert!(reasons.iter().all(|reason| reason.contains("Item number is not valid")), "{reasons:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_state() {
    let tpcc = tpcc(REMOTE, &unchanged);
    let plan =
        |seed| Plan { shards: 4, calls: 500, seed, bugs: PlantedBugs::default(), audits: &["c_3_3_2_10"] };
    let first = run(&tpcc, &plan(7));
    let second = run(&tpcc, &plan(7));
    assert_eq!(first.fingerprint, second.fingerprint);
    assert_eq!(first.outcome.ended_us, second.outcome.ended_us);
    assert_ne!(first.fingerprint, run(&tpcc, &plan(8)).fingerprint);
}
