//! Tables that every shard has a copy of, and rows that move from shard to shard, while messages are lost and shards and coordinators die: all
//! copies agree in the end, readers see transfers between copied rows as a whole, and a row that only one session moves is where that has put
//! it (docs/internals/global-keys.md).

use crate::world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::world::World;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::Simulated;
use weir_sim::calls::{Report, Script, Setup};
use weir_txn::exec::gather::Gather;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::Output;
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_types::{SqlError, Value};

const SCHEMA: &str = "
CREATE TABLE rate (code integer PRIMARY KEY, value integer NOT NULL, label integer UNIQUE);
COMMENT ON TABLE rate IS 'weir: replicated';
CREATE TABLE booking (id integer PRIMARY KEY, room integer NOT NULL, rate integer REFERENCES rate ON DELETE SET NULL);
COMMENT ON TABLE booking IS 'weir: partition by (room)';
CREATE INDEX ON booking (rate);
CREATE PROCEDURE nothing(i integer) LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN SELECT value INTO n FROM rate WHERE code = i; END $$;
CREATE PROCEDURE book(i integer, r integer, c integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO booking VALUES (i, r, c); END $$;
CREATE PROCEDURE rebook(i integer, r integer, c integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE booking SET rate = c WHERE id = i AND room = r; END $$;
CREATE PROCEDURE drop_rate(i integer) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM rate WHERE code = i; END $$;
";

const WORKLOAD: &str = "
[load.rate]
for = [\"r in 1..8\"]
code = \"r\"
value = \"100\"
label = \"r\"
[load.booking]
for = [\"b in 1..8\"]
id = \"b\"
room = \"b\"
rate = \"b\"
[mix]
nothing = 1
[parameters.nothing]
i = \"uniform(1, 8)\"
";

/// The sum of two rates.
const TOGETHER: i64 = 200;

const MOVE: &str = "UPDATE booking SET room = $2 WHERE id = $1";
const GIVE: &str = "UPDATE rate SET value = value + $2 WHERE code = $1";
const TAKE: &str = "UPDATE rate SET value = value - $2 WHERE code = $1";

struct Hotel {
    world: World,
    sum: Arc<Gather>,
}

/// Results of all sessions.
#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    committed: usize,
    reads: usize,
    moved: usize,
    refused: usize,
}

#[derive(Clone, Debug)]
enum Line {
    /// A statement by itself; with the number of rows that it has to write, if that is certain.
    Single(&'static str, Vec<i64>, Option<i64>),
    Sql(&'static str, Vec<i64>),
    Sum,
    Savepoint,
    RollBackTo,
    Commit,
    RollBack,
}

#[derive(Debug, Default)]
struct Session {
    name: Option<u64>,
    /// Remaining steps, the next one last.
    script: Vec<Line>,
    under_way: Option<Line>,
}

struct Guests<'h> {
    hotel: &'h Hotel,
    chance: Xoshiro256PlusPlus,
    sessions: BTreeMap<usize, Session>,
    names: u64,
    fresh: i64,
    told: Arc<Mutex<Told>>,
}

impl Hotel {
    fn open() -> Hotel {
        let world = World::of(SCHEMA, WORKLOAD);
        let program = world.program(1);
        let sum = "SELECT sum(value)::int FROM rate WHERE code IN (1, 2)";
        let sum = world::query(&world.application, &program, sum);
        Hotel { world, sum }
    }

    fn run(&self, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
        let setup = Setup { bugs, calls: 220, shards: Some(2 + (seed % 3) as u16), ..Setup::new(seed) };
        let told = Arc::new(Mutex::new(Told::default()));
        let mut simulated =
            Simulated::new(&self.world.application, &self.world.analysis, &self.world.workload);
        let guests = Guests {
            hotel: self,
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            sessions: BTreeMap::new(),
            names: 0,
            fresh: 1_000,
            told: told.clone(),
        };
        world::run(&mut simulated, ("copies", setup), &told, guests)
    }
}

impl Guests<'_> {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    /// In the order in which it is done.
    fn draw(&mut self) -> Vec<Line> {
        self.fresh += 1;
        let (id, room, other) = (self.fresh, self.below(40), self.below(40));
        let (code, booking, by) = (1 + self.below(8), 1 + self.below(8), 1 + self.below(9));
        let end = if self.below(5) == 0 { Line::RollBack } else { Line::Commit };
        match self.below(10) {
            0 | 1 => vec![Line::Sum],
            // Only this session knows these rows.
            2 => vec![
                Line::Single("INSERT INTO booking VALUES ($1, $2, 1)", vec![id, room], Some(1)),
                Line::Single(MOVE, vec![id, other], Some(1)),
                Line::Single(MOVE, vec![id, room], Some(1)),
                Line::Single("DELETE FROM booking WHERE id = $1 AND room = $2", vec![id, room], Some(1)),
            ],
            3 => vec![
                Line::Single("INSERT INTO rate VALUES ($1, $2, NULL)", vec![id, by], Some(1)),
                Line::Single(
                    "UPDATE rate SET value = value + 1 WHERE code = $1 AND value = $2",
                    vec![id, by],
                    Some(1),
                ),
                Line::Single("DELETE FROM rate WHERE code = $1 AND value = $2", vec![id, by + 1], Some(1)),
            ],
            4 => vec![Line::Sql(TAKE, vec![1, by]), Line::Sql(GIVE, vec![2, by]), end],
            5 => vec![
                Line::Sql(TAKE, vec![2, by]),
                Line::Savepoint,
                Line::Sql(GIVE, vec![code, by]),
                Line::RollBackTo,
                Line::Sql(GIVE, vec![1, by]),
                end,
            ],
            6 => vec![Line::Single("DELETE FROM rate WHERE code = $1 AND code > $2", vec![code, 3], None)],
            7 => vec![Line::Single(
                "INSERT INTO rate VALUES ($1, 7, $2) ON CONFLICT DO NOTHING",
                vec![code.max(3), by],
                None,
            )],
            8 => vec![
                Line::Single(MOVE, vec![booking, room], None),
                Line::Single("UPDATE booking SET rate = $2 WHERE id = $1", vec![booking, code], None),
            ],
            _ => vec![
                Line::Sql(MOVE, vec![booking, room]),
                Line::Sql("UPDATE rate SET label = $2 WHERE code = $1", vec![code, by]),
                Line::Savepoint,
                Line::Sql(MOVE, vec![booking, other]),
                Line::RollBackTo,
                Line::Sql("UPDATE booking SET rate = $2, room = room + 1 WHERE id = $1", vec![booking, code]),
                end,
            ],
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let of = self.sessions.entry(session).or_default();
        of.under_way = Some(line.clone());
        let order = match line {
            Line::Single(sql, args, _) => return Begin::Call(world::statement(sql, &args)),
            Line::Sum => return Begin::Read(self.hotel.sum.clone(), Vec::new()),
            Line::Sql(sql, args) => Order::Call(world::statement(sql, &args)),
            Line::Savepoint => Order::Savepoint,
            Line::RollBackTo => Order::RollBackTo(0),
            Line::Commit => Order::Commit,
            Line::RollBack => Order::RollBack,
        };
        let name = *of.name.get_or_insert_with(|| {
            self.names += 1;
            self.names
        });
        Begin::Within(name, order)
    }
}

impl Script for Guests<'_> {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let has_open = self.sessions.entry(session).or_default().name.is_some();
        if is_last && !has_open {
            return None;
        }
        if self.sessions[&session].script.is_empty() {
            let mut script = self.draw();
            script.reverse();
            self.sessions.entry(session).or_default().script = script;
        }
        let line = self.sessions.get_mut(&session)?.script.pop()?;
        Some(self.begin(session, line))
    }

    fn told(&mut self, session: usize, result: &Result<Output, SqlError>) {
        let mut told = self.told.lock().unwrap();
        let of = self.sessions.entry(session).or_default();
        let line = of.under_way.take().expect("something was under way");
        match (&line, result) {
            (Line::Sum, Ok(output)) => {
                told.reads += 1;
                let seen = output.rows.first().and_then(|row| row.first());
                if seen != Some(&Value::Int(TOGETHER)) {
                    told.wrong.get_or_insert(format!("a reader saw {seen:?} of {TOGETHER}"));
                }
            }
            (Line::Commit | Line::RollBack, _) => {
                told.committed += usize::from(matches!((&line, result), (Line::Commit, Ok(_))));
                *of = Session::default();
            }
            (Line::Single(.., Some(rows)), Ok(output)) => {
                told.moved += 1;
                if output.values.first() != Some(&Value::Int(*rows)) {
                    told.wrong.get_or_insert(format!("{line:?} has written {:?}", output.values));
                }
            }
            (_, Err(error)) => {
                told.refused += 1;
                if ["XX000", "0A000"].contains(&error.state().as_str()) {
                    told.wrong.get_or_insert(format!("{line:?}: {}", error.message()));
                }
                of.script = if of.name.is_some() { vec![Line::RollBack] } else { Vec::new() };
            }
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.sessions.insert(session, Session::default());
    }
}

#[test]
fn copies_agree_and_rows_are_where_they_were_moved() {
    let hotel = Hotel::open();
    let mut all = Told::default();
    for seed in world::seeds(0..16) {
        let (report, told) = hotel.run(seed, PlantedBugs::default());
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((&report.failure, &told.wrong), (&None, &None), "seed {seed}: {report}");
        all.committed += told.committed;
        all.reads += told.reads;
        all.moved += told.moved;
    }
    println!("{all:?}");
    world::check_reached(all.committed > 50 && all.reads > 50 && all.moved > 50, &all);
}

#[test]
fn copies_that_do_not_wait_for_each_other_are_caught() {
    let hotel = Hotel::open();
    let bugs = PlantedBugs { misses_prepared_copies: true, ..PlantedBugs::default() };
    world::check_caught("overtaken copies", 100, |seed| {
        let (report, told) = hotel.run(seed, bugs);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}
