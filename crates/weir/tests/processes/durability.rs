//! Damage to a server's data by the disk or by people, as seen by clients of PostgreSQL's protocol.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::alone::Alone;
use crate::eventually::until;
use postgres::Client as Driver;

fn state_of(result: Result<u64, postgres::Error>) -> String {
    result.map_or_else(
        |error| error.code().map_or("none", |code| code.code()).to_owned(),
        |_| "00000".to_owned(),
    )
}

fn count(driver: &mut Driver) -> i64 {
    driver.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0)
}

fn segment(server: &Alone) -> PathBuf {
    server.data().join("shard-0/000001.log")
}

/// Number of its bytes that are not the room at its end.
fn length(path: &Path) -> u64 {
    fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes)).unwrap();
}

/// A server with ten rows, each written down by itself, that has been killed.
fn killed() -> Alone {
    let mut server = Alone::start(1);
    let mut driver = server.driver();
    driver.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, x text)").unwrap();
    for id in 0..10 {
        driver.execute("INSERT INTO t VALUES ($1, repeat('x', 500))", &[&id]).unwrap();
    }
    server.kill();
    server
}

#[test]
fn a_torn_end_is_cut_and_said() {
    let mut server = killed();
    // A batch may end with zeros.
    let end = length(&segment(&server)) + 100;
    write_at(&segment(&server), end, &[0x5a; 700]);
    server.start_again();
    server.wait();
    assert_eq!(count(&mut server.driver()), 10);
    assert!(server.said().contains("cut off the end of the log"), "{}", server.said());
}

#[test]
fn what_is_damaged_or_missing_is_refused_with_its_place_and_what_to_do() {
    let check = |damage: &dyn Fn(&Path), words: &[&str]| {
        let mut server = killed();
        damage(&segment(&server));
        server.start_again();
        assert_eq!(server.ends().code(), Some(1), "{}", server.said());
        for word in words {
            assert!(server.said().contains(word), "{word:?} is not said:\n{}", server.said());
        }
        assert!(!server.said().contains("panicked"), "{}", server.said());
    };
    let middle = |path: &Path| length(path) / 2;
    let named = [
        "000001.log: damaged at byte",
        "would forget what it has acknowledged",
        "Restore the file",
        "truncate",
    ];
    check(&|path| write_at(path, middle(path), &[0xff]), &named);
    check(&|path| write_at(path, middle(path), &[0; 2_000]), &named);
    check(
        &|path| write_at(path, 3, b"!"),
        &["000001.log: damaged at byte 0", "does not begin as a log does"],
    );
    check(
        &|path| OpenOptions::new().write(true).open(path).unwrap().set_len(middle(path)).unwrap(),
        &["000001.log: damaged at byte", "was cut short"],
    );
    check(&|path| fs::remove_file(path).unwrap(), &["shard-0: is missing", "has written a log there"]);
    check(&|path| fs::remove_dir_all(path.parent().unwrap()).unwrap(), &["shard-0: is missing"]);
}

/// Following the hint of the message restores everything that was written before the damage.
#[test]
fn a_log_that_is_cut_as_the_message_says_can_be_used_again() {
    let mut server = killed();
    let path = segment(&server);
    write_at(&path, length(&path) / 2, &[0xff]);
    server.start_again();
    assert_eq!(server.ends().code(), Some(1));
    let said = server.said();
    let size = said.split("truncate --size=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    for size in [&size, "%1M"] {
        let cut = Command::new("truncate").arg(format!("--size={size}")).arg(&path).status().unwrap();
        assert!(cut.success());
    }
    server.start_again();
    server.wait();
    let mut driver = server.driver();
    let left = count(&mut driver);
    assert!((1..10).contains(&left), "{left}");
    driver.execute("INSERT INTO t VALUES (100, 'new')", &[]).unwrap();
    server.kill_and_start_again();
    assert_eq!(count(&mut server.driver()), left + 1);
}

/// The system's limit for the length of files stands in for a disk that is full, and for one that has room again.
#[test]
fn with_a_full_disk_reads_go_on_and_writes_are_refused_until_there_is_room() {
    let limit = "trap '' XFSZ; prlimit --pid $$ --fsize=11000000:unlimited;";
    let mut server = Alone::after(limit, &["--shards", "2"]);
    let mut driver = server.driver();
    driver.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, x text)").unwrap();
    let insert = |driver: &mut Driver, id: i32| {
        driver.execute("INSERT INTO t VALUES ($1, repeat('x', 100000))", &[&id])
    };
    let mut other = server.driver();
    other.batch_execute("BEGIN; INSERT INTO t VALUES (-1, 'a'), (-2, 'b')").unwrap();
    let mut acknowledged = 0;
    let refused = loop {
        match insert(&mut driver, acknowledged) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    let told = refused.as_db_error().expect("the server says so");
    assert_eq!((told.code().code(), told.hint().is_some()), ("53100", true), "{told:?}");
    assert!(acknowledged > 20, "{acknowledged}");
    // Which shard was the first to be full is nobody's business: each refuses its own.
    let full =
        (0..8).map(|more| state_of(insert(&mut driver, 100_000 + more))).filter(|state| state == "53100");
    assert!(full.count() > 0);
    assert_eq!(state_of(driver.execute("UPDATE t SET x = 'y'", &[])), "53100");
    assert_eq!(state_of(driver.execute("DELETE FROM t", &[])), "53100");
    let seen = count(&mut driver);
    assert!(seen >= i64::from(acknowledged), "{seen} of {acknowledged}");
    // Transactions that were open then may be on shards with room.
    let committed = state_of(other.batch_execute("COMMIT").map(|()| 0)) == "00000";
    assert_eq!(count(&mut driver), seen + if committed { 2 } else { 0 });
    // A start finds the disk as full.
    server.kill_and_start_again();
    let mut driver = server.driver();
    let found = count(&mut driver);
    assert!(found >= i64::from(acknowledged), "{found} of {acknowledged}");
    assert_eq!(state_of(driver.execute("DELETE FROM t", &[])), "53100");
    // And now it has room.
    let more =
        Command::new("prlimit").args(["--pid", &server.pid().to_string(), "--fsize=unlimited"]).status();
    assert!(more.unwrap().success());
    let mut id = 200_000;
    until("an insert has room", || state_of(insert(&mut driver, id)) != "53100");
    let delete = "DELETE FROM t WHERE id < 100";
    until("a delete has room", || state_of(driver.execute(delete, &[])) != "53100");
    id += 1;
    insert(&mut driver, id).unwrap();
    let left = count(&mut driver);
    server.kill_and_start_again();
    assert_eq!(count(&mut server.driver()), left);
}

/// One statement may have more to write down than there is room for: nobody is told that it has happened until there is, or it has not.
#[test]
fn what_a_full_disk_has_no_room_for_waits_for_it() {
    let limit = |server: &Alone, bytes: &str| {
        let arguments = ["--pid".to_owned(), server.pid().to_string(), format!("--fsize={bytes}")];
        assert!(Command::new("prlimit").args(arguments).status().unwrap().success());
    };
    for makes_room in [true, false] {
        let mut server = Alone::after("trap '' XFSZ;", &["--shards", "1"]);
        limit(&server, "11000000:unlimited");
        let mut driver = server.driver();
        let tables =
            "CREATE TABLE t (id integer PRIMARY KEY, x text); CREATE TABLE other (id integer PRIMARY KEY)";
        driver.batch_execute(tables).unwrap();
        driver.batch_execute("INSERT INTO t VALUES (0, 'there'); INSERT INTO other VALUES (0)").unwrap();
        let mut large = server.driver();
        let insert = "INSERT INTO t SELECT i, repeat('x', 100000) FROM generate_series(1, 300) i";
        let waiting = std::thread::spawn(move || large.batch_execute(insert).map(|()| 0));
        until("the disk is full", || server.said().contains("no room for the log"));
        let write = "INSERT INTO other VALUES (1)";
        assert_eq!(state_of(driver.execute(write, &[])), "53100");
        assert_eq!(driver.query_one("SELECT x FROM t WHERE id = 0", &[]).unwrap().get::<_, &str>(0), "there");
        assert!(!waiting.is_finished());
        if makes_room {
            limit(&server, "unlimited");
            assert_eq!(state_of(waiting.join().unwrap()), "00000");
            driver.execute(write, &[]).unwrap();
            server.kill_and_start_again();
        } else {
            server.kill_and_start_again();
            assert_eq!(state_of(waiting.join().unwrap()), "none");
        }
        assert_eq!(count(&mut server.driver()), if makes_room { 301 } else { 1 });
    }
}

#[test]
fn beyond_the_bound_of_memory_reads_and_deletes_go_on() {
    let server = Alone::with(&["--shards", "1", "--memory", "2MiB"]);
    let mut driver = server.driver();
    driver.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, x text)").unwrap();
    let insert = |driver: &mut Driver, id: i32| {
        driver.execute("INSERT INTO t VALUES ($1, repeat('x', 10000))", &[&id])
    };
    let mut taken = 0;
    let refused = loop {
        match insert(&mut driver, taken) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    let told = refused.as_db_error().expect("the server says so");
    assert_eq!(told.code().code(), "53200", "{told:?}");
    assert!(told.hint().is_some_and(|hint| hint.contains("--memory")), "{told:?}");
    assert!(taken > 100, "{taken}");
    assert_eq!(count(&mut driver), i64::from(taken));
    let longer = driver.execute("UPDATE t SET x = concat(x, 'more') WHERE id = 1", &[]);
    assert_eq!(state_of(longer), "53200");
    assert_eq!(driver.execute("DELETE FROM t WHERE id < 100", &[]).unwrap(), 100);
    until("an insert has room", || state_of(insert(&mut driver, 1_000_000)) != "53200");
    assert_eq!(count(&mut driver), i64::from(taken) - 99);
}

/// Snapshots are begun again and again while clients write and the schema changes; what is there after a kill is what was there.
#[test]
fn snapshots_are_written_while_traffic_goes_on() {
    let mut server = Alone::with(&["--shards", "2", "--snapshot-after", "64KiB"]);
    let mut driver = server.driver();
    driver
        .batch_execute(
            "CREATE TABLE t (id integer PRIMARY KEY, x text); CREATE TABLE s (id serial PRIMARY KEY, n integer NOT NULL);
             INSERT INTO s (n) VALUES (0)",
        )
        .unwrap();
    for first in (0..2_000).step_by(100) {
        let rows: Vec<String> = (first..first + 100).map(|id| format!("({id}, repeat('x', 200))")).collect();
        driver.batch_execute(&format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
    }
    let is_over = AtomicBool::new(false);
    let written: Vec<i32> = std::thread::scope(|threads| {
        let work = |which: i32| {
            let (mut driver, is_over) = (server.driver(), &is_over);
            threads.spawn(move || {
                let mut times = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let at = (times * 7 + which) % 2_000;
                    driver
                        .execute(
                            "UPDATE t SET x = concat('w', $2::text) WHERE id = $1",
                            &[&at, &times.to_string()],
                        )
                        .unwrap();
                    driver
                        .execute(
                            "INSERT INTO t VALUES ($1, repeat('y', 300))",
                            &[&(10_000 * (which + 1) + times)],
                        )
                        .unwrap();
                    driver
                        .execute("DELETE FROM t WHERE id = $1", &[&(10_000 * (which + 1) + times - 5)])
                        .unwrap();
                    times += 1;
                }
                times
            })
        };
        let workers: Vec<_> = (0..3).map(work).collect();
        for round in 0..4 {
            let snapshots = || server.said().matches("a snapshot is durable").count();
            let before = snapshots();
            until("three more snapshots are durable", || snapshots() >= before + 3);
            driver
                .batch_execute(&format!("ALTER TABLE s ADD COLUMN c{round} integer DEFAULT {round}"))
                .unwrap();
            driver.batch_execute("INSERT INTO s (n) VALUES (1)").unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert!(written.iter().all(|times| *times > 0), "{written:?}");
    let all = |server: &Alone| -> Vec<String> {
        let query =
            "SELECT concat(id, ' ', x) FROM t UNION ALL SELECT concat('s ', id, ' ', n) FROM s ORDER BY 1";
        server.driver().query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    };
    let before = all(&server);
    server.kill_and_start_again();
    assert_eq!(all(&server), before);
    // Numbers go on.
    server.driver().batch_execute("INSERT INTO s (n) VALUES (2)").unwrap();
}

/// The server is killed as soon as it has acknowledged something, so that a shard may not know yet that it has been decided. The first
/// statement after the restart sees it all the same.
#[test]
fn the_first_statement_after_a_restart_sees_all_that_was_acknowledged() {
    let mut server = Alone::start(3);
    server.driver().batch_execute("CREATE TABLE t (id integer PRIMARY KEY, x text)").unwrap();
    for round in 0..5 {
        let mut driver = server.driver();
        let insert = "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 300) g";
        assert_eq!(driver.execute(insert, &[]).unwrap(), 300, "round {round}");
        server.kill_and_start_again();
        let mut driver = server.driver();
        assert_eq!(driver.execute("UPDATE t SET x = 'y' WHERE id > 0", &[]).unwrap(), 300, "round {round}");
        server.kill_and_start_again();
        let mut driver = server.driver();
        assert_eq!(driver.execute("DELETE FROM t WHERE x = 'y'", &[]).unwrap(), 300, "round {round}");
        driver.batch_execute(&format!("ALTER TABLE t ADD COLUMN c{round} integer DEFAULT 3")).unwrap();
        server.kill_and_start_again();
        let sum = server.driver().query_one(&format!("SELECT count(c{round}) FROM t"), &[]);
        assert!(sum.is_ok(), "round {round}: {sum:?}");
    }
}
