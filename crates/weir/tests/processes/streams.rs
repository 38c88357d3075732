//! Results that are larger than memory is meant for them: rows go to the client while the query runs, and the query waits for a client that
//! does not read.

use crate::alone::Alone;
use crate::endless::until_active;
use crate::eventually::until;
use crate::wire::{Wire, query};
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client as Driver, RowIter};
use std::io::Read as _;
use std::net::SocketAddr;

/// A row is some 130 bytes on the wire: all of them are far more than sockets hold.
pub(super) const ROWS: i64 = 300_000;

const TEXT: &str = "a text that is long enough for the rows to be more than the buffers of a connection hold, of row number ";

pub(super) const ALL: &str = "SELECT a, b, c FROM t";

/// With a statement memory that the whole result exceeds.
pub(super) fn start(shards: u16) -> Alone {
    let server = Alone::with(&["--shards", &shards.to_string(), "--statement-memory", "32MiB"]);
    let mut driver = server.driver();
    driver.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int DEFAULT 0, c text)").unwrap();
    driver.batch_execute("CREATE TABLE one (a int PRIMARY KEY); INSERT INTO one VALUES (1)").unwrap();
    for part in 0..10 {
        let (first, last) = (part * ROWS / 10 + 1, (part + 1) * ROWS / 10);
        let insert =
            format!("INSERT INTO t (a, c) SELECT g, '{TEXT}' || g FROM generate_series({first}, {last}) g");
        driver.batch_execute(&insert).unwrap();
    }
    server
}

pub(super) fn begin<'d>(driver: &'d mut Driver, text: &str) -> RowIter<'d> {
    let nothing: [&str; 0] = [];
    driver.query_raw(text, nothing).unwrap()
}

/// Number of further rows, and the sums of their first two columns.
pub(super) fn rest(mut rows: RowIter<'_>) -> Result<(i64, i64, i64), postgres::Error> {
    let mut sums = (0, 0, 0);
    while let Some(row) = rows.next()? {
        let (a, b) = (row.get::<_, i32>(0), row.get::<_, i32>(1));
        sums = (sums.0 + 1, sums.1 + i64::from(a), sums.2 + i64::from(b));
    }
    Ok(sums)
}

/// A query whose client does not read takes little memory and nobody's time, and gives the rows of its moment.
#[test]
fn a_client_that_does_not_read_is_waited_for() {
    [1, 4].into_iter().for_each(one_that_does_not_read_is_waited_for);
}

fn one_that_does_not_read_is_waited_for(shards: u16) {
    let server = start(shards);
    let (mut reader, mut other) = (server.driver(), server.driver());
    // What the query itself needs is taken.
    rest(begin(&mut server.driver(), ALL)).unwrap();
    let before = server.resident_bytes();
    let mut rows = begin(&mut reader, ALL);
    let first = i64::from(rows.next().unwrap().unwrap().get::<_, i32>(0));
    for round in 1..=50 {
        other.execute("UPDATE t SET b = b + 1 WHERE a % 50000 = 7", &[]).unwrap();
        other.execute("INSERT INTO one VALUES ($1)", &[&(round + 1)]).unwrap();
    }
    other.batch_execute("DELETE FROM t WHERE a > 299000").unwrap();
    until_active(&mut other, ALL);
    let grown = server.resident_bytes().saturating_sub(before) >> 20;
    assert!(grown < 64, "the server has grown by {grown} MiB");
    let (count, sum, changed) = rest(rows).unwrap();
    assert_eq!((count, changed), (ROWS - 1, 0), "all rows of the moment, as they were");
    assert_eq!(first + sum, ROWS * (ROWS + 1) / 2, "each once");
    assert_eq!(rest(begin(&mut reader, ALL)).unwrap().0, ROWS - 1_000);
}

#[test]
fn rows_come_in_their_order_whatever_the_protocol() {
    let server = start(1);
    let mut driver = server.driver();
    const SORTED: &str = "SELECT a, c FROM t WHERE a % 4 = 1 ORDER BY c, a";
    let mut last = String::new();
    let mut count = 0;
    let mut rows = begin(&mut driver, SORTED);
    while let Some(row) = rows.next().unwrap() {
        let text: String = row.get(1);
        assert!(last < text, "{last} and {text}");
        (last, count) = (text, count + 1);
    }
    drop(rows);
    assert_eq!(count, ROWS / 4);
    let simple = driver.simple_query(SORTED).unwrap();
    assert_eq!(simple.len() as i64, ROWS / 4 + 2, "with the description and the end");
    let mut transaction = driver.transaction().unwrap();
    transaction.execute("UPDATE t SET b = 7 WHERE a = 1", &[]).unwrap();
    let nothing: [&str; 0] = [];
    let own = rest(transaction.query_raw(ALL, nothing).unwrap()).unwrap();
    assert_eq!((own.0, own.2), (ROWS, 7), "with the changes of its transaction");
    let portal = transaction.bind("SELECT a FROM t WHERE a <= 30000", &[]).unwrap();
    assert_eq!(transaction.query_portal(&portal, 10).unwrap().len(), 10);
    assert_eq!(transaction.query_portal(&portal, 0).unwrap().len(), 29_990);
    assert_eq!(transaction.query_portal(&portal, 0).unwrap().len(), 0);
    transaction.commit().unwrap();
}

#[test]
fn what_ends_a_query_ends_it_between_its_rows() {
    [1, 3].into_iter().for_each(what_ends_one_over);
}

fn what_ends_one_over(shards: u16) {
    let server = start(shards);
    let mut other = server.driver();
    let mut reader = server.driver();
    let mut rows = begin(&mut reader, ALL);
    rows.next().unwrap().unwrap();
    until_active(&mut other, ALL);
    other
        .execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = $1::text", &[&ALL])
        .unwrap();
    assert_eq!(rest(rows).unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    let mut rows = begin(&mut reader, ALL);
    rows.next().unwrap().unwrap();
    other.batch_execute("ALTER TABLE one ADD COLUMN d int").unwrap();
    let ended = rest(rows).unwrap_err();
    assert_eq!(ended.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{ended}");
    assert_eq!(rest(begin(&mut reader, ALL)).unwrap().0, ROWS, "its session goes on");
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let mut leaver = Wire::tcp(address, "postgres", "weir");
    leaver.send(&[query(ALL)]);
    assert!(leaver.hear_one().starts_with("T "));
    until_active(&mut other, ALL);
    drop(leaver);
    let watched = "SELECT count(*) FROM pg_stat_activity WHERE query = $1::text AND state = 'active'";
    until("the query of a client that is gone ends", || {
        other.query_one(watched, &[&ALL]).unwrap().get::<_, i64>(0) == 0
    });
}

/// All rows of several shards, in any order or merged; what is computed of them is not streamed.
#[test]
fn rows_of_several_shards_come_as_those_of_one() {
    let server = start(3);
    let mut driver = server.driver();
    assert_eq!(rest(begin(&mut driver, ALL)).unwrap(), (ROWS, ROWS * (ROWS + 1) / 2, 0));
    assert_eq!(rest(begin(&mut driver, "SELECT a, b FROM t ORDER BY a DESC LIMIT 7")).unwrap().0, 7);
    assert_eq!(rest(begin(&mut driver, "SELECT DISTINCT a % 100, 1 FROM t")).unwrap(), (100, 4_950, 100));
    let grouped = "SELECT a, count(*)::int FROM t GROUP BY a";
    assert_eq!(rest(begin(&mut driver, grouped)).unwrap(), (ROWS, ROWS * (ROWS + 1) / 2, ROWS));
    let mut bytes = Vec::new();
    driver.copy_out("COPY t (a) TO STDOUT").unwrap().read_to_end(&mut bytes).unwrap();
    let numbers = String::from_utf8(bytes).unwrap();
    assert_eq!(numbers.lines().map(|line| line.parse::<i64>().unwrap()).sum::<i64>(), ROWS * (ROWS + 1) / 2);
    let mut transaction = driver.transaction().unwrap();
    transaction.execute("UPDATE t SET b = 7 WHERE a <= 10", &[]).unwrap();
    let nothing: [&str; 0] = [];
    let own = rest(transaction.query_raw(ALL, nothing).unwrap()).unwrap();
    assert_eq!((own.0, own.2), (ROWS, 70), "with the changes of its transaction");
    transaction.rollback().unwrap();
}

/// Sorted rows of several shards are merged as they come, so the whole result is nowhere at once.
#[test]
fn sorted_rows_of_several_shards_are_merged_as_they_come() {
    let server = start(3);
    let (mut reader, mut other) = (server.driver(), server.driver());
    const SORTED: &str = "SELECT a, b, c FROM t ORDER BY b, a DESC";
    rest(begin(&mut server.driver(), SORTED)).unwrap();
    let before = server.resident_bytes();
    let mut rows = begin(&mut reader, SORTED);
    let mut next = || rows.next().unwrap().map(|row| row.get::<_, i32>(0));
    assert_eq!(next(), Some(ROWS as i32));
    other.batch_execute("UPDATE t SET b = b + 1 WHERE a % 50000 = 7; DELETE FROM t WHERE a < 1000").unwrap();
    until_active(&mut other, SORTED);
    let grown = server.resident_bytes().saturating_sub(before) >> 20;
    assert!(grown < 64, "the server has grown by {grown} MiB");
    for expected in (1..ROWS as i32).rev() {
        assert_eq!(next(), Some(expected));
    }
    assert_eq!(next(), None);
    drop(rows);
    let mut numbers = |text: &str| {
        let rows = other.query(text, &[]).unwrap();
        rows.iter().map(|row| (row.len(), i64::from(row.get::<_, i32>(0)))).collect::<Vec<_>>()
    };
    let by_hidden = numbers("SELECT a FROM t ORDER BY -a, b LIMIT 100000 OFFSET 50000");
    assert!(by_hidden.into_iter().eq((ROWS - 150_000 + 1..=ROWS - 50_000).rev().map(|a| (1, a))));
    assert_eq!(numbers("SELECT a FROM t ORDER BY a OFFSET 299000"), [(1, ROWS)]);
    assert_eq!(numbers("SELECT a FROM t ORDER BY a LIMIT 0"), []);
    assert_eq!(numbers("SELECT a FROM t LIMIT 60000").len(), 60_000);
    for (text, state) in [
        ("SELECT a FROM t ORDER BY a OFFSET -1", SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE),
        ("SELECT a FROM t ORDER BY a LIMIT -1", SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
        ("SELECT a / (a - 150000) FROM t ORDER BY a", SqlState::DIVISION_BY_ZERO),
    ] {
        assert_eq!(other.query(text, &[]).unwrap_err().code(), Some(&state), "{text}");
    }
    let mut copied = String::new();
    other
        .copy_out("COPY (SELECT a FROM t ORDER BY a DESC) TO STDOUT")
        .unwrap()
        .read_to_string(&mut copied)
        .unwrap();
    assert!(copied.lines().map(|line| line.parse::<i64>().unwrap()).eq((1_000..=ROWS).rev()));
}

/// COPY gives of a long query what it gives of short ones.
#[test]
fn copy_gives_all_rows() {
    let server = start(1);
    let mut driver = server.driver();
    let mut read = |text: &str| {
        let mut bytes = Vec::new();
        driver.copy_out(text).unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    };
    for format in ["text", "csv, HEADER", "binary"] {
        let all = read(&format!("COPY t (a, c) TO STDOUT (FORMAT {format})"));
        let part = |first: i64| {
            let query = format!("SELECT a, c FROM t WHERE a BETWEEN {first} AND {}", first + 999);
            format!("COPY ({query}) TO STDOUT (FORMAT {format})")
        };
        let parts: Vec<Vec<u8>> = (0..ROWS / 1_000).map(|at| read(&part(1 + at * 1_000))).collect();
        let (head, end) = match format {
            "binary" => (19, 2),
            "text" => (0, 0),
            _ => ("a,c\n".len(), 0),
        };
        let rows = parts.iter().flat_map(|part| &part[head..part.len() - end]);
        let expected: Vec<u8> =
            parts[0][..head].iter().chain(rows).chain(&parts[0][parts[0].len() - end..]).copied().collect();
        assert!(all == expected, "{format}: {} and {} bytes", all.len(), expected.len());
    }
}
