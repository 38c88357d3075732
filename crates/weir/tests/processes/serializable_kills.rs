//! A server on three shards is killed at random moments while clients of PostgreSQL's protocol work at SERIALIZABLE, beside statements by
//! themselves and calls over several shards, ordered ones too: what all of them have read and written is strictly serializable, by the checker of the
//! simulated worlds (`history.rs`).
//!
//! `WEIR_KILLS=N` kills so many times (4 without), `WEIR_SEED=N` at other moments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use postgres::error::Error;
use postgres::types::ToSql;
use postgres::{Client as Driver, NoTls};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::alone::Alone;
use crate::gate::Gate;
use crate::history::{End, Final, History, Seen};

const CLIENTS: u64 = 8;
/// Registers, and groups.
const MANY: u64 = 4;
const ONCE: u64 = 60;
/// Transactions before a kill, and after it: the checker looks at all pairs.
const HALF: usize = 160;

const SCHEMA: [&str; 9] = [
    "CREATE TABLE reg (id integer PRIMARY KEY, value integer NOT NULL, prev integer NOT NULL)",
    "CREATE TABLE item (grp integer, tag integer, PRIMARY KEY (grp, tag))",
    "CREATE TABLE once (id integer PRIMARY KEY, tag integer NOT NULL)",
    // No key, which could be taken: the part of an ordered call at one shard cannot fail alone.
    "CREATE TABLE done (tag integer NOT NULL)",
    "COMMENT ON TABLE done IS 'weir: partition by (tag)'",
    "CREATE PROCEDURE spread(g integer, h integer, t integer) LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO item VALUES (g, t);
        INSERT INTO item VALUES (h, t);
        INSERT INTO done VALUES (t);
    END $$",
    "CREATE PROCEDURE mark(a integer, b integer, t integer, OUT pa integer, OUT pb integer) LANGUAGE plpgsql AS $$
    BEGIN
        SELECT value INTO pa FROM reg WHERE id = a;
        UPDATE reg SET value = t WHERE id = a;
        SELECT value INTO pb FROM reg WHERE id = b;
        UPDATE reg SET value = t WHERE id = b;
        INSERT INTO done VALUES (t);
    END $$",
    "ALTER PROCEDURE mark SET default_transaction_isolation = 'serializable'",
    "INSERT INTO reg VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0)",
];

const EMPTY: [&str; 4] =
    ["DELETE FROM item", "DELETE FROM once", "DELETE FROM done", "UPDATE reg SET value = 0, prev = 0"];

const ALL: &str = "SELECT 'done', tag, 0 FROM done UNION ALL SELECT 'item', grp, tag FROM item UNION ALL SELECT 'once', id, tag FROM once";

const SET: &str = "UPDATE reg SET prev = value, value = $2 WHERE id = $1 RETURNING prev";

/// The outcome of a transaction as its client knows it; an error that must not come is an error here.
fn end_of(result: Result<(), Error>, has_asked: bool) -> Result<End, String> {
    let Err(error) = result else { return Ok(End::Committed) };
    match error.code().map(|code| code.code().to_owned()).as_deref() {
        // The connection broke. A transaction whose COMMIT was not sent has not happened.
        None | Some("08007") => Ok(if has_asked { End::Unknown } else { End::Aborted }),
        Some("40001" | "40P01") => Ok(End::Aborted),
        Some(_) => Err(format!("{error:?}")),
    }
}

struct Client<'c> {
    chance: Xoshiro256PlusPlus,
    history: &'c Mutex<History>,
    tags: &'c AtomicI64,
    tag: i64,
}

impl Client<'_> {
    fn below(&mut self, most: u64) -> i64 {
        (self.chance.next_u64() % most) as i64
    }

    fn some(&mut self) -> i64 {
        1 + self.below(MANY)
    }

    fn begin(&mut self, is_alone: bool) {
        self.tag = 1 + self.tags.fetch_add(1, Ordering::Relaxed);
        self.history.lock().unwrap().begin(self.tag, is_alone);
    }

    fn saw(&self, seen: Seen) {
        self.history.lock().unwrap().saw(self.tag, vec![seen]);
    }

    /// The first column of the rows.
    fn integers(driver: &mut Driver, sql: &str, arguments: &[i64]) -> Result<Vec<(i64, i64)>, Error> {
        let arguments: Vec<i32> = arguments.iter().map(|one| *one as i32).collect();
        let arguments: Vec<&(dyn ToSql + Sync)> =
            arguments.iter().map(|one| one as &(dyn ToSql + Sync)).collect();
        let rows = driver.query(sql, &arguments)?;
        let value = |row: &postgres::Row, at: usize| match at < row.len() {
            true => i64::from(row.get::<_, i32>(at)),
            false => 0,
        };
        Ok(rows.iter().map(|row| (value(row, 0), value(row, 1))).collect())
    }

    fn set(&mut self, driver: &mut Driver) -> Result<(), Error> {
        let id = self.some();
        let before = Client::integers(driver, SET, &[id, self.tag])?[0].0;
        self.saw(Seen::Set(id, before));
        Ok(())
    }

    fn read(&mut self, driver: &mut Driver) -> Result<(), Error> {
        let which = self.some();
        let seen = match self.below(8) {
            0..=2 => {
                let rows = Client::integers(driver, "SELECT value FROM reg WHERE id = $1", &[which])?;
                Seen::Register(which, rows[0].0)
            }
            3..=5 => {
                let rows = Client::integers(driver, "SELECT grp, tag FROM item WHERE grp = $1", &[which])?;
                Seen::Groups(which..=which, rows.into_iter().collect())
            }
            6 => {
                let rows = Client::integers(driver, "SELECT grp, tag FROM item", &[])?;
                Seen::Groups(1..=MANY as i64, rows.into_iter().collect())
            }
            _ => {
                let id = 1 + self.below(ONCE);
                let rows = Client::integers(driver, "SELECT tag FROM once WHERE id = $1", &[id])?;
                Seen::Once(id, rows.first().map(|row| row.0))
            }
        };
        self.saw(seen);
        Ok(())
    }

    fn write(&mut self, driver: &mut Driver) -> Result<(), Error> {
        match self.below(6) {
            0..=1 => return self.set(driver),
            2..=4 => {
                let add = "INSERT INTO item VALUES ($1, $2) ON CONFLICT DO NOTHING";
                Client::integers(driver, add, &[self.some(), self.tag])?;
                self.saw(Seen::Added);
            }
            _ => {
                let id = 1 + self.below(ONCE);
                let add = "INSERT INTO once VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id";
                let rows = Client::integers(driver, add, &[id, self.tag])?;
                self.saw(if rows.is_empty() { Seen::OnceTaken(id) } else { Seen::AddedOnce(id) });
            }
        }
        Ok(())
    }

    /// All of a transaction before its COMMIT.
    fn body(&mut self, driver: &mut Driver) -> Result<(), Error> {
        driver.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE")?;
        for _ in 0..1 + self.below(2) {
            self.read(driver)?;
        }
        if self.below(6) == 0 {
            return self.read(driver);
        }
        if self.below(5) == 0 {
            driver.batch_execute("SAVEPOINT s")?;
            self.history.lock().unwrap().savepoint(self.tag);
            self.read(driver)?;
            self.write(driver)?;
            driver.batch_execute("ROLLBACK TO s")?;
            self.history.lock().unwrap().roll_back_to(self.tag);
        }
        for _ in 0..1 + self.below(2) {
            self.write(driver)?;
        }
        Client::integers(driver, "INSERT INTO done VALUES ($1)", &[self.tag]).map(drop)
    }

    fn transaction(&mut self, driver: &mut Driver) -> Result<End, String> {
        self.begin(false);
        if let Err(error) = self.body(driver) {
            // The server forgets it, if it is there.
            let _ = driver.batch_execute("ROLLBACK");
            return end_of(Err(error), false);
        }
        match self.below(12) {
            0 => {
                let _ = driver.batch_execute("ROLLBACK");
                Ok(End::Aborted)
            }
            _ => end_of(driver.batch_execute("COMMIT"), true),
        }
    }

    /// An ordered call.
    fn mark(&mut self, driver: &mut Driver) -> Result<End, String> {
        self.begin(false);
        let a = self.some();
        let b = 1 + a % MANY as i64;
        let called = Client::integers(driver, "CALL mark($1, $2, $3, NULL, NULL)", &[a, b, self.tag]);
        if let Ok(before) = &called {
            self.saw(Seen::Set(a, before[0].0));
            self.saw(Seen::Set(b, before[0].1));
        }
        end_of(called.map(drop), true)
    }

    fn one(&mut self, driver: &mut Driver) -> Result<End, String> {
        match self.below(10) {
            0..=1 => {
                self.begin(true);
                let result = self.set(driver);
                end_of(result, true)
            }
            2 => {
                self.begin(false);
                let g = self.some();
                let called = Client::integers(driver, "CALL spread($1, $2, $3)", &[g, 1 + g % 4, self.tag]);
                end_of(called.map(drop), true)
            }
            3..=4 => self.mark(driver),
            _ => self.transaction(driver),
        }
    }

    /// Works until the gate is closed or the connection breaks. What must not be said is the error.
    fn work(&mut self, port: u16, gate: &Gate) -> Result<BTreeMap<String, usize>, String> {
        let mut ends = BTreeMap::new();
        let url = format!("host=127.0.0.1 port={port} user=ann dbname=weir");
        let Ok(mut driver) = Driver::connect(&url, NoTls) else { return Ok(ends) };
        while gate.is_open() && !driver.is_closed() {
            let end = self.one(&mut driver)?;
            self.history.lock().unwrap().end(self.tag, end);
            *ends.entry(format!("{end:?}")).or_default() += 1;
            gate.count();
        }
        Ok(ends)
    }
}

fn there(driver: &mut Driver) -> Final {
    let mut there = Final { done: BTreeSet::new(), items: BTreeSet::new(), once: BTreeMap::new() };
    for row in driver.query(ALL, &[]).unwrap() {
        let [one, two] = [1, 2].map(|at: usize| i64::from(row.get::<_, i32>(at)));
        match row.get(0) {
            "done" => drop(there.done.insert(one)),
            "item" => drop(there.items.insert((one, two))),
            _ => drop(there.once.insert(one, two)),
        }
    }
    there
}

fn number_from(name: &str, without: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(without)
}

#[test]
fn what_clients_have_seen_is_strictly_serializable() {
    let (kills, seed) = (number_from("WEIR_KILLS", 4), number_from("WEIR_SEED", 1));
    let mut server = Alone::with(&["--shards", "3", "--snapshot-after", "32KiB"]);
    for sql in SCHEMA {
        server.driver().batch_execute(sql).unwrap();
    }
    let plan = "EXPLAIN (COORDINATION) CALL mark(1, 2, 0, NULL, NULL)";
    let plan = server.driver().query(plan, &[]).unwrap();
    let is_ordered = |row: &postgres::Row| row.get::<_, &str>(0).contains("Mechanism: ordered");
    assert!(plan.iter().any(is_ordered), "{plan:?}");
    let (gate, history, tags) = (Gate::default(), Mutex::new(History::default()), AtomicI64::new(0));
    let (ends, wrong) = (Mutex::new(BTreeMap::<String, usize>::new()), Mutex::new(None::<String>));
    std::thread::scope(|threads| {
        for number in 0..CLIENTS {
            let (gate, history, tags, ends, wrong) = (&gate, &history, &tags, &ends, &wrong);
            let chance = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000 + number);
            threads.spawn(move || {
                let mut client = Client { chance, history, tags, tag: 0 };
                while let Some(port) = gate.enter() {
                    match client.work(port, gate) {
                        Ok(own) => {
                            let mut ends = ends.lock().unwrap();
                            own.into_iter().for_each(|(end, count)| *ends.entry(end).or_default() += count);
                        }
                        Err(why) => {
                            wrong.lock().unwrap().get_or_insert(why);
                            gate.count();
                        }
                    }
                    gate.leave();
                }
            });
        }
        for kill in 0..kills {
            gate.open(server.port());
            gate.wait_for(HALF);
            server.kill();
            gate.close();
            gate.wait_until_empty();
            server.start_again();
            server.wait();
            gate.open(server.port());
            gate.wait_for(HALF);
            gate.close();
            gate.wait_until_empty();
            let mut driver = server.driver();
            let violation = history.lock().unwrap().violation(&there(&mut driver));
            let found = wrong.lock().unwrap().take().or(violation);
            if let Some(found) = found {
                gate.end();
                panic!("seed {seed}, kill {kill}: {found}");
            }
            *history.lock().unwrap() = History::default();
            EMPTY.iter().for_each(|sql| driver.batch_execute(sql).unwrap());
        }
        gate.end();
    });
    let ends = ends.into_inner().unwrap();
    println!("seed {seed}: {kills} kills, {ends:?}: strictly serializable");
    assert!(ends.contains_key("Unknown") || kills < 2, "killed in the middle of nothing: {ends:?}");
    assert!(ends["Committed"] > HALF, "{ends:?}");
}
