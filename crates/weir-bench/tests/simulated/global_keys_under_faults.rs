//! Unique keys whose columns do not say where a row lives, while messages are lost and shards and coordinators die: no two rows of all
//! shards have one key, every row has its entries and every entry its row, and a key that its only user has freed is free
//! (docs/internals/global-keys.md).

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
use weir_txn::message::{Callee, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_types::{SqlError, Value};

const SCHEMA: &str = "
CREATE TABLE member (
    id integer PRIMARY KEY,
    email integer NOT NULL UNIQUE,
    badge integer,
    nick integer,
    visits integer NOT NULL DEFAULT 0,
    UNIQUE NULLS NOT DISTINCT (badge, nick)
);
COMMENT ON TABLE member IS 'weir: partition by (id)';
CREATE INDEX ON member (nick);
CREATE PROCEDURE join_as(i integer, e integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO member VALUES (i, e, i, e); END $$;
CREATE PROCEDURE leave(e integer) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM member WHERE email = e; END $$;
CREATE PROCEDURE visit(i integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE member SET visits = visits + 1 WHERE id = i; END $$;
CREATE PROCEDURE drop_in(i integer, e integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO member VALUES (i, e, i, NULL) ON CONFLICT (email) DO UPDATE SET visits = member.visits + 1; END $$;
";

/// The two of these keys are swapped all the time, and are always there.
const SWAPPED: [i64; 2] = [101, 102];

const WORKLOAD: &str = "
[load.member]
for = [\"m in 1..8\"]
id = \"m\"
email = \"100 + m\"
badge = \"m\"
nick = \"0\"
visits = \"0\"
[mix]
visit = 1
[parameters.visit]
i = \"uniform(1, 8)\"
";

const INSERT: &str = "INSERT INTO member VALUES ($1, $2, $1, NULL)";
/// Its keys do not follow from arguments, as far as the compiler looks: a transaction carries its entries.
const INSERT_BOTH: &str = "INSERT INTO member SELECT $1, $2, $3, NULL";
const UPSERT: &str = "INSERT INTO member VALUES ($1, $2, $1, NULL) ON CONFLICT (email) DO UPDATE SET visits = member.visits + 1";
const UNLESS_THERE: &str = "INSERT INTO member VALUES ($1, $2, $1, NULL) ON CONFLICT (email) DO NOTHING";
const REKEY: &str = "UPDATE member SET email = $2 WHERE email = $1";
const VISIT_BY_KEY: &str = "UPDATE member SET visits = visits + 1 WHERE email = $1";
const INSERT_TWO: &str = "INSERT INTO member VALUES ($1, $2, $1, NULL), ($3, $4, $3, NULL)";
const VISIT_LISTED: &str = "UPDATE member SET visits = visits + 1 WHERE id IN ($1, $2)";
const DELETE_LISTED: &str = "DELETE FROM member WHERE email IN ($1, $2)";
const LOCK_BY_KEY: &str = "SELECT id FROM member WHERE email = $1 FOR UPDATE";
const DELETE_BY_KEY: &str = "DELETE FROM member WHERE email = $1";

struct Club {
    world: World,
    swapped: Arc<Gather>,
    by_email: Arc<Gather>,
}

/// Results of all sessions.
#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    committed: usize,
    taken: usize,
    freed: usize,
    swaps: usize,
    swapped_reads: usize,
    looked_up: usize,
    put: usize,
    counted: usize,
}

#[derive(Clone, Debug)]
enum Line {
    /// A statement by itself, or of the open transaction.
    Single(&'static str, Vec<i64>),
    /// A statement by itself that writes so many rows.
    Counted(&'static str, Vec<i64>, i64),
    Call(usize, Vec<i64>),
    Sql(&'static str, Vec<i64>),
    Swapped,
    /// The id of the row with that key, which nobody else changes; none: there is no such row. Of a key that is swapped, any id.
    ByEmail(i64, Option<i64>),
    Savepoint,
    RollBackTo,
    Commit,
    RollBack,
}

/// State of a session.
#[derive(Debug, Default)]
struct Session {
    name: Option<u64>,
    /// Remaining steps, the next one last.
    script: Vec<Line>,
    under_way: Option<Line>,
    /// It is the only user of the keys that it writes.
    alone: bool,
    swaps: bool,
}

struct Members<'c> {
    club: &'c Club,
    chance: Xoshiro256PlusPlus,
    sessions: BTreeMap<usize, Session>,
    names: u64,
    /// Numbers that nobody has used before.
    fresh: i64,
    told: Arc<Mutex<Told>>,
}

impl Club {
    fn open() -> Club {
        let world = World::of(SCHEMA, WORKLOAD);
        let program = world.program(1);
        let sql = "SELECT count(*)::int FROM member WHERE email IN (101, 102)";
        let swapped = world::query(&world.application, &program, sql);
        let by_email = world::query(&world.application, &program, "SELECT id FROM member WHERE email = $1");
        Club { world, swapped, by_email }
    }

    fn run(&self, setup: Setup<PlantedBugs>) -> (Report, Told) {
        let told = Arc::new(Mutex::new(Told::default()));
        let mut simulated =
            Simulated::new(&self.world.application, &self.world.analysis, &self.world.workload);
        let members = Members {
            club: self,
            chance: Xoshiro256PlusPlus::seed_from_u64(setup.seed),
            sessions: BTreeMap::new(),
            names: 0,
            fresh: 1_000,
            told: told.clone(),
        };
        world::run(&mut simulated, ("global-keys", setup), &told, members)
    }
}

impl Members<'_> {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    fn fresh(&mut self) -> i64 {
        self.fresh += 1 + self.below(3);
        self.fresh
    }

    /// In the order in which it is done.
    fn draw(&mut self, session: usize) -> Vec<Line> {
        let (id, one, other) = (self.fresh(), 1 + self.below(12), 1 + self.below(12));
        let end = if self.below(5) == 0 { Line::RollBack } else { Line::Commit };
        let which = self.below(20);
        let of = self.sessions.entry(session).or_default();
        (of.alone, of.swaps) = (which < 3 || which == 11 || which == 18, which == 3);
        match which {
            // The key is its own: it is taken, freed, and taken again by another row.
            0 | 1 => {
                let (next, email) = (self.fresh(), 10_000 + id);
                vec![
                    Line::Single(INSERT, vec![id, email]),
                    Line::ByEmail(email, Some(id)),
                    Line::Counted(VISIT_BY_KEY, vec![email], 1),
                    Line::Single("DELETE FROM member WHERE id = $1 AND email = $2", vec![id, email]),
                    Line::ByEmail(email, None),
                    Line::Counted(VISIT_BY_KEY, vec![email], 0),
                    Line::Single(INSERT, vec![next, email]),
                    Line::Counted(DELETE_BY_KEY, vec![email], 1),
                    Line::Single(INSERT, vec![next, email]),
                    Line::Counted(REKEY, vec![email, 10_000 + next], 1),
                    Line::ByEmail(10_000 + next, Some(next)),
                    Line::ByEmail(email, None),
                    Line::Single(INSERT, vec![id, email]),
                    Line::Single("DELETE FROM member WHERE email IN ($1, $2)", vec![email, 10_000 + next]),
                ]
            }
            2 => {
                let (next, email) = (self.fresh(), 10_000 + id);
                vec![
                    Line::Sql(INSERT, vec![id, email]),
                    Line::Savepoint,
                    Line::Sql("DELETE FROM member WHERE id = $1 AND email = $2", vec![id, email]),
                    Line::Sql(INSERT, vec![next, email]),
                    Line::RollBackTo,
                    Line::Sql(REKEY, vec![email, 10_000 + next]),
                    Line::Sql(INSERT, vec![next, email]),
                    Line::Sql("DELETE FROM member WHERE email IN ($1, $2)", vec![email, 10_000 + next]),
                    end,
                ]
            }
            3 => {
                let [one, other] = SWAPPED;
                vec![
                    Line::Sql(REKEY, vec![one, id + 100_000]),
                    Line::Sql(REKEY, vec![other, one]),
                    Line::Sql(REKEY, vec![id + 100_000, other]),
                    Line::Commit,
                ]
            }
            4 => {
                let [one, other] = SWAPPED;
                vec![
                    Line::Swapped,
                    Line::ByEmail(one, None),
                    Line::Counted(VISIT_BY_KEY, vec![one], 1),
                    Line::ByEmail(other, None),
                    Line::Counted(VISIT_BY_KEY, vec![other], 1),
                ]
            }
            5 => vec![Line::Single(INSERT, vec![id, one])],
            6 => vec![Line::Single("DELETE FROM member WHERE email IN ($1, $2)", vec![one, other])],
            7 => vec![Line::Single(REKEY, vec![one, other])],
            8 => vec![Line::Call(0, vec![id, one])],
            9 => vec![Line::Call(1, vec![one])],
            10 => vec![Line::Single(
                "UPDATE member SET badge = $1, nick = NULL WHERE email = $2",
                vec![one, other],
            )],
            // The key is its own: the second one meets the row of the first, wherever that lives.
            11 => {
                let (next, email) = (self.fresh(), 20_000 + id);
                vec![
                    Line::Single(UPSERT, vec![id, email]),
                    Line::Single(UPSERT, vec![next, email]),
                    Line::Single(UNLESS_THERE, vec![next, email]),
                    Line::Single("DELETE FROM member WHERE email = $1 AND id = $2", vec![email, id]),
                    Line::Single(UPSERT, vec![next, email]),
                    Line::Single("DELETE FROM member WHERE email = $1 AND id = $2", vec![email, next]),
                ]
            }
            12 => vec![Line::Single(UPSERT, vec![id, one])],
            13 => vec![Line::Single(UNLESS_THERE, vec![id, one])],
            14 => vec![Line::Call(3, vec![id, one])],
            15 => vec![
                Line::Sql(UPSERT, vec![id, one]),
                Line::Savepoint,
                Line::Sql(UPSERT, vec![id + 200_000, other]),
                Line::Sql("DELETE FROM member WHERE email = $1 AND id > $2 - 13", vec![one, other]),
                Line::RollBackTo,
                Line::Sql(UPSERT, vec![id + 200_000, one]),
                Line::Sql(UNLESS_THERE, vec![id + 300_000, other]),
                end,
            ],
            // Several sessions insert the same two keys, of which each shard may own one.
            16 | 17 => {
                let email = 13 + one % 2;
                vec![
                    Line::Single("DELETE FROM member WHERE email = $1 AND id > $2", vec![email, 0]),
                    Line::Single(INSERT_BOTH, vec![id, email, 2_000 + email]),
                ]
            }
            // Rows of several shards that have just come are found by a list of their keys.
            18 => {
                let (next, email) = (self.fresh(), 30_000 + id);
                vec![
                    Line::Counted(INSERT_TWO, vec![id, email, next, 30_000 + next], 2),
                    Line::Counted(VISIT_LISTED, vec![id, next], 2),
                    Line::Counted(DELETE_LISTED, vec![email, 30_000 + next], 2),
                    Line::Counted(VISIT_LISTED, vec![id, next], 0),
                ]
            }
            _ => vec![
                Line::Sql("DELETE FROM member WHERE email = $1 AND id > $2 - 13", vec![one, other]),
                Line::Sql(INSERT, vec![id, one]),
                Line::Savepoint,
                Line::Sql(REKEY, vec![one, other]),
                Line::RollBackTo,
                Line::Sql(LOCK_BY_KEY, vec![one]),
                Line::Sql("UPDATE member SET visits = visits + $2 WHERE email = $1", vec![one, 1]),
                end,
            ],
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let of = self.sessions.entry(session).or_default();
        of.under_way = Some(line.clone());
        let order = match line {
            Line::Single(sql, args) | Line::Counted(sql, args, _) => {
                return Begin::Call(world::statement(sql, &args));
            }
            Line::Call(at, args) => return Begin::Call(world::call(Callee::Procedure(at), &args)),
            Line::Swapped => return Begin::Read(self.club.swapped.clone(), Vec::new()),
            Line::ByEmail(email, _) => {
                return Begin::Read(self.club.by_email.clone(), vec![Value::Int(email)]);
            }
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

impl Script for Members<'_> {
    fn next(&mut self, session: usize, is_last: bool) -> Option<Begin> {
        let has_open = self.sessions.entry(session).or_default().name.is_some();
        if is_last && !has_open {
            return None;
        }
        if self.sessions[&session].script.is_empty() {
            let mut script = self.draw(session);
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
            (Line::Swapped, Ok(output)) => {
                told.swapped_reads += 1;
                let found = output.rows.first().and_then(|row| row.first());
                if found != Some(&Value::Int(2)) {
                    told.wrong.get_or_insert(format!("a reader saw {found:?} of the two that are swapped"));
                }
            }
            (Line::ByEmail(email, expected), Ok(output)) => {
                told.looked_up += 1;
                let found = output.rows.iter().map(|row| &row[0]);
                let is_right = match SWAPPED.contains(email) {
                    true => found.count() == 1,
                    false => found.eq(expected.map(Value::Int).iter()),
                };
                if !is_right {
                    told.wrong.get_or_insert(format!("{line:?} has found {:?}", output.rows));
                }
            }
            (Line::Commit | Line::RollBack, _) => {
                let commits = matches!((&line, result), (Line::Commit, Ok(_)));
                told.committed += usize::from(commits);
                told.swaps += usize::from(commits && of.swaps);
                *of = Session::default();
            }
            (_, Err(error)) => {
                let is_taken = error.state().as_str() == "23505";
                told.taken += usize::from(is_taken);
                if is_taken && of.alone {
                    told.wrong.get_or_insert(format!(
                        "{line:?} of a key that nobody else uses: {}",
                        error.message()
                    ));
                }
                if error.state().as_str() == "XX000" {
                    told.wrong.get_or_insert(format!("{line:?}: {}", error.message()));
                }
                of.script = if of.name.is_some() { vec![Line::RollBack] } else { Vec::new() };
            }
            (Line::Single(text, args), Ok(output)) => {
                told.freed += usize::from(of.alone);
                let written = output.values.first();
                let is_certain = *text == UPSERT || of.alone && args[0] > 20_000 && *text != UNLESS_THERE;
                told.put += usize::from(*text == UPSERT && of.alone);
                if is_certain && written != Some(&Value::Int(1)) {
                    told.wrong.get_or_insert(format!("{line:?} has written {written:?} rows"));
                }
            }
            (Line::Counted(_, _, expected), Ok(output)) => {
                told.counted += 1;
                let written = output.values.first();
                if written != Some(&Value::Int(*expected)) {
                    told.wrong.get_or_insert(format!("{line:?} has written {written:?} rows"));
                }
            }
            (Line::Sql(text, _), Ok(output))
                if *text == UPSERT && output.values.first() != Some(&Value::Int(1)) =>
            {
                told.wrong.get_or_insert(format!("{line:?} has written {:?} rows", output.values));
            }
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.sessions.insert(session, Session::default());
    }
}

fn setup(seed: u64, bugs: PlantedBugs) -> Setup<PlantedBugs> {
    Setup { bugs, calls: 240, shards: Some(2 + (seed % 3) as u16), ..Setup::new(seed) }
}

#[test]
fn keys_are_unique_over_all_shards() {
    let club = Club::open();
    let mut all = Told::default();
    for seed in world::seeds(0..16) {
        let (report, told) = club.run(setup(seed, PlantedBugs::default()));
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((&report.failure, &told.wrong), (&None, &None), "seed {seed}: {report}");
        all.committed += told.committed;
        all.taken += told.taken;
        all.freed += told.freed;
        all.swaps += told.swaps;
        all.swapped_reads += told.swapped_reads;
        all.looked_up += told.looked_up;
        all.put += told.put;
        all.counted += told.counted;
    }
    println!("{all:?}");
    world::check_reached(all.committed > 50 && all.taken > 30 && all.freed > 50, &all);
    world::check_reached(
        all.swaps > 10 && all.swapped_reads > 20 && all.put > 10 && all.looked_up > 50 && all.counted > 50,
        &all,
    );
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let club = Club::open();
    world::check_caught(name, 100, |seed| {
        let (report, told) = club.run(setup(seed, bugs));
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

#[test]
fn rows_without_entries_are_caught() {
    check_caught("no entry", PlantedBugs { forgets_entries: true, ..PlantedBugs::default() });
}

#[test]
fn entries_without_a_claim_are_caught() {
    check_caught("no claim", PlantedBugs { adds_unclaimed: true, ..PlantedBugs::default() });
}

#[test]
fn owners_that_forget_their_own_rows_are_caught() {
    check_caught("own rows", PlantedBugs { looks_in_entries_alone: true, ..PlantedBugs::default() });
}

#[test]
fn a_row_that_need_not_be_where_it_was_seen_is_caught() {
    check_caught("trusts reports", PlantedBugs { trusts_conflict: true, ..PlantedBugs::default() });
}

#[test]
fn a_row_that_need_not_be_where_its_owner_has_said_is_caught() {
    check_caught("trusts owners", PlantedBugs { trusts_named_home: true, ..PlantedBugs::default() });
}

#[test]
fn lists_of_keys_that_miss_rows_which_have_just_come_are_caught() {
    check_caught(
        "misses prepared rows",
        PlantedBugs { misses_prepared_parents: true, ..PlantedBugs::default() },
    );
}

#[test]
fn entries_rolled_back_to_a_savepoint_are_caught_if_they_stay() {
    check_caught("to a savepoint", PlantedBugs { keeps_what_is_rolled_back: true, ..PlantedBugs::default() });
}

#[test]
fn prepared_entries_that_a_restart_forgets_are_caught() {
    check_caught("a restart", PlantedBugs { recovery_forgets_prepared: true, ..PlantedBugs::default() });
}

#[test]
fn who_waits_in_the_round_that_prepares_is_caught() {
    check_caught("waits prepared", PlantedBugs { waits_while_prepared: true, ..PlantedBugs::default() });
}

#[test]
fn owners_that_answer_while_a_key_is_held_are_caught() {
    check_caught("held keys", PlantedBugs { trusts_held_keys: true, ..PlantedBugs::default() });
}
