//! Foreign keys between rows of different shards, while messages are lost and shards and coordinators die: no child is left without its
//! parent, whoever comes first (docs/internals/global-keys.md).

use crate::world;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::world::World;
use crate::world::script::Sessions;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::{Check, Simulated};
use weir_sim::calls::{Report, Script, Setup};
use weir_sql::catalog::TableId;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Callee, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_txn::storage::Rows;
use weir_types::{SqlError, SqlState};

/// Children live by their own numbers. Those of `note` refer to a key that does not say where the parent lives; those of `line`, too, and they
/// live at the shard that owns it. `bear` inserts a parent and its children in one call.
const SCHEMA: &str = "
CREATE TABLE parent (id integer PRIMARY KEY, code integer NOT NULL UNIQUE);
COMMENT ON TABLE parent IS 'weir: partition by (id)';
CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent);
COMMENT ON TABLE child IS 'weir: partition by (id)';
CREATE INDEX ON child (parent);
CREATE TABLE ward (id integer PRIMARY KEY, parent integer REFERENCES parent ON DELETE CASCADE);
COMMENT ON TABLE ward IS 'weir: partition by (id)';
CREATE TABLE note (id integer PRIMARY KEY, code integer REFERENCES parent (code) ON DELETE CASCADE ON UPDATE CASCADE);
COMMENT ON TABLE note IS 'weir: partition by (id)';
CREATE TABLE line (code integer REFERENCES parent (code) ON DELETE CASCADE, n integer, PRIMARY KEY (code, n));
COMMENT ON TABLE line IS 'weir: partition by (code)';
CREATE PROCEDURE adopt(c integer, p integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO child VALUES (c, p); END $$;
CREATE PROCEDURE guard(c integer, p integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO ward VALUES (c, p); END $$;
CREATE PROCEDURE leave(p integer) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM parent WHERE id = p; END $$;
CREATE PROCEDURE come(p integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO parent VALUES (p, p + 100); END $$;
CREATE PROCEDURE bear(p integer, c integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO parent VALUES (p, p + 100);
    INSERT INTO note VALUES (c, p + 100);
    INSERT INTO line VALUES (p + 100, c);
END $$;
";

const WORKLOAD: &str = "
[load.parent]
for = [\"a in 1..8\"]
id = \"a\"
code = \"100 + a\"
[load.child]
for = [\"a in 1..12\"]
id = \"a\"
parent = \"1 + a % 8\"
[mix]
leave = 1
[parameters.leave]
p = \"uniform(1, 8)\"
";

const CHILD: &str = "INSERT INTO child VALUES ($1, $2)";
const PARENT: &str = "INSERT INTO parent VALUES ($1, $1 + 100)";
const MOVES: &str = "UPDATE child SET parent = $2 WHERE id = $1";
const CHILD_GOES: &str = "UPDATE child SET parent = NULL WHERE parent = $1";
const PARENT_GOES: &str = "DELETE FROM parent WHERE id = $1";
const NOTE: &str = "INSERT INTO note VALUES ($1, $2 + 100)";
const NOTE_GOES: &str = "DELETE FROM note WHERE id = $1";
const KEY_CHANGES: &str = "UPDATE parent SET code = 309 - code WHERE id = $1";
const LINE: &str = "INSERT INTO line VALUES ($1 + 100, $2)";
const WARD: &str = "INSERT INTO ward SELECT $1, $2";

#[derive(Clone, Debug)]
enum Line {
    Call(usize, Vec<i64>),
    Single(&'static str, Vec<i64>),
    /// The same, of rows of nobody else.
    Own(&'static str, Vec<i64>),
    OwnCall(usize, Vec<i64>),
    Sql(&'static str, Vec<i64>),
    Commit,
    RollBack,
}

#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    committed: usize,
    /// Statements and calls that found no parent, or children.
    refused: usize,
    done: usize,
}

struct Families {
    chance: Xoshiro256PlusPlus,
    sessions: Sessions<Line>,
    /// Parents of one session each.
    fresh: i64,
    told: Arc<Mutex<Told>>,
}

impl Families {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    /// Of a parent that nobody else knows: it is there as soon as it is acknowledged, and goes when its children have gone.
    fn draw_own(&mut self) -> Vec<Line> {
        self.fresh += 1;
        let p = self.fresh;
        let own = |sql, args: &[i64]| Line::Own(sql, args.to_vec());
        if self.below(2) == 0 {
            let child = 20_000_000 + self.below(1_000_000_000);
            return vec![Line::OwnCall(4, vec![p, child]), own(LINE, &[p, p]), own(PARENT_GOES, &[p])];
        }
        let children = [own(CHILD, &[p, p]), own(NOTE, &[p, p]), own(CHILD_GOES, &[p])];
        [own(PARENT, &[p])].into_iter().chain(children).chain([own(PARENT_GOES, &[p])]).collect()
    }

    fn draw(&mut self) -> Vec<Line> {
        let (p, q, c) = (1 + self.below(8), 1 + self.below(8), 1 + self.below(12));
        let new = 1_000 + self.below(1_000_000);
        let end = if self.below(6) == 0 { Line::RollBack } else { Line::Commit };
        match self.below(20) {
            0 | 1 => vec![Line::Call(0, vec![new, p])],
            2 => vec![Line::Call(1, vec![new, p])],
            3 => vec![Line::Call(2, vec![p])],
            4 => vec![Line::Call(3, vec![p])],
            5 => vec![Line::Single(MOVES, vec![c, p])],
            6 => vec![Line::Single(PARENT_GOES, vec![p])],
            7 => vec![Line::Single(PARENT, vec![p])],
            8 => vec![Line::Single(NOTE, vec![new, p])],
            9 => vec![Line::Single(KEY_CHANGES, vec![p])],
            10 => vec![Line::Sql(CHILD_GOES, vec![p]), Line::Sql(PARENT_GOES, vec![p]), end],
            11 => vec![Line::Sql(MOVES, vec![c, p]), Line::Sql(MOVES, vec![1 + c % 12, q]), end],
            12 => vec![Line::Sql(NOTE, vec![new, p]), Line::Sql(WARD, vec![new, p]), end],
            13 => vec![
                Line::Sql(NOTE, vec![new, p]),
                Line::Sql(NOTE_GOES, vec![new]),
                Line::Sql(NOTE, vec![new, q]),
                end,
            ],
            14 => vec![
                Line::Sql(CHILD_GOES, vec![p]),
                Line::Sql(PARENT_GOES, vec![p]),
                Line::Sql(PARENT, vec![p]),
                Line::Sql(CHILD, vec![new, p]),
                end,
            ],
            15 => vec![Line::Single(WARD, vec![new, p])],
            _ => self.draw_own(),
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let order = match line {
            Line::Call(procedure, args) | Line::OwnCall(procedure, args) => {
                return Begin::Call(world::call(Callee::Procedure(procedure), &args));
            }
            Line::Single(sql, args) | Line::Own(sql, args) => {
                return Begin::Call(world::statement(sql, &args));
            }
            Line::Sql(sql, args) => Order::Call(world::statement(sql, &args)),
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
        if let Err(error) = result {
            told.refused += usize::from(error.state() == SqlState::FOREIGN_KEY_VIOLATION);
            let is_own = matches!(line, Line::Own(..) | Line::OwnCall(..))
                && error.state() == SqlState::FOREIGN_KEY_VIOLATION;
            if is_own || ["XX000", "0A000"].contains(&error.state().as_str()) {
                told.wrong.get_or_insert(format!("{line:?}: {}", error.message()));
            }
        }
        match (line, result) {
            (Line::Commit | Line::RollBack, result) => {
                told.committed += usize::from(result.is_ok());
                self.sessions.end(session);
            }
            (_, Err(_)) => {
                self.sessions.say(session, if is_open { vec![Line::RollBack] } else { Vec::new() })
            }
            (Line::Single(..) | Line::Own(..) | Line::Call(..) | Line::OwnCall(..), Ok(_)) => told.done += 1,
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.sessions.end(session);
    }
}

fn orphans(rows: &dyn Rows, [parent, child, ward, note, line]: [TableId; 5]) -> Option<String> {
    let values =
        |table, column| -> BTreeSet<i64> { world::integers(rows, table, column).into_iter().collect() };
    let all = [((child, 1), 0), ((ward, 1), 0), ((note, 1), 1), ((line, 0), 1)];
    all.into_iter().find_map(|((table, refers), column)| {
        let orphans = &values(table, refers) - &values(parent, column);
        (!orphans.is_empty()).then(|| format!("{table:?} refers to {orphans:?}, which are not there"))
    })
}

fn run(world: &World, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
    let table = |name: &str| world.application.catalog.table_by_name(name).unwrap().id;
    let tables = ["parent", "child", "ward", "note", "line"].map(table);
    let check: Check = Arc::new(move |rows: &dyn Rows| orphans(rows, tables));
    let mut simulated =
        Simulated::new(&world.application, &world.analysis, &world.workload).with_check(check);
    let told = Arc::new(Mutex::new(Told::default()));
    let script = Families {
        chance: Xoshiro256PlusPlus::seed_from_u64(seed),
        sessions: Sessions::new(),
        fresh: 10_000_000,
        told: told.clone(),
    };
    let setup = Setup { bugs, calls: 240, shards: Some(2 + (seed % 3) as u16), ..Setup::new(seed) };
    world::run(&mut simulated, ("foreign-keys", setup), &told, script)
}

#[test]
fn no_child_of_another_shard_is_left_without_its_parent() {
    let world = World::of(SCHEMA, WORKLOAD);
    let mut all = Told::default();
    for seed in world::seeds(0..24) {
        let (report, told) = run(&world, seed, PlantedBugs::default());
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((&report.failure, &told.wrong), (&None, &None), "seed {seed}: {report}");
        all.committed += told.committed;
        all.refused += told.refused;
        all.done += told.done;
    }
    println!("{all:?}");
    world::check_reached(all.committed > 100 && all.refused > 100 && all.done > 100, &all);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let world = World::of(SCHEMA, WORKLOAD);
    world::check_caught(name, 200, |seed| {
        let (report, told) = run(&world, seed, bugs);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

#[test]
fn parents_that_are_not_held_are_caught() {
    check_caught("held parents", PlantedBugs { holds_no_parent: true, ..PlantedBugs::default() });
}

#[test]
fn entries_that_are_not_held_are_caught() {
    check_caught("held entries", PlantedBugs { shares_no_entry: true, ..PlantedBugs::default() });
}

#[test]
fn prepared_children_that_are_missed_are_caught() {
    check_caught(
        "prepared children",
        PlantedBugs { misses_prepared_children: true, ..PlantedBugs::default() },
    );
}

#[test]
fn prepared_parents_that_are_missed_are_caught() {
    check_caught("prepared parents", PlantedBugs { misses_prepared_parents: true, ..PlantedBugs::default() });
}

#[test]
fn parents_that_are_asked_for_too_early_are_caught() {
    check_caught(
        "parents of the same call",
        PlantedBugs { asks_no_parent_again: true, ..PlantedBugs::default() },
    );
}
