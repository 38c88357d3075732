//! Snapshots while money moves between shards, messages are lost, and shards and coordinators die (docs/internals/snapshots.md): all
//! reads of one see the same rows, one sum, and of what a client did second nothing without what it did first.

use crate::world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::world::{World, accounts};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::Simulated;
use weir_sim::calls::{Report, Script, Setup};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Callee, Output};
use weir_txn::ramp::client::Order;
use weir_txn::ramp::{Begin, OfSnapshot};
use weir_types::{SqlError, Value};

/// Beside the accounts.
const PARENTS: &str = "
CREATE TABLE parent (id integer PRIMARY KEY);
COMMENT ON TABLE parent IS 'weir: partition by (id)';
CREATE TABLE child (id integer PRIMARY KEY, parent integer NOT NULL);
COMMENT ON TABLE child IS 'weir: partition by (id)';
";

const ACCOUNTS: u64 = 12;
const MONEY: i64 = 1_200;

const READ: &str = "SELECT balance FROM account WHERE id = $1 FOR UPDATE";
const SET: &str = "UPDATE account SET balance = $2 WHERE id = $1";
const PARENT: &str = "INSERT INTO parent VALUES ($1)";
const CHILD: &str = "INSERT INTO child VALUES ($1, $2)";

struct Bank {
    world: World,
    sum: Arc<Gather>,
    balances: Arc<Gather>,
    parents: Arc<Gather>,
    children: Arc<Gather>,
}

/// Results of all sessions.
#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    /// Snapshots that were read to their end, and those that were lost on the way.
    read: usize,
    lost: usize,
    /// Snapshots during which something was acknowledged that wrote.
    beside_writes: usize,
    writes: usize,
    children: usize,
}

#[derive(Clone, Debug)]
enum Line {
    Move(Vec<i64>),
    /// Reads the balance to set it later.
    Hold(i64),
    /// Sets it to what was read at that place, and so much more.
    Set {
        account: i64,
        of: usize,
        more: i64,
    },
    Commit,
    RollBack,
    Parent(i64),
    /// Once the parent is acknowledged.
    Child(i64),
    Take,
    Sum,
    Balances,
    Children,
    Parents,
    End,
}

#[derive(Debug, Default)]
struct Session {
    /// Remaining steps, the next one last.
    script: Vec<Line>,
    under_way: Option<Line>,
    /// Of its open transaction, or its snapshot.
    name: Option<u64>,
    read: Vec<i64>,
    balances: Option<Vec<Vec<Value>>>,
    children: BTreeSet<i64>,
    /// Number of writes that had been acknowledged when it took its snapshot.
    writes: usize,
}

struct Tellers<'b> {
    bank: &'b Bank,
    program: Arc<Program>,
    chance: Xoshiro256PlusPlus,
    sessions: BTreeMap<usize, Session>,
    names: u64,
    told: Arc<Mutex<Told>>,
}

impl Bank {
    fn open() -> Bank {
        let world = World::of(&[accounts::SCHEMA, PARENTS].concat(), &accounts::workload(ACCOUNTS));
        let program = world.program(1);
        let gather = |sql: &str| world::query(&world.application, &program, sql);
        let sum = gather("SELECT sum(balance)::int FROM account");
        let balances = gather("SELECT id, balance FROM account ORDER BY id");
        let parents = gather("SELECT id FROM parent");
        let children = gather("SELECT parent FROM child");
        Bank { world, sum, balances, parents, children }
    }

    fn run(&self, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
        let shards = 1 + (seed % 4) as u16;
        let check = accounts::money_is_kept(&self.world, MONEY);
        let World { application, analysis, workload } = &self.world;
        let mut simulated = Simulated::new(application, analysis, workload).with_check(check);
        let told = Arc::new(Mutex::new(Told::default()));
        let tellers = Tellers {
            bank: self,
            program: Arc::new(self.world.program(shards)),
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            sessions: BTreeMap::new(),
            names: 0,
            told: told.clone(),
        };
        let setup = Setup { bugs, calls: 400, shards: Some(shards), ..Setup::new(seed) };
        world::run(&mut simulated, ("snapshots", setup), &told, tellers)
    }
}

impl Tellers<'_> {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    /// In the order in which it is done.
    fn draw(&mut self) -> Vec<Line> {
        let (a, x) = (1 + self.below(ACCOUNTS), 1 + self.below(9));
        let b = 1 + (a + self.below(ACCOUNTS - 1)) % ACCOUNTS as i64;
        match self.below(10) {
            0..=3 => vec![Line::Move(vec![a, b, x])],
            4 => vec![
                Line::Hold(a),
                Line::Hold(b),
                Line::Set { account: a, of: 0, more: -x },
                Line::Set { account: b, of: 1, more: x },
                Line::Commit,
            ],
            5..=6 => {
                let id = 1 + self.below(1 << 30);
                vec![Line::Parent(id), Line::Child(id)]
            }
            _ => {
                let first = if x < 5 { Line::Sum } else { Line::Balances };
                let mut lines = vec![Line::Take, first, Line::Children, Line::Balances, Line::Sum];
                (0..x).for_each(|_| lines.push(Line::Balances));
                lines.extend([Line::Parents, Line::Balances, Line::Sum, Line::Children, Line::End]);
                lines
            }
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let bank = self.bank;
        let of = self.sessions.entry(session).or_default();
        of.under_way = Some(line.clone());
        let is_named = matches!(line, Line::Move(_) | Line::Parent(_) | Line::Child(_));
        let name = match of.name {
            _ if is_named => 0,
            Some(name) => name,
            None => {
                self.names += 1;
                *of.name.insert(self.names)
            }
        };
        let read = |gather: &Arc<Gather>| Begin::Snapshot(name, OfSnapshot::Read(gather.clone(), Vec::new()));
        match line {
            Line::Move(args) => Begin::Call(world::call(Callee::Procedure(0), &args)),
            Line::Parent(id) => Begin::Call(world::statement(PARENT, &[id])),
            Line::Child(id) => Begin::Call(world::statement(CHILD, &[(id * 7 + 3) % (1 << 30), id])),
            Line::Hold(account) => Begin::Within(name, Order::Call(world::statement(READ, &[account]))),
            Line::Set { account, of: at, more } => {
                Begin::Within(name, Order::Call(world::statement(SET, &[account, of.read[at] + more])))
            }
            Line::Commit => Begin::Within(name, Order::Commit),
            Line::RollBack => Begin::Within(name, Order::RollBack),
            Line::Take => {
                of.writes = self.told.lock().unwrap().writes;
                Begin::Snapshot(name, OfSnapshot::Take(self.program.clone()))
            }
            Line::Sum => read(&bank.sum),
            Line::Balances => read(&bank.balances),
            Line::Children => read(&bank.children),
            Line::Parents => read(&bank.parents),
            Line::End => Begin::Snapshot(name, OfSnapshot::End),
        }
    }
}

fn integers(rows: &[Vec<Value>]) -> BTreeSet<i64> {
    let integer = |row: &Vec<Value>| match row[0] {
        Value::Int(one) => Some(one),
        _ => None,
    };
    rows.iter().filter_map(integer).collect()
}

impl Script for Tellers<'_> {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let of = self.sessions.entry(session).or_default();
        if of.script.is_empty() {
            if is_last {
                return None;
            }
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
        let rows = result.as_ref().map(|output| &output.rows[..]).unwrap_or_default();
        let first = rows.first().and_then(|row| row.first().cloned());
        match (&line, result) {
            (Line::Take | Line::Sum | Line::Balances | Line::Children | Line::Parents, Err(error)) => {
                let state = error.state();
                if state.as_str() != "40001" {
                    told.wrong.get_or_insert(format!("a snapshot fails with {state} {}", error.message()));
                }
                told.lost += 1;
                of.script = vec![Line::End];
            }
            (Line::Sum, Ok(_)) if first != Some(Value::Int(MONEY)) => {
                told.wrong.get_or_insert(format!("a snapshot has {first:?} of {MONEY}"));
            }
            (Line::Balances, Ok(_)) => match &of.balances {
                Some(before) if before != rows => {
                    told.wrong.get_or_insert(format!("a snapshot has {rows:?}, and had {before:?}"));
                }
                _ => of.balances = Some(rows.to_vec()),
            },
            (Line::Children, Ok(_)) => {
                let children = integers(rows);
                told.children = told.children.max(children.len());
                if !of.children.is_empty() && of.children != children {
                    told.wrong.get_or_insert("children come and go".to_owned());
                }
                of.children = children;
            }
            (Line::Parents, Ok(_)) => {
                let orphans: Vec<i64> = of.children.difference(&integers(rows)).copied().collect();
                if !orphans.is_empty() {
                    told.wrong.get_or_insert(format!("a snapshot has {orphans:?} without their parents"));
                }
            }
            (Line::End, _) => {
                told.read += usize::from(of.balances.is_some());
                told.beside_writes += usize::from(told.writes > of.writes);
                *of = Session::default();
            }
            (Line::Hold(_), Ok(_)) => {
                let Some(Value::Int(balance)) = first else { panic!("{result:?}") };
                of.read.push(balance);
            }
            (Line::Commit | Line::RollBack, _) => {
                told.writes += usize::from(result.is_ok());
                *of = Session::default();
            }
            (Line::Hold(_) | Line::Set { .. }, Err(_)) => of.script = vec![Line::RollBack],
            (Line::Parent(_), Err(_)) => of.script.clear(),
            (Line::Move(_) | Line::Parent(_) | Line::Child(_), Ok(_)) => told.writes += 1,
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.sessions.insert(session, Session::default());
    }
}

#[test]
fn a_snapshot_is_one_state_however_much_is_written_meanwhile() {
    let bank = Bank::open();
    let mut all = Told::default();
    let mut long_reads = 0;
    for seed in world::seeds(0..48) {
        let (report, told) = bank.run(seed, PlantedBugs::default());
        println!("seed {seed}: {report} {told:?}");
        assert_eq!(report.failure, None, "seed {seed}: {report}");
        assert_eq!(told.wrong, None, "seed {seed}");
        all.read += told.read;
        all.lost += told.lost;
        long_reads += report.long_reads;
        all.beside_writes += told.beside_writes;
        all.children = all.children.max(told.children);
    }
    println!("{all:?} {long_reads} long reads");
    world::check_reached(long_reads > 500, &long_reads);
    let is_enough = all.read > 200 && all.beside_writes > 100 && all.lost > 0 && all.children > 3;
    world::check_reached(is_enough, &all);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let bank = Bank::open();
    world::check_caught(name, 300, |seed| {
        let (report, told) = bank.run(seed, bugs);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

#[test]
fn snapshots_that_advance_are_caught() {
    check_caught("a snapshot advances", PlantedBugs { snapshot_advances: true, ..PlantedBugs::default() });
}

/// Long reads of snapshots, which are read row by row while others write.
#[test]
fn long_reads_that_see_what_came_after_their_moment_are_caught() {
    check_caught("a moment advances", PlantedBugs { moment_advances: true, ..PlantedBugs::default() });
}

#[test]
fn snapshots_that_lack_siblings_are_caught() {
    check_caught("S5", PlantedBugs { no_siblings: true, ..PlantedBugs::default() });
}

#[test]
fn snapshots_whose_shards_hold_nothing_back_are_caught() {
    check_caught("a cut", PlantedBugs { holds_nothing_back: true, ..PlantedBugs::default() });
}

/// A shard that misses its moment: what was acknowledged there before the snapshot is not in it.
#[test]
fn snapshots_of_which_one_shard_is_stale_are_caught() {
    check_caught("stale", PlantedBugs { cut_is_stale: true, ..PlantedBugs::default() });
}
