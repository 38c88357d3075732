//! The corpus: files of SQL that are run against PostgreSQL 15 and against Weir, on one shard and on several, with the same answers:
//! names and types of the columns, rows in text, how many rows were written, SQLSTATEs.
//!
//! A file of `testdata/sql/corpus` is tables and rows, a line `-- cases`, and statements that end with a semicolon at the end of a
//! line. `-- refused` before a statement says that PostgreSQL runs it and Weir refuses it by name (0A000): it is not counted, and
//! PostgreSQL undoes it. Rows are compared in their order where the statement has an ORDER BY of its own.
//!
//! `WEIR_CORPUS=joins` runs the files whose name has that in it.

use std::fmt::Write;
use std::path::PathBuf;

use crate::on_shards::{Answer, OnShards};
use postgres::{Client, NoTls, SimpleQueryMessage};
use weir_bench::postgres::Server;

/// Number of statements that must have equal answers, at least.
const ALIKE_MIN: usize = 1_260;

struct Case {
    line: usize,
    sql: String,
    refused: bool,
}

struct File {
    name: String,
    prelude: String,
    cases: Vec<Case>,
}

fn files() -> Vec<File> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sql/corpus");
    let wanted = std::env::var("WEIR_CORPUS").unwrap_or_default();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    paths.sort();
    let name =
        |path: &PathBuf| path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    paths.retain(|path| name(path).contains(&wanted));
    paths
        .iter()
        .map(|path| parse(name(path), &std::fs::read_to_string(path).expect("it can be read")))
        .collect()
}

fn parse(name: String, text: &str) -> File {
    let (prelude, cases) = text.split_once("\n-- cases\n").expect("a line -- cases");
    let mut file = File { name, prelude: prelude.to_owned(), cases: Vec::new() };
    let (mut sql, mut refused, mut begun) = (String::new(), false, 0);
    for (number, line) in cases.lines().enumerate() {
        if sql.is_empty() && (line.trim().is_empty() || line.starts_with("--")) {
            refused |= line.trim() == "-- refused";
            continue;
        }
        if sql.is_empty() {
            begun = prelude.lines().count() + number + 3;
        }
        sql += line;
        match sql.strip_suffix(';') {
            Some(whole) => {
                file.cases.push(Case { line: begun, sql: whole.to_owned(), refused });
                (sql, refused) = (String::new(), false);
            }
            None => sql.push('\n'),
        }
    }
    assert!(sql.is_empty(), "{}: the last statement has no semicolon: {sql}", file.name);
    file
}

pub(super) struct OnPostgres {
    pub(super) client: Client,
    server: Server,
}

impl OnPostgres {
    pub(super) fn start(prelude: &str) -> OnPostgres {
        let server = Server::start().expect("PostgreSQL starts");
        let mut client = Client::connect(&server.connection_string(), NoTls).expect("it accepts connections");
        client.batch_execute("SET TimeZone = 'UTC'").expect("it takes settings");
        client.batch_execute(prelude).unwrap_or_else(|error| panic!("the tables: {error}"));
        OnPostgres { client, server }
    }

    /// In a database in which letters beyond ASCII have cases, as in Weir; text compares by its bytes there, too.
    pub(super) fn with_cases(prelude: &str) -> OnPostgres {
        let mut all = OnPostgres::start("");
        let create = "CREATE DATABASE cases TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'";
        all.client.batch_execute(create).expect("the system knows C.UTF-8");
        let string = all.server.connection_string().replace("dbname=postgres", "dbname=cases");
        all.client = Client::connect(&string, NoTls).expect("it accepts connections");
        all.client.batch_execute("SET TimeZone = 'UTC'").expect("it takes settings");
        all.client.batch_execute(prelude).unwrap_or_else(|error| panic!("the tables: {error}"));
        all
    }

    pub(super) fn run(&mut self, sql: &str) -> Answer {
        let columns: Vec<(String, String)> = match self.client.prepare(sql) {
            Ok(statement) => statement
                .columns()
                .iter()
                .map(|of| (of.name().to_owned(), of.type_().name().to_owned()))
                .collect(),
            Err(error) => return Answer::Error(state_of(&error), words_of(&error)),
        };
        let messages = match self.client.simple_query(sql) {
            Ok(messages) => messages,
            Err(error) => return Answer::Error(state_of(&error), words_of(&error)),
        };
        let (mut rows, mut count) = (Vec::new(), 0);
        for message in &messages {
            match message {
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
                }
                SimpleQueryMessage::CommandComplete(written) => count = *written,
                _ => {}
            }
        }
        Answer::Rows { columns, rows, count }
    }

    /// Answer of PostgreSQL to a statement that Weir refuses; its effects are rolled back.
    fn run_in_vain(&mut self, sql: &str) -> Answer {
        self.client.batch_execute("BEGIN").expect("a transaction begins");
        let answer = self.run(sql);
        self.client.batch_execute("ROLLBACK").expect("it ends");
        answer
    }
}

fn words_of(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

fn state_of(error: &postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

/// Error in the case; none if both answers are equal, or if Weir refuses a statement as expected.
fn check(case: &Case, postgres: &mut OnPostgres, weir: &mut OnShards) -> Option<String> {
    if case.refused {
        let expected = postgres.run_in_vain(&case.sql);
        let (answer, _) = weir.run(&case.sql);
        let refused = matches!(&answer, Answer::Error(state, _) if state == "0A000");
        let runs = matches!(expected, Answer::Rows { .. });
        return (!(refused && runs))
            .then(|| format!("shall be refused\n  PostgreSQL {expected:?}\n  Weir       {answer:?}"));
    }
    let expected = postgres.run(&case.sql);
    let (answer, ordered) = weir.run(&case.sql);
    let (expected, answer) = (expected.in_order(ordered), answer.in_order(ordered));
    (!expected.is_like(&answer)).then(|| format!("\n  PostgreSQL {expected:?}\n  Weir       {answer:?}"))
}

#[test]
fn both_answer_alike() {
    let (mut alike, mut refused, mut wrong) = (0, 0, String::new());
    let mut different = 0;
    for file in files() {
        for shards in [1, 3] {
            let mut postgres = OnPostgres::start(&file.prelude);
            let mut weir = OnShards::start(&file.prelude, shards, &mut postgres.client);
            for case in &file.cases {
                match check(case, &mut postgres, &mut weir) {
                    Some(what) => {
                        different += 1;
                        let _ = writeln!(
                            wrong,
                            "{}:{} on {shards} shards: {} {what}",
                            file.name, case.line, case.sql
                        );
                    }
                    None if shards > 1 => {}
                    None if case.refused => refused += 1,
                    None => alike += 1,
                }
            }
        }
    }
    println!("{alike} answered alike, {refused} refused by name");
    assert!(wrong.is_empty(), "{different} differ, {alike} are alike, {refused} refused:\n{wrong}");
    assert!(alike >= ALIKE_MIN || std::env::var("WEIR_CORPUS").is_ok(), "{alike} are alike: too few");
}

/// Rows that are found by keys, by the tables of `conditions`.
const KEYED: &str = "
CREATE TABLE k (a integer NOT NULL, b integer NOT NULL, c integer, d text, e integer, PRIMARY KEY (a, b));
CREATE INDEX k_c ON k (c);
CREATE INDEX k_d_e ON k (d, e);
CREATE TABLE one (id integer PRIMARY KEY, c integer, d text);
CREATE INDEX one_c ON one (c);
-- rows
INSERT INTO k SELECT g / 7, g % 7, nullif(g % 11, 3), nullif(chr(97 + g % 5), 'd'), nullif(g % 13, 0) FROM generate_series(0, 139) g;
INSERT INTO one SELECT g, nullif(g % 6, 2), chr(97 + g % 4) FROM generate_series(1, 40) g;
";

/// Conditions by seed: AND, OR, IN, row values and comparisons with constants, over columns with indexes and without.
struct Conditions(u64);

impl Conditions {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn number(&mut self) -> String {
        match self.roll(25) {
            0 => "NULL".to_owned(),
            1 => "99999999999".to_owned(),
            _ => self.roll(14).to_string(),
        }
    }

    fn letter(&mut self) -> String {
        format!("'{}'", ["a", "b", "c", "z"][self.roll(4) as usize])
    }

    fn list(&mut self, of: fn(&mut Conditions) -> String) -> String {
        let count = 1 + self.roll(4);
        (0..count).map(|_| of(self)).collect::<Vec<_>>().join(", ")
    }

    fn leaf(&mut self, numbers: &[&str], letter: &str) -> String {
        let column = numbers[self.roll(numbers.len() as u64) as usize];
        let other = numbers[self.roll(numbers.len() as u64) as usize];
        match self.roll(10) {
            0 | 1 => format!("{column} = {}", self.number()),
            2 => format!("{column} IN ({})", self.list(Conditions::number)),
            3 => format!("{letter} = {}", self.letter()),
            4 => format!("{letter} IN ({})", self.list(Conditions::letter)),
            5 => format!("{column} {} {}", ["<", ">=", "<>"][self.roll(3) as usize], self.number()),
            6 | 7 => format!(
                "({column}, {other}) IN ({})",
                self.list(|of| format!("({}, {})", of.number(), of.number()))
            ),
            8 => format!("{column} = ANY (ARRAY[{}]::integer[])", self.list(|of| of.roll(14).to_string())),
            _ => format!("({column} = {} AND {other} = {})", self.number(), self.number()),
        }
    }

    fn tree(&mut self, depth: u64, numbers: &[&str], letter: &str) -> String {
        if depth == 0 || self.roll(4) == 0 {
            return self.leaf(numbers, letter);
        }
        let (left, right) = (self.tree(depth - 1, numbers, letter), self.tree(depth - 1, numbers, letter));
        match self.roll(9) {
            0..4 => format!("({left} OR {right})"),
            4..7 => format!("({left} AND {right})"),
            // A condition that both alternatives have.
            7 => {
                let both = self.leaf(numbers, letter);
                format!("(({both} AND {left}) OR ({right} AND {both}))")
            }
            _ => format!("NOT {left}"),
        }
    }

    fn statement(&mut self) -> String {
        let k = ["a", "b", "c", "e"];
        match self.roll(10) {
            0..5 => format!("SELECT a, b, c, d, e FROM k WHERE {}", self.tree(3, &k, "d")),
            5 => format!("SELECT a, b FROM k WHERE {} ORDER BY a, b LIMIT 5", self.tree(2, &k, "d")),
            6 => format!("SELECT count(*), sum(b), min(d) FROM k WHERE {}", self.tree(3, &k, "d")),
            7 => {
                let on = self.tree(1, &["k.a", "one.c", "one.id"], "one.d");
                let filter = self.tree(2, &["k.a", "k.b", "k.c", "one.id"], "k.d");
                format!("SELECT k.a, k.b, one.id FROM k JOIN one ON one.id = k.a AND {on} WHERE {filter}")
            }
            8 => {
                let filter = self.tree(1, &["k.e", "k.c"], "k.d");
                format!(
                    "SELECT k.a, k.b, one.id FROM k, one WHERE (one.id = k.a AND k.b = {} AND {filter}) OR (one.id = k.a AND one.c = {})",
                    self.number(),
                    self.number()
                )
            }
            _ => format!("SELECT a, b FROM k WHERE a = {} AND {}", self.roll(20), self.tree(2, &k, "d")),
        }
    }
}

#[test]
fn rows_found_by_keys_are_those_that_postgresql_finds() {
    let mut wrong = String::new();
    let mut different = 0;
    for shards in [1, 3] {
        let mut postgres = OnPostgres::start(KEYED);
        let mut weir = OnShards::start(KEYED, shards, &mut postgres.client);
        let mut conditions = Conditions(u64::from(shards));
        for line in 0..500 {
            let case = Case { line, sql: conditions.statement(), refused: false };
            if let Some(what) = check(&case, &mut postgres, &mut weir) {
                different += 1;
                if different <= 20 {
                    let _ = writeln!(wrong, "{line} on {shards} shards: {} {what}", case.sql);
                }
            }
        }
    }
    assert!(different == 0, "{different} differ:\n{wrong}");
}
