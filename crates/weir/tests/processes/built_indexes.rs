//! Indexes of tables that have rows, built while others write (docs/internals/global-keys.md, 3.17): what is told of them is what PostgreSQL
//! tells, on one shard and on several; they have every row whoever writes it meanwhile; and who builds one can be cancelled and ended.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::alone::Alone;
use crate::conversation::{answer, compare};
use crate::eventually::{until, until_locked};
use postgres::error::SqlState;
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;

const CONVERSATION: &str = "
CREATE TABLE t (id int PRIMARY KEY, a text, b int, c int)
INSERT INTO t VALUES (1, 'a', 1, 1), (2, 'b', 1, NULL), (3, 'c', 2, 3), (4, 'd', 2, 4), (5, NULL, 3, NULL), (6, NULL, 4, 6)
CREATE UNIQUE INDEX t_b ON t (b)
SELECT indexrelid::regclass::text, indisvalid, indisunique FROM pg_index WHERE indrelid = 't'::regclass ORDER BY 1
CREATE INDEX t_b ON t (b)
CREATE INDEX t_b ON t (b)
CREATE INDEX IF NOT EXISTS t_b ON t (c)
CREATE UNIQUE INDEX CONCURRENTLY t_a ON t (a)
SELECT indexrelid::regclass::text, indisvalid, indisunique FROM pg_index WHERE indrelid = 't'::regclass ORDER BY 1
INSERT INTO t VALUES (7, 'a', 7, 7)
INSERT INTO t VALUES (7, NULL, 7, 7)
UPDATE t SET a = 'b' WHERE id = 7
CREATE UNIQUE INDEX t_c ON t (c) NULLS NOT DISTINCT
DELETE FROM t WHERE id = 5
CREATE UNIQUE INDEX t_c ON t (c) NULLS NOT DISTINCT
INSERT INTO t VALUES (8, 'h', 8, NULL)
INSERT INTO t VALUES (8, 'h', 8, 8) ON CONFLICT (c) DO UPDATE SET b = 80
INSERT INTO t VALUES (9, 'i', 9, 8) ON CONFLICT (c) DO UPDATE SET b = 81 RETURNING id, b
BEGIN
CREATE INDEX CONCURRENTLY t_no ON t (b)
ROLLBACK
BEGIN
DROP INDEX CONCURRENTLY t_b
ROLLBACK
BEGIN
CREATE INDEX t_in ON t (b DESC, a)
INSERT INTO t VALUES (10, 'j', 10, 10)
UPDATE t SET b = 100 WHERE id = 1
SELECT id FROM t WHERE b > 80 ORDER BY b DESC, a
SAVEPOINT s
CREATE UNIQUE INDEX t_too ON t (b)
ROLLBACK TO s
DELETE FROM t WHERE b = 2
CREATE UNIQUE INDEX t_too ON t (b)
INSERT INTO t VALUES (11, 'k', 100, 11)
ROLLBACK TO s
DROP INDEX t_in
CREATE INDEX t_in ON t (a, b)
COMMIT
SELECT * FROM t ORDER BY id
INSERT INTO t VALUES (12, 'l', 100, 12)
DROP INDEX CONCURRENTLY t_a
INSERT INTO t VALUES (13, 'l', 13, 13)
ALTER TABLE t ADD CONSTRAINT t_a_b UNIQUE (a, b)
INSERT INTO t VALUES (14, 'l', 13, 14)
ALTER TABLE t ADD UNIQUE (b)
SELECT * FROM t ORDER BY id
CREATE TABLE none (id int PRIMARY KEY, a int)
CREATE UNIQUE INDEX none_a ON none (a)
INSERT INTO none VALUES (1, 1), (2, 2)
INSERT INTO none VALUES (3, 1)
TRUNCATE none
INSERT INTO none VALUES (3, 1)
CREATE UNIQUE INDEX ON none (a DESC)
INSERT INTO none VALUES (4, 1)
";

#[test]
fn they_are_as_on_postgresql() {
    compare(CONVERSATION);
}

fn count(driver: &mut Driver, query: &str) -> i64 {
    driver.query_one(query, &[]).unwrap().get(0)
}

/// Writes rows of its own until the flag is set. No two rows have one e-mail.
fn write(url: &str, number: i64, is_over: &AtomicBool, written: &AtomicUsize) {
    let mut driver = Driver::connect(url, NoTls).unwrap();
    let update = driver.prepare("UPDATE big SET email = $1, n = n + 1 WHERE id = $2").unwrap();
    let delete = driver.prepare("DELETE FROM big WHERE id = $1").unwrap();
    let insert = driver.prepare("INSERT INTO big VALUES ($1, $2, $3)").unwrap();
    for at in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let (id, email) = ((1 + number + 2 * (at * 7 % 4_000)) as i32, format!("{number} writes {at}"));
        if at % 3 == 0 {
            driver.execute(&delete, &[&id]).unwrap();
            driver.execute(&insert, &[&id, &email, &(at as i32)]).unwrap();
        } else {
            driver.execute(&update, &[&email, &id]).unwrap();
        }
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each row is found by each of its keys, and no other row may have its e-mail.
fn check(driver: &mut Driver, rows: i64) {
    assert_eq!(count(driver, "SELECT count(*) FROM big"), rows);
    assert_eq!(count(driver, "SELECT count(*) FROM big WHERE email > ''"), rows);
    let sample = driver.query("SELECT id, email, n FROM big WHERE id % 40 = 7", &[]).unwrap();
    for row in sample {
        let (id, email, n): (i32, String, i32) = (row.get(0), row.get(1), row.get(2));
        let by_email = driver.query("SELECT id FROM big WHERE email = $1", &[&email]).unwrap();
        assert_eq!(by_email.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [id], "{email}");
        let by_n = driver.query("SELECT id FROM big WHERE n = $1", &[&n]).unwrap();
        assert!(by_n.iter().any(|row| row.get::<_, i32>(0) == id), "{id} by {n}");
        if id % 400 == 7 {
            let told = answer(driver, &format!("INSERT INTO big VALUES (-1, '{email}', 0)"));
            assert!(told.starts_with("23505"), "{told}");
        }
    }
}

#[test]
fn they_have_every_row_whoever_writes_it_meanwhile() {
    const ROWS: i64 = 20_000;
    for shards in [1, 3] {
        let mut weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(&format!(
            "CREATE TABLE big (id int PRIMARY KEY, email text NOT NULL, n int); \
             INSERT INTO big SELECT n, 'mail ' || n, n / 3 FROM generate_series(1, {ROWS}) n"
        ))
        .unwrap();
        let (url, is_over, written) = (weir.url(), AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let (url, is_over, written) = (&url, &is_over, &written);
            for number in 0..2 {
                scope.spawn(move || write(url, number, is_over, written));
            }
            for _ in 0..3 {
                let before = written.load(Ordering::Relaxed);
                own.batch_execute("CREATE UNIQUE INDEX CONCURRENTLY big_email ON big (email)").unwrap();
                own.batch_execute("CREATE INDEX big_n ON big (n)").unwrap();
                check_unique(&mut own);
                own.batch_execute("DROP INDEX big_email").unwrap();
                own.batch_execute("DROP INDEX big_n").unwrap();
                until("others write", || written.load(Ordering::Relaxed) > before + 10);
            }
            own.batch_execute("CREATE UNIQUE INDEX big_email ON big (email)").unwrap();
            own.batch_execute("CREATE INDEX big_n ON big (n)").unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        check(&mut own, ROWS);
        weir.kill_and_start_again();
        check(&mut weir.driver(), ROWS);
    }
}

/// A key that nobody changes is taken.
fn check_unique(driver: &mut Driver) {
    let told = answer(driver, "INSERT INTO big VALUES (-1, 'mail 19000', 0)");
    assert!(told.starts_with("23505 duplicate key value violates unique constraint \"big_email\""), "{told}");
}

fn said(result: Result<(), postgres::Error>) -> String {
    match result {
        Ok(()) => "done".to_owned(),
        Err(error) => match error.as_db_error() {
            Some(error) if *error.code() != SqlState::ADMIN_SHUTDOWN => {
                format!("{} {}", error.code().code(), error.message())
            }
            // The driver does not always hear why.
            _ => "the session has been ended".to_owned(),
        },
    }
}

/// One that is built, and waits for a transaction that has written, is not there for anybody; its session may be cancelled, ended, and come
/// again.
#[test]
fn who_builds_one_is_cancelled_and_ended_as_on_postgresql() {
    let postgres = Postgres::start().unwrap();
    let weir = [1, 3].map(Alone::start);
    let urls = weir.iter().map(Alone::url).chain([postgres.connection_string()]);
    let create = "CREATE UNIQUE INDEX t_a ON t (a)";
    let told = urls.map(|url| {
        let connect = || Driver::connect(&url, NoTls).unwrap();
        let (mut watch, mut holder, mut other) = (connect(), connect(), connect());
        watch.batch_execute("CREATE TABLE t (id int PRIMARY KEY, a int)").unwrap();
        watch.batch_execute("INSERT INTO t SELECT n, n FROM generate_series(1, 9000) n").unwrap();
        let mut told = Vec::new();
        for ends in ["cancel", "terminate", "commit"] {
            holder.batch_execute("BEGIN; UPDATE t SET a = -a WHERE id = 5").unwrap();
            let mut builder = connect();
            let pid = builder.query_one("SELECT pg_backend_pid()", &[]).unwrap().get::<_, i32>(0);
            let cancel = builder.cancel_token();
            let builds = std::thread::spawn(move || said(builder.batch_execute(create)));
            until_locked(&mut watch, 1);
            told.push(said(other.batch_execute("DROP INDEX t_a")));
            match ends {
                "cancel" => cancel.cancel_query(NoTls).unwrap(),
                "terminate" => {
                    watch.batch_execute(&format!("SELECT pg_terminate_backend({pid})")).unwrap();
                }
                _ => holder.batch_execute("COMMIT").unwrap(),
            }
            told.push(builds.join().unwrap());
            holder.batch_execute("ROLLBACK").unwrap();
            told.push(said(other.batch_execute("INSERT INTO t VALUES (-1, 6)")));
            told.push(said(other.batch_execute("DELETE FROM t WHERE id = -1")));
        }
        told
    });
    let told: Vec<Vec<String>> = told.collect();
    assert_eq!(told[0], told[2], "one shard");
    assert_eq!(told[1], told[2], "three shards");
}

/// Two sessions build at once: indexes of two names are there in the end, one of two with the same name is not.
#[test]
fn two_are_built_at_once() {
    let postgres = Postgres::start().unwrap();
    let weir = [1, 3].map(Alone::start);
    let urls = weir.iter().map(Alone::url).chain([postgres.connection_string()]);
    for url in urls {
        let mut own = Driver::connect(&url, NoTls).unwrap();
        own.batch_execute("CREATE TABLE t (id int PRIMARY KEY, a int, b int)").unwrap();
        own.batch_execute("INSERT INTO t SELECT n, n, n % 7 FROM generate_series(1, 20000) n").unwrap();
        let both = |texts: [&'static str; 2]| {
            let begin = |text: &'static str| {
                let mut driver = Driver::connect(&url, NoTls).unwrap();
                std::thread::spawn(move || said(driver.batch_execute(text)))
            };
            let mut told = texts.map(begin).map(|one| one.join().unwrap());
            told.sort();
            told
        };
        let told = both(["CREATE UNIQUE INDEX t_a ON t (a)", "CREATE INDEX t_b ON t (b, a)"]);
        assert_eq!(told, ["done", "done"], "{url}");
        let told = both(["CREATE INDEX same ON t (a)", "CREATE INDEX same ON t (b)"]);
        // PostgreSQL tells one that comes later what its catalog says of the name.
        assert!(
            ["42P07 relation \"same\" already exists", "23505"].iter().any(|one| told[0].starts_with(one))
        );
        assert_eq!(told[1], "done", "{url}");
        assert_eq!(count(&mut own, "SELECT count(*) FROM pg_indexes WHERE tablename = 't'"), 4, "{url}");
        assert!(answer(&mut own, "INSERT INTO t VALUES (0, 77, 0)").starts_with("23505"), "{url}");
        assert_eq!(count(&mut own, "SELECT count(*) FROM t WHERE b = 3"), 2_857, "{url}");
    }
}

/// A build is cancelled at any moment: either nothing has happened, or the index is there.
#[test]
fn a_build_is_cancelled_while_it_runs() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, a text); \
             INSERT INTO t SELECT n, repeat('a', 20) || n FROM generate_series(1, 60000) n",
        )
        .unwrap();
        let mut cancelled = 0;
        for _ in 0..4 {
            let mut builder = weir.driver();
            let cancel = builder.cancel_token();
            let builds =
                std::thread::spawn(move || said(builder.batch_execute("CREATE UNIQUE INDEX t_a ON t (a)")));
            let active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'CREATE UNIQUE%'";
            until("it builds, or has built", || count(&mut own, active) > 0 || builds.is_finished());
            cancel.cancel_query(NoTls).unwrap();
            let is_there = match builds.join().unwrap().as_str() {
                "done" => true,
                "57014 canceling statement due to user request" => false,
                other => panic!("{other}"),
            };
            cancelled += i32::from(!is_there);
            let found = count(&mut own, "SELECT count(*) FROM pg_indexes WHERE indexname = 't_a'");
            assert_eq!(found, i64::from(is_there));
            let told = answer(&mut own, "INSERT INTO t VALUES (0, repeat('a', 20) || 77)");
            assert_eq!(told.starts_with("23505"), is_there, "{told}");
            own.batch_execute("DELETE FROM t WHERE id = 0; DROP INDEX IF EXISTS t_a").unwrap();
        }
        println!("{shards} shards: {cancelled} of 4 were cancelled");
    }
}
