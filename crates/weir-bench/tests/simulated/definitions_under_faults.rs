//! The schema is changed while messages are lost and shards and coordinators die, and while others move money: every definition that was
//! told to be committed is there on all shards, none that was rolled back is, be it to a savepoint, and no money is lost, made, or seen
//! on its way (docs/internals/server.md, "Definitions"). Some migrate as tools do: they hold an advisory lock meanwhile, and others wait for it.

use crate::world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::world::{World, accounts};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::{Check, Simulated};
use weir_sim::calls::{Report, Script, Setup};
use weir_txn::exec::definition::{Defined, Description, Placing};
use weir_txn::exec::gather::Gather;
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{AdvisoryKey, Call, Callee, Definition, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_txn::storage::Rows;
use weir_types::datetime::SessionZone;
use weir_types::{SqlError, SqlState, Value};

const MONEY: i64 = 800;

/// On this world.
struct Bank(World);

impl Bank {
    fn open() -> Bank {
        Bank(World::of(accounts::SCHEMA, &accounts::workload(8)))
    }

    fn run(&self, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
        let World { application, analysis, workload } = &self.0;
        let account = application.catalog.table_by_name("account").unwrap().id;
        let check: Check = Arc::new(move |rows: &dyn Rows| {
            let sum: i64 = world::integers(rows, account, 1).into_iter().sum();
            (sum != MONEY).then(|| format!("{sum} of {MONEY}"))
        });
        let mut simulated =
            Simulated::new(application, analysis, workload).with_check(check).with_definitions(1);
        let shards = 1 + (seed % 4) as u16;
        let first = Description::new(application, 1, &analysis.plan).compile(shards).unwrap();
        let first = Arc::new(SchemaVersion::new(Arc::new(first)));
        let told = Arc::new(Mutex::new(Told::default()));
        let script = Definers {
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            made: vec![first],
            candidates: vec![0],
            current: 0,
            sessions: BTreeMap::new(),
            names: 0,
            told: told.clone(),
        };
        let setup = Setup { bugs, calls: 200, shards: Some(shards), ..Setup::new(seed) };
        world::run(&mut simulated, ("definitions", setup), &told, script)
    }
}

/// Results of all sessions.
#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    committed: Vec<String>,
    rolled_back: Vec<String>,
    moves: usize,
    /// Statements that met another schema version than they were bound to.
    stale: usize,
    /// Advisory locks that were got.
    locks: usize,
    /// To savepoints, with a definition.
    taken_back: usize,
}

impl Told {
    /// Definition whose final state contradicts its reported outcome.
    fn missed(&self, report: &Report) -> Option<String> {
        let schema = report.schema.as_ref()?;
        let has = |text: &&String| schema.definitions().any(|one| one == *text);
        let lost = self.committed.iter().find(|text| !has(text)).map(|text| format!("{text} is lost"));
        lost.or(self.rolled_back.iter().find(has).map(|text| format!("{text} was rolled back")))
    }
}

/// A schema, as clients have compiled it.
struct SchemaVersion {
    program: Arc<Program>,
    sum: Arc<Gather>,
}

impl SchemaVersion {
    fn new(program: Arc<Program>) -> SchemaVersion {
        let (application, _) = program.described().unwrap();
        let sum = world::query(application, &program, "SELECT sum(balance)::int FROM account");
        SchemaVersion { program, sum }
    }
}

#[derive(Default)]
struct Session {
    name: Option<u64>,
    /// Remaining steps, the next one last.
    script: Vec<Line>,
    under_way: Option<Line>,
    /// By its place in `made`: of its open transaction.
    schema_version: Option<usize>,
    defined: Vec<String>,
    /// Both, at its savepoint.
    at_savepoint: Option<(Option<usize>, usize)>,
    /// The transaction that holds its advisory lock, or waits for it.
    lock: Option<u64>,
}

impl Session {
    /// Its transaction is over; its lock may not be.
    fn end(&mut self) {
        let (lock, script) = (self.lock, std::mem::take(&mut self.script));
        *self = Session { lock, script, ..Session::default() };
    }
}

#[derive(Clone, Debug)]
enum Line {
    Adopt,
    Sum,
    Call(Vec<i64>),
    Sql(&'static str, Vec<i64>),
    Define(String),
    Savepoint,
    RollBackTo,
    Commit,
    RollBack,
    /// In a transaction of its own, which does nothing else.
    Lock(i64),
    Unlock,
}

struct Definers {
    chance: Xoshiro256PlusPlus,
    made: Vec<Arc<SchemaVersion>>,
    /// Which of them may be the schema: those that have been committed, and those of which nobody was told.
    candidates: Vec<usize>,
    /// Which of these is thought to be.
    current: usize,
    sessions: BTreeMap<usize, Session>,
    names: u64,
    told: Arc<Mutex<Told>>,
}

impl Definers {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    /// Each is another text, so that it can be told whether it is there.
    fn definition(&mut self) -> String {
        self.names += 1;
        let number = self.names;
        match self.below(6) {
            0 => format!("ALTER TABLE account ADD COLUMN c{number} integer NOT NULL DEFAULT {number}"),
            1 => format!("CREATE INDEX i{number} ON account (balance)"),
            2 => format!("CREATE TABLE t{number} (id integer PRIMARY KEY)"),
            // Its owners get the entries of all accounts.
            4 => format!("CREATE UNIQUE INDEX u{number} ON account ((id + {number}))"),
            3 => format!("ALTER TABLE account ADD CONSTRAINT k{number} CHECK (balance > -100000 - {number})"),
            _ => format!("CREATE VIEW v{number} AS SELECT balance FROM account"),
        }
    }

    fn draw(&mut self) -> Vec<Line> {
        let (a, b, x) = (1 + self.below(8), 1 + self.below(8), 1 + self.below(9));
        let take = || Line::Sql("UPDATE account SET balance = balance - $2 WHERE id = $1", vec![a, x]);
        let give = || Line::Sql("UPDATE account SET balance = balance + $2 WHERE id = $1", vec![b, x]);
        let end = if self.below(4) == 0 { Line::RollBack } else { Line::Commit };
        let mut lines = match self.below(16) {
            0 | 1 => vec![Line::Sum],
            2..=4 => vec![Line::Call(vec![a, b, x])],
            5..=8 => vec![take(), give(), end],
            9 => vec![Line::Define(self.definition()), end],
            10 => vec![take(), Line::Define(self.definition()), give(), end],
            11 => {
                vec![Line::Savepoint, Line::Define(self.definition()), Line::RollBackTo, take(), give(), end]
            }
            12 => {
                let (one, two) = (self.definition(), self.definition());
                vec![
                    Line::Define(one),
                    take(),
                    Line::Savepoint,
                    give(),
                    Line::Define(two),
                    Line::RollBackTo,
                    give(),
                    end,
                ]
            }
            13 | 14 => {
                let definition = Line::Define(self.definition());
                vec![Line::Lock(a % 2), definition, take(), give(), end, Line::Unlock]
            }
            _ => {
                let (one, two) = (self.definition(), self.definition());
                vec![Line::Define(one), take(), give(), Line::Define(two), end]
            }
        };
        lines.insert(0, Line::Adopt);
        lines
    }

    fn text(&self, at: usize, sql: &str, args: &[i64]) -> Call {
        let schema_version = self.made[at].program.schema_version;
        Call { schema_version, ..world::statement(sql, args) }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let at = self.sessions[&session].schema_version.unwrap_or(self.candidates[self.current]);
        let own = self.made[at].clone();
        let order = match &line {
            Line::Adopt => return self.under_way(session, line, |_| Begin::Adopt(own.program.clone())),
            Line::Sum => return self.under_way(session, line, |_| Begin::Read(own.sum.clone(), Vec::new())),
            Line::Call(args) => {
                let schema_version = own.program.schema_version;
                let call = Call { schema_version, ..world::call(Callee::Procedure(0), args) };
                return self.under_way(session, line, |_| Begin::Call(call));
            }
            Line::Sql(sql, args) => Order::Call(self.text(at, sql, args)),
            Line::Define(text) => {
                let Defined { definition, program, .. } = Definition::of(&own.program, text, Placing::Stays)
                    .unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
                let next = Arc::new(SchemaVersion::new(program.expect("the schema changes")));
                self.made.push(next.clone());
                let of = self.sessions.entry(session).or_default();
                of.schema_version = Some(self.made.len() - 1);
                of.defined.push(text.clone());
                Order::Define(Arc::new(definition), next.program.clone(), SessionZone::UTC)
            }
            Line::Savepoint => {
                let of = self.sessions.entry(session).or_default();
                of.at_savepoint = Some((of.schema_version, of.defined.len()));
                Order::Savepoint
            }
            Line::RollBackTo => Order::RollBackTo(0),
            Line::Commit => Order::Commit,
            Line::RollBack => Order::RollBack,
            Line::Lock(key) => {
                self.names += 1;
                let (name, key) = (self.names, AdvisoryKey::One(*key));
                self.sessions.entry(session).or_default().lock = Some(name);
                let order = Order::AdvisoryLock { key, waits: true };
                return self.under_way(session, line, |_| Begin::Within(name, order));
            }
            Line::Unlock => {
                let lock = self.sessions.entry(session).or_default().lock.take().expect("it has one");
                return self.under_way(session, line, |_| Begin::Within(lock, Order::RollBack));
            }
        };
        self.under_way(session, line, |of| Begin::Within(of.name.expect("it is named"), order))
    }

    fn under_way(&mut self, session: usize, line: Line, begin: impl FnOnce(&Session) -> Begin) -> Begin {
        let of = self.sessions.entry(session).or_default();
        let is_within =
            !matches!(line, Line::Adopt | Line::Sum | Line::Call(_) | Line::Lock(_) | Line::Unlock);
        if is_within && of.name.is_none() {
            self.names += 1;
            of.name = Some(self.names);
        }
        of.under_way = Some(line);
        begin(of)
    }
}

impl Script for Definers {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let of = self.sessions.entry(session).or_default();
        let has_open = of.name.is_some() || of.lock.is_some();
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
        if result.as_ref().is_err_and(|error| error.state() == SqlState::SCHEMA_HAS_CHANGED) {
            told.stale += 1;
            // Which it is nobody says here; each has its turn, those made last first.
            self.current = self.current.checked_sub(1).unwrap_or(self.candidates.len() - 1);
        }
        match (&line, result) {
            (Line::Sum, Ok(output)) => {
                let seen = output.rows.first().and_then(|row| row.first());
                if seen != Some(&Value::Int(MONEY)) {
                    told.wrong.get_or_insert(format!("a reader saw {seen:?} of {MONEY}"));
                }
            }
            (Line::Commit, Ok(_)) => {
                told.moves += 1;
                if let Some(schema_version) = of.schema_version.take() {
                    self.candidates.push(schema_version);
                    self.current = self.candidates.len() - 1;
                    told.committed.append(&mut of.defined);
                }
                of.end();
            }
            (Line::Commit | Line::RollBack, result) => {
                // Of a commit that has failed for sure nothing happens either.
                let is_sure = result.is_ok()
                    || result
                        .as_ref()
                        .is_err_and(|error| error.state() != SqlState::TRANSACTION_RESOLUTION_UNKNOWN);
                match is_sure {
                    true => told.rolled_back.append(&mut of.defined),
                    false => self.candidates.extend(of.schema_version),
                }
                of.end();
            }
            (Line::RollBackTo, Ok(_)) => {
                let (schema_version, defined) = of.at_savepoint.expect("it has set one");
                told.rolled_back.extend(of.defined.split_off(defined));
                of.schema_version = schema_version;
                told.taken_back += 1;
            }
            (Line::Lock(_), Ok(_)) => told.locks += 1,
            (_, Err(_)) => {
                of.script = Vec::from_iter(of.lock.map(|_| Line::Unlock));
                of.script.extend(of.name.map(|_| Line::RollBack));
            }
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        let was = self.sessions.insert(session, Session::default());
        self.candidates.extend(was.and_then(|was| was.schema_version));
    }
}

#[test]
fn definitions_are_there_everywhere_or_nowhere() {
    let bank = Bank::open();
    let mut all = Told::default();
    for seed in world::seeds(0..48) {
        let (report, told) = bank.run(seed, PlantedBugs::default());
        println!(
            "seed {seed}: {report}; {} definitions committed, {} rolled back, {} moves, {} stale",
            told.committed.len(),
            told.rolled_back.len(),
            told.moves,
            told.stale
        );
        assert_eq!(report.failure, None, "seed {seed}: {report}");
        assert_eq!(told.wrong, None, "seed {seed}");
        assert_eq!(told.missed(&report), None, "seed {seed}");
        all.committed.extend(told.committed);
        all.rolled_back.extend(told.rolled_back);
        all.moves += told.moves;
        all.stale += told.stale;
        all.locks += told.locks;
        all.taken_back += told.taken_back;
    }
    let (committed, rolled_back) = (all.committed.len(), all.rolled_back.len());
    println!("{committed} committed, {rolled_back} rolled back, {} moves, {} stale", all.moves, all.stale);
    let counts = [committed, rolled_back, all.moves, all.stale, all.locks, all.taken_back];
    let least = [20, 20, 50, 20, 20, 20];
    world::check_reached(counts.iter().zip(least).all(|(count, least)| *count > least), &counts);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let bank = Bank::open();
    world::check_caught(name, 200, |seed| {
        let (report, told) = bank.run(seed, bugs);
        let missed = told.missed(&report);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}"))).or(missed)
    });
}

#[test]
fn writing_while_somebody_changes_the_schema_is_caught() {
    check_caught("no barrier", PlantedBugs { ignores_definitions: true, ..PlantedBugs::default() });
}
