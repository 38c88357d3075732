//! Statements that compute for ever, wherever they do, and every way to end them: nothing stays of them, and the server goes on.

use std::process::Command;

use super::{address, pid, wire};
use crate::alone::Alone;
use crate::endless::{TABLES, cancel, check_unharmed, state, until_heard};
use crate::wire::{Wire, query};

const SPINNING: [&str; 17] = [
    "DO $$ DECLARE i int := 0; BEGIN WHILE true LOOP i := (i + 1) % 7; END LOOP; END $$",
    "DO $$ BEGIN LOOP NULL; END LOOP; END $$",
    "DO $$ BEGIN FOR i IN 1..2000000000 LOOP END LOOP; END $$",
    "CALL spin()",
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "SELECT count(*) FROM generate_series(0::numeric, 'NaN', 0.0000001)",
    "SELECT count(*) FROM big a, big b, big c",
    "SELECT count(*) FROM big a JOIN big b USING (same) JOIN big c USING (same) WHERE a.id + b.id < c.v",
    "SELECT count(*) FROM (SELECT sum(g) OVER (ORDER BY g ROWS 1000000 PRECEDING EXCLUDE CURRENT ROW) FROM generate_series(1, 300000) g) w",
    "WITH RECURSIVE r(n) AS (SELECT 1::bigint UNION ALL SELECT n + (SELECT count(*) FROM generate_series(1, 100000)) FROM r) SELECT max(n) FROM r",
    "SELECT count(regexp_replace(repeat('ab', 1000), '(a|b)+', g::text)) FROM generate_series(1, 1000000000) g",
    "SELECT repeat('a', 1000) || 'b' || repeat('a', 1001) ~ '^(a+)(a+)(a+)(a+)(a+)b\\1\\2\\3\\4\\5$'",
    "SELECT count(length(lpad(g::text, 100000)) + length(repeat('x', 100000))) FROM generate_series(1, 1000000000) g",
    "SELECT a.same, b.same, count(DISTINCT a.id), max(c.id) FROM big a, big b, big c GROUP BY a.same, b.same ORDER BY 3",
    "COPY (SELECT count(*) FROM big a, big b, big c) TO STDOUT",
    "INSERT INTO kept SELECT a.id FROM big a, big b, big c WHERE a.id + b.id + c.id < 0",
    "UPDATE big SET v = (SELECT count(*) FROM generate_series(1, 1000000000000) g WHERE g < big.id)",
];

fn check(shards: u16) {
    let weir = Alone::start(shards);
    weir.driver().batch_execute(TABLES).unwrap();
    for text in SPINNING {
        let mut session = wire(&weir);
        session.send(&[query("SET statement_timeout = '50ms'")]);
        session.hear(1);
        session.send(&[query(text)]);
        assert_eq!(state(&mut session), "57014", "statement_timeout: {text}");
        session.send(&[query("SET statement_timeout = 0")]);
        session.hear(1);
        check_unharmed(&mut weir.driver(), text);

        session.send(&[query("BEGIN"), query("INSERT INTO kept VALUES (1)")]);
        session.hear(2);
        session.send(&[query(text)]);
        let key = session.key.clone();
        let said = until_heard(&mut session, || cancel(address(&weir), &key));
        assert_eq!(said, "57014", "a cancel request: {text}");
        session.send(&[query("ROLLBACK"), query("SELECT 1")]);
        session.hear(2);
        check_unharmed(&mut weir.driver(), text);

        // A session that goes leaves nothing behind: the next one comes to run.
        session.send(&[query(text)]);
        drop(session);
        check_unharmed(&mut weir.driver(), text);
    }
}

#[test]
fn what_spins_is_ended_on_one_shard() {
    check(1);
}

#[test]
fn what_spins_is_ended_on_several_shards() {
    check(3);
}

/// More sessions compute than there are threads for them: others come in, are answered, and end them.
#[test]
fn what_spins_leaves_room_for_others() {
    let weir = Alone::start(1);
    weir.driver().batch_execute(TABLES).unwrap();
    let mut all: Vec<Wire> = (0..12).map(|_| wire(&weir)).collect();
    for (at, session) in all.iter_mut().enumerate() {
        session.send(&[query(SPINNING[4 + at % 2])]);
    }
    for session in &mut all {
        let mut other = wire(&weir);
        other.send(&[query("SELECT 1")]);
        assert!(other.hear(1).iter().any(|said| said.starts_with("D ")), "others are answered");
        let key = session.key.clone();
        assert_eq!(until_heard(session, || cancel(address(&weir), &key)), "57014");
    }
    check_unharmed(&mut weir.driver(), "twelve at once");
}

/// Those who cancel by a number ask no shard for it.
#[test]
fn what_spins_is_ended_by_others_and_with_the_server() {
    let mut weir = Alone::start(2);
    weir.driver().batch_execute(TABLES).unwrap();
    for text in ["CALL spin()", "SELECT count(*) FROM big a, big b, big c"] {
        for (function, expected) in [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57P01")] {
            let mut session = wire(&weir);
            session.send(&[query(text)]);
            let end = query(&format!("SELECT {function}({})", pid(&session)));
            let said = until_heard(&mut session, || {
                let mut other = wire(&weir);
                other.send(std::slice::from_ref(&end));
                other.hear(1);
            });
            assert_eq!(said, expected, "{function}: {text}");
            check_unharmed(&mut weir.driver(), text);
        }
    }
    let mut all: Vec<Wire> = (0..8).map(|_| wire(&weir)).collect();
    for (at, session) in all.iter_mut().enumerate() {
        session.send(&[query(SPINNING[at])]);
    }
    assert!(Command::new("kill").arg(weir.pid().to_string()).status().unwrap().success());
    for session in &mut all {
        assert_eq!(state(session), "57P01");
    }
    assert_eq!(weir.has_ended().code(), Some(0));
    weir.start_again();
    weir.wait();
    check_unharmed(&mut weir.driver(), "SIGTERM");
}

/// Each of these would take more than the machine has.
const LARGE: [&str; 12] = [
    "WITH RECURSIVE r(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r",
    "SELECT array_agg(g) FROM generate_series(1, 10000000000) g",
    "SELECT string_agg(g::text, ',') FROM generate_series(1, 10000000000) g",
    "SELECT jsonb_agg(g) FROM generate_series(1, 10000000000) g",
    "SELECT * FROM generate_series(0::numeric, 'NaN', 10)",
    "SELECT * FROM generate_series(1, 10000000000)",
    "SELECT length(repeat('x', 900000000))",
    "SELECT length(lpad('x', 900000000))",
    "SELECT length(replace(repeat('x', 1000000), 'x', repeat('y', 1000)))",
    "SELECT max(g) OVER (ORDER BY g) FROM generate_series(1, 10000000000) g LIMIT 1",
    "SELECT g FROM generate_series(1, 10000000000) g ORDER BY -g",
    "INSERT INTO kept SELECT g FROM generate_series(1, 10000000000) g",
];

/// This one would take more than the disk has: what a long statement sorts is in files.
const SORTED: &str = "SELECT a.id FROM big a, big b, big c ORDER BY a.id + b.id + c.id";

/// Peak memory of the process.
fn most_resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// Each statement alone may take almost all of it.
#[test]
fn statements_at_once_take_no_more_than_all_of_them_may() {
    let weir = Alone::with(&["--shards", "1", "--memory", "64MiB", "--statement-memory", "48MiB"]);
    weir.driver().batch_execute(TABLES).unwrap();
    let before = most_resident_bytes(weir.pid());
    let mut all: Vec<Wire> = (0..6).map(|_| wire(&weir)).collect();
    for (at, session) in all.iter_mut().enumerate() {
        session.send(&[query(LARGE[1 + at % 3])]);
    }
    for session in &mut all {
        assert_eq!(state(session), "53200");
    }
    check_unharmed(&mut weir.driver(), "six at once");
    let taken = most_resident_bytes(weir.pid()) - before;
    println!("{} MiB", taken >> 20);
    // A growing value is there twice for a moment, and the allocator keeps some freed memory; without the common bound these six
    // would take 288 MiB, and that twice.
    assert!(taken < 288 << 20, "{taken} bytes");
}

#[test]
fn what_takes_too_much_memory_is_ended_and_the_server_goes_on() {
    for shards in ["1", "3"] {
        let weir = Alone::with(&["--shards", shards, "--statement-memory", "24MiB"]);
        weir.driver().batch_execute(TABLES).unwrap();
        let mut session = wire(&weir);
        for text in LARGE {
            session.send(&[query(text)]);
            assert_eq!(state(&mut session), "53200", "{shards}: {text}");
            check_unharmed(&mut weir.driver(), text);
        }
        session.send(&[query("SET temp_file_limit = '32MB'")]);
        session.hear(1);
        session.send(&[query(SORTED)]);
        assert_eq!(state(&mut session), if shards == "1" { "53400" } else { "53200" }, "{shards}");
        check_unharmed(&mut weir.driver(), SORTED);
        // No value has more than PostgreSQL's.
        session.send(&[query("SELECT length(repeat('x', 1073741824))")]);
        assert_eq!(state(&mut session), "54000");
    }
}
