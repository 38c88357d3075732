//! Statements and procedures that no cheaper mechanism keeps run under locks (docs/internals/admission.md): nothing that PostgreSQL runs is
//! refused for want of coordination, and what is not proved is checked before it commits.

use crate::alone::Alone;
use crate::answers::answer;
use crate::conversation::compare;
use crate::directory::Directory;

/// Statements by themselves beside procedures of the same tables.
const BESIDE_PROCEDURES: &str = r#"
CREATE TABLE invoice_counter (year int PRIMARY KEY, last int NOT NULL)
CREATE TABLE invoices (year int, no int, words text, PRIMARY KEY (year, no))
CREATE PROCEDURE invoice(y int, w text) LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN UPDATE invoice_counter SET last = last + 1 WHERE year = y RETURNING last INTO n; INSERT INTO invoices VALUES (y, n, w); END $$
INSERT INTO invoice_counter VALUES (2026, 0)
CALL invoice(2026, 'a')
CALL invoice(2026, 'b')
INSERT INTO invoices VALUES (2026, 3, 'by hand')
UPDATE invoice_counter SET last = last + 1 WHERE year = 2026
CALL invoice(2026, 'c')
UPDATE invoice_counter SET last = 10 WHERE year = 2026
DELETE FROM invoices WHERE no = 2
INSERT INTO invoice_counter VALUES (2027, 0), (2028, 5), (2029, 0)
DELETE FROM invoice_counter WHERE year = 2028
CALL invoice(2028, 'nobody')
CALL invoice(2027, 'first')
SELECT * FROM invoices ORDER BY year, no
SELECT * FROM invoice_counter ORDER BY year
CREATE TABLE account (id int PRIMARY KEY, owner int NOT NULL, balance int NOT NULL)
CREATE TABLE frozen (owner int PRIMARY KEY, why text)
CREATE PROCEDURE take(a int, n int) LANGUAGE plpgsql AS $$ DECLARE b int; BEGIN SELECT balance INTO b FROM account WHERE id = a FOR UPDATE; IF b < n THEN RAISE EXCEPTION 'too little'; END IF; UPDATE account SET balance = balance - n WHERE id = a; END $$
CREATE FUNCTION total(o int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT sum(balance) FROM account WHERE owner = o); END $$
INSERT INTO account SELECT g, g % 3, 100 FROM generate_series(1, 9) g
CALL take(1, 30)
CALL take(1, 100)
UPDATE account SET balance = balance + 5 WHERE owner = 1
UPDATE account SET balance = (SELECT max(balance) FROM account) WHERE id = 2
UPDATE account SET balance = CASE WHEN balance > 100 THEN 100 ELSE balance END
DELETE FROM account WHERE balance < (SELECT avg(balance) FROM account)
INSERT INTO account (id, owner, balance) SELECT id + 100, owner, balance FROM account WHERE owner = 2
SELECT total(1)
SELECT total(2)
BEGIN
UPDATE account SET owner = 2 WHERE owner = 1
CALL take(4, 1)
SELECT total(2)
ROLLBACK
BEGIN
CALL take(4, 1)
UPDATE account SET balance = 0 WHERE id = 4
SAVEPOINT s
CALL take(4, 1)
ROLLBACK TO s
UPDATE account SET balance = 3 WHERE id = 4
COMMIT
SELECT * FROM account ORDER BY id
DO $$ BEGIN IF (SELECT count(*) FROM account) > 3 THEN UPDATE account SET balance = balance + 1 WHERE id = 4; END IF; END $$
SELECT balance FROM account WHERE id = 4
"#;

#[test]
fn statements_beside_procedures_do_what_they_do_on_postgresql() {
    compare(BESIDE_PROCEDURES);
}

/// Assertions of a shop: each statement is checked before it commits, and nothing of one that violates any remains.
#[test]
fn what_is_not_proved_is_checked_before_the_commit() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        let mut own = weir.driver();
        own.batch_execute(
            "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
             CREATE TABLE entry (id int PRIMARY KEY, account int NOT NULL, amount int NOT NULL);
             INSERT INTO account VALUES (1, 0), (2, 5), (3, 0); INSERT INTO entry VALUES (1, 2, 5);",
        )
        .unwrap();
        let conversation = [
            (
                "CREATE ASSERTION balanced CHECK (NOT EXISTS (SELECT 1 FROM account a
                 WHERE a.balance <> (SELECT coalesce(sum(e.amount), 0) FROM entry e WHERE e.account = a.id)))",
                "(0)",
            ),
            ("INSERT INTO entry VALUES (2, 1, 7)", "23514 assertion \"balanced\" is violated by some row | Failing rows contain (id, balance) = (1, 0)."),
            ("INSERT INTO entry VALUES (2, 9, 7)", "(1)"),
            ("UPDATE account SET balance = 6 WHERE id = 2", "23514 assertion \"balanced\" is violated by some row | Failing rows contain (id, balance) = (2, 6)."),
            ("SELECT balance FROM account WHERE id = 2", "5 (1)"),
            // Both halves in one transaction: it is checked when that commits.
            ("BEGIN", "(0)"),
            ("INSERT INTO entry VALUES (3, 1, 7)", "(1)"),
            ("UPDATE account SET balance = 7 WHERE id = 1", "(1)"),
            ("COMMIT", "(0)"),
            ("BEGIN", "(0)"),
            ("INSERT INTO entry VALUES (4, 3, 8)", "(1)"),
            ("SAVEPOINT s", "(0)"),
            ("UPDATE account SET balance = 9 WHERE id = 3", "(1)"),
            ("ROLLBACK TO s", "(0)"),
            ("COMMIT", "23514 assertion \"balanced\" is violated by some row | Failing rows contain (id, balance) = (3, 0)."),
            ("SELECT count(*) FROM entry WHERE id = 4", "0 (1)"),
            ("INSERT INTO account VALUES (9, 7)", "(1)"),
            ("INSERT INTO account VALUES (10, 1)", "23514 assertion \"balanced\" is violated by some row | Failing rows contain (id, balance) = (10, 1)."),
            // A procedure that is not shown to keep it checks it, whichever comes first.
            (
                "CREATE PROCEDURE book(e int, a int, n int, m int) LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO entry VALUES (e, a, n); UPDATE account SET balance = balance + m WHERE id = a; END $$",
                "(0)",
            ),
            ("CALL book(20, 3, 4, 4)", "(0)"),
            ("CALL book(21, 3, 4, 5)", "23514 assertion \"balanced\" is violated by some row | Failing rows contain (id, balance) = (3, 9)."),
            ("BEGIN", "(0)"),
            ("CALL book(21, 3, 4, 5)", "(0)"),
            ("UPDATE account SET balance = balance - 1 WHERE id = 3", "(1)"),
            ("COMMIT", "(0)"),
            ("SELECT * FROM account ORDER BY id", "1|7 2|5 3|8 9|7 (4)"),
            ("CREATE ASSERTION few CHECK ((SELECT count(*) FROM entry) < 7)", "(0)"),
            ("INSERT INTO entry VALUES (30, 100, 0)", "(1)"),
            ("INSERT INTO entry VALUES (31, 100, 0)", "23514 assertion \"few\" is false of the rows that there are"),
            ("BEGIN", "(0)"),
            ("INSERT INTO entry VALUES (31, 100, 0)", "(1)"),
            (
                "DROP ASSERTION few",
                "55006 the schema cannot be changed while assertions are to be checked for earlier statements of the transaction",
            ),
            ("ROLLBACK", "(0)"),
            ("DROP ASSERTION few", "(0)"),
            ("INSERT INTO entry VALUES (31, 100, 0)", "(1)"),
        ];
        for (text, expected) in conversation {
            assert_eq!(answer(&mut own, text), expected, "{shards} shards: {text}");
        }
    }
}

const WARDS: &str = "
CREATE TABLE ward (id int PRIMARY KEY);
CREATE TABLE doctor (id int PRIMARY KEY, ward int NOT NULL, on_call boolean NOT NULL);
INSERT INTO ward SELECT g FROM generate_series(1, 20) g;
INSERT INTO doctor SELECT g, (g + 1) / 2, true FROM generate_series(1, 40) g;
CREATE ASSERTION someone CHECK (NOT EXISTS (SELECT 1 FROM ward w
    WHERE NOT EXISTS (SELECT 1 FROM doctor d WHERE d.ward = w.id AND d.on_call)));
CREATE PROCEDURE go_off(d int, other int) LANGUAGE plpgsql AS $$
DECLARE is_there boolean;
BEGIN
    SELECT on_call INTO is_there FROM doctor WHERE id = other;
    IF NOT is_there THEN RAISE EXCEPTION 'nobody else'; END IF;
    UPDATE doctor SET on_call = false WHERE id = d;
END $$;
";

/// Two doctors of each ward go off at the same time, by a statement or by a call: one of them stays.
#[test]
fn two_that_are_right_alone_are_never_wrong_together() {
    for shards in [1, 3] {
        let weir = Alone::start(shards);
        weir.driver().batch_execute(WARDS).unwrap();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let mut own = weir.driver();
                scope.spawn(move || {
                    for ward in 1..=20 {
                        let (doctor, other) = (2 * ward - worker % 2, 2 * ward - 1 + worker % 2);
                        let text = match worker < 2 {
                            true => format!("UPDATE doctor SET on_call = false WHERE id = {doctor}"),
                            false => format!("CALL go_off({doctor}, {other})"),
                        };
                        let said = answer(&mut own, &text);
                        let is_told = ["(", "23514", "P0001"].iter().any(|one| said.starts_with(one));
                        assert!(is_told, "{text}: {said}");
                    }
                });
            }
        });
        let left = answer(&mut weir.driver(), "SELECT count(*) FROM doctor WHERE on_call");
        assert_eq!(left, "20 (1)", "{shards} shards");
    }
}

/// A directory's procedures that were planned for a world without a statement: the statement waits for those over several shards, and keeps
/// them out.
#[test]
fn a_statement_that_endangers_a_procedure_runs_by_itself() {
    let files = [
        (
            "schema.sql",
            "CREATE TABLE parent (id int PRIMARY KEY, open boolean NOT NULL);
             CREATE TABLE child (id int PRIMARY KEY, parent int NOT NULL REFERENCES parent);",
        ),
        (
            "procedures.sql",
            "CREATE PROCEDURE adopt(c int, p int) LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO child VALUES (c, p); END $$;
             CREATE PROCEDURE put(p int) LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO parent VALUES (p, true); END $$;",
        ),
    ];
    for shards in ["1", "3"] {
        let directory = Directory::with(&format!("adopted-{shards}"), &files);
        let weir = Alone::with(&["--shards", shards, &directory.0.display().to_string()]);
        let mut own = weir.driver();
        for parent in 1..=30 {
            assert_eq!(answer(&mut own, &format!("CALL put({parent})")), "(0)");
        }
        std::thread::scope(|scope| {
            for worker in 0..2 {
                let mut own = weir.driver();
                scope.spawn(move || {
                    for parent in 1..=30 {
                        let said =
                            answer(&mut own, &format!("CALL adopt({}, {parent})", 2 * parent + worker));
                        assert!(said.starts_with('(') || said.starts_with("23503"), "{said}");
                    }
                });
            }
            scope.spawn(|| {
                let mut own = weir.driver();
                for parent in (1..=30).rev() {
                    let said = answer(&mut own, &format!("DELETE FROM parent WHERE id = {parent}"));
                    assert!(said.starts_with('(') || said.starts_with("23503"), "{said}");
                }
            });
        });
        let orphans =
            "SELECT count(*) FROM child c WHERE NOT EXISTS (SELECT 1 FROM parent p WHERE p.id = c.parent)";
        assert_eq!(answer(&mut own, orphans), "0 (1)", "{shards} shards");
    }
}
