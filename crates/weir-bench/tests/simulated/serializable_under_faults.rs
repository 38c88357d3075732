//! Serializable transactions while messages are lost and shards and coordinators die, beside statements by themselves and calls over
//! several shards: what all of them have read and written is strictly serializable (docs/internals/serializable.md).
//!
//! Every transaction writes one tag of its own. A register keeps the tag that was there before, so the order of its writes is known; rows
//! of groups come and do not go, so a reader that misses one has read before it came. The graph of these dependencies, and of who had ended
//! before who began, must have no circle.

pub mod history;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::Check;
use weir_sim::calls::{Report, Script, Setup};
use weir_txn::exec::gather::Gather;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Callee, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_txn::storage::Rows;
use weir_types::{SqlError, Value};

use self::history::{End, Final, History, Seen};
use crate::world::{self, World};

const SCHEMA: &str = "
CREATE TABLE reg (id integer PRIMARY KEY, value integer NOT NULL, prev integer NOT NULL);
CREATE TABLE item (grp integer, tag integer, PRIMARY KEY (grp, tag));
COMMENT ON TABLE item IS 'weir: partition by (grp)';
CREATE TABLE once (id integer PRIMARY KEY, tag integer NOT NULL);
CREATE TABLE done (tag integer PRIMARY KEY);
CREATE PROCEDURE spread(g integer, h integer, t integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO item VALUES (g, t);
    INSERT INTO item VALUES (h, t);
    INSERT INTO done VALUES (t);
END $$;
";

const WORKLOAD: &str = "
[load.reg]
for = [\"a in 1..4\"]
id = \"a\"
value = \"0\"
prev = \"0\"
[mix]
spread = 1
[parameters.spread]
g = \"uniform(1, 4)\"
h = \"uniform(1, 4)\"
t = \"uniform(1, 9)\"
";

const SET: &str = "UPDATE reg SET prev = value, value = $2 WHERE id = $1 RETURNING prev";
const ADD: &str = "INSERT INTO item VALUES ($1, $2)";
const ADD_ONCE: &str = "INSERT INTO once VALUES ($1, $2) ON CONFLICT DO NOTHING";
const DONE: &str = "INSERT INTO done VALUES ($1)";

struct Store {
    world: World,
    register: Arc<Gather>,
    group: Arc<Gather>,
    all: Arc<Gather>,
    once: Arc<Gather>,
}

#[derive(Debug, Default)]
struct Told {
    history: History,
    committed: usize,
    serialization_failures: usize,
    /// Committed after a roll-back to a savepoint.
    taken_back: usize,
}

impl Store {
    fn open() -> Store {
        let world = World::of(SCHEMA, WORKLOAD);
        let program = world.program(1);
        let gather = |sql: &str| world::query(&world.application, &program, sql);
        let register = gather("SELECT value FROM reg WHERE id = $1::int");
        let group = gather("SELECT grp, tag FROM item WHERE grp = $1::int");
        let all = gather("SELECT grp, tag FROM item");
        let once = gather("SELECT tag FROM once WHERE id = $1::int");
        Store { world, register, group, all, once }
    }

    fn run(&self, setup: Setup<PlantedBugs>) -> (Report, Told) {
        let seed = setup.seed;
        let [item, once, done] = ["item", "once", "done"]
            .map(|name| self.world.application.catalog.table_by_name(name).unwrap().id);
        let told = Arc::new(Mutex::new(Told::default()));
        let heard = told.clone();
        let check: Check = Arc::new(move |rows: &dyn Rows| {
            let all = |table, column| world::integers(rows, table, column);
            let there = Final {
                done: all(done, 0).into_iter().collect(),
                items: all(item, 0).into_iter().zip(all(item, 1)).collect(),
                once: all(once, 0).into_iter().zip(all(once, 1)).collect(),
            };
            heard.lock().unwrap().history.violation(&there)
        });
        let mut simulated = self.world.simulated().with_check(check);
        let clients = Clients {
            store: self,
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            sessions: BTreeMap::new(),
            tags: 0,
            told: told.clone(),
        };
        world::run(&mut simulated, ("serializable", setup), &told, clients)
    }
}

#[derive(Clone, Debug)]
enum Line {
    Begin,
    Read(i64),
    Set(i64),
    Group(i64),
    All,
    Add(i64),
    Once(i64),
    AddOnce(i64),
    Done,
    Savepoint,
    RollBackTo,
    Commit,
    RollBack,
    /// By itself.
    SetAlone(i64),
    Both(i64, i64),
}

#[derive(Debug, Default)]
struct Session {
    /// Name of its open transaction, and tag of what it does.
    open: Option<u64>,
    tag: i64,
    /// Remaining lines, the next one last.
    script: Vec<Line>,
    under_way: Option<Line>,
    takes_back: bool,
}

struct Clients<'s> {
    store: &'s Store,
    chance: Xoshiro256PlusPlus,
    sessions: BTreeMap<usize, Session>,
    tags: i64,
    told: Arc<Mutex<Told>>,
}

impl Clients<'_> {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    fn some(&mut self) -> i64 {
        1 + self.below(4)
    }

    fn read(&mut self) -> Line {
        let which = self.some();
        match self.below(8) {
            0..=2 => Line::Read(which),
            3..=5 => Line::Group(which),
            6 => Line::All,
            _ => Line::Once(1 + self.below(40)),
        }
    }

    fn write(&mut self) -> Line {
        let which = self.some();
        match self.below(6) {
            0..=1 => Line::Set(which),
            2..=4 => Line::Add(which),
            _ => Line::AddOnce(1 + self.below(40)),
        }
    }

    fn draw(&mut self) -> Vec<Line> {
        match self.below(10) {
            0..=1 => return vec![Line::SetAlone(self.some())],
            2 => return vec![Line::Both(self.some(), self.some())],
            _ => {}
        }
        let mut lines = vec![Line::Begin];
        for _ in 0..1 + self.below(2) {
            lines.push(self.read());
        }
        match self.below(6) {
            // It only reads.
            0 => lines.push(self.read()),
            1 => {
                let undone = self.write();
                let read = self.read();
                let kept = self.write();
                // What a savepoint takes back was read all the same.
                lines.extend([Line::Savepoint, read, undone, Line::RollBackTo, kept, Line::Done]);
            }
            _ => {
                for _ in 0..1 + self.below(2) {
                    lines.push(self.write());
                }
                lines.push(Line::Done);
            }
        }
        lines.push(if self.below(12) == 0 { Line::RollBack } else { Line::Commit });
        lines
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let store = self.store;
        let is_first = matches!(line, Line::Begin | Line::SetAlone(_) | Line::Both(..));
        if is_first {
            self.tags += 1;
        }
        let of = self.sessions.entry(session).or_default();
        of.under_way = Some(line.clone());
        if is_first {
            of.tag = self.tags;
            let is_alone = matches!(line, Line::SetAlone(_));
            self.told.lock().unwrap().history.begin(of.tag, is_alone);
        }
        let tag = of.tag;
        let call = |sql: &str, args: &[i64]| Order::Call(world::statement(sql, args));
        let read = |gather: &Arc<Gather>, args: &[i64]| {
            Order::Read(gather.clone(), args.iter().map(|arg| Value::Int(*arg)).collect())
        };
        let order = match line {
            Line::SetAlone(id) => return Begin::Call(world::statement(SET, &[id, tag])),
            Line::Both(g, h) => {
                // Different groups, or a key would be inserted twice.
                let h = if g == h { 1 + g % 4 } else { h };
                return Begin::Call(world::call(Callee::Procedure(0), &[g, h, tag]));
            }
            Line::Begin => Order::Serializable(true),
            Line::Read(id) => read(&store.register, &[id]),
            Line::Group(grp) => read(&store.group, &[grp]),
            Line::All => read(&store.all, &[]),
            Line::Once(id) => read(&store.once, &[id]),
            Line::Set(id) => call(SET, &[id, tag]),
            Line::Add(grp) => call(ADD, &[grp, tag]),
            Line::AddOnce(id) => call(ADD_ONCE, &[id, tag]),
            Line::Done => call(DONE, &[tag]),
            Line::Savepoint => Order::Savepoint,
            Line::RollBackTo => Order::RollBackTo(0),
            Line::Commit => Order::Commit,
            Line::RollBack => Order::RollBack,
        };
        Begin::Within(*of.open.get_or_insert(tag as u64), order)
    }

    /// Events that the result of the line shows.
    fn seen(line: &Line, output: &Output) -> Vec<Seen> {
        let int = |value: &Value| match value {
            Value::Int(value) => *value,
            other => panic!("{other:?}"),
        };
        let pairs = || output.rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect();
        let first = || output.rows.first().map(|row| int(&row[0]));
        match *line {
            Line::Read(id) => vec![Seen::Register(id, first().expect("it is there"))],
            Line::Set(id) | Line::SetAlone(id) => vec![Seen::Set(id, first().expect("it is there"))],
            Line::Group(grp) => vec![Seen::Groups(grp..=grp, pairs())],
            Line::All => vec![Seen::Groups(1..=4, pairs())],
            Line::Once(id) => vec![Seen::Once(id, first())],
            Line::AddOnce(id) => match int(&output.values[0]) {
                0 => vec![Seen::OnceTaken(id)],
                _ => vec![Seen::AddedOnce(id)],
            },
            Line::Add(_) => vec![Seen::Added],
            _ => Vec::new(),
        }
    }
}

impl Script for Clients<'_> {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let has_open = self.sessions.entry(session).or_default().open.is_some();
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
        let failed = result.as_ref().err().is_some_and(|error| error.state().as_str() == "40001");
        told.serialization_failures += usize::from(failed);
        let tag = of.tag;
        let end = match (&line, result) {
            (Line::Savepoint, Ok(_)) => {
                told.history.savepoint(tag);
                return;
            }
            (Line::RollBackTo, Ok(_)) => {
                of.takes_back = true;
                return told.history.roll_back_to(tag);
            }
            (Line::Commit, Ok(_)) => End::Committed,
            (Line::RollBack, _) => End::Aborted,
            // It may have committed.
            (Line::Commit | Line::SetAlone(_) | Line::Both(..), Err(_)) => End::Unknown,
            (_, Ok(output)) => {
                told.history.saw(tag, Clients::seen(&line, output));
                if of.open.is_some() {
                    return;
                }
                End::Committed
            }
            (_, Err(_)) => {
                of.script = vec![Line::RollBack];
                return;
            }
        };
        told.committed += usize::from(end == End::Committed && of.open.is_some());
        told.taken_back += usize::from(end == End::Committed && of.takes_back);
        told.history.end(tag, end);
        *of = Session::default();
    }

    fn lost(&mut self, session: usize) {
        if let Some(of) = self.sessions.insert(session, Session::default()) {
            self.told.lock().unwrap().history.end(of.tag, End::Unknown);
        }
    }
}

#[test]
fn all_is_strictly_serializable() {
    let store = Store::open();
    let mut all = Told::default();
    for seed in world::seeds(0..32) {
        let (report, told) = store.run(Setup { calls: 300, ..Setup::new(seed) });
        println!("seed {seed}: {report} committed {}, 40001 {}", told.committed, told.serialization_failures);
        assert_eq!(report.failure, None, "seed {seed}: {report}");
        all.committed += told.committed;
        all.serialization_failures += told.serialization_failures;
        all.taken_back += told.taken_back;
    }
    println!("{all:?}");
    let is_enough = all.committed > 200 && all.serialization_failures > 5 && all.taken_back > 10;
    world::check_reached(is_enough, &all);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let store = Store::open();
    world::check_caught(name, 300, |seed| {
        let (report, _) = store.run(Setup { bugs, calls: 300, ..Setup::new(seed) });
        report.failure.map(|failure| format!("{failure:?}"))
    });
}

#[test]
fn forgotten_interval_locks_are_caught() {
    check_caught("intervals", PlantedBugs { forgets_intervals: true, ..PlantedBugs::default() });
}

#[test]
fn calls_that_pass_interval_locks_are_caught() {
    check_caught("calls", PlantedBugs { calls_pass_intervals: true, ..PlantedBugs::default() });
}

#[test]
fn interval_locks_beside_prepared_writes_are_caught() {
    check_caught("prepared", PlantedBugs { intervals_pass_prepared: true, ..PlantedBugs::default() });
}
