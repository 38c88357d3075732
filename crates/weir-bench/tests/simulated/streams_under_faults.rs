//! Results that are taken while the shards still read, and money moves between them, messages are lost, and shards and coordinators die
//! (docs/internals/steps.md, "Results"): whatever has been taken when, all rows together are of one state, each once.

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
use weir_txn::ramp::Begin;
use weir_txn::stream::{Row, RowStream};
use weir_types::{SqlError, Value};

const ACCOUNTS: u64 = 24;
const MONEY: i64 = 2_400;

/// Results of the reads of all sessions.
#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    /// Results that came to their end, and those that did not.
    read: usize,
    lost: usize,
    /// Rows that were taken before their read had ended.
    taken_early: usize,
    /// Reads of which some rows were taken early, and others came with the result.
    mixed: usize,
}

/// A read that is under way, and its rows so far.
struct Reading {
    asked: Asked,
    stream: Arc<RowStream>,
    rows: Vec<Row>,
}

/// The rows and the order that a read asks for.
#[derive(Clone, Copy)]
enum Asked {
    All,
    Sorted,
    /// Some of them, by their numbers.
    Bounded,
}

/// Rows that [`Asked::Bounded`] leaves out, and gives.
const BOUNDS: (i64, i64) = (3, 17);

impl Asked {
    const EACH: [Asked; 3] = [Asked::All, Asked::Sorted, Asked::Bounded];

    fn text(self) -> String {
        match self {
            Asked::All => "SELECT id, balance FROM account".to_owned(),
            Asked::Sorted => "SELECT id, balance FROM account ORDER BY balance DESC, id".to_owned(),
            Asked::Bounded => {
                let (offset, limit) = BOUNDS;
                format!("SELECT id, balance FROM account ORDER BY id OFFSET {offset} LIMIT {limit}")
            }
        }
    }
}

impl Reading {
    fn take(&mut self) {
        while let Some(rows) = self.stream.take() {
            self.rows.extend(rows);
        }
    }
}

struct Tellers {
    /// Of each [`Asked`].
    gathers: Vec<Arc<Gather>>,
    chance: Xoshiro256PlusPlus,
    reading: BTreeMap<usize, Reading>,
    told: Arc<Mutex<Told>>,
}

struct Bank {
    world: World,
}

impl Bank {
    fn run(&self, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
        let shards = 2 + (seed % 3) as u16;
        let check = accounts::money_is_kept(&self.world, MONEY);
        let World { application, analysis, workload } = &self.world;
        let mut simulated = Simulated::new(application, analysis, workload).with_check(check);
        let told = Arc::new(Mutex::new(Told::default()));
        let program: Program = self.world.program(shards);
        let gather = |asked: Asked| {
            let gather = program.query(&world::text(&asked.text(), 0));
            let gather = gather.unwrap_or_else(|wrong| panic!("{}", wrong.error));
            assert!(gather.may_stream());
            gather
        };
        let tellers = Tellers {
            gathers: Asked::EACH.into_iter().map(gather).collect(),
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            reading: BTreeMap::new(),
            told: told.clone(),
        };
        let setup = Setup { bugs, calls: 400, shards: Some(shards), ..Setup::new(seed) };
        world::run(&mut simulated, ("streams", setup), &told, tellers)
    }
}

impl Tellers {
    /// Takes the rows of all reads that may be taken by now.
    fn take_all(&mut self) {
        let taken = |reading: &mut Reading| {
            let before = reading.rows.len();
            reading.take();
            reading.rows.len() - before
        };
        let early: usize = self.reading.values_mut().map(taken).sum();
        self.told.lock().unwrap().taken_early += early;
    }
}

/// Says why the rows are not one state: each account once, and all of the money; or not in their order. None: they are.
fn fault_of(asked: Asked, rows: &[Row]) -> Option<String> {
    let pairs: Vec<(i64, i64)> = rows
        .iter()
        .map(|row| match row[..] {
            [Value::Int(id), Value::Int(balance)] => (id, balance),
            _ => panic!("{row:?}"),
        })
        .collect();
    let is_sorted = match asked {
        Asked::All => true,
        Asked::Sorted => pairs.is_sorted_by_key(|(id, balance)| (-balance, *id)),
        Asked::Bounded => {
            let (offset, limit) = BOUNDS;
            let expected = offset + 1..=offset + limit;
            return (!pairs.iter().map(|(id, _)| *id).eq(expected)).then(|| format!("rows {pairs:?}"));
        }
    };
    if !is_sorted {
        return Some(format!("not in their order: {pairs:?}"));
    }
    let ids: BTreeSet<i64> = pairs.iter().map(|(id, _)| *id).collect();
    let sum: i64 = pairs.iter().map(|(_, balance)| balance).sum();
    let is_whole = pairs.len() == ids.len() && ids.len() as u64 == ACCOUNTS && sum == MONEY;
    (!is_whole).then(|| format!("{} rows of {} accounts with {sum} of {MONEY}", pairs.len(), ids.len()))
}

impl Script for Tellers {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        self.take_all();
        if is_last {
            return None;
        }
        let mut below = |most: u64| (self.chance.next_u64() % most) as i64;
        if below(2) == 0 {
            let (a, more, x) = (below(ACCOUNTS), 1 + below(ACCOUNTS - 1), 1 + below(9));
            let b = (a + more) % ACCOUNTS as i64;
            return Some(Begin::Call(world::call(Callee::Procedure(0), &[a + 1, b + 1, x])));
        }
        let at = below(Asked::EACH.len() as u64) as usize;
        let stream = Arc::new(RowStream::default());
        let streaming = Arc::new(self.gathers[at].streaming(stream.clone()));
        self.reading.insert(session, Reading { asked: Asked::EACH[at], stream, rows: Vec::new() });
        Some(Begin::Read(streaming, Vec::new()))
    }

    fn told(&mut self, session: usize, result: &Result<Output, SqlError>) {
        self.take_all();
        let Some(Reading { asked, mut rows, .. }) = self.reading.remove(&session) else { return };
        let mut told = self.told.lock().unwrap();
        match result {
            Ok(output) => {
                told.read += 1;
                told.mixed += usize::from(!rows.is_empty() && !output.rows.is_empty());
                rows.extend(output.rows.iter().cloned());
                if let Some(fault) = fault_of(asked, &rows) {
                    told.wrong.get_or_insert(fault);
                }
            }
            Err(error) => {
                told.lost += 1;
                if error.state().as_str() != "40001" {
                    told.wrong.get_or_insert(format!("{} {}", error.state(), error.message()));
                }
            }
        }
    }

    fn lost(&mut self, session: usize) {
        self.reading.remove(&session);
    }
}

fn bank() -> Bank {
    Bank { world: World::of(accounts::SCHEMA, &accounts::workload(ACCOUNTS)) }
}

#[test]
fn rows_that_are_taken_early_are_of_one_state() {
    let bank = bank();
    let mut all = Told::default();
    let mut long_reads = 0;
    for seed in world::seeds(0..60) {
        let (report, told) = bank.run(seed, PlantedBugs::default());
        println!("seed {seed}: {report} {told:?}");
        assert_eq!(report.failure, None, "seed {seed}: {report}");
        assert_eq!(told.wrong, None, "seed {seed}");
        all.read += told.read;
        all.lost += told.lost;
        all.taken_early += told.taken_early;
        all.mixed += told.mixed;
        long_reads += report.long_reads;
    }
    println!("{all:?}, {long_reads} long reads");
    world::check_reached(all.read > 1_000 && all.taken_early > 1_000 && long_reads > 500, &all);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let bank = bank();
    world::check_caught(name, 300, |seed| {
        let (report, told) = bank.run(seed, bugs);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

#[test]
fn shards_that_begin_without_their_siblings_are_caught() {
    check_caught("S5", PlantedBugs { begins_without_siblings: true, ..PlantedBugs::default() });
}
