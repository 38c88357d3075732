//! Monitoring of a server: metrics and health by HTTP, its log, and views.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::alone::Alone;
use crate::browser::Browser;
use crate::eventually::{eventually, until, until_locked};
use postgres::{Client as Driver, NoTls};

const HTTP: &[&str] = &["--http", "127.0.0.1:0"];

/// Status, headers and body.
fn ask(address: &str, method: &str, path: &str) -> (u16, String, String) {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn http_of(server: &Alone) -> String {
    // It is said behind where PostgreSQL's protocol is.
    eventually("it says where it speaks HTTP", || {
        let said = server.said();
        let address = said.split("HTTP on ").nth(1)?.split_once(": /metrics")?;
        Some(address.0.to_owned())
    })
}

/// Every sample, by its name and labels.
fn samples(address: &str) -> BTreeMap<String, f64> {
    let (status, head, body) = ask(address, "GET", "/metrics");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    body.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

fn driver(server: &Alone) -> Driver {
    Driver::connect(&server.url(), NoTls).unwrap()
}

/// Metrics of the order: calls over two shards, and a transaction that keeps the calls behind it out.
#[test]
fn figures_of_the_order_follow_calls() {
    let server = Alone::with(&[&["--shards", "2"], HTTP].concat());
    let address = http_of(&server);
    let mut driver = driver(&server);
    assert!(!samples(&address).keys().any(|name| name.starts_with("weir_order_")));
    let schema = "CREATE TABLE a (id integer PRIMARY KEY, n integer NOT NULL);
        INSERT INTO a SELECT g, 0 FROM generate_series(1, 20) g;
        CREATE PROCEDURE move(one integer, other integer) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE a SET n = n - 1 WHERE id = one;
            UPDATE a SET n = n + 1 WHERE id = other;
        END $$;
        ALTER PROCEDURE move SET default_transaction_isolation = 'serializable'";
    driver.batch_execute(schema).unwrap();
    for one in 1..10 {
        driver.batch_execute(&format!("CALL move({one}, {})", one + 1)).unwrap();
    }
    driver.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE a SET n = 0 WHERE id = 1").unwrap();
    let found = samples(&address);
    let of = |name: &str, shard: u16| found[&format!("{name}{{shard=\"{shard}\"}}")];
    // Each call is executed at one shard or at both.
    assert!(of("weir_order_executed_total", 0) + of("weir_order_executed_total", 1) >= 9.0, "{found:#?}");
    for shard in [0, 1] {
        assert!(of("weir_order_epoch", shard) >= 1.0);
        let [entered, waiting] = ["weir_order_entered", "weir_order_waiting"].map(|name| of(name, shard));
        assert_eq!((entered, waiting, of("weir_order_aside", shard)), (1.0, 0.0, 0.0));
    }
}

#[test]
fn figures_follow_what_is_done() {
    let server = Alone::with(&[&["--shards", "2"], HTTP].concat());
    let address = http_of(&server);
    let mut driver = driver(&server);
    driver.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").unwrap();
    for a in 0..5 {
        driver.execute("INSERT INTO t VALUES ($1, 0)", &[&a]).unwrap();
    }
    driver.batch_execute("INSERT INTO t VALUES (0, 0)").unwrap_err();
    driver.batch_execute("SELECT nothing FROM t").unwrap_err();
    driver.query("SELECT * FROM t", &[]).unwrap();
    driver.batch_execute("BEGIN; UPDATE t SET b = 1 WHERE a = 1").unwrap();
    let found = samples(&address);
    let of = |name: &str| *found.get(name).unwrap_or_else(|| panic!("{name} is not in {found:#?}"));
    // A key that is chosen takes a claim.
    let inserts = "{mechanism=\"ramp\",name=\"insert\"";
    assert_eq!(of(&format!("weir_statement_seconds_count{inserts}}}")), 5.0);
    assert_eq!(of(&format!("weir_statement_seconds_bucket{inserts},le=\"+Inf\"}}")), 5.0);
    assert!(of(&format!("weir_statement_seconds_sum{inserts}}}")) > 0.0);
    assert_eq!(of(&format!("weir_aborts_total{inserts},reason=\"constraint\",sqlstate=\"23505\"}}")), 1.0);
    assert_eq!(of("weir_statement_rows_total{mechanism=\"read\",name=\"select\"}"), 5.0);
    assert_eq!(of("weir_errors_total{reason=\"statement\",sqlstate=\"42703\"}"), 1.0);
    assert_eq!(of("weir_sessions{state=\"idle in transaction\"}"), 1.0);
    assert_eq!(of("weir_connections_total"), 1.0);
    let both = |name: &str, more: &str| -> f64 {
        (0..2).map(|shard| of(&format!("{name}{{shard=\"{shard}\"{more}}}"))).sum()
    };
    assert_eq!(both("weir_shard_up", ""), 2.0);
    assert_eq!(both("weir_table_rows", ",table=\"t\""), 5.0);
    assert!(both("weir_table_bytes", ",table=\"t\"") > 100.0);
    assert_eq!(both("weir_open_transactions", ""), 1.0);
    assert!(both("weir_log_bytes_total", "") > 100.0);
    assert!(both("weir_log_sync_seconds_count", "") >= 5.0);
    assert!(of("process_resident_memory_bytes") > 1e6);
    let before = (of("weir_commits_total"), of("weir_rollbacks_total"));
    driver.batch_execute("ROLLBACK").unwrap();
    driver.batch_execute("SELECT 1").unwrap();
    let after = samples(&address);
    assert_eq!(
        (after["weir_commits_total"], after["weir_rollbacks_total"]),
        (before.0 + 1.0, before.1 + 1.0)
    );
}

#[test]
fn health_is_told_and_other_things_are_not_there() {
    let server = Alone::with(HTTP);
    let address = http_of(&server);
    let (status, head, body) = ask(&address, "GET", "/health");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert_eq!(
        (status, body.as_str()),
        (200, "{\"status\":\"ok\",\"parts\":[{\"part\":\"shard 0\",\"status\":\"ok\"}]}\n")
    );
    assert_eq!(ask(&address, "GET", "/nothing").0, 404);
    assert_eq!(ask(&address, "POST", "/metrics").0, 405);
    let (status, _, body) = ask(&address, "HEAD", "/metrics");
    assert_eq!((status, body.as_str()), (200, ""));
    // A message that is no HTTP ends its connection, and no other.
    let mut socket = TcpStream::connect(&address).unwrap();
    socket.write_all(&[0xff; 64]).unwrap();
    let _ = socket.read(&mut [0; 64]);
    assert_eq!(ask(&address, "GET", "/health").0, 200);
}

/// The system's limit for the length of files stands in for a disk that is full, and for one that has room again.
#[test]
fn a_full_disk_is_no_good_health() {
    let limit = "trap '' XFSZ; prlimit --pid $$ --fsize=11000000:unlimited;";
    let server = Alone::after(limit, &[&["--shards", "1"], HTTP].concat());
    let address = http_of(&server);
    let health = || {
        let (status, _, body) = ask(&address, "GET", "/health");
        (status, body)
    };
    assert_eq!(health().0, 200);
    let mut driver = driver(&server);
    driver.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").unwrap();
    let insert = "INSERT INTO t VALUES ($1, repeat('x', 100000))";
    let full = (0..).find_map(|a: i32| driver.execute(insert, &[&a]).err()).unwrap();
    assert_eq!(full.code().map(|code| code.code()), Some("53100"), "{full}");
    let (status, body) = health();
    assert_eq!(status, 503, "{body}");
    assert!(
        body.contains("\"status\":\"failed\",\"parts\"") && body.contains("writes are refused (53100)"),
        "{body}"
    );
    assert_eq!(samples(&address)["weir_shard_disk_full{shard=\"0\"}"], 1.0);
    let more =
        Command::new("prlimit").args(["--pid", &server.pid().to_string(), "--fsize=unlimited"]).status();
    assert!(more.unwrap().success());
    until("it has room", || health().0 == 200);
    assert_eq!(samples(&address)["weir_shard_disk_full{shard=\"0\"}"], 0.0);
    driver.execute(insert, &[&-1]).unwrap();
}

#[test]
fn strangers_are_not_answered_unless_that_is_said() {
    for (arguments, expected) in [
        (&["--http", "0.0.0.0:0"][..], "--http: 0.0.0.0:0 can be reached from other machines"),
        (&["--log-level", "loud"], "invalid value 'loud' for '--log-level <LEVEL>'"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).arg("serve").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

fn value(driver: &mut Driver, text: &str) -> String {
    let row = driver.query_one(text, &[]).unwrap_or_else(|why| panic!("{text}: {why:?}"));
    let values = (0..row.len()).map(|at| row.get::<_, Option<String>>(at).unwrap_or("NULL".to_owned()));
    values.collect::<Vec<_>>().join("|")
}

#[test]
fn sessions_see_each_other() {
    let server = Alone::with(&["--shards", "2"]);
    let mut watcher = driver(&server);
    let mut holder = driver(&server);
    let waiter = format!("{} application_name=waits", server.url());
    watcher.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0)").unwrap();
    holder.batch_execute("BEGIN; UPDATE t SET b = 1 WHERE a = 1").unwrap();
    let other = std::thread::spawn(move || {
        let mut waiter = Driver::connect(&waiter, NoTls).unwrap();
        let waited = waiter.batch_execute("BEGIN; UPDATE t SET b = 2 WHERE a = 1");
        waited.unwrap_err().code().cloned()
    });
    let of_waiter = "SELECT state, wait_event_type, query, (xact_start <= query_start)::text, client_addr::text FROM pg_stat_activity
        WHERE application_name = 'waits'";
    let expected = "active|Lock|UPDATE t SET b = 2 WHERE a = 1|true|127.0.0.1";
    until_locked(&mut watcher, 1);
    assert_eq!(value(&mut watcher, of_waiter), expected);
    let states = "SELECT string_agg(state, ',' ORDER BY pid) FROM pg_stat_activity";
    assert_eq!(value(&mut watcher, states), "active,idle in transaction,active");
    let locks = "SELECT string_agg(concat(a.application_name, l.mode, l.granted), ',' ORDER BY l.mode)
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid";
    assert_eq!(value(&mut watcher, locks), "ExclusiveLockt,waitsShareLockf");
    let me = "SELECT state FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert_eq!(value(&mut watcher, me), "active");
    // Of rows of a query; and one of which there is none.
    let cancel =
        "SELECT pid > 0 AS p, pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'waits'";
    let row = watcher.query_one(cancel, &[]).unwrap();
    assert_eq!((row.columns()[1].name(), row.get::<_, bool>(1)), ("pg_cancel_backend", true));
    assert_eq!(other.join().unwrap(), Some(postgres::error::SqlState::QUERY_CANCELED));
    assert!(!watcher.query_one("SELECT pg_cancel_backend(999999)", &[]).unwrap().get::<_, bool>(0));
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'";
    assert!(watcher.query_one(end, &[]).unwrap().get::<_, bool>(0));
    let sessions = "SELECT count(*)::text FROM pg_stat_activity";
    until("the others have ended", || value(&mut watcher, sessions) == "1");
    assert!(holder.batch_execute("SELECT 1").is_err());
    // Its locks are free.
    watcher.batch_execute("UPDATE t SET b = 3 WHERE a = 1").unwrap();
    let wrong = watcher.batch_execute("SELECT 1 WHERE pg_cancel_backend(1)").unwrap_err();
    assert_eq!(wrong.code(), Some(&postgres::error::SqlState::FEATURE_NOT_SUPPORTED));
}

#[test]
fn statements_are_counted_without_their_constants() {
    let server = Alone::with(HTTP);
    let mut driver = driver(&server);
    driver.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").unwrap();
    for a in 0..4 {
        driver.batch_execute(&format!("INSERT INTO t VALUES ({a}, 7)")).unwrap();
        driver.query("SELECT b FROM t WHERE a < $1", &[&a]).unwrap();
    }
    driver.batch_execute("BEGIN; DELETE FROM t; ROLLBACK").unwrap();
    let of = |text: &str| {
        format!("SELECT calls::text, rows::text, (min_exec_time <= mean_exec_time AND mean_exec_time <= max_exec_time AND max_exec_time > 0)::text
            FROM pg_stat_statements WHERE query = '{text}'")
    };
    assert_eq!(value(&mut driver, &of("INSERT INTO t VALUES ($1, $2)")), "4|4|true");
    assert_eq!(value(&mut driver, &of("SELECT b FROM t WHERE a < $1")), "4|6|true");
    let database =
        "SELECT datname, numbackends::text, tup_inserted::text, tup_deleted::text, (xact_commit > 8)::text,
        xact_rollback::text, deadlocks::text FROM pg_stat_database";
    assert_eq!(value(&mut driver, database), "weir|1|4|4|true|1|0");
}

#[test]
fn the_log_is_json_and_has_slow_statements() {
    let server = Alone::with(&["--log-format", "json", "--log-slow", "0", "--log-level", "debug"]);
    let mut driver = driver(&server);
    driver.batch_execute("SELECT 41 + 1").unwrap();
    driver.batch_execute("SELECT nothing").unwrap_err();
    driver.batch_execute("SET log_min_duration_statement = -1; SELECT 2 + 2").unwrap();
    drop(driver);
    let said = || server.said();
    until("the connection ends", || said().contains("connection ended"));
    let said = said();
    for line in said.lines() {
        assert!(line.starts_with("{\"timestamp\":") && line.ends_with('}'), "{line}");
    }
    let one =
        |words: &[&str]| said.lines().filter(|line| words.iter().all(|word| line.contains(word))).count();
    assert_eq!(
        one(&["slow statement", "\"statement\":\"SELECT 41 + 1\"", "\"state\":\"00000\"", "duration_ms"]),
        1,
        "{said}"
    );
    assert_eq!(one(&["DEBUG", "\"state\":\"42703\""]), 1, "{said}");
    assert_eq!(one(&["SELECT 2 + 2"]), 0, "{said}");
    assert_eq!(one(&["recovered", "\"shard\":0"]), 1, "{said}");
}

/// Two transactions that overlap and name one row contend for it; one that runs by itself does not (docs/internals/cat.md).
#[test]
fn contention_is_measured_by_overlapping_transactions() {
    let server = Alone::with(&[&["--shards", "2"], HTTP].concat());
    let address = http_of(&server);
    let (mut one, mut other) = (driver(&server), driver(&server));
    one.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").unwrap();
    one.batch_execute("INSERT INTO t VALUES (1, 0), (2, 0)").unwrap();
    one.batch_execute("BEGIN; UPDATE t SET b = 1 WHERE a = 1").unwrap();
    other.query("SELECT b FROM t WHERE a = 1", &[]).unwrap();
    other.execute("UPDATE t SET b = 2 WHERE a = 2", &[]).unwrap();
    one.batch_execute("COMMIT").unwrap();
    let found = samples(&address);
    let of = |name: &str| *found.get(name).unwrap_or_else(|| panic!("{name} is not in {found:#?}"));
    assert_eq!(of("weir_contention_level{mechanism=\"interactive\",name=\"transaction\"}"), 1.0);
    assert_eq!(of("weir_contention_level{mechanism=\"read\",name=\"select\"}"), 1.0);
    assert_eq!(of("weir_contention_level{mechanism=\"merge\",name=\"update\"}"), 0.0);
    assert!((of("weir_table_contention_level{table=\"t\"}") - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(of("weir_hot_key_accesses{table=\"t\",key=\"1\"}"), 2.0);
    assert_eq!(of("weir_recorded_abort_rate{mechanism=\"interactive\",name=\"transaction\"}"), 0.0);
    // Statements that need values of the session are not recorded, and run.
    one.batch_execute("CREATE SEQUENCE s; SELECT nextval('s')").unwrap();
    one.execute("INSERT INTO t VALUES ($1 + currval('s'), 0)", &[&9_i64]).unwrap();
    for query in ["SELECT b FROM t WHERE a = currval('s')", "SELECT currval('s')"] {
        one.query(query, &[]).unwrap();
    }
    one.execute("UPDATE t SET b = 3 WHERE a = currval('s')", &[]).unwrap();
    one.execute("DELETE FROM t WHERE a = $1 + lastval()", &[&9_i64]).unwrap();
}

#[test]
fn contention_is_shown_on_a_page() {
    let server = Alone::with(HTTP);
    let address = http_of(&server);
    let (status, head, _) = ask(&address, "GET", "/");
    assert!(status == 200 && head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'; connect-src 'self'"), "{head}");
    let mut browser = Browser::start();
    let shown = |browser: &mut Browser, words: &str| {
        // It reads the metrics every two seconds.
        let text = format!(
            "new Promise(done => {{ const look = () => document.body.innerText.includes({words:?}) \
             ? done(document.body.innerText) : requestAnimationFrame(look); look(); }})"
        );
        browser.evaluate(&text).as_str().expect("a text").to_owned()
    };
    browser.visit(&format!("http://{address}/"));
    assert!(shown(&mut browser, "No transaction was recorded yet.").contains("No row was recorded yet."));
    let (mut one, mut other) = (driver(&server), driver(&server));
    // A key that would be a script, if it were not text.
    one.batch_execute("CREATE TABLE t (a text PRIMARY KEY, b int)").unwrap();
    one.batch_execute("INSERT INTO t VALUES ('<script>throw 1</script>\\\"', 0), ('2', 0)").unwrap();
    one.batch_execute("BEGIN; UPDATE t SET b = 1 WHERE a = '<script>throw 1</script>\\\"'").unwrap();
    other.query("SELECT b FROM t WHERE a = '<script>throw 1</script>\\\"'", &[]).unwrap();
    other.execute("UPDATE t SET b = 2 WHERE a = '2'", &[]).unwrap();
    one.batch_execute("COMMIT").unwrap();
    let text = shown(&mut browser, "<script>throw 1</script>");
    for words in
        ["transaction\tinteractive", "select\tread", "update\tmerge", "(1.000)", "(0.0%)", "t\t0.667\t2"]
    {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert!(text.contains("<script>throw 1</script>\\\"\t2"), "{text}");
    assert_eq!(browser.complaints, Vec::<String>::new());
    drop(server);
    assert!(shown(&mut browser, "The server does not answer").contains("select\tread"));
    // What another server says is not compared with what this one has said.
    let another =
        "take({ at: performance.now(), figures: parse('weir_commits_total 1\\n') }); show(); sums.length";
    assert_eq!(browser.evaluate(another), 1);
    assert!(shown(&mut browser, "No transaction was recorded yet.").contains("transactions a second"));
}
