//! Row locks and what READ COMMITTED makes of rows that were waited for, beside PostgreSQL: each pair of ways to hold a row, and
//! conversations of several sessions from files. Nothing here waits for a time: whether a statement waits its server is asked.

mod queue;

use std::collections::BTreeMap;

use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;
use weir_client::{Client, ClusterFile};
use weir_pg::{Door, Server, Settings};

use super::{Session, Weir, said, settles};
use crate::nodes::Nodes;

const SCHEMA: &str = "
CREATE TABLE test (id integer PRIMARY KEY, value integer NOT NULL);
CREATE TABLE parent (id integer PRIMARY KEY, code integer NOT NULL, v integer NOT NULL, UNIQUE (id, code));
CREATE TABLE child (parent integer REFERENCES parent, id integer, PRIMARY KEY (parent, id));
CREATE TABLE job (id integer PRIMARY KEY, value integer NOT NULL);
CREATE TABLE tree (id integer PRIMARY KEY, up integer REFERENCES tree);
CREATE PROCEDURE post(i integer, x integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO job VALUES (i, x); END $$;
CREATE PROCEDURE grow(i integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO tree VALUES (i, NULL); END $$;
CREATE PROCEDURE bear(p integer, c integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO child VALUES (p, c); END $$;
CREATE PROCEDURE touch(p integer) LANGUAGE plpgsql AS $$
BEGIN UPDATE parent SET v = v + 1 WHERE id = p; END $$;
CREATE PROCEDURE bury(p integer) LANGUAGE plpgsql AS $$
BEGIN DELETE FROM parent WHERE id = p; END $$;
CREATE PROCEDURE try(i integer, x integer) LANGUAGE plpgsql AS $$
BEGIN INSERT INTO test VALUES (i, x); UPDATE test SET value = x WHERE id = i; DELETE FROM test WHERE id = i; END $$;
";

pub const ROWS: [&str; 5] = [
    "DELETE FROM child",
    "DELETE FROM parent",
    "DELETE FROM test",
    "INSERT INTO test VALUES (1, 10), (2, 20)",
    "INSERT INTO parent VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)",
];

pub fn weir(shards: usize) -> Weir {
    let workload = "[mix]\ntouch = 1\n[parameters.touch]\np = \"uniform(1, 3)\"\n";
    let nodes = Nodes::of(SCHEMA, workload, 1, shards, false);
    let client = Client::connect(&ClusterFile::read(&nodes.file()).unwrap()).unwrap();
    let server: Server =
        Door::new(Settings::new("127.0.0.1:0".parse().unwrap())).unwrap().open(client).unwrap();
    Weir { server, _nodes: nodes }
}

pub fn postgres() -> Postgres {
    let postgres = Postgres::start().unwrap();
    Driver::connect(&postgres.connection_string(), NoTls).unwrap().batch_execute(SCHEMA).unwrap();
    postgres
}

/// Lines `session: SQL`, one after the other; `session& SQL` may wait, and is answered where `session!` stands.
fn play(url: &str, script: &str) -> Vec<String> {
    let mut monitor = Driver::connect(url, NoTls).unwrap();
    for sql in ROWS {
        monitor.simple_query(sql).unwrap();
    }
    let mut sessions: BTreeMap<&str, Session> = BTreeMap::new();
    let mut early: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut lines = Vec::new();
    // PostgreSQL ends whoever notices the circle; here that is the last who begins, as in Weir, which has no such setting.
    let last = script.lines().filter_map(|line| line.get(..1)).max().expect("lines");
    for line in script.lines().map(str::trim) {
        let at = line.find([':', '&', '!']).expect("a line names its session");
        let (name, sql) = (&line[..at], line[at + 1..].trim());
        let session = sessions.entry(name).or_insert_with(|| {
            let session = Session::begin(url);
            session.send(if name == last {
                "SET deadlock_timeout = 20"
            } else {
                "SET deadlock_timeout = '1h'"
            });
            session.answer();
            session
        });
        let answer = match &line[at..=at] {
            "&" => {
                session.send(sql);
                let waiting = 1 + early.values().filter(|answer| answer.is_none()).count();
                let answer = settles(session, &mut monitor, waiting);
                let said = if answer.is_none() { "waits" } else { "does not wait" };
                early.insert(name, answer);
                said.to_owned()
            }
            "!" => early.remove(name).expect("it was sent").unwrap_or_else(|| session.answer()),
            _ => {
                session.send(sql);
                session.answer()
            }
        };
        lines.push(format!("{line} → {answer}"));
    }
    drop(sessions);
    lines.push(said(&mut monitor, "SELECT id, value FROM test ORDER BY id"));
    lines.push(said(&mut monitor, "SELECT id, code, v FROM parent ORDER BY id"));
    lines.push(said(&mut monitor, "SELECT parent, id FROM child ORDER BY parent, id"));
    lines
}

/// Scenarios of a file: what follows a line `# name`, up to an empty one.
pub fn scenarios(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let scenario = |one: &'static str| one.trim().strip_prefix("# ").expect("a name").split_once('\n');
    text.split("\n\n").map(|one| scenario(one).expect("lines")).collect()
}

/// Each of them as PostgreSQL answers it, on one shard and on three; those of `differs` (shards, name) are known not to be.
fn check(text: &'static str, differs: &[(usize, &str)]) -> usize {
    let postgres = postgres();
    let scenarios = scenarios(text);
    let play_all =
        |url: &str| -> Vec<Vec<String>> { scenarios.iter().map(|(_, script)| play(url, script)).collect() };
    let expected = play_all(&postgres.connection_string());
    let mut wrong = Vec::new();
    for shards in [1, 3] {
        let found = play_all(&weir(shards).url());
        for (((name, _), found), expected) in scenarios.iter().zip(found).zip(&expected) {
            if (found != *expected) != differs.contains(&(shards, name)) {
                wrong.push(format!("{name}, {shards} shards:\n{found:#?}\nPostgreSQL: {expected:#?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    scenarios.len()
}

#[test]
fn hermitage_at_read_committed() {
    assert_eq!(check(include_str!("hermitage.txt"), &[]), 19);
}

#[test]
fn rows_that_were_waited_for_are_looked_at_again() {
    // The shard that is asked last chooses when the others have answered.
    let differs = [
        (3, "a row that is inserted meanwhile is not"),
        (3, "who waits twice keeps to the rows of the beginning"),
    ];
    check(include_str!("rechecks.txt"), &differs);
}

#[test]
fn rows_are_held_in_four_strengths() {
    check(include_str!("strengths.txt"), &[]);
}

#[test]
fn foreign_keys_hold_when_their_statement_has_ended() {
    check(include_str!("references.txt"), &[]);
}

#[test]
fn keys_that_others_give_up_are_waited_for() {
    check(include_str!("keys.txt"), &[]);
}

#[test]
fn no_more_rows_are_held_than_the_first_ones() {
    // One shard chooses anew when the row is free; by the order of then.
    check(
        include_str!("first_rows.txt"),
        &[(1, "a row that is changed meanwhile keeps its place in the order")],
    );
}

/// PostgreSQL waits for the holders of a row one after the other, and sees this circle when the first has ended.
#[test]
fn circles_through_any_holder_are_seen() {
    let script = "a: BEGIN
        b: BEGIN
        c: BEGIN
        a: SELECT v FROM parent WHERE id = 1 FOR SHARE
        b: SELECT v FROM parent WHERE id = 1 FOR SHARE
        c: SELECT v FROM parent WHERE id = 2 FOR UPDATE
        b& SELECT v FROM parent WHERE id = 2 FOR SHARE
        c: UPDATE parent SET v = 0 WHERE id = 1
        b!
        b: COMMIT";
    for shards in [1, 3] {
        let lines = play(&weir(shards).url(), script);
        assert_eq!(
            lines[6..9].iter().map(|line| line.rsplit("→ ").next().unwrap()).collect::<Vec<_>>(),
            ["waits", "40P01", "2 (1)"]
        );
    }
}

/// Ways to hold the row of parent 1.
const HOLDS: [&str; 8] = [
    "SELECT id FROM parent WHERE id = 1 FOR KEY SHARE",
    "SELECT id FROM parent WHERE id = 1 FOR SHARE",
    "SELECT id FROM parent WHERE id = 1 FOR NO KEY UPDATE",
    "SELECT id FROM parent WHERE id = 1 FOR UPDATE",
    "INSERT INTO child VALUES (1, ID)",
    "UPDATE parent SET v = v + 1 WHERE id = 1",
    "UPDATE parent SET code = code + 1 WHERE id = 1",
    "DELETE FROM parent WHERE id = 1",
];

/// The same by calls.
const CALLS: [&str; 3] = ["CALL bear(1, ID)", "CALL touch(1)", "CALL bury(1)"];

/// For each way to hold the row and each of `takes` whether the second one waits: in a transaction, or by itself.
fn matrix(url: &str, takes: &[&str], in_transaction: bool) -> Vec<String> {
    let mut monitor = Driver::connect(url, NoTls).unwrap();
    ROWS.iter().for_each(|sql| drop(monitor.simple_query(sql).unwrap()));
    let [mut holder, mut taker] = [(); 2].map(|()| Driver::connect(url, NoTls).unwrap());
    let (limit, begin) = match in_transaction {
        true => ("SET lock_timeout = 25", "BEGIN"),
        // With a limit of its own a statement would be a transaction.
        false => ("SET statement_timeout = 250", "SELECT 1"),
    };
    said(&mut taker, limit);
    let mut lines = Vec::new();
    for hold in HOLDS {
        for take in takes {
            let fresh = |sql: &str| sql.replace("ID", &lines.len().to_string());
            let (hold, take) = (fresh(hold), fresh(take).replace("(1, ", "(1, 1000 + "));
            said(&mut holder, "BEGIN");
            let held = said(&mut holder, &hold);
            said(&mut taker, begin);
            let taken = said(&mut taker, &take);
            said(&mut taker, "ROLLBACK");
            said(&mut holder, "ROLLBACK");
            if !in_transaction {
                ROWS.iter().for_each(|sql| drop(monitor.simple_query(sql).unwrap()));
            }
            let waits = matches!(&taken[..], "55P03" | "57014");
            let said = if waits { "waits".to_owned() } else { taken.split('|').next().unwrap().to_owned() };
            lines.push(format!("{hold} ({held}), {take}: {said}"));
        }
    }
    lines
}

#[test]
fn all_pairs_of_holds() {
    let postgres = postgres();
    let of = |url: &str, is_one: bool| {
        let mut all = matrix(url, &HOLDS, true);
        all.extend(matrix(url, &CALLS, true));
        if is_one {
            all.extend(matrix(url, &[HOLDS[4], HOLDS[5], CALLS[1]], false));
        }
        all
    };
    let expected = of(&postgres.connection_string(), true);
    assert!(expected.iter().filter(|line| line.ends_with("waits")).count() > 60, "{expected:#?}");
    for shards in [1, 3] {
        let found = of(&weir(shards).url(), shards == 1);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{shards} shards");
        }
    }
}
