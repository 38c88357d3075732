//! Sessions that somebody else ends, by pg_terminate_backend or by ending the server, are told what PostgreSQL tells them; what they
//! held is free.

mod nesting;
mod spinning;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::alone::Alone;
use crate::eventually::{until, until_locked};
use crate::wire::{Wire, message, query, startup};
use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server as Postgres;

const TABLE: &str = "CREATE TABLE t (a int PRIMARY KEY, b int)";

fn address(server: &Alone) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

fn wire(server: &Alone) -> Wire {
    Wire::tcp(address(server), "ann", "weir")
}

/// The number that the server calls the session by.
fn pid(wire: &Wire) -> i32 {
    i32::from_be_bytes(wire.key[..4].try_into().unwrap())
}

/// Messages received up to the end.
fn last_words(wire: &mut Wire) -> String {
    let mut words = wire.hear(1);
    // A session that waits for a lock may get it from one that ends sooner, and is told of its own end next.
    if words.last().is_some_and(|word| word.starts_with("Z ")) {
        words = wire.hear(1);
    }
    // PostgreSQL says of a query what it gives before it runs it.
    words.retain(|word| !word.starts_with("T "));
    // And where it was.
    words.join(", ").split(" (while").next().unwrap_or_default().trim_end_matches(", the end").to_owned()
}

fn wait_for(driver: &mut Driver, query: &str) {
    until(query, || driver.query_one(query, &[]).unwrap().get::<_, i64>(0) != 0);
}

/// An idle session, one in a transaction, one that waits for a row, one that waits for a lock of a session, and one that waits to define.
fn five(connect: &dyn Fn() -> Wire, watch: &mut Driver) -> Vec<Wire> {
    watch.batch_execute("INSERT INTO t VALUES (1, 0)").unwrap();
    let mut all: Vec<Wire> = (0..5).map(|_| connect()).collect();
    let [_, open, waits, locks, defines] = &mut all[..] else { unreachable!("there are five") };
    open.send(&[query("BEGIN; UPDATE t SET b = 1; SELECT pg_advisory_lock(7)")]);
    open.hear(1);
    waits.send(&[query("UPDATE t SET b = 2")]);
    locks.send(&[query("SELECT pg_advisory_lock(7)")]);
    until_locked(watch, 2);
    defines.send(&[query("ALTER TABLE t ADD COLUMN c int")]);
    until_locked(watch, 3);
    all
}

#[test]
fn who_is_ended_is_told_and_holds_nothing() {
    let postgres = Postgres::start().unwrap();
    let weir = Alone::start(2);
    let folder = postgres.connection_string();
    let folder = folder.split_whitespace().find_map(|word| word.strip_prefix("host=")).unwrap().to_owned();
    let servers: [(Box<dyn Fn() -> Wire>, String); 2] = [
        (
            Box::new(move || Wire::unix(Path::new(&folder), "postgres", "postgres")),
            postgres.connection_string(),
        ),
        (Box::new(|| wire(&weir)), weir.url()),
    ];
    for (connect, url) in &servers {
        let mut watch = Driver::connect(url, NoTls).unwrap();
        watch.batch_execute(TABLE).unwrap();
        let mut all = five(connect, &mut watch);
        // Those that wait first, so that nobody gets what the others hold.
        for one in all.iter_mut().rev() {
            let end = format!("SELECT pg_terminate_backend({})", pid(one));
            let ended = watch.query_one(&end, &[]).unwrap();
            assert!(ended.get::<_, bool>(0));
            let words = last_words(one);
            assert_eq!(words, "E 57P01 terminating connection due to administrator command");
        }
        watch.batch_execute("SET statement_timeout = '20s'").unwrap();
        watch
            .batch_execute("UPDATE t SET b = 3; SELECT pg_advisory_lock(7); ALTER TABLE t ADD COLUMN d int")
            .unwrap();
        assert_eq!(watch.query_one("SELECT b FROM t", &[]).unwrap().get::<_, i32>(0), 3);
    }
}

/// Waits until the session is there whose statement begins so, or until none is.
fn wait_for_sessions(watch: &mut Driver, statement: &str, are_there: bool) {
    let which = if are_there { "count(*)" } else { "(count(*) = 0)::int::bigint" };
    let query = format!("query LIKE '{statement}%' AND state <> 'idle' AND pid <> pg_backend_pid()");
    wait_for(watch, &format!("SELECT {which} FROM pg_stat_activity WHERE {query}"));
}

/// One waits for a row, one is in the middle of a COPY.
#[test]
fn who_is_gone_writes_nothing() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let [mut watch, mut holder] = [weir.driver(), weir.driver()];
        watch.batch_execute(TABLE).unwrap();
        watch.batch_execute("INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)").unwrap();
        holder.batch_execute("BEGIN; UPDATE t SET b = 1").unwrap();
        for statement in ["UPDATE t SET b = 9", "UPDATE t SET b = 9 WHERE a = 2"] {
            let mut waits = wire(&weir);
            waits.send(&[query(statement)]);
            wait_for_sessions(&mut watch, statement, true);
            drop(waits);
            wait_for_sessions(&mut watch, statement, false);
        }
        holder.batch_execute("COMMIT").unwrap();
        let mut copies = wire(&weir);
        let row = |at: i32| format!("{at}\t7\n");
        let rows: String = (4..10_000).map(row).collect();
        copies.send(&[query("COPY t FROM STDIN"), message(b'd', &[rows.as_bytes()])]);
        wait_for_sessions(&mut watch, "COPY t", true);
        drop(copies);
        wait_for_sessions(&mut watch, "COPY t", false);
        // Its locks are free, and nothing of it is there.
        watch
            .batch_execute("SET lock_timeout = 1; INSERT INTO t VALUES (4, 1), (5, 1), (6, 1), (9999, 1)")
            .unwrap();
        let found = watch.query_one("SELECT count(*), sum(b) FROM t", &[]).unwrap();
        assert_eq!((found.get::<_, i64>(0), found.get::<_, i64>(1)), (7, 7), "{shards} shards");
    }
}

/// A driver that says goodbye and reads on takes a last message for an error.
#[test]
fn who_is_gone_is_told_nothing() {
    let weir = Alone::start(1);
    let mut computes = wire(&weir);
    computes.send(&[query("SELECT count(*) FROM generate_series(1, 1000000000000)")]);
    let words = computes.hear_the_end();
    assert!(!words.iter().any(|word| word.starts_with("E ")), "{words:?}");
}

#[test]
fn a_server_that_is_told_to_end_tells_its_sessions() {
    let mut weir = Alone::start(2);
    let mut watch = weir.driver();
    watch.batch_execute(TABLE).unwrap();
    let mut all = five(&|| wire(&weir), &mut watch);
    assert!(Command::new("kill").arg(weir.pid().to_string()).status().unwrap().success());
    for one in &mut all {
        let words = last_words(one);
        assert_eq!(words, "E 57P01 terminating connection due to administrator command");
    }
    let told = watch.batch_execute("SELECT 1").unwrap_err();
    assert!(told.code().is_none_or(|code| code.code() == "57P01"), "{told}");
    assert_eq!(weir.has_ended().code(), Some(0));
    weir.start_again();
    weir.wait();
    assert_eq!(weir.driver().query_one("SELECT b FROM t", &[]).unwrap().get::<_, i32>(0), 0);
}

/// Bytes that a decoder could stumble over. Before login, where a password is asked for and where none is; and after it.
#[test]
fn bytes_that_are_no_message_end_one_connection_and_not_the_process() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("password");
    std::fs::write(&file, "sesame").unwrap();
    let hello = startup(&[("user", "ann"), ("database", "weir")]);
    let bodies: [&[u8]; 12] = [
        b"",
        b"\0",
        b"x",
        b"x\0",
        b"SCRAM-SHA-256\0",
        b"SCRAM-SHA-256\0\0\0\0\x7f",
        b"SCRAM-SHA-256\0\xff\xff\xff\xff",
        b"SCRAM-SHA-256\0\0\0\0\x05n,,r=",
        b"SCRAM-SHA-256\0\x80\0\0\0",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\x01\x7f\xff\xff\xff",
        b"S\xff\xff\0\0\0",
    ];
    for arguments in [&["--password-file", file.to_str().unwrap()][..], &[]] {
        let mut server = Alone::with(arguments);
        let address = address(&server);
        for kind in *b"pQPBDCEHSFXdcf\0\x01\xff" {
            for body in bodies {
                let whole = message(kind, &[body]);
                let shorter = [&whole[..1], &[0, 0, 0, 3]].concat();
                let longer = [&whole[..1], &[0xff; 4], body].concat();
                for bytes in [whole, shorter, longer] {
                    for before in [&hello[..], b""] {
                        let mut wire = Wire::outside(address);
                        wire.send(&[before.to_vec(), bytes.clone()]);
                        wire.hear_the_end();
                    }
                }
            }
        }
        let url = format!("{} password=sesame", server.url());
        let mut driver = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        assert_eq!(driver.query_one("SELECT 1", &[]).unwrap().get::<_, i32>(0), 1);
        if !arguments.is_empty() {
            let wrong = url.replace("sesame", "password").replace("postgres", "eve");
            let error = postgres::Client::connect(&wrong, postgres::NoTls).map(drop).unwrap_err();
            let error = error.as_db_error().unwrap();
            assert_eq!(error.message(), "password authentication failed for user \"eve\"");
            assert_eq!(error.code().code(), "28P01");
            let said = server.said();
            let logged = said.lines().find(|line| line.contains("28P01")).unwrap();
            assert!(logged.contains("eve") && logged.contains("127.0.0.1:"), "{logged}");
        }
        assert!(!server.said().contains("panicked"), "{}", server.said());
        server.kill();
    }
}
