//! Hot counters with bounds, over several shards, while messages are lost and shards and coordinators die (docs/internals/escrow.md, S15): no
//! counter passes its bound, and what has gone from the stock is what has been sold.
//!
//! `WEIR_SEEDS=0..1000 cargo test --workspace --test bench simulated::escrow_under_faults::bounds_hold` runs more seeds.

use crate::world::{self, World};

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_bench::simulate::{Check, Simulated};
use weir_sim::Faults;
use weir_sim::calls::{Report, Setup};
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::storage::Rows;

/// `buy` and the others take from the stock in every way that a statement can be written: under escrow, compared with what there is, and read
/// under a lock first.
const SCHEMA: &str = "
CREATE TABLE stock (id integer PRIMARY KEY, n integer NOT NULL, begun integer NOT NULL, held integer NOT NULL, CHECK (n >= 0), CHECK (held <= begun));
CREATE TABLE sold (id integer PRIMARY KEY, one integer NOT NULL, two integer NOT NULL);
CREATE TABLE room (id integer PRIMARY KEY, inside integer NOT NULL, CHECK (inside >= 0), CHECK (inside <= 9));
CREATE TABLE visits (id integer PRIMARY KEY, n integer NOT NULL);
CREATE PROCEDURE buy(c integer, q integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE sold SET one = one + q WHERE id = c;
    UPDATE stock SET n = n - q WHERE id = 1;
END $$;
CREATE PROCEDURE buy_both(c integer, q integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE stock SET n = n - q WHERE id = 1;
    UPDATE stock SET n = n - 1 WHERE id = 2;
    UPDATE stock SET n = n - 1 WHERE id = 2;
    UPDATE sold SET one = one + q, two = two + 2 WHERE id = c;
END $$;
CREATE PROCEDURE buy_other_way_round(c integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE stock SET n = n - 1 WHERE id = 2;
    UPDATE stock SET n = n - 1 WHERE id = 1;
    UPDATE sold SET one = one + 1, two = two + 1 WHERE id = c;
END $$;
CREATE PROCEDURE buy_if(c integer, q integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE stock SET n = n - q WHERE id = 2 AND n >= q;
    IF FOUND THEN
        UPDATE sold SET two = two + q WHERE id = c;
    END IF;
END $$;
CREATE PROCEDURE buy_told(c integer, q integer) LANGUAGE plpgsql AS $$ DECLARE rest integer; BEGIN
    UPDATE stock SET n = n - q WHERE id = 1 RETURNING n INTO rest;
    IF rest > 0 THEN
        UPDATE sold SET one = one + q WHERE id = c;
    ELSE
        UPDATE sold SET one = one + q, two = two WHERE id = c;
    END IF;
END $$;
CREATE PROCEDURE buy_half(c integer) LANGUAGE plpgsql AS $$ DECLARE there integer; BEGIN
    SELECT n INTO there FROM stock WHERE id = 2 FOR UPDATE;
    UPDATE stock SET n = n - there / 2 WHERE id = 2;
    UPDATE sold SET two = two + there / 2 WHERE id = c;
END $$;
CREATE PROCEDURE hold(a integer, c integer, q integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE stock SET held = held + q WHERE id = a;
    UPDATE visits SET n = n + 1 WHERE id = c;
END $$;
CREATE PROCEDURE let_go(a integer, c integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE stock SET held = held - 1 WHERE id = a;
    UPDATE visits SET n = n + 1 WHERE id = c;
END $$;
CREATE PROCEDURE restock(a integer, c integer, q integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE stock SET n = n + q, begun = begun + q WHERE id = a;
    UPDATE visits SET n = n + 1 WHERE id = c;
END $$;
CREATE PROCEDURE enter(c integer, q integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE room SET inside = inside + q WHERE id = 1;
    UPDATE visits SET n = n + 1 WHERE id = c;
END $$;
CREATE PROCEDURE leave(c integer, q integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE visits SET n = n + 1 WHERE id = c;
    UPDATE room SET inside = inside - q WHERE id = 1;
END $$;
CREATE PROCEDURE clear(c integer) LANGUAGE plpgsql AS $$ BEGIN
    UPDATE room SET inside = 4 WHERE id = 1;
    UPDATE visits SET n = n + 1 WHERE id = c;
END $$;
";

const WORKLOAD: &str = "
[load.stock]
for = [\"a in 1..2\"]
id = \"a\"
n = \"12\"
begun = \"12\"
held = \"0\"
[load.sold]
for = [\"c in 1..8\"]
id = \"c\"
one = \"0\"
two = \"0\"
[load.room]
id = \"1\"
inside = \"4\"
[load.visits]
for = [\"c in 1..8\"]
id = \"c\"
n = \"0\"
[mix]
buy = 4
buy_both = 3
buy_other_way_round = 2
buy_if = 3
buy_told = 1
buy_half = 1
hold = 2
let_go = 1
restock = 2
enter = 3
leave = 3
clear = 1
[parameters.buy]
c = \"uniform(1, 8)\"
q = \"uniform(1, 4)\"
[parameters.buy_both]
c = \"uniform(1, 8)\"
q = \"uniform(1, 4)\"
[parameters.buy_other_way_round]
c = \"uniform(1, 8)\"
[parameters.buy_if]
c = \"uniform(1, 8)\"
q = \"uniform(1, 4)\"
[parameters.buy_told]
c = \"uniform(1, 8)\"
q = \"uniform(1, 4)\"
[parameters.buy_half]
c = \"uniform(1, 8)\"
[parameters.hold]
a = \"uniform(1, 2)\"
c = \"uniform(1, 8)\"
q = \"uniform(1, 4)\"
[parameters.let_go]
a = \"uniform(1, 2)\"
c = \"uniform(1, 8)\"
[parameters.restock]
a = \"uniform(1, 2)\"
c = \"uniform(1, 8)\"
q = \"uniform(1, 6)\"
[parameters.enter]
c = \"uniform(1, 8)\"
q = \"uniform(1, 3)\"
[parameters.leave]
c = \"uniform(1, 8)\"
q = \"uniform(1, 3)\"
[parameters.clear]
c = \"uniform(1, 8)\"
";

/// All goods that have left the stock have been sold, and all counters are within their bounds.
fn stock_and_sold(world: &World) -> Check {
    let table = |name: &str| world.application.catalog.table_by_name(name).unwrap().id;
    let [stock, sold, room] = ["stock", "sold", "room"].map(table);
    Arc::new(move |rows: &dyn Rows| {
        let column = |table, column| world::integers(rows, table, column);
        let by_id: BTreeMap<i64, (i64, i64)> =
            column(stock, 0).into_iter().zip(column(stock, 1).into_iter().zip(column(stock, 2))).collect();
        for (id, (n, begun)) in by_id {
            let sum: i64 = column(sold, id as usize).iter().sum();
            if n < 0 || begun - n != sum {
                return Some(format!("of {begun} {n} are left of good {id}, and {sum} are sold"));
            }
        }
        let held = column(stock, 3).into_iter().zip(column(stock, 2));
        if let Some((held, begun)) = held.into_iter().find(|(held, begun)| held > begun) {
            return Some(format!("{held} of {begun} are held"));
        }
        let inside = column(room, 1);
        (!(0..=9).contains(&inside[0])).then(|| format!("{} are inside", inside[0]))
    })
}

fn hard() -> Faults {
    Faults {
        delay_us_max: 10_000,
        loss_per_mille: 100,
        duplicate_per_mille: 200,
        shard_down_us_max: 500_000,
        sync_us_max: 1_000,
        mishap_every_us: 50_000,
        coordinators_die: true,
        snapshot_every: 100,
        ..Faults::none()
    }
}

/// Every other seed has crashes and deaths all the while.
fn setup(seed: u64, bugs: PlantedBugs) -> Setup<PlantedBugs> {
    let faults = seed.is_multiple_of(2).then(hard);
    Setup { faults, calls: 250, bugs, ..Setup::new(seed) }
}

fn run(simulated: &mut Simulated<'_>, setup: &Setup<PlantedBugs>) -> Report {
    simulated.run(setup).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn bounds_hold() {
    let world = World::of(SCHEMA, WORKLOAD);
    let mut simulated = world.simulated().with_check(stock_and_sold(&world));
    let (mut committed, mut refused, mut restarts) = (0, 0, 0);
    for seed in world::seeds(0..24) {
        let report = run(&mut simulated, &setup(seed, PlantedBugs::default()));
        assert!(report.failure.is_none(), "seed {seed}: {report}");
        let unserializable = report.aborted.keys().find(|reason| reason.starts_with("40001"));
        assert_eq!(unserializable, None, "seed {seed}: calls wait");
        committed += report.committed;
        refused += report.aborted.values().sum::<usize>();
        restarts += report.restarts;
    }
    println!("{committed} calls committed, {refused} refused, {restarts} restarts");
    assert!(committed > 0 && refused > 0, "{committed} committed, {refused} refused");
}

/// The statements of the workload are what they are meant to be: under escrow, or not.
#[test]
fn statements_are_under_escrow_if_nothing_but_the_bound_depends_on_the_row() {
    let world = World::of(SCHEMA, WORKLOAD);
    let program = Program::compile(&world.application, &world.analysis.plan, 4).unwrap();
    let under: Vec<&str> =
        program.procedures.iter().filter(|one| one.draws()).map(|one| &*one.name).collect();
    assert_eq!(
        under,
        ["buy", "buy_both", "buy_other_way_round", "buy_if", "hold", "restock", "enter", "leave"]
    );
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let world = World::of(SCHEMA, WORKLOAD);
    let check = stock_and_sold(&world);
    world::check_caught(name, 100, |seed| {
        let mut simulated = world.simulated().with_check(check.clone());
        let report = run(&mut simulated, &Setup { faults: Some(hard()), ..setup(seed, bugs) });
        report
            .failure
            .filter(|one| one.claim != "a shard that starts again is as it was")
            .map(|one| format!("{one:?}"))
    });
}

#[test]
fn a_bound_that_counts_committed_amounts_alone_is_caught() {
    let bugs = PlantedBugs { escrow_counts_committed: true, ..PlantedBugs::default() };
    check_caught("committed amounts alone", bugs);
}

/// A restarted shard lets nobody write until it knows how its prepared transactions end, which would hide it.
#[test]
fn prepared_amounts_that_a_restart_forgets_are_caught() {
    let bugs =
        PlantedBugs { recovery_forgets_amounts: true, writes_in_doubt: true, ..PlantedBugs::default() };
    check_caught("amounts forgotten by a restart", bugs);
}

/// Long calls let go of what they have claimed when they stop: in these seeds all calls are long, and no shard crashes. Here a call that gets
/// what it has waited for needs no reservation; that younger ones give way is shown by `starved_calls`.
#[test]
fn calls_that_starve_are_caught() {
    let bugs = PlantedBugs { starves: true, hands_nothing_over: true, ..PlantedBugs::default() };
    let world = World::of(SCHEMA, WORKLOAD);
    world::check_caught("starvation", 100, |number| {
        let setup = setup(6 * number + 3, bugs);
        assert!(setup.step_budget.is_some() && setup.faults.is_none());
        run(&mut world.simulated(), &setup).failure.map(|one| format!("{one:?}"))
    });
}
