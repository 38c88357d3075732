//! A shop as users write it, by procedures, by statements through psycopg and by Django's mapper: accounts with unique e-mails, stock that
//! is never below zero, coupons that are used once, invoices without gaps, reviews of what was bought. Many clients work while the
//! server is killed and started again; afterwards all rules hold, and nothing that was acknowledged is lost.
//!
//! `WEIR_KILLS=N` kills so many times (2 without), `WEIR_CLIENTS=N` has other clients than 32, `WEIR_SEED=N` other chances.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::postgres::Server as Postgres;

use crate::alone::Alone;
use crate::installed::installed;

/// How accounts with a unique e-mail are made: INSERT … ON CONFLICT DO NOTHING; or INSERT, whose 23505 says that there is one.
const ON_CONFLICT: &str = "on-conflict";
const PLAINLY: &str = "plainly";

/// Transactions between two kills.
const BETWEEN: (u64, u64) = (100, 400);

fn number_from(name: &str, without: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(without)
}

/// The program of the clients, which is told what to do line by line.
struct Shop {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Shop {
    fn open(form: &str, registers: &str) -> Shop {
        let packages = installed("django", |place| {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(place);
            pip.args(["psycopg[binary]>=3.2,<4", "django>=5,<6"]);
            pip
        });
        let own: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shop");
        let (clients, seed) = (number_from("WEIR_CLIENTS", 32), number_from("WEIR_SEED", 1));
        let mut python = Command::new("python3");
        python
            .arg(own.join("shop.py"))
            .args([form, registers])
            .arg(clients.to_string())
            .arg(seed.to_string());
        python.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut process = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Shop { process, commands, answers: BufReader::new(answers) }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        writeln!(self.commands, "{}", words.join("\t")).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    /// It must answer so.
    fn tell(&mut self, words: &[&str], expected: &str) {
        let answer = self.ask(words);
        if answer != expected {
            panic!("{words:?}: {answer}\n{}", self.ask(&["count"]));
        }
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn check(form: &str, registers: &str, shards: u16) {
    let (kills, seed) = (number_from("WEIR_KILLS", 2), number_from("WEIR_SEED", 1));
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut work = || (BETWEEN.0 + chance.next_u64() % (BETWEEN.1 - BETWEEN.0)).to_string();
    // Snapshots are written all the while.
    let mut server = Alone::with(&["--shards", &shards.to_string(), "--snapshot-after", "64KiB"]);
    let mut shop = Shop::open(form, registers);
    shop.tell(&["define", &server.url()], "defined");
    for _ in 0..kills {
        shop.tell(&["run", &server.url(), &work()], "done");
        server.kill();
        shop.tell(&["rest"], "resting");
        server.start_again();
        server.wait();
        shop.tell(&["check", &server.url()], "right");
    }
    shop.tell(&["run", &server.url(), &work()], "done");
    shop.tell(&["rest"], "resting");
    shop.tell(&["check", &server.url()], "right");
    println!("{form}, {shards} shards, {kills} kills: every rule holds; {}", shop.ask(&["count"]));
}

fn check_postgres(form: &str) {
    let server = Postgres::start().unwrap();
    let mut shop = Shop::open(form, ON_CONFLICT);
    shop.tell(&["define", &server.connection_string()], "defined");
    shop.tell(&["run", &server.connection_string(), "1500"], "done");
    shop.tell(&["rest"], "resting");
    shop.tell(&["check", &server.connection_string()], "right");
    println!("{form}, PostgreSQL: every rule holds; {}", shop.ask(&["count"]));
}

#[test]
fn by_calls_on_one_shard() {
    check("calls", ON_CONFLICT, 1);
}

#[test]
fn by_calls_on_four_shards() {
    check("calls", PLAINLY, 4);
}

#[test]
fn by_calls_with_on_conflict_on_four_shards() {
    check("calls", ON_CONFLICT, 4);
}

#[test]
fn by_calls_in_postgres() {
    check_postgres("calls");
}

#[test]
fn by_statements_on_one_shard() {
    check("statements", ON_CONFLICT, 1);
}

#[test]
fn by_statements_on_four_shards() {
    check("statements", PLAINLY, 4);
}

#[test]
fn by_statements_with_on_conflict_on_four_shards() {
    check("statements", ON_CONFLICT, 4);
}

#[test]
fn by_statements_in_postgres() {
    check_postgres("statements");
}

#[test]
fn by_django_on_one_shard() {
    check("django", PLAINLY, 1);
}

#[test]
fn by_django_on_four_shards() {
    check("django", PLAINLY, 4);
}

#[test]
fn by_django_in_postgres() {
    check_postgres("django");
}
