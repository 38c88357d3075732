//! COPY's batches, which stay in place while their transaction has a shard to itself (docs/internals/server.md, "Many rows at once"), beside readers
//! and others that load the same keys, while messages are lost and shards and coordinators die: nobody but who loads them sees rows
//! before their commit, and of each load all of them are there in the end, or none.

use crate::world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::world::World;
use crate::world::script::Sessions;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::{Check, Simulated};
use weir_sim::calls::{Report, Script, Setup};
use weir_sim::network::Faults;
use weir_txn::exec::gather::Gather;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Callee, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_txn::storage::Rows;
use weir_types::interrupt::Budget;
use weir_types::{SqlError, SqlState, Value};

const SCHEMA: &str = "
CREATE TABLE item (load integer, n integer, PRIMARY KEY (load, n));
COMMENT ON TABLE item IS 'weir: partition by (load)';
CREATE TABLE part (load integer, n integer, PRIMARY KEY (load, n));
COMMENT ON TABLE part IS 'weir: partition by (load)';
CREATE PROCEDURE go(l integer) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM item WHERE load = l;
END $$;
";

const WORKLOAD: &str = "
[mix]
go = 1
[parameters.go]
l = \"uniform(1, 4)\"
";

const ITEM: &str = "INSERT INTO item VALUES ($1, $2)";
const PART: &str = "INSERT INTO part VALUES ($1, $2)";
const COUNT: &str = "SELECT count(*)::int FROM item WHERE load = $1::int";

const BATCH: i64 = 5;
const BATCHES: i64 = 3;
const WHOLE: i64 = BATCH * BATCHES;
/// Loads above are of one session alone, and never go.
const SHARED: i64 = 4;

#[derive(Clone, Debug)]
enum Line {
    /// A batch of a load.
    Load(&'static str, i64, i64),
    /// A transaction sees the rows that it has loaded: table and their number.
    OwnCount(i64, i64),
    Count(i64),
    Go(i64),
    Savepoint,
    RollBackTo,
    Commit(i64),
    RollBack,
}

#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    committed: usize,
    /// Loads that were there already.
    refused: usize,
    reads: usize,
    own_reads: usize,
    /// Those that must be there.
    kept: BTreeSet<i64>,
}

struct Loaders {
    chance: Xoshiro256PlusPlus,
    sessions: Sessions<Line>,
    count: Arc<Gather>,
    loads: i64,
    told: Arc<Mutex<Told>>,
}

impl Loaders {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    fn draw(&mut self) -> Vec<Line> {
        self.loads += 1;
        let (shared, own) = (1 + self.below(SHARED as u64), SHARED + self.loads);
        let end = |load| if load % 5 == 0 { Line::RollBack } else { Line::Commit(load) };
        let load = |load| (0..BATCHES).map(move |batch| Line::Load(ITEM, load, batch));
        let part = |batch| Line::Load(PART, own, batch);
        match self.below(9) {
            0 | 1 => vec![Line::Count(shared)],
            2 => vec![Line::Go(shared)],
            3 => load(shared).chain([end(shared)]).collect(),
            4 => load(own).chain([end(own)]).collect(),
            5 => load(own).chain([Line::OwnCount(own, WHOLE), end(own)]).collect(),
            6 => {
                let [one, two, three] = [0, 1, 2].map(|batch| Line::Load(ITEM, own, batch));
                let again = two.clone();
                vec![one, Line::Savepoint, two, part(0), Line::RollBackTo, again, three, end(own)]
            }
            7 => [part(0)].into_iter().chain(load(own)).chain([part(1), end(own)]).collect(),
            // Of several shards.
            _ => load(own).chain(load(shared)).chain([end(own)]).collect(),
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let call = |sql, args: Vec<i64>| world::call(Callee::Text(world::text(sql, 2)), &args);
        let order = match line {
            Line::Load(sql, load, batch) => {
                let rows = (batch * BATCH..(batch + 1) * BATCH).flat_map(|n| [load, n]);
                Order::Call(call(sql, rows.collect()))
            }
            Line::OwnCount(load, _) => Order::Read(self.count.clone(), vec![Value::Int(load)]),
            Line::Count(load) => return Begin::Read(self.count.clone(), vec![Value::Int(load)]),
            Line::Go(load) => {
                return Begin::Call(world::call(Callee::Procedure(0), &[load]));
            }
            Line::Savepoint => Order::Savepoint,
            Line::RollBackTo => Order::RollBackTo(0),
            Line::Commit(_) => Order::Commit,
            Line::RollBack => Order::RollBack,
        };
        Begin::Within(self.sessions.name(session), order)
    }
}

impl Script for Loaders {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let script = self.draw();
        let line = self.sessions.next(session, is_last, || script)?;
        Some(self.begin(session, line))
    }

    fn told(&mut self, session: usize, result: &Result<Output, SqlError>) {
        let mut told = self.told.lock().unwrap();
        let line = self.sessions.told(session);
        let first = || match result.as_ref().ok()?.rows.first()?.first()? {
            Value::Int(count) => Some(*count),
            _ => None,
        };
        match (&line, result) {
            (Line::Count(load), Ok(_)) => {
                told.reads += 1;
                if first().is_none_or(|count| ![0, WHOLE].contains(&count)) {
                    told.wrong.get_or_insert(format!("somebody saw {:?} rows of load {load}", first()));
                }
            }
            (Line::OwnCount(load, count), Ok(_)) => {
                told.own_reads += 1;
                if first() != Some(*count) {
                    told.wrong.get_or_insert(format!("who loads {load} saw {:?} rows of {count}", first()));
                }
            }
            (Line::Commit(load), Ok(_)) => {
                told.committed += 1;
                told.kept.extend((*load > SHARED).then_some(*load));
            }
            (_, Err(error)) if error.state() == SqlState::UNIQUE_VIOLATION => told.refused += 1,
            _ => {}
        }
        match (line, result) {
            (Line::Commit(_) | Line::RollBack, _) => self.sessions.end(session),
            (_, Err(_)) if self.sessions.is_open(session) => self.sessions.say(session, vec![Line::RollBack]),
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.sessions.end(session);
    }
}

fn run(world: &World, setup: Setup<PlantedBugs>) -> (Report, Told) {
    let seed = setup.seed;
    let item = world.application.catalog.table_by_name("item").unwrap().id;
    let told = Arc::new(Mutex::new(Told::default()));
    let heard = told.clone();
    let check: Check = Arc::new(move |rows: &dyn Rows| {
        let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
        for load in world::integers(rows, item, 0) {
            *counts.entry(load).or_default() += 1;
        }
        let kept = heard.lock().unwrap().kept.clone();
        let lost = kept.iter().find(|load| !counts.contains_key(load));
        let half = counts.iter().find(|(_, count)| **count != WHOLE);
        lost.map(|load| format!("load {load} was acknowledged and is not there"))
            .or(half.map(|(load, count)| format!("{count} rows of load {load}")))
    });
    let mut simulated =
        Simulated::new(&world.application, &world.analysis, &world.workload).with_check(check);
    let program = world.program(1);
    let script = Loaders {
        chance: Xoshiro256PlusPlus::seed_from_u64(seed),
        sessions: Sessions::new(),
        count: world::query(&world.application, &program, COUNT),
        loads: 0,
        told: told.clone(),
    };
    world::run(&mut simulated, ("loads", setup), &told, script)
}

#[test]
fn loads_are_there_whole_or_not_at_all() {
    let world = World::of(SCHEMA, WORKLOAD);
    let mut all = Told::default();
    // 156: a read within a transaction comes again, late, after its COMMIT.
    for seed in world::seeds(140..164) {
        let (report, told) = run(&world, setup(seed, PlantedBugs::default()));
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((report.failure, told.wrong), (None, None), "seed {seed}");
        all.committed += told.committed;
        all.refused += told.refused;
        all.reads += told.reads;
        all.own_reads += told.own_reads;
    }
    let is_enough = all.committed > 100 && all.refused > 50 && all.reads > 200 && all.own_reads > 50;
    world::check_reached(is_enough, &all);
}

#[test]
fn readers_that_see_what_is_not_committed_are_caught() {
    let world = World::of(SCHEMA, WORKLOAD);
    let bugs = PlantedBugs { shows_uncommitted: true, ..PlantedBugs::default() };
    world::check_caught("what is not committed", 100, |seed| {
        let (report, told) = run(&world, setup(seed, bugs));
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

fn setup(seed: u64, bugs: PlantedBugs) -> Setup<PlantedBugs> {
    Setup { bugs, calls: 240, ..Setup::new(seed) }
}

/// Every load commits a row at a time. Shards are there again soon after a crash, so that many loads are under way when the next one comes.
fn in_slices(seed: u64, bugs: PlantedBugs) -> Setup<PlantedBugs> {
    let faults = Faults {
        delay_us_max: 2_000,
        loss_per_mille: 10,
        duplicate_per_mille: 50,
        mishap_every_us: 100_000,
        shard_down_us_max: 20_000,
        sync_us_max: 3_000,
        snapshot_every: 30,
        tail_survives: seed % 4 == 1,
        ..Faults::default()
    };
    let faults = (seed % 2 == 1).then_some(faults);
    let step_budget = Some(if seed.is_multiple_of(3) { Budget(0) } else { Budget(u32::MAX) });
    let bugs = PlantedBugs { small_commits: true, ..bugs };
    Setup { faults, step_budget, ..setup(seed, bugs) }
}

#[test]
fn loads_that_commit_in_slices_are_there_whole_or_not_at_all() {
    let world = World::of(SCHEMA, WORKLOAD);
    let (mut all, mut restarts) = (Told::default(), 0);
    for seed in world::seeds(0..24) {
        let (report, told) = run(&world, in_slices(seed, PlantedBugs::default()));
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((report.failure, told.wrong), (None, None), "seed {seed}");
        all.committed += told.committed;
        all.refused += told.refused;
        all.reads += told.reads;
        all.own_reads += told.own_reads;
        restarts += report.restarts;
    }
    let is_enough = all.committed > 100 && all.refused > 50 && all.reads > 200 && all.own_reads > 50;
    world::check_reached(is_enough && restarts > 20, &(all, restarts));
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let world = World::of(SCHEMA, WORKLOAD);
    world::check_caught(name, 300, |seed| {
        let (report, told) = run(&world, in_slices(seed, bugs));
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

#[test]
fn half_a_commit_that_is_seen_is_caught() {
    check_caught("half a commit", PlantedBugs { shows_ahead: true, ..PlantedBugs::default() });
}

#[test]
fn half_a_commit_that_a_crash_leaves_is_caught() {
    check_caught(
        "rows without a commit",
        PlantedBugs { recovery_counts_unfinished: true, ..PlantedBugs::default() },
    );
}

#[test]
fn a_commit_whose_rows_a_crash_loses_is_caught() {
    check_caught(
        "a commit without rows",
        PlantedBugs { recovery_forgets_rows: true, ..PlantedBugs::default() },
    );
}
