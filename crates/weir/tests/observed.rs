//! What a server tells of itself: figures and health by HTTP, its log, and views.

mod alone;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use alone::Alone;
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
    loop {
        let said = server.said();
        if let Some(address) = said.split("HTTP on ").nth(1).and_then(|rest| rest.split_once(": /metrics")) {
            return address.0.to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
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
    assert_eq!(ask(&address, "GET", "/").0, 404);
    assert_eq!(ask(&address, "POST", "/metrics").0, 405);
    let (status, _, body) = ask(&address, "HEAD", "/metrics");
    assert_eq!((status, body.as_str()), (200, ""));
    // What is no HTTP at all ends its connection, and nobody else's.
    let mut socket = TcpStream::connect(&address).unwrap();
    socket.write_all(&[0xff; 64]).unwrap();
    let _ = socket.read(&mut [0; 64]);
    assert_eq!(ask(&address, "GET", "/health").0, 200);
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
