//! EXPLAIN: what a statement or a call costs with these arguments, and why, as a client is told it.

mod constants;

use crate::bank::Bank;
use postgres::error::SqlState;
use postgres::{Client as Driver, SimpleQueryMessage};

const SQL: &str = "
CREATE TABLE account (id integer PRIMARY KEY, owner varchar(20) NOT NULL, balance numeric(12,2) NOT NULL DEFAULT 0,
    opened timestamptz, tags text[], CHECK (balance >= -1000));
CREATE TABLE card (id integer PRIMARY KEY, account integer NOT NULL REFERENCES account, code text);
CREATE INDEX card_account ON card (account);
CREATE PROCEDURE deposit(a integer, amount numeric) LANGUAGE plpgsql AS $$
BEGIN UPDATE account SET balance = balance + abs(amount) WHERE id = a; END $$;
CREATE PROCEDURE pay(a integer, b integer, amount numeric) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE account SET balance = balance - amount WHERE id = a;
    UPDATE account SET balance = balance + amount WHERE id = b;
END $$;
CREATE PROCEDURE issue(c integer, a integer) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO card (id, account) VALUES (c, a); END $$;
CREATE PROCEDURE close_account(a integer) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM account WHERE id = a; END $$;
";

/// The lines of the plan.
fn lines(driver: &mut Driver, text: &str) -> String {
    let said = driver.simple_query(text).unwrap_or_else(|why| panic!("{text}: {why:?}"));
    let line = |one: &SimpleQueryMessage| match one {
        SimpleQueryMessage::Row(row) => Some(format!("{}\n", row.get("QUERY PLAN").unwrap())),
        _ => None,
    };
    said.iter().filter_map(line).collect()
}

/// Of the same connection, in this order. Times are left out by SUMMARY off; the first read of a coordinator is told to register itself,
/// so nothing is measured of it.
const STATEMENTS: &[&str] = &[
    "EXPLAIN (COORDINATION) CALL deposit(7, 5)",
    "EXPLAIN CALL pay(1, 2, 5)",
    "EXPLAIN (COORDINATION) CALL issue(5, 7)",
    "EXPLAIN (COORDINATION) CALL close_account(5)",
    "EXPLAIN SELECT * FROM account WHERE id = 3",
    "EXPLAIN SELECT * FROM account a JOIN card c ON c.account = a.id WHERE a.id = 3 AND a.owner = 'x'",
    "EXPLAIN (COORDINATION) SELECT count(*) FROM account",
    "EXPLAIN SELECT 1",
    "EXPLAIN (COORDINATION) INSERT INTO account (id, owner) VALUES (20, 'x')",
    "EXPLAIN (COORDINATION) UPDATE account SET balance = balance + 1 WHERE id = 3",
    "EXPLAIN UPDATE card SET code = 'x' WHERE account = 3",
    "EXPLAIN DELETE FROM card WHERE id IN (3, 4)",
    "EXPLAIN DECLARE c CURSOR FOR SELECT id FROM card",
    "EXPLAIN (ANALYZE, SUMMARY off) CALL pay(1, 2, 5)",
    "SELECT id FROM account",
    "EXPLAIN (ANALYZE, SUMMARY off) SELECT * FROM account",
    "EXPLAIN (ANALYZE, COORDINATION, SUMMARY off, FORMAT json) UPDATE account SET balance = balance + 1 WHERE id = 3",
    "PREPARE p (int) AS UPDATE account SET balance = 7 WHERE id = $1",
    "EXPLAIN (ANALYZE, TIMING off) EXECUTE p(1 + 1)",
    "BEGIN",
    "EXPLAIN (ANALYZE, SUMMARY off) CALL pay(1, 2, 5)",
    "EXPLAIN (ANALYZE, SUMMARY off) SELECT balance FROM account WHERE id = 1",
    "ROLLBACK",
];

/// `WEIR_UPDATE=1` writes the file anew.
#[test]
fn what_a_call_or_statement_costs_is_told() {
    let bank = Bank::of(SQL, |_| ());
    let mut driver = bank.driver();
    let mut found = String::new();
    for text in STATEMENTS {
        match text.starts_with("EXPLAIN") {
            true => found += &format!("{text}\n\n{}\n", lines(&mut driver, text)),
            false => driver.batch_execute(text).unwrap(),
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/explain.txt");
    if std::env::var_os("WEIR_UPDATE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    assert!(found == expected, "{found}");
    // A statement that is run has happened; in a transaction, as a part of it.
    let balances = driver.query("SELECT balance::text FROM account WHERE id < 4 ORDER BY id", &[]).unwrap();
    let balances: Vec<&str> = balances.iter().map(|row| row.get(0)).collect();
    assert_eq!(balances, ["5.00", "7.00", "11.00"]);
    let timed = lines(&mut driver, "EXPLAIN ANALYZE SELECT 1");
    assert!(timed.contains("Execution Time: ") && timed.ends_with(" ms\n"), "{timed}");
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let bank = Bank::of(SQL, |_| ());
    let mut driver = bank.driver();
    let mut check = |text: &str, state: SqlState, message: &str| {
        let error = driver.simple_query(text).expect_err(text);
        let error = error.as_db_error().unwrap();
        assert_eq!((error.code(), error.message()), (&state, message), "{text}");
    };
    check("EXPLAIN (nothing) SELECT 1", SqlState::SYNTAX_ERROR, "unrecognized EXPLAIN option \"nothing\"");
    check("EXPLAIN BEGIN", SqlState::SYNTAX_ERROR, "syntax error at or near \"BEGIN\"");
    check(
        "EXPLAIN (COORDINATION) CALL nothing()",
        SqlState::UNDEFINED_FUNCTION,
        "procedure nothing does not exist",
    );
    check("EXPLAIN SELECT a FROM account", SqlState::UNDEFINED_COLUMN, "column \"a\" does not exist");
    check(
        "EXPLAIN EXECUTE p",
        SqlState::INVALID_SQL_STATEMENT_NAME,
        "prepared statement \"p\" does not exist",
    );
    check(
        "SET default_transaction_read_only = on; EXPLAIN ANALYZE UPDATE account SET owner = 'x'",
        SqlState::READ_ONLY_SQL_TRANSACTION,
        "cannot execute UPDATE in a read-only transaction",
    );
    // With parameters of the extended protocol.
    let rows = driver.query("EXPLAIN UPDATE account SET owner = 'x' WHERE id = $1", &[&3]).unwrap();
    assert_eq!(rows[1].get::<_, &str>(0), "  Shards: 0 of 3");
}
