//! Transactions of several statements while messages are lost and shards and coordinators die, beside calls: money is moved by
//! amounts and by values that were read before, and none is lost, made, or seen on its way (docs/internals/server.md, "Interactive
//! transactions"; soundness S14, S16). Some take a part back, to a savepoint, after an error too. What was acknowledged, of
//! transactions, single statements and calls, is there in the end, although shards lose what they have not synced.

use crate::world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::world::World;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::simulate::{Check, Simulated};
use weir_sim::calls::{Report, Script, Setup};
use weir_sim::network::Faults;
use weir_txn::exec::gather::Gather;
use weir_txn::faults::PlantedBugs;
use weir_txn::message::{Callee, Output};
use weir_txn::ramp::Begin;
use weir_txn::ramp::client::Order;
use weir_txn::storage::Rows;
use weir_types::interrupt::Budget;
use weir_types::{SqlError, Value};

const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL, uses integer NOT NULL,
    visits integer NOT NULL);
CREATE INDEX ON account (visits);
CREATE TABLE entry (id integer PRIMARY KEY, account integer NOT NULL, amount integer NOT NULL);
COMMENT ON TABLE entry IS 'weir: partition by (id)';
CREATE PROCEDURE move(a integer, b integer, x integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - x WHERE id = a;
    UPDATE account SET balance = balance + x WHERE id = b;
END $$;
CREATE PROCEDURE note(e integer, a integer, x integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entry VALUES (e, a, x);
    UPDATE account SET uses = uses + 1 WHERE id = a;
END $$;
";

const WORKLOAD: &str = "
[load.account]
for = [\"a in 1..8\"]
id = \"a\"
balance = \"100\"
uses = \"0\"
visits = \"0\"
[mix]
move = 1
[parameters.move]
a = \"uniform(1, 8)\"
b = \"uniform(1, 8)\"
x = \"uniform(1, 9)\"
";

const MONEY: i64 = 800;

const TAKE: &str = "UPDATE account SET balance = balance - $2, uses = uses + 1 WHERE id = $1";
const GIVE: &str = "UPDATE account SET balance = balance + $2, visits = visits + 1 WHERE id = $1";

const INSERT: &str = "INSERT INTO entry VALUES ($1, $2, 0)";

struct Bank {
    world: World,
    sum: Arc<Gather>,
    balance: Arc<Gather>,
    uses: Arc<Gather>,
    unvisited: Arc<Gather>,
}

impl Bank {
    fn open() -> Bank {
        let world = World::of(SCHEMA, WORKLOAD);
        let program = world.program(1);
        let gather = |sql: &str| world::query(&world.application, &program, sql);
        let sum = gather("SELECT sum(balance)::int FROM account");
        let balance = gather("SELECT balance FROM account WHERE id = $1::int");
        let uses = gather("SELECT uses FROM account WHERE id = $1::int");
        let unvisited = gather("SELECT count(*)::int FROM account WHERE visits = 0");
        Bank { world, sum, balance, uses, unvisited }
    }

    fn run(&self, seed: u64, bugs: PlantedBugs) -> (Report, Told) {
        self.run_as(Setup { bugs, calls: 240, ..Setup::new(seed) }, false)
    }

    /// `keeps`: what was acknowledged, of transactions, single statements and calls, must be there in the end.
    fn run_as(&self, setup: Setup<PlantedBugs>, keeps: bool) -> (Report, Told) {
        let seed = setup.seed;
        let [balance, entry] = ["account", "entry"]
            .map(|name| self.world.application.catalog.table_by_name(name).unwrap().clone());
        let told = Arc::new(Mutex::new(Told::default()));
        let heard = told.clone();
        let check: Check = Arc::new(move |rows: &dyn Rows| {
            let mut lost = heard.lock().unwrap().kept.clone();
            for id in world::integers(rows, entry.id, 0) {
                lost.remove(&id);
            }
            if !lost.is_empty() {
                return Some(format!("the acknowledged entries {lost:?} are not there"));
            }
            let sum: i64 = world::integers(rows, balance.id, 1).into_iter().sum();
            (sum != MONEY).then(|| format!("{sum} of {MONEY}"))
        });
        let mut simulated =
            Simulated::new(&self.world.application, &self.world.analysis, &self.world.workload)
                .with_check(check);
        let tellers = Tellers {
            bank: self,
            keeps,
            sets: seed % 2 == 1,
            chance: Xoshiro256PlusPlus::seed_from_u64(seed),
            sessions: BTreeMap::new(),
            names: 0,
            told: told.clone(),
        };
        world::run(&mut simulated, ("interactive", setup), &told, tellers)
    }
}

/// Results of all sessions.
#[derive(Debug, Default)]
struct Told {
    wrong: Option<String>,
    /// Entries of which it was said that they are there.
    kept: BTreeSet<i64>,
    committed: usize,
    rolled_back: usize,
    deadlocks: usize,
    own_reads: usize,
    /// Counters that only grow: by account the number of uses, under 0 the number of visited accounts.
    grown: BTreeMap<i64, i64>,
    grown_reads: usize,
    /// To savepoints.
    taken_back: usize,
    taken_back_after_errors: usize,
}

/// State of a session.
#[derive(Debug, Default)]
struct Session {
    /// Of its open transaction.
    name: Option<u64>,
    /// Remaining steps, the next one last.
    script: Vec<Line>,
    under_way: Option<Line>,
    /// Accounts that the transaction has read for writing.
    read: Vec<i64>,
    savepoints: usize,
    /// The entry that it has inserted.
    entry: Option<i64>,
    /// Steps since the innermost savepoint, to be repeated after an error.
    since: Vec<Line>,
    /// Number of times that it may.
    timeouts: usize,
    has_failed: bool,
    /// Highest value known to any session when this one asked.
    at_least: i64,
}

#[derive(Clone, Debug)]
enum Line {
    Sum,
    Call(Vec<i64>),
    /// Inserts an entry by itself.
    Single(i64),
    /// The same by a call that also changes an account.
    Note(Vec<i64>),
    Sql(&'static str, Vec<i64>),
    /// Keeps the balance that it returns.
    Hold(i64),
    /// Sets the balance to what was read at that place, and so much more.
    Set {
        account: i64,
        of: usize,
        more: i64,
    },
    /// The balance is what was set at last.
    OwnRead(i64),
    /// A value that was reported once must never decrease (S16): that account's, or the one under 0.
    Grown(i64),
    /// Inserts one row on its shard, and one twice on its own: nothing of it stays.
    Twice(i64),
    Savepoint,
    Release(usize),
    RollBackTo(usize),
    Commit,
    RollBack,
}

struct Tellers<'b> {
    bank: &'b Bank,
    /// They insert entries that must be there in the end.
    keeps: bool,
    /// Some set balances to what they have read and more. Reads are atomic and no snapshots: one may see such a balance and not yet
    /// the other half of what it was read from, so readers of these runs cannot count.
    sets: bool,
    chance: Xoshiro256PlusPlus,
    sessions: BTreeMap<usize, Session>,
    names: u64,
    told: Arc<Mutex<Told>>,
}

impl Tellers<'_> {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    /// In the order in which it is done.
    fn draw(&mut self) -> Vec<Line> {
        let (a, b, x) = (1 + self.below(8), 1 + self.below(8), 1 + self.below(9));
        let b = if a == b { 1 + a % 8 } else { b };
        let end = if self.below(5) == 0 { Line::RollBack } else { Line::Commit };
        let entry = if self.keeps { 1 + self.below(1_000_000_000) } else { 0 };
        match self.below(if self.keeps { 15 } else { 13 }) {
            11 => vec![Line::Grown(a)],
            12 => vec![Line::Grown(0)],
            8 => vec![
                Line::Sql(TAKE, vec![a, x]),
                Line::Savepoint,
                Line::Sql(GIVE, vec![b, 2 * x]),
                Line::RollBackTo(0),
                Line::Sql(GIVE, vec![b, x]),
                end,
            ],
            9 => vec![
                Line::Savepoint,
                Line::Sql(TAKE, vec![a, x]),
                Line::Savepoint,
                Line::Sql(TAKE, vec![b, 7]),
                Line::Twice(1 + self.below(1_000_000)),
                Line::RollBackTo(1),
                Line::Release(1),
                Line::Sql(GIVE, vec![b, x]),
                end,
            ],
            10 => vec![
                Line::Savepoint,
                Line::Sql(TAKE, vec![a, x]),
                Line::Sql(GIVE, vec![b, x]),
                Line::Savepoint,
                Line::Sql("UPDATE account SET balance = 0, uses = uses + 1 WHERE id > $1", vec![a % 4]),
                Line::RollBackTo(1),
                Line::Sql(GIVE, vec![a, 1]),
                Line::RollBackTo(1),
                end,
            ],
            13 => vec![Line::Single(entry)],
            14 => vec![Line::Note(vec![entry, a, x])],
            0 => vec![Line::Sum],
            1 => vec![Line::Call(vec![a, b, x])],
            which @ 2..=5 if which < 4 || !self.sets => {
                vec![Line::Sql(TAKE, vec![a, x]), Line::Sql(GIVE, vec![b, x]), end]
            }
            2..=5 => vec![
                Line::Hold(a),
                Line::Hold(b),
                Line::Set { account: a, of: 0, more: -x },
                Line::OwnRead(a),
                Line::Set { account: b, of: 1, more: x },
                end,
            ],
            6 => {
                let entry = 1 + self.below(1_000_000);
                vec![
                    Line::Sql("INSERT INTO entry VALUES ($1, $2, 0), ($1 + 1, $2, 0)", vec![entry, a]),
                    Line::Sql("UPDATE entry SET amount = $2 WHERE id BETWEEN $1 AND $1 + 1", vec![entry, x]),
                    Line::Sql("DELETE FROM entry WHERE id = $1 AND amount = $2", vec![entry, x]),
                    end,
                ]
            }
            _ => {
                let mut lines = vec![
                    Line::Sql("UPDATE account SET uses = uses + 1 WHERE id > $1", vec![a % 4]),
                    Line::Sql(TAKE, vec![a, x]),
                ];
                lines.extend(self.keeps.then(|| Line::Sql(INSERT, vec![entry, a])));
                lines.extend([Line::Sql(GIVE, vec![b, x]), end]);
                lines
            }
        }
    }

    fn begin(&mut self, session: usize, line: Line) -> Begin {
        let bank = self.bank;
        let of = self.sessions.entry(session).or_default();
        of.under_way = Some(line.clone());
        let order = match line {
            Line::Sum => return Begin::Read(bank.sum.clone(), Vec::new()),
            Line::Grown(account) => {
                of.at_least = self.told.lock().unwrap().grown.get(&account).copied().unwrap_or(0);
                return match account {
                    0 => Begin::Read(bank.unvisited.clone(), Vec::new()),
                    _ => Begin::Read(bank.uses.clone(), vec![Value::Int(account)]),
                };
            }
            Line::Call(args) => return Begin::Call(world::call(Callee::Procedure(0), &args)),
            Line::Single(entry) => return Begin::Call(world::statement(INSERT, &[entry, 1])),
            Line::Note(args) => return Begin::Call(world::call(Callee::Procedure(1), &args)),
            Line::Sql(sql, args) => {
                if sql == INSERT {
                    of.entry = Some(args[0]);
                }
                Order::Call(world::statement(sql, &args))
            }
            Line::Hold(account) => Order::Call(world::statement(
                match account % 4 {
                    0 => "SELECT balance FROM account WHERE id = $1 FOR UPDATE",
                    2 => "SELECT balance FROM account WHERE id = $1 FOR NO KEY UPDATE",
                    _ => "UPDATE account SET uses = uses + 1 WHERE id = $1 RETURNING balance",
                },
                &[account],
            )),
            Line::Set { account, of: at, more } => Order::Call(world::statement(
                "UPDATE account SET balance = $2 WHERE id = $1",
                &[account, of.read[at] + more],
            )),
            Line::Twice(entry) => Order::Call(world::statement(
                "INSERT INTO entry VALUES ($1 + 1, 1, 0), ($1, 1, 0), ($1, 1, 0)",
                &[entry],
            )),
            Line::Savepoint => Order::Savepoint,
            Line::Release(keep) => Order::Release(keep),
            Line::RollBackTo(at) => Order::RollBackTo(at),
            Line::OwnRead(account) => Order::Read(bank.balance.clone(), vec![Value::Int(account)]),
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

impl Script for Tellers<'_> {
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
        let first = result.as_ref().ok().and_then(|output| output.rows.first()?.first().cloned());
        match (&line, result) {
            (Line::Sum, Ok(_)) if !self.sets && first != Some(Value::Int(MONEY)) => {
                told.wrong.get_or_insert(format!("a reader saw {first:?} of {MONEY}"));
            }
            (Line::Grown(account), Ok(_)) => {
                let Some(Value::Int(now)) = first else { panic!("{result:?}") };
                let now = if *account == 0 { 8 - now } else { now };
                if now < of.at_least {
                    told.wrong.get_or_insert(format!("{now} of {account}, and it was {}", of.at_least));
                }
                let most = told.grown.entry(*account).or_default();
                *most = now.max(*most);
                told.grown_reads += 1;
            }
            (Line::Hold(_), Ok(_)) => {
                let Some(Value::Int(balance)) = first else { panic!("{result:?}") };
                of.read.push(balance);
            }
            (Line::Set { of: at, more, .. }, Ok(_)) => of.read[*at] += more,
            (Line::OwnRead(_), Ok(_)) => {
                told.own_reads += 1;
                if first != Some(Value::Int(of.read[0])) {
                    told.wrong.get_or_insert(format!("{first:?} is not what it has written, {}", of.read[0]));
                }
            }
            (Line::Commit | Line::RollBack, _) => {
                let commits = matches!((&line, result), (Line::Commit, Ok(_)));
                told.kept.extend(of.entry.filter(|_| commits));
                *(if commits { &mut told.committed } else { &mut told.rolled_back }) += 1;
                *of = Session::default();
            }
            (Line::Single(entry), Ok(_)) => drop(told.kept.insert(*entry)),
            (Line::Note(args), Ok(_)) => drop(told.kept.insert(args[0])),
            (Line::Twice(_), Ok(_)) => {
                told.wrong.get_or_insert("a key was inserted twice".to_owned());
            }
            // The next step takes it back.
            (Line::Twice(_), Err(_)) => of.has_failed = true,
            (Line::Savepoint, Ok(_)) => {
                of.savepoints += 1;
                of.since.clear();
            }
            // The work since the one before is not known here.
            (Line::Release(keep), Ok(_)) => (of.savepoints, of.timeouts) = (*keep, usize::MAX),
            (Line::RollBackTo(at), Ok(_)) => {
                told.taken_back += 1;
                told.taken_back_after_errors += usize::from(std::mem::take(&mut of.has_failed));
                of.savepoints = at + 1;
                of.since.clear();
            }
            (_, Err(error)) => {
                told.deadlocks += usize::from(error.state().as_str() == "40P01");
                let may_go_back = of.savepoints > 0 && of.timeouts < 3;
                if may_go_back && matches!(line, Line::Sql(..)) {
                    // From the innermost savepoint on again.
                    (of.timeouts, of.has_failed) = (of.timeouts + 1, true);
                    of.script.push(line);
                    of.script.extend(std::mem::take(&mut of.since).into_iter().rev());
                    of.script.push(Line::RollBackTo(of.savepoints - 1));
                } else {
                    of.script = if of.name.is_some() { vec![Line::RollBack] } else { Vec::new() };
                }
            }
            (Line::Sql(..), Ok(_)) => of.since.push(line),
            _ => {}
        }
    }

    fn lost(&mut self, session: usize) {
        self.sessions.insert(session, Session::default());
    }
}

#[test]
fn no_money_is_lost_made_or_seen_on_its_way() {
    let bank = Bank::open();
    let mut all = Told::default();
    for seed in world::seeds(0..16) {
        let (report, told) = bank.run_as(Setup { calls: 240, ..Setup::new(seed) }, true);
        println!("seed {seed}: {report} {told:?}");
        assert_eq!(report.failure, None, "seed {seed}: {report}");
        assert_eq!(told.wrong, None, "seed {seed}");
        all.committed += told.committed;
        all.kept.extend(told.kept);
        all.rolled_back += told.rolled_back;
        all.deadlocks += told.deadlocks;
        all.own_reads += told.own_reads;
        all.grown_reads += told.grown_reads;
        all.taken_back += told.taken_back;
        all.taken_back_after_errors += told.taken_back_after_errors;
    }
    println!("{all:?}");
    world::check_reached(
        all.committed > 100
            && all.kept.len() > 50
            && all.rolled_back > 20
            && all.deadlocks > 0
            && all.own_reads > 20,
        &all,
    );
    world::check_reached(all.grown_reads > 50, &all);
    world::check_reached(all.taken_back > 50 && all.taken_back_after_errors > 20, &all);
}

/// A loss of power loses records that were passed to the log and not synced: no message that depends on them may have left.
#[test]
fn answers_that_leave_before_they_are_durable_are_caught() {
    let bank = Bank::open();
    world::check_caught("S16", 100, |seed| {
        let (report, told) = bank.run_as(Setup { answers_early: true, calls: 240, ..Setup::new(seed) }, true);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

/// A shard that computes for seconds says nothing meanwhile; of no transaction the other shards think that its coordinator is dead.
#[test]
fn shards_that_compute_for_long_make_nobody_forget_a_transaction() {
    let bank = Bank::open();
    let mut committed = 0;
    for seed in world::seeds(0..8) {
        let faults = Faults { busy_us_max: 5_000_000, mishap_every_us: 1_500_000, ..Faults::none() };
        let setup = Setup { faults: Some(faults), shards: Some(3), calls: 120, ..Setup::new(seed) };
        let (report, told) = bank.run_as(setup, true);
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((&report.failure, &told.wrong), (&None, &None), "seed {seed}: {report}");
        let forgotten = report.aborted.keys().find(|reason| reason.contains("forgotten"));
        assert_eq!(forgotten, None, "seed {seed}");
        assert_eq!((report.terminated, report.unknown), ((0, 0), 0), "seed {seed}");
        committed += told.committed;
    }
    world::check_reached(committed > 30, &committed);
}

fn check_caught(name: &str, bugs: PlantedBugs) {
    let bank = Bank::open();
    world::check_caught(name, 300, |seed| {
        let (report, told) = bank.run(seed, bugs);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}

#[test]
fn calls_that_do_not_ask_for_rows_of_open_transactions_are_caught() {
    check_caught("S14", PlantedBugs { ignores_open: true, ..PlantedBugs::default() });
}

#[test]
fn shards_that_forget_what_is_open_and_do_not_say_so_are_caught() {
    let bank = Bank::open();
    let run = |seed, opens_again| {
        let bugs = PlantedBugs { opens_again, ..PlantedBugs::default() };
        let faults = Some(short_crashes_and_repetitions());
        let (report, told) = bank.run_as(Setup { bugs, calls: 240, faults, ..Setup::new(seed) }, false);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    };
    world::check_caught("a late first statement", 300, |seed| {
        let why = run(seed, true)?;
        assert_eq!(run(seed, false), None, "seed {seed} without the bug");
        Some(why)
    });
}

/// A repetition of a statement often meets a shard that has started again since the statement was first run.
fn short_crashes_and_repetitions() -> Faults {
    Faults {
        delay_us_max: 10_000,
        loss_per_mille: 30,
        duplicate_per_mille: 200,
        shard_down_us_max: 10_000,
        mishap_every_us: 50_000,
        ..Faults::none()
    }
}

#[test]
fn shards_that_keep_what_is_rolled_back_are_caught() {
    check_caught("to a savepoint", PlantedBugs { keeps_what_is_rolled_back: true, ..PlantedBugs::default() });
}

#[test]
fn statements_that_come_again_after_they_were_rolled_back_are_caught() {
    check_caught("a late statement", PlantedBugs { rolled_back_comes_again: true, ..PlantedBugs::default() });
}

/// One shard, whose disk is slow and which crashes all the time.
fn on_a_slow_disk(seed: u64, bugs: PlantedBugs) -> Setup<PlantedBugs> {
    let faults = Faults {
        delay_us_max: 500,
        mishap_every_us: 50_000,
        shard_down_us_max: 10_000,
        sync_us_max: 20_000,
        ..Faults::default()
    };
    Setup { bugs, calls: 400, shards: Some(1), faults: Some(faults), ..Setup::new(seed) }
}

#[test]
fn what_has_been_told_is_never_taken_back() {
    let bank = Bank::open();
    let mut reads = 0;
    for seed in world::seeds(0..16) {
        let (report, told) = bank.run_as(on_a_slow_disk(seed, PlantedBugs::default()), false);
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((report.failure, told.wrong), (None, None), "seed {seed}");
        reads += told.grown_reads;
    }
    world::check_reached(reads > 150, &reads);
}

#[test]
fn answers_from_what_is_not_durable_are_caught() {
    let bank = Bank::open();
    let bugs = PlantedBugs { ignores_read_dependencies: true, ..PlantedBugs::default() };
    world::check_caught("S16", 300, |seed| bank.run_as(on_a_slow_disk(seed, bugs), false).1.wrong);
}

#[test]
fn for_update_that_holds_nothing_is_caught() {
    check_caught("FOR UPDATE", PlantedBugs { forgets_for_update: true, ..PlantedBugs::default() });
}

#[test]
fn for_no_key_update_that_others_share_is_caught() {
    check_caught("FOR NO KEY UPDATE", PlantedBugs { shares_rows: true, ..PlantedBugs::default() });
}

#[test]
fn a_long_statement_that_trusts_its_moment_is_caught() {
    check_caught("a long statement", PlantedBugs { trusts_moment: true, ..PlantedBugs::default() });
}

#[test]
fn a_long_statement_that_leaves_writes_is_caught() {
    check_caught("what it leaves", PlantedBugs { keeps_unfinished: true, ..PlantedBugs::default() });
}

/// Every commit of two rows or more takes several steps.
fn in_slices(seed: u64, bugs: PlantedBugs) -> Setup<PlantedBugs> {
    let bugs = PlantedBugs { small_commits: true, ..bugs };
    let step_budget = Some(if seed.is_multiple_of(3) { Budget(0) } else { Budget(u32::MAX) });
    Setup { bugs, step_budget, calls: 240, ..Setup::new(seed) }
}

#[test]
fn commits_in_slices_keep_what_they_have_told() {
    let bank = Bank::open();
    let mut committed = 0;
    for seed in world::seeds(0..16) {
        let (report, told) = bank.run_as(in_slices(seed, PlantedBugs::default()), true);
        println!("seed {seed}: {report} {told:?}");
        assert_eq!((&report.failure, &told.wrong), (&None, &None), "seed {seed}: {report}");
        committed += told.committed;
    }
    world::check_reached(committed > 100, &committed);
}

#[test]
fn commits_that_give_their_claims_up_before_they_are_whole_are_caught() {
    let bank = Bank::open();
    let bugs = PlantedBugs { releases_ahead: true, ..PlantedBugs::default() };
    world::check_caught("claims of a commit in slices", 300, |seed| {
        let (report, told) = bank.run_as(in_slices(seed, bugs), true);
        told.wrong.or(report.failure.map(|failure| format!("{failure:?}")))
    });
}
