//! A statement whose rows go to the shards in batches is one statement: what its rows have to fulfil together is judged when it has ended,
//! as by PostgreSQL, on one shard and on several.

use std::io::Write;

use postgres::{Client as Driver, NoTls};
use weir_bench::postgres::Server;

use super::answer;
use crate::alone::Alone;

/// More than three batches.
const ROWS: usize = 13_000;

const TABLES: &str = "
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree);
CREATE TABLE branch (root int, id int, up int, PRIMARY KEY (root, id), FOREIGN KEY (root, up) REFERENCES branch);
CREATE TABLE tally (k int PRIMARY KEY, n int NOT NULL, mail text);";

/// Their parents must not live on other shards.
const DEFERRED: &str = "
CREATE TABLE late (id int PRIMARY KEY, up int REFERENCES late DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE mixed (id int PRIMARY KEY, up int REFERENCES mixed, other int REFERENCES tree, third int REFERENCES mixed DEFERRABLE INITIALLY DEFERRED);";

enum Told {
    Sql(String),
    /// A COPY, and its lines.
    Copy(&'static str, Vec<String>),
}

fn sql(text: impl Into<String>) -> Told {
    Told::Sql(text.into())
}

fn copy(text: &'static str, line: impl FnMut(usize) -> String) -> Told {
    Told::Copy(text, (0..ROWS).map(line).collect())
}

fn told(driver: &mut Driver, told: &Told) -> String {
    match told {
        Told::Sql(text) => answer(driver, text),
        Told::Copy(text, lines) => {
            let data = lines.join("\n") + "\n";
            let mut sink = driver.copy_in(*text).unwrap();
            let sent = sink.write_all(data.as_bytes());
            match sent.map_err(|error| error.to_string()).and_then(|()| sink.finish().map_err(failure)) {
                Ok(count) => format!("copied {count}"),
                Err(error) => error,
            }
        }
    }
}

fn failure(error: postgres::Error) -> String {
    let error = error.as_db_error().expect("the server refuses it");
    let (detail, constraint) = (error.detail().unwrap_or("-"), error.constraint().unwrap_or("-"));
    format!("{} {} | {detail} | {constraint}", error.code().code(), error.message())
}

/// Told PostgreSQL and Weir alike.
fn compare(shards: &[u16], tables: &str, conversation: &[Told]) {
    let postgres = Server::start().unwrap();
    let mut oracle = Driver::connect(&postgres.connection_string(), NoTls).unwrap();
    oracle.batch_execute(tables).unwrap();
    let expected: Vec<String> = conversation.iter().map(|one| told(&mut oracle, one)).collect();
    let mut different = Vec::new();
    for &shards in shards {
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(tables).unwrap();
        for (one, expected) in conversation.iter().zip(&expected) {
            let found = told(&mut own, one);
            if found != *expected {
                let text = match one {
                    Told::Sql(text) => text.chars().take(200).collect(),
                    Told::Copy(text, lines) => format!("{text} of {}, …", lines[0]),
                };
                different
                    .push(format!("{shards} shards: {text}\nPostgreSQL: {expected}\nWeir:       {found}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Each row's parent comes behind it; the last one has none.
fn next(id: usize) -> String {
    match id {
        id if id == ROWS - 1 => format!("{id}\t\\N"),
        id => format!("{id}\t{}", id + 1),
    }
}

#[test]
fn foreign_keys_to_the_same_table_hold_at_the_end_of_a_copy() {
    let last = ROWS - 1;
    compare(
        &[1, 3],
        TABLES,
        &[
            // Each row's parent comes behind it, or at the very end.
            copy("COPY tree FROM STDIN", next),
            sql("SELECT count(*), sum(up) FROM tree"),
            sql("TRUNCATE tree"),
            copy("COPY tree FROM STDIN", |id| format!("{id}\t{last}")),
            sql("SELECT count(*), sum(up) FROM tree"),
            sql("TRUNCATE tree"),
            // The parent of one, far from the end, never comes.
            copy("COPY tree FROM STDIN", |id| format!("{id}\t{}", if id == 17 { 1_000_000 } else { last })),
            sql("SELECT count(*) FROM tree"),
            // Within a transaction, in which other things happen.
            sql("BEGIN"),
            sql("INSERT INTO tree VALUES (-1, NULL)"),
            copy("COPY tree FROM STDIN", next),
            sql("INSERT INTO tree VALUES (-2, 1), (-3, -4), (-4, -1)"),
            sql("INSERT INTO tree VALUES (-5, -6)"),
            sql("COMMIT"),
            sql("SELECT count(*) FROM tree"),
            sql("BEGIN"),
            copy("COPY tree FROM STDIN", next),
            sql("SAVEPOINT s"),
            copy("COPY tree FROM STDIN", |id| format!("{}\t{}", id + 100_000, id + 100_001)),
            sql("ROLLBACK TO s"),
            sql("INSERT INTO tree VALUES (-1, -7)"),
            sql("ROLLBACK TO s"),
            copy("COPY tree FROM STDIN", |id| format!("{}\t{}", id + 100_000, id)),
            sql("COMMIT"),
            sql("SELECT count(*), sum(up) FROM tree"),
            // INSERT.
            sql("INSERT INTO tree SELECT g, g + 1 FROM generate_series(200000, 212999) g"),
            sql(
                "INSERT INTO tree SELECT g, CASE WHEN g < 212999 THEN g + 1 END FROM generate_series(200000, 212999) g",
            ),
            sql(values("tree", |id| format!("({}, {})", id + 300_000, 300_000 + last - id))),
            sql(values("tree", |id| {
                format!("({}, {})", id + 400_000, 400_000 + last - id + usize::from(id == 5_000))
            })),
            sql(values("tree", |id| format!("({}, {})", id + 500_000, if id == 2 { 1_000_000 } else { 1 }))),
            sql("SELECT count(*), sum(up) FROM tree"),
            copy("COPY branch FROM STDIN", |id| format!("{}\t{id}\t{}", id % 2, last - (id + last) % 2)),
            sql("SELECT root, count(*), sum(up) FROM branch GROUP BY 1 ORDER BY 1"),
        ],
    );
}

#[test]
fn deferred_foreign_keys_wait_for_the_end_of_their_transaction_all_the_same() {
    let last = ROWS - 1;
    compare(
        &[1],
        &format!("{TABLES}{DEFERRED}"),
        &[
            copy("COPY tree FROM STDIN", next),
            copy("COPY late FROM STDIN", next),
            sql("BEGIN"),
            copy("COPY late FROM STDIN", |id| format!("{}\t{}", id + 100_000, id + 100_001)),
            sql("INSERT INTO late VALUES (113000, 0)"),
            sql("COMMIT"),
            sql("SELECT count(*), sum(up) FROM late"),
            sql("BEGIN"),
            copy("COPY mixed (id, up, other, third) FROM STDIN", |id| format!("{id}\t{last}\t{id}\t1000000")),
            sql("INSERT INTO mixed VALUES (-1, 0, 0, -2)"),
            sql("SET CONSTRAINTS ALL IMMEDIATE"),
            sql("ROLLBACK"),
            sql("BEGIN"),
            copy("COPY mixed (id, up, other, third) FROM STDIN", |id| format!("{id}\t{last}\t{id}\t1000000")),
            sql("INSERT INTO mixed VALUES (1000000, 0, 0, NULL)"),
            sql("COMMIT"),
            sql("SELECT count(*), sum(third) FROM mixed"),
        ],
    );
}

fn values(table: &str, row: impl FnMut(usize) -> String) -> String {
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    format!("INSERT INTO {table} VALUES {}", rows.join(", "))
}

#[test]
fn a_row_is_updated_once_by_an_upsert_of_many_rows() {
    let upsert = "ON CONFLICT (k) DO UPDATE SET n = tally.n + excluded.n";
    let of = |key: &dyn Fn(usize) -> usize| {
        values("tally", |at| format!("({}, 1, 'm{at}')", key(at))) + " " + upsert
    };
    let twice = of(&|at| if at == ROWS - 1 { 3 } else { at });
    compare(
        &[1, 3],
        TABLES,
        &[
            // A row that the statement itself has inserted, or that was there before.
            sql(&twice[..]),
            sql("SELECT count(*) FROM tally"),
            sql(of(&|at| at)),
            sql("SELECT count(*), sum(n) FROM tally"),
            sql(of(&|at| at).replace("'m", "'n")),
            sql("SELECT count(*), sum(n) FROM tally"),
            sql(twice.replace("'m", "'o")),
            sql("SELECT count(*), sum(n) FROM tally"),
            // Two statements of one transaction may.
            sql("BEGIN"),
            sql(of(&|at| at).replace("'m", "'p")),
            sql(of(&|at| at).replace("'m", "'q")),
            sql("INSERT INTO tally VALUES (1, 5, 'x') ON CONFLICT (k) DO UPDATE SET n = 0"),
            sql("COMMIT"),
            sql("SELECT count(*), sum(n) FROM tally"),
            sql("BEGIN"),
            sql(twice.replace("'m", "'r")),
            sql("COMMIT"),
            sql("SELECT count(*), sum(n) FROM tally"),
            // Of queries: whose rows stay where they are, or go elsewhere.
            sql(
                "INSERT INTO tally SELECT k, 1, NULL FROM tally ON CONFLICT (k) DO UPDATE SET n = excluded.n",
            ),
            sql("SELECT count(*), sum(n) FROM tally"),
            sql(format!(
                "INSERT INTO tally SELECT (g * 7) % {ROWS}, 2, NULL FROM generate_series(0, {ROWS} - 1) g {upsert}"
            )),
            sql(format!(
                "INSERT INTO tally SELECT g % ({ROWS} - 1), 2, NULL FROM generate_series(0, {ROWS} - 1) g {upsert}"
            )),
            sql(format!("INSERT INTO tally SELECT ({ROWS} - 1 - k), 2, NULL FROM tally {upsert}")),
            sql(format!("INSERT INTO tally SELECT k / 2, 2, NULL FROM tally {upsert}")),
            sql(format!(
                "INSERT INTO tally SELECT k + 1000000, 2, NULL FROM tally UNION ALL SELECT 1000007, 1, NULL {upsert}"
            )),
            sql("INSERT INTO tally VALUES (1, 1), (1, 2) ON CONFLICT (k) DO UPDATE SET n = 7"),
            sql(
                "INSERT INTO tally SELECT g % 2, 1 FROM generate_series(1, 3) g ON CONFLICT (k) DO UPDATE SET n = 7",
            ),
            sql("SELECT count(*), sum(n) FROM tally"),
        ],
    );
}
