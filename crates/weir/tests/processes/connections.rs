//! Connections of PostgreSQL's protocol: many, too many, with garbage, and cancel requests for other connections.
//!
//! `WEIR_WIRE_MESSAGES=N` says so many damaged messages (6,000 without), `WEIR_SEED=N` others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::alone::Alone;
use crate::bank::Bank;
use crate::eventually::until;
use crate::mutated::{Counts, converse};
use crate::wire::{Wire, query};
use postgres::NoTls;
use postgres::error::SqlState;

/// The answer to these bytes and nothing more: what is said until the server hangs up.
fn answer_to(bank: &Bank, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(bank.server.address()).unwrap();
    // It may have hung up already.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let mut said = Vec::new();
    let _ = socket.read_to_end(&mut said);
    said
}

#[test]
fn a_statement_is_cancelled_from_another_connection() {
    let bank = Bank::open(|_| ());
    let (mut holder, mut waiter) = (bank.driver(), bank.driver());
    holder.simple_query("BEGIN; UPDATE account SET balance = 1 WHERE id = 1").unwrap();
    for begins in [false, true] {
        if begins {
            waiter.simple_query("BEGIN").unwrap();
        }
        let token = waiter.cancel_token();
        let (ended, end) = std::sync::mpsc::channel();
        // It is asked for again and again: the first may come before the statement does.
        let asks = std::thread::spawn(move || {
            while end.recv_timeout(Duration::from_millis(50)).is_err() {
                token.cancel_query(NoTls).unwrap();
            }
        });
        let text = "UPDATE account SET balance = balance + 5 WHERE id = 1";
        let error = waiter.execute(text, &[]).unwrap_err();
        ended.send(()).unwrap();
        asks.join().unwrap();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error:?}");
        assert!(error.as_db_error().unwrap().message().contains("user request"), "{error:?}");
        // A request that comes late may meet the next statement, as with PostgreSQL.
        let last = if begins { "ROLLBACK" } else { "SELECT 1" };
        assert!((0..10).any(|_| waiter.simple_query(last).is_ok()));
    }
    // Without the secret nothing is cancelled.
    let mut stranger = Wire::tcp(bank.server.address(), "ann", "weir");
    let mut wrong = [&16_i32.to_be_bytes()[..], &80_877_102_i32.to_be_bytes(), &stranger.key].concat();
    *wrong.last_mut().unwrap() ^= 1;
    stranger.send(&[query("UPDATE account SET balance = balance + 7 WHERE id = 1")]);
    assert!(answer_to(&bank, &wrong).is_empty(), "nobody is told");
    holder.simple_query("COMMIT").unwrap();
    assert_eq!(stranger.hear(1), ["C UPDATE 1", "Z I"]);
    let row = holder.query_one("SELECT balance::float8 FROM account WHERE id = 1", &[]).unwrap();
    assert_eq!(row.get::<_, f64>(0), 8.0);
}

#[test]
fn rubbish_ends_its_own_connection_and_no_other() {
    let bank = Bank::open(|_| ());
    let mut driver = bank.driver();
    let startup = {
        let body = [&196_608_i32.to_be_bytes()[..], b"user\0ann\0database\0weir\0\0"].concat();
        [&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat()
    };
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0; 64],
        &[0xff; 64],
        &[0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f],
        &[0, 0, 0, 9, 0, 3, 0, 0, 0],
        &startup[..startup.len() / 2],
        // A kind of message that there is not, one that is longer than it says, one of a huge length.
        &[&startup[..], b"\x01\0\0\0\x04"].concat(),
        &[&startup[..], b"P\0\0\0\x06a\0"].concat(),
        &[&startup[..], b"B\0\0\0\x0c\0\0\x7f\xff\x7f\xff\0\0"].concat(),
        &[&startup[..], b"Q\x7f\xff\xff\xffSELECT"].concat(),
        &[&startup[..], b"d\0\0\0\x05x"].concat(),
        &[&startup[..], b"E\0\0\0\x09\0\xff\xff\xff\xff"].concat(),
        &[&startup[..], b"D\0\0\0\x06X\0"].concat(),
    ] {
        answer_to(&bank, bytes);
        assert_eq!(driver.query_one("SELECT 1", &[]).unwrap().get::<_, i32>(0), 1, "after {bytes:x?}");
    }
}

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Memory of the process, in MiB.
fn resident_mib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

/// Sessions that talk at the same time.
const TALKERS: usize = 4;

/// More than that no run leaves behind, however long it is.
const GROWTH_MIB_MAX: u64 = 64;

#[test]
fn damaged_messages_harm_neither_the_process_nor_another_connection() {
    let (most, seed) =
        (number_from("WEIR_WIRE_MESSAGES").unwrap_or(6_000), number_from("WEIR_SEED").unwrap_or(1));
    let place = tempfile::tempdir().unwrap();
    let password = place.path().join("password");
    std::fs::write(&password, "sesame").unwrap();
    let open = Alone::with(&["--durability", "relaxed"]);
    let closed = Alone::with(&["--password-file", password.to_str().unwrap()]);
    let [open_at, closed_at] =
        [&open, &closed].map(|server| std::net::SocketAddr::from(([127, 0, 0, 1], server.port())));
    let mut healthy = open.driver();
    healthy
        .batch_execute(
            "CREATE TABLE pair (a int PRIMARY KEY, b int); CREATE TABLE word (w text);
             CREATE TABLE own (a int PRIMARY KEY, b int);
             INSERT INTO pair SELECT g, g FROM generate_series(1, 5) g; INSERT INTO own VALUES (1, 0)",
        )
        .unwrap();
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (counts, wrong, at_first) = (Mutex::new(Counts::default()), Mutex::new(Vec::new()), Mutex::new(None));
    let talk = || {
        while wrong.lock().unwrap().is_empty() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_closed = number % 5 == 0;
            let address = if is_closed { closed_at } else { open_at };
            match converse(address, is_closed, seed, number) {
                Ok(seen) => *counts.lock().unwrap() += seen,
                Err(why) => wrong.lock().unwrap().push(why),
            }
            let said = counts.lock().unwrap().messages;
            if said >= most / 5 {
                at_first
                    .lock()
                    .unwrap()
                    .get_or_insert_with(|| [&open, &closed].map(|one| resident_mib(one.pid())));
            }
            if said >= most {
                break;
            }
        }
    };
    let worked = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut worked = 0;
            while !is_over.load(Ordering::Relaxed) {
                worked += healthy.execute("UPDATE own SET b = b + 1", &[]).unwrap() as i32;
                let seen: i32 = healthy.query_one("SELECT b FROM own", &[]).unwrap().get(0);
                assert_eq!(seen, worked);
            }
            worked
        });
        let talkers: Vec<_> = (0..TALKERS).map(|_| scope.spawn(talk)).collect();
        talkers.into_iter().for_each(|talker| talker.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        other.join().unwrap()
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for server in [&open, &closed] {
        let said = server.said();
        assert!(!said.contains("panicked") && !said.contains("bug"), "{said}");
    }
    let (counts, at_first) = (counts.into_inner().unwrap(), at_first.into_inner().unwrap().unwrap());
    let at_last = [&open, &closed].map(|one| resident_mib(one.pid()));
    println!(
        "{} messages, {} answers, {} errors, {} connections ended by the server; memory {at_first:?} MiB to \
         {at_last:?} MiB; {worked} writes of another connection",
        counts.messages, counts.answers, counts.errors, counts.fatal
    );
    assert!(worked > 0 && counts.errors > 0 && counts.fatal > 0);
    for (first, last) in at_first.into_iter().zip(at_last) {
        assert!(last <= first + GROWTH_MIB_MAX, "{first} MiB after a fifth, {last} MiB at the end");
    }
}

/// As many as a test may open: a socket on each side, of one process.
#[test]
fn thousands_of_idle_connections_are_carried_and_no_more_than_there_may_be() {
    let bank = Bank::open(|settings| settings.connections_max = 5_000);
    let mut idle: Vec<Wire> = Vec::new();
    for _ in 0..5_000 {
        idle.push(Wire::tcp(bank.server.address(), "ann", "weir"));
    }
    let refused = postgres::Client::connect(&bank.url(""), NoTls).map(drop).unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    for at in [0, 2_500, 4_999] {
        idle[at].send(&[query("SELECT count(*) FROM account")]);
        assert_eq!(idle[at].hear(1)[1], "D 9");
    }
    drop(idle);
    let others_may_come = || postgres::Client::connect(&bank.url(""), NoTls).is_ok();
    until("they have gone, so others may come", others_may_come);
}
