//! Constants are worked out before rows are looked at: conditions of a generator, over a table with rows and one without, give the rows or the
//! error that they give in PostgreSQL.

use postgres::{Client as Driver, NoTls};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weir_bench::postgres::Server;

use crate::alone::Alone;
use crate::answers::answer;

const SCHEMA: &str = "
CREATE TABLE filled (id int PRIMARY KEY, x int, b boolean, s text);
CREATE TABLE bare (id int PRIMARY KEY, x int, b boolean, s text);
INSERT INTO filled VALUES (1, 0, true, 'a'), (2, 3, NULL, ''), (3, NULL, false, 'xyz');";

const CONDITIONS: usize = 600;

struct Generator(Xoshiro256PlusPlus);

impl Generator {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    fn one<'s>(&mut self, of: &[&'s str]) -> &'s str {
        of[self.below(of.len())]
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.one(&["0", "1", "2", "-1", "NULL::int", "x", "id"]).to_owned();
        }
        let (left, right) = (self.number(depth - 1), self.number(depth - 1));
        match self.below(12) {
            0 => format!("({left} + {right})"),
            1 => format!("({left} - {right})"),
            2 => format!("({left} * {right})"),
            3 | 4 => format!("({left} / {right})"),
            5 => format!("({left} % {right})"),
            6 => format!("coalesce({left}, {right})"),
            7 => format!("CASE WHEN {} THEN {left} ELSE {right} END", self.truth(depth - 1)),
            8 => format!("nullif({left}, {right})"),
            9 => format!("abs({left})"),
            10 => format!("length({})", self.one(&["'abc'", "s", "NULL", "repeat('ab', 3)", "upper('x')"])),
            _ => self.one(&["0", "1", "x", "2147483647"]).to_owned(),
        }
    }

    fn truth(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .one(&["true", "false", "NULL", "b", "x = 1", "1 = 1", "1 = 2", "1/0 = 1", "NULL > 1/0"])
                .to_owned();
        }
        let parts = 2 + self.below(2);
        match self.below(9) {
            0..=2 => self.joined(" AND ", parts, depth),
            3..=4 => self.joined(" OR ", parts, depth),
            5 => format!("NOT ({})", self.truth(depth - 1)),
            6 => format!(
                "({}) IS {}",
                self.truth(depth - 1),
                self.one(&["NULL", "NOT NULL", "TRUE", "NOT FALSE"])
            ),
            7 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.truth(depth - 1),
                self.truth(depth - 1),
                self.truth(depth - 1)
            ),
            _ => {
                let (left, right) = (self.number(depth - 1), self.number(depth - 1));
                format!("{left} {} {right}", self.one(&["=", "<", ">=", "<>", "IS DISTINCT FROM"]))
            }
        }
    }

    fn joined(&mut self, word: &str, parts: usize, depth: usize) -> String {
        let parts: Vec<String> = (0..parts).map(|_| format!("({})", self.truth(depth - 1))).collect();
        parts.join(word)
    }
}

/// A statement on the table, and one that brings back what it has changed.
fn statements(condition: &str, number: &str) -> Vec<String> {
    ["filled", "bare"]
        .iter()
        .flat_map(|table| {
            [
                format!("SELECT id FROM {table} WHERE {condition} ORDER BY id"),
                format!("SELECT id, {number} FROM {table} ORDER BY id"),
                format!(
                    "SELECT a.id, c.id FROM {table} a LEFT JOIN filled c ON a.id = c.x AND {} ORDER BY 1, 2",
                    aliased(condition)
                ),
                format!("BEGIN; DELETE FROM {table} WHERE {condition}; ROLLBACK"),
                format!("BEGIN; UPDATE {table} SET x = {number} WHERE {condition}; ROLLBACK"),
            ]
        })
        .collect()
}

/// Its columns are those of `a`.
fn aliased(condition: &str) -> String {
    let mut words = String::new();
    for piece in condition.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_alphanumeric());
        if ["x", "b", "s", "id"].contains(&word) {
            words.push_str("a.");
        }
        words.push_str(piece);
    }
    words.replace("'a.x'", "'x'")
}

#[test]
fn constants_are_worked_out_before_rows_are_looked_at() {
    let postgres = Server::start().unwrap();
    let mut oracle = Driver::connect(&postgres.connection_string(), NoTls).unwrap();
    oracle.batch_execute(SCHEMA).unwrap();
    let servers = [1, 3].map(Alone::start);
    let mut own: Vec<Driver> = servers.iter().map(Alone::driver).collect();
    own.iter_mut().for_each(|driver| driver.batch_execute(SCHEMA).unwrap());
    let mut generator = Generator(Xoshiro256PlusPlus::seed_from_u64(24));
    let (mut different, mut failed, mut told) = (Vec::new(), 0, 0);
    for _ in 0..CONDITIONS {
        let depth = 1 + generator.below(3);
        let (condition, number) = (generator.truth(depth), generator.number(depth));
        for text in statements(&condition, &number) {
            let expected = said(&mut oracle, &text);
            failed += usize::from(expected.starts_with("22"));
            told += 1;
            for (at, driver) in own.iter_mut().enumerate() {
                let found = said(driver, &text);
                // Which of two errors comes first is for whoever looks first.
                let both_fail = found.starts_with("22") && expected.starts_with("22");
                if found != expected && !both_fail {
                    different.push(format!("{at}: {text}\nPostgreSQL: {expected}\nWeir:       {found}"));
                }
            }
        }
    }
    println!("{told} statements, {failed} fail");
    assert!(failed * 10 > told && failed * 2 < told, "{failed} of {told}");
    assert!(
        different.is_empty(),
        "{} of {told}\n{}",
        different.len(),
        different[..different.len().min(20)].join("\n")
    );
}

fn said(driver: &mut Driver, text: &str) -> String {
    let said = answer(driver, text);
    if text.starts_with("BEGIN") {
        // After an error it is still open.
        answer(driver, "ROLLBACK");
    }
    said
}

/// Constant folding of PostgreSQL's planner, statement by statement.
const STATEMENTS: &[&str] = &[
    "SELECT id FROM bare WHERE 1/0 = 1",
    "SELECT id FROM bare WHERE NULL > 1/0",
    "SELECT id FROM filled WHERE false AND 1/0 = 1",
    "SELECT id FROM filled WHERE 1/0 = 1 AND false",
    "SELECT id FROM filled WHERE 1 / x = 1 AND false",
    "SELECT id FROM filled WHERE 1 / x = 1 OR true ORDER BY id",
    "SELECT id FROM filled WHERE 1 / x = 1 AND 1 = 2",
    "SELECT id FROM filled WHERE 1 / x = 1 AND 1 = 2 + 3",
    "SELECT id FROM filled WHERE NULL AND 1 / x = 1",
    "SELECT 1/0 FROM bare",
    "SELECT CASE WHEN x = 5 THEN 1/0 ELSE 2 END FROM filled",
    "SELECT CASE WHEN true THEN 2 ELSE 1/0 END FROM filled",
    "SELECT coalesce(1, 1/0) FROM filled",
    "SELECT coalesce(x, 1/0) FROM bare",
    "SELECT id FROM bare WHERE EXISTS (SELECT 1 FROM filled WHERE 1/0 = 1)",
    "SELECT id FROM bare WHERE x = (SELECT 1/0)",
    "UPDATE bare SET x = 1/0",
    "DELETE FROM bare WHERE 1 % 0 = 0",
    "UPDATE filled SET x = 1/0 WHERE false",
    "UPDATE filled SET x = 7 WHERE 1 / x = 1 AND false",
    "SELECT id FROM bare WHERE sqrt(-1) = 1",
    "SELECT id FROM bare WHERE 2147483647 + 1 > 0",
    "SELECT id FROM bare WHERE ln(0.0) = 1",
    "SELECT id FROM bare WHERE now() > '2000-01-01' AND 1/0 = 1",
    "SELECT id FROM bare WHERE x = ANY (ARRAY[1, 1/0])",
    "SELECT id FROM bare WHERE x IN (1, 1/0)",
    "SELECT id FROM bare LIMIT 1/0",
    "INSERT INTO bare SELECT id, 1/0 FROM filled WHERE false",
    "PREPARE p AS SELECT id FROM bare WHERE 1/0 = 1",
    "EXECUTE p",
    "PREPARE q AS SELECT id FROM filled WHERE x = 3 AND 1 = 1 + 0",
    "EXECUTE q",
    // Texts of one shape, of which the first does not fail.
    "SELECT id FROM bare WHERE 1/1 = 1",
    "SELECT id FROM bare WHERE 1/2 = 1",
    "SELECT id FROM bare WHERE 1/0 = 1",
    "SELECT id FROM bare WHERE x = 4 / 2",
    "SELECT id FROM filled WHERE x = 6 / 2",
    "SELECT id FROM filled WHERE x = 6 / 6",
    "SELECT id FROM filled WHERE x = -4 / 2",
    "SELECT id FROM filled WHERE id = 3 - 1",
    "SELECT id FROM filled WHERE id = 3 - 2",
];

#[test]
fn constants_fail_where_the_planner_meets_them() {
    let postgres = Server::start().unwrap();
    let mut oracle = Driver::connect(&postgres.connection_string(), NoTls).unwrap();
    oracle.batch_execute(SCHEMA).unwrap();
    let mut different = Vec::new();
    let expected: Vec<String> = STATEMENTS.iter().map(|text| answer(&mut oracle, text)).collect();
    for shards in [1, 3] {
        let server = Alone::start(shards);
        let mut own = server.driver();
        own.batch_execute(SCHEMA).unwrap();
        for (text, expected) in STATEMENTS.iter().zip(&expected) {
            let found = answer(&mut own, text);
            if found != *expected {
                different
                    .push(format!("{shards} shards: {text}\nPostgreSQL: {expected}\nWeir:       {found}"));
            }
        }
        // A join over several shards is fetched from its tables all the same.
        let join = "SELECT a.id FROM filled a, bare c WHERE NULL";
        let alone = ["SELECT id FROM filled WHERE false", "DELETE FROM filled WHERE x = 1 AND 1 = 2"];
        for text in alone.into_iter().chain((shards == 1).then_some(join)) {
            let plan = answer(&mut own, &format!("EXPLAIN {text}"));
            assert!(plan.contains("filled: no rows") && !plan.contains("all rows"), "{text}: {plan}");
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
