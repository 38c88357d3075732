//! The time that a server takes to read its log, and the memory that its rows take: figures for the bars `recovery` and `memory`.
//!
//! `WEIR_LOG_MIB=N` writes so much log (8 without); only a release build says anything about time and memory.

use std::io::Write;
use std::path::Path;

use crate::alone::Alone;
use postgres::Client as Driver;

/// Rows of a COPY.
const ROWS: i64 = 5_000;

/// Contents of the segments, without the reserved room at their ends.
fn log_bytes(data: &Path) -> u64 {
    let shards =
        std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let segments =
        shards.flat_map(|shard| std::fs::read_dir(shard).unwrap().map(|entry| entry.unwrap().path()));
    // But for a few MiB at the end of the last ones.
    segments.map(|path| path.metadata().unwrap().len()).sum()
}

/// Memory of the server; of one that is measured, once its allocator has given back what was freed.
fn settled_bytes(server: &Alone, is_measured: bool) -> u64 {
    if is_measured {
        server.driver().batch_execute("SELECT pg_sleep(4)").unwrap();
    }
    server.resident_bytes()
}

/// The rows and a sum over them, and the bytes of their values.
fn look(driver: &mut Driver) -> (i64, i64, i64) {
    let query = "SELECT count(*), sum(a)::bigint, sum(8 + 4 + 8 + octet_length(b))::bigint FROM t";
    let row = driver.query_one(query, &[]).unwrap();
    (row.get(0), row.get(1), row.get(2))
}

#[test]
fn a_server_reads_its_log_and_has_all_of_it() {
    let mib = std::env::var("WEIR_LOG_MIB").ok().and_then(|text| text.parse().ok());
    let (target, is_measured) = (mib.unwrap_or(8_u64) << 20, mib.is_some());
    let mut server = Alone::with(&["--shards", "2", "--snapshot-after", "1TiB"]);
    let mut driver = server.driver();
    driver
        .batch_execute("CREATE TABLE t (id bigint PRIMARY KEY, a integer, b text, c double precision)")
        .unwrap();
    // Room is reserved before there is anything.
    let empty = log_bytes(&server.data());
    let mut rows = 0;
    // Half of the log is of rows that come, the other of rows that change.
    while log_bytes(&server.data()) < empty + target / 2 {
        let mut copy = driver.copy_in("COPY t FROM STDIN").unwrap();
        let mut text = Vec::new();
        for id in rows..rows + ROWS {
            writeln!(text, "{id}\t{}\ta row of some length, as rows are: {id:060}\t{id}.5", id % 1000)
                .unwrap();
        }
        copy.write_all(&text).unwrap();
        assert_eq!(copy.finish().unwrap(), ROWS as u64);
        rows += ROWS;
    }
    let mut first = 0;
    while log_bytes(&server.data()) < empty + target {
        let update =
            "UPDATE t SET a = a + 1, b = concat(substr(b, 1, 80), $3::text) WHERE id >= $1 AND id < $2";
        driver.execute(update, &[&first, &(first + ROWS), &format!("{first:016}")]).unwrap();
        first = (first + ROWS) % rows;
    }
    let before = look(&mut driver);
    let loaded = settled_bytes(&server, is_measured);
    server.kill_and_start_again();
    assert_eq!(look(&mut server.driver()), before);
    let said = server.said();
    let after = |name: &str| -> Vec<f64> {
        let value = |line: &str| line.split_once(name)?.1.split_whitespace().next()?.parse().ok();
        said.lines().filter(|line| line.contains("recovered")).filter_map(value).collect()
    };
    let (bytes, seconds) = (after("bytes="), after("seconds="));
    assert_eq!((bytes.len(), seconds.len()), (2, 2), "{said}");
    let mib = bytes.iter().sum::<f64>() / f64::from(1 << 20);
    // Shards are read at once.
    println!("recovered {mib:.0} MiB of log in {:.2} s", seconds.into_iter().fold(0.0, f64::max));
    let (raw, resident) = (before.2 as u64, settled_bytes(&server, is_measured));
    println!(
        "raw data {raw} bytes, memory {loaded} bytes when loaded, {resident} bytes when recovered: {:.2} and {:.2} times",
        loaded as f64 / raw as f64,
        resident as f64 / raw as f64
    );
}
