//! Transaction blocks through PostgreSQL's protocol: the same statements in the same sessions say the same on Weir and on PostgreSQL,
//! rows, counts and SQLSTATEs.

mod isolation;
mod row_locks;
mod serializable;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::answers::answer_or;
use crate::eventually::{eventually, until};
use crate::nodes::Nodes;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;
use weir_client::{Client, ClusterFile};
use weir_pg::{Door, Server, Settings};

const SCHEMA: &str = "
CREATE TABLE account (id integer PRIMARY KEY, owner varchar(20) NOT NULL, balance integer NOT NULL CHECK (balance >= 0));
CREATE TABLE entry (id integer PRIMARY KEY, account integer NOT NULL, amount integer NOT NULL);
COMMENT ON TABLE entry IS 'weir: partition by (id)';
CREATE TABLE job (queue integer, id integer, PRIMARY KEY (queue, id));
COMMENT ON TABLE job IS 'weir: partition by (queue)';
CREATE PROCEDURE note(e integer, a integer, x integer) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO entry VALUES (e, a, x);
    UPDATE account SET balance = balance + x WHERE id = a;
END $$;
CREATE FUNCTION balance_of(a integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE found_balance integer;
BEGIN SELECT balance INTO found_balance FROM account WHERE id = a; RETURN found_balance; END $$;
";

const ROWS: &str =
    "INSERT INTO account VALUES (1, 'ann', 10), (2, 'bob', 10), (3, 'eve', 10), (4, 'joe', 10)";

struct Weir {
    // It ends first.
    server: Server,
    _nodes: Nodes,
}

impl Weir {
    fn start() -> Weir {
        let workload = "[mix]\nbalance_of = 1\n[parameters.balance_of]\na = \"uniform(1, 9)\"\n";
        let nodes = Nodes::of(SCHEMA, workload, 1, 3, false);
        let client = Client::connect(&ClusterFile::read(&nodes.file()).unwrap()).unwrap();
        let server = Door::new(Settings::new("127.0.0.1:0".parse().unwrap())).unwrap().open(client).unwrap();
        Weir { server, _nodes: nodes }
    }

    fn url(&self) -> String {
        format!("host=127.0.0.1 port={} user=ann dbname=weir", self.server.address().port())
    }
}

/// Answer to a session: rows and counts, or the SQLSTATE.
fn said(driver: &mut Driver, sql: &str) -> String {
    answer_or(driver, sql, |error| error.code().code().to_owned())
}

/// A session on a thread of its own, so that it may wait.
struct Session {
    statements: Option<mpsc::Sender<String>>,
    answers: mpsc::Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    fn begin(url: &str) -> Session {
        let mut driver = Driver::connect(url, NoTls).unwrap();
        let (statements, wanted) = mpsc::channel::<String>();
        let (answer, answers) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            for sql in wanted {
                if answer.send(said(&mut driver, &sql)).is_err() {
                    return;
                }
            }
        });
        Session { statements: Some(statements), answers, thread: Some(thread) }
    }

    fn send(&self, sql: &str) {
        self.statements.as_ref().expect("it goes on").send(sql.to_owned()).expect("its thread lives");
    }

    fn answer(&self) -> String {
        self.answers.recv_timeout(Duration::from_secs(60)).expect("it is answered")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.statements.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Its answer, or that its server says that it waits: as many as `waiting` do.
fn settles(session: &Session, monitor: &mut Driver, waiting: usize) -> Option<String> {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually(format!("it is answered, or {waiting} wait"), || match session.answers.try_recv() {
        Ok(answer) => Some(Some(answer)),
        Err(mpsc::TryRecvError::Empty) => (said(monitor, sql) == format!("{waiting} (1)")).then_some(None),
        Err(error) => panic!("{error}"),
    })
}

/// Lines `session: SQL`, one after the other; `session& SQL` may wait, and is answered where `session!` stands.
fn run(url: &str, script: &str) -> Vec<String> {
    let mut sessions: BTreeMap<&str, Session> = BTreeMap::new();
    let mut setup = Driver::connect(url, NoTls).unwrap();
    for sql in ["DELETE FROM entry WHERE id >= 0", "DELETE FROM account WHERE id >= 0", ROWS] {
        setup.simple_query(sql).unwrap();
    }
    let mut early: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let at = line.find([':', '&', '!']).expect("a line names its session");
        let (name, sql) = (&line[..at], line[at + 1..].trim());
        let session = sessions.entry(name).or_insert_with(|| Session::begin(url));
        match &line[at..=at] {
            "&" => {
                session.send(sql);
                let waiting = 1 + early.values().filter(|answer| answer.is_none()).count();
                early.insert(name, settles(session, &mut setup, waiting));
            }
            "!" => {
                let answer = early.remove(name).expect("it was sent").unwrap_or_else(|| session.answer());
                lines.push(format!("{line} → {answer}"));
            }
            _ => {
                session.send(sql);
                lines.push(format!("{line} → {}", session.answer()));
            }
        }
    }
    drop(sessions);
    lines.push(said(&mut setup, "SELECT id, balance FROM account ORDER BY id"));
    lines.push(said(&mut setup, "SELECT id, amount FROM entry ORDER BY id"));
    lines
}

struct Both {
    weir: Weir,
    postgres: Postgres,
}

impl Both {
    fn start() -> Both {
        let postgres = Postgres::start().unwrap();
        let mut driver = Driver::connect(&postgres.connection_string(), NoTls).unwrap();
        driver.batch_execute(SCHEMA).unwrap();
        Both { weir: Weir::start(), postgres }
    }

    fn check(&self, scripts: &[&str]) {
        for script in scripts {
            let expected = run(&self.postgres.connection_string(), script);
            let found = run(&self.weir.url(), script);
            assert_eq!(found, expected, "{script}");
        }
    }
}

#[test]
fn savepoints() {
    Both::start().check(&[
        // Nesting, and the same name twice.
        "a: BEGIN
         a: UPDATE account SET balance = 1 WHERE id = 1
         a: SAVEPOINT s
         a: UPDATE account SET balance = 2 WHERE id <= 2
         a: INSERT INTO entry VALUES (1, 1, 1), (2, 1, 1), (3, 1, 1)
         a: SAVEPOINT s
         a: UPDATE account SET balance = 3 WHERE id <= 3
         a: DELETE FROM entry WHERE id = 2
         a: SELECT id, balance FROM account ORDER BY id
         a: ROLLBACK TO s
         a: SELECT id, balance FROM account ORDER BY id
         a: SELECT id FROM entry ORDER BY id
         a: RELEASE s
         a: UPDATE account SET balance = 7 WHERE id = 4
         b: SELECT id, balance FROM account ORDER BY id
         a: ROLLBACK TO SAVEPOINT s
         a: SELECT id, balance FROM account ORDER BY id
         a: INSERT INTO entry VALUES (2, 2, 2)
         a: COMMIT",
        // After errors, on one shard and on several.
        "a: BEGIN
         a: SAVEPOINT s
         a: UPDATE account SET balance = balance + 5 WHERE id = 1
         a: SAVEPOINT t
         a: UPDATE account SET balance = balance - 11 WHERE id <= 4
         a: SELECT 1
         a: SAVEPOINT u
         a: RELEASE t
         a: ROLLBACK TO t
         a: SELECT balance FROM account WHERE id = 1
         a: INSERT INTO entry VALUES (5, 1, 1), (6, 1, 1), (5, 1, 1)
         a: ROLLBACK TO t
         a: INSERT INTO entry VALUES (5, 1, 1), (6, 1, 1)
         a: SELECT 1 / 0
         a: ROLLBACK TO s
         a: ROLLBACK TO t
         a: ROLLBACK TO s
         a: UPDATE account SET balance = balance + 1 WHERE id > 0
         a: SELEC
         a: ROLLBACK TO s
         a: INSERT INTO entry VALUES (7, 1, 1)
         a: COMMIT",
        // Where there is none, and outside of a block.
        "a: SAVEPOINT s
         a: RELEASE s
         a: ROLLBACK TO s
         a: BEGIN
         a: ROLLBACK TO s
         a: UPDATE account SET balance = 0 WHERE id = 1
         a: ROLLBACK
         a: BEGIN
         a: SAVEPOINT s
         a: RELEASE s
         a: RELEASE s
         a: COMMIT
         a: BEGIN
         a: SAVEPOINT s
         a: UPDATE account SET balance = 0 WHERE id = 1
         a: ROLLBACK
         a: BEGIN
         a: ROLLBACK TO s
         a: COMMIT",
        // Locks that were taken since are free; those from before are not.
        "a: BEGIN
         a: UPDATE account SET balance = 1 WHERE id = 1
         a: SAVEPOINT s
         a: UPDATE account SET balance = 2 WHERE id <= 2
         a: ROLLBACK TO s
         b: UPDATE account SET balance = balance + 1 WHERE id = 2
         b& UPDATE account SET balance = balance + 1 WHERE id = 1
         a: COMMIT
         b!",
        // Keys that were inserted since are free.
        "a: BEGIN
         a: SAVEPOINT s
         a: INSERT INTO entry VALUES (9, 1, 1), (10, 1, 1)
         b& INSERT INTO entry VALUES (9, 2, 2)
         a: ROLLBACK TO s
         b!
         a: INSERT INTO entry VALUES (10, 3, 3)
         a: INSERT INTO entry VALUES (9, 3, 3)
         a: ROLLBACK TO s
         a: COMMIT",
        // A deadlock ends what was done since, and no more.
        "a: BEGIN
         b: BEGIN
         b: UPDATE account SET balance = balance + 1 WHERE id = 2
         a: UPDATE account SET balance = balance + 1 WHERE id = 1
         b: SAVEPOINT s
         b: UPDATE account SET balance = balance + 1 WHERE id = 3
         a& UPDATE account SET balance = balance + 1 WHERE id = 3
         b: ROLLBACK TO s
         a!
         a: COMMIT
         b: UPDATE account SET balance = balance + 1 WHERE id = 1
         b: COMMIT",
    ]);
}

#[test]
fn rows_selected_for_update() {
    let both = Both::start();
    both.check(&[
        // The session that waited sees the new row.
        "a: BEGIN
         a: SELECT owner, balance FROM account WHERE id = 1 FOR UPDATE
         b: SELECT balance FROM account WHERE id = 1
         b: BEGIN
         b& SELECT balance, id FROM account WHERE id = 1 FOR UPDATE
         a: UPDATE account SET balance = 42 WHERE id = 1
         a: COMMIT
         b!
         b: UPDATE account SET balance = 43 WHERE id = 1
         b: ROLLBACK",
        // It may be gone, or be no longer what was asked for.
        "a: BEGIN
         a: UPDATE account SET balance = 0 WHERE id = 1
         a: DELETE FROM account WHERE id = 2
         b& SELECT id FROM account WHERE id = 2 FOR SHARE
         c& SELECT id FROM account WHERE id = 1 AND balance > 0 FOR NO KEY UPDATE
         a: COMMIT
         b!
         c!
         b: SELECT 1 AS one FROM account WHERE id > 2 FOR UPDATE",
        // A statement by itself waits; a time limit, a savepoint and a read-only transaction are honoured.
        "a: BEGIN
         a: SAVEPOINT s
         a: SELECT id FROM account WHERE id = 3 FOR UPDATE
         b: SET lock_timeout = 200
         b: UPDATE account SET balance = 7 WHERE id = 3
         b: SELECT id FROM account WHERE id = 3 FOR UPDATE
         a: ROLLBACK TO s
         b: UPDATE account SET balance = 8 WHERE id = 3
         a: COMMIT
         a: BEGIN READ ONLY
         a: SELECT id FROM account WHERE id = 3 FOR UPDATE
         a: ROLLBACK",
        // Of several shards; with what the transaction has written itself.
        "a: BEGIN
         a: UPDATE account SET balance = 5 WHERE id = 4
         a: SELECT balance FROM account WHERE id = 4 OR id = 4 FOR UPDATE OF account
         a: SELECT 7 FROM account WHERE id >= 1 FOR UPDATE
         b& UPDATE account SET balance = balance + 1 WHERE id = 2
         a: UPDATE account SET balance = balance + 3 WHERE id = 2
         a: COMMIT
         b!",
    ]);
}

#[test]
fn rows_selected_for_update_in_an_order_and_with_others() {
    let both = Both::start();
    both.check(&[
        // ORDER BY, OFFSET and LIMIT, of rows of all shards.
        "a: BEGIN
         a: SELECT id, owner FROM account WHERE balance > 5 ORDER BY id DESC FOR UPDATE
         a: ROLLBACK
         a: BEGIN
         a: SELECT owner FROM account ORDER BY balance, id LIMIT 2 OFFSET 1 FOR UPDATE
         a: SELECT id FROM account ORDER BY owner DESC LIMIT 1 FOR NO KEY UPDATE
         a: SELECT owner, id FROM account WHERE id = 2 ORDER BY balance LIMIT 1 FOR SHARE
         a: SELECT id FROM account ORDER BY id LIMIT 0 FOR UPDATE
         b& UPDATE account SET balance = balance + 1 WHERE id = 3
         a: UPDATE account SET balance = balance + 5 WHERE id = 3
         a: COMMIT
         b!
         a: SELECT id, balance FROM account ORDER BY id",
        // NOWAIT and SKIP LOCKED, by themselves and in transactions.
        "a: BEGIN
         a: SELECT id FROM account WHERE id = 2 FOR UPDATE
         b: SELECT id FROM account WHERE id = 2 FOR UPDATE NOWAIT
         b: SELECT id FROM account WHERE id = 1 FOR UPDATE NOWAIT
         b: SELECT id FROM account ORDER BY id FOR UPDATE SKIP LOCKED
         b: SELECT id FROM account WHERE id = 2 FOR UPDATE SKIP LOCKED
         b: BEGIN
         b: SELECT id FROM account WHERE id < 3 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
         b: SAVEPOINT s
         b: SELECT id FROM account WHERE id >= 1 FOR UPDATE NOWAIT
         b: ROLLBACK TO s
         c: SELECT id FROM account ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED
         a: COMMIT
         c: SELECT id FROM account ORDER BY id FOR UPDATE SKIP LOCKED
         b: COMMIT
         c: SELECT count(*) FROM account",
        // A queue of one shard: everybody takes the first that nobody has.
        "a: INSERT INTO job VALUES (1, 1), (1, 2), (1, 3)
         a: BEGIN
         a: SELECT id FROM job WHERE queue = 1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
         b: BEGIN
         b: SELECT id FROM job WHERE queue = 1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
         c: DELETE FROM job WHERE queue = 1 AND id = (SELECT id FROM job WHERE queue = 1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id
         b: DELETE FROM job WHERE queue = 1 AND id = 2
         a: DELETE FROM job WHERE queue = 1 AND id = 1
         b: COMMIT
         a: COMMIT
         c: SELECT id FROM job WHERE queue = 1 ORDER BY id FOR UPDATE",
        // The session that waited for a row that has gone takes the next one.
        "a: BEGIN
         a: DELETE FROM account WHERE id = 1
         b: BEGIN
         b& SELECT id FROM account ORDER BY id LIMIT 1 FOR UPDATE
         a: COMMIT
         b!
         b: COMMIT",
        // In a subquery, in FROM, of one of two tables of one shard.
        "a: INSERT INTO entry VALUES (1, 1, 5), (2, 2, 6), (3, 3, 7)
         a: BEGIN
         a: SELECT s.id FROM (SELECT id, owner FROM account WHERE id = 1 FOR UPDATE) s
         b: SELECT id FROM account WHERE id = 1 FOR UPDATE SKIP LOCKED
         a: SELECT a.id, e.amount FROM account a, entry e WHERE a.id = 2 AND e.id = 2 FOR UPDATE OF e
         b: SELECT id FROM account WHERE id = 2 FOR UPDATE NOWAIT
         b: SELECT id FROM entry WHERE id = 2 FOR UPDATE NOWAIT
         a: SELECT a.id, e.amount FROM account a JOIN entry e ON e.id = a.id WHERE a.id = 3 FOR UPDATE
         b: SELECT id FROM entry WHERE id = 3 FOR UPDATE NOWAIT
         b: SELECT id FROM account WHERE id = 3 FOR UPDATE SKIP LOCKED
         a: COMMIT
         a: SELECT a.id FROM account a LEFT JOIN entry e ON e.id = a.id WHERE a.id = 3 FOR UPDATE OF a
         a: SELECT id FROM account WHERE id = (SELECT id FROM account WHERE id = 2 FOR UPDATE SKIP LOCKED) AND id = 2",
        // Statements that are refused, and their errors.
        "a: SELECT count(*) FROM account FOR UPDATE
         a: SELECT DISTINCT owner FROM account FOR UPDATE
         a: SELECT owner FROM account GROUP BY owner FOR SHARE
         a: SELECT id FROM account UNION SELECT id FROM entry FOR UPDATE
         a: SELECT a.id FROM account a LEFT JOIN entry e ON e.id = a.id WHERE a.id = 3 FOR UPDATE
         a: SELECT id FROM account FOR UPDATE OF nobody
         a: SELECT id FROM account a FOR UPDATE OF account
         a: SELECT row_number() OVER () FROM account FOR UPDATE
         a: VALUES (1) FOR UPDATE
         a: SELECT 1 FOR UPDATE",
    ]);
    let mut driver = Driver::connect(&both.weir.url(), NoTls).unwrap();
    let over_shards = "SELECT a.id FROM account a, entry e WHERE a.id = e.account FOR UPDATE";
    assert_eq!(said(&mut driver, over_shards), "0A000", "rows of several tables live on several shards");
}

#[test]
fn statements_that_wait_or_run_for_too_long() {
    Both::start().check(&[
        "a: BEGIN
         a: UPDATE account SET balance = 1 WHERE id = 1
         b: SET lock_timeout = '200ms'
         b: UPDATE account SET balance = balance + 1 WHERE id = 1
         b: UPDATE account SET balance = balance + 1 WHERE id <= 2
         b: BEGIN
         b: UPDATE account SET balance = balance + 1 WHERE id = 3
         b: SAVEPOINT s
         b: UPDATE account SET balance = balance + 1 WHERE id = 1
         b: SELECT 1
         b: ROLLBACK TO s
         b: SHOW lock_timeout
         b: UPDATE account SET balance = balance + 1 WHERE id = 4
         b: COMMIT
         b: RESET lock_timeout
         b& UPDATE account SET balance = balance + 1 WHERE id = 1
         a: COMMIT
         b!",
        "a: BEGIN
         a: UPDATE account SET balance = 1 WHERE id = 1
         b: SET statement_timeout = 200
         b: UPDATE account SET balance = balance + 1 WHERE id = 1
         b: UPDATE account SET balance = balance + 1 WHERE id > 0
         b: BEGIN
         b: UPDATE account SET balance = balance + 1 WHERE id = 3
         b: SAVEPOINT s
         b: UPDATE account SET balance = balance + 1 WHERE id > 0
         b: ROLLBACK TO s
         b: UPDATE account SET balance = balance + 1 WHERE id = 2
         b: COMMIT
         b: SHOW statement_timeout
         a: COMMIT
         b: UPDATE account SET balance = balance + 1 WHERE id = 1",
        // Locks of a transaction that nobody works in are free.
        "a: SET idle_in_transaction_session_timeout = '150ms'
         a: SHOW idle_in_transaction_session_timeout
         a: SELECT 1
         a: BEGIN
         a: UPDATE account SET balance = 0 WHERE id = 1
         b: UPDATE account SET balance = balance + 1 WHERE id = 1
         c: SET idle_in_transaction_session_timeout = 0
         c: BEGIN
         c: UPDATE account SET balance = balance + 1 WHERE id = 2
         b: SELECT balance FROM account WHERE id = 1
         c: COMMIT",
    ]);
}

#[test]
fn settings_are_of_the_transaction_that_sets_them() {
    Both::start().check(&[
        "a: SET application_name = 'one'
         a: BEGIN
         a: SET application_name = 'two'
         a: SHOW application_name
         a: ROLLBACK
         a: SHOW application_name
         a: BEGIN
         a: SET application_name = 'two'
         a: SET LOCAL application_name = 'three'
         a: SHOW application_name
         a: SAVEPOINT s
         a: SET application_name = 'four'
         a: ROLLBACK TO s
         a: SHOW application_name
         a: COMMIT
         a: SHOW application_name
         a: SET LOCAL application_name = 'five'
         a: SHOW application_name
         a: BEGIN
         a: SAVEPOINT s
         a: SET application_name = 'six'
         a: ROLLBACK TO s
         a: SHOW application_name
         a: SET lock_timeout = '1 year'
         a: COMMIT
         a: SHOW application_name
         a: SET application_name = 'seven'; SELECT 1 / 0
         a: SHOW application_name",
        "a: CREATE TABLE made (a integer PRIMARY KEY, b serial)
         a: CREATE SEQUENCE numbers
         a: BEGIN READ ONLY; DROP TABLE made
         a: ROLLBACK
         a: BEGIN READ ONLY; CREATE TABLE other (a integer PRIMARY KEY)
         a: ROLLBACK
         a: BEGIN READ ONLY; CREATE INDEX ON made (b)
         a: ROLLBACK
         a: BEGIN READ ONLY; ALTER TABLE made ADD c integer
         a: ROLLBACK
         a: BEGIN READ ONLY; TRUNCATE made
         a: ROLLBACK
         a: BEGIN READ ONLY; CREATE VIEW seen AS SELECT 1 AS one
         a: ROLLBACK
         a: BEGIN READ ONLY; CREATE TABLE other AS SELECT 1 AS one
         a: ROLLBACK
         a: BEGIN READ ONLY; COMMENT ON TABLE made IS 'x'
         a: ROLLBACK
         a: BEGIN READ ONLY; COPY made FROM STDIN
         a: ROLLBACK
         a: BEGIN READ ONLY; SELECT a FROM made FOR UPDATE
         a: ROLLBACK
         a: BEGIN READ ONLY; SELECT a FROM made FOR SHARE
         a: ROLLBACK
         a: BEGIN READ ONLY; SELECT nextval('numbers')
         a: ROLLBACK
         a: BEGIN READ ONLY; SELECT setval('numbers', 7)
         a: ROLLBACK
         a: BEGIN READ ONLY; WITH w AS (INSERT INTO made (a) VALUES (1) RETURNING a) SELECT a FROM w
         a: ROLLBACK
         a: BEGIN READ ONLY; CALL note(1, 1, 1)
         a: ROLLBACK
         a: BEGIN READ ONLY; DO $$ BEGIN INSERT INTO made (a) VALUES (1); END $$
         a: ROLLBACK
         a: BEGIN READ ONLY; PREPARE w AS INSERT INTO made (a) VALUES (1); EXECUTE w
         a: ROLLBACK
         a: BEGIN READ ONLY; EXPLAIN ANALYZE INSERT INTO made (a) VALUES (1)
         a: ROLLBACK
         a: SELECT count(*) FROM made
         a: DROP SEQUENCE numbers
         a: DROP TABLE made",
        "a: BEGIN READ ONLY
         a: SHOW transaction_read_only
         a: SELECT balance FROM account WHERE id = 1
         a: UPDATE account SET balance = 0 WHERE id = 1
         a: SELECT 1
         a: ROLLBACK
         a: SHOW transaction_read_only
         a: BEGIN
         a: SET TRANSACTION READ ONLY
         a: SAVEPOINT s
         a: INSERT INTO entry VALUES (1, 1, 1)
         a: ROLLBACK TO s
         a: DELETE FROM entry WHERE id = 1
         a: COMMIT
         a: SELECT balance_of(1)
         a: SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY
         a: SHOW default_transaction_read_only
         a: CALL note(1, 1, 1)
         a: SELECT balance_of(1)
         a: UPDATE account SET balance = 0 WHERE id = 1
         a: BEGIN READ WRITE
         a: UPDATE account SET balance = 5 WHERE id = 1
         a: COMMIT
         a: CREATE TABLE made (a integer PRIMARY KEY)
         a: TRUNCATE entry
         a: SELECT 1 FROM made
         a: SET default_transaction_read_only = off
         a: UPDATE account SET balance = balance + 1 WHERE id = 1
         a: SET default_transaction_read_only = perhaps",
    ]);
}

/// Unlike PostgreSQL, which ends the connection, the session says why to whatever it is asked.
#[test]
fn who_is_idle_in_a_transaction_for_too_long_is_told() {
    let weir = Weir::start();
    let mut driver = Driver::connect(&weir.url(), NoTls).unwrap();
    assert_eq!(said(&mut driver, "SHOW idle_in_transaction_session_timeout"), "1min (0)");
    said(&mut driver, ROWS);
    said(&mut driver, "SET idle_in_transaction_session_timeout = '20ms'; BEGIN");
    assert_eq!(said(&mut driver, "UPDATE account SET balance = 0 WHERE id >= 0"), "(4)");
    let mut other = Driver::connect(&weir.url(), NoTls).unwrap();
    until("its row is free", || said(&mut other, "SELECT id FROM account FOR UPDATE NOWAIT") != "55P03");
    assert_eq!(said(&mut driver, "SELECT 1"), "25P03");
    assert_eq!(said(&mut driver, "ROLLBACK"), "25P03");
}

/// psql sets a savepoint before every statement and goes back to it after an error; that it says what state the session is in.
#[test]
fn psql_rolls_back_what_fails_alone() {
    let both = Both::start();
    let script = "\\set ON_ERROR_ROLLBACK on\n\\set VERBOSITY sqlstate\n\\set PROMPT1 '%x'\nBEGIN;\n\
        UPDATE account SET balance = 3 WHERE id = 1;\nSELECT 1 / 0;\nINSERT INTO entry VALUES (1, 1, 1), (1, 1, 1);\n\
        INSERT INTO entry VALUES (1, 1, 1), (2, 1, 1);\nSELEC;\nSELECT balance FROM account WHERE id = 1;\nCOMMIT;\n\
        SELECT count(*) FROM entry;\n";
    let run = |url: &str| {
        run(url, "");
        let psql = std::path::Path::new("/usr/lib/postgresql/15/bin/psql");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script).unwrap();
        let output =
            Command::new(psql).args(["-X", "-A", "-d", url, "-f"]).arg(file.path()).output().unwrap();
        let name = file.path().display().to_string();
        [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap().replace(&name, "FILE"))
    };
    let found = run(&both.weir.url());
    assert_eq!(found, run(&both.postgres.connection_string()));
    assert!(found[0].contains("\n3\n") && found[0].contains("\n2\n"), "{found:?}");
}

#[test]
fn inserts_of_many_rows() {
    let rows = |range: std::ops::Range<u32>| {
        range.map(|id| format!("({id}, 'owner number {id}', {id} + 1)")).collect::<Vec<_>>().join(", ")
    };
    let (many, few, again) = (rows(10..4_000), rows(10..40), rows(38..60));
    assert!(many.len() > 1 << 16, "more than a statement may have");
    let jobs = (0..50).map(|id| format!("({}, {id})", id % 7)).collect::<Vec<_>>().join(", ");
    Both::start().check(&[
        &format!(
            "a: INSERT INTO account VALUES {many}
             a: SELECT count(*), sum(balance), min(owner) FROM account
             a: BEGIN
             a: INSERT INTO account (id, owner, balance) VALUES {few}
             a: ROLLBACK
             a: SELECT count(*) FROM account"
        ),
        // A statement that fails leaves nothing; returned rows come in the order of VALUES.
        &format!(
            "a: INSERT INTO account VALUES {few} RETURNING id, owner, balance * 2
             a: INSERT INTO account VALUES {again}
             a: SELECT count(*), sum(balance) FROM account
             a: INSERT INTO account AS old VALUES {again} ON CONFLICT (id) DO UPDATE SET balance = old.balance + 1000
             a: SELECT count(*), sum(balance) FROM account
             a: INSERT INTO account VALUES {again} ON CONFLICT DO NOTHING
             a: BEGIN
             a: UPDATE account SET balance = 0 WHERE id = 1
             a: INSERT INTO job VALUES {jobs} RETURNING queue, id
             a: SELECT queue, count(*) FROM job GROUP BY queue ORDER BY queue
             a: ROLLBACK
             a: SELECT count(*) FROM job
             a: INSERT INTO job VALUES {jobs}, (1, NULL)
             a: INSERT INTO job VALUES {jobs}, (1, 'x')
             a: INSERT INTO job VALUES {jobs}, (1, 99999999999)
             a: SELECT count(*) FROM job"
        ),
    ]);
}
