//! Indexes are built while others write, messages are lost, and shards and coordinators die: whatever index is there in the end has every row,
//! no two rows of all shards have one key of a unique one, and its entries are those of its rows (docs/internals/global-keys.md, 3.17).
//! Two rows come into an index in each step, so that there are many steps between which others write; keys are there twice for a while.

use crate::world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::world::World;
use crate::world::script::Sessions;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::Simulated;
use weir_sim::calls::{Report, Script, Setup};
use weir_txn::exec::definition::{Defined, Description, Placing};
use weir_txn::exec::program::Program;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Call, Definition, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_types::datetime::SessionZone;
use weir_types::{SqlError, SqlState};

const SCHEMA: &str = "
CREATE TABLE member (
    id integer PRIMARY KEY,
    email integer NOT NULL,
    badge integer,
    visits integer NOT NULL DEFAULT 0
);
COMMENT ON TABLE member IS 'weir: partition by (id)';
CREATE PROCEDURE visit(i integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE member SET visits = visits + 1 WHERE id = i; END $$;
";

const WORKLOAD: &str = "
[load.member]
for = [\"m in 1..24\"]
id = \"m\"
email = \"m\"
badge = \"m\"
visits = \"0\"
[mix]
visit = 1
[parameters.visit]
i = \"uniform(1, 24)\"
";

const INSERT: &str = "INSERT INTO member VALUES ($1, $2, $3, 0)";
const DELETE: &str = "DELETE FROM member WHERE id = $1";
const REKEY: &str = "UPDATE member SET email = $2 WHERE id = $1";
const LEND: &str = "UPDATE member SET badge = $2 WHERE id = $1";
const RETURN: &str = "UPDATE member SET badge = NULL WHERE badge = $1 AND id < 1000";
const VISIT: &str = "UPDATE member SET visits = visits + $2 WHERE id = $1";

/// Results of all sessions.
#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    written: usize,
    /// Indexes that were built, and of these: those that were committed, that had a key twice, and that another definition made void.
    built: usize,
    committed: usize,
    duplicated: usize,
    void: usize,
    rolled_back: usize,
    texts: Vec<String>,
}

impl Told {
    fn add(&mut self, other: Told) {
        self.written += other.written;
        self.built += other.built;
        self.committed += other.committed;
        self.duplicated += other.duplicated;
        self.void += other.void;
        self.rolled_back += other.rolled_back;
    }

    /// A committed definition that is not there in the end.
    fn missed(&self, report: &Report) -> Option<String> {
        let schema = report.schema.as_ref()?;
        let is_lost = |text: &&String| !schema.definitions().any(|one| one == text.as_str());
        self.texts.iter().find(is_lost).map(|text| format!("{text} is lost"))
    }
}

#[derive(Clone, Debug)]
enum Line {
    Adopt,
    Single(&'static str, Vec<i64>),
    Sql(&'static str, Vec<i64>),
    Build(String),
    Define(String),
    Commit,
    RollBack,
}

struct Builders {
    chance: Xoshiro256PlusPlus,
    sessions: Sessions<Line>,
    made: Vec<Arc<Program>>,
    /// Which of them may be the schema: those that have been committed, and those of which nobody was told.
    candidates: Vec<usize>,
    /// Which of these is thought to be.
    current: usize,
    /// By session: the schema version that it has adopted, and that which its transaction has made, with the text.
    adopted: BTreeMap<usize, usize>,
    defined: BTreeMap<usize, (usize, String)>,
    built: BTreeMap<usize, bool>,
    names: u64,
    told: Arc<Mutex<Told>>,
}

impl Builders {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    fn index(&mut self) -> String {
        self.names += 1;
        let n = self.names;
        match self.below(6) {
            0 | 1 => format!("CREATE UNIQUE INDEX i{n} ON member (email)"),
            2 => format!("CREATE UNIQUE INDEX i{n} ON member (badge)"),
            3 => format!("CREATE UNIQUE INDEX i{n} ON member (badge, email) NULLS NOT DISTINCT"),
            4 => format!("CREATE INDEX i{n} ON member (visits)"),
            _ => format!("CREATE INDEX i{n} ON member (badge DESC, id)"),
        }
    }

    /// Names of the indexes of the schema that is thought to be.
    fn indexes(&self) -> Vec<String> {
        let (application, _) = self.made[self.candidates[self.current]].described().unwrap();
        let table = application.catalog.table_by_name("member").unwrap();
        table.indexes.iter().map(|index| index.name.clone()).collect()
    }

    fn write(&mut self) -> (&'static str, Vec<i64>) {
        let (id, other) = (1 + self.below(30), 1 + self.below(30));
        // Mostly its own, so that keys are there twice now and then.
        let key = if self.below(12) == 0 { other } else { id };
        match self.below(8) {
            0 => (INSERT, vec![id, key, key]),
            1 => (DELETE, vec![id]),
            2 | 3 => (REKEY, vec![id, key]),
            4 => (LEND, vec![id, key]),
            5 => (RETURN, vec![id]),
            _ => (VISIT, vec![id, 1]),
        }
    }

    fn draw(&mut self) -> Vec<Line> {
        let indexes = self.indexes();
        let mut lines = match self.below(20) {
            0..=2 => {
                let text = self.index();
                let end = if self.below(6) == 0 { Line::RollBack } else { Line::Commit };
                vec![Line::Build(text.clone()), Line::Define(text), end]
            }
            3 => vec![Line::Build(self.index()), Line::RollBack],
            4 => vec![Line::Define(self.index()), Line::Commit],
            5 => {
                self.names += 1;
                let text = format!("CREATE VIEW w{} AS SELECT id FROM member", self.names);
                vec![Line::Define(text), Line::Commit]
            }
            6 | 7 if !indexes.is_empty() => {
                let at = self.below(indexes.len() as u64) as usize;
                vec![Line::Define(format!("DROP INDEX {}", indexes[at])), Line::Commit]
            }
            8 => {
                let (one, other) = (self.write(), self.write());
                vec![Line::Sql(one.0, one.1), Line::Sql(other.0, other.1), Line::Commit]
            }
            _ => (0..3).map(|_| self.write()).map(|(sql, args)| Line::Single(sql, args)).collect(),
        };
        lines.insert(0, Line::Adopt);
        lines
    }

    fn definition(&mut self, program: &Arc<Program>, text: &str) -> (Arc<Definition>, Arc<Program>, String) {
        let defined = Definition::of(program, text, Placing::Stays).or_else(|_| {
            // What it drops is gone.
            self.names += 1;
            Definition::of(
                program,
                &format!("CREATE VIEW w{} AS SELECT id FROM member", self.names),
                Placing::Stays,
            )
        });
        let Defined { definition, program, .. } = defined.unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        let program = program.expect("the schema changes");
        let text = program.described().unwrap().1.definitions().last().unwrap().to_owned();
        (Arc::new(definition), program, text)
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let at = match line {
            Line::Adopt => self.candidates[self.current],
            _ => self.adopted[&session],
        };
        let program = self.made[at].clone();
        let call = |sql: &str, args: &[i64]| Call {
            schema_version: program.schema_version,
            ..world::statement(sql, args)
        };
        let order = match &line {
            Line::Adopt => {
                self.adopted.insert(session, at);
                return Begin::Adopt(program);
            }
            Line::Single(sql, args) => return Begin::Call(call(sql, args)),
            Line::Sql(sql, args) => Order::Call(call(sql, args)),
            Line::Build(text) => Order::Build(self.definition(&program, text).0),
            Line::Define(text) => {
                let (definition, next, text) = self.definition(&program, text);
                self.made.push(next.clone());
                self.defined.insert(session, (self.made.len() - 1, text));
                Order::Define(definition, next, SessionZone::UTC)
            }
            Line::Commit => Order::Commit,
            Line::RollBack => Order::RollBack,
        };
        Begin::Within(self.sessions.name(session), order)
    }

    /// Its transaction is over.
    fn end(&mut self, session: usize) {
        self.sessions.end(session);
        self.defined.remove(&session);
        self.built.remove(&session);
    }
}

impl Script for Builders {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let script = self.draw();
        let line = self.sessions.next(session, is_last, || script)?;
        Some(self.begin(session, line))
    }

    fn told(&mut self, session: usize, result: &Result<Output, SqlError>) {
        let line = self.sessions.told(session);
        let told = self.told.clone();
        let mut told = told.lock().unwrap();
        let state = result.as_ref().err().map(SqlError::state);
        if state == Some(SqlState::SCHEMA_HAS_CHANGED) {
            // Which it is nobody says here; each has its turn, those made last first.
            self.current = self.current.checked_sub(1).unwrap_or(self.candidates.len() - 1);
        }
        if let Err(error) = result
            && error.state() == SqlState::INTERNAL_ERROR
        {
            told.wrong.get_or_insert(format!("{line:?}: {}", error.message()));
        }
        let is_built = self.built.contains_key(&session);
        match (&line, result) {
            (Line::Build(_), Ok(_)) => {
                told.built += 1;
                self.built.insert(session, true);
            }
            (Line::Build(_) | Line::Define(_), Err(_)) => {
                told.duplicated += usize::from(state == Some(SqlState::UNIQUE_VIOLATION));
                told.void += usize::from(is_built && state == Some(SqlState::SCHEMA_HAS_CHANGED));
                self.sessions.say(session, vec![Line::RollBack]);
            }
            (Line::Commit, Ok(_)) => {
                told.committed += usize::from(is_built);
                if let Some((made, text)) = self.defined.remove(&session) {
                    self.candidates.push(made);
                    self.current = self.candidates.len() - 1;
                    told.texts.push(text);
                }
                self.end(session);
            }
            (Line::Commit | Line::RollBack, _) => {
                told.rolled_back += usize::from(is_built);
                if state == Some(SqlState::TRANSACTION_RESOLUTION_UNKNOWN) {
                    self.candidates.extend(self.defined.get(&session).map(|(made, _)| *made));
                }
                self.end(session);
            }
            (Line::Single(..), Ok(_)) => told.written += 1,
            (_, Err(_)) if self.sessions.is_open(session) => {
                self.sessions.say(session, vec![Line::RollBack]);
            }
            (_, Err(_)) => self.sessions.say(session, Vec::new()),
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.candidates.extend(self.defined.get(&session).map(|(made, _)| *made));
        self.end(session);
    }
}

fn run(world: &World, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
    let World { application, analysis, workload } = world;
    let mut simulated = Simulated::new(application, analysis, workload).with_definitions(1);
    let shards = 1 + (seed % 4) as u16;
    let first = Description::new(application, 1, &analysis.plan).compile(shards).unwrap();
    let told = Arc::new(Mutex::new(Told::default()));
    let script = Builders {
        chance: Xoshiro256PlusPlus::seed_from_u64(seed),
        sessions: Sessions::new(),
        made: vec![Arc::new(first)],
        candidates: vec![0],
        current: 0,
        adopted: BTreeMap::new(),
        defined: BTreeMap::new(),
        built: BTreeMap::new(),
        names: 0,
        told: told.clone(),
    };
    let bugs = PlantedBugs { small_batches: true, ..bugs };
    let setup = Setup { bugs, calls: 400, shards: Some(shards), ..Setup::new(seed) };
    world::run(&mut simulated, ("built-indexes", setup), &told, script)
}

#[test]
fn indexes_are_built_while_others_write() {
    let world = World::of(SCHEMA, WORKLOAD);
    let mut all = Told::default();
    for seed in world::seeds(0..48) {
        let (report, told) = run(&world, seed, PlantedBugs::default());
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((&report.failure, &told.wrong), (&None, &None), "seed {seed}: {report}");
        assert_eq!(told.missed(&report), None, "seed {seed}");
        all.add(told);
    }
    println!("{all:?}");
    let counts = [all.written, all.built, all.committed, all.duplicated, all.void, all.rolled_back];
    let least = [500, 100, 40, 10, 5, 20];
    world::check_reached(counts.iter().zip(least).all(|(count, least)| *count > least), &all);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let world = World::of(SCHEMA, WORKLOAD);
    world::check_caught(name, 200, |seed| {
        let (report, told) = run(&world, seed, bugs);
        let missed = told.missed(&report);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}"))).or(missed)
    });
}

#[test]
fn an_index_that_writers_do_not_keep_is_caught() {
    check_caught("unkept", PlantedBugs { builds_unkept: true, ..PlantedBugs::default() });
}

#[test]
fn owners_that_are_not_told_of_changes_are_caught() {
    check_caught("no changes", PlantedBugs { stages_no_changes: true, ..PlantedBugs::default() });
}

#[test]
fn a_barrier_that_waits_for_nobody_is_caught() {
    check_caught("no barrier", PlantedBugs { ignores_definitions: true, ..PlantedBugs::default() });
}
