//! A server is killed at random moments while clients of PostgreSQL's protocol work: every acknowledged transaction is there
//! afterwards, none that was not is there by half, no money is lost or made, and the numbers of orders are dense.
//!
//! `WEIR_KILLS=N` kills so many times (20 without), `WEIR_SEED=N` at other moments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use crate::alone::Alone;
use crate::gate::Gate;
use postgres::{Client as Driver, Error, NoTls};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const SHARDS: &str = "3";
/// Enough that what waits for the end of a transaction which a kill has cut off does not keep all others.
const ACCOUNTS: i32 = 400;
const BALANCE: i32 = 100;
const DISTRICTS: i32 = 3;

/// One for each of the three kinds of work, and as many again.
const SESSIONS: usize = 9;

const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL);
CREATE TABLE transfer (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, x integer NOT NULL);
CREATE TABLE single (id integer PRIMARY KEY);
CREATE TABLE district (id integer PRIMARY KEY, last integer NOT NULL DEFAULT 0);
CREATE TABLE orders (district integer NOT NULL, number integer NOT NULL, who integer NOT NULL, PRIMARY KEY (district, number));
";

/// Numbers that a sequence's guard gives at the commit.
const DENSE: &str = "
COMMENT ON TABLE district IS 'weir: assert dense check (NOT EXISTS (SELECT 1 FROM district
    WHERE last <> coalesce((SELECT max(number) FROM orders WHERE orders.district = district.id), 0)))';
CREATE PROCEDURE place(d integer, w integer, OUT given integer) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE district SET last = last + 1 WHERE id = d RETURNING last INTO given;
    INSERT INTO orders VALUES (d, given, w);
END $$;
";

/// Everything in one read, so that each transaction is in it as a whole or not at all.
const ALL: &str = "
SELECT 'account', id, balance, 0, 0 FROM account
UNION ALL SELECT 'transfer', id, a, b, x FROM transfer
UNION ALL SELECT 'single', id, 0, 0, 0 FROM single
UNION ALL SELECT 'district', id, last, 0, 0 FROM district
UNION ALL SELECT 'order', district, number, who, 0 FROM orders";

/// A client's knowledge of the outcome of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Acknowledged,
    /// It was told that nothing has happened, or never asked for the end.
    Nothing,
    /// The connection broke before the answer.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
enum Done {
    /// The number of a transfer.
    Moved(i32),
    /// The first of so many keys in a row.
    Inserted(i32, i32),
    /// Whose order, and which number it was given, if that was heard.
    Ordered { district: i32, who: i32, number: Option<i32> },
}

/// Outcome implied by an error of the server; none if the error must not occur.
fn fate_of(error: &Error) -> Option<Fate> {
    match error.code().map(|code| code.code()) {
        None | Some("08007") => Some(Fate::Unknown),
        Some("40001" | "40P01") => Some(Fate::Nothing),
        Some(_) => None,
    }
}

struct Session {
    number: i32,
    chance: Xoshiro256PlusPlus,
    /// The work that it has done.
    count: i32,
    done: Vec<(Done, Fate)>,
    /// Wrong answers of the server.
    wrong: Option<String>,
}

impl Session {
    fn below(&mut self, most: u64) -> i32 {
        (self.chance.next_u64() % most) as i32
    }

    /// A number that nobody else has, nor the two after it.
    fn fresh(&mut self) -> i32 {
        self.count += 1;
        (self.count * SESSIONS as i32 + self.number) * 3
    }

    /// Works until the connection breaks.
    fn run(&mut self, port: u16) {
        let url = format!("host=127.0.0.1 port={port} user=ann dbname=weir");
        let Ok(mut driver) = Driver::connect(&url, NoTls) else { return };
        loop {
            let (done, result) = match self.number % 3 {
                0 => self.transfer(&mut driver),
                1 => self.insert(&mut driver),
                _ => self.order(&mut driver),
            };
            let fate = match &result {
                Ok(true) => Fate::Acknowledged,
                Ok(false) => Fate::Nothing,
                Err(error) => fate_of(error).unwrap_or_else(|| {
                    self.wrong = Some(format!("{done:?}: {error:?}"));
                    Fate::Unknown
                }),
            };
            self.done.push((done, fate));
            if driver.is_closed() {
                return;
            }
        }
    }

    /// Whether it has asked for COMMIT, and what came of it.
    fn transfer(&mut self, driver: &mut Driver) -> (Done, Result<bool, Error>) {
        let id = self.fresh();
        let (a, x) = (1 + self.below(ACCOUNTS as u64), 1 + self.below(9));
        let b = 1 + (a + self.below(ACCOUNTS as u64 - 1)) % ACCOUNTS;
        let commits = self.below(6) > 0;
        let mut work = || {
            driver.batch_execute("BEGIN")?;
            driver.execute("UPDATE account SET balance = balance - $2 WHERE id = $1", &[&a, &x])?;
            driver.execute("INSERT INTO transfer VALUES ($1, $2, $3, $4)", &[&id, &a, &b, &x])?;
            driver.execute("UPDATE account SET balance = balance + $2 WHERE id = $1", &[&b, &x])
        };
        if work().is_err() {
            // The connection broke, or others were in its way: either way it has not asked for its end.
            let _ = driver.batch_execute("ROLLBACK");
            return (Done::Moved(id), Ok(false));
        }
        let ended = driver.batch_execute(if commits { "COMMIT" } else { "ROLLBACK" });
        // A roll-back that was not heard is one all the same.
        (Done::Moved(id), if commits { ended.map(|()| true) } else { Ok(false) })
    }

    fn insert(&mut self, driver: &mut Driver) -> (Done, Result<bool, Error>) {
        let id = self.fresh();
        if self.below(2) == 0 {
            let result = driver.execute("INSERT INTO single VALUES ($1)", &[&id]);
            return (Done::Inserted(id, 1), result.map(|_| true));
        }
        let result =
            driver.execute("INSERT INTO single VALUES ($1), ($2), ($3)", &[&id, &(id + 1), &(id + 2)]);
        (Done::Inserted(id, 3), result.map(|_| true))
    }

    fn order(&mut self, driver: &mut Driver) -> (Done, Result<bool, Error>) {
        let (district, who) = (1 + self.below(DISTRICTS as u64), self.fresh());
        let result = driver.query_one("CALL place($1, $2, NULL)", &[&district, &who]);
        let number = result.as_ref().ok().map(|row| row.get(0));
        (Done::Ordered { district, who, number }, result.map(|_| true))
    }
}

/// Contents of the tables.
#[derive(Debug, Default)]
struct Found {
    accounts: BTreeMap<i32, i32>,
    transfers: BTreeMap<i32, (i32, i32, i32)>,
    singles: BTreeSet<i32>,
    districts: BTreeMap<i32, i32>,
    /// By district and number: whose.
    orders: BTreeMap<(i32, i32), i32>,
}

impl Found {
    fn read(driver: &mut Driver) -> Found {
        let mut found = Found::default();
        for row in driver.query(ALL, &[]).unwrap() {
            let [one, two, three, four] = [1, 2, 3, 4].map(|at: usize| row.get::<_, i32>(at));
            match row.get(0) {
                "account" => drop(found.accounts.insert(one, two)),
                "transfer" => drop(found.transfers.insert(one, (two, three, four))),
                "single" => drop(found.singles.insert(one)),
                "district" => drop(found.districts.insert(one, two)),
                _ => drop(found.orders.insert((one, two), three)),
            }
        }
        found
    }

    /// Error in the contents, if any.
    fn check(&self, done: &[(Done, Fate)]) -> Result<(), String> {
        let mut expected: BTreeMap<i32, i32> = (1..=ACCOUNTS).map(|account| (account, BALANCE)).collect();
        for (a, b, x) in self.transfers.values() {
            *expected.get_mut(a).expect("there is that account") -= x;
            *expected.get_mut(b).expect("there is that account") += x;
        }
        if self.accounts != expected {
            return Err(format!("balances {:?}, and transfers make {expected:?}", self.accounts));
        }
        for district in 1..=DISTRICTS {
            let numbers = self.orders.range((district, i32::MIN)..(district + 1, i32::MIN));
            let numbers: Vec<i32> = numbers.map(|((_, number), _)| *number).collect();
            let last = self.districts[&district];
            if numbers != (1..=last).collect::<Vec<_>>() {
                return Err(format!("district {district} is at {last} and has the orders {numbers:?}"));
            }
        }
        let whose: BTreeSet<i32> = self.orders.values().copied().collect();
        if whose.len() != self.orders.len() {
            return Err("an order was placed twice".to_owned());
        }
        for (one, fate) in done {
            // All of it, some of it, and what it was told.
            let (all, some, agrees) = match *one {
                Done::Moved(id) => (self.transfers.contains_key(&id), self.transfers.contains_key(&id), true),
                Done::Inserted(first, count) => {
                    let is_there = |id: i32| self.singles.contains(&id);
                    let mut ids = first..first + count;
                    (ids.clone().all(is_there), ids.any(is_there), true)
                }
                Done::Ordered { district, who, number } => {
                    let is_there = whose.contains(&who);
                    let given = number.map(|number| self.orders.get(&(district, number)));
                    (is_there, is_there, given.is_none_or(|given| given == Some(&who)))
                }
            };
            let is_right = match fate {
                Fate::Acknowledged => all && agrees,
                Fate::Nothing => !some,
                Fate::Unknown => all == some,
            };
            if !is_right {
                return Err(format!("{one:?} is {fate:?}; of it all: {all}, some: {some}"));
            }
        }
        Ok(())
    }
}

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn what_was_acknowledged_is_there_and_nothing_by_half() {
    let (kills, seed) = (number_from("WEIR_KILLS").unwrap_or(20), number_from("WEIR_SEED").unwrap_or(1));
    // Snapshots are written all the while.
    let mut server = Alone::with(&["--shards", SHARDS, "--snapshot-after", "32KiB"]);
    let mut driver = server.driver();
    driver.batch_execute(SCHEMA).unwrap();
    let accounts: Vec<String> = (1..=ACCOUNTS).map(|account| format!("({account}, {BALANCE})")).collect();
    driver.batch_execute(&format!("INSERT INTO account VALUES {}", accounts.join(", "))).unwrap();
    for district in 1..=DISTRICTS {
        driver.execute("INSERT INTO district (id) VALUES ($1)", &[&district]).unwrap();
    }
    driver.batch_execute(DENSE).unwrap();
    let gate = Gate::default();
    let sessions: Vec<Mutex<Session>> = (0..SESSIONS)
        .map(|number| {
            let chance = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000 + number as u64);
            Mutex::new(Session { number: number as i32, chance, count: 0, done: Vec::new(), wrong: None })
        })
        .collect();
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |most: u64| chance.next_u64() % most;
    let wrong = std::thread::scope(|threads| {
        for session in &sessions {
            let gate = &gate;
            threads.spawn(move || {
                while let Some(port) = gate.enter() {
                    session.lock().unwrap().run(port);
                    gate.leave();
                }
            });
        }
        let mut wrong = None;
        for kill in 0..kills {
            gate.open(server.port());
            std::thread::sleep(Duration::from_millis(below(1_000)));
            gate.close();
            server.kill();
            gate.wait_until_empty();
            server.start_again();
            // Now and then it is killed before it is up, or while it settles what was undecided.
            while below(4) == 0 {
                std::thread::sleep(Duration::from_millis(below(300)));
                server.kill();
                server.start_again();
            }
            server.wait();
            let found = Found::read(&mut server.driver());
            let done: Vec<(Done, Fate)> =
                sessions.iter().flat_map(|session| session.lock().unwrap().done.clone()).collect();
            let told = sessions.iter().find_map(|session| session.lock().unwrap().wrong.take());
            if let Err(why) = told.map_or_else(|| found.check(&done), Err) {
                wrong = Some(format!("seed {seed}, kill {kill}: {why}"));
                break;
            }
        }
        gate.end();
        wrong
    });
    assert_eq!(wrong, None);
    let mut counts: BTreeMap<Fate, usize> = BTreeMap::new();
    for session in sessions {
        session
            .into_inner()
            .unwrap()
            .done
            .iter()
            .for_each(|(_, fate)| *counts.entry(*fate).or_default() += 1);
    }
    let count = |fate| counts.get(&fate).copied().unwrap_or_default();
    let (acknowledged, nothing, unknown) =
        (count(Fate::Acknowledged), count(Fate::Nothing), count(Fate::Unknown));
    println!(
        "seed {seed}: {kills} kills, {acknowledged} transactions acknowledged, {nothing} not done, {unknown} unknown: every \
         acknowledged one is there, none by half, orders are dense"
    );
    assert!(acknowledged > 0 && unknown > 0, "the server was killed in the middle of nothing");
}
