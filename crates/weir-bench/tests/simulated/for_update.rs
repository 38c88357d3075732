//! FOR UPDATE over several shards holds what was read until the commit: SmallBank's amalgamations and payments
//! at once, on one shard and on four, keep the sum of all balances. Without the claims money is lost.

use crate::world::{self, World};
use std::sync::Arc;

use weir_sim::Simulation;
use weir_sql::Application;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::shard::Node;
use weir_txn::storage::view::WholeView;
use weir_types::Value;

const CLIENTS: usize = 8;
const CALLS: usize = 400;

/// In hundredths.
fn sum_of_balances(
    application: &Application,
    program: &Program,
    simulation: &Simulation<PlantedBugs>,
) -> i64 {
    let replicated = program.replicated();
    let view = WholeView::new(simulation.nodes.iter().map(|node| &*node.storage).collect(), replicated);
    world::sum_of_balances(application, &view)
}

/// The sum of all balances before and after a run.
fn run(shards: u16, seed: u64, bugs: PlantedBugs) -> (i64, i64) {
    let World { application, analysis, workload } = World::smallbank();
    let program =
        Arc::new(Program::compile(&application, &analysis.plan, shards).expect("SmallBank compiles"));
    let mut simulation = Simulation::new(&program, 2, seed, 2_000, bugs);
    for &table in workload.load_order() {
        let mut load = |values: Vec<Value>| Node::load_row(&mut simulation.nodes, &program, table, &values);
        workload.load_rows(seed, table, &mut load).expect("the population loads");
    }
    let before = sum_of_balances(&application, &program, &simulation);
    let mut next_call = world::next_call(&workload, seed, (CLIENTS, CALLS));
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
