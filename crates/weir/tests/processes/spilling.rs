//! Statements that sort, hash and collect more than their working memory: what exceeds it is in temporary files, which go with the statement.

use crate::alone::Alone;
use crate::eventually::until;
use crate::nodes::Nodes;
use postgres::Client as Driver;
use postgres::error::SqlState;

const ROWS: i64 = 100_000;

const TEXT: &str = "a text that is long enough for all of the rows to be more than the memory of a statement, of row number ";

const SORTED: &str = "SELECT count(*) FROM (SELECT c FROM t ORDER BY c OFFSET 1) x";

const COLLECTED: &str = "WITH w AS (SELECT c FROM t) SELECT count(*) FROM w";

const NUMBERED: &str = "SELECT max(n) FROM (SELECT c, count(*) OVER () AS n FROM t) x";

/// Queries whose sorts, hash tables, WITH queries and windows have all rows, and what they give.
fn queries() -> Vec<(&'static str, i64)> {
    vec![
        ("SELECT count(*) FROM (SELECT c FROM t ORDER BY c OFFSET 1) x", ROWS - 1),
        ("SELECT a FROM t ORDER BY c DESC LIMIT 1", 99_999),
        ("SELECT a FROM (SELECT a FROM t ORDER BY c DESC LIMIT 75000) x ORDER BY a LIMIT 1", 4),
        ("SELECT sum(n) FROM (SELECT c, count(*) AS n FROM t GROUP BY c HAVING min(a) > 10) x", ROWS - 10),
        ("SELECT count(*) FROM (SELECT DISTINCT c FROM t) x", ROWS),
        ("SELECT count(*) FROM (SELECT DISTINCT ON (c) c, b FROM t ORDER BY c, b) x", ROWS),
        ("SELECT count(*) FROM t l JOIN t r ON l.c = r.c || ''", ROWS),
        ("SELECT sum(r.a - l.a) FROM t l LEFT JOIN t r ON l.c = r.c || '' AND r.b = 0", 0),
        ("SELECT count(*) FROM t l FULL JOIN t r ON l.c || '1' = r.c", ROWS * 2 - (ROWS / 10 - 1)),
        ("SELECT count(*) FROM (SELECT c FROM t UNION SELECT c || 'x' FROM t) x", ROWS * 2),
        ("SELECT count(*) FROM (SELECT c FROM t EXCEPT SELECT c FROM t WHERE a > 1000) x", 1_000),
        (
            "SELECT count(*) FROM (SELECT c FROM t INTERSECT ALL SELECT c FROM t WHERE a > 1000) x",
            ROWS - 1_000,
        ),
        ("WITH w AS (SELECT a, c FROM t) SELECT count(*) FROM w x JOIN w y ON x.a = y.a", ROWS),
        (
            "WITH w AS (SELECT a, c FROM t) SELECT count(*) FROM (SELECT c FROM w EXCEPT ALL SELECT c FROM w) x",
            0,
        ),
        (
            "WITH RECURSIVE r AS (SELECT a, c FROM t UNION ALL SELECT a + 100000, c FROM r WHERE a <= 100000) \
             SELECT count(*) FROM r",
            ROWS * 2,
        ),
        ("SELECT count(*) FROM t WHERE c || 'x' > ALL (SELECT c FROM t) AND a > 99998", 1),
        ("SELECT max(n) FROM (SELECT c, row_number() OVER (ORDER BY c) AS n FROM t) x WHERE c > ''", ROWS),
        ("SELECT sum(n) FROM (SELECT c, count(*) OVER () AS n FROM t) x WHERE c > ''", ROWS * ROWS),
        ("SELECT max(n) FROM (SELECT c, sum(a) OVER (ORDER BY a) AS n FROM t) x WHERE c > ''", 5_000_050_000),
        (
            "SELECT count(*) FROM (SELECT c, lag(c) OVER (PARTITION BY b ORDER BY a) AS d FROM t) x WHERE c <> d",
            ROWS - 1,
        ),
        (
            "SELECT count(*) FROM (SELECT c, first_value(c) OVER w AS f, ntile(4) OVER w AS n, sum(a) OVER v AS s \
             FROM t WINDOW w AS (ORDER BY a), v AS (PARTITION BY a % 2 ORDER BY a DESC ROWS 2 PRECEDING)) x \
             WHERE f <> c AND n = 4 AND s > 0",
            ROWS / 4,
        ),
    ]
}

/// A value that collects rows is in memory.
#[test]
fn a_value_of_many_rows_has_to_have_room() {
    let (_server, mut driver) = start("6MiB");
    for query in ["SELECT array_agg(c) AS a FROM t", "SELECT array_agg(c) OVER () AS a FROM t"] {
        let query = format!("SELECT count(*) FROM ({query}) x WHERE a IS NOT NULL");
        let ended = number(&mut driver, &query).map_err(|error| error.code().cloned());
        assert_eq!(ended, Err(Some(SqlState::OUT_OF_MEMORY)), "{query}");
    }
}

fn start(memory: &str) -> (Alone, Driver) {
    let server = Alone::with(&["--shards", "1", "--statement-memory", memory]);
    let mut driver = server.driver();
    fill(&mut driver);
    (server, driver)
}

fn fill(driver: &mut Driver) {
    driver.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int DEFAULT 0, c text)").unwrap();
    for part in 0..10 {
        let (first, last) = (part * ROWS / 10 + 1, (part + 1) * ROWS / 10);
        let insert =
            format!("INSERT INTO t (a, c) SELECT g, '{TEXT}' || g FROM generate_series({first}, {last}) g");
        driver.batch_execute(&insert).unwrap();
    }
}

fn number(driver: &mut Driver, query: &str) -> Result<i64, postgres::Error> {
    let text = format!("SELECT ({query})::bigint");
    driver.query_one(&text, &[]).map(|row| row.get(0))
}

/// Number of the server's open files without a name.
fn files(server: &Alone) -> usize {
    let links = std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().ends_with("(deleted)")).count()
}

#[test]
fn what_has_no_room_in_memory_is_in_files() {
    let (server, mut driver) = start("6MiB");
    for (query, expected) in queries() {
        for memory in ["64kB", "1MB"] {
            driver.batch_execute(&format!("SET work_mem = '{memory}'")).unwrap();
            let seen =
                number(&mut driver, query).unwrap_or_else(|error| panic!("{query}, {memory}: {error:?}"));
            assert_eq!(seen, expected, "{query}, {memory}");
        }
    }
    assert_eq!(files(&server), 0, "the files have gone with their statements");
    driver.batch_execute("SET work_mem = '1GB'").unwrap();
    for (query, _) in queries().into_iter().filter(|(query, _)| !query.contains("LIMIT")) {
        let ended = number(&mut driver, query).map_err(|error| error.code().cloned());
        assert_eq!(ended, Err(Some(SqlState::OUT_OF_MEMORY)), "{query}: the memory is that of the setting");
    }
}

#[test]
fn temporary_files_have_a_limit_and_end_with_a_cancelled_statement() {
    let (server, mut driver) = start("12MiB");
    for (query, expected) in [(SORTED, ROWS - 1), (COLLECTED, ROWS), (NUMBERED, ROWS)] {
        driver.batch_execute("SET temp_file_limit = '1MB'").unwrap();
        let ended = number(&mut driver, query).unwrap_err();
        assert_eq!(ended.code(), Some(&SqlState::CONFIGURATION_LIMIT_EXCEEDED), "{ended:?}");
        let message = ended.as_db_error().unwrap().message();
        assert_eq!(message, "temporary file size exceeds temp_file_limit (1024kB)");
        driver.batch_execute("RESET temp_file_limit").unwrap();
        assert_eq!(number(&mut driver, query).unwrap(), expected, "the session goes on");
        driver.batch_execute("SET statement_timeout = 50").unwrap();
        let ended = number(&mut driver, &format!("{query}, generate_series(1, 1000) g")).unwrap_err();
        assert_eq!(ended.code(), Some(&SqlState::QUERY_CANCELED), "{ended:?}");
        until("the files have gone with their statement", || files(&server) == 0);
        driver.batch_execute("RESET statement_timeout").unwrap();
    }
}

/// The first node has no shard, so another process sorts.
#[test]
fn a_session_sets_the_memory_of_shards_of_other_processes() {
    let nodes = Nodes::of_tables(&[&[], &[0]], &["--statement-memory", "12MiB"]);
    let mut driver = nodes.driver();
    fill(&mut driver);
    driver.batch_execute("CREATE TABLE u (n bigint); INSERT INTO u VALUES (0)").unwrap();
    let update = format!("UPDATE u SET n = ({SORTED})");
    let statements =
        [SORTED, &update, &format!("BEGIN; {SORTED}; COMMIT"), &format!("BEGIN; {update}; COMMIT")];
    for (set, ends) in [
        ("SET temp_file_limit = '1MB'", Some(SqlState::CONFIGURATION_LIMIT_EXCEEDED)),
        ("RESET temp_file_limit", None),
        ("SET work_mem = '1GB'", Some(SqlState::OUT_OF_MEMORY)),
    ] {
        driver.batch_execute(set).unwrap();
        for text in statements {
            let ended = driver.batch_execute(text).map_err(|error| error.code().cloned());
            assert_eq!(ended.err().flatten(), ends, "{set}: {text}");
            driver.batch_execute("ROLLBACK").unwrap();
        }
    }
}

/// Statements that write, and those of transactions and procedures.
#[test]
fn statements_that_write_have_files_too() {
    let (server, mut driver) = start("16MiB");
    driver.batch_execute("CREATE TABLE u (n bigint PRIMARY KEY)").unwrap();
    driver
        .batch_execute(
            "INSERT INTO u SELECT count(*) FROM (SELECT DISTINCT c FROM t) x; \
             BEGIN; UPDATE u SET n = n + (SELECT count(*) FROM (SELECT c FROM t ORDER BY c OFFSET 1) x); COMMIT; \
             DO $$ DECLARE k bigint; BEGIN \
               SELECT count(*) INTO k FROM (SELECT c FROM t UNION SELECT c FROM t) x; \
               UPDATE u SET n = n + k; \
             END $$; \
             UPDATE u SET n = n + (WITH w AS (SELECT c FROM t) SELECT count(*) FROM w); \
             UPDATE u SET n = n + (SELECT max(n) FROM (SELECT c, count(*) OVER () AS n FROM t) x WHERE c > '')",
        )
        .unwrap();
    assert_eq!(number(&mut driver, "SELECT n FROM u").unwrap(), ROWS * 5 - 1);
    assert_eq!(files(&server), 0);
}
