//! A database that begins empty and is changed by definitions, through PostgreSQL's protocol: told the same as a PostgreSQL server it
//! answers the same, on one shard and on several; it is all there after it was killed; and others work on meanwhile.

mod forms;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::alone::Alone;
use crate::answers::answer_or;
use crate::nodes::Nodes;
use postgres::error::SqlState;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server;

fn driver(port: u16) -> Driver {
    Driver::connect(&format!("host=127.0.0.1 port={port} user=ann dbname=weir"), NoTls).unwrap()
}

/// With what a server says beside: NOTICEs and their like.
struct Heard {
    driver: Driver,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Heard {
    fn connect(url: &str) -> Heard {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let heard = notices.clone();
        let mut config: postgres::Config = url.parse().unwrap();
        config.notice_callback(move |notice| {
            let detail = notice.detail().map(|detail| format!(" | {detail}")).unwrap_or_default();
            let (severity, code, message) = (notice.severity(), notice.code().code(), notice.message());
            heard.lock().unwrap().push(format!("{severity} {code} {message}{detail}"));
        });
        Heard { driver: config.connect(NoTls).unwrap(), notices }
    }

    /// The answer, and what was said beside it.
    fn answer(&mut self, text: &str) -> (String, String) {
        let answered = answer(&mut self.driver, text);
        (answered, std::mem::take(&mut *self.notices.lock().unwrap()).join(" "))
    }
}

/// Answer to a text: rows, counts, and errors, beginning with the SQLSTATE.
fn answer(driver: &mut Driver, text: &str) -> String {
    answer_or(driver, text, |error| format!("{} {error:?}", error.code().code()))
}

/// Each line is a text of one message.
const CONVERSATION: &str = "
CREATE TABLE dept (id int PRIMARY KEY, name text NOT NULL, budget numeric(10,2) DEFAULT 100)
INSERT INTO dept (id, name) VALUES (1, 'a'), (2, 'b') RETURNING id, name, budget
INSERT INTO dept (id, name) VALUES (1, 'a')
CREATE TABLE dept (id int)
CREATE TABLE IF NOT EXISTS dept (id int)
CREATE TABLE emp (id int PRIMARY KEY, dept int REFERENCES dept, pay int CHECK (pay > 0))
INSERT INTO emp VALUES (1, 1, 10), (2, 2, 20)
INSERT INTO emp VALUES (3, 9, 10)
INSERT INTO emp VALUES (3, 1, -1)
DELETE FROM dept WHERE id = 1
DROP TABLE dept
ALTER TABLE emp ADD COLUMN note varchar(10) DEFAULT 'none' NOT NULL
SELECT * FROM emp ORDER BY id
ALTER TABLE emp ADD COLUMN must int NOT NULL
ALTER TABLE emp ALTER COLUMN pay TYPE bigint
INSERT INTO emp (id, dept, pay) VALUES (3, 1, 5000000000)
SELECT id, pay FROM emp ORDER BY id
ALTER TABLE emp ALTER COLUMN pay TYPE int
DELETE FROM emp WHERE id = 3
ALTER TABLE emp ADD CONSTRAINT big CHECK (pay > 15)
ALTER TABLE emp ADD CONSTRAINT big CHECK (pay > 5)
INSERT INTO emp (id, dept, pay) VALUES (4, 1, 3)
ALTER TABLE emp DROP CONSTRAINT big
ALTER TABLE emp DROP CONSTRAINT big
ALTER TABLE emp DROP CONSTRAINT IF EXISTS big
INSERT INTO emp (id, dept, pay) VALUES (4, 1, 3)
ALTER TABLE emp ALTER COLUMN note DROP DEFAULT
INSERT INTO emp (id, dept, pay) VALUES (5, 1, 3)
ALTER TABLE emp ALTER COLUMN note DROP NOT NULL
INSERT INTO emp (id, dept, pay) VALUES (5, 1, 3)
ALTER TABLE emp ALTER COLUMN note SET NOT NULL
UPDATE emp SET note = 'x' WHERE note IS NULL
ALTER TABLE emp ALTER COLUMN note SET NOT NULL
ALTER TABLE emp RENAME COLUMN note TO remark
SELECT remark FROM emp ORDER BY id
SELECT note FROM emp
CREATE INDEX emp_pay ON emp (pay DESC)
SELECT id FROM emp ORDER BY pay DESC, id
CREATE INDEX emp_pay ON emp (pay)
DROP INDEX emp_pay
DROP INDEX emp_pay
CREATE VIEW rich AS SELECT id, pay FROM emp WHERE pay >= 10
SELECT * FROM rich ORDER BY id
ALTER TABLE emp DROP COLUMN pay
ALTER TABLE emp DROP COLUMN pay CASCADE
SELECT * FROM rich
ALTER TABLE emp DROP COLUMN nothing
SELECT id, dept, remark FROM emp ORDER BY id
BEGIN
CREATE TABLE t (k text PRIMARY KEY, v int)
INSERT INTO t VALUES ('p', 1), ('q', 2)
SELECT * FROM t ORDER BY k
ALTER TABLE t ADD COLUMN w int DEFAULT 7
UPDATE t SET w = v + w
SELECT * FROM t ORDER BY k
ROLLBACK
SELECT * FROM t
BEGIN
CREATE TABLE t (k text PRIMARY KEY, v int)
INSERT INTO t VALUES ('p', 1), ('q', 2)
SAVEPOINT s
ALTER TABLE t DROP COLUMN v
INSERT INTO t VALUES ('r')
SELECT * FROM t ORDER BY k
ROLLBACK TO s
SELECT * FROM t ORDER BY k
INSERT INTO t VALUES ('s', 4)
UPDATE emp SET remark = 'y' WHERE id = 1
COMMIT
SELECT * FROM t ORDER BY k
SELECT id, dept, remark FROM emp ORDER BY id
BEGIN; ALTER TABLE t ADD COLUMN z int; INSERT INTO t VALUES ('p', 0, 0)
SELECT 1
ROLLBACK
SELECT * FROM t ORDER BY k
TRUNCATE t
SELECT count(*) FROM t
INSERT INTO t VALUES ('p', 1)
BEGIN
TRUNCATE t
SELECT count(*) FROM t
ROLLBACK
SELECT count(*) FROM t
TRUNCATE dept
TRUNCATE dept CASCADE
SELECT count(*) FROM emp
TRUNCATE dept, emp RESTART IDENTITY
CREATE SEQUENCE numbers
DROP SEQUENCE numbers
CREATE TYPE mood AS ENUM ('sad', 'ok')
CREATE TABLE person (name text PRIMARY KEY, m mood)
INSERT INTO person VALUES ('ann', 'ok'), ('bob', 'happy')
INSERT INTO person VALUES ('ann', 'ok')
SELECT * FROM person
CREATE DOMAIN positive AS int CHECK (VALUE > 0)
CREATE TABLE d (id int PRIMARY KEY, p positive)
INSERT INTO d VALUES (1, 0)
INSERT INTO d VALUES (1, 1)
CREATE TABLE gen (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED)
INSERT INTO gen (id, a) VALUES (1, 5), (2, NULL) RETURNING twice
UPDATE gen SET a = id + 3
SELECT id, a, twice FROM gen ORDER BY id
ALTER TABLE gen ADD COLUMN shown text GENERATED ALWAYS AS ('#' || id) STORED
SELECT * FROM gen ORDER BY id
INSERT INTO gen VALUES (3, 1, 2)
INSERT INTO gen VALUES (3, 1, DEFAULT) RETURNING *
UPDATE gen SET twice = 1
CREATE TABLE wrong (a int, b int GENERATED ALWAYS AS (a + random()) STORED)
CREATE TABLE wrong (a int, b int GENERATED ALWAYS AS (a) STORED, c int GENERATED ALWAYS AS (b) STORED)
CREATE TABLE wrong (a int DEFAULT 1 GENERATED ALWAYS AS (2) STORED)
CREATE TABLE copy AS SELECT id, a + 1 AS more, 'x' AS word, shown FROM gen WHERE id < 3
SELECT * FROM copy ORDER BY id
CREATE TABLE copy AS SELECT 1 AS one
CREATE TABLE IF NOT EXISTS copy AS SELECT 1 AS one
CREATE TABLE named (k, v) AS SELECT g, g * 1.5 FROM generate_series(1, 5) g
SELECT k, v FROM named ORDER BY k
CREATE TABLE bare AS SELECT * FROM gen WITH NO DATA
SELECT count(*) FROM bare
BEGIN
CREATE TABLE gone AS SELECT id FROM gen
SELECT count(*) FROM gone
ROLLBACK
SELECT * FROM gone
INSERT INTO named SELECT k + 10, v FROM named
INSERT INTO named SELECT k + 100, v FROM named WHERE k = 12 RETURNING k, v
INSERT INTO gen (id, a) SELECT k, k FROM named ON CONFLICT (id) DO NOTHING
SELECT sum(id), sum(twice), count(*) FROM gen
INSERT INTO gen (id, a) SELECT 7, '8'
INSERT INTO gen (id) SELECT id FROM gen
CREATE VIEW v1 AS SELECT id FROM gen
CREATE OR REPLACE VIEW v1 AS SELECT id, a FROM gen
SELECT * FROM v1 ORDER BY id LIMIT 2
CREATE OR REPLACE VIEW v1 AS SELECT a FROM gen
CREATE MATERIALIZED VIEW m1 AS SELECT count(*) AS n FROM gen WITH NO DATA
REFRESH MATERIALIZED VIEW m1
SELECT n FROM m1
REFRESH MATERIALIZED VIEW nothing
CREATE MATERIALIZED VIEW m2 (k, twice) AS SELECT id, twice FROM gen
CREATE MATERIALIZED VIEW IF NOT EXISTS m2 AS SELECT 1
CREATE MATERIALIZED VIEW m2 AS SELECT 1 AS one
SELECT k, twice FROM m2 ORDER BY k LIMIT 2
REFRESH MATERIALIZED VIEW m2
DROP VIEW m2
DROP TABLE m2
DROP MATERIALIZED VIEW v1
DROP SEQUENCE m2
DROP INDEX m2
DROP MATERIALIZED VIEW m2
DROP MATERIALIZED VIEW m2
DROP MATERIALIZED VIEW IF EXISTS m2
SELECT id, a INTO picked FROM gen WHERE id < 3
SELECT * FROM picked ORDER BY id
SELECT 1 AS one INTO TABLE picked
SELECT count(*) AS n INTO public.counted FROM gen GROUP BY ()
SELECT n FROM counted
LOCK TABLE gen IN EXCLUSIVE MODE
BEGIN
LOCK TABLE gen, ONLY bare IN SHARE ROW EXCLUSIVE MODE
INSERT INTO bare SELECT * FROM gen WHERE id = 1
SELECT count(*) FROM bare
LOCK TABLE nothing IN SHARE MODE
ROLLBACK
SELECT count(*) FROM bare
CREATE INDEX gen_sum ON gen ((a + id))
CREATE INDEX gen_some ON gen (a) WHERE a > 3
SELECT id FROM gen WHERE a > 3 ORDER BY a, id LIMIT 2
CREATE SEQUENCE seq
SELECT setval('seq', 40)
SELECT setval('public.seq', (SELECT max(id) FROM gen), false)
SELECT setval('seq', 0)
SELECT setval('nothing', 1)
ALTER SEQUENCE seq RESTART WITH 7
ALTER SEQUENCE seq MINVALUE 10
ALTER SEQUENCE nothing RESTART
DROP SEQUENCE seq
CREATE FUNCTION plus(i int) RETURNS int LANGUAGE sql AS 'SELECT i + 1'
SELECT plus(3)
CREATE FUNCTION plus(i int) RETURNS int LANGUAGE sql AS 'SELECT i + 2'
CREATE OR REPLACE FUNCTION plus(i int) RETURNS int LANGUAGE sql AS 'SELECT i + 2'
SELECT plus(3)
DROP FUNCTION plus(int)
SELECT plus(3)
CREATE PROCEDURE put(i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO d VALUES (i, i); END $$
CALL put(5)
CALL put(5)
CALL put(-5)
SELECT * FROM d ORDER BY id
DROP PROCEDURE put
CREATE SCHEMA app
CREATE TABLE app.x (id int PRIMARY KEY)
INSERT INTO app.x VALUES (1)
SELECT * FROM app.x
COMMENT ON TABLE d IS 'a comment'
ALTER TABLE d RENAME TO e
SELECT * FROM e ORDER BY id
SELECT * FROM d
CREATE TABLE broken (id int PRIMARY KEY, x nonsense)
CREATE TABLE broken (id int PRIMARY KEY, id text)
DROP TABLE nothing
DROP TABLE IF EXISTS nothing
DROP VIEW IF EXISTS nothing, nowhere.nothing
DROP FUNCTION IF EXISTS nothing(int, text)
DROP PROCEDURE IF EXISTS nothing
DROP SEQUENCE IF EXISTS public.nothing
DROP INDEX IF EXISTS nothing
DROP TYPE IF EXISTS nothing
DROP SCHEMA IF EXISTS nothing
DROP MATERIALIZED VIEW IF EXISTS nothing
CREATE SCHEMA IF NOT EXISTS app
CREATE SCHEMA app
CREATE SEQUENCE IF NOT EXISTS e
ALTER TABLE IF EXISTS nothing ADD COLUMN a int
ALTER TABLE IF EXISTS nothing RENAME TO anything
ALTER TABLE e ADD COLUMN IF NOT EXISTS id int
ALTER TABLE e DROP COLUMN IF EXISTS nothing
CREATE INDEX IF NOT EXISTS e ON e (id)
CREATE MATERIALIZED VIEW IF NOT EXISTS e AS SELECT 1 AS one
CREATE TABLE parent (id int PRIMARY KEY)
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent)
CREATE VIEW of_parent AS SELECT id FROM parent
DROP TABLE parent CASCADE
SET client_min_messages = warning
DROP TABLE IF EXISTS nothing
RESET client_min_messages
DROP TABLE e, person, t
CREATE TABLE t (k int PRIMARY KEY)
SELECT * FROM t
";

/// Statements that are accepted, or generate the same ids, on one shard only.
const ON_ONE_SHARD: &str = "
CREATE SEQUENCE seq START 5
SELECT nextval('seq'), nextval('seq')
SELECT nextval('seq') FROM generate_series(1, 3)
ALTER SEQUENCE seq RESTART
SELECT nextval('seq')
ALTER SEQUENCE seq INCREMENT BY 10 RESTART WITH 100
SELECT nextval('seq') AS a, nextval('public.seq') AS b
SELECT setval('seq', 42)
SELECT nextval('seq')
SELECT pg_catalog.setval('public.seq', 50, false) AS done
SELECT nextval('seq')
BEGIN
SELECT setval('seq', 1000, true)
SELECT nextval('seq')
COMMIT
SELECT nextval('seq')
CREATE TABLE num (id serial PRIMARY KEY, name text NOT NULL UNIQUE)
INSERT INTO num (name) VALUES ('a'), ('b') RETURNING id, name
INSERT INTO num (name) VALUES ('a')
INSERT INTO num (name) VALUES ('c') RETURNING id
ALTER TABLE num ADD COLUMN n bigserial
SELECT * FROM num ORDER BY id
INSERT INTO num (name) VALUES ('d') RETURNING id, n
CREATE UNIQUE INDEX num_n ON num (n)
UPDATE num SET n = 7
ALTER TABLE num DROP CONSTRAINT num_name_key
INSERT INTO num (name) VALUES ('a') RETURNING id
ALTER TABLE num ADD CONSTRAINT again UNIQUE (name)
CREATE UNIQUE INDEX num_name ON num (name)
DELETE FROM num WHERE id > 5
ALTER TABLE num ADD CONSTRAINT again UNIQUE (name)
TRUNCATE num RESTART IDENTITY
INSERT INTO num (name) VALUES ('z') RETURNING id
CREATE TABLE ref (id int PRIMARY KEY, num text REFERENCES num (name))
INSERT INTO ref SELECT i, 'z' FROM generate_series(1, 3) i
SELECT * FROM ref ORDER BY id
ALTER TABLE num DROP CONSTRAINT again
ALTER TABLE num DROP CONSTRAINT again CASCADE
INSERT INTO ref VALUES (9, 'nobody')
";

#[test]
fn definitions_are_answered_as_by_postgresql() {
    let mut different = Vec::new();
    for (shards, more) in [(1, ON_ONE_SHARD), (3, "")] {
        let weir = Alone::start(shards);
        let postgres = Server::start().unwrap();
        let mut oracle = Heard::connect(&postgres.connection_string());
        let mut own = Heard::connect(&weir.url());
        for text in CONVERSATION.lines().chain(more.lines()).filter(|line| !line.is_empty()) {
            let ((expected, heard), (seen, own_heard)) = (oracle.answer(text), own.answer(text));
            let state = |answer: &str| answer.split(' ').next().unwrap_or_default().to_owned();
            let is_error = |answer: &str| answer.contains("Error");
            let same = match (is_error(&expected), is_error(&seen)) {
                // Nothing has happened in either; over several shards it may be for another reason.
                (true, true) => state(&expected) == state(&seen) || shards > 1 && state(&seen) == "0A000",
                _ => expected == seen,
            };
            if !is_error(&seen) && heard != own_heard {
                different.push(format!(
                    "{shards} shards: {text}\nPostgreSQL says: {heard}\nWeir says: {own_heard}"
                ));
            }
            if !same {
                different.push(format!("{shards} shards: {text}\nPostgreSQL: {expected}\nWeir: {seen}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn what_was_defined_is_there_after_a_kill() {
    for shards in [1, 3] {
        let mut weir = Alone::start(shards);
        let mut own = weir.driver();
        for text in [
            "CREATE TABLE a (id serial PRIMARY KEY, x int)",
            "INSERT INTO a (x) SELECT 7",
            "INSERT INTO a (id, x) VALUES (100, 1), (101, 2), (102, 3)",
            "ALTER TABLE a ADD COLUMN y text DEFAULT 'y'",
            "BEGIN; CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b VALUES (1), (2), (3); UPDATE a SET x = x + 1; COMMIT",
            "CREATE TABLE gone (id int)",
            "DROP TABLE gone",
            "CREATE VIEW v AS SELECT id, y FROM a WHERE x > 2",
            "CREATE PROCEDURE put(i int) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO a (x) VALUES (i); END $$",
        ] {
            // Of rows that live elsewhere than what they are made of.
            if shards > 1 && text.contains("SELECT 7") {
                continue;
            }
            own.batch_execute(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        own.batch_execute("BEGIN; DROP TABLE b; INSERT INTO a (id, x) VALUES (200, 1)").unwrap();
        let looks =
            ["SELECT * FROM a ORDER BY id", "SELECT * FROM b ORDER BY id", "SELECT * FROM v ORDER BY id"];
        let before = looks.map(|text| answer(&mut weir.driver(), text));
        weir.kill_and_start_again();
        let mut own = weir.driver();
        assert_eq!(looks.map(|text| answer(&mut own, text)), before);
        own.batch_execute("CALL put(4); INSERT INTO b VALUES (4)").unwrap();
        assert_eq!(answer(&mut own, "SELECT count(*) FROM gone").split(' ').next(), Some("42P01"));
        // And again, from what was written down since.
        own.batch_execute("ALTER TABLE b ADD COLUMN n int DEFAULT 5").unwrap();
        weir.kill_and_start_again();
        assert_eq!(answer(&mut weir.driver(), "SELECT * FROM b ORDER BY id"), "1|5 2|5 3|5 4|5 (4)");
    }
}

#[test]
fn statements_that_were_prepared_before_are_bound_anew() {
    let weir = Alone::start(2);
    let (mut one, mut other) = (weir.driver(), weir.driver());
    one.batch_execute("CREATE TABLE a (id int PRIMARY KEY, x int)").unwrap();
    let insert = other.prepare("INSERT INTO a (id, x) VALUES ($1, $2)").unwrap();
    let all = other.prepare("SELECT * FROM a").unwrap();
    let count = other.prepare("SELECT count(*) FROM a").unwrap();
    one.batch_execute("CREATE TABLE before_it (id int); ALTER TABLE a ADD COLUMN y int DEFAULT 3").unwrap();
    assert_eq!(other.execute(&insert, &[&1, &2]).unwrap(), 1);
    let counted: i64 = other.query_one(&count, &[]).unwrap().get(0);
    assert_eq!(counted, 1);
    let error = other.query(&all, &[]).unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED), "{error:?}");
    assert_eq!(error.as_db_error().unwrap().message(), "cached plan must not change result type");
    one.batch_execute("DROP TABLE a").unwrap();
    assert_eq!(other.execute(&insert, &[&2, &2]).unwrap_err().code(), Some(&SqlState::UNDEFINED_TABLE));
}

/// Parents live on other shards than their children. The last column of the answer is PostgreSQL's detail and constraint.
const KEYS_OF_FILLED_TABLES: &str = "
CREATE TABLE p (a int, b text, PRIMARY KEY (a, b))
CREATE TABLE \"Q\" (id int PRIMARY KEY)
CREATE TABLE c (id int PRIMARY KEY, a int, b text, \"of Q\" int, up int)
INSERT INTO \"Q\" SELECT 1000 + i FROM generate_series(1, 50) i
INSERT INTO p SELECT i, 'x' || i FROM generate_series(1, 50) i
INSERT INTO c SELECT i, i, 'x' || i, 1050 - i, i - 1 FROM generate_series(1, 50) i
UPDATE c SET up = NULL WHERE id = 1
ALTER TABLE c ADD CONSTRAINT whole FOREIGN KEY (a, b) REFERENCES p
INSERT INTO c VALUES (51, 51, 'x51', 1001, 7), (52, 51, NULL, NULL, 7)
ALTER TABLE c ADD CONSTRAINT \"by Q\" FOREIGN KEY (\"of Q\") REFERENCES \"Q\"
INSERT INTO \"Q\" VALUES (1000)
ALTER TABLE c ADD CONSTRAINT \"by Q\" FOREIGN KEY (\"of Q\") REFERENCES \"Q\"
ALTER TABLE c ADD CONSTRAINT self FOREIGN KEY (up) REFERENCES c
INSERT INTO c VALUES (53, NULL, NULL, NULL, 99)
DELETE FROM c WHERE id = 53
BEGIN
INSERT INTO c VALUES (54, 54, 'x54', NULL, NULL)
ROLLBACK
SELECT conname FROM pg_constraint WHERE conrelid = 'c'::regclass AND contype = 'f' ORDER BY 1
SELECT count(*), sum(a), sum(\"of Q\"), sum(up) FROM c
";

#[test]
fn foreign_keys_of_filled_tables_are_validated_on_all_shards() {
    let postgres = Server::start().unwrap();
    let connect = |text: &str| Driver::connect(text, NoTls).unwrap();
    for shards in [1, 3] {
        let database = format!("filled_{shards}");
        connect(&postgres.connection_string()).batch_execute(&format!("CREATE DATABASE {database}")).unwrap();
        let mut oracle = connect(&format!("{} dbname={database}", postgres.connection_string()));
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        let told = |driver: &mut Driver, text: &str| {
            answer_or(driver, text, |error| {
                let (detail, constraint) = (error.detail().unwrap_or("-"), error.constraint().unwrap_or("-"));
                format!("{} {} | {detail} | {constraint}", error.code().code(), error.message())
            })
        };
        for text in KEYS_OF_FILLED_TABLES.lines().filter(|line| !line.is_empty()) {
            assert_eq!(told(&mut own, text), told(&mut oracle, text), "{shards} shards: {text}");
        }
    }
}

/// Two nodes, each with a front end of its own.
#[test]
fn what_one_front_end_defines_the_other_sees() {
    let nodes = Nodes::start(2, 2, "[application]\n", true);
    let fronts: Vec<_> = (0..2)
        .map(|_| {
            let cluster = weir_client::ClusterFile::read(&nodes.file()).unwrap();
            let client = weir_client::Client::connect(&cluster).unwrap();
            let door = weir_pg::Door::new(weir_pg::Settings::new("127.0.0.1:0".parse().unwrap())).unwrap();
            door.open(client).unwrap()
        })
        .collect();
    let [mut one, mut other] = [0, 1].map(|at: usize| driver(fronts[at].address().port()));
    one.batch_execute(
        "CREATE TABLE a (id int PRIMARY KEY, x int); INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)",
    )
    .unwrap();
    assert_eq!(answer(&mut other, "SELECT * FROM a ORDER BY id"), "1|1 2|2 3|3 (3)");
    let insert = other.prepare("INSERT INTO a (id, x) VALUES ($1, $2)").unwrap();
    one.batch_execute("ALTER TABLE a ADD COLUMN y int DEFAULT 9").unwrap();
    assert_eq!(other.execute(&insert, &[&4, &4]).unwrap(), 1);
    other.batch_execute("ALTER TABLE a DROP COLUMN x").unwrap();
    assert_eq!(answer(&mut one, "SELECT * FROM a ORDER BY id"), "1|9 2|9 3|9 4|9 (4)");
}

/// A statement at one front end, and the next one at another, which has learned of the first by no statement of its own.
const KNOWN_AT_ONCE: [(&str, &str); 16] = [
    ("CREATE TABLE a1 (id int PRIMARY KEY)", "COPY a1 TO STDOUT"),
    ("CREATE TABLE a2 (id int PRIMARY KEY)", "TRUNCATE a2"),
    ("CREATE TABLE a3 (id int PRIMARY KEY)", "ALTER TABLE a3 ADD COLUMN x int"),
    ("CREATE TABLE a4 (id int PRIMARY KEY)", "DROP TABLE a4"),
    ("CREATE TABLE a5 (id int PRIMARY KEY, v int)", "CREATE INDEX ON a5 (v)"),
    ("CREATE TABLE a6 (id int PRIMARY KEY)", "CREATE VIEW v6 AS SELECT * FROM a6"),
    ("CREATE TABLE a7 (id int PRIMARY KEY)", "COMMENT ON TABLE a7 IS 'seven'"),
    ("CREATE TABLE a8 (id int PRIMARY KEY)", "SELECT 1 / count(*) FROM pg_tables WHERE tablename = 'a8'"),
    (
        "CREATE TABLE a9 (id int PRIMARY KEY)",
        "SELECT 1 / CASE WHEN to_regclass('a9') IS NULL THEN 0 ELSE 1 END",
    ),
    (
        "ALTER TABLE a9 ADD COLUMN y int",
        "SELECT 1 / count(*) FROM information_schema.columns WHERE table_name = 'a9' AND column_name = 'y'",
    ),
    ("DROP TABLE a9", "SELECT 1 / CASE WHEN to_regclass('a9') IS NULL THEN 1 ELSE 0 END"),
    ("DROP TABLE a8", "CREATE TABLE a8 (id int PRIMARY KEY, other int)"),
    ("CREATE TABLE b1 (id int PRIMARY KEY)", "BEGIN; LOCK TABLE b1 IN SHARE MODE; COMMIT"),
    ("CREATE SEQUENCE s1", "SELECT setval('s1', 7)"),
    ("CREATE TABLE b2 (id int PRIMARY KEY)", "CREATE TABLE c2 (id int PRIMARY KEY, b int REFERENCES b2)"),
    ("DROP TABLE b1", "DROP TABLE IF EXISTS b1"),
];

#[test]
fn every_statement_of_another_front_end_knows_what_was_defined() {
    let nodes = Nodes::start(2, 2, "[application]\n", false);
    let fronts: Vec<_> = (0..2)
        .map(|_| {
            let cluster = weir_client::ClusterFile::read(&nodes.file()).unwrap();
            let client = weir_client::Client::connect(&cluster).unwrap();
            let door = weir_pg::Door::new(weir_pg::Settings::new("127.0.0.1:0".parse().unwrap())).unwrap();
            door.open(client).unwrap()
        })
        .collect();
    let [mut one, mut other] = [0, 1].map(|at: usize| driver(fronts[at].address().port()));
    for (defines, meets) in KNOWN_AT_ONCE {
        one.batch_execute(defines).unwrap_or_else(|error| panic!("{defines}: {error:?}"));
        if meets.starts_with("COPY") {
            use std::io::Read as _;
            let mut rows = Vec::new();
            other.copy_out(meets).unwrap().read_to_end(&mut rows).unwrap();
        } else {
            other.batch_execute(meets).unwrap_or_else(|error| panic!("{meets}: {error:?}"));
        }
    }
    one.batch_execute("CREATE TABLE d (id int PRIMARY KEY)").unwrap();
    use std::io::Write as _;
    let mut rows = other.copy_in("COPY d FROM STDIN").unwrap();
    rows.write_all(b"1\n2\n").unwrap();
    assert_eq!(rows.finish().unwrap(), 2);
}

/// setval is no definition: it takes effect at once, waits for nobody, is not taken back, and nobody notices it.
#[test]
fn setval_is_immediate_and_in_nobodys_way() {
    for shards in [1, 3] {
        let mut weir = Alone::start(shards);
        let [mut own, mut open, mut prepared] = [weir.driver(), weir.driver(), weir.driver()];
        own.batch_execute(
            "CREATE TABLE g (id bigserial PRIMARY KEY, n int); CREATE TABLE o (id int PRIMARY KEY)",
        )
        .unwrap();
        let insert = prepared.prepare("INSERT INTO o VALUES ($1)").unwrap();
        open.batch_execute("BEGIN; INSERT INTO o VALUES (0)").unwrap();
        prepared.batch_execute("BEGIN").unwrap();
        prepared.execute(&insert, &[&1]).unwrap();
        own.batch_execute("SET lock_timeout = '100ms'; SET statement_timeout = '20s'").unwrap();
        let set = own.query_one("SELECT setval('g_id_seq', 1000)", &[]).unwrap().get::<_, i64>(0);
        assert_eq!(set, 1000);
        prepared.execute(&insert, &[&2]).unwrap();
        prepared.batch_execute("COMMIT").unwrap();
        open.batch_execute("COMMIT").unwrap();
        let next = |driver: &mut Driver| -> i64 {
            driver.query_one("INSERT INTO g (n) VALUES (1) RETURNING id", &[]).unwrap().get(0)
        };
        let is_next = |next: i64, than: i64| match shards {
            1 => next == than,
            _ => next >= than,
        };
        let found = next(&mut own);
        assert!(is_next(found, 1001), "{found}");
        own.batch_execute("BEGIN; SELECT setval('g_id_seq', 5000, false); ROLLBACK").unwrap();
        let found = next(&mut own);
        assert!(is_next(found, 5000), "{found}");
        own.batch_execute("SELECT setval('g_id_seq', 9000)").unwrap();
        weir.kill_and_start_again();
        let found = next(&mut weir.driver());
        assert!(is_next(found, 9001), "{found}");
        // One that the transaction has made is the transaction's.
        let mut own = weir.driver();
        own.batch_execute("BEGIN; CREATE SEQUENCE s; SELECT setval('s', 4); COMMIT; SELECT setval('s', 9223372036854775807)").unwrap();
    }
}

/// Counters go up while the schema changes, and none of what was acknowledged is lost.
#[test]
fn others_work_on_while_the_schema_changes() {
    let weir = Alone::start(3);
    let mut own = weir.driver();
    own.batch_execute("CREATE TABLE c (id int PRIMARY KEY, n int NOT NULL); INSERT INTO c VALUES (1, 0), (2, 0), (3, 0), (4, 0)").unwrap();
    let is_over = AtomicBool::new(false);
    let mut failed: Vec<String> = Vec::new();
    let done: i64 = std::thread::scope(|scope| {
        let worker = |which: i32| {
            let (mut own, is_over) = (weir.driver(), &is_over);
            scope.spawn(move || {
                let mut done = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let text = match which {
                        0 => "UPDATE c SET n = n + 1 WHERE id = 1",
                        1 => "UPDATE c SET n = n + 1",
                        _ => "BEGIN; UPDATE c SET n = n + 1 WHERE id = 2; UPDATE c SET n = n + 1 WHERE id = 3; COMMIT",
                    };
                    match own.batch_execute(text) {
                        Ok(()) => done += [1, 4, 2][which as usize],
                        // In transactions only: whoever had begun when the schema changed, or waited for it.
                        Err(error) => {
                            let state = error.code().unwrap().code().to_owned();
                            assert!(which == 2 && state.starts_with("40"), "{error:?}");
                            own.batch_execute("ROLLBACK").unwrap();
                        }
                    }
                }
                done
            })
        };
        let workers: Vec<_> = (0..3).map(worker).collect();
        for round in 0..6 {
            for text in [
                format!("ALTER TABLE c ADD COLUMN x{round} int DEFAULT {round}"),
                format!("CREATE INDEX i{round} ON c (n)"),
                format!("CREATE TABLE t{round} (id int PRIMARY KEY)"),
            ] {
                if let Err(error) = own.batch_execute(&text) {
                    failed.push(format!("{text}: {error:?}"));
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(failed.is_empty(), "{failed:?}");
    assert!(done > 0);
    assert_eq!(answer(&mut own, "SELECT sum(n) FROM c"), format!("{done} (1)"));
}

/// The barrier of a definition is removed when the definition is rolled back.
#[test]
fn a_definition_that_is_taken_back_keeps_nobody_out() {
    for shards in [1, 3] {
        let server = Alone::start(shards);
        let (mut one, mut other) = (server.driver(), server.driver());
        one.batch_execute("CREATE TABLE t (a integer PRIMARY KEY)").unwrap();
        other.batch_execute("SET statement_timeout = '20s'").unwrap();
        one.batch_execute("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s; CREATE TABLE u (a integer PRIMARY KEY); ROLLBACK TO s").unwrap();
        other.batch_execute("INSERT INTO t VALUES (2)").unwrap();
        one.batch_execute("INSERT INTO t VALUES (3); COMMIT").unwrap();
        other.batch_execute("INSERT INTO t VALUES (4); CREATE TABLE u (a integer PRIMARY KEY)").unwrap();
        assert_eq!(one.query_one("SELECT count(*) FROM t", &[]).unwrap().get::<_, i64>(0), 4);
    }
}

/// As in PostgreSQL: a definition waits for those who have written, no longer than lock_timeout.
#[test]
fn a_definition_waits_as_long_as_lock_timeout_says() {
    let postgres = Server::start().unwrap();
    let [weir, far] = [1, 3].map(Alone::start);
    let url = postgres.connection_string();
    let of_postgres = [&url, &url].map(|url| Driver::connect(url, NoTls).unwrap());
    for [mut one, mut other] in [of_postgres, [weir.driver(), weir.driver()], [far.driver(), far.driver()]] {
        one.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)").unwrap();
        other.batch_execute("SET lock_timeout = 300; SET statement_timeout = '20s'").unwrap();
        one.batch_execute("BEGIN; UPDATE t SET n = 2 WHERE id = 1").unwrap();
        for text in ["ALTER TABLE t ADD COLUMN x int", "CREATE INDEX i ON t (n)", "DROP TABLE t"] {
            let told = answer(&mut other, text);
            assert!(told.starts_with("55P03"), "{text}: {told}");
        }
        other.batch_execute("BEGIN").unwrap();
        let told = answer(&mut other, "ALTER TABLE t ADD COLUMN x int");
        assert!(told.starts_with("55P03"), "in a transaction: {told}");
        other.batch_execute("ROLLBACK").unwrap();
        one.batch_execute("COMMIT").unwrap();
        other.batch_execute("ALTER TABLE t ADD COLUMN x int").unwrap();
        assert_eq!(answer(&mut one, "SELECT n, x FROM t"), answer(&mut other, "SELECT 2, NULL::int"));
    }
}

/// As in PostgreSQL: others read, and wait to write.
#[test]
fn who_locks_a_table_keeps_others_from_writing() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let postgres = Server::start().unwrap();
        let mut sessions: Vec<[Driver; 2]> = vec![
            [&postgres.connection_string(), &postgres.connection_string()]
                .map(|url| Driver::connect(url, NoTls).unwrap()),
            [weir.driver(), weir.driver()],
        ];
        for [one, other] in &mut sessions {
            one.batch_execute(
                "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1), (2, 2)",
            )
            .unwrap();
            other.batch_execute("SET lock_timeout = 300").unwrap();
            for mode in ["SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE"] {
                one.batch_execute(&format!("BEGIN; LOCK TABLE t IN {mode} MODE")).unwrap();
                for text in
                    ["UPDATE t SET n = n + 1", "INSERT INTO t VALUES (3, 3)", "DELETE FROM t WHERE id = 1"]
                {
                    let told = answer(other, text);
                    assert!(told.starts_with("55P03"), "{mode}: {text}: {told}");
                }
                assert_eq!(answer(other, "SELECT count(*) FROM t"), "2 (1)");
                one.batch_execute("UPDATE t SET n = n + 1 WHERE id = 1; COMMIT").unwrap();
                assert_eq!(answer(other, "UPDATE t SET n = n + 1"), "(2)");
            }
            assert_eq!(answer(one, "SELECT sum(n) FROM t"), "12 (1)");
            // A transaction that has written already is waited for.
            one.batch_execute("BEGIN; UPDATE t SET n = 0 WHERE id = 2").unwrap();
            let told = answer(other, "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE");
            assert!(told.starts_with("55P03"), "{told}");
            other.batch_execute("ROLLBACK").unwrap();
            one.batch_execute("COMMIT").unwrap();
            other.batch_execute("BEGIN; LOCK t IN EXCLUSIVE MODE; UPDATE t SET n = 7; COMMIT").unwrap();
            assert_eq!(answer(one, "SELECT n FROM t ORDER BY id"), "7 7 (2)");
        }
        let [own, _] = &mut sessions[1];
        for text in
            ["LOCK TABLE t", "LOCK TABLE t IN ROW EXCLUSIVE MODE", "LOCK TABLE t IN SHARE MODE NOWAIT"]
        {
            own.batch_execute("BEGIN").unwrap();
            assert_eq!(answer(own, text).split(' ').next(), Some("0A000"), "{text}");
            own.batch_execute("ROLLBACK").unwrap();
        }
    }
}
