//! Calls as transactions of one statement (docs/internals/global-keys.md): TPC-C and SmallBank as if every call that writes might derive
//! writes for other shards. In virtual time with loss, crashes and deaths; over lossless links where messages overtake each other; SmallBank
//! on the threads of `weir run`, too.

use crate::world::{self, World};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use weir_analysis::plan::Plan;
use weir_bench::pace::Limit;
use weir_bench::run::{RunOptions, load};
use weir_bench::simulate::Check;
use weir_sim::Simulation;
use weir_sim::calls::Setup;
use weir_sql::Application;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::shard::Node;
use weir_txn::storage::view::WholeView;
use weir_types::Value;

const CLIENTS: usize = 8;
const CALLS: usize = 400;

/// All of its procedures that may run as transactions do.
fn carrying(program: Program, application: &Application, plan: &Plan) -> Program {
    let mut program = program.with_texts(application, plan);
    let procedures = Arc::get_mut(&mut program.procedures).expect("nobody else has them");
    procedures.iter_mut().for_each(|one| one.carries = !one.read_only && !one.in_order);
    program
}

fn tpcc() -> World {
    let small = [
        ("warehouses", "4"),
        ("items", "20"),
        ("customers_per_district", "10"),
        ("remote_lines", "0.5"),
        ("remote_payments", "0.5"),
    ];
    World::example("tpcc", &small, &|_, text| text)
}

/// No money comes or goes; the first look says how much there is.
fn no_money_is_lost(application: &Application) -> Check {
    let (first, application) = (OnceLock::new(), application.clone());
    Arc::new(move |rows| {
        let sum = world::sum_of_balances(&application, rows);
        let before = *first.get_or_init(|| sum);
        (sum != before).then(|| format!("{before} became {sum}"))
    })
}

#[test]
fn seeds_of_both_applications_hold_under_faults() {
    let smallbank = World::smallbank();
    let check = no_money_is_lost(&smallbank.application);
    for (world, check) in [(&tpcc(), None), (&smallbank, Some(check))] {
        let mut simulated = world.simulated().with_texts(carrying);
        if let Some(check) = check {
            simulated = simulated.with_check(check);
        }
        let mut committed = 0;
        for seed in world::seeds(0..8) {
            let setup = Setup { bugs: PlantedBugs::default(), ..Setup::new(seed) };
            let report = simulated.run(&setup).unwrap_or_else(|error| panic!("{error:?}"));
            println!("seed {seed}: {report}");
            assert_eq!(report.failure, None, "seed {seed}: {report}");
            let is_internal = report.aborted.keys().any(|reason| reason.starts_with("XX000"));
            assert!(!is_internal, "seed {seed}: {report}");
            committed += report.committed;
        }
        world::check_reached(committed > 300, &committed);
    }
}

/// Result of a run over lossless links.
struct Run {
    answered: usize,
    /// Calls by the reason of their error.
    aborted: BTreeMap<String, u64>,
    /// Of all balances, before and after the run.
    sums: [i64; 2],
    is_over: bool,
}

fn run_lossless(world: &World, shards: u16, seed: u64, bugs: PlantedBugs) -> Run {
    let World { application, analysis, workload } = world;
    let program = Program::compile(application, &analysis.plan, shards).expect("it compiles");
    let program = Arc::new(carrying(program, application, &analysis.plan));
    let mut simulation = Simulation::new(&program, 2, seed, 2_000, bugs);
    for &table in workload.load_order() {
        let mut load = |values: Vec<Value>| Node::load_row(&mut simulation.nodes, &program, table, &values);
        workload.load_rows(seed, table, &mut load).expect("the population loads");
    }
    let sum = |simulation: &Simulation<PlantedBugs>| {
        if application.catalog.table_by_name("checking").is_none() {
            return 0;
        }
        let shards = simulation.nodes.iter().map(|node| &*node.storage).collect();
        world::sum_of_balances(application, &WholeView::new(shards, program.replicated()))
    };
    let before = sum(&simulation);
    let mut next_call = world::next_call(workload, seed, (CLIENTS, CALLS));
    let mut answered = 0;
    let outcome = simulation.run(CLIENTS, &[], &mut next_call, &mut |_, _| answered += 1);
    let sums = [before, sum(&simulation)];
    Run { answered, aborted: outcome.aborted, sums, is_over: simulation.is_idle() }
}

/// Two coordinators, and no timer that would end circles.
#[test]
fn over_lossless_links_everything_comes_to_an_end() {
    let smallbank = World::smallbank();
    for shards in [1, 4] {
        for seed in 1..6 {
            let Run { answered, aborted, sums: [before, after], is_over } =
                run_lossless(&smallbank, shards, seed, PlantedBugs::default());
            assert_eq!((answered, is_over, before), (CALLS, true, after), "{shards} shards, seed {seed}");
            let has_conflict = aborted.keys().any(|reason| reason.starts_with("40"));
            assert!(!has_conflict, "{shards} shards, seed {seed}: {aborted:?}");
        }
    }
}

#[test]
fn over_lossless_links_tpcc_comes_to_an_end() {
    let tpcc = tpcc();
    for seed in 1..6 {
        let Run { answered, aborted, is_over, .. } = run_lossless(&tpcc, 4, seed, PlantedBugs::default());
        assert_eq!((answered, is_over), (CALLS, true), "seed {seed}: {aborted:?}");
    }
}

/// The negative control: nobody sees the circle of calls of two coordinators.
#[test]
fn calls_that_wait_in_circles_wait_for_ever() {
    let smallbank = World::smallbank();
    let bugs = || PlantedBugs { waits_in_circles: true, ..PlantedBugs::default() };
    assert!((1..6).any(|seed| run_lossless(&smallbank, 4, seed, bugs()).answered < CALLS));
}

#[test]
fn on_threads_smallbank_comes_to_an_end() {
    let World { application, analysis, workload } = World::smallbank();
    let options = RunOptions {
        clients: 8,
        limit: Limit::Transactions(400),
        audit_every: Some(10),
        with_texts: carrying,
        ..RunOptions::new(4)
    };
    let loaded = load(&application, &analysis, &workload, &options, true, &mut |_| ());
    let loaded = loaded.unwrap_or_else(|error| panic!("{error:?}"));
    let report = loaded.run(&workload, &mut |_| ()).unwrap_or_else(|error| panic!("{error:?}"));
    // Some payments are of customers who have too little.
    assert!(report.committed > 150, "{} committed, {:?}", report.committed, report.aborted);
    assert!(report.invariants.iter().all(|invariant| invariant.holds), "{:?}", report.invariants);
    let has_conflict = report.aborted.keys().any(|reason| reason.starts_with("40"));
    assert!(!has_conflict, "{:?}", report.aborted);
}
