//! Foreign keys that wait for the end of their transaction, while messages are lost and shards and coordinators die: no child is left
//! without its parent, whoever comes first (docs/internals/server.md, "Deferred constraints").

use crate::world;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::world::World;
use crate::world::script::Sessions;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::{Check, Simulated};
use weir_sim::calls::{Report, Script, Setup};
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Callee, Output, Setting};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_txn::storage::Rows;
use weir_types::{SqlError, SqlState};

const SCHEMA: &str = "
CREATE TABLE parent (id integer PRIMARY KEY);
CREATE TABLE child (parent integer NOT NULL REFERENCES parent DEFERRABLE INITIALLY DEFERRED, id integer NOT NULL, PRIMARY KEY (parent, id));
COMMENT ON TABLE child IS 'weir: partition by (parent)';
CREATE PROCEDURE adopt(p integer, c integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO child VALUES (p, c);
END $$;
CREATE PROCEDURE leave(p integer) LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM parent WHERE id = p;
    DELETE FROM child WHERE parent = p;
END $$;
CREATE PROCEDURE come(p integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO parent VALUES (p);
END $$;
";

const WORKLOAD: &str = "
[load.parent]
for = [\"a in 1..4\"]
id = \"a\"
[mix]
leave = 1
[parameters.leave]
p = \"uniform(1, 8)\"
";

const CHILD: &str = "INSERT INTO child VALUES ($1, $2)";
const PARENT: &str = "INSERT INTO parent VALUES ($1)";
const PARENT_GOES: &str = "DELETE FROM parent WHERE id = $1";
const CHILDREN_GO: &str = "DELETE FROM child WHERE parent = $1";

#[derive(Clone, Debug)]
enum Line {
    Call(usize, Vec<i64>),
    Sql(&'static str, Vec<i64>),
    Look,
    Commit,
    RollBack,
}

#[derive(Debug, Default)]
struct Told {
    committed: usize,
    /// COMMITs, and looks before, that found a child without a parent.
    refused: usize,
}

struct Families {
    chance: Xoshiro256PlusPlus,
    sessions: Sessions<Line>,
    told: Arc<Mutex<Told>>,
}

impl Families {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    fn draw(&mut self) -> Vec<Line> {
        let (p, q, c) = (1 + self.below(8), 1 + self.below(8), 1 + self.below(1_000_000));
        let end = if self.below(6) == 0 { Line::RollBack } else { Line::Commit };
        let child = |of: i64| Line::Sql(CHILD, vec![of, c]);
        match self.below(10) {
            0 => vec![Line::Call(0, vec![p, c])],
            1 => vec![Line::Call(1, vec![p])],
            2 => vec![Line::Call(2, vec![p])],
            3 | 4 => vec![child(p), Line::Sql(PARENT, vec![p]), end],
            5 => vec![child(p), child(q), end],
            6 => vec![Line::Sql(PARENT_GOES, vec![p]), Line::Sql(CHILDREN_GO, vec![p]), child(q), end],
            7 => vec![Line::Sql(PARENT_GOES, vec![p]), Line::Sql(PARENT, vec![p]), end],
            8 => vec![Line::Sql(PARENT_GOES, vec![p]), end],
            _ => vec![child(p), Line::Look, child(q), end],
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let order = match line {
            Line::Call(procedure, args) => {
                return Begin::Call(world::call(Callee::Procedure(procedure), &args));
            }
            Line::Sql(sql, args) => Order::Call(world::statement(sql, &args)),
            Line::Look => Order::Constraints(Setting { names: None, deferred: false }),
            Line::Commit => Order::Commit,
            Line::RollBack => Order::RollBack,
        };
        Begin::Within(self.sessions.name(session), order)
    }
}

impl Script for Families {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let script = self.draw();
        let line = self.sessions.next(session, is_last, || script)?;
        Some(self.begin(session, line))
    }

    fn told(&mut self, session: usize, result: &Result<Output, SqlError>) {
        let mut told = self.told.lock().unwrap();
        let (line, is_open) = (self.sessions.told(session), self.sessions.is_open(session));
        let is_orphan = result.as_ref().is_err_and(|error| error.state() == SqlState::FOREIGN_KEY_VIOLATION);
        told.refused += usize::from(is_orphan && is_open);
        match (line, result) {
            (Line::Commit | Line::RollBack, result) => {
                told.committed += usize::from(result.is_ok());
                self.sessions.end(session);
            }
            (_, Err(_)) => {
                self.sessions.say(session, if is_open { vec![Line::RollBack] } else { Vec::new() })
            }
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.sessions.end(session);
    }
}

fn run(world: &World, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
    let table = |name: &str| world.application.catalog.table_by_name(name).unwrap().id;
    let (parent, child) = (table("parent"), table("child"));
    let check: Check = Arc::new(move |rows: &dyn Rows| {
        let keys = |table| -> BTreeSet<i64> { world::integers(rows, table, 0).into_iter().collect() };
        let orphans = &keys(child) - &keys(parent);
        (!orphans.is_empty()).then(|| format!("children of {orphans:?}, who are not there"))
    });
    let mut simulated =
        Simulated::new(&world.application, &world.analysis, &world.workload).with_check(check);
    let told = Arc::new(Mutex::new(Told::default()));
    let script = Families {
        chance: Xoshiro256PlusPlus::seed_from_u64(seed),
        sessions: Sessions::new(),
        told: told.clone(),
    };
    let setup = Setup { bugs, calls: 240, ..Setup::new(seed) };
    world::run(&mut simulated, ("deferred", setup), &told, script)
}

#[test]
fn no_child_is_left_without_its_parent() {
    let world = World::of(SCHEMA, WORKLOAD);
    let (mut committed, mut refused) = (0, 0);
    for seed in world::seeds(0..24) {
        let (report, told) = run(&world, seed, PlantedBugs::default());
        println!("seed {seed}: {report} {told:?}");
        assert_eq!(report.failure, None, "seed {seed}: {report}");
        committed += told.committed;
        refused += told.refused;
    }
    world::check_reached(committed > 100 && refused > 100, &[committed, refused]);
}

#[test]
fn commits_that_do_not_look_are_caught() {
    let world = World::of(SCHEMA, WORKLOAD);
    let bugs = PlantedBugs { forgets_deferred: true, ..PlantedBugs::default() };
    world::check_caught("deferred constraints", 100, |seed| {
        run(&world, seed, bugs).0.failure.map(|failure| format!("{failure:?}"))
    });
}
