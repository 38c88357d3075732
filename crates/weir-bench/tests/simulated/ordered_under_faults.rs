//! Ordered calls over one to three shards while messages are lost and shards and coordinators die, beside serializable transactions under
//! locks and plain readers: what calls and transactions have read and written is strictly serializable, and no reader sees half of a call
//! (docs/internals/ordered-calls.md).
//!
//! Every call and transaction writes one tag of its own, as in the world of serializable transactions, whose checker this one uses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::Check;
use weir_sim::calls::{Report, Script, Setup};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::independent::Agreement;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Call, Callee, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_txn::storage::Rows;
use weir_types::{SqlError, Value};

use super::serializable_under_faults::history::{End, Final, History, Seen};
use crate::world::{self, World};

const SCHEMA: &str = "
CREATE TABLE reg (id integer PRIMARY KEY, value integer NOT NULL);
CREATE TABLE item (grp integer NOT NULL, tag integer NOT NULL);
COMMENT ON TABLE item IS 'weir: partition by (grp)';
CREATE TABLE done (tag integer NOT NULL);
COMMENT ON TABLE done IS 'weir: partition by (tag)';
CREATE TABLE bounded (id integer PRIMARY KEY, value integer NOT NULL CHECK (id % 2 = 0 OR value % 3 <> 0));
CREATE TABLE twin (id integer PRIMARY KEY, other integer NOT NULL, value integer NOT NULL);
CREATE PROCEDURE mark(a integer, b integer, t integer, OUT pa integer, OUT pb integer) LANGUAGE plpgsql AS $$
BEGIN
    SELECT value INTO pa FROM reg WHERE id = a;
    UPDATE reg SET value = t WHERE id = a;
    SELECT value INTO pb FROM reg WHERE id = b;
    UPDATE reg SET value = t WHERE id = b;
    INSERT INTO item VALUES (a, t);
    INSERT INTO item VALUES (b, t);
    INSERT INTO done VALUES (t);
END $$;
CREATE PROCEDURE weigh(a integer, b integer, t integer, OUT pa integer, OUT pb integer) LANGUAGE plpgsql AS $$
BEGIN
    SELECT value INTO pa FROM reg WHERE id = a;
    UPDATE reg SET value = t WHERE id = a;
    SELECT value INTO pb FROM reg WHERE id = b;
    UPDATE reg SET value = t WHERE id = b;
    UPDATE bounded SET value = t WHERE id = b;
    INSERT INTO item VALUES (a, t);
    INSERT INTO item VALUES (b, t);
    INSERT INTO done VALUES (t);
END $$;
CREATE TABLE taken (grp integer NOT NULL, tag integer NOT NULL, value integer NOT NULL);
COMMENT ON TABLE taken IS 'weir: partition by (grp)';
CREATE PROCEDURE bring(a integer, b integer, t integer, OUT pa integer, OUT pb integer) LANGUAGE plpgsql AS $$
BEGIN
    SELECT value INTO pa FROM reg WHERE id = a;
    UPDATE reg SET value = t WHERE id = a;
    UPDATE bounded SET value = t WHERE id = a;
    SELECT value INTO pb FROM reg WHERE id = b;
    UPDATE reg SET value = t WHERE id = b;
    UPDATE bounded SET value = t WHERE id = b;
    INSERT INTO taken VALUES (b, t, pa);
    INSERT INTO item VALUES (a, t);
    INSERT INTO item VALUES (b, t);
    INSERT INTO done VALUES (t);
END $$;
CREATE TABLE rate (id integer PRIMARY KEY, value integer NOT NULL);
COMMENT ON TABLE rate IS 'weir: replicated';
CREATE TABLE paid (grp integer NOT NULL, tag integer NOT NULL, value integer NOT NULL);
COMMENT ON TABLE paid IS 'weir: partition by (grp)';
CREATE PROCEDURE charge(a integer, b integer, t integer) LANGUAGE plpgsql AS $$
DECLARE r integer;
BEGIN
    SELECT value INTO r FROM rate WHERE id = 1;
    INSERT INTO paid VALUES (a, t, r);
    INSERT INTO paid VALUES (b, t, r);
    UPDATE bounded SET value = 1 WHERE id = b;
END $$;
CREATE PROCEDURE look(a integer, b integer, OUT va integer, OUT vb integer, OUT ga integer[], OUT gb integer[]) LANGUAGE plpgsql AS $$
BEGIN
    SELECT value INTO va FROM reg WHERE id = a;
    SELECT value INTO vb FROM reg WHERE id = b;
    SELECT array_agg(tag) INTO ga FROM item WHERE grp = a;
    SELECT array_agg(tag) INTO gb FROM item WHERE grp = b;
END $$;
CREATE PROCEDURE touch(a integer, t integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO item VALUES (a, t);
    INSERT INTO done VALUES (t);
END $$;
CREATE PROCEDURE pair(a integer, b integer, t integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE twin SET value = t WHERE id = a;
    UPDATE twin SET value = t WHERE id = b;
END $$;
ALTER PROCEDURE mark SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE look SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE touch SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE pair SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE weigh SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE charge SET default_transaction_isolation = 'serializable';
ALTER PROCEDURE bring SET default_transaction_isolation = 'serializable';
";

const WORKLOAD: &str = "
[load.reg]
for = [\"a in 1..4\"]
id = \"a\"
value = \"0\"
[load.bounded]
for = [\"a in 1..4\"]
id = \"a\"
value = \"1\"
[load.rate]
for = [\"a in 1..1\"]
id = \"a\"
value = \"0\"
[load.twin]
for = [\"a in 1..8\"]
id = \"a\"
other = \"a + 4\"
value = \"0\"
[mix]
mark = 1
[parameters.mark]
a = \"uniform(1, 4)\"
b = \"uniform(1, 4)\"
t = \"uniform(1, 9)\"
";

/// Twins that differ: those from 1 to 4 and their others, which `pair` changes together.
const UNLIKE: &str =
    "SELECT a.id FROM twin a JOIN twin b ON b.id = a.other WHERE a.id < 5 AND a.value <> b.value";

const SET: &str = "UPDATE reg SET value = $2 WHERE id = $1";
const ADD: &str = "INSERT INTO item VALUES ($1, $2)";
const CHANGE: &str = "UPDATE rate SET value = $1 WHERE id = 1";
const DONE: &str = "INSERT INTO done VALUES ($1)";

const MARK: usize = 0;
/// As `MARK`, but the shard of its second register may refuse it: then nothing of it remains anywhere.
const WEIGH: usize = 1;
/// As `WEIGH`, but the shard of its second register notes what its first one had been, and decides.
const BRING: usize = 2;
/// It notes the rate, of which each shard has a copy, at the shards of two registers.
const CHARGE: usize = 3;
const LOOK: usize = 4;
const TOUCH: usize = 5;
const PAIR: usize = 6;

struct Store {
    world: World,
    register: Arc<Gather>,
    group: Arc<Gather>,
    unlike: Arc<Gather>,
}

#[derive(Debug, Default)]
struct Told {
    history: History,
    /// Ordered calls, and transactions under locks, that have committed.
    ordered: usize,
    locked: usize,
    serialization_failures: usize,
    /// Calls that one participant has refused.
    refused: usize,
    /// By committed call: what it has brought from one register to the shard of another one.
    brought: BTreeMap<i64, i64>,
    /// Reads of twins, and the first that has found some that differ.
    readers: usize,
    half: Option<String>,
}

impl Store {
    fn open() -> Store {
        let world = World::of(SCHEMA, WORKLOAD);
        let program = world.program(1);
        let gather = |sql: &str| world::query(&world.application, &program, sql);
        let register = gather("SELECT value FROM reg WHERE id = $1::int");
        let group = gather("SELECT grp, tag FROM item WHERE grp = $1::int");
        let unlike = gather(UNLIKE);
        Store { world, register, group, unlike }
    }

    fn run(&self, setup: Setup<PlantedBugs>) -> (Report, Told) {
        let seed = setup.seed;
        let [item, done, taken, paid] = ["item", "done", "taken", "paid"]
            .map(|name| self.world.application.catalog.table_by_name(name).unwrap().id);
        let told = Arc::new(Mutex::new(Told::default()));
        let heard = told.clone();
        let check: Check = Arc::new(move |rows: &dyn Rows| {
            let all = |table, column| world::integers(rows, table, column);
            let there = Final {
                done: all(done, 0).into_iter().collect(),
                items: all(item, 0).into_iter().zip(all(item, 1)).collect(),
                once: BTreeMap::new(),
            };
            let (mut items, mut dones) = (all(item, 0).len(), all(done, 0).len());
            items -= there.items.len();
            dones -= there.done.len();
            if items + dones > 0 {
                return Some("a call has been executed twice".to_owned());
            }
            let told = heard.lock().unwrap();
            let taken: BTreeMap<i64, i64> = all(taken, 1).into_iter().zip(all(taken, 2)).collect();
            let differs = told.brought.iter().find(|(tag, value)| taken.get(tag) != Some(value));
            if let Some((tag, value)) = differs {
                return Some(format!("call {tag} has found {value}, and noted {:?}", taken.get(tag)));
            }
            let mut rates = BTreeMap::new();
            let differs = all(paid, 1)
                .into_iter()
                .zip(all(paid, 2))
                .find(|(tag, value)| rates.insert(*tag, *value).is_some_and(|other| other != *value));
            if let Some((tag, value)) = differs {
                return Some(format!("call {tag} has found the rate {value} at one shard only"));
            }
            told.half.clone().or_else(|| told.history.violation(&there))
        });
        let mut simulated = self.world.simulated().with_check(check);
        let clients = Clients {
            store: self,
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            sessions: BTreeMap::new(),
            tags: 0,
            told: told.clone(),
        };
        world::run(&mut simulated, ("ordered", setup), &told, clients)
    }
}

#[derive(Clone, Debug)]
enum Line {
    Mark(i64, i64),
    Weigh(i64, i64),
    Bring(i64, i64),
    Look(i64, i64),
    Touch(i64),
    Pair(i64),
    Charge(i64, i64),
    /// A statement by itself, which changes all copies of the rate.
    Change,
    /// A reader outside of the order.
    Unlike,
    Begin,
    Read(i64),
    Set(i64),
    Group(i64),
    Add(i64),
    Done,
    Commit,
    RollBack,
}

#[derive(Debug, Default)]
struct Session {
    /// Name of its open transaction.
    open: Option<u64>,
    tag: i64,
    /// Remaining lines, the next one last.
    script: Vec<Line>,
    under_way: Option<Line>,
    /// What it has read of a register.
    before: BTreeMap<i64, i64>,
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

    fn two(&mut self) -> (i64, i64) {
        let first = self.some();
        (first, 1 + (first + self.below(3)) % 4)
    }

    fn draw(&mut self) -> Vec<Line> {
        let (a, b) = self.two();
        match self.below(26) {
            22..=24 => vec![Line::Charge(a, b)],
            25 => vec![Line::Change],
            19..=21 => vec![Line::Bring(a, b)],
            15..=18 => vec![Line::Weigh(a, b)],
            12..=14 => vec![Line::Unlike],
            0..=3 => vec![Line::Mark(a, b)],
            4..=5 => vec![Line::Look(a, b)],
            6 => vec![Line::Touch(a)],
            7..=8 => vec![Line::Pair(a)],
            _ => {
                let mut lines = vec![Line::Begin];
                match self.below(3) {
                    0 => lines.extend([Line::Read(a), Line::Read(b), Line::Set(a), Line::Set(b), Line::Done]),
                    1 => lines.extend([Line::Read(a), Line::Group(b), Line::Add(a), Line::Done]),
                    _ => lines.extend([Line::Group(a), Line::Read(b), Line::Group(b)]),
                }
                lines.push(if self.below(10) == 0 { Line::RollBack } else { Line::Commit });
                lines
            }
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let store = self.store;
        let is_first = matches!(
            line,
            Line::Begin
                | Line::Mark(..)
                | Line::Weigh(..)
                | Line::Bring(..)
                | Line::Look(..)
                | Line::Touch(_)
                | Line::Pair(_)
                | Line::Charge(..)
                | Line::Change
                | Line::Unlike
        );
        if is_first {
            self.tags += 1;
        }
        let of = self.sessions.entry(session).or_default();
        of.under_way = Some(line.clone());
        if is_first {
            of.tag = self.tags;
            self.told.lock().unwrap().history.begin(
                of.tag,
                matches!(line, Line::Pair(_) | Line::Charge(..) | Line::Change | Line::Unlike),
            );
        }
        let tag = of.tag;
        let procedure = |procedure, args: &[i64]| -> Call { world::call(Callee::Procedure(procedure), args) };
        let call = |sql: &str, args: &[i64]| Order::Call(world::statement(sql, args));
        let read = |gather: &Arc<Gather>, args: &[i64]| {
            Order::Read(gather.clone(), args.iter().map(|arg| Value::Int(*arg)).collect())
        };
        let order = match line {
            Line::Mark(a, b) => return Begin::Call(procedure(MARK, &[a, b, tag])),
            Line::Weigh(a, b) => return Begin::Call(procedure(WEIGH, &[a, b, tag])),
            Line::Bring(a, b) => return Begin::Call(procedure(BRING, &[a, b, tag])),
            Line::Look(a, b) => return Begin::Call(procedure(LOOK, &[a, b])),
            Line::Touch(a) => return Begin::Call(procedure(TOUCH, &[a, tag])),
            Line::Pair(a) => return Begin::Call(procedure(PAIR, &[a, a + 4, tag])),
            Line::Charge(a, b) => return Begin::Call(procedure(CHARGE, &[a, b, tag])),
            Line::Change => return Begin::Call(world::statement(CHANGE, &[tag])),
            Line::Unlike => return Begin::Read(store.unlike.clone(), Vec::new()),
            Line::Begin => Order::Serializable(true),
            Line::Read(id) => read(&store.register, &[id]),
            Line::Group(grp) => read(&store.group, &[grp]),
            Line::Set(id) => call(SET, &[id, tag]),
            Line::Add(grp) => call(ADD, &[grp, tag]),
            Line::Done => call(DONE, &[tag]),
            Line::Commit => Order::Commit,
            Line::RollBack => Order::RollBack,
        };
        Begin::Within(*of.open.get_or_insert(tag as u64), order)
    }

    /// What the result of the line shows.
    fn seen(of: &mut Session, line: &Line, output: &Output) -> Vec<Seen> {
        let int = |value: &Value| match value {
            Value::Int(value) => *value,
            other => panic!("{other:?}"),
        };
        let rows = |grp: i64, value: &Value| match value {
            Value::Array(array) => array.values.iter().map(|tag| (grp, int(tag))).collect(),
            _ => Default::default(),
        };
        match *line {
            Line::Mark(a, b) | Line::Weigh(a, b) | Line::Bring(a, b) => {
                let [pa, pb] = [int(&output.values[0]), int(&output.values[1])];
                vec![Seen::Set(a, pa), Seen::Set(b, pb), Seen::Added]
            }
            Line::Look(a, b) => vec![
                Seen::Register(a, int(&output.values[0])),
                Seen::Register(b, int(&output.values[1])),
                Seen::Groups(a..=a, rows(a, &output.values[2])),
                Seen::Groups(b..=b, rows(b, &output.values[3])),
            ],
            Line::Touch(_) | Line::Add(_) => vec![Seen::Added],
            Line::Read(id) => {
                let before = int(&output.rows[0][0]);
                of.before.insert(id, before);
                vec![Seen::Register(id, before)]
            }
            Line::Set(id) => vec![Seen::Set(id, of.before[&id])],
            Line::Group(grp) => {
                let all = output.rows.iter().map(|row| (int(&row[0]), int(&row[1])));
                vec![Seen::Groups(grp..=grp, all.collect())]
            }
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
        let is_call = of.open.is_none();
        let end = match (&line, result) {
            // It is read-atomic, and in no order.
            (Line::Unlike, result) => {
                told.readers += 1;
                let half = result.as_ref().ok().filter(|output| !output.rows.is_empty());
                if let Some(output) = half {
                    told.half.get_or_insert_with(|| {
                        format!("a reader has seen half of a call: {:?}", output.rows)
                    });
                }
                told.history.end(tag, End::Aborted);
                *of = Session::default();
                return;
            }
            (Line::Commit, Ok(_)) => End::Committed,
            (Line::RollBack, _) => End::Aborted,
            // It may have committed.
            (Line::Commit, Err(_)) => End::Unknown,
            (Line::Weigh(..) | Line::Bring(..) | Line::Charge(..), Err(error))
                if is_call && error.state().as_str() == "23514" =>
            {
                told.refused += 1;
                End::Aborted
            }
            // On one shard, where nothing is ordered by a sequencer, a wrong clock may refuse it.
            (_, Err(_)) if is_call => End::Unknown,
            (line, Ok(output)) => {
                let line = line.clone();
                let seen = Clients::seen(of, &line, output);
                if let (Line::Bring(..), [Seen::Set(_, value), ..]) = (&line, &seen[..]) {
                    told.brought.insert(tag, *value);
                }
                told.history.saw(tag, seen);
                if !is_call {
                    return;
                }
                End::Committed
            }
            (_, Err(_)) => {
                of.script = vec![Line::RollBack];
                return;
            }
        };
        let count = if is_call { &mut told.ordered } else { &mut told.locked };
        *count += usize::from(end == End::Committed);
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
    let (mut all, mut brought) = (Told::default(), 0);
    for seed in world::seeds(0..100) {
        let (report, told) = store.run(Setup { calls: 300, ..Setup::new(seed) });
        let Told { ordered, locked, serialization_failures, .. } = told;
        println!(
            "seed {seed}: {report} ordered {ordered}, under locks {locked}, 40001 {serialization_failures}"
        );
        assert_eq!(report.failure, None, "seed {seed}: {report}");
        all.ordered += ordered;
        all.locked += locked;
        all.serialization_failures += serialization_failures;
        all.readers += told.readers;
        all.refused += told.refused;
        brought += told.brought.len();
    }
    println!("{all:?}, brought {brought}");
    world::check_reached(
        all.ordered > 1_000 && all.locked > 200 && all.readers > 200 && all.refused > 100 && brought > 100,
        &all,
    );
}

/// The procedures run in the order of a sequencer on several shards.
#[test]
fn they_are_ordered() {
    let world = World::of(SCHEMA, WORKLOAD);
    let program = world.program(3);
    for (procedure, args) in [(MARK, &[1, 2, 3][..]), (LOOK, &[1, 2]), (TOUCH, &[1, 3]), (PAIR, &[1, 5, 3])] {
        assert!(program.orders(&world::call(Callee::Procedure(procedure), args)), "{procedure}");
        let agreement = program.agreement_on(&world::call(Callee::Procedure(procedure), args));
        assert_eq!(agreement, Agreement::None, "{procedure}");
    }
    let weigh = world::call(Callee::Procedure(WEIGH), &[1, 2, 3]);
    assert!(program.orders(&weigh));
    assert_eq!(program.agreement_on(&weigh), Agreement::Votes);
    let bring = world::call(Callee::Procedure(BRING), &[1, 2, 3]);
    assert!(program.orders(&bring));
    assert_eq!(program.agreement_on(&bring), Agreement::Last);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let store = Store::open();
    world::check_caught(name, 300, |seed| {
        let (report, _) = store.run(Setup { bugs, calls: 300, ..Setup::new(seed) });
        report.failure.map(|failure| format!("{failure:?}"))
    });
}

#[test]
fn delivery_out_of_order_is_caught() {
    check_caught("order", PlantedBugs { delivers_out_of_order: true, ..PlantedBugs::default() });
}

#[test]
fn delivery_across_epochs_is_caught() {
    check_caught("epochs", PlantedBugs { delivers_across_epochs: true, ..PlantedBugs::default() });
}

#[test]
fn execution_before_the_lock_is_free_is_caught() {
    check_caught("locks", PlantedBugs { passes_locks_in_order: true, ..PlantedBugs::default() });
}

#[test]
fn answers_before_the_log_are_caught() {
    check_caught("log", PlantedBugs { answers_order_early: true, ..PlantedBugs::default() });
}

#[test]
fn a_commit_that_does_not_wait_for_votes_is_caught() {
    check_caught("votes", PlantedBugs { commits_on_own_vote: true, ..PlantedBugs::default() });
}

#[test]
fn transactions_without_a_place_are_caught() {
    check_caught("place", PlantedBugs { enters_at_once: true, ..PlantedBugs::default() });
}

#[test]
fn readers_that_see_half_of_a_call_are_caught() {
    check_caught("half", PlantedBugs { reads_past_order: true, ..PlantedBugs::default() });
}
