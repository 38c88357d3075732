//! SERIALIZABLE, and REPEATABLE READ of transactions that write: Hermitage's scenarios have an outcome that some serial order of the
//! transactions which have committed explains, and sessions ask for the levels as in PostgreSQL.

use std::collections::{BTreeMap, VecDeque};

use postgres::{Client as Driver, NoTls};

use super::row_locks::{ROWS, postgres, scenarios, weir};
use super::{Session, said};
use crate::eventually::until;

/// A session, which may wait while others go on.
struct Player {
    session: Session,
    /// Lines that it has not begun.
    queue: VecDeque<String>,
    under_way: Option<String>,
    /// Lines with their answers.
    told: Vec<(String, String)>,
}

impl Player {
    fn begin(url: &str) -> Player {
        Player { session: Session::begin(url), queue: VecDeque::new(), under_way: None, told: Vec::new() }
    }

    /// Takes an answer that has come, and begins the next line. Returns whether anything has happened.
    fn goes_on(&mut self) -> bool {
        let answer = self.under_way.as_ref().and_then(|_| self.session.answers.try_recv().ok());
        let has_answered = answer.is_some();
        if let Some(answer) = answer {
            self.told.push((self.under_way.take().expect("it was sent"), answer));
        }
        let next = if self.under_way.is_none() { self.queue.pop_front() } else { None };
        let begins = next.is_some();
        if let Some(sql) = next {
            self.session.send(&sql);
            self.under_way = Some(sql);
        }
        has_answered || begins
    }

    fn has_committed(&self) -> bool {
        let is_code =
            |answer: &str| answer.len() == 5 && answer.chars().all(|one| one.is_ascii_alphanumeric());
        let ends = self.told.iter().any(|(sql, _)| sql == "COMMIT");
        ends && !self.told.iter().any(|(_, answer)| is_code(answer))
    }
}

fn reset(monitor: &mut Driver) {
    ROWS.iter().for_each(|sql| drop(monitor.simple_query(sql).unwrap()));
}

fn rows(monitor: &mut Driver) -> Vec<String> {
    let all = ["SELECT id, value FROM test ORDER BY id", "SELECT id, code, v FROM parent ORDER BY id"];
    all.iter().map(|sql| said(monitor, sql)).collect()
}

/// Lines of each session up to the end of its transaction.
fn transactions(script: &'static str) -> Vec<(char, &'static str)> {
    let mut over = Vec::new();
    let mut lines = Vec::new();
    for line in script.lines().map(str::trim) {
        let (name, sql) = (line.chars().next().expect("a name"), line[2..].trim());
        if line[1..].starts_with('!') || over.contains(&name) {
            continue;
        }
        over.extend(matches!(sql, "COMMIT" | "ROLLBACK").then_some(name));
        lines.push((name, sql));
    }
    lines
}

/// Sessions by name, when all have ended.
fn play(url: &str, begin: &str, script: &'static str) -> BTreeMap<char, Player> {
    let mut monitor = Driver::connect(url, NoTls).unwrap();
    reset(&mut monitor);
    let mut players: BTreeMap<char, Player> = BTreeMap::new();
    let mut settle = |players: &mut BTreeMap<char, Player>, is_last: bool| {
        until("all are answered, or wait", || {
            let mut has_happened = false;
            players.values_mut().for_each(|player| has_happened |= player.goes_on());
            let under_way = players.values().filter(|player| player.under_way.is_some()).count();
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            let mut all_wait = || said(&mut monitor, waits) == format!("{under_way} (1)");
            !has_happened && (under_way == 0 || !is_last && all_wait())
        });
    };
    for (name, sql) in transactions(script) {
        let sql = if sql == "BEGIN" { begin } else { sql };
        players.entry(name).or_insert_with(|| Player::begin(url)).queue.push_back(sql.to_owned());
        settle(&mut players, false);
    }
    settle(&mut players, true);
    players
}

fn orders(all: &[char]) -> Vec<Vec<char>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let first = |at: usize| {
        let mut rest = all.to_vec();
        let first = rest.remove(at);
        orders(&rest).into_iter().map(move |rest| [vec![first], rest].concat())
    };
    (0..all.len()).flat_map(first).collect()
}

/// Why no serial order explains the outcome.
fn violation(url: &str, players: &BTreeMap<char, Player>) -> Option<String> {
    let mut monitor = Driver::connect(url, NoTls).unwrap();
    let found = rows(&mut monitor);
    let committed: Vec<char> =
        players.iter().filter(|(_, player)| player.has_committed()).map(|(name, _)| *name).collect();
    let mut explains = |order: &Vec<char>| {
        reset(&mut monitor);
        let same = order.iter().all(|name| {
            players[name].told.iter().all(|(sql, answer)| {
                let sql = if sql.starts_with("BEGIN") { "BEGIN" } else { sql };
                let again = said(&mut monitor, sql);
                sql == "BEGIN" || again == *answer
            })
        });
        said(&mut monitor, "ROLLBACK");
        same && rows(&mut monitor) == found
    };
    let is_explained = orders(&committed).iter().any(&mut explains);
    let all: Vec<_> = players.iter().map(|(name, player)| (name, &player.told)).collect();
    (!is_explained).then(|| format!("{all:#?}\n{found:?}"))
}

fn check_hermitage(begin: &str) {
    let scenarios = scenarios(include_str!("../row_locks/hermitage.txt"));
    assert_eq!(scenarios.len(), 19);
    for shards in [1, 3] {
        let weir = weir(shards);
        let (mut committed, mut failed) = (0, 0);
        for (name, script) in &scenarios {
            let players = play(&weir.url(), begin, script);
            if let Some(why) = violation(&weir.url(), &players) {
                panic!("{name}, {shards} shards: {why}");
            }
            let ends = players.values().filter(|player| player.has_committed()).count();
            let wished = transactions(script).iter().filter(|(_, sql)| *sql == "COMMIT").count();
            assert!(ends > 0 || wished == 0, "{name}, {shards} shards: none has committed");
            let answers = players.values().flat_map(|player| &player.told);
            failed += answers.clone().filter(|(_, answer)| answer == "40001").count();
            let others = answers.filter(|(_, answer)| answer == "40P01").count();
            assert_eq!(others, 0, "{name}, {shards} shards");
            committed += ends;
        }
        println!("{shards} shards: {committed} committed, {failed} with 40001");
        assert!(committed > 25 && failed > 5, "{committed} {failed}");
    }
}

#[test]
fn hermitage_at_serializable() {
    check_hermitage("BEGIN ISOLATION LEVEL SERIALIZABLE");
}

#[test]
fn hermitage_at_repeatable_read() {
    check_hermitage("BEGIN ISOLATION LEVEL REPEATABLE READ");
}

/// What PostgreSQL says, too.
const LEVELS: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE
    SHOW transaction_isolation
    SELECT value FROM test WHERE id = 1
    UPDATE test SET value = value + 1 WHERE id = 1 RETURNING value
    SELECT id FROM test WHERE value > 10 ORDER BY id
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED
    ROLLBACK
    SHOW transaction_isolation
    START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE
    SELECT count(*) FROM test
    UPDATE test SET value = 0
    ROLLBACK
    BEGIN
    SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
    SHOW transaction_isolation
    INSERT INTO test VALUES (5, 50) ON CONFLICT (id) DO UPDATE SET value = 51
    INSERT INTO test VALUES (5, 50) ON CONFLICT (id) DO UPDATE SET value = 51
    SAVEPOINT s
    INSERT INTO test VALUES (5, 50)
    ROLLBACK TO s
    DELETE FROM test WHERE id = 5 RETURNING value
    COMMIT
    SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE
    SHOW transaction_isolation
    SHOW default_transaction_isolation
    UPDATE test SET value = value + 1 WHERE id = 2
    SELECT id, value FROM test ORDER BY id
    BEGIN
    SHOW transaction_isolation
    SELECT sum(value) FROM test
    COMMIT
    BEGIN ISOLATION LEVEL READ COMMITTED
    SHOW transaction_isolation
    COMMIT
    SET default_transaction_isolation = 'repeatable read'
    BEGIN
    SHOW transaction_isolation
    UPDATE test SET value = value + 1 WHERE id = 2 RETURNING value
    COMMIT
    SET default_transaction_isolation = 'chaos'
    BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY
    SELECT sum(value) FROM test
    SET TRANSACTION READ WRITE
    ROLLBACK
    SET transaction_isolation = 'serializable'
    SET default_transaction_isolation = 'read committed'
    SHOW transaction_isolation";

#[test]
fn sessions_ask_for_levels_as_in_postgres() {
    let tell = |url: &str| -> Vec<String> {
        let mut driver = Driver::connect(url, NoTls).unwrap();
        reset(&mut driver);
        let lines = LEVELS.lines().map(str::trim);
        lines.map(|sql| format!("{sql} → {}", said(&mut driver, sql))).collect()
    };
    let postgres = postgres();
    let expected = tell(&postgres.connection_string());
    for shards in [1, 3] {
        assert_eq!(tell(&weir(shards).url()), expected, "{shards} shards; PostgreSQL is on the right");
    }
}

/// Two on-call doctors of whom one must stay; a statement by itself waits for who has read; a phantom and an absent key.
#[test]
fn what_was_read_stays_until_the_end() {
    let script = "a: BEGIN
        b: BEGIN
        a: SELECT count(*) FROM test WHERE value >= 10
        b: SELECT count(*) FROM test WHERE value >= 10
        a& UPDATE test SET value = 0 WHERE id = 1
        b& UPDATE test SET value = 0 WHERE id = 2
        a: COMMIT
        b: COMMIT";
    for shards in [1, 3] {
        let weir = weir(shards);
        let players = play(&weir.url(), "BEGIN ISOLATION LEVEL SERIALIZABLE", script);
        let committed: Vec<bool> = players.values().map(Player::has_committed).collect();
        assert_eq!(committed, [true, false], "{shards} shards: the youngest ends");
        assert!(players[&'b'].told.iter().any(|(_, answer)| answer == "40001"), "{shards} shards");
        let [mut reader, mut writer] = [(); 2].map(|()| Driver::connect(&weir.url(), NoTls).unwrap());
        said(&mut writer, "SET lock_timeout = 100");
        for (read, write, waits) in [
            ("SELECT value FROM test WHERE id = 7", "INSERT INTO test VALUES (7, 1)", true),
            ("SELECT value FROM test WHERE id = 7", "INSERT INTO test VALUES (8, 1)", false),
            ("SELECT value FROM test WHERE id = 1", "UPDATE test SET value = 1 WHERE id = 1", true),
            ("SELECT value FROM test WHERE id = 1", "UPDATE test SET value = 1 WHERE id = 2", false),
            ("SELECT count(*) FROM test WHERE value > 5", "INSERT INTO test VALUES (9, 1)", true),
            ("SELECT id FROM child WHERE parent = 1", "INSERT INTO child VALUES (1, 1)", true),
            ("SELECT id FROM child WHERE parent = 1", "INSERT INTO child VALUES (2, 1)", false),
            ("SELECT id FROM child WHERE parent = 1", "CALL bear(2, 2)", false),
            ("SELECT code FROM parent WHERE id = 1", "DELETE FROM parent WHERE id = 1", true),
            ("UPDATE test SET value = 3 WHERE id = 70", "INSERT INTO test VALUES (70, 1)", true),
        ] {
            said(&mut reader, "BEGIN ISOLATION LEVEL SERIALIZABLE");
            said(&mut reader, read);
            let answer = said(&mut writer, write);
            assert_eq!(answer == "55P03", waits, "{shards} shards: {read}; {write}: {answer}");
            said(&mut reader, "ROLLBACK");
            assert_ne!(said(&mut writer, write), "55P03", "{shards} shards: {write} afterwards");
        }
    }
}
