//! FOR UPDATE over several shards holds what was read until the commit: SmallBank's amalgamations and payments
//! at once, on one shard and on four, keep the sum of all balances. Without the claims money is lost.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use weir_bench::{CallGenerator, Workload};
use weir_sim::Simulation;
use weir_sql::{Application, Sources};
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Call, Callee};
use weir_txn::storage::rows::Rows;
use weir_txn::storage::view::WholeView;
use weir_types::Value;
use weir_types::text::to_text;

const CLIENTS: usize = 8;
const CALLS: usize = 400;

/// SmallBank with a few customers, and without the transactions that bring money in or take it out.
fn smallbank() -> (Application, Workload) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/smallbank");
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).expect("the example is there");
    let mut sources = Sources::default();
    for name in ["schema.sql", "procedures.sql", "invariants.sql"] {
        sources.add(name, text(name));
    }
    let mut application = weir_sql::load(sources).unwrap_or_else(|(_, errors)| panic!("{errors:?}"));
    let mut toml = text("workload.toml");
    for name in ["deposit_checking", "transact_savings", "write_check"] {
        let line = format!("{name} = 15\n");
        assert!(toml.contains(&line), "the mix has {name}");
        toml = toml.replace(&line, &format!("{name} = 0\n"));
    }
    let file = application.sources.add("workload.toml", toml);
    let small = [("customers", "12"), ("hot_customers", "3"), ("hot", "0.8")];
    let settings: Vec<(String, String)> =
        small.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let workload =
        Workload::parse(&application, file, &settings).unwrap_or_else(|errors| panic!("{errors:?}"));
    (application, workload)
}

/// In hundredths.
fn sum_of_balances(
    application: &Application,
    program: &Program,
    simulation: &Simulation<PlantedBugs>,
) -> i64 {
    let replicated = program.partitions.iter().map(Option::is_none).collect();
    let view = WholeView::new(simulation.nodes.iter().map(|node| &node.storage).collect(), replicated);
    let mut sum = 0;
    for name in ["savings", "checking"] {
        let table = application.catalog.table_by_name(name).expect("the table");
        let balance = table.columns.iter().position(|column| column.name == "balance").expect("the column");
        let end = view.scan(table.id, &mut |row| {
            let text = to_text(&view.value(table.id, row, balance), &table.columns[balance].ty);
            sum += text.replace('.', "").parse::<i64>().expect("two digits behind the point");
            Ok(ControlFlow::Continue(()))
        });
        assert!(end.expect("the table can be read").is_continue());
    }
    sum
}

/// The sum of all balances before and after a run.
fn run(shards: u16, seed: u64, bugs: PlantedBugs) -> (i64, i64) {
    let (application, workload) = smallbank();
    let workload = Arc::new(workload);
    let plan = weir_analysis::analyze(&application).plan;
    let program = Arc::new(Program::compile(&application, &plan, shards).expect("SmallBank compiles"));
    let mut simulation = Simulation::new(&program, 2, seed, 2_000, bugs);
    for &table in workload.load_order() {
        let mut load = |values: Vec<Value>| match program.home(table, &|column| values[column].clone()) {
            Some(shard) => simulation.nodes[usize::from(shard)].load(table, &values),
            None => simulation.nodes.iter_mut().try_for_each(|node| node.load(table, &values)),
        };
        workload.load_rows(seed, table, &mut load).expect("the population loads");
    }
    let before = sum_of_balances(&application, &program, &simulation);
    let mut generators: Vec<CallGenerator> =
        (0..CLIENTS).map(|client| CallGenerator::new(&workload, seed, client as u64)).collect();
    let mut left = CALLS;
    let mut next_call = |client: usize| {
        left = left.checked_sub(1)?;
        let call = generators[client].next_call().expect("calls never end");
        Some(Call {
            callee: Callee::Procedure(call.procedure),
            args: call.args,
            transaction_time: 0.into(),
            schema_version: 0,
        })
    };
    simulation.run(CLIENTS, &[], &mut next_call, &mut |_, _| {});
    (before, sum_of_balances(&application, &program, &simulation))
}

#[test]
fn no_money_is_lost() {
    for shards in [1, 4] {
        for seed in 1..6 {
            let (before, after) = run(shards, seed, PlantedBugs::default());
            assert_eq!(before, after, "{shards} shards, seed {seed}");
        }
    }
}

/// The negative control: the same runs, but nobody takes claims.
#[test]
fn without_claims_it_is() {
    let bugs = || PlantedBugs { no_guards: true, ..PlantedBugs::default() };
    let lost = (1..6).filter(|&seed| matches!(run(4, seed, bugs()), (before, after) if before != after));
    assert!(lost.count() > 0);
}
